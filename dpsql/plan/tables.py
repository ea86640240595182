"""Tables of released and of public values, and how exact a released value is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np

from dpsql.core.columns import Column, Flags, Places
from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType
from dpsql.schema.model import RESERVED

KeyValue = int | str | bool | None
"""Form in which a group key travels: integers, booleans and text as they are, everything else as DuckDB's text of it."""

ROW_NUMBER = "release_row"
"""The column of a released table that numbers its rows."""


def intervals_table(release: str) -> str:
    """The sandbox's table of the ends of a release's intervals."""
    return f"{RESERVED}intervals {release}"


def redrawn_table(release: str) -> str:
    """The sandbox's table of a release with its noise drawn again, many times."""
    return f"{RESERVED}redrawn {release}"


def end_column(column: str, low: bool) -> str:
    """The column of an intervals table for one end."""
    return f"{RESERVED}{'low' if low else 'high'} {column}"


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """Noisy table of one release: the only form in which anything of people's rows leaves it.

    keys   one column per key, all of the same length [groups]
    cells  one column per noisy integer cell, in quanta of its measure, then one per integer that is chosen of a histogram; as long as
           the keys. None where it is suppressed
    """

    keys: tuple[Sequence[KeyValue], ...]
    cells: tuple[Sequence[int | None], ...]
    groups: int

    def known(self, begin: int = 0, end: int | None = None) -> tuple[Column[int], ...]:
        """Some columns of cells of which none is suppressed."""
        found = tuple(Column.of(column) for column in self.cells[begin:end])
        if any(column.nulls is not None for column in found):
            raise error(901, "a suppressed cell was about to be added up")
        return found  # type: ignore[return-value]

    def take(self, places: Places | Flags) -> NoisyTable:
        """The groups at some places, in their order."""
        keys = tuple(Column.of(column).take(places) for column in self.keys)
        cells = tuple(Column.of(column).take(places) for column in self.cells)
        return NoisyTable(keys, cells, int(np.count_nonzero(places)) if places.dtype == np.bool_ else len(places))


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A table that holds nothing private: a release's estimates or a declared public table, ready for the sandbox.

    columns  (name, type)
    data     one column each, a list or an array; types that Python does not hold exactly (DECIMAL, HUGEINT, dates) as DuckDB's text
    """

    name: str
    columns: tuple[tuple[str, SqlType], ...]
    data: tuple[Sequence[object], ...]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """low <= the exact value of the limited and clamped data <= high, with probability `level`, in the column's own unit.

    low, high  numbers; of a DATE dates, of a TIMESTAMP times, of a TIME times of day
    """

    low: float | date | time
    high: float | date | time
    level: float

    @property
    def ends(self) -> tuple[float, float]:
        """low and high as numbers: days since 1970, of dates and times, or since midnight."""
        return _number(self.low), _number(self.high)

    def error(self, value: object) -> float | None:
        """Error of a shown value: the distance from the exact value at most: the longer side of the interval.

        [the column's own unit; days, of dates and times]. None of what is no number and no time, such as NULL.
        """
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | date | time):
            return None
        shown = _number(value) if isinstance(value, date | time) else float(value)
        low, high = self.ends
        return max(high - shown, shown - low)


def _number(end: float | date | time) -> float:
    if isinstance(end, time):
        end = datetime.combine(date(1970, 1, 1), end)
    if isinstance(end, datetime):
        return (end - datetime(1970, 1, 1)) / timedelta(days=1)
    return float((end - date(1970, 1, 1)).days) if isinstance(end, date) else end
