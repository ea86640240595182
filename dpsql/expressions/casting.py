"""CAST, TRY_CAST and ::, all of them total: what DuckDB could not convert is NULL."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Categories, Domain, Interval, interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import TIME, TIMESTAMP, SqlType
from dpsql.expressions.conversion import decimal_of, scaled
from dpsql.expressions.literals import literal, read_text
from dpsql.expressions.scalar import NULL_TYPE, Scalar, finite_hull
from dpsql.sql.nodes import Bare, Call, Case, Cast, Node

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_WORD = re.compile(r"(?!inf|nan)[a-z][a-z _-]*|", re.IGNORECASE)
"""Text that the engine reads as no number, not even as an infinite one."""


def cast(scalar: Scalar, sqltype: SqlType) -> Scalar:
    """The value as another type; NULL where there is none."""
    if scalar.sqltype == sqltype:
        return scalar
    if scalar.sqltype == NULL_TYPE:
        return literal(None, sqltype)
    if scalar.is_literal and isinstance(scalar.value, str) and not sqltype.is_text:
        return (
            replace(read_text(scalar, sqltype), sqltype=sqltype)
            if sqltype.is_counted
            else _number_of_text(scalar, sqltype)
        )
    _check(scalar.sqltype, sqltype)
    domain, sure = _image(scalar, sqltype)
    return Scalar(
        "cast",
        (scalar,),
        _converted(scalar, sqltype),
        sqltype,
        domain,
        sqltype.range,
        scalar.nullable or not sure,
        integral=sqltype.is_integer,
    )


def _converted(scalar: Scalar, sqltype: SqlType) -> Node:
    """The cast. An infinite timestamp has no time of day: DuckDB 1.4 raises on one, in TRY_CAST too."""
    if sqltype.is_decimal:
        return decimal_of(scalar, sqltype)
    whole = Cast(scalar.tree, sqltype)
    if (scalar.sqltype, sqltype) == (TIMESTAMP, TIME):
        return Bare(Case(((Call("isfinite", (scalar.tree,)), whole),)))
    return whole


def _number_of_text(scalar: Scalar, sqltype: SqlType) -> Scalar:
    read = read_text(scalar, sqltype)
    return read if read.sqltype == sqltype else cast(read, sqltype)


def _check(source: SqlType, target: SqlType) -> None:
    """Refuse conversions that have no meaning, such as a date as a number."""
    if TIME in (source, target) and not (source.is_text or target.is_text or (source, target) == (TIMESTAMP, TIME)):
        hint = "cast a timestamp" if target == TIME else "compare it with TIME '12:00:00', or write HOUR(...)"
        raise error(106, f"a value of type {source} cannot be cast to {target}", hint=hint)
    if source.is_temporal and not (target.is_counted or target.is_text):
        raise error(
            106,
            f"a value of type {source} cannot be cast to {target}",
            hint="write EXTRACT(YEAR FROM ...) or DATE_DIFF('day', ..., ...)",
        )
    if target.is_temporal and not (source.is_temporal or source.is_text):
        raise error(106, f"a value of type {source} cannot be cast to {target}", hint="compare dates with dates")


def _image(scalar: Scalar, target: SqlType) -> tuple[Domain, bool]:
    """The declared values after the cast, and whether every declared value has one."""
    source = scalar.sqltype
    if target.is_number:
        if source.is_text:
            return _numbers_of_text(scalar.domain, target)
        return _numbers(scalar, target)
    if target.is_text:
        return _texts(scalar), True
    if target.is_boolean:
        return Categories((False, True)), not source.is_text
    if target == TIME:
        return interval(0, 86_399_999_999), source == TIMESTAMP
    if source.is_temporal:
        return _moments(scalar, target), True
    return UNBOUNDED, False


def _numbers(scalar: Scalar, target: SqlType) -> tuple[Domain, bool]:
    bounds = finite_hull(scalar)
    if bounds is None:
        return UNBOUNDED, False
    if isinstance(scalar.domain, Categories) and (scalar.integral or scalar.sqltype.is_boolean):
        values, held = [int(v) for v in scalar.domain.values if not isinstance(v, str)], target.range or bounds
        least, most = math.ceil(held.lower), math.floor(held.upper)
        kept = values if least <= min(values) and max(values) <= most else [v for v in values if least <= v <= most]
        return (domains.categories(kept), len(kept) == len(values)) if kept else (UNBOUNDED, False)
    if target.is_float:
        return bounds, True
    grid = Fraction(1, 10**target.scale)
    # Outwards to the grid: that holds both ways of rounding a half.
    rounded = Interval(math.floor(bounds.lower / grid) * grid, math.ceil(bounds.upper / grid) * grid)
    limits = target.range
    assert limits is not None
    sure = limits.lower <= rounded.lower and rounded.upper <= limits.upper
    inside = domains.intersect(rounded, limits)
    return (domains.integers(inside) or inside) if target.is_integer else inside, sure


def _numbers_of_text(domain: Domain, target: SqlType) -> tuple[Domain, bool]:
    """Text that is declared as a list of plain integers, beside plain words, has a list of integers; other text may be anything."""
    if not isinstance(domain, Categories):
        return UNBOUNDED, False
    texts = [v for v in domain.values if isinstance(v, str)]
    read = [int(v) for v in texts if _INTEGER.fullmatch(v)]
    if any(not (_INTEGER.fullmatch(v) or _WORD.fullmatch(v)) for v in texts):
        return UNBOUNDED, False
    kept = [v for v in read if target.range is None or Fraction(v) in target.range]
    return (domains.categories(kept), len(kept) == len(texts)) if kept else (UNBOUNDED, False)


def _texts(scalar: Scalar) -> Domain:
    if isinstance(scalar.domain, Categories) and scalar.sqltype.is_integer:
        return domains.categories(str(int(v)) for v in scalar.domain.values)
    if isinstance(scalar.domain, Categories) and scalar.sqltype.is_boolean:
        return domains.categories(("false", "true"))
    return scalar.domain if scalar.sqltype.is_text else UNBOUNDED


def _moments(scalar: Scalar, target: SqlType) -> Domain:
    if target.is_temporal and target.name == "TIMESTAMP":
        return scaled(scalar.domain, 86_400_000_000)
    if isinstance(scalar.domain, Categories) and target.name == "DATE":
        return domains.categories(
            math.floor(Fraction(v) / 86_400_000_000) for v in scalar.domain.values if not isinstance(v, str)
        )
    bounds = domains.hull(scalar.domain)
    if target.name == "DATE" and bounds is not None:
        return domains.monotone(bounds, lambda x: Fraction(math.floor(x / 86_400_000_000)))
    return UNBOUNDED
