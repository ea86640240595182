"""A value clamped to its bounds and put on a grid: what a sum adds up, as exact integers.

The clamp's limits are integers, floor(L/q) and ceil(U/q) for the quantum q, and the clamp is repeated after the cast
(rule 20). NULL and NaN are decided before any branch that would replace them by a bound: they add nothing. Bounds are enforced here
whatever the data holds, so one row moves a sum by at most max(|lower|, |upper|) quanta.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from dpsql.core.domains import LARGEST_DOUBLE, Interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, DOUBLE, HUGEINT, SqlType, decimal
from dpsql.expressions.scalar import Scalar, finite_hull, limits_of
from dpsql.sql.nodes import Aggregate, Bare, Between, Binary, Call, Case, Cast, Chain, Literal, Node, Not, Number

WIDEST = 2**40
"""The most quanta between the bounds: larger ranges get a coarser grid, so that noise scales stay far below 2^52."""
FINE = 2**30
"""About how many quanta a DOUBLE without a declared step gets: rounding is then far below any useful noise."""


FARTHEST = 2**52
"""The most quanta from zero to a bound: exact in a DOUBLE, and far inside BIGINT."""
FINEST = Fraction(1, 2**1000)
"""The smallest quantum: its inverse is still a DOUBLE."""


@dataclass(frozen=True, slots=True)
class Term:
    """A clamped value on a grid.

    scalar   the value
    lower    [quanta] L' = floor(L/q)
    upper    [quanta] U' = ceil(U/q), larger than lower
    quantum  q, in the value's own unit
    clamped  False only for data whose bounds were verified, and values of an exact type (planner/lower/cutting.py)
    """

    scalar: Scalar
    lower: int
    upper: int
    quantum: Fraction
    clamped: bool = True

    def __post_init__(self) -> None:
        if not -(2**62) < self.lower < self.upper < 2**62:
            # the engine would raise as soon as there is a row: rule 39
            raise error(901, "a clamp is beyond the integers that it is computed in")

    @property
    def width(self) -> int:
        """W = U' - L' [quanta]"""
        return self.upper - self.lower

    @property
    def magnitude(self) -> int:
        """The most that one row moves a sum of it [quanta]."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def typical(self) -> Fraction:
        """Expected distance of a value from zero [quanta]: never 0, as the bounds differ."""
        return max(Fraction(abs(self.lower + self.upper), 2), Fraction(self.width, 4))

    @property
    def identity(self) -> Hashable:
        return self.scalar.tree, self.lower, self.upper, self.quantum

    @property
    def is_decimal(self) -> bool:
        """True if the grid is the value's own decimal type, so that the engine can sum it as it is."""
        sqltype = self.scalar.sqltype
        held = sqltype.range
        if held is None or not sqltype.is_decimal or self.quantum != Fraction(1, 10**sqltype.scale):
            return False
        # A limit that the type cannot hold would make the engine raise as soon as there is a row; so would a product (quanta).
        fits = self.magnitude * 10**sqltype.scale < 10**38
        return fits and self.lower * self.quantum in held and self.upper * self.quantum in held

    @property
    def is_integer(self) -> bool:
        return (self.scalar.sqltype.is_integer or self.scalar.sqltype.is_boolean) and self.quantum == 1

    def without_clamp(self) -> Term:
        """The term of values that are verified to be within the bounds, in exact types alone: there they hold to the last digit."""
        return replace(self, clamped=False) if self.is_decimal or self.is_integer else self

    def own(self, x: Node) -> Node:
        """The clamped value of a column `x` in its own exact type, where it has one; else quanta."""
        if not self.is_decimal:
            return self.quanta(x)
        return _clamp(x, x, self._decimal(self.lower), self._decimal(self.upper)) if self.clamped else x

    def count(self, x: Node, where: Node | None) -> Node:
        """Number of rows of a column `x` that have a value: the clamp gives NULL for NULL and, of DOUBLE, NaN alone."""
        return Aggregate("count", (self.own(x) if self.scalar.sqltype.is_float else x,), where=where)

    def total(self, x: Node, where: Node | None) -> Node:
        """The sum of the clamped values as an integer of quanta (rule 48). A decimal's own sum is scaled once, not every row.

        Why  the product has 10^scale times as many digits as there are quanta: WIDEST quanta a row, of fewer than
             10^17 rows, times 10^9 stay below 10^38, so it cannot overflow whatever the data holds
        """
        scale = self.scalar.sqltype.scale if self.is_decimal else None
        if scale is None or scale > 9:
            return Aggregate("sum", (self.quanta(x),), where=where)
        return scaled(Aggregate("sum", (self.own(x),), where=where), scale, HUGEINT)

    def steps(self, x: Node) -> tuple[Node, ...]:
        """Values that are worked out once of a row whose value is counted and added up: the clamp of a DOUBLE, which both read."""
        return (self.quanta(x),) if self.scalar.sqltype.is_float else ()

    def count_and_total(self, x: Node, steps: Iterator[Node], where: Node | None) -> tuple[Node, Node]:
        """Both sums of a column `x`. steps  columns that were worked out, of which it takes its own"""
        if not self.scalar.sqltype.is_float:
            return self.count(x, where), self.total(x, where)
        clamped = (next(steps),)
        return Aggregate("count", clamped, where=where), Aggregate("sum", clamped, where=where)

    def quanta(self, x: Node) -> Node:
        """The clamped value of a column `x` as BIGINT quanta; NULL for NULL and NaN."""
        if self.is_decimal:
            scale = self.scalar.sqltype.scale
            # As wide as decimals get, so that the product cannot overflow: see is_decimal.
            return scaled(Cast(self.own(x), decimal(38, scale), tries=False), scale, BIGINT)
        if self.is_integer:
            whole = Cast(x, BIGINT, tries=False)
            return _clamp(x, whole, whole_number(self.lower), whole_number(self.upper)) if self.clamped else whole
        double = Cast(x, DOUBLE, tries=False) if self.scalar.sqltype.name != "DOUBLE" else x
        return _on_grid(double, self.lower, self.upper, self.quantum)

    def _decimal(self, quanta: int) -> Node:
        return Literal(quanta * self.quantum, self.scalar.sqltype)


@lru_cache(maxsize=256)
def _on_grid(x: Node, least: int, most: int, quantum: Fraction) -> Node:
    """The clamped quanta of a DOUBLE: BETWEEN first, it is the fast case and false for NaN; the clamp is repeated after the cast.

    Why  the same is written for the count, for the sum and for verified data: it is kept by all that it depends on
    """
    low, high = (Literal(bound * quantum, DOUBLE) for bound in (least, most))
    inverse = 1 / quantum
    whole = inverse.denominator == 1
    on_grid = Binary("*" if whole else "/", x, Literal(inverse if whole else quantum, DOUBLE))
    lower, upper = whole_number(least), whole_number(most)
    inside: Node = Cast(Bare(on_grid), BIGINT, tries=False)
    if not _is_exact(least, most, quantum):
        inside = Call("GREATEST", (lower, Call("LEAST", (upper, inside))))
    above = Chain("AND", (Bare(Binary(">", x, high)), Bare(Not(Call("isnan", (x,))))))
    between, below = Bare(Between(x, low, high)), Bare(Binary("<", x, low))
    return Bare(Case(((between, inside), (below, lower), (Bare(above), upper))))


def _is_exact(least: int, most: int, quantum: Fraction) -> bool:
    """True if dividing by the quantum rounds nothing: then a value between the bounds cannot leave them by the cast."""
    power = all(part & (part - 1) == 0 for part in (quantum.numerator, quantum.denominator))
    return power and max(abs(least), abs(most)) < 2**52 and 2**-900 < quantum < 2**900


def _clamp(x: Node, inside: Node, low: Node, high: Node) -> Node:
    """`inside` between the limits, the limits beyond them, NULL for NULL."""
    below, above = Bare(Binary("<", x, low)), Bare(Binary(">", x, high))
    return Bare(Case(((Bare(Between(x, low, high)), inside), (below, low), (above, high))))


def may_be_missing(term: Term) -> bool:
    """True if a row may be without the value."""
    return term.scalar.nullable or term.scalar.sqltype.is_float


def scaled(tree: Node, scale: int, sqltype: SqlType) -> Node:
    """An exact decimal times 10^scale, as an integer."""
    return Cast(Bare(Binary("*", tree, Number(10**scale))), sqltype, tries=False)


def whole_number(value: int, sqltype: SqlType = BIGINT) -> Node:
    """A constant of an integer type."""
    return Cast(Number(value), sqltype, tries=False)


def term(scalar: Scalar, what: str, widest: int = WIDEST) -> Term:
    """The term of an expression, on a grid with at most `widest` quanta between the bounds (or from 0 to one of them).

    Raises 201 where the expression has no bounds, 106 where it is no number.
    """
    if not (scalar.sqltype.is_number or scalar.sqltype.is_boolean):
        raise error(106, f"{what} needs a number, not {scalar.sqltype}", hint="count it, or cast it to a number")
    bounds = finite_hull(scalar)
    if bounds is None:
        raise error(
            201,
            f"{what} has no bounds, so one person could change it without limit",
            hint="declare bounds for its columns, or write LEAST(GREATEST(..., 0), 100) inside it",
        )
    quantum = _quantum(scalar, bounds, widest)
    lower, upper = math.floor(bounds.lower / quantum), math.ceil(bounds.upper / quantum)
    if max(abs(lower), abs(upper), upper - lower) * quantum > LARGEST_DOUBLE:
        raise error(201, f"the bounds of {what} are beyond the range of DOUBLE", hint="write smaller bounds")
    # Not the type that DuckDB names: products are computed wider.
    limits = limits_of(scalar)
    if limits is not None:
        least, most = math.ceil(limits.lower / quantum), math.floor(limits.upper / quantum)
        if least > upper or most < lower:
            # every value is beyond one bound: that one is what all are clamped to
            return Term(scalar, *((upper - 1, upper) if least > upper else (lower, lower + 1)), quantum)
        lower, upper = max(lower, least), min(upper, most)
    # Equal bounds would make a sum without noise: one quantum more is still a clamp.
    return Term(scalar, lower, upper if upper > lower else lower + 1, quantum)


def _quantum(scalar: Scalar, bounds: Interval, widest: int) -> Fraction:
    """The declared step; else 1 for integers, the last digit of decimals, and a power of two for DOUBLE."""
    quantum = max(FINEST, scalar.step or _natural_quantum(scalar.sqltype, bounds))
    spread, most = bounds.upper - bounds.lower, max(abs(bounds.lower), abs(bounds.upper))
    if widest == WIDEST:
        spread = max(spread, most)
    # far from zero the grid is coarser than the spread alone would ask: quanta are cast to BIGINT as they are
    while spread / quantum > widest or most / quantum > FARTHEST:
        quantum *= 2
    return quantum


@lru_cache(maxsize=256)
def _natural_quantum(sqltype: SqlType, bounds: Interval) -> Fraction:
    if sqltype.is_decimal:
        return Fraction(1, 10**sqltype.scale)
    if sqltype.is_integer or sqltype.is_boolean:
        return Fraction(1)
    spread = max(bounds.upper - bounds.lower, max(abs(bounds.lower), abs(bounds.upper)) / 1024)
    quantum = Fraction(1)
    while spread > 0 and spread / quantum > FINE:
        quantum *= 2
    while spread > 0 and spread / quantum <= FINE // 2:
        quantum /= 2
    return quantum


def filtered(names: Sequence[Node]) -> Node | None:
    """The condition of the rows that are added up, where there is one."""
    return names[0] if names else None
