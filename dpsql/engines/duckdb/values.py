"""Stored values as values of a domain: a number for itself, a date in days, a timestamp in microseconds."""

from __future__ import annotations

from fractions import Fraction

from dpsql.core.domains import Value
from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType
from dpsql.engines.duckdb.locked import text


def measured(column: str, sqltype: SqlType) -> str:
    """SQL of the value in its domain's unit; NULL where it is infinite or NaN."""
    if sqltype.is_float:
        return f"CASE WHEN isfinite({column}) THEN CAST({column} AS DOUBLE) END"
    if sqltype.name == "DATE":
        return f"CASE WHEN isfinite({column}) THEN date_diff('day', DATE '1970-01-01', {column}) END"
    if sqltype.name == "TIMESTAMP":
        return f"CASE WHEN isfinite({column}) THEN epoch_us({column}) END"
    if sqltype.name == "TIME":
        return f"date_diff('microsecond', TIME '00:00:00', {column})"
    return f"CAST({column} AS VARCHAR)" if sqltype.is_decimal else column


def value(cell: object, sqltype: SqlType) -> Value:
    """Value of a domain that `measured` gave."""
    if isinstance(cell, bool | int):
        return cell
    if isinstance(cell, str) and not sqltype.is_decimal:
        return cell
    if not isinstance(cell, str | float):
        raise error(901, "a public value has no place in a domain")
    exact = Fraction(cell)
    return int(exact) if exact.denominator == 1 else exact


def portable(column: str, sqltype: SqlType) -> str:
    """SQL of a value in a form that Python holds exactly."""
    exact = (sqltype.is_integer and sqltype.name not in ("HUGEINT", "UBIGINT")) or sqltype.is_float
    return column if exact or sqltype.is_boolean or sqltype.is_text else f"CAST({column} AS VARCHAR)"


def literal(number: Value) -> str:
    """SQL of a value of a domain, to compare with `measured` or with the bare column."""
    match number:
        case bool():
            return "true" if number else "false"
        case int():
            return str(number)
        case str():
            return text(number)
        case Fraction():
            return _decimal(number)


def _decimal(number: Fraction) -> str:
    """The number in decimal digits where they end soon enough for DECIMAL, else the nearest DOUBLE."""
    for digits in range(19):
        scaled = number * 10**digits
        if scaled.denominator == 1 and abs(scaled) < 10**37:
            whole, part = divmod(abs(int(scaled)), 10**digits)
            sign = "-" if number < 0 else ""
            return f"{sign}{whole}.{part:0{digits}d}" if digits else f"{sign}{whole}"
    return f"CAST({text(repr(float(number)))} AS DOUBLE)"
