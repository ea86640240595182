"""Suppression of the cells of groups with too few people (rule 44): post-processing of released numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpsql.core.columns import Column, Flags
from dpsql.plan.releases import NoisyCount, Release
from dpsql.plan.tables import NoisyTable

LEVEL = Fraction(95, 100)
"""The level of every interval."""


def suppressed(asked: Release, noisy: NoisyTable) -> NoisyTable:
    """The table without the cells of groups whose noisy number of people is too small."""
    cells = list(map(Column.of, noisy.cells))
    starts = asked.cell_starts
    for one in asked.suppressed:
        few = _fewer(counts(asked, noisy, one.count), one.k)
        for part in {one.count.measure, *asked.read_by(one.outputs)}:
            for place in range(starts[part], starts[part + 1]):
                cells[place] = cells[place].without(few)
    return NoisyTable(noisy.keys, tuple(cells), noisy.groups)


def counts(asked: Release, noisy: NoisyTable, count: NoisyCount) -> Column[int | None]:
    """A noisy number of each group, as it would be shown; NULL where it is suppressed."""
    starts = asked.cell_starts
    cells = [Column.of(cell) for cell in noisy.cells[starts[count.measure] : starts[count.measure + 1]]]
    nulls = [cell.nulls for cell in cells if cell.nulls is not None]
    known = [cell if cell.nulls is None else Column.of([value or 0 for value in cell]) for cell in cells]
    found = count.estimate.column(known, asked.measures[count.measure].noise, LEVEL).values  # type: ignore[arg-type]
    column: Column[int | None] = Column.of(found)  # type: ignore[arg-type]
    return column.without(np.logical_or.reduce(nulls)) if nulls else column


def _fewer(people: Column[int | None], k: int) -> Flags:
    """The groups whose number is below k, or is not known."""
    if people.nulls is None:
        return np.asarray(people.values < k, dtype=np.bool_)  # type: ignore[operator]
    return np.array([count is None or count < k for count in people], dtype=np.bool_)
