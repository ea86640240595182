"""lower: Release -> CompiledRelease. The engine SQL, printed by us from scalars that cannot fail.

Where one unit has one row (row level, or verified keys) the rows of a group are summed as they are; nothing is cut, so groups whose
key is not declared may be left out after the sums. Otherwise the sums are made per (unit, group) first, and there every unit is cut to
its limits:

    1. rows: WHERE, rows without a unit left out, rows whose key is not declared left out - all before anything is cut (rule 13);
    2. sums of each (unit, group), a function of that unit's own rows;
    3. a unit's groups in the order of a keyed hash of (unit, key), then of the key: `turn` numbers them, and only the first
       `groups` stay. The order reads nothing of other units;
    4. per statistic, `before` rows were already used in earlier groups, so this group keeps cut = clamp(rows - before, 0, its rows);
       over all groups of a unit the cuts add up to at most `rows`;
    5. the statistic's sums are scaled and clamped to `cut` rows, then added up over units.

One unit, added or removed, changes step 5's addends of its own (unit, group) pairs and nothing else.

Where different values are counted, steps 2 to 4 say how many values each unit may take in each group, and the release stage sees who
takes which (aggregates/distinct_values.py).

keys       group keys on their way, and the conditions that keep the declared ones
rows       the rows that count, and the sums where nothing is cut
cutting    steps 3 and 4
values     tallies, and who takes which where different values are counted
uncut      shorter SQL for verified data
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.aggregates.base import CUT, ROWS, Statistic, UnitSums
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import Release
from dpsql.plan.resolved import Bound
from dpsql.planner.lower.cutting import cut, verified
from dpsql.planner.lower.rows import UNIT, as_text, inputs_of, key_columns, over, per_row, rows_of, worked_out
from dpsql.planner.lower.values import matchings, tallied
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Aggregate, Node, Own, own
from dpsql.sql.queries import Item
from dpsql.sql.trees import rewritten, tables


def lower(release: Release, bounds: Sequence[Bound] = ()) -> CompiledRelease:
    """The SQL of one release: group keys first, then the exact sums of its measures in order."""
    taken = matchings(release)
    matched = {matching.measure for matching in taken}
    statistics = [m.statistic for i, m in enumerate(release.measures) if i not in matched]
    names, inputs = inputs_of(statistics)
    rows = worked_out(rows_of(release, inputs), statistics, names)
    if not statistics:
        sql = ""
    elif release.limited.enforced:
        sql = printed(_per_unit(release, statistics, names, rows))
    else:
        sql = printed(per_row(release, [s.row_sums(n) for s, n in zip(statistics, names, strict=True)], rows))
    short = verified(release, statistics, names, inputs) if statistics else ()
    return CompiledRelease(release, sql, _bounds(release, bounds), short, tallied(release), taken)


def _bounds(release: Release, bounds: Sequence[Bound]) -> tuple[str, ...]:
    """The bound tables that a release reads."""
    measured = [scalar for measure in release.measures for scalar in measure.statistic.inputs]
    counted = [scalar for chosen in release.chosen for scalar in chosen.tallied.tally.inputs]
    read = tables(rows_of(release, [*measured, *counted])) if bounds else frozenset()
    return tuple(bound.name for bound in bounds if bound.name in read)


def _per_unit(release: Release, statistics: list[Statistic], names: list[list[Node]], rows: Node) -> Node:
    keys, limits = key_columns(release), release.limited.limits
    asked = (s.unit_sums(n) for s, n in zip(statistics, names, strict=True))
    parts = [part for part in asked if isinstance(part, UnitSums)]
    inner = [Item(part.rows, Own(f"r{i}")) for i, part in enumerate(parts)]
    inner += [Item(tree, Own(f"{name}{i}")) for i, part in enumerate(parts) for name, tree in part.inner]
    owners = (UNIT, *keys)
    by_unit = over(rows, "counted", [*owners, *inner], group=owners)
    limited = cut(by_unit, keys, limits, len(parts))
    outer: list[Node] = []
    for i, part in enumerate(parts):
        columns: dict[Node, Node] = {ROWS: own(f"r{i}"), CUT: own(f"c{i}")}
        columns |= {own(name): own(f"{name}{i}") for name, _ in part.inner}
        outer += [rewritten(tree, columns) for tree in part.outer]
    sums = [Item(as_text(Aggregate("sum", (tree,))), Own(f"s{i}")) for i, tree in enumerate(outer)]
    return over(limited, "limited", [*keys, *sums], group=tuple(keys))
