"""Arithmetic in PostgreSQL: total by the limits of its operands, and equal to DuckDB's to the last bit; else refused.

whole numbers   bigint where DuckDB's type has at most 64 bits and the value was proved to fit it, numeric else, which does not
                overflow; `//` is div, never /, which would give fractions of numeric; by zero NULL
DECIMAL         numeric: sums and products are exact, with DuckDB's scale
DOUBLE          both round to the nearest, halves to even. PostgreSQL raises where a result is infinite, which limits exclude, and
                where the product or quotient of numbers that are not zero is: that is excluded by the least that they can be, or,
                beside a constant, told before, since which numbers it rounds to zero is known exactly
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpsql.core.sqltypes import SqlType
from dpsql.engines.postgres.words import fits_bigint, is_narrow, refused
from dpsql.expressions.known import Known

LEAST = Fraction(1, 2**1074)
"""The least DOUBLE above zero; half of it rounds to zero."""
_LONGEST = 2_000


def exact(operator: str, left: str, right: str, known: Known) -> str:
    """+ - * of whole numbers and DECIMAL, whose result was proved to fit its type."""
    held = "bigint" if is_narrow(known.sqltype) else "numeric"
    if is_narrow(known.sqltype) and not fits_bigint(known):
        raise refused(f"{operator} of {known.sqltype}")
    return f"(({left})::{held} {operator} ({right})::{held})"


def divided(operator: str, left: str, right: str, known: Known) -> str:
    """// and % of whole numbers, truncated; NULL by zero."""
    if is_narrow(known.sqltype):
        sign = "/" if operator == "//" else "%"
        return f"(({left})::bigint {sign} NULLIF(({right})::bigint, 0))"
    function = "div" if operator == "//" else "mod"
    return f"{function}(({left})::numeric, NULLIF(({right})::numeric, 0))"


@dataclass(frozen=True, slots=True)
class Side:
    """An operand of DOUBLE: its text, what it can be, and the least that it can be, either way, if it is not zero.

    point  its value where it is a constant
    """

    text: str
    known: Known
    least: Fraction
    point: Fraction | None


def floating(operator: str, a: Side, b: Side, result: Known) -> str:
    """+ - * / of DOUBLE."""
    if operator == "+" and b.point == 0:
        # hides limits from DuckDB, and changes nothing but the sign of zero
        return a.text
    if operator == "*" and a.point is not None and b.point is None:
        a, b = b, a
    limits, shrinks = (
        b.known.limits,
        b.point is not None and (abs(b.point) >= 1 if operator == "/" else abs(b.point) <= 1),
    )
    bounded = result.limits is not None and a.known.limits is not None
    if limits is None or not (bounded or (operator in "*/" and shrinks)):
        raise refused(f"{operator} of DOUBLE without bounds", "give the column bounds, or cast it to an integer before")
    if operator == "/" and limits.lower <= 0 <= limits.upper:
        raise refused("/ by a DOUBLE that may be zero", "divide by a constant")
    plain = f"({a.text} {operator} {b.text})"
    if operator in "+-" or b.point == 0 or a.point == 0:
        return plain
    smallest = a.least * b.least if operator == "*" else a.least / max(abs(limits.lower), abs(limits.upper))
    if smallest >= LEAST:
        return plain
    if b.point is None or len(a.text) > _LONGEST:
        raise refused(f"{operator} of two DOUBLE numbers", "cast one of them to an integer before")
    most = _rounds_to_zero(operator, b.point)
    return f"(CASE WHEN abs({a.text}) <= '{most!r}'::float8 THEN 0::float8 ELSE {plain} END)"


def grid(sqltype: SqlType) -> Fraction:
    """The least step of an exact type."""
    return Fraction(1, 10**sqltype.scale) if sqltype.is_decimal else Fraction(1)


def _rounds_to_zero(operator: str, factor: Fraction) -> float:
    """The largest DOUBLE whose product with a constant, or quotient by it, is at most half the least one: it rounds to zero."""
    most = LEAST / 2 / abs(factor) if operator == "*" else LEAST / 2 * abs(factor)
    near = float(most)
    while Fraction(near) > most:
        near = math.nextafter(near, 0.0)
    return near
