"""CAST and TRY_CAST: DuckDB's value, or refused. No cast raises: it is shown that the value fits, or asked.

Why  DOUBLE to integer rounds half to even, DECIMAL to integer half away from zero. The ways from DOUBLE to wide numbers keep 15 digits
     in PostgreSQL and the shortest ones in Spark, so a DOUBLE becomes a whole number by way of 64 bits alone
"""

from __future__ import annotations

from dpsql.core.domains import Interval
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DOUBLE, VARCHAR, SqlType
from dpsql.engines.dialects.words import DialectWords, is_narrow
from dpsql.expressions.known import NULL, Known, fits, rounded

EXACT_DOUBLE = 2**53
LONGEST = 2_000
"""[characters] of a value that is written twice."""
_TEXT_OF = ("BOOLEAN", "DATE")


def cast(words: DialectWords, value: str, known: Known, target: SqlType, tries: bool) -> str:
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
        return _as_text(words, value, known)
    if target.is_integer:
        return _as_integer(words, value, known, target, tries)
    if target.is_decimal:
        return _as_decimal(words, value, known, target, tries)
    if target == DOUBLE:
        return _as_double(words, value, known)
    if source.is_temporal and target.is_temporal:
        # years 1 to 9999 and the infinities, see shown.py
        return words.cast(value, target)
    raise _unknown(words, source, target)


def coerced(words: DialectWords, value: str, known: Known, target: SqlType) -> str:
    """A value as DuckDB makes one of another type of it without being told to, beside a value of that type. Raises 102."""
    if known.sqltype == target or (is_narrow(known.sqltype) and is_narrow(target)):
        return value
    if known.sqltype == BOOLEAN or target.is_text:
        raise _unknown(words, known.sqltype, target)
    if known.sqltype != NULL and known.sqltype.is_float and not target.is_float:
        raise _unknown(words, known.sqltype, target)
    return cast(words, value, known, target, tries=False)


def _unknown(words: DialectWords, source: SqlType, target: SqlType) -> Exception:
    return words.refused(f"a cast of {source} to {target}")


def _as_text(words: DialectWords, value: str, known: Known) -> str:
    """The digits of a whole number, a boolean's word, a date as year-month-day."""
    if known.sqltype.is_integer:
        return words.cast(words.digits(value, known.sqltype), VARCHAR)
    if known.sqltype.name in _TEXT_OF:
        return words.cast(value, VARCHAR)
    raise _unknown(words, known.sqltype, VARCHAR)


def _as_integer(words: DialectWords, value: str, known: Known, target: SqlType, tries: bool) -> str:
    source = known.sqltype
    if source == BOOLEAN:
        return words.cast(words.small(value), target)
    if not source.is_number:
        raise _unknown(words, source, target)
    if source.is_float:
        return _of_double(words, value, known, target, tries)
    if words.holds(known, target):
        return value
    if source.is_decimal:
        value = f"round({value})"
    if fits(known.limits, target) or _holds(source, target):
        return words.cast(value, target)
    if not tries or len(value) > LONGEST:
        raise _unknown(words, source, target)
    low, high = _ends(words, target)
    return f"(CASE WHEN {value} BETWEEN {low} AND {high} THEN {words.cast(value, target)} END)"


def _of_double(words: DialectWords, value: str, known: Known, target: SqlType, tries: bool) -> str:
    """Rounded to the nearest, halves to even; NaN, infinities and what is too large are NULL."""
    if fits(known.limits, BIGINT) and fits(known.limits, target):
        return words.cast(words.nearest(value), target)
    if not tries or not is_narrow(target) or len(value) > LONGEST:
        raise _unknown(words, known.sqltype, target)
    low, high = _ends(words, target)
    inside = f"{words.rint(value)} BETWEEN {words.cast(low, DOUBLE)} AND {words.cast(high, DOUBLE)}"
    if target == BIGINT:
        # its largest is no DOUBLE: what is next to it is too large
        inside = f"{value} >= {words.double(-(2.0**63))} AND {value} < {words.double(2.0**63)}"
    return f"(CASE WHEN {inside} THEN {words.nearest(value)} END)"


def _as_decimal(words: DialectWords, value: str, known: Known, target: SqlType, tries: bool) -> str:
    source = known.sqltype
    if not (source.is_integer or source.is_decimal):
        raise _unknown(words, source, target)
    if fits(known.limits, target) or _holds(source, target):
        return words.rounded(value, target)
    if not tries or len(value) > LONGEST:
        raise _unknown(words, source, target)
    return words.tried(value, target)


def _as_double(words: DialectWords, value: str, known: Known) -> str:
    """Exact where the digits of the value are few enough that one rounding is all that happens."""
    source = known.sqltype
    if source.is_float:
        return value
    if source == BOOLEAN:
        return words.cast(words.small(value), DOUBLE)
    if is_narrow(source):
        return words.cast(value, DOUBLE)
    scale = source.scale
    if (source.is_integer or source.is_decimal) and scale <= 22 and _few(known.limits, scale):
        return words.cast(value, DOUBLE)
    raise words.refused(f"a cast of {source} to DOUBLE", "cast it to a DECIMAL of at most 15 digits before")


def _few(limits: Interval | None, scale: int) -> bool:
    return limits is not None and max(abs(limits.lower), abs(limits.upper)) * 10**scale <= EXACT_DOUBLE


def _holds(source: SqlType, target: SqlType) -> bool:
    """True where a type has a value for every value of an exact one."""
    held, within = source.range, target.range
    if held is None or within is None:
        return False
    nearest = rounded(held, target.scale)
    return within.lower <= nearest.lower and nearest.upper <= within.upper


def _ends(words: DialectWords, sqltype: SqlType) -> tuple[str, str]:
    held = words.range(sqltype)
    return words.number(str(int(held.lower)), sqltype), words.number(str(int(held.upper)), sqltype)
