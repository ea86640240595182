"""estimating: NoisyTable -> the columns of a released table, with intervals. Nothing here sees an exact number.

Beside the released table itself there are two more for the sandbox, made where a statement reads them: the ends of every interval,
and the table as it might have been, many times over, with the noise drawn again around what was released (aggregates/resampling.py).
What is computed from released columns has its interval from the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from fractions import Fraction
from itertools import pairwise
from math import isnan

import numpy as np

from dpsql.aggregates.base import Floats, Noise, ReleasedColumn
from dpsql.aggregates.resampling import points
from dpsql.aggregates.sampling import PARTS
from dpsql.core.columns import Column, Flags
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, DATE, DOUBLE, TIME, SqlType
from dpsql.expressions.temporal import moment_of
from dpsql.mechanisms.side_by_side import SideBySide
from dpsql.mechanisms.weighted import gaussian_quantiles
from dpsql.plan.releases import Output, Release
from dpsql.plan.suppressing import LEVEL, counts
from dpsql.plan.tables import ROW_NUMBER, NoisyTable, PublicTable, end_column, intervals_table, redrawn_table

MOST_ROWS = 200_000
"""Of a redrawn table: with more groups each is drawn less often."""
MOST_DRAWS = 1000
LEAST_DRAWS = 100
Typed = tuple[tuple[str, SqlType], ...]


def level_of_each(jointly: bool, cells: int) -> Fraction:
    """Confidence of one interval: of m that hold jointly, one is missed by a share 1 / m of what all may be.

    Why  the union bound: whatever the noise of several cells has in common
    """
    return 1 - (1 - LEVEL) / max(1, cells) if jointly else LEVEL


@dataclass(frozen=True, slots=True)
class Estimated:
    """A released table as the sandbox loads it, with an interval per value (None where there is none)."""

    table: PublicTable
    intervals: dict[str, Sequence[tuple[float, float] | None]]


def estimate(asked: Release, noisy: NoisyTable, level: Fraction, key_types: dict[str, SqlType]) -> Estimated:
    """Counts, sums, averages and what is chosen, from the noisy cells: post-processing.

    key_types  the SQL types of key columns where they differ from the scalar's own
    """
    data: list[Sequence[object]] = list(noisy.keys)
    intervals: dict[str, Sequence[tuple[float, float] | None]] = {}
    starts = asked.cell_starts
    for output in asked.outputs:
        suppressed = _Suppressed.of([cell for m in output.measures for cell in noisy.cells[starts[m] : starts[m + 1]]])
        found = suppressed.in_column(output.estimate.column(suppressed.known, _noise(asked, output), level))
        data.append(found.values)
        intervals[output.name] = found.intervals
    for read in asked.read:
        place = len(asked.measures) + read.chosen
        suppressed = _Suppressed.of(noisy.cells[starts[place] : starts[place + 1]])
        found = suppressed.in_column(read.reading.column(suppressed.known, asked.chosen[read.chosen].terms, level))
        data.append(found.values)
        intervals[read.name] = found.intervals
    data.append(Column(np.arange(noisy.groups)))
    return Estimated(PublicTable(asked.name, _columns(asked, key_types), tuple(data)), intervals)


def with_bars(
    asked: Release, noisy: NoisyTable, key_types: dict[str, SqlType], jointly: bool, sampling: bool
) -> Estimated:
    """A released table whose intervals hold jointly, or hold the error of a random sample, where that is asked for."""
    made = of_sample if sampling else estimate
    found = made(asked, noisy, level_of_each(jointly, noisy.groups * len(asked.outputs)), key_types)
    if not jointly:
        return found
    # what is chosen of a histogram was bought with an interval of its own
    alone = dict.fromkeys((read.name for read in asked.read), [None] * noisy.groups)
    return replace(found, intervals={**found.intervals, **alone})


def of_sample(asked: Release, noisy: NoisyTable, level: Fraction, key_types: dict[str, SqlType]) -> Estimated:
    """The same with intervals that hold the error of a random sample beside that of noise, where it is known; else none.

    Why  what an interval, the number of people and the sample miss by adds up to 1 - level (aggregates/sampling.py)
    """
    each = 1 - (1 - level) / PARTS
    found = estimate(asked, noisy, each, key_types)
    intervals: dict[str, Sequence[tuple[float, float] | None]] = dict.fromkeys(found.intervals, [None] * noisy.groups)
    starts = asked.cell_starts
    for output in asked.outputs:
        suppressed = _Suppressed.of([cell for m in output.measures for cell in noisy.cells[starts[m] : starts[m + 1]]])
        more = output.estimate.sampled(suppressed.known, _noise(asked, output), each)
        if more is not None:
            intervals[output.name] = list(map(_wider, found.intervals[output.name], more.tolist()))
    return Estimated(found.table, intervals)


def _wider(ends: tuple[float, float] | None, more: float) -> tuple[float, float] | None:
    return None if ends is None or isnan(more) else (ends[0] - more, ends[1] + more)


@dataclass(frozen=True, slots=True)
class _Suppressed:
    """Cells of which some are suppressed: with 0 in their place, and where they are; None: none is."""

    known: tuple[Column[int], ...]
    places: Flags | None

    @staticmethod
    def of(cells: Sequence[Sequence[int | None]]) -> _Suppressed:
        columns = tuple(map(Column.of, cells))
        nulls = [column.nulls for column in columns if column.nulls is not None]
        if not nulls:
            return _Suppressed(columns, None)  # type: ignore[arg-type]
        known = (column if column.nulls is None else _filled(column, column.nulls) for column in columns)
        return _Suppressed(tuple(known), np.logical_or.reduce(nulls))  # type: ignore[arg-type]

    def in_column(self, found: ReleasedColumn) -> ReleasedColumn:
        """A column that was made of them: NULL, without an interval, where a cell is suppressed."""
        if self.places is None:
            return found
        places = self.places.tolist()
        intervals = [None if hidden else found.intervals[i] for i, hidden in enumerate(places)]
        return ReleasedColumn(Column.of(found.values).without(self.places), intervals)


def _filled(column: Column[int | None], nulls: Flags) -> Column[int]:
    return Column(np.where(nulls, np.array(0, dtype=column.values.dtype), column.values))


def _noise(asked: Release, output: Output) -> Noise:
    """The noise in the cells that an estimate reads."""
    first, *second = [asked.measures[m].noise for m in output.measures]
    return SideBySide(first, second[0]) if second else first


def there(asked: Release, noisy: NoisyTable) -> NoisyTable:
    """The table without the groups whose noisy count lies within its own half-width of zero, or is suppressed, where something is
    computed over groups: post-processing of released numbers. What is stored is the whole table.

    Why  plain SQL has no row where nobody is, and noise would be computed with as if somebody were
    """
    if asked.present is None:
        return noisy
    width = asked.present.estimate.half_width(asked.measures[asked.present.measure].noise, LEVEL)
    if width is None:
        raise error(901, "a group is there by a number without a half-width")
    found = counts(asked, noisy, asked.present)
    return noisy.take(np.array([count is not None and count > width for count in found], dtype=np.bool_))


def empty(asked: Release, key_types: dict[str, SqlType]) -> PublicTable:
    """The table that `estimate` makes, without groups, to check the post-processing query against."""
    return _without_rows(asked.name, _columns(asked, key_types))


def typical(table: PublicTable) -> PublicTable:
    """The table with one row of values that follow from its types alone: an engine that takes them converts what there can be."""
    return PublicTable(table.name, table.columns, tuple([_typical(sqltype)] for _, sqltype in table.columns))


def _typical(sqltype: SqlType) -> object:
    match sqltype.name:
        case "VARCHAR":
            return "x"
        case "BOOLEAN":
            return True
        case "DATE":
            return "2000-01-01"
        case "TIMESTAMP":
            return "2000-01-01 00:00:00"
        case "TIME":
            return "00:00:00"
        case "FLOAT" | "DOUBLE":
            return 1.5
        case "DECIMAL":
            return "0"
    return 1


def _without_rows(name: str, columns: Typed) -> PublicTable:
    return PublicTable(name, columns, tuple([] for _ in columns))


def _columns(asked: Release, key_types: dict[str, SqlType]) -> Typed:
    keys = ((key.name, key.released_type(key_types.get(key.name, key.scalar.sqltype))) for key in asked.keys)
    outputs = ((output.name, output.estimate.sqltype) for output in asked.outputs)
    readings = ((read.name, read.reading.sqltype) for read in asked.read)
    return *keys, *outputs, *readings, (ROW_NUMBER, BIGINT)


# --- the ends of intervals, and redrawn tables --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SideTable:
    """A table about a release: its name, and how it is made without rows and with them."""

    name: str
    empty: PublicTable
    make: Callable[[NoisyTable, Estimated], PublicTable]


def beside(asked: Release, key_types: dict[str, SqlType], level: Fraction) -> tuple[SideTable, ...]:
    """The tables that a statement may read beside a released one."""
    ends, again = intervals_table(asked.name), redrawn_table(asked.name)
    shown, columns = _end_columns(asked), _columns(asked, key_types)
    return (
        SideTable(ends, _without_rows(ends, shown), lambda noisy, found: PublicTable(ends, shown, _ends(found))),
        SideTable(
            again,
            _without_rows(again, columns),
            lambda noisy, found: PublicTable(
                again, columns, redrawn(asked, noisy, key_types, level, draws_of(noisy.groups))
            ),
        ),
    )


def _end_columns(asked: Release) -> Typed:
    names = [*(output.name for output in asked.outputs), *(read.name for read in asked.read)]
    types = {name: sqltype if sqltype.is_counted else DOUBLE for name, sqltype in _columns(asked, {})}
    return *((end_column(name, low), types[name]) for name in names for low in (True, False)), (ROW_NUMBER, BIGINT)


def _ends(found: Estimated) -> tuple[list[object], ...]:
    columns: list[list[object]] = []
    rows, types = len(found.table.data[-1]), dict(found.table.columns)
    for name, intervals in found.intervals.items():
        known = [intervals[i] for i in range(rows)]
        for side in (0, 1):
            ends = [None if end is None else end_of(end[side], types[name]) for end in known]
            columns.append([str(end) if isinstance(end, date | time) else end for end in ends])
    return *columns, list(found.table.data[-1])


def end_of(number: float, sqltype: SqlType) -> float | date | time:
    """An end of an interval in a column's own unit: of DATE and TIMESTAMP, a number of days or microseconds since 1970, the moment."""
    if not sqltype.is_counted:
        return number
    found = moment_of(sqltype, Fraction(number))
    return found.date() if sqltype == DATE else found.time() if sqltype == TIME else found


def draws_of(groups: int) -> int:
    """Number of draws for each of some groups; 0 where there are too many."""
    most = min(MOST_DRAWS, MOST_ROWS // max(1, groups))
    return most if most >= LEAST_DRAWS else 0


def redrawn(
    asked: Release, noisy: NoisyTable, key_types: dict[str, SqlType], level: Fraction, draws: int
) -> tuple[Sequence[object], ...]:
    """The columns of a released table, draw after draw; what is chosen of a histogram stays as it is, and has no interval from here."""
    noise = _noise_again(asked, draws)
    cells: list[Sequence[int | None]] = []
    for own, drawn in zip(noisy.cells, noise, strict=False):
        drawn_again = [int(z) for z in np.rint(drawn).astype(object).tolist()]
        cells.append([None if value is None else value - z for z in drawn_again for value in own])
    cells += [list(cell) * draws for cell in noisy.cells[len(noise) :]]
    keys = tuple(list(column) * draws for column in noisy.keys)
    again = NoisyTable(keys, tuple(cells), noisy.groups * draws)
    data = estimate(asked, again, level, key_types).table.data
    return *data[:-1], Column(np.tile(np.arange(noisy.groups), draws))


def _noise_again(asked: Release, draws: int) -> list[Floats]:
    """The noise of each cell that has some, once a draw: what cells share, as COUNT(*) and the COUNT(x) that a cube makes of it do, is
    the same in all of them."""
    counts = [end - start for start, end in pairwise(asked.cell_starts)]
    of_cells = [m.noise for m, count in zip(asked.measures, counts, strict=False) for _ in range(count)]
    named: list[list[tuple[Hashable, float | None]]] = [
        [(one.name or (place,), one.deviation) for one in noise.shared] or [((place,), None)]
        for place, noise in enumerate(of_cells)
    ]
    places = {name: i for i, name in enumerate(dict.fromkeys(name for parts in named for name, _ in parts))}
    spread = points(max(1, len(places)), max(1, draws))[:draws]
    found = []
    for noise, parts in zip(of_cells, named, strict=True):
        drawn = np.zeros(draws)
        for name, deviation in parts:
            at = spread[:, places[name]]
            drawn += noise.at(at) if deviation is None else gaussian_quantiles(deviation, at)
        found.append(drawn)
    return found
