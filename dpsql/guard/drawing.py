"""drawing: a declared table -> the values of its sample units, from the declarations alone.

Every value is a function of the schema's identity, the table, the column and the row's place, so that two openings of the same schema
decide alike. Columns with a list or bounds have their values here; of one without either only a place in [0, 1) is drawn, which becomes
a value around the constants that a statement compares it with (columns.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpsql.core.domains import Categories, Interval
from dpsql.guard.arrays import Array, Numbers, Places
from dpsql.guard.sizes import NULLS, Bought, Share, Sizes, sizes
from dpsql.schema.dependences import deriving, determined, leading
from dpsql.schema.model import ROW, Column, Reference, Schema, Table
from dpsql.schema.write import days, microseconds

FEWEST, MOST = 20_000, 200_000
"""[sample units] There are 4 for each k people that are declared, between these."""
MOST_ROWS = 10
"""[rows] of one sample unit in a table below the unit's own."""

ASSUMED = 100
"""Times k: how many people there are taken to be where the owner declares no number."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One column of a sample table.

    values  None where only a place is drawn
    nulls   which rows have NULL
    known   of a place: the values that are taken for granted
    is_key  whole numbers that say whose row it is, whatever the type of the column is
    """

    values: Array | None
    nulls: npt.NDArray[np.bool_] | None = None
    places: Numbers | None = None
    known: tuple[Share, ...] = ()
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class SampleRows:
    """The rows of one sample table.

    unit    the sample unit of each, from 0
    parent  the row of the table that the path to the unit leads over, or of the unit itself
    turn    which of its parent's rows each is, from 0
    """

    unit: Places
    parent: Places
    turn: Places

    def __len__(self) -> int:
        return len(self.unit)


def people(schema: Schema) -> float:
    """Number of people, as far as the owner says (rule 38)."""
    privacy = schema.privacy
    if privacy.units is not None:
        return float(privacy.units)
    declared = [t.population for t in schema.tables if t.population is not None]
    return float(max(declared)) if declared else float(ASSUMED * schema.guard.k)


def count(schema: Schema, people: float) -> int:
    """[sample units]"""
    return int(min(max(FEWEST, 4 * people / schema.guard.k), MOST))


class Drawing:
    """Draws the tables of a schema, each after those that it refers to.

    listed  the values of a public table's column, in order
    bought  the released histograms
    """

    def __init__(
        self,
        schema: Schema,
        identity: str,
        people: float,
        listed: Callable[[str, str], Sequence[object]],
        bought: Bought | None = None,
    ) -> None:
        self._schema, self._identity, self._listed, self._bought = schema, identity, listed, bought or {}
        self.units = count(schema, people)
        self._nulls = min(max(NULLS, 2 * schema.guard.k / people), 0.5)
        self._rows: dict[str, SampleRows] = {}

    def rows_of(self, table: Table) -> SampleRows:
        """The rows of a private table."""
        if table.name not in self._rows:
            self._rows[table.name] = self._made(table)
        return self._rows[table.name]

    def _made(self, table: Table) -> SampleRows:
        path = self._schema.path_to_unit(table)
        if self._schema.privacy.unit == ROW or (not path and self._schema.one_row_per_unit(table)):
            everybody = np.arange(self.units)
            return SampleRows(everybody, everybody, np.zeros(self.units, dtype=np.int64))
        above = self._schema.table(path[0].table) if path else None
        direct = len(path) <= 1
        parents = self.rows_of(above) if not direct and above is not None else None
        unit = parents.unit if parents is not None else np.arange(self.units)
        most = min(table.max_rows_per_unit or MOST_ROWS, MOST_ROWS)
        if parents is not None:
            most = max(1, round(most * self.units / max(len(parents), 1)))
        if self._schema.one_row_per_unit(table):
            many = np.ones(len(unit), dtype=np.int64)
        else:
            many = (self._uniform(table.name, "rows", len(unit)) * (min(most, MOST_ROWS) + 1)).astype(np.int64)
        parent = np.repeat(np.arange(len(unit)), many)
        first = np.cumsum(many) - many
        return SampleRows(unit[parent], parent, np.arange(len(parent)) - first[parent])

    def column(self, table: Table, column: Column) -> Drawn:
        """A column of a private table."""
        rows = self.rows_of(table)
        if column.name == self._schema.unit_column(table) and not self._schema.path_to_unit(table):
            return Drawn(rows.unit + 1, is_key=True)
        if column.name == self._own_key(table):
            return Drawn(np.arange(len(rows)) + 1, is_key=True)
        place = self._uniform(table.name, column.name, len(rows))
        reference = self._leading(table, column)
        if reference is not None:
            return self._referred(table, column, reference, rows)
        if column.role == "identifier" and any(column.name in c for c in deriving(self._schema, table)):
            # two rows of a unit go together
            return Drawn(np.arange(len(rows)) - rows.turn % 2 + 1, is_key=True)
        unit = self._schema.unit_column(table)
        if unit is not None and column.name in determined((unit,), table.determines):
            place = self._uniform(table.name, column.name, self.units)[rows.unit]
        if column.role == "identifier" and any(column.name in r.targets for r in leading(self._schema, table)):
            return Drawn(np.arange(len(rows)) + 1, is_key=True)
        if column.name in table.key and isinstance(column.domain, Categories):
            # beside the unit: each of its rows has another one
            place = ((place[rows.parent] if len(place) else place) + rows.turn / max(len(column.domain.values), 1)) % 1
            return _values(sizes(replace(column, nullable=False, usual=()), 0.0, None), column, place)
        known = sizes(column, self._nulls, self._bought.get((table.name, column.name)))
        nulls = self._uniform(table.name, f"{column.name} null", len(rows)) < known.nulls if known.nulls else None
        return replace(_values(known, column, place), nulls=nulls)

    def _own_key(self, table: Table) -> str | None:
        """The column that tells the rows of a table apart by itself."""
        return table.key[0] if len(table.key) == 1 and table.reference(table.key[0]) is None else None

    def _leading(self, table: Table, column: Column) -> Reference | None:
        """The reference that says what a column holds: that of the path, then its own, then one that it is part of."""
        named = table.referring(column.name)
        private = [r for r in named if (above := self._schema.table(r.table)) is not None and not above.public]
        first = self._schema.path_to_unit(table)[:1]
        return next((r for r in (*first, table.reference(column.name), *private) if r is not None and r in named), None)

    def _referred(self, table: Table, column: Column, reference: Reference, rows: SampleRows) -> Drawn:
        above = self._schema.table(reference.table)
        path = self._schema.path_to_unit(table)
        if len(reference.columns) > 1 and above is not None:
            drawn = self._uniform(table.name, reference.name, len(rows)) * len(self.rows_of(above))
            met = rows.parent if path and path[0] == reference else drawn.astype(np.int64)
            part = above.column(dict(reference.pairs)[column.name])
            assert part is not None
            return _taken(self.column(above, part), met)
        place = self._uniform(table.name, column.name, len(rows))
        if path and path[0] == reference:
            return Drawn(rows.parent + 1, is_key=True)
        nulls = self._uniform(table.name, f"{column.name} null", len(rows)) < self._nulls if column.nullable else None
        if above is not None and not above.public:
            return Drawn((place * len(self.rows_of(above))).astype(np.int64) + 1, nulls, is_key=True)
        return Drawn(_picked([_declared(v) for v in self._listed(reference.table, reference.targets[0])], place), nulls)

    def _uniform(self, table: str, column: str, size: int) -> Numbers:
        """[0, 1) for each row: the finished states of a counter that steps from a hash of the column (Steele, Lea and Flood 2014)."""
        begun = np.uint64(int.from_bytes(hashlib.sha256(f"{self._identity}\n{table}\n{column}".encode()).digest()[:8]))
        state = begun + np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray(((state ^ (state >> np.uint64(31))) >> np.uint64(11)) / 2.0**53)


def _taken(drawn: Drawn, rows: Places) -> Drawn:
    """The column of other rows, one for each place."""
    values, nulls, places = drawn.values, drawn.nulls, drawn.places
    return replace(
        drawn,
        values=values[rows] if values is not None else None,
        nulls=nulls[rows] if nulls is not None else None,
        places=places[rows] if places is not None else None,
    )


def _values(known: Sizes, column: Column, place: Numbers) -> Drawn:
    """The value at each place: the shares lie one after another, each as long as it weighs."""
    domain = column.domain
    if not known.shares or not isinstance(domain, Categories | Interval):
        return Drawn(None, None, place, known.shares)
    weights = np.array([cell.weight for cell in known.shares])
    ends = np.cumsum(weights)
    at = np.minimum(np.searchsorted(ends, place * ends[-1], side="right"), len(weights) - 1)
    if isinstance(domain, Categories):
        return Drawn(_array([cell.value for cell in known.shares])[at])
    low = np.array([float(cell.value) for cell in known.shares])
    spans = np.array([float(cell.end - cell.value) if cell.end is not None else 0.0 for cell in known.shares])  # type: ignore[operator]
    found = low[at] + np.clip((place * ends[-1] - ends[at]) / weights[at] + 1, 0, 1) * spans[at]
    if column.sqltype.is_integer or column.sqltype.is_counted:
        found = np.floor(found)
    return Drawn(np.clip(found, float(domain.lower), float(domain.upper)))


def _picked(values: Sequence[object], place: Numbers) -> Array:
    return _array(values)[(place * len(values)).astype(np.int64) % len(values)] if values else np.zeros(len(place))


def _declared(value: object) -> object:
    """A value as declarations have it: days, microseconds."""
    if isinstance(value, datetime | time):
        return microseconds(value)
    return days(value) if isinstance(value, date) else value


def _array(values: Sequence[object]) -> Array:
    if all(isinstance(v, int) and abs(v) < 2**63 for v in values):
        return np.array([int(v) for v in values], dtype=np.int64)  # type: ignore[call-overload]
    if all(isinstance(v, int | Fraction | float) for v in values):
        return np.array([float(v) for v in values])  # type: ignore[arg-type]
    return np.array(values, dtype=np.object_)
