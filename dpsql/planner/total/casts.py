"""CAST: what an operand must fit before it may be printed; TRY_CAST, which never fails."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from fractions import Fraction

from dpsql.core.domains import Interval
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DATE, FLOAT, TIME, TIMESTAMP, SqlType
from dpsql.expressions.known import (
    NULL,
    Known,
    Ruled,
    always,
    fits,
    floating,
    meet,
    nothing,
    of_type,
    proved,
    rounded,
    within,
)

DAY = 86_400_000_000
"""[microseconds]"""


def cast(value: Known, target: SqlType) -> Ruled | None:
    """CAST(value AS target); None where no rule says what it does."""
    if value.sqltype == target:
        return always(Known(target, value.limits, value.null, least=value.least))
    found = converted(value, target)
    if value.sqltype == NULL:
        # no value at all: any limits hold
        return always(Known(target, None if target.is_text else Interval(Fraction(1), Fraction(1))))
    if target.is_text:
        return always(Known(target, None, value.null))
    if not (_computes(value.sqltype) and _computes(target)):
        return None
    if _holds_all(value.sqltype, target):
        return always(found)
    if target.is_counted:
        return proved(found) if value.sqltype.is_temporal and value.limits is not None else nothing(of_type(target))
    if target == FLOAT:
        return proved(found) if found.limits is not None else nothing(found)
    known = value.limits is not None and not value.sqltype.is_text
    return proved(found) if known and fits(value.limits, target) else nothing(found)


def try_cast(value: Known, target: SqlType) -> Ruled | None:
    """TRY_CAST(value AS target): NULL where there is no such value."""
    if not (_computes(value.sqltype) and _computes(target)):
        return None
    if (value.sqltype, target) == (TIMESTAMP, TIME):
        # of an infinite one DuckDB 1.4 raises all the same
        return cast(value, target)
    found = converted(value, target)
    null = value.null or not (_holds_all(value.sqltype, target) or fits(value.limits, target))
    return always(Known(found.sqltype, found.limits, null, least=found.least))


def converted(value: Known, target: SqlType) -> Known:
    """Known value of a conversion, where it gives one at all."""
    limits, source = value.limits, value.sqltype
    if source.is_text or target.is_text or source == NULL:
        limits = None
    if target.is_float:
        return Known(target, floating(limits, target), value.null, least=value.least)
    if target.range is not None:
        inside = rounded(limits, target.scale) if limits is not None else None
        return Known(target, meet(target.range, inside), value.null)
    if limits is not None and target == DATE and source == TIMESTAMP:
        return Known(target, Interval(Fraction(limits.lower // DAY), Fraction(limits.upper // DAY)), value.null)
    if limits is not None and target == TIMESTAMP and source == DATE:
        return Known(target, Interval(limits.lower * DAY, limits.upper * DAY), value.null)
    return of_type(target, null=value.null)


def _computes(sqltype: SqlType) -> bool:
    return sqltype.is_number or sqltype.is_counted or sqltype.is_text or sqltype in (BOOLEAN, NULL)


def _holds_all(source: SqlType, target: SqlType) -> bool:
    """True if a type has a value for every value of another one."""
    if source == target or target.is_text:
        return True
    if source.is_text or source.is_counted or target.is_counted:
        return source == TIMESTAMP and target == DATE
    if target == BOOLEAN:
        return source.is_number
    if target.is_float:
        return target != FLOAT or not source.is_float
    if source == BOOLEAN:
        return target.is_integer or target.width > target.scale
    return source.range is not None and within(rounded(source.range, target.scale), target.range)


def constant(text: str, sqltype: SqlType) -> Known | None:
    """A quoted constant of a type; None where the engine might not read it."""
    if sqltype.is_float and text.lower() == "nan":
        return Known(sqltype, None, null=False)
    try:
        if sqltype == DATE:
            days = Fraction((date.fromisoformat(text) - date(1970, 1, 1)).days)
            return Known(sqltype, Interval(days, days), null=False)
        if sqltype == TIME:
            of_day = datetime.combine(date(1970, 1, 1), time.fromisoformat(text)) - datetime(1970, 1, 1)
            place = Fraction(of_day // timedelta(microseconds=1))
            return Known(sqltype, Interval(place, place), null=False)
        if sqltype == TIMESTAMP:
            moment = Fraction((datetime.fromisoformat(text) - datetime(1970, 1, 1)) // timedelta(microseconds=1))
            return Known(sqltype, Interval(moment, moment), null=False)
    except ValueError:
        return None
    return None


def boolean(value: Known) -> bool:
    """True if a value may stand as a condition."""
    return value.sqltype in (BOOLEAN, NULL)


def whole(value: Known) -> Ruled | None:
    """The BIGINT that a position or a number of values is."""
    return cast(value, BIGINT) if value.sqltype.is_integer else None
