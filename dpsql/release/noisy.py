"""release: ExactTable -> NoisyTable. The only code that reads exact sums.

Declared keys are all there, with zeros where the engine had no rows, and a key that was not declared is dropped. Noise is drawn for
a vector of zeros and added to the exact integers in Python, so an exact sum never enters a machine integer. A privately selected key
that somebody has stays iff its noisy number of units reaches the threshold. The order of groups is that of the declared list, or of
the released keys themselves: never the engine's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product

import numpy as np

from dpsql.aggregates.distinct_values import matched
from dpsql.aggregates.histogram import Counts
from dpsql.core.errors import error
from dpsql.engines.base import ExactTable
from dpsql.mechanisms.source import NoiseSource
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import Release
from dpsql.plan.tables import KeyValue, NoisyTable, PublicTable

Columns = tuple[list[KeyValue], ...]

KeyTables = Mapping[str, Columns]
"""The columns of input tables that list group keys, by name."""


def release(
    compiled: CompiledRelease,
    exact: ExactTable | None,
    noise: NoiseSource,
    lists: KeyTables | None = None,
    histograms: Sequence[ExactTable] = (),
    matchings: Sequence[ExactTable] = (),
) -> NoisyTable:
    """Add noise to the exact sums of one release, select its keys, and choose what is chosen of its histograms.

    exact      the sums of its measures; None where the engine has none
    lists      the input tables that list its keys
    histograms    as `compiled.histograms`
    matchings  as `compiled.matchings`
    Output     keys and noisy integer cells [quanta]
    Loss       the release's own; charged before this is called
    """
    asked = compiled.release
    keys, sums = _sums(compiled, exact, matchings)
    if asked.selection is None:
        keys, sums = _fill(asked, keys, sums, lists or {})
        groups = len(keys[0]) if keys else 1
        noisy = NoisyTable(
            keys, tuple(c for i in range(len(asked.measures)) for c in _noisy(asked, i, sums, groups, noise)), groups
        )
    else:
        noisy = _select(asked, keys, sums, noise, lists or {})
    if asked.chosen:
        noisy = NoisyTable(noisy.keys, (*noisy.cells, *_chosen(compiled, noisy, noise, histograms)), noisy.groups)
    return _suppressed(asked, noisy)


def _suppressed(asked: Release, noisy: NoisyTable) -> NoisyTable:
    """The table without the cells of groups whose noisy number of people is too small: post-processing of released numbers."""
    cells = [list(column) for column in noisy.cells]
    starts = asked.cell_starts
    for one in asked.suppressed:
        people = noisy.cells[starts[one.measure]]
        few = [i for i, count in enumerate(people) if count is None or count < one.k]
        for part in {one.measure, *asked.read_by(one.outputs)}:
            for column in cells[starts[part] : starts[part + 1]]:
                for i in few:
                    column[i] = None
    return NoisyTable(noisy.keys, tuple(cells), noisy.groups)


def _sums(
    compiled: CompiledRelease, exact: ExactTable | None, matchings: Sequence[ExactTable]
) -> tuple[Columns, tuple[list[int], ...]]:
    """Keys and sums of all measures: those of the engine, and how many values are taken."""
    asked = compiled.release
    keys, sums = exact.open_exact() if exact is not None else (tuple([] for _ in asked.keys), ())
    if not compiled.matchings:
        return keys, sums
    taken = [_taken(found) for found in matchings]
    rows = list(zip(*keys, strict=True)) if keys else [()] * len(sums[0] if sums else ())
    rows = list(dict.fromkeys([*rows, *(group for one in taken for group in one)]))
    own = {part.measure: one for part, one in zip(compiled.matchings, taken, strict=True)}
    columns: list[list[int]] = []
    start = 0
    for i, measure in enumerate(asked.measures):
        if i in own:
            columns.append([own[i].get(group, 0) for group in rows])
        else:
            end = start + measure.statistic.sums
            columns += [[*column, *([0] * (len(rows) - len(column)))] for column in sums[start:end]]
            start = end
    return tuple([group[i] for group in rows] for i in range(len(asked.keys))), tuple(columns)


def _taken(exact: ExactTable) -> dict[tuple[KeyValue, ...], int]:
    """Number of values that the units of each group take."""
    keys, (values, capacities, turns) = exact.open_exact()
    if not keys:
        return {(): matched(values, capacities, turns)}
    rows: dict[tuple[KeyValue, ...], list[int]] = {}
    for row, group in enumerate(zip(*keys, strict=True)):
        rows.setdefault(group, []).append(row)
    return {
        group: matched([values[i] for i in own], [capacities[i] for i in own], [turns[i] for i in own])
        for group, own in rows.items()
    }


def _chosen(
    compiled: CompiledRelease, noisy: NoisyTable, noise: NoiseSource, histograms: Sequence[ExactTable]
) -> list[list[int]]:
    """Values selected from the histograms, for the groups that are shown."""
    groups = {
        part.histogram.identity: _by_group(noisy, exact, part.histogram.summed)
        for part, exact in zip(compiled.histograms, histograms, strict=True)
    }
    return [
        cell
        for part in compiled.release.chosen
        for cell in part.over_histogram.release(groups[part.over_histogram.histogram.identity], part.terms, noise)
    ]


def _by_group(noisy: NoisyTable, exact: ExactTable, summed: bool) -> list[Counts]:
    """A histogram, group by group, in the order in which groups are shown; empty where nobody is."""
    if not noisy.keys:
        return [_counts(exact, summed)]
    found = [Counts([], [], []) for _ in range(noisy.groups)]
    places = {key: i for i, key in enumerate(zip(*noisy.keys, strict=True))}
    (*keys, values), (counts, *sums) = exact.open_exact()
    owned = np.array([places.get(owner, -1) for owner in zip(*keys, strict=True)], dtype=np.int64)
    rows = np.array(
        [row for row in np.argsort(owned, kind="stable").tolist() if values[row] is not None], dtype=np.int64
    )
    # of every group the rows from one of these to the next
    begins = np.searchsorted(owned[rows], np.arange(noisy.groups + 1)).tolist()
    for place, (begin, end) in enumerate(pairwise(begins)):
        for row in rows[begin:end].tolist():
            found[place].values.append(values[row])
            found[place].counts.append(counts[row])
            if summed:
                found[place].sums.append(sums[0][row])
    return found


def _counts(exact: ExactTable, summed: bool) -> Counts:
    """A histogram of everybody."""
    (values,), (counts, *sums) = exact.open_exact()
    rows = [i for i, value in enumerate(values) if value is not None]
    added = [sums[0][i] for i in rows] if summed else []
    return Counts([values[i] for i in rows], [counts[i] for i in rows], added)  # type: ignore[misc]


def wire_columns(table: PublicTable) -> Columns:
    """The columns of an input table as group keys."""
    for column in table.data:
        if not all(value is None or isinstance(value, int | str) for value in column):
            raise error(901, "a listed key is neither an integer, a boolean nor text")
    return tuple(list(column) for column in table.data)  # type: ignore[arg-type]


def declared_keys(asked: Release, lists: KeyTables) -> Columns:
    """All combinations of the listed key values, in their order; no columns for a release without keys."""
    tuples = [(listed.keys, list(zip(*lists[listed.bound], strict=True))) for listed in asked.limited.block.lists]
    dimensions = [((i,), [(v,) for v in key.values]) for i, key in enumerate(asked.keys) if key.values is not None]
    ordered = sorted([*tuples, *dimensions], key=lambda dimension: dimension[0])
    places = [place for positions, _ in ordered for place in positions]
    columns: list[list[KeyValue]] = [[] for _ in asked.keys]
    for combination in product(*(values for _, values in ordered)):
        for place, value in zip(places, (v for part in combination for v in part), strict=True):
            columns[place].append(value)
    return tuple(columns)


def _fill(
    asked: Release, keys: Columns, sums: tuple[list[int], ...], lists: KeyTables
) -> tuple[Columns, tuple[list[int], ...]]:
    """Sums for exactly the listed keys: zeros where there were no rows, other keys left out."""
    if not asked.keys:
        return (), tuple(column[:1] or [0] for column in sums)
    declared = declared_keys(asked, lists)
    position = {key: i for i, key in enumerate(zip(*declared, strict=True))}
    places = [position.get(key) for key in zip(*keys, strict=True)]
    filled = tuple([0] * len(position) for _ in sums)
    for column, target in zip(sums, filled, strict=True):
        for place, value in zip(places, column, strict=True):
            if place is not None:
                target[place] = value
    return declared, filled


def _noisy(asked: Release, index: int, sums: tuple[list[int], ...], groups: int, noise: NoiseSource) -> list[list[int]]:
    """The noisy cells of one measure: one vector of draws over all its cells and groups."""
    measure = asked.measures[index]
    start = sum(m.statistic.sums for m in asked.measures[:index])
    cells = measure.statistic.to_cells(sums[start : start + measure.statistic.sums])
    draws = measure.noise.sample(noise, len(cells) * groups)
    return [
        [exact + draw for exact, draw in zip(cell, draws[i * groups : (i + 1) * groups], strict=True)]
        for i, cell in enumerate(cells)
    ]


def _select(
    asked: Release, keys: Columns, sums: tuple[list[int], ...], noise: NoiseSource, lists: KeyTables
) -> NoisyTable:
    """Keep the groups with units whose noisy number reaches tau; draw the other measures' noise for those alone."""
    selection = asked.selection
    assert selection is not None and selection.measure == 0
    groups = len(keys[0])
    units = _noisy(asked, 0, sums, groups, noise)[0]
    tau = selection.tau
    kept = [i for i, (noisy, exact) in enumerate(zip(units, sums[0], strict=True)) if noisy >= tau and exact > 0]
    for key, column in zip(asked.keys, keys, strict=True):
        if key.values is not None:
            declared = set(key.values)
            kept = [i for i in kept if column[i] in declared]
    for listed in asked.limited.block.lists:
        known = set(zip(*lists[listed.bound], strict=True))
        kept = [i for i in kept if tuple(keys[place][i] for place in listed.keys) in known]
    # of several keys the last one sorts first: a sort keeps the order of what is equal
    for column in reversed(keys):
        kept = _sorted(kept, column)
    chosen_keys = tuple([column[i] for i in kept] for column in keys)
    chosen_sums = tuple([column[i] for i in kept] for column in sums)
    cells: list[list[int]] = [[units[i] for i in kept]]
    for index in range(1, len(asked.measures)):
        cells += _noisy(asked, index, chosen_sums, len(kept), noise)
    return NoisyTable(chosen_keys, tuple(cells), len(kept))


def _sorted(kept: list[int], column: list[KeyValue]) -> list[int]:
    """Positions in the order of a column, which is of one type: numbers by size, text by code point, NULL last."""
    present = [i for i in kept if column[i] is not None]
    present.sort(key=column.__getitem__)  # type: ignore[arg-type]
    return present + [i for i in kept if column[i] is None] if len(present) < len(kept) else present


def key_list(asked: Release, lists: KeyTables) -> NoisyTable:
    """A release without measures: the declared keys, which are public."""
    keys = declared_keys(asked, lists)
    return NoisyTable(keys, (), len(keys[0]) if keys else 1)
