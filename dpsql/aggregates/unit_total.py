"""SUM(x) where the owner, or the caller, bounds the total of one unit.

A unit's rows of one group are added up exactly, and the total T is clamped to [L', U']: however many rows it has, a unit with a value
adds at most M = max(|L'|, |U'|) to a group's cell, and nothing where it has none (rule 18). It is in at most `limits.groups` groups,
so L1 <= groups * M and the squared L2 <= groups * M^2. COUNT and AVG do not share it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.aggregates.base import ROWS, Limits, Sensitivity, StatisticDefaults, UnitSums
from dpsql.aggregates.sum import TOTAL
from dpsql.aggregates.telling import Say, bounds, has_bounds, where
from dpsql.aggregates.term import Term, filtered, term, whole_number
from dpsql.core.domains import Interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import HUGEINT
from dpsql.core.wording import number
from dpsql.expressions.scalar import Scalar, finite_hull, tree_of
from dpsql.sql.nodes import Bare, Binary, Call, Case, Node, Number


@dataclass(frozen=True, slots=True)
class UnitTotal(StatisticDefaults):
    """The sum over units of each one's clamped total of a term. One cell per group, in the term's quanta.

    term   its bounds are those of a unit's total
    value  what is added up: a term with the bounds of one row
    """

    term: Term
    value: Term
    counted: Scalar | None

    @property
    def identity(self) -> Hashable:
        return "unit total", self.term.lower, self.term.upper, self.value.identity, tree_of(self.counted)

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return (self.value.scalar,) if self.counted is None else (self.value.scalar, self.counted)

    def sensitivity(self, limits: Limits) -> Sensitivity:
        most = self.term.magnitude
        return Sensitivity(limits.groups, most, limits.groups * most, limits.groups * most * most)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        raise error(901, "a unit's total is summed by unit")

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        kept = filtered(names[1:])
        low, high = whole_number(self.term.lower, HUGEINT), whole_number(self.term.upper, HUGEINT)
        clamped = Call("GREATEST", (low, Call("LEAST", (high, TOTAL))))
        there = Bare(Case(((Bare(Binary(">", ROWS, Number(0))), clamped),), Number(0)))
        return UnitSums(self.value.count(names[0], kept), (("total", self.value.total(names[0], kept)),), (there,))

    def adds_up(self, one_row: bool) -> bool:
        return False

    def expected(self, units: Fraction, rows: Fraction) -> Fraction:
        return units * self.term.typical

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.term,)

    def uncut_sums(self, names: Sequence[Node], unit: Node) -> None:
        return None

    def told(self, say: Say) -> str:
        total = f"clamped to {bounds(self.term)} in quanta of {number(self.term.quantum)}"
        return f"sum of {say(self.value.scalar)}, each person's total {total}{where(self.counted, say)}"

    def bounds_told(self, say: Say) -> list[str]:
        return [f"one person's total of {has_bounds(self.term, say)}"]


def unit_total(argument: Scalar, counted: Scalar | None, what: str) -> UnitTotal:
    """The statistic of an argument with declared bounds of a unit's total.

    Why  a row without bounds of its own is clamped to the widest total: it can count for no more. Both are on the finer grid
         of the two, so that the sum of rows is the sum of quanta
    """
    assert argument.unit_bounds is not None
    hull = finite_hull(argument)
    wide = argument.unit_bounds
    most = max(abs(wide.lower), abs(wide.upper))
    rows = hull if hull is not None else Interval(-most, most)
    both = Interval(min(rows.lower, wide.lower), max(rows.upper, wide.upper))
    grid = term(replace(argument, domain=both), what).quantum
    value = term(replace(argument, domain=rows, step=grid), what)
    total = term(replace(argument, domain=wide, step=grid, limits=None), what)
    if value.quantum != total.quantum:
        raise error(901, "a unit's total and its rows are on different grids")
    return UnitTotal(total, value, counted)
