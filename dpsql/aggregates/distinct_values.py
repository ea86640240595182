"""COUNT(DISTINCT x) of a value that is not the privacy unit: how many different values there are.

Where one unit has one row, a row adds at most one value to one group: l1 = 1.

Where a unit may have several, counting what everybody brings would let one unit add all its values. So units take values instead: in
each group, unit after unit in a fixed order takes values of its own list, in that list's order, that nobody took before it, at most
as many as its capacity in the group. What is counted is the values taken. A unit's capacities depend on its own rows alone; one is at
most `most`, and all of a unit together are at most the limit on rows (planner/lower).

    l0 = min(K, groups), linf = c = min(K, most), l1 = min(K, c groups), l2^2 <= c l1

Proof, for one group and a unit u with the capacity c_u there. Run the units in their order with u, where S is what is taken so far,
and without u, where S' is. Nothing differs before u. After u, S' is part of S, and at most c_u values more are in S. Let that hold
before a later unit w, with the list L in its order and the capacity c. With u it looks at B = L \\ S, without u at A = L \\ S', so B is
part of A, in the same order. It takes the first min(c, |B|) of B, or the first min(c, |A|) of A.
  - S' stays part of S: of the first c of A, those that are in B are among the first c of B, since B leaves some of A out and keeps the
    order; those that are not in B are in S.
  - |S| - |S'| does not grow: min(c, |A|) >= min(c, |B|).
So the count falls by 0 to c_u where u is removed: linf <= c. Groups are taken apart from each other, so over all of them the change is
at most the sum of u's capacities: l1. And a vector with entries of at most c in absolute value that add up to at most l1 has l2^2 at
most c l1. What is released is this count alone: who took which value would not have this bound (rule 11).

The order of units is that of a keyed hash of the unit, then of the unit; that of values a keyed hash of the value, then the value:
both fixed whatever others bring (rule 24). To order by how common a value is would break the proof: S' and S would be
taken from lists in two orders. One order of values for all units, drawn at random, loses at most 1/e of the largest
matching, on average. NULL is no value, and NaN is none, as in COUNT(x).

COUNT(DISTINCT a, b) counts one value that is made of several: nothing above asks what a value is.

Source: Knop, Steinke 2023, Counting Distinct Elements Under Person-Level Differential Privacy (a matching has this sensitivity; by
max-flow); Karp, Vazirani, Vazirani 1990, An Optimal Algorithm for On-line Bipartite Matching (the order of values). That the greedy
matching has it too is proved above.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpsql.aggregates.base import Limits, Matching, Sensitivity, StatisticDefaults
from dpsql.aggregates.telling import Say, where
from dpsql.core.domains import Categories, integers
from dpsql.core.sqltypes import COMBINATION
from dpsql.expressions.scalar import NULL_TYPE, Scalar, tree_of
from dpsql.sql.nodes import Aggregate, Bare, Binary, Call, Case, Cast, Chain, Is, Literal, Node, Number


@dataclass(frozen=True, slots=True)
class DistinctValues(StatisticDefaults):
    """The number of different values over the rows for which `counted` is true. One cell per group.

    most  [values] that one unit may take in one group
    """

    value: Scalar
    counted: Scalar | None
    most: int

    @property
    def identity(self) -> Hashable:
        return "distinct", self.value.tree, tree_of(self.counted), self.most

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return (_known(self.value),) if self.counted is None else (_known(self.value), self.counted)

    terms = ()

    def sensitivity(self, limits: Limits) -> Sensitivity:
        most = min(self.most, limits.rows)
        l1 = min(limits.rows, most * limits.groups)
        return Sensitivity(min(limits.rows, limits.groups), most, l1, most * l1)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        return (Aggregate("count", (where_counted(names),), distinct=True),)

    def unit_sums(self, names: Sequence[Node]) -> Matching:
        return Matching(where_counted(names), self.most)

    def adds_up(self, one_row: bool) -> bool:
        return False

    def expected(self, units: Fraction, rows: Fraction) -> Fraction | None:
        return None

    def uncut_sums(self, names: Sequence[Node], unit: Node) -> None:
        return None

    def told(self, say: Say) -> str:
        taken = f", at most {self.most:,} of one person in a group" if self.most > 1 else ""
        return f"number of different values of {say(self.value)}{where(self.counted, say)}{taken}"


def combination(parts: Sequence[Scalar], whole: bool) -> Scalar:
    """Several values as one: equal where all of them are.

    whole  as (a, b), in which NULL is like any other; else there is none where one of them is NULL
    """
    known = [_known(part) for part in parts]
    tree: Node = Call("row", tuple(part.tree for part in known))
    nullable = [part for part in known if part.nullable or part.sqltype.is_float]
    if nullable and not whole:
        there = Chain("AND", tuple(Bare(Is(part.tree, "NOT NULL")) for part in nullable))
        tree = Bare(Case(((Bare(there), tree),)))
    return Scalar("row", tuple(parts), tree, COMBINATION, nullable=bool(nullable) and not whole)


def declared_values(value: Scalar) -> int | None:
    """Number of declared values; None where that is not known."""
    if value.sqltype == COMBINATION:
        # NULL is one more
        found = [declared_values(part) for part in value.args]
        return None if None in found else math.prod(n + 1 for n in found if n is not None)
    domain = integers(value.domain) if value.integral else value.domain
    return 2 if value.sqltype.is_boolean else len(domain.values) if isinstance(domain, Categories) else None


def _known(value: Scalar) -> Scalar:
    """The value with one zero, and NULL for NaN: what is equal is the same."""
    if not value.sqltype.is_float:
        return value
    x, zero = value.tree, Cast(Number(0), value.sqltype, tries=False)
    nothing = (Call("isnan", (x,)), Literal(None, NULL_TYPE))
    tree = Bare(Case((nothing, (Bare(Binary("=", x, Number(0))), zero)), x))
    return replace(value, function="known", args=(value,), tree=tree, value=None)


def where_counted(names: Sequence[Node], value: Node | None = None) -> Node:
    """A value where the condition that is named after it is true, else NULL; by default the first name itself."""
    value = names[0] if value is None else value
    return Bare(Case(((names[1], value),))) if names[1:] else value


def matched(values: Sequence[int], capacities: Sequence[int], turns: Sequence[int]) -> int:
    """Number of values that the units of one group take.

    One entry for each unit and each value that it brings, in any order:

    values      numbered in the order of values
    capacities  of the unit
    turns       the unit's place in the order of units
    """
    entries = np.array([values, capacities, turns], dtype=np.int64)
    ordered = entries[:, np.lexsort((entries[0], entries[2]))].tolist()
    taken: set[int] = set()
    now, left = -1, 0
    for value, capacity, turn in zip(*ordered, strict=True):
        if turn != now:
            now, left = turn, capacity
        if left and value not in taken:
            taken.add(value)
            left -= 1
    return len(taken)
