"""Shorter SQL for data on which limits, and then also clamps, were verified to change nothing (rule 35)."""

from __future__ import annotations

import math
from dataclasses import replace

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.base import Statistic
from dpsql.aggregates.count import Rows
from dpsql.aggregates.count_distinct import Units
from dpsql.aggregates.sum import Total
from dpsql.expressions.arithmetic import narrow
from dpsql.expressions.scalar import Scalar
from dpsql.plan.compiled import Verified
from dpsql.plan.releases import Release
from dpsql.planner.lower.rows import UNIT, per_row, rows_of
from dpsql.schema.facts import bounds_fact
from dpsql.sql.nodes import Aggregate, Bare, Case, Node

_ADDED_UP = (Rows, Units, Total, Pair)
"""Statistics whose sums over units are those over rows where nothing is cut; of any other that is not known."""


def verified(
    release: Release, statistics: list[Statistic], names: list[list[Node]], inputs: list[Scalar]
) -> tuple[Verified, ...]:
    """Shorter SQL for data on which the limits, and then also the clamps, were verified to change nothing (rule 35).

    Why  where no unit has more rows than the limit that is enforced, and no more groups than that can be, every cut keeps
         everything: the sums per unit add up to the sums of the rows
    """
    source = release.limited.block.source
    added_up = all(isinstance(s, _ADDED_UP) for s in statistics)
    if not (release.limited.enforced and added_up and nothing_cut(release)):
        return ()
    unit = any(isinstance(s, Units) for s in statistics)
    rows = rows_of(release, inputs, unit=unit)
    found = [Verified(per_row(release, _row_sums(statistics, names), rows), source.facts)]
    bounded = [_without_clamp(s) for s in statistics]
    facts = [_bounds_facts(s) for s in statistics]
    if bounded != statistics and all(f is not None for f in facts):
        more = source.facts.union(*(f for f in facts if f is not None))
        rows = rows_of(release, _narrowed(inputs, bounded), unit=unit)
        found.insert(0, Verified(per_row(release, _row_sums(bounded, names), rows), more))
    return tuple(found)


def _narrowed(inputs: list[Scalar], bounded: list[Statistic]) -> list[Scalar]:
    """What unclamped statistics add up, computed in the fewest digits that the verified bounds allow."""
    exact = {s.term.scalar.tree for s in bounded if isinstance(s, Total | Pair) and not s.term.clamped}
    found = []
    for scalar in inputs:
        fewer = narrow(scalar) if scalar.tree in exact and not scalar.is_column else scalar
        # The digits after the point say what a sum is worth.
        found.append(fewer if fewer.sqltype.scale == scalar.sqltype.scale else scalar)
    return found


def _row_sums(statistics: list[Statistic], names: list[list[Node]]) -> list[tuple[Node, ...]]:
    """Sums over rows as they are; people are counted once each."""
    found: list[tuple[Node, ...]] = []
    for statistic, columns in zip(statistics, names, strict=True):
        one = Bare(Case(((columns[0], UNIT),))) if columns else UNIT
        people = Aggregate("count", (one,), distinct=True)
        found.append((people,) if isinstance(statistic, Units) else statistic.row_sums(columns))
    return found


def nothing_cut(release: Release) -> bool:
    """Whether units with no more rows than they are verified to have keep all of them."""
    source, limits = release.limited.block.source, release.limited.limits
    most = source.unit.max_rows if source.unit is not None else None
    return most is not None and limits.rows >= most and groups_kept(release)


def groups_kept(release: Release) -> bool:
    """Whether the limit on groups is none: a unit cannot be in more."""
    limits = release.limited.limits
    listed = [len(key.values) for key in release.keys if key.values is not None]
    declared = math.prod(listed) if len(listed) == len(release.keys) else limits.rows
    constant = all(key.scalar.is_constant for key in release.keys)
    return constant or limits.groups >= min(limits.rows, declared)


def _without_clamp(statistic: Statistic) -> Statistic:
    """The statistic over values that need no clamp: exact types alone, where the bounds of a sum hold to the last digit."""
    if isinstance(statistic, Total | Pair) and (statistic.term.is_decimal or statistic.term.is_integer):
        return replace(statistic, term=replace(statistic.term, clamped=False))
    return statistic


def _bounds_facts(statistic: Statistic) -> frozenset[str] | None:
    """What must be verified for a statistic's clamp to change nothing; None where no fact says so."""
    if not isinstance(statistic, Total | Pair):
        return frozenset()
    scalar = statistic.term.scalar
    if any(part.function == "bounded" for part in scalar.walk()):
        return None
    leaves = list(scalar.leaves())
    if not all(leaf.origin for leaf in leaves):
        return None
    places = (leaf.origin.rpartition(".") for leaf in leaves)
    return frozenset(bounds_fact(table, name) for table, _, name in places)
