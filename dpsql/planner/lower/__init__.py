"""lower: Release -> CompiledRelease. The engine SQL, printed by us from scalars that cannot fail.

Where one unit has one row (row level, or verified keys) the rows of a group are summed as they are; nothing is cut, so groups whose
key is not declared may be left out after the sums. Otherwise the sums are made per (unit, group) first, and there every unit is cut to
its limits:

    1. rows: WHERE, rows without a unit left out;
    2. sums of each (unit, group), a function of that unit's own rows; those of groups whose key is not declared are left out as
       a whole, before anything is cut (rule 13);
    3. a unit's groups in the order of a keyed hash of (unit, key), then of the key: `turn` numbers them, and only the first
       `groups` stay. The order reads nothing of other units;
    4. per statistic, `before` rows were already used in earlier groups, so this group keeps cut = clamp(rows - before, 0, its rows);
       over all groups of a unit the cuts add up to at most `rows`;
    5. the statistic's sums are scaled and clamped to `cut` rows, then added up over units.

Where many sums are made and a first look at the unit's column alone tells which units have more rows than any may, the rows of all the
others are summed in step 2 as if they were of one unit, which nothing is cut of (`busy_units` in cutting).

One unit, added or removed, changes step 5's addends of its own (unit, group) pairs and nothing else.

Where different values are counted, steps 2 to 4 say how many values each unit may take in each group, and the release stage sees who
takes which (aggregates/distinct_values.py).

keys       group keys on their way, and the conditions that keep the declared ones
rows       the rows that count, and the sums where nothing is cut
cutting    steps 3 and 4, and before step 2 the cut of tables with periods
values     histograms, and who takes which where different values are counted
uncut      shorter SQL for verified data
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.aggregates.base import CUT, ROWS, Matching, Statistic, UnitSums
from dpsql.aggregates.histogram import Histogram, source_of
from dpsql.core.sqltypes import VARCHAR
from dpsql.expressions.scalar import Scalar
from dpsql.plan.compiled import CompiledHistogram, CompiledMatching, CompiledRelease, Verified
from dpsql.plan.releases import Release
from dpsql.plan.resolved import InputTable
from dpsql.planner.lower.cutting import (
    BUSY,
    KEEPS_ANY,
    busy_units,
    cut,
    hashed,
    limited_rows,
    nothing_cut,
    of_busy_units,
    verified,
    with_others,
)
from dpsql.planner.lower.rows import (
    ROW_VALUE,
    UNIT,
    ZERO,
    as_text,
    inputs_of,
    key_columns,
    only_declared,
    over,
    per_row,
    rows_of,
    worked_out,
)
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Aggregate, Bare, Binary, Call, Case, Cast, Is, Node, Number, Over, Own, Spread, Star, own
from dpsql.sql.queries import Common, Derived, Item, Join, Select, Table, With
from dpsql.sql.trees import rewritten, tables


def lower(release: Release, bounds: Sequence[InputTable] = ()) -> CompiledRelease:
    """The SQL of one release: group keys first, then the exact sums of its measures in order."""
    taken = matchings(release)
    matched = {matching.measure for matching in taken}
    sql, short = _summed(release, [m.statistic for i, m in enumerate(release.measures) if i not in matched])
    return CompiledRelease(release, sql, _bounds(release, bounds), short, over_histogram(release), taken)


def _summed(release: Release, statistics: list[Statistic]) -> tuple[str, tuple[Verified, ...]]:
    """The SQL of the exact sums of statistics, and shorter ones for verified data; "" where there are none."""
    if not statistics:
        return "", ()
    names, inputs = inputs_of(statistics)
    # per unit, groups that are not declared are left out after the sums
    whole = True if release.limited.enforced else None
    rows = worked_out(limited_rows(release, inputs, unit=whole), statistics, names)
    if release.limited.enforced:
        sql = printed(_per_unit(release, statistics, names, rows))
    else:
        sql = printed(per_row(release, [s.row_sums(n) for s, n in zip(statistics, names, strict=True)], rows))
    return sql, verified(release, statistics, names, inputs)


def _bounds(release: Release, bounds: Sequence[InputTable]) -> tuple[str, ...]:
    """The input tables that a release reads."""
    measured = [scalar for measure in release.measures for scalar in measure.statistic.inputs]
    counted = [scalar for chosen in release.chosen for scalar in source_of(chosen.over_histogram).inputs]
    read = tables(rows_of(release, [*measured, *counted])) if bounds else frozenset()
    return tuple(bound.name for bound in bounds if bound.name in read)


def _per_unit(release: Release, statistics: list[Statistic], names: list[list[Node]], rows: Node) -> Node:
    keys, limits = key_columns(release), release.limited.limits
    asked = (s.unit_sums(n) for s, n in zip(statistics, names, strict=True))
    parts = [part for part in asked if isinstance(part, UnitSums)]
    inner = [Item(part.rows, Own(f"r{i}")) for i, part in enumerate(parts)]
    inner += [Item(tree, Own(f"{name}{i}")) for i, part in enumerate(parts) for name, tree in part.inner]
    busy = busy_units(release, parts)
    if busy is None:
        owners: tuple[Node, ...] = (UNIT, *keys)
        summed = over(rows, "counted", [*owners, *inner], group=owners)
    else:
        shown, owners = Item(BUSY, Own("u")), (BUSY, *keys)
        summed = over(of_busy_units(rows), "counted", [shown, *keys, *inner], group=owners)
    limited = cut(replace(summed, having=only_declared(release.keys)), keys, limits, len(parts), busy)
    outer: list[Node] = []
    shared: list[Node] = []
    for i, part in enumerate(parts):
        columns: dict[Node, Node] = {ROWS: own(f"r{i}"), CUT: own(f"c{i}")}
        columns |= {own(name): own(f"{name}{i}") for name, _ in (*part.inner, *part.shared)}
        shared += [Item(rewritten(tree, columns), Own(f"{name}{i}")) for name, tree in part.shared]
        if busy is None:
            outer += [Aggregate("sum", (rewritten(tree, columns),)) for tree in part.outer]
        else:
            pairs = zip(part.outer, part.whole, strict=True)
            outer += [with_others(rewritten(tree, columns), rewritten(whole, columns)) for tree, whole in pairs]
    sums = [Item(as_text(tree), Own(f"s{i}")) for i, tree in enumerate(outer)]
    limited = over(limited, "limited", [Star(), *shared]) if shared else limited
    return over(limited, "limited", [*keys, *sums], group=tuple(keys))


def over_histogram(release: Release) -> tuple[CompiledHistogram, ...]:
    """The histograms that something of a release is chosen of, each once."""
    different = {source_of(one.over_histogram).identity: one.over_histogram for one in release.chosen}
    found: list[CompiledHistogram] = []
    for one in different.values():
        scores, histogram = one.scores, one.histogram
        if scores is not None:
            found.append(CompiledHistogram(scores, False, scores.sums, *_summed(release, [scores])))
        elif histogram is not None:
            found.append(CompiledHistogram(histogram, True, 1 + histogram.summed, *_histogram(release, histogram)))
    return tuple(found)


def _histogram(release: Release, histogram: Histogram) -> tuple[str, tuple[Verified, ...]]:
    """The rows of each group with each value. Where a unit may have several rows its values of a group are sorted, and of n that
    are cut to c those at evenly spread places stay: a function of its own rows, at most c of them.
    """
    inputs = list(histogram.inputs)
    value = histogram.value_of([own(f"x{i}") for i in range(len(inputs))])
    enforced, limits = release.limited.enforced, release.limited.limits
    if not enforced:
        return printed(_counted(release, histogram, value, rows_of(release, inputs))), ()
    keys, known, listed = key_columns(release), Bare(Is(ROW_VALUE, "NOT NULL")), own("v0")
    owners = (UNIT, *keys)
    valued = over(limited_rows(release, inputs), "counted", [*owners, Item(value, Own("v"))])
    sorted_values = Call("list_sort", (Aggregate("list", (ROW_VALUE,), where=known),))
    items = [Item(Aggregate("count", (ROW_VALUE,)), Own("r0")), Item(sorted_values, Own("v0"))]
    by_unit = over(valued, "valued", [*owners, *items], group=owners)
    limited = cut(by_unit, keys, limits, 1)
    whole = Bare(Binary("=", own("c0"), own("r0")))
    kept = Bare(Case(((whole, listed),), Spread(listed, own("r0"), own("c0"))))
    column = Item(Call("unnest", (kept,)), Own("v"))
    tree = _bucketed(histogram, keys, over(limited, "limited", [*keys, column], where=(KEEPS_ANY,)))
    return printed(tree), _verified_histogram(release, histogram, value, inputs)


def _counted(release: Release, histogram: Histogram, value: Node, rows: Node) -> Node:
    """Every row counts as it is; groups whose key is not declared are left out after that."""
    keys = key_columns(release)
    values = over(rows, "counted", [*keys, Item(value, Own("v"))])
    return replace(_bucketed(histogram, keys, values), having=only_declared(release.keys))


def _bucketed(histogram: Histogram, keys: list[Node], values: Node) -> Select:
    columns: list[Node] = [Item(Aggregate("count", (Star(),)), Own("s0"))]
    if histogram.summed:
        columns.append(Item(Cast(Aggregate("sum", (ROW_VALUE,)), VARCHAR, tries=False), Own("s1")))
    bucket = Item(histogram.bucket_of(ROW_VALUE), Own("b"))
    return over(values, "valued", [*keys, bucket, *columns], group=(*keys, own("b")))


def _verified_histogram(
    release: Release, histogram: Histogram, value: Node, inputs: list[Scalar]
) -> tuple[Verified, ...]:
    """Without the cut, where it was verified to leave everything (see `verified`)."""
    if not nothing_cut(release):
        return ()
    rows = rows_of(release, inputs, unit=False)
    return (Verified(_counted(release, histogram, value, rows), release.limited.block.source.facts),)


def matchings(release: Release) -> tuple[CompiledMatching, ...]:
    """Statistics of a release that are counted by letting units take values."""
    if not release.limited.enforced:
        return ()
    found = []
    for i, measure in enumerate(release.measures):
        (names,), inputs = inputs_of([measure.statistic])
        part = measure.statistic.unit_sums(names)
        if isinstance(part, Matching):
            tree = _taking(release, part, limited_rows(release, inputs))
            found.append(CompiledMatching(i, printed(tree), _verified_matching(release, part, inputs)))
    return tuple(found)


def _taking(release: Release, part: Matching, rows: Node) -> Node:
    """Each value that a unit brings to a group, in the orders of values and of units; capacities are cut as rows are.

    Why  a unit needs no more of the limit on rows than it has different values, and takes no more than `most`
    """
    keys, limits = key_columns(release), release.limited.limits
    owners, number, place = (UNIT, *keys), own("b"), own("w")
    valued = over(rows, "counted", [Star(), Item(part.value, Own("v"))])
    brought = Select(
        (*owners, ROW_VALUE), Derived(valued, Own("valued")), (Bare(Is(ROW_VALUE, "NOT NULL")),), once=True
    )
    different = Select((ROW_VALUE,), Table(Own("brought")), once=True)
    turn = Over(Call("row_number"), order=(hashed(ROW_VALUE), ROW_VALUE))
    numbered = over(different, "different", [Item(ROW_VALUE, Own("w")), Item(turn, Own("b"))])
    capacity = Call("LEAST", (Aggregate("count", (Star(),)), Number(part.most)))
    both = Join("", Table(Own("brought")), Table(Own("numbered")), (Bare(Binary("=", ROW_VALUE, place)),))
    taken = (Item(capacity, Own("r0")), Item(Aggregate("list", (number,)), Own("v0")))
    by_unit = Select((*owners, *taken), both, group=owners)
    limited = cut(by_unit, keys, limits, 1)
    turns = Over(Call("row_number"), order=(hashed(UNIT), *owners))
    placed = over(limited, "limited", [Star(), Item(turns, Own("t"))], where=(KEEPS_ANY,))
    columns = [Item(Call("unnest", (own("v0"),)), Own("s0")), Item(own("c0"), Own("s1")), Item(own("t"), Own("s2"))]
    return With(
        (Common(Own("brought"), brought, kept=True), Common(Own("numbered"), numbered)),
        over(placed, "placed", [*keys, *columns]),
    )


def _verified_matching(release: Release, part: Matching, inputs: list[Scalar]) -> tuple[Verified, ...]:
    """Everybody takes what they bring, where no limit binds (see `verified`): as if one unit could take all of it."""
    source, keys = release.limited.block.source, key_columns(release)
    unit = source.unit
    if not nothing_cut(release) or unit is None or unit.max_rows is None or part.most < unit.max_rows:
        return ()
    rows, number = rows_of(release, inputs, unit=False), own("n")
    different = Item(Aggregate("count", (part.value,), distinct=True), Own("n"))
    having = only_declared(release.keys)
    counts = Select((*keys, different), Derived(rows, Own("counted")), group=tuple(keys), having=having)
    places = Call("unnest", (Call("range", (number,)),))
    columns = [Item(places, Own("s0")), Item(number, Own("s1")), Item(ZERO, Own("s2"))]
    return (Verified(over(counts, "different", [*keys, *columns]), source.facts),)
