"""width_bucket(x, lower, upper, n): which of n equal parts of [lower, upper) a number lies in, 0 below and n + 1 from upper on.

DuckDB has no such function. Here it is computed in DOUBLE, by one text for people's rows and for the sandbox: every step of it keeps
the order of numbers, and the result is clamped once more after the cast, so it is total and never decreases in x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpsql.core import domains
from dpsql.core.domains import Categories, Domain
from dpsql.core.errors import error
from dpsql.core.sqltypes import DOUBLE, FLOAT, INTEGER, SqlType
from dpsql.expressions.conversion import LARGEST_FLOAT, convert
from dpsql.expressions.literals import as_float, literal
from dpsql.expressions.scalar import NULL_TYPE, Scalar, finite_hull
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Bare, Binary, Call, Case, Cast, Chain, Column, Is, Literal, Node, Number, Own

MOST_BUCKETS = domains.MOST_CATEGORIES - 2
"""With the buckets below and above, still a list of group keys."""
_FARTHEST = Fraction(1e300)
_EXACT = 2**53
"""Whole numbers up to here are DOUBLEs."""
_EXAMPLE = "write width_bucket(x, 0, 100, 10)"


@dataclass(frozen=True, slots=True)
class Buckets:
    """`count` parts of one width between two constants, `lower` below `upper` also as DOUBLE."""

    lower: float
    upper: float
    count: int

    def of(self, x: float) -> int:
        """The bucket of a number, by the very steps of `_tree`."""
        if x < self.lower:
            return 0
        if x >= self.upper:
            return self.count + 1
        part = math.floor((x - self.lower) * self.count / (self.upper - self.lower))
        return min(max(1 + part, 1), self.count)


def _tree(x: Node, lower: Node, upper: Node, count: Node, above: Node) -> Node:
    """NULL and NaN are decided first: LEAST and GREATEST skip the one, and the other is above every number."""
    apart = Binary("-", upper, lower)
    part = Bare(Binary("/", Bare(Binary("*", Binary("-", x, lower), count)), apart))
    bucket = Cast(Bare(Binary("+", Number(1), Call("floor", (part,)))), INTEGER)
    unknown = Bare(Chain("OR", (Bare(Is(x, "NULL")), Call("isnan", (x,)))))
    below, beyond = Bare(Binary("<", x, lower)), Bare(Binary(">=", x, upper))
    inside = Call("LEAST", (Call("GREATEST", (bucket, Number(1))), count))
    return Case(((unknown, Literal(None, NULL_TYPE)), (below, Number(0)), (beyond, above)), inside)


def _macro() -> str:
    x, lower, upper, count = (Column("", Own(name)) for name in ("x", "lower", "upper", "n"))
    number, low, high = (Cast(part, DOUBLE, tries=False) for part in (x, lower, upper))
    bucket = _tree(number, low, high, count, Bare(Binary("+", count, Number(1))))
    whole = Bare(Case(((Call("isnan", (x,)), Literal(None, NULL_TYPE)),), bucket))
    return f"CREATE MACRO main.width_bucket(x, lower, upper, n) AS {printed(whole)}"


MACRO = _macro()
"""The same for the sandbox; that isnan takes numbers alone refuses dates and text when the statement is bound."""


def buckets(lower: Scalar, upper: Scalar, count: Scalar) -> Buckets:
    """The buckets that three constants name. Raises 106."""
    low, high = (_bound(bound) for bound in (lower, upper))
    if low >= high:
        raise error(106, "the lower bound of width_bucket must be less than its upper bound", hint=_EXAMPLE)
    number = count.value if count.is_literal and count.sqltype.is_integer else None
    if not isinstance(number, int) or not 1 <= number <= MOST_BUCKETS:
        what = f"width_bucket needs a constant whole number of buckets from 1 to {MOST_BUCKETS:,}"
        raise error(106, what, hint=_EXAMPLE)
    return Buckets(low, high, number)


def _bound(bound: Scalar) -> float:
    value = bound.value if bound.is_literal and bound.sqltype.is_number else None
    if value is None or isinstance(value, str):
        raise error(106, "width_bucket needs constant numbers as its bounds", hint=_EXAMPLE)
    if abs(Fraction(value)) > _FARTHEST:
        raise error(106, "the bounds of width_bucket must lie between -1e300 and 1e300", hint=_EXAMPLE)
    return float(value)


def width_bucket(scalar: Scalar, parts: Buckets) -> Scalar:
    """The bucket of a number, INTEGER; NULL for NULL and NaN."""
    if scalar.sqltype == NULL_TYPE:
        return literal(None, INTEGER)
    if not scalar.sqltype.is_number:
        temporal = "write DATE_TRUNC('month', x), or width_bucket(DATE_DIFF('day', DATE '2020-01-01', x), 0, 365, 12)"
        raise error(
            106,
            f"width_bucket needs a number, not {scalar.sqltype}",
            hint=temporal if scalar.sqltype.is_temporal else "write CAST(... AS DOUBLE) around it",
        )
    lower, upper = (literal(Fraction(bound), DOUBLE).tree for bound in (parts.lower, parts.upper))
    tree = _tree(convert(scalar, DOUBLE).tree, lower, upper, Number(parts.count), Number(parts.count + 1))
    # A NaN is no declared value, but where nothing is declared it can come.
    nullable = scalar.nullable or (scalar.sqltype.is_float and finite_hull(scalar) is None)
    limits = domains.interval(0, parts.count + 1)
    return Scalar("width_bucket", (scalar,), tree, INTEGER, _image(scalar, parts), limits, nullable, integral=True)


def _image(scalar: Scalar, parts: Buckets) -> Domain:
    """The buckets of the declared values; of undeclared ones all, as there are no others."""
    bounds = finite_hull(scalar)
    if bounds is None:
        return Categories(tuple(range(parts.count + 2)))
    if isinstance(scalar.domain, Categories):
        spans = [_span(Fraction(v), scalar.sqltype, parts) for v in scalar.domain.values if not isinstance(v, str)]
        return domains.categories(bucket for first, last in set(spans) for bucket in range(first, last + 1))
    first, last = (_span(bound, scalar.sqltype, parts) for bound in (bounds.lower, bounds.upper))
    return Categories(tuple(range(first[0], last[1] + 1)))


def _span(value: Fraction, sqltype: SqlType, parts: Buckets) -> tuple[int, int]:
    """The first and last bucket that a declared value can be in: the engine may round one of many digits otherwise than Python."""
    if sqltype == FLOAT:
        value = as_float(max(min(value, Fraction(LARGEST_FLOAT)), Fraction(-LARGEST_FLOAT)), FLOAT)
    low = high = float(value)
    if not sqltype.is_float and abs(value) * 10**sqltype.scale > _EXACT:
        low, high = (math.nextafter(math.nextafter(low, end), end) for end in (-math.inf, math.inf))
    return parts.of(low), parts.of(high)
