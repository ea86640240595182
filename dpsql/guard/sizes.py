"""How much regions have in common, of one with many others at once.

A region is a few boxes, a box a set of values in a few columns, and different sets of one column are few: so what two sets have in
common is worked out once for every two of them, and what two boxes have is a product of that. The numbers are floats: they say which
regions are worth a comparison, and which are far apart.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dpsql.guard.regions import Region
from dpsql.guard.values import Listed, Ranged, Values

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class _Column:
    """The different sets of one column, numbered; number 0 is all of it."""

    def __init__(self, whole: Values, by_extent: bool) -> None:
        self._by_extent = by_extent
        self._sets: list[Values] = []
        self._numbers: dict[Values, int] = {}
        self._common: dict[Values, Floats] = {}
        # of columns of numbers: for every range its two ends, and whose it is
        self._ends = np.empty((2, 16))
        self._owners = np.empty(16, dtype=np.int64)
        self._ranges = 0
        self.number(whole)

    def number(self, values: Values) -> int:
        known = self._numbers.get(values)
        if known is not None:
            return known
        number = len(self._sets)
        self._numbers[values] = number
        self._sets.append(values)
        self._common.clear()
        if isinstance(values, Ranged):
            for low, high in self._ranges_of(values):
                if self._ranges == len(self._owners):
                    self._ends = np.pad(self._ends, ((0, 0), (0, self._ranges)))
                    self._owners = np.pad(self._owners, (0, self._ranges))
                self._ends[:, self._ranges] = low, high
                self._owners[self._ranges] = number
                self._ranges += 1
        return number

    def cut(self, count: int) -> None:
        """Forget all but the first sets."""
        for values in self._sets[count:]:
            del self._numbers[values]
        del self._sets[count:]
        self._ranges = int(np.searchsorted(self._owners[: self._ranges], count))
        self._common.clear()

    def __len__(self) -> int:
        return len(self._sets)

    def common(self, values: Values | None) -> Floats:
        """Of every set, how much it has in common with one; with all of it where that is None."""
        values = self._sets[0] if values is None else values
        known = self._common.get(values)
        if known is None:
            known = self._common[values] = self._worked_out(values)
        return known

    def _worked_out(self, values: Values) -> Floats:
        if isinstance(values, Listed):
            return np.array([self._listed(values, other) for other in self._sets])
        # what two sets have in common beside NULL, whose size is that of NULL alone
        null = self._size(values.axis.null)
        found = np.zeros(len(self._sets))
        owners, (lows, highs) = self._owners[: self._ranges], self._ends[:, : self._ranges]
        for low, high in self._ranges_of(values):
            lengths = np.minimum(highs, high) - np.maximum(lows, low)
            found += np.bincount(owners, np.maximum(lengths, 0), len(found))
        nulls = np.array([isinstance(other, Ranged) and other.null and values.null for other in self._sets])
        return np.asarray(found * (1 - null) + nulls * null)

    def _listed(self, one: Listed, other: Values) -> float:
        """What two listed sets have in common; most have nothing."""
        assert isinstance(other, Listed)
        return self._size(one.both(other)) if one.bits & other.bits or one.odd or other.odd else 0.0

    def _ranges_of(self, values: Ranged) -> tuple[tuple[float, float], ...]:
        return values.places if self._by_extent else values.people_below

    def _size(self, values: Values) -> float:
        return 0.0 if values.is_empty else values.extent if self._by_extent else values.share


class Sizes:
    """Regions in their order, and what each has in common with another.

    by_extent  whether by extent, or by share
    """

    def __init__(self, by_extent: bool) -> None:
        self._by_extent = by_extent
        self._columns: dict[str, _Column] = {}
        self._rows: dict[str, int] = {}
        # by column and box the number of its set; of every region its first box, and how many boxes it has
        self._numbers = np.zeros((4, 64), dtype=np.int32)
        self._first = np.zeros(64, dtype=np.int64)
        self._many = np.zeros(64, dtype=np.int64)
        self._boxes = 0
        self.count = 0

    def add(self, region: Region) -> None:
        if self.count == len(self._first):
            self._first, self._many = np.pad(self._first, (0, self.count)), np.pad(self._many, (0, self.count))
        self._first[self.count], self._many[self.count] = self._boxes, len(region)
        self.count += 1
        for box in region:
            if self._boxes == self._numbers.shape[1]:
                self._numbers = np.pad(self._numbers, ((0, 0), (0, self._boxes)))
            self._numbers[:, self._boxes] = 0
            for key, values in box.items():
                if key not in self._rows:
                    self._add_column(key, values.axis.whole)
                self._numbers[self._rows[key], self._boxes] = self._columns[key].number(values)
            self._boxes += 1

    def _add_column(self, key: str, whole: Values) -> None:
        row = self._rows[key] = len(self._columns)
        self._columns[key] = _Column(whole, self._by_extent)
        if row == len(self._numbers):
            self._numbers = np.pad(self._numbers, ((0, row), (0, 0)))
        self._numbers[row, :] = 0

    def mark(self) -> tuple[int, int, list[int]]:
        """What there is."""
        return self.count, self._boxes, [len(column) for column in self._columns.values()]

    def back_to(self, mark: tuple[int, int, list[int]]) -> None:
        """Forget what came after a mark."""
        self.count, self._boxes, sets = mark
        for key in list(self._columns)[len(sets) :]:
            del self._columns[key], self._rows[key]
        for column, count in zip(self._columns.values(), sets, strict=True):
            if len(column) > count:
                column.cut(count)

    def common(self, region: Region, places: Places | None = None) -> Floats:
        """Of every region, or of those at some places, how much it has in common with this one."""
        if places is None:
            first, many = self._first[: self.count], self._many[: self.count]
        else:
            first, many = self._first[places], self._many[places]
        numbers, owners = self._boxes_of(first, many)
        found = np.zeros(len(first))
        for sizes in self._with_boxes(region, numbers):
            found += sizes if owners is None else np.bincount(owners, sizes, len(first))
        return found

    def _boxes_of(self, first: Places, many: Places) -> tuple[npt.NDArray[np.int32], Places | None]:
        """The boxes of some regions, and whose each is; None where each has one."""
        rows = self._numbers[: len(self._columns)]
        if (many == 1).all():
            return rows[:, first], None
        owners = np.repeat(np.arange(len(first)), many)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(many) - many, many)
        return rows[:, np.repeat(first, many) + within], owners

    def _with_boxes(self, region: Region, numbers: npt.NDArray[np.int32]) -> Iterator[Floats]:
        """What each box of a region has in common with other boxes."""
        for box in region:
            sizes = np.ones(numbers.shape[1])
            for row, (key, column) in enumerate(self._columns.items()):
                sizes *= column.common(box.get(key))[numbers[row]]
            for key, values in box.items():
                if key not in self._columns:
                    sizes *= values.extent if self._by_extent else values.share
            yield sizes
