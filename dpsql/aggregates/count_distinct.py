"""COUNT(DISTINCT unit): how many people, not rows.

A unit adds 1 to the cell of each group that it appears in, and it appears in at most `limits.groups` of them, so L1 = groups and
L2 = sqrt(groups). Where a unit has one row it is in one group. This is also the number that a private group key is selected by.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.aggregates.base import ROWS, Limits, Sensitivity, StatisticDefaults, UnitSums
from dpsql.aggregates.count import CountOf, counting
from dpsql.aggregates.telling import Say, where
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.sql.nodes import Aggregate, Bare, Binary, Case, Node, Number


@dataclass(frozen=True, slots=True)
class Units(StatisticDefaults):
    """The number of units with at least one row for which `counted` is true. One cell per group."""

    counted: Scalar | None

    @property
    def identity(self) -> Hashable:
        return "units", tree_of(self.counted)

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return (self.counted,) if self.counted is not None else ()

    terms = ()
    counts_units = True

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return Sensitivity(limits.groups, 1, limits.groups, limits.groups)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        return (counting(names[0] if names else None),)

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        there = Bare(Case(((Bare(Binary(">", ROWS, Number(0))), Number(1)),), Number(0)))
        return UnitSums(counting(names[0] if names else None), (), (there,))

    def adds_up(self, one_row: bool) -> bool:
        return one_row

    def expected(self, units: Fraction, rows: Fraction) -> Fraction:
        return units

    def uncut_sums(self, names: Sequence[Node], unit: Node) -> tuple[Node, ...]:
        one = Bare(Case(((names[0], unit),))) if names else unit
        return (Aggregate("count", (one,), distinct=True),)

    @property
    def number(self) -> CountOf:
        return CountOf(1)

    def told(self, say: Say) -> str:
        return f"number of people{where(self.counted, say)}"
