"""The same value in another type: which one two values have in common, and the casts that cannot fail."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dpsql.core.domains import UNBOUNDED, Categories, Domain, Interval, categories
from dpsql.core.errors import error
from dpsql.core.sqltypes import DOUBLE, FLOAT, HUGEINT, VARCHAR, SqlType, decimal
from dpsql.expressions.literals import literal, read_text
from dpsql.expressions.scalar import NULL_TYPE, Scalar, limits_of
from dpsql.sql.nodes import Cast, Node

LARGEST_FLOAT = 2**127
"""A little below the largest number that FLOAT holds."""


def common_type(first: SqlType, second: SqlType) -> SqlType | None:
    """The type in which two values are compared or unified without loss of a failure; None where they do not mix."""
    if first == second or second == NULL_TYPE:
        return first
    if first == NULL_TYPE:
        return second
    if first.is_number and second.is_number:
        return _common_number(first, second)
    if first.is_temporal and second.is_temporal:
        return SqlType("TIMESTAMP")
    return None


def _common_number(first: SqlType, second: SqlType) -> SqlType:
    if first.is_float or second.is_float:
        return DOUBLE if DOUBLE in (first, second) else SqlType("FLOAT")
    if first.is_integer and second.is_integer:
        a, b = first.range, second.range
        assert a is not None and b is not None
        both = Interval(min(a.lower, b.lower), max(a.upper, b.upper))
        for name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"):
            limits = SqlType(name).range
            if limits is not None and limits.lower <= both.lower and both.upper <= limits.upper:
                return SqlType(name)
        return HUGEINT
    scale = max(first.scale, second.scale)
    whole = max(_whole_digits(first), _whole_digits(second))
    return decimal(whole + scale, scale) if whole + scale <= 38 else DOUBLE


def _whole_digits(sqltype: SqlType) -> int:
    if sqltype.is_decimal:
        return sqltype.width - sqltype.scale
    limits = sqltype.range
    assert limits is not None
    return len(str(int(max(abs(limits.lower), abs(limits.upper)))))


def cast_tree(scalar: Scalar, sqltype: SqlType) -> Node:
    """The value in another type: the one place that decides between CAST and TRY_CAST.

    Why  CAST raises on what does not fit, and a failure tells that somebody has such a value. So it is printed only where the hard
         limits prove that every value of the *operand* fits, however narrow the result of what is done with it (rule 45)
    """
    return scalar.tree if scalar.sqltype == sqltype else cast_within(scalar.tree, limits_of(scalar), sqltype)


def cast_within(tree: Node, limits: Interval | None, sqltype: SqlType) -> Node:
    """The cast of a value whose hard limits are known; see cast_tree."""
    return Cast(tree, sqltype, tries=not holds(sqltype, limits))


def decimal_of(scalar: Scalar, sqltype: SqlType) -> Node:
    """TRY_CAST of a value to a decimal, NULL where that has no such digits.

    Why  of text with an exponent the engine counts the digits before it applies the exponent: it reads '1.5e3' as a DECIMAL(3,0) of
         1500, beyond what the type can be. Printed, it is "1500", which is read digit by digit. A FLOAT is compared with the limit as
         a FLOAT, in DuckDB 1.4
    """
    if scalar.sqltype.is_text:
        return Cast(Cast(Cast(scalar.tree, sqltype), VARCHAR), sqltype)
    return Cast(Cast(scalar.tree, DOUBLE) if scalar.sqltype == FLOAT else scalar.tree, sqltype)


def holds(sqltype: SqlType, limits: Interval | None) -> bool:
    """True if an exact type has every value of an interval, rounded to its grid."""
    held = sqltype.range
    if limits is None or held is None:
        return False
    grid = 10**sqltype.scale
    return held.lower <= Fraction(math.floor(limits.lower * grid), grid) and limits.upper * grid <= held.upper * grid


def convert(scalar: Scalar, sqltype: SqlType) -> Scalar:
    """The same value in a type that common_type chose; where a value cannot be held it is NULL, never an error."""
    if scalar.sqltype == sqltype:
        return scalar
    if scalar.is_null:
        return literal(None, sqltype)
    if scalar.is_literal and scalar.value is not None and not isinstance(scalar.value, str):
        if sqltype.is_decimal and (Fraction(scalar.value) * 10**sqltype.scale).denominator == 1:
            return literal(scalar.value, sqltype)
        if sqltype.is_float or sqltype.is_integer:
            return literal(scalar.value, sqltype)
    domain = scalar.domain
    if sqltype.name == "TIMESTAMP" and scalar.sqltype.name == "DATE":
        domain = scaled(domain, 86_400_000_000)
    limits = _inside(scalar.limits, sqltype.range)
    return replace(
        scalar,
        function="convert",
        args=(scalar,),
        tree=Cast(scalar.tree, sqltype),
        sqltype=sqltype,
        domain=domain,
        limits=limits,
        value=None,
        step=None,
    )


def unconverted(scalar: Scalar) -> Scalar:
    """Value before a conversion, if there was one."""
    return scalar.args[0] if scalar.function == "convert" else scalar


def _inside(limits: Interval | None, held: Interval | None) -> Interval | None:
    """Rest of hard limits in a type that has no value for the rest."""
    if limits is None or held is None:
        return None
    lower, upper = max(limits.lower, held.lower), min(limits.upper, held.upper)
    return Interval(lower, upper) if lower <= upper else held


def scaled(domain: Domain, factor: int) -> Domain:
    """A domain of numbers times a positive integer."""
    match domain:
        case Interval(lower=lower, upper=upper):
            return Interval(lower * factor, upper * factor)
        case Categories(values=values) if not any(isinstance(v, str) for v in values):
            return categories(int(v) * factor if Fraction(v).denominator == 1 else Fraction(v) * factor for v in values)
    return UNBOUNDED


def unify(scalars: list[Scalar], what: str) -> tuple[list[Scalar], SqlType]:
    """All scalars in one common type; text constants take the type of the others.

    Raises 106 where two of them do not mix.
    """
    typed = [s for s in scalars if not (s.is_literal and (s.is_null or isinstance(s.value, str)))]
    if typed:
        scalars = [read_text(s, typed[0].sqltype) for s in scalars]
    sqltype = NULL_TYPE
    for scalar in scalars:
        constant = scalar.is_literal and scalar.sqltype.is_number and not scalar.is_null
        if constant and sqltype.is_number and _fits(scalar, sqltype):
            continue
        found = common_type(sqltype, scalar.sqltype)
        if found is None:
            raise error(
                106,
                f"{what} mixes {sqltype} and {scalar.sqltype}",
                hint=f"write CAST(... AS {sqltype}) around the {scalar.sqltype} side",
            )
        sqltype = found
    return [convert(s, sqltype) for s in scalars], sqltype


def _fits(scalar: Scalar, sqltype: SqlType) -> bool:
    """True if a number literal is exactly a value of a type."""
    assert scalar.value is not None and not isinstance(scalar.value, str)
    number = Fraction(scalar.value)
    limits = sqltype.range
    if limits is None:
        return sqltype == DOUBLE or (sqltype == FLOAT and scalar.sqltype != DOUBLE and abs(number) < LARGEST_FLOAT)
    grid = 10**sqltype.scale if sqltype.is_decimal else 1
    return number in limits and (number * grid).denominator == 1
