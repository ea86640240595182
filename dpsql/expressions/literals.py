"""Constants of a type, as they are written and as text is read."""

from __future__ import annotations

import re
import struct
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction

from dpsql.core.domains import Categories, Domain, Interval, Value
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DOUBLE, FLOAT, HUGEINT, INTEGER, VARCHAR, SqlType, decimal
from dpsql.expressions.scalar import NULL_TYPE, Scalar
from dpsql.schema.write import days, microseconds
from dpsql.sql.nodes import Literal

_NUMBER = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")

_TIME = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?")


def literal(value: Value | None, sqltype: SqlType) -> Scalar:
    """A constant of a type; dates in days and timestamps in microseconds since 1970."""
    if value is None:
        return Scalar("literal", (), Literal(None, sqltype), sqltype, nullable=True)
    if sqltype.is_float and not isinstance(value, str):
        value = as_float(Fraction(value), sqltype)
    domain: Domain = Categories((value,))
    number = None if isinstance(value, str) or sqltype.is_boolean else Fraction(value)
    limits = Interval(number, number) if number is not None and not sqltype.is_counted else None
    integral = limits is not None and limits.lower.denominator == 1
    return Scalar("literal", (), Literal(value, sqltype), sqltype, domain, limits, integral=integral, value=value)


def as_float(number: Fraction, sqltype: SqlType) -> Fraction:
    """The nearest number that a floating-point type holds."""
    return Fraction(struct.unpack("f", struct.pack("f", float(number)))[0] if sqltype == FLOAT else float(number))


def shortest(number: int | Fraction, sqltype: SqlType) -> str:
    """The shortest digits that say a floating-point value."""
    return repr(float(as_float(Fraction(number), sqltype)))


def number_literal(text: str) -> Scalar:
    """A number as the user wrote it: digits are INTEGER, BIGINT or HUGEINT, a point makes DECIMAL, an exponent DOUBLE."""
    if "e" in text.lower():
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise error(106, f"{text[:40]} is beyond the range of DOUBLE", hint="write a smaller number")
        return literal(Fraction(number), DOUBLE)
    if "." in text:
        exact = Decimal(text)
        scale = len(text.partition(".")[2])
        width = max(len(text.replace(".", "").lstrip("0")), scale + 1)
        if width > 38:
            raise error(106, f"{text[:40]} has more than 38 digits", hint="write fewer digits")
        return literal(Fraction(exact), decimal(width, scale))
    digits = text.lstrip("0") or "0"
    return integer_literal(int(digits) if len(digits) < 50 else 10**50)


def integer_literal(number: int) -> Scalar:
    for sqltype in (INTEGER, BIGINT, HUGEINT):
        limits = sqltype.range
        if limits is not None and Fraction(number) in limits:
            return literal(number, sqltype)
    raise error(106, "an integer has more than 38 digits", hint="write a smaller number")


def text_literal(text: str) -> Scalar:
    return literal(text, VARCHAR)


def boolean_literal(value: bool) -> Scalar:
    return literal(value, BOOLEAN)


NULL = literal(None, NULL_TYPE)


_SUCH_AS = {
    "BOOLEAN": ": true or false",
    "DATE": ", such as '2024-05-31'",
    "TIME": ", such as '18:30:00'",
    "TIMESTAMP": ", such as '2024-05-31 18:30:00'",
}
"""Values as they are written, by types whose names do not say it."""


def read_text(scalar: Scalar, sqltype: SqlType) -> Scalar:
    """A text constant read as a value of another type, as DuckDB reads `'2020-01-01'` beside a date; others unchanged."""
    if not (scalar.is_literal and isinstance(scalar.value, str)) or sqltype.is_text or sqltype == NULL_TYPE:
        return scalar
    found = _parsed(scalar.value.strip(), sqltype)
    if found is None:
        hint = f"write a constant of type {sqltype}{_SUCH_AS.get(sqltype.name, '')}"
        raise error(106, f"the text constant is no value of type {sqltype}", hint=hint)
    return found


def _parsed(text: str, sqltype: SqlType) -> Scalar | None:
    try:
        if sqltype.name == "DATE":
            return literal(days(date.fromisoformat(text)), sqltype)
        if sqltype.name == "TIMESTAMP":
            return literal(microseconds(datetime.fromisoformat(text).replace(tzinfo=None)), sqltype)
        if sqltype.name == "TIME":
            found = time.fromisoformat(text) if _TIME.fullmatch(text) else None
            return literal(microseconds(found), sqltype) if found is not None else None
        if sqltype.is_boolean:
            return literal({"true": True, "t": True, "false": False, "f": False}[text.lower()], sqltype)
        if _NUMBER.fullmatch(text) is None:
            return None
        sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
        read = number_literal(digits)
    except (ValueError, KeyError, ArithmeticError):
        return None
    assert read.value is not None and not isinstance(read.value, str)
    value = sign * Fraction(read.value)
    return literal(int(value) if value.denominator == 1 else value, read.sqltype)
