"""CAST and TRY_CAST in PostgreSQL: DuckDB's value, or refused. No cast raises: it is shown that the value fits, or asked.

Why  DOUBLE to integer rounds half to even in both, DECIMAL to integer half away from zero in both. PostgreSQL's way from DOUBLE to
     numeric keeps 15 digits, so a DOUBLE becomes a whole number by way of bigint alone
"""

from __future__ import annotations

from fractions import Fraction

from dpsql.core.domains import Interval
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DOUBLE, SqlType
from dpsql.engines.postgres import words
from dpsql.engines.postgres.words import refused
from dpsql.expressions.known import NULL, Known, fits, rounded

EXACT_DOUBLE = 2**53
_LONGEST = 2_000
"""[characters] of a value that is written twice."""
_TEXT_OF = ("BOOLEAN", "DATE")


def cast(value: str, known: Known, target: SqlType, tries: bool) -> str:
    """A value as one of another type. Raises 102.

    known  what the value can be
    tries  whether what does not fit is NULL; else it was proved that all do
    """
    source = known.sqltype
    if source == NULL:
        return words.cast("NULL", target)
    if source == target:
        return value
    if target.is_text:
        return _as_text(value, known)
    if target.is_integer:
        return _as_integer(value, known, target, tries)
    if target.is_decimal:
        return _as_decimal(value, known, target, tries)
    if target == DOUBLE:
        return _as_double(value, known)
    if source.is_temporal and target.is_temporal:
        # years 1 to 9999 and the infinities, see shown.py
        return words.cast(value, target)
    raise _unknown(source, target)


def coerced(value: str, known: Known, target: SqlType) -> str:
    """A value as DuckDB makes one of another type of it without being told to, beside a value of that type. Raises 102."""
    if known.sqltype == target or (words.is_narrow(known.sqltype) and words.is_narrow(target)):
        return value
    if known.sqltype == BOOLEAN or target.is_text:
        raise _unknown(known.sqltype, target)
    if known.sqltype != NULL and known.sqltype.is_float and not target.is_float:
        raise _unknown(known.sqltype, target)
    return cast(value, known, target, tries=False)


def _unknown(source: SqlType, target: SqlType) -> Exception:
    return refused(f"a cast of {source} to {target}")


def _as_text(value: str, known: Known) -> str:
    """The digits of a whole number, a boolean's word, a date as year-month-day."""
    if known.sqltype.is_integer:
        whole = f"trim_scale({value})" if not words.is_narrow(known.sqltype) else value
        return words.cast(whole, SqlType("VARCHAR"))
    if known.sqltype.name in _TEXT_OF:
        return words.cast(value, SqlType("VARCHAR"))
    raise _unknown(known.sqltype, SqlType("VARCHAR"))


def _as_integer(value: str, known: Known, target: SqlType, tries: bool) -> str:
    source = known.sqltype
    if source == BOOLEAN:
        return words.cast(f"({value})::int", target)
    if not source.is_number:
        raise _unknown(source, target)
    if source.is_float:
        return _of_double(value, known, target, tries)
    if source.is_decimal:
        value = f"round({value})"
    if fits(known.limits, target) or _holds(source, target):
        return words.cast(value, target)
    if not tries or len(value) > _LONGEST:
        raise _unknown(source, target)
    low, high = _ends(target)
    return f"(CASE WHEN {value} BETWEEN {low} AND {high} THEN {words.cast(value, target)} END)"


def _of_double(value: str, known: Known, target: SqlType, tries: bool) -> str:
    """Rounded to the nearest, halves to even; NaN, infinities and what is too large are NULL."""
    if fits(known.limits, BIGINT) and fits(known.limits, target):
        return words.cast(f"({value})::bigint", target)
    if not tries or not words.is_narrow(target) or len(value) > _LONGEST:
        raise _unknown(known.sqltype, target)
    low, high = _ends(target)
    inside = f"round({value}) BETWEEN {low}::float8 AND {high}::float8"
    if target == BIGINT:
        # its largest is no DOUBLE: what is next to it is too large
        inside = f"{value} >= '-9223372036854775808'::float8 AND {value} < '9223372036854775808'::float8"
    return f"(CASE WHEN {inside} THEN ({value})::bigint END)"


def _as_decimal(value: str, known: Known, target: SqlType, tries: bool) -> str:
    source = known.sqltype
    if not (source.is_integer or source.is_decimal):
        raise _unknown(source, target)
    exact = f"round(({value})::numeric, {target.scale})"
    if fits(known.limits, target) or _holds(source, target):
        return exact
    if not tries or len(value) > _LONGEST:
        raise _unknown(source, target)
    held = target.range
    assert held is not None
    high = _digits(held.upper, target.scale)
    return f"(CASE WHEN {exact} BETWEEN -{high} AND {high} THEN {exact} END)"


def _as_double(value: str, known: Known) -> str:
    """Exact where the digits of the value are few enough that one rounding is all that happens."""
    source = known.sqltype
    if source.is_float:
        return value
    if source == BOOLEAN:
        return f"(({value})::int)::float8"
    if words.is_narrow(source):
        return f"({value})::float8"
    scale = source.scale
    if (source.is_integer or source.is_decimal) and scale <= 22 and _few(known.limits, scale):
        return f"({value})::float8"
    raise refused(f"a cast of {source} to DOUBLE", "cast it to a DECIMAL of at most 15 digits before")


def _few(limits: Interval | None, scale: int) -> bool:
    return limits is not None and max(abs(limits.lower), abs(limits.upper)) * 10**scale <= EXACT_DOUBLE


def _holds(source: SqlType, target: SqlType) -> bool:
    """True where a type has a value for every value of an exact one."""
    held, within = source.range, target.range
    if held is None or within is None:
        return False
    nearest = rounded(held, target.scale)
    return within.lower <= nearest.lower and nearest.upper <= within.upper


def _ends(sqltype: SqlType) -> tuple[str, str]:
    held = sqltype.range
    assert held is not None
    return f"({int(held.lower)})", f"({int(held.upper)})"


def _digits(number: Fraction, scale: int) -> str:
    whole = str(int(number * 10**scale)).rjust(scale + 1, "0")
    return f"{whole[:-scale]}.{whole[-scale:]}" if scale else whole
