"""Totals: a release whose groups are added up by the statement, with the noise that is in their sums. Post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpsql.core.columns import Column, Places, whole
from dpsql.mechanisms.summed import of_total
from dpsql.plan.releases import Release
from dpsql.plan.tables import NoisyTable, PublicTable, redrawn_table
from dpsql.release.estimating import Estimated, draws_of, empty, estimate, level_of_each, redrawn


@dataclass(frozen=True, slots=True)
class AddedGroups:
    """Rows that add up groups of a release.

    asked   the release, as it is without sums
    pieces  rows whose noise is alike: the release with that noise, their cells, and their places among all
    rows    [rows] all of them
    """

    asked: Release
    pieces: tuple[tuple[Release, NoisyTable, Places], ...]
    rows: int

    def estimated(self, *, jointly: bool) -> Estimated:
        """The intervals of the totals, which hold one by one or jointly; None where nothing is known of them."""
        intervals: dict[str, Sequence[tuple[float, float] | None]] = {}
        level = level_of_each(jointly, self.rows * len(self.asked.outputs))
        pieces = [(estimate(release, table, level, {}).intervals, places) for release, table, places in self.pieces]
        for output in self.asked.outputs:
            known = {
                place: column[output.name][i] for column, places in pieces for i, place in enumerate(places.tolist())
            }
            intervals[output.name] = [known.get(place) for place in range(self.rows)]
        return Estimated(empty(self.asked, {}), intervals)

    def redrawn(self, level: Fraction) -> PublicTable:
        """The totals with their noise drawn again."""
        data: list[list[object]] = [[] for _ in empty(self.asked, {}).columns]
        for release, table, places in self.pieces:
            draws = draws_of(self.rows)
            found = redrawn(release, table, {}, level, draws)
            own = *found[:-1], np.tile(places, draws).tolist()
            for column, more in zip(data, own, strict=True):
                column += list(more)
        return PublicTable(redrawn_table(self.asked.name), empty(self.asked, {}).columns, tuple(data))


def added_up(asked: Release, noisy: NoisyTable, groups: Sequence[object]) -> AddedGroups:
    """The totals of some groups of a released table.

    groups  of each total, the places of the groups that it adds up; None: it has none

    Why  cells are sums over rows, so those of a total are the sums of its groups' (rule 41), with the noise of all of them. A total
         with a suppressed group leaves it out, and one of groups of which some were left out is another sum: neither has an interval
    """
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    if asked.present is None and not asked.read and not asked.chosen:
        codes = [_codes(column) for column in noisy.keys]
        hidden = _hidden(noisy)
        for place, own in enumerate(groups):
            if isinstance(own, list) and own and not hidden[own].any():
                values = tuple(len(np.unique(code[own])) for code in codes)
                alike.setdefault((len(own), values), []).append(place)
    pieces = []
    for (count, values), places in alike.items():
        noises = [of_total(measure.noise, count, values) for measure in asked.measures]
        if any(noise is None for noise in noises):
            continue
        measures = (replace(m, noise=n) for m, n in zip(asked.measures, noises, strict=True) if n is not None)
        taken = np.array([groups[place] for place in places], dtype=np.intp)
        cells = tuple(_sums(cell, taken) for cell in noisy.cells)
        keys = tuple([None] * len(places) for _ in noisy.keys)
        table = NoisyTable(keys, cells, len(places))
        pieces.append((replace(asked, measures=tuple(measures)), table, np.array(places, dtype=np.intp)))
    return AddedGroups(asked, tuple(pieces), len(groups))


def _codes(column: Sequence[object]) -> Places:
    """A number for each value of a key."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in column], dtype=np.intp)


def _hidden(noisy: NoisyTable) -> np.ndarray:
    """The groups of which a cell is suppressed."""
    nulls = [column.nulls for column in map(Column.of, noisy.cells)]
    found: np.ndarray = np.logical_or.reduce([np.zeros(noisy.groups, dtype=bool), *(n for n in nulls if n is not None)])
    return found


def _sums(cell: Sequence[int | None], groups: Places) -> Column[int]:
    """The sums of the cells at some places, a total a row."""
    numbers = whole(Column.of([value or 0 for value in cell]))
    return Column.of([sum(row) for row in numbers[groups].tolist()])
