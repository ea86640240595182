"""The intervals of a released column, as the arrays of their ends: within what is possible, and never of width 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from dpsql.aggregates.base import Floats


@dataclass(frozen=True, slots=True)
class ConfidenceBounds(Sequence[tuple[float, float] | None]):
    """Intervals as the arrays of their ends; a pair is made when it is read. NaN: there is none."""

    low: Floats
    high: Floats

    @staticmethod
    def around(values: Sequence[float] | Floats, h: float, grid: float, least: float = -math.inf) -> ConfidenceBounds:
        found = np.array(values, dtype=np.float64)
        with np.errstate(over="ignore"):
            return ConfidenceBounds(found - h, found + h).within(least, math.inf, grid)

    def within(self, least: float, most: float, grid: float) -> ConfidenceBounds:
        """The part of each interval that is possible; where it would be one value alone, that value and a step of the grid around it.

        Why  the exact value lies between `least` and `most`, so it leaves no interval that it was in. One of width 0 would call a value
             exact that is not; how wide it is made depends on the grid alone
        """
        low, high = np.clip(self.low, least, most), np.clip(self.high, least, most)
        alone = low >= high
        return ConfidenceBounds(
            np.where(alone, np.clip(low - grid, least, most), low),
            np.where(alone, np.clip(high + grid, least, most), high),
        )

    def __len__(self) -> int:
        return len(self.low)

    @overload
    def __getitem__(self, i: int) -> tuple[float, float] | None: ...
    @overload
    def __getitem__(self, i: slice) -> ConfidenceBounds: ...
    def __getitem__(self, i: int | slice) -> tuple[float, float] | ConfidenceBounds | None:
        if isinstance(i, slice):
            return ConfidenceBounds(self.low[i], self.high[i])
        low, high = float(self.low[i]), float(self.high[i])
        return None if low != low or high != high else (low, high)


class LaterBounds(Sequence[tuple[float, float] | None]):
    """Intervals of released values that are worked out once the first is read: most are never, and of redrawn values none is."""

    def __init__(self, size: int, make: Callable[[], ConfidenceBounds]) -> None:
        self._size, self._make = size, make
        self._made: ConfidenceBounds | None = None

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, i: int) -> tuple[float, float] | None: ...
    @overload
    def __getitem__(self, i: slice) -> ConfidenceBounds: ...
    def __getitem__(self, i: int | slice) -> tuple[float, float] | ConfidenceBounds | None:
        if self._made is None:
            self._made = self._make()
        return self._made[i]
