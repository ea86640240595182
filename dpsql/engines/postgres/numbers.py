"""DOUBLE in PostgreSQL: total by the limits of its operands, and equal to DuckDB's to the last bit; else refused.

Both round to the nearest, halves to even. PostgreSQL raises where a result is infinite, which limits exclude, and where the product or
quotient of numbers that are not zero is zero: that is excluded by the least that they can be, or, beside a constant, told before, since
which numbers it rounds to zero is known exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.engines.dialects.words import LEAST, DialectWords, Side
from dpsql.expressions.known import Known

_LONGEST = 2_000


def floating(words: DialectWords, operator: str, a: Side, b: Side, result: Known) -> str:
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
        raise words.refused(
            f"{operator} of DOUBLE without bounds", "give the column bounds, or cast it to an integer before"
        )
    if operator == "/" and limits.lower <= 0 <= limits.upper:
        raise words.refused("/ by a DOUBLE that may be zero", "divide by a constant")
    plain = f"({a.text} {operator} {b.text})"
    if operator in "+-" or b.point == 0 or a.point == 0:
        return plain
    smallest = a.least * b.least if operator == "*" else a.least / max(abs(limits.lower), abs(limits.upper))
    if smallest >= LEAST:
        return plain
    if b.point is None or len(a.text) > _LONGEST:
        raise words.refused(f"{operator} of two DOUBLE numbers", "cast one of them to an integer before")
    most = _rounds_to_zero(operator, b.point)
    return f"(CASE WHEN abs({a.text}) <= '{most!r}'::float8 THEN 0::float8 ELSE {plain} END)"


def _rounds_to_zero(operator: str, factor: Fraction) -> float:
    """The largest DOUBLE whose product with a constant, or quotient by it, is at most half the least one: it rounds to zero."""
    most = LEAST / 2 / abs(factor) if operator == "*" else LEAST / 2 * abs(factor)
    near = float(most)
    while Fraction(near) > most:
        near = math.nextafter(near, 0.0)
    return near
