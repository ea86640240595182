"""drawing: a declared table -> the values of its sample units, from the declarations alone.

Every value is a function of the schema's identity, the table, the column and the row's place, so that two openings of the same schema
decide alike. Columns with a list or bounds have their values here; of one without either only a place in [0, 1) is drawn, which becomes
a value around the constants that a statement compares it with (columns.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpsql.core.domains import Categories, Interval
from dpsql.schema.model import ROW, Column, Reference, Schema, Table

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Array = npt.NDArray[np.generic]

FEWEST, MOST = 20_000, 200_000
"""[sample units] There are 4 for each k people that are declared, between these."""
MOST_ROWS = 10
"""[rows] of one sample unit in a table below the unit's own."""
ROUND = 0.3
"""[probability] of 0 or a round number, where there is one."""
NULLS = 0.05
"""[probability] of NULL in a nullable column, but that of twice k people at least."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One column of a sample table.

    values  None where only a place is drawn
    nulls   which rows have NULL
    """

    values: Array | None
    nulls: npt.NDArray[np.bool_] | None
    places: Floats | None = None


@dataclass(frozen=True, slots=True)
class Rows:
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


def count(schema: Schema, people: float) -> int:
    """[sample units]"""
    return int(min(max(FEWEST, 4 * people / schema.guard.k), MOST))


class Drawing:
    """Draws the tables of a schema, each after those that it refers to.

    listed  the values of a public table's column, in order
    """

    def __init__(
        self, schema: Schema, identity: str, people: float, listed: Callable[[str, str], Sequence[object]]
    ) -> None:
        self._schema, self._identity, self._listed = schema, identity, listed
        self.units = count(schema, people)
        self._nulls = min(max(NULLS, 2 * schema.guard.k / people), 0.5)
        self.rows: dict[str, Rows] = {}

    def table(self, table: Table) -> dict[str, Drawn]:
        """The columns of a private table, by name."""
        rows = self.rows.setdefault(table.name, self._rows(table))
        return {column.name: self._column(table, column, rows) for column in table.columns}

    def _rows(self, table: Table) -> Rows:
        path = self._schema.path_to_unit(table)
        if self._schema.privacy.unit == ROW or (not path and self._schema.one_row_per_unit(table)):
            everybody = np.arange(self.units)
            return Rows(everybody, everybody, np.zeros(self.units, dtype=np.int64))
        above = self._schema.table(path[0].table) if path else None
        direct = len(path) <= 1
        parents = self.rows[above.name] if not direct and above is not None else None
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
        return Rows(unit[parent], parent, np.arange(len(parent)) - first[parent])

    def _column(self, table: Table, column: Column, rows: Rows) -> Drawn:
        if column.name == self._schema.unit_column(table) and not self._schema.path_to_unit(table):
            return Drawn(rows.unit + 1, None)
        if column.name == self._own_key(table):
            return Drawn(np.arange(len(rows)) + 1, None)
        place = self._uniform(table.name, column.name, len(rows))
        reference = table.reference(column.name)
        if reference is not None:
            return Drawn(self._referred(table, reference, rows, place), None)
        nulls = self._uniform(table.name, f"{column.name} null", len(rows)) < self._nulls if column.nullable else None
        if column.name in table.key and isinstance(column.domain, Categories):
            # beside the unit: each of its rows has another one
            place = ((place[rows.parent] if len(place) else place) + rows.turn / max(len(column.domain.values), 1)) % 1
            nulls = None
        return replaced_nulls(self._values(column, place), nulls)

    def _own_key(self, table: Table) -> str | None:
        """The column that tells the rows of a table apart by itself."""
        return table.key[0] if len(table.key) == 1 and table.reference(table.key[0]) is None else None

    def _referred(self, table: Table, reference: Reference, rows: Rows, place: Floats) -> Array:
        above = self._schema.table(reference.table)
        path = self._schema.path_to_unit(table)
        if path and path[0] == reference:
            return rows.parent + 1
        if above is not None and not above.public and above.name in self.rows:
            return np.asarray((place * len(self.rows[above.name])).astype(np.int64) + 1)
        return _picked(self._listed(reference.table, reference.target), place)

    def _values(self, column: Column, place: Floats) -> Drawn:
        domain = column.domain
        if isinstance(domain, Categories) and domain.values:
            return Drawn(_picked(domain.values, place), None)
        if not isinstance(domain, Interval):
            return Drawn(None, None, place)
        low, high = float(domain.lower), float(domain.upper)
        even = column.sqltype.is_integer or column.sqltype.is_temporal
        found = low + place / (1 - ROUND) * (high - low + even)
        inside = round_numbers(domain)
        if even:
            found = np.floor(found)
        if len(inside):
            odd = place >= 1 - ROUND
            found[odd] = inside[((place[odd] - 1 + ROUND) / ROUND * len(inside)).astype(np.int64) % len(inside)]
        else:
            found = low + place * (high - low)
        return Drawn(np.clip(found, low, high), None)

    def _uniform(self, table: str, column: str, size: int) -> Floats:
        """[0, 1) for each row: the finished states of a counter that steps from a hash of the column (Steele, Lea and Flood 2014)."""
        begun = np.uint64(int.from_bytes(hashlib.sha256(f"{self._identity}\n{table}\n{column}".encode()).digest()[:8]))
        state = begun + np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray(((state ^ (state >> np.uint64(31))) >> np.uint64(11)) / 2.0**53)


def replaced_nulls(drawn: Drawn, nulls: npt.NDArray[np.bool_] | None) -> Drawn:
    return Drawn(drawn.values, nulls, drawn.places)


def round_numbers(domain: Interval) -> Floats:
    """Multiples of a power of ten strictly inside the bounds, which are the extreme person's; 0 as often as all of them, where it is
    a value at all."""
    span = domain.upper - domain.lower
    if span <= 0:
        return np.array([])
    step = Fraction(10) ** (len(str(int(span))) - 1) if span >= 1 else Fraction(1, 10)
    if span / step < 3:
        step /= 10
    first, last = int(domain.lower / step), int(domain.upper / step)
    found = [float(step * i) for i in range(first - 1, last + 2) if i and domain.lower < step * i < domain.upper]
    return np.array(found + [0.0] * max(len(found), 1) if 0 in domain else found)


def _picked(values: Sequence[object], place: Floats) -> Array:
    if not values:
        return np.zeros(len(place))
    if all(isinstance(v, int | Fraction | float) for v in values):
        known: Array = np.array([float(v) for v in values])  # type: ignore[arg-type]
    else:
        known = np.array(values, dtype=np.object_)
    return np.asarray(known[(place * len(values)).astype(np.int64) % len(values)])
