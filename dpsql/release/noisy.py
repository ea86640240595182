"""release: ExactTable -> NoisyTable. The only code that reads exact sums.

Declared keys are all there, with zeros where the engine had no rows, and a key that was not declared is dropped. Noise is drawn for a
vector of zeros and added to the exact integers, exactly (core/columns.py): no sum wraps and none is cut off, however large the draw. A
privately selected key that somebody has stays iff its noisy number of units reaches the threshold. The order of groups is that of the
declared list, or of the released keys themselves: never the engine's.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import cast

import numpy as np

from dpsql.aggregates.distinct_values import matched
from dpsql.aggregates.histogram import Counts, source_of
from dpsql.core.columns import Column, Places, Whole, largest, ones, whole
from dpsql.core.errors import error
from dpsql.engines.base import ExactTable, Sieve
from dpsql.mechanisms.source import NoiseSource
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import Release
from dpsql.plan.suppressing import suppressed
from dpsql.plan.tables import KeyValue, NoisyTable, PublicTable

Columns = tuple[Column[KeyValue], ...]
Sums = tuple[Column[int], ...]
Group = tuple[KeyValue, ...]
"""The keys of one group."""
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
    keys, sums = _all_sums(compiled, exact, lists or {}, matchings)
    noisy = _drawn(asked, keys, sums, noise, lists or {}, exact.units if exact is not None else None)
    if asked.chosen:
        found = _histograms(compiled, noisy, histograms)
        noisy = NoisyTable(noisy.keys, (*noisy.cells, *_chosen(compiled, found, noise)), noisy.groups)
    return suppressed(asked, noisy)


def repeated(
    compiled: CompiledRelease,
    noise: NoiseSource,
    times: int,
    only: Container[Group] | None,
    exact: ExactTable | None,
    histograms: Sequence[ExactTable],
    matchings: Sequence[ExactTable],
) -> dict[Group, list[Column[int | None]]]:
    """Many releases of one table at once, for the audit of what is drawn: of each group its cells, NULL where it is not shown.

    only    the groups that are looked at; None: all

    Why     the place of a release stands beside the group keys: the noise of many groups is one vector, and so is that of one group
            many times. What people left in the data must never come here: no charge pays for more than one release
    """
    asked = compiled.release
    keys, sums = _all_sums(compiled, exact, {}, matchings)
    groups: list[Group] = list(zip(*map(Column.tolist, keys), strict=True)) if keys else [()]
    looked = np.array([i for i, group in enumerate(groups) if only is None or group in only], dtype=np.intp)
    rows = np.repeat(looked, times)
    place: Column[KeyValue] = Column(np.arange(len(rows)))
    noisy = _drawn(asked, (*(c.take(rows) for c in keys), place), tuple(c.take(rows) for c in sums), noise, {})
    at, cells = Column.of(noisy.keys[-1]).values.astype(np.intp), list(noisy.cells)
    if asked.chosen:
        found = _histograms(compiled, NoisyTable(tuple(c.take(looked) for c in keys), (), len(looked)), histograms)
        each = {name: [one[i] for i in (at // times).tolist()] for name, one in found.items()}
        cells += _chosen(compiled, each, noise)
    placed = [_placed(column, at, len(rows)) for column in cells]
    return {groups[i]: [column[n * times : (n + 1) * times] for column in placed] for n, i in enumerate(looked)}


def _placed(column: Sequence[int | None], at: Places, size: int) -> Column[int | None]:
    """The values at their places among `size`, and NULL elsewhere."""
    known = Column.of(column)
    values = np.zeros(size, dtype=known.values.dtype)
    values[at] = known.values
    nulls = np.ones(size, dtype=np.bool_)
    nulls[at] = known.nulls if known.nulls is not None else False
    return Column(values, nulls)


def _all_sums(
    compiled: CompiledRelease, exact: ExactTable | None, lists: KeyTables, matchings: Sequence[ExactTable]
) -> tuple[Columns, Sums]:
    """Keys and sums of the groups that may be released: of declared keys all of them."""
    keys, sums = _sums(compiled, exact, matchings)
    return _fill(compiled.release, keys, sums, lists) if compiled.release.selection is None else (keys, sums)


def _drawn(
    asked: Release, keys: Columns, sums: Sums, noise: NoiseSource, lists: KeyTables, units: Column[int] | None = None
) -> NoisyTable:
    """The sums with their noise, of groups that are selected where keys are private. units: see ExactTable"""
    if asked.selection is not None:
        left = ExactTable(keys, sums, units) if units is not None else _reaching(asked, keys, sums, noise)
        return _select(asked, left, noise, lists)
    cells = tuple(c for i in range(len(asked.measures)) for c in _noisy(asked, i, sums, noise))
    if asked.is_cube:
        return NoisyTable((), cells, len(cells[0]))
    return NoisyTable(keys, cells, len(keys[0]) if keys else 1)


def _sums(compiled: CompiledRelease, exact: ExactTable | None, matchings: Sequence[ExactTable]) -> tuple[Columns, Sums]:
    """Keys and sums of all measures: those of the engine, and how many values are taken."""
    asked = compiled.release
    nobody: Columns = tuple(Column.of(()) for _ in asked.keys)
    keys, sums = exact.open_exact() if exact is not None else (nobody, ())
    if not compiled.matchings:
        return keys, sums
    taken = [_taken(found) for found in matchings]
    rows = list(zip(*keys, strict=True)) if keys else [()] * len(sums[0] if sums else ())
    rows = list(dict.fromkeys([*rows, *(group for one in taken for group in one)]))
    own = {part.measure: one for part, one in zip(compiled.matchings, taken, strict=True)}
    columns: list[Column[int]] = []
    start = 0
    for i, measure in enumerate(asked.measures):
        if i in own:
            columns.append(Column.of([own[i].get(group, 0) for group in rows]))
        else:
            end = start + measure.statistic.sums
            columns += [Column.of([*column, *([0] * (len(rows) - len(column)))]) for column in sums[start:end]]
            start = end
    return tuple(Column.of([group[i] for group in rows]) for i in range(len(asked.keys))), tuple(columns)


def _taken(exact: ExactTable) -> dict[tuple[KeyValue, ...], int]:
    """Number of values that the units of each group take."""
    keys, taken = exact.open_exact()
    values, capacities, turns = map(Column.tolist, taken)
    if not keys:
        return {(): matched(values, capacities, turns)}
    rows: dict[tuple[KeyValue, ...], list[int]] = {}
    for row, group in enumerate(zip(*keys, strict=True)):
        rows.setdefault(group, []).append(row)
    return {
        group: matched([values[i] for i in own], [capacities[i] for i in own], [turns[i] for i in own])
        for group, own in rows.items()
    }


def _histograms(
    compiled: CompiledRelease, noisy: NoisyTable, histograms: Sequence[ExactTable]
) -> dict[Hashable, list[Counts]]:
    """The histograms by their identities, for the groups that are shown."""
    return {
        part.histogram.identity: _by_group(noisy, exact, part.sums > 1) if part.valued else _scores(noisy, exact)
        for part, exact in zip(compiled.histograms, histograms, strict=True)
    }


def _chosen(compiled: CompiledRelease, groups: Mapping[Hashable, list[Counts]], noise: NoiseSource) -> list[list[int]]:
    """Values selected from the histograms."""
    return [
        cell
        for part in compiled.release.chosen
        for cell in part.over_histogram.release(groups[source_of(part.over_histogram).identity], part.terms, noise)
    ]


def _by_group(noisy: NoisyTable, exact: ExactTable, summed: bool) -> list[Counts]:
    """A histogram, group by group, in the order in which groups are shown; empty where nobody is."""
    if not noisy.keys:
        return [_counts(exact, summed)]
    found = [Counts([], [], []) for _ in range(noisy.groups)]
    places = {key: i for i, key in enumerate(zip(*noisy.keys, strict=True))}
    (*keys, bucket), summed_up = exact.open_exact()
    values, (counts, *sums) = bucket.tolist(), map(Column.tolist, summed_up)
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


def _scores(noisy: NoisyTable, exact: ExactTable) -> list[Counts]:
    """The scores of each group; 0 where nobody is."""
    keys, sums = exact.open_exact()
    rows = list(zip(*map(Column.tolist, sums), strict=True))
    at = {key: i for i, key in enumerate(zip(*keys, strict=True))} if keys else {(): 0}
    asked = zip(*noisy.keys, strict=True) if noisy.keys else [()]
    nobody = (0,) * len(sums)
    return [Counts([], [], list(rows[at[key]] if key in at else nobody)) for key in asked]


def _counts(exact: ExactTable, summed: bool) -> Counts:
    """A histogram of everybody."""
    (bucket,), summed_up = exact.open_exact()
    values, (counts, *sums) = bucket.tolist(), map(Column.tolist, summed_up)
    rows = [i for i, value in enumerate(values) if value is not None]
    added = [sums[0][i] for i in rows] if summed else []
    return Counts([values[i] for i in rows], [counts[i] for i in rows], added)  # type: ignore[misc]


def wire_columns(table: PublicTable) -> Columns:
    """The columns of an input table as group keys."""
    columns = tuple(map(Column.of, table.data))
    for column in columns:
        if column.values.dtype.kind not in "ib" and not all(isinstance(value, int | str | None) for value in column):
            raise error(901, "a listed key is neither an integer, a boolean nor text")
    return columns  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class _Dimension:
    """Group keys that are listed together: their places among the keys, and their values; `rest` where all others are one more."""

    places: tuple[int, ...]
    columns: Columns
    rest: bool = False

    @property
    def size(self) -> int:
        return len(self.columns[0]) + self.rest

    def found(self, keys: Columns) -> Places:
        """Of each row of some keys its place in the list; of one that is not listed -1, or the last place."""
        count, other = len(self.columns[0]), len(self.columns[0]) if self.rest else -1
        place = _whole_places(self.columns[0], keys[self.places[0]]) if len(self.places) == 1 else None
        if place is not None:
            return np.where(place < 0, other, place)
        listed = {values: i for i, values in enumerate(zip(*self.columns, strict=True))}
        if len(listed) < count:
            raise error(901, "a listed group key stands there twice")
        rows = zip(*(keys[place] for place in self.places), strict=True)
        return np.fromiter((listed.get(row, other) for row in rows), dtype=np.intp, count=len(keys[0]))


def _whole_places(listed: Column[KeyValue], keys: Column[KeyValue]) -> Places | None:
    """The places of whole numbers in a list of them; None where either is of something else, or a number stands there twice."""
    if listed.nulls is not None or not listed.values.dtype == keys.values.dtype == np.int64 or not len(listed):
        return None
    order = np.argsort(listed.values, kind="stable")
    values = listed.values[order]
    if (np.diff(values) == 0).any():
        return None
    at = np.minimum(np.searchsorted(values, keys.values), len(values) - 1)
    found = values[at] == keys.values
    return np.where(found if keys.nulls is None else found & ~keys.nulls, order[at], -1)


def _dimensions(asked: Release, lists: KeyTables) -> list[_Dimension]:
    """The listed keys, in their order."""
    found = [_Dimension(listed.keys, lists[listed.bound]) for listed in asked.limited.block.lists]
    for i, key in enumerate(asked.keys):
        found += [_Dimension((i,), (Column.of(key.listed),), key.values is None)] if key.listed is not None else []
    return sorted(found, key=lambda dimension: dimension.places)


def declared_keys(asked: Release, lists: KeyTables) -> Columns:
    """All combinations of the listed key values, in their order; no columns for a release without keys."""
    dimensions = _dimensions(asked, lists)
    columns: dict[int, Column[KeyValue]] = {}
    for i, dimension in enumerate(dimensions):
        # each value stands as often as the later keys combine, and all of them anew for each combination of the earlier ones
        later = prod(one.size for one in dimensions[i + 1 :])
        earlier = prod(one.size for one in dimensions[:i])
        rows = np.tile(np.repeat(np.arange(dimension.size), later), earlier)
        columns |= {place: own.take(rows) for place, own in zip(dimension.places, dimension.columns, strict=True)}
    return tuple(columns[i] for i in range(len(asked.keys)))


def _fill(asked: Release, keys: Columns, sums: Sums, lists: KeyTables) -> tuple[Columns, Sums]:
    """Sums for exactly the listed keys: zeros where there were no rows, other keys left out."""
    if not asked.keys:
        return (), tuple(column[:1] if len(column) else ones(1) for column in sums)
    dimensions = _dimensions(asked, lists)
    found = [dimension.found(keys) for dimension in dimensions]
    listed = np.logical_and.reduce([place >= 0 for place in found])
    rows = int(np.count_nonzero(listed))
    sums = tuple(column.take(listed) for column in sums)
    along = [(one.size, place[listed]) for one, place in zip(dimensions, found, strict=True)]
    if asked.is_cube:
        marginals = asked.marginals or (tuple(range(len(along))),)
        of_each = [_summed(sums, *_flat([along[axis] for axis in axes], rows)) for axes in marginals]
        return (), tuple(Column.of(np.concatenate(parts).tolist()) for parts in zip(*of_each, strict=True))
    groups, places = _flat(along, rows)
    return declared_keys(asked, lists), tuple(_filled(groups, places, column) for column in sums)


def _flat(along: Sequence[tuple[int, Places]], rows: int) -> tuple[int, Places]:
    """Number of the combinations of some keys, and of each row the place of its own."""
    groups, places = 1, np.zeros(rows, dtype=np.intp)
    for size, place in along:
        groups, places = groups * size, places * size + place
    return groups, places


def _summed(sums: Sums, groups: int, places: Places) -> list[Whole]:
    """The sums of each group's rows.

    Why  a sum of so many numbers fits int64 where so many times the largest does; elsewhere Python's integers take part
    """
    found: list[Whole] = []
    for column in map(whole, sums):
        fits = largest(column) * len(column) < 2**62
        target: Whole = np.zeros(groups, dtype=np.int64) if fits else np.zeros(groups, dtype=np.object_)
        np.add.at(target, places, column if fits else column.astype(np.object_))
        found.append(target)
    return found


def _filled(groups: int, places: Places, column: Column[int]) -> Column[int]:
    """The sums at their places, and 0 elsewhere."""
    target = np.zeros(groups, dtype=column.values.dtype)
    target[places] = column.values
    return Column(target)


def _noisy(asked: Release, index: int, sums: Sums, noise: NoiseSource) -> list[Column[int | None]]:
    """The noisy cells of one measure, of all groups."""
    measure = asked.measures[index]
    start = sum(m.statistic.sums for m in asked.measures[:index])
    return measure.noise.added(measure.statistic.to_cells(sums[start : start + measure.statistic.sums]), noise)


def sieve(compiled: CompiledRelease, noise: NoiseSource) -> Sieve | None:
    """The choice of privately selected keys, batch by batch; None where keys are declared, or groups come of several answers.

    Why  of each group the number of units is drawn once and by itself, and it is in one batch: batch by batch the draws are the same
         mechanism as all at once. What fails is raised anew, without the frames that hold exact sums
    """
    asked = compiled.release
    if asked.selection is None or compiled.matchings:
        return None

    def reaching(batch: ExactTable) -> ExactTable:
        try:
            return _reaching(asked, *batch.open_exact(), noise)
        except Exception:
            pass
        raise error(901, "the noise could not be added")

    return reaching


def _reaching(asked: Release, keys: Columns, sums: Sums, noise: NoiseSource) -> ExactTable:
    """The groups with units whose noisy number reaches tau."""
    selection = asked.selection
    assert selection is not None and selection.measure == 0
    units: Column[int] = _noisy(asked, 0, sums, noise)[0]  # type: ignore[assignment]
    kept = np.flatnonzero(np.asarray((whole(units) >= selection.tau) & (whole(sums[0]) > 0), dtype=np.bool_))
    return ExactTable(tuple(c.take(kept) for c in keys), tuple(c.take(kept) for c in sums), units.take(kept))


def _select(asked: Release, left: ExactTable, noise: NoiseSource, lists: KeyTables) -> NoisyTable:
    """Put the groups that are left in order, and draw the other measures' noise."""
    (keys, sums), units = left.open_exact(), cast(Column[int], left.units)
    kept: Places = np.arange(len(units))
    for dimension in _dimensions(asked, lists):
        kept = kept[dimension.found(tuple(column.take(kept) for column in keys)) >= 0]
    # of several keys the last one sorts first: a sort keeps the order of what is equal
    for column in reversed(keys):
        kept = kept[column.take(kept).order()]
    chosen_sums = tuple(column.take(kept) for column in sums)
    cells: list[Column[int | None]] = [units.take(kept)]
    for index in range(1, len(asked.measures)):
        cells += _noisy(asked, index, chosen_sums, noise)
    return NoisyTable(tuple(column.take(kept) for column in keys), tuple(cells), len(kept))


def key_list(asked: Release, lists: KeyTables) -> NoisyTable:
    """A release without measures: the declared keys, which are public."""
    keys = declared_keys(asked, lists)
    return NoisyTable(keys, (), len(keys[0]) if keys else 1)
