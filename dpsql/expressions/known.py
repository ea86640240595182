"""Knowledge of the checker about a value: its type in the engine, and an interval that holds it whatever the data
holds.

A second derivation, from the printed text and the declared column types alone: it shares no conclusion with the algebra that printed
it, so that a proof which was wrong there is not believed here (rule 45).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from dpsql.core.domains import LARGEST_DOUBLE, Interval
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DOUBLE, FLOAT, HUGEINT, INTEGER, SqlType, decimal

ROWS = 2**50
"""The most rows that anything is added up over: at 10^10 rows a second an engine is busy for 31 hours with them."""
NULL, LIST, SPAN = SqlType("NULL"), SqlType("LIST"), SqlType("INTERVAL")


@dataclass(frozen=True, slots=True)
class Known:
    """A value of the printed text.

    sqltype  in the engine; of an INTERVAL the limits are microseconds
    limits   hold every value that is not NULL, dates in days and timestamps in microseconds; None: it may also be NaN, infinite or
             anything that its type has
    null     whether it can be NULL
    literal  whether it is a bare integer in the text, which takes on the type of what it meets
    least    of a number without limits: what it is not below, if it is not NaN; "" where nothing is known
    element  of a list
    word     of a constant text
    """

    sqltype: SqlType
    limits: Interval | None = None
    null: bool = True
    literal: bool = False
    least: str = ""
    element: Known | None = None
    word: str | None = None


NOTHING = Known(DOUBLE, Interval(Fraction(1), Fraction(1)))
"""Stands for a bare NULL: a value that every function of numbers has a result for."""


@dataclass(frozen=True, slots=True)
class Ruled:
    """Result of an operator: its type and interval.

    by      "always": it raises on no value of these types; "proof": the limits of each operand and of the result say so; "nothing":
            it may raise on some value, and then a guard makes NULL of it
    veiled  whether the engine may hold wrong limits of it, by which it decides conditions unseen: a zero is added, which hides them
    """

    known: Known
    by: Literal["always", "proof", "nothing"]
    veiled: bool = False


def always(known: Known) -> Ruled:
    return Ruled(known, "always")


def proved(known: Known) -> Ruled:
    return Ruled(known, "proof")


def nothing(known: Known) -> Ruled:
    return Ruled(known, "nothing")


def decided(known: Known, proof: bool) -> Ruled:
    return Ruled(known, "proof" if proof else "nothing")


def of_type(sqltype: SqlType, *, null: bool = True) -> Known:
    """Anything that a type holds."""
    if sqltype == BOOLEAN:
        return Known(sqltype, Interval(Fraction(0), Fraction(1)), null)
    return Known(sqltype, sqltype.range, null)


def integer(number: int) -> Known:
    """A bare integer."""
    for sqltype in (INTEGER, BIGINT, HUGEINT):
        if sqltype.range is not None and number in sqltype.range:
            return Known(sqltype, Interval(Fraction(number), Fraction(number)), null=False, literal=True)
    return Known(SqlType("UNKNOWN"), None)


def within(limits: Interval | None, outer: Interval | None) -> bool:
    return limits is not None and outer is not None and outer.lower <= limits.lower and limits.upper <= outer.upper


def union(first: Interval | None, second: Interval | None) -> Interval | None:
    if first is None or second is None:
        return None
    return Interval(min(first.lower, second.lower), max(first.upper, second.upper))


def meet(first: Interval | None, second: Interval | None) -> Interval | None:
    """Intersection of two intervals; the first where they allow nothing in common."""
    if first is None or second is None:
        return first or second
    lower, upper = max(first.lower, second.lower), min(first.upper, second.upper)
    return Interval(lower, upper) if lower <= upper else first


def fits(limits: Interval | None, sqltype: SqlType) -> bool:
    """True if every value of an interval is one of an exact type, after rounding to its grid. HUGEINT's least is left out."""
    held = sqltype.range
    if limits is None or held is None:
        return False
    if sqltype == HUGEINT:
        held = Interval(-held.upper, held.upper)
    return within(rounded(limits, sqltype.scale), held)


def rounded(limits: Interval, scale: int) -> Interval:
    """To the nearest values of a grid, a half either way."""
    grid, half = 10**scale, Fraction(1, 2)
    lower, upper = math.ceil(limits.lower * grid - half), math.floor(limits.upper * grid + half)
    return Interval(Fraction(lower, grid), Fraction(upper, grid))


def floating(limits: Interval | None, sqltype: SqlType = DOUBLE) -> Interval | None:
    """Interval after one rounding to a floating-point type; None where that may be infinite."""
    if limits is None:
        return None
    digits, largest = (2**22, Fraction(2**127)) if sqltype == FLOAT else (2**50, LARGEST_DOUBLE / 2)
    tiny = Fraction(1, 2**140) if sqltype == FLOAT else Fraction(1, 2**1000)
    lower, upper = (x - abs(x) / digits - tiny for x in (limits.lower, -limits.upper))
    found = Interval(lower, -upper)
    return found if max(-found.lower, found.upper) < largest else None


def common(first: Known, second: Known) -> SqlType | None:
    """The type in which the engine puts two values beside each other; None where a conversion could fail on some value.

    Where versions of the engine differ, the narrower type.
    """
    a, b = first.sqltype, second.sqltype
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    if a.is_number and b.is_number:
        return _common_number(first, second)
    return None


def _common_number(first: Known, second: Known) -> SqlType | None:
    a, b = first.sqltype, second.sqltype
    if a.is_float or b.is_float:
        return DOUBLE if DOUBLE in (a, b) or not (a.is_float and b.is_float) else FLOAT
    if a.is_integer and b.is_integer:
        return _common_integer(first, second)
    a, b = (_as_decimal(x) for x in (first, second))
    scale, whole = max(a.scale, b.scale), max(a.width - a.scale, b.width - b.scale)
    return decimal(whole + scale, scale) if whole + scale <= 38 else None


def _common_integer(first: Known, second: Known) -> SqlType:
    for one, other in ((first, second), (second, first)):
        if one.literal and not other.literal and within(one.limits, other.sqltype.range):
            return other.sqltype
    held = union(first.sqltype.range, second.sqltype.range)
    for sqltype in (first.sqltype, second.sqltype, *(SqlType(n) for n in ("SMALLINT", "INTEGER", "BIGINT"))):
        if within(held, sqltype.range):
            return sqltype
    return HUGEINT


def _as_decimal(known: Known) -> SqlType:
    """An integer beside a decimal; a bare one is not narrower than the engine makes it."""
    if known.sqltype.is_decimal:
        return known.sqltype
    held = known.limits if known.literal else known.sqltype.range
    assert held is not None
    digits = len(str(int(max(abs(held.lower), abs(held.upper)))))
    return decimal(min(38, max(digits, 10) if known.literal else digits), 0) if digits <= 38 else decimal(39, 0)


def either(values: list[Known]) -> Known | None:
    """One of several values, as CASE and COALESCE choose."""
    found = values[0]
    for value in values[1:]:
        sqltype = common(found, value)
        if sqltype is None:
            return None
        limits = value.limits if found.sqltype == NULL else found.limits if value.sqltype == NULL else None
        if NULL not in (found.sqltype, value.sqltype):
            limits = union(found.limits, value.limits)
        elements = [k.element for k in (found, value) if k.element is not None]
        element = either(elements) if elements else None
        if len(elements) == 2 and element is None:
            return None
        found = Known(sqltype, limits, found.null or value.null, found.literal and value.literal, element=element)
    return replace(found, limits=floating(found.limits, found.sqltype)) if found.sqltype.is_float else found
