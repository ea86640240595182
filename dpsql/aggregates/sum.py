"""SUM(x) alone: the clamped values of a group, added up exactly.

One row adds at most M = max(|L'|, |U'|) quanta, so a unit with at most K rows moves the vector by at most K * M in L1. Where a unit
has n > n_c rows in a group, its total T is scaled to T * n_c / n, rounded towards zero, and clamped to [L' n_c, U' n_c]; a unit
without a value adds 0, never a clamped 0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpsql.aggregates.base import (
    CUT,
    ROWS,
    EstimateDefaults,
    Limits,
    Noise,
    ReleasedColumn,
    Sensitivity,
    StatisticDefaults,
    UnitSums,
    sensitivity_of_rows,
)
from dpsql.aggregates.ends import ConfidenceBounds
from dpsql.aggregates.telling import Say, clamped, where
from dpsql.aggregates.term import Term, filtered, whole_number
from dpsql.core.columns import Column, Decimals, Whole, combined, largest, whole
from dpsql.core.domains import LARGEST_DOUBLE
from dpsql.core.sqltypes import DOUBLE, HUGEINT, SqlType, decimal
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.sql.duckdb import decimal_text
from dpsql.sql.nodes import Bare, Binary, Call, Case, Node, Number, own

TOTAL = own("total")


@dataclass(frozen=True, slots=True)
class Total(StatisticDefaults):
    """The sum of a term over the rows for which `counted` is true. One cell per group, in the term's quanta."""

    term: Term
    counted: Scalar | None

    @property
    def identity(self) -> Hashable:
        return "total", self.term.identity, tree_of(self.counted)

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return (self.term.scalar,) if self.counted is None else (self.term.scalar, self.counted)

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return sensitivity_of_rows(limits, weight=self.term.magnitude, cells=1)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        return (self.term.total(names[0], filtered(names[1:])),)

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        rows = self.term.count(names[0], filtered(names[1:]))
        total = self.term.total(names[0], filtered(names[1:]))
        return UnitSums(rows, (("total", total),), (clamped_total(self.term, TOTAL, ROWS, CUT),), (TOTAL,))

    def adds_up(self, one_row: bool) -> bool:
        return True

    def expected(self, units: Fraction, rows: Fraction) -> Fraction:
        return rows * self.term.typical

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.term,)

    def with_terms(self, change: Callable[[Term], Term]) -> Total:
        return replace(self, term=change(self.term))

    def told(self, say: Say) -> str:
        return f"sum of {clamped(self.term, say)}{where(self.counted, say)}"


def clamped_total(term: Term, total: Node, n: Node, cut: Node) -> Node:
    """A unit's total after its n rows are cut to `cut`: scaled first, then clamped to the bounds of `cut` rows.

    Why  the clamp also leaves an uncut total as it is, and says in the text itself how far the sum over units can go; a unit without a
         value has nothing but cut = 0, so it adds 0
    """
    low, high = (Bare(Binary("*", whole_number(bound, HUGEINT), cut)) for bound in (term.lower, term.upper))
    return Call("GREATEST", (low, Call("LEAST", (high, _scaled(total, n, cut)))))


def clamped_square(width: int, above: Node, square: Node, n: Node, cut: Node) -> Node:
    """A unit's sum of p^2 after its n rows are cut to `cut`, where p is from 0 to `width` and `above` its sum after the cut.

    Why  it is then one that so many numbers from 0 to `width` with that sum can have: at least its square over how many they are, which
         is that of equal ones, and at most `width` times it. An uncut one is left as it is
    """
    least = Binary("+", Bare(Binary("*", above, above)), Bare(Binary("-", cut, Number(1))))
    low = Bare(Binary("//", least, Call("GREATEST", (cut, Number(1)))))
    high = Bare(Binary("*", whole_number(width, HUGEINT), above))
    return Call("GREATEST", (low, Call("LEAST", (high, _scaled(square, n, cut)))))


def _scaled(total: Node, n: Node, cut: Node) -> Node:
    share = Binary("//", Binary("*", total, cut), Call("GREATEST", (n, Number(1))))
    return Bare(Case(((Bare(Binary("=", cut, n)), total),), share))


def sum_type(sqltype: SqlType) -> SqlType:
    """The type that DuckDB gives SUM over a type."""
    if sqltype.is_decimal:
        return decimal(38, sqltype.scale)
    return HUGEINT if sqltype.is_integer or sqltype.is_boolean else DOUBLE


def in_type(quanta: int, quantum: Fraction, sqltype: SqlType) -> object:
    """A number of quanta as a value of a SUM's type, in the sandbox's form; the grid is kept, beyond the type its end is given."""
    value = quanta * quantum
    held = sqltype.range
    if held is not None:
        value = max(held.lower, min(held.upper, value))
    if sqltype.is_decimal:
        scale = 10**sqltype.scale
        return decimal_text(Fraction(round(value * scale), scale), sqltype.scale)
    return str(round(value)) if sqltype == HUGEINT else to_double(value)


def column_in_type(
    sums: Sequence[int], quantum: Fraction, sqltype: SqlType, h: float
) -> tuple[Sequence[object], ConfidenceBounds]:
    """Sums [quanta] as values of a SUM's type, in the sandbox's form, and their intervals.

    Why  where no value is beyond its type, quotients of integers give the same numbers as `in_type` and `to_double`, many
         times faster: the quotient of two integers is the nearest DOUBLE
    """
    numbers = whole(sums)
    most = largest(numbers) * quantum
    held = sqltype.range
    if most > LARGEST_DOUBLE or (held is not None and not (-most in held and most in held)):
        exact: Sequence[float] = [to_double(s * quantum) for s in sums]
        return [in_type(s, quantum, sqltype) for s in sums], ConfidenceBounds.around(exact, h, float(quantum))
    exact = _quotients(numbers, quantum)
    bounds = ConfidenceBounds.around(exact, h, float(quantum))
    return exact if sqltype.is_float else _whole_in_type(numbers, quantum, sqltype), bounds


def _quotients(sums: Whole, quantum: Fraction) -> Sequence[float]:
    """Sums as the nearest DOUBLE. Why  of whole numbers that DOUBLE holds its quotient is the nearest, as Python's is of all."""
    top, bottom = quantum.numerator, quantum.denominator
    if largest(sums) * top < 2**53 and bottom < 2**53:
        return Column(sums.astype(np.float64) * top / bottom)
    return [s * top / bottom for s in sums.tolist()]


def _whole_in_type(sums: Whole, quantum: Fraction, sqltype: SqlType) -> Sequence[object]:
    """Sums as values of HUGEINT or DECIMAL."""
    scale = sqltype.scale if sqltype.is_decimal else 0
    ratio = quantum * 10**scale
    if ratio.denominator == 1:
        found = combined((ratio.numerator, Column(sums)))
    else:
        found = Column.of([round(s * ratio) for s in sums.tolist()])
    if not scale:
        return found
    return Decimals(found.values, scale)


def to_double(value: Fraction) -> float:
    """The nearest finite DOUBLE."""
    return float(max(-LARGEST_DOUBLE, min(LARGEST_DOUBLE, value)))


@dataclass(frozen=True, slots=True)
class SumOf(EstimateDefaults):
    """SUM from a lone total."""

    quantum: Fraction
    sqltype: SqlType

    def half_width(self, noise: Noise, level: Fraction) -> float:
        return noise.half_width_of_sum(1, level) * float(self.quantum)

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        h = self.half_width(noise, level)
        return ReleasedColumn(*column_in_type(cells[0], self.quantum, self.sqltype, h))
