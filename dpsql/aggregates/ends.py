"""The intervals of a released column, as the arrays of their ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from dpsql.aggregates.base import Floats


@dataclass(frozen=True, slots=True)
class Ends(Sequence[tuple[float, float] | None]):
    """Intervals as the arrays of their ends; a pair is made when it is read. NaN: there is none."""

    low: Floats
    high: Floats

    @staticmethod
    def around(values: Sequence[float] | Floats, h: float) -> Ends:
        found = np.array(values, dtype=np.float64)
        with np.errstate(over="ignore"):
            return Ends(found - h, found + h)

    def __len__(self) -> int:
        return len(self.low)

    @overload
    def __getitem__(self, i: int) -> tuple[float, float] | None: ...
    @overload
    def __getitem__(self, i: slice) -> Ends: ...
    def __getitem__(self, i: int | slice) -> tuple[float, float] | Ends | None:
        if isinstance(i, slice):
            return Ends(self.low[i], self.high[i])
        low, high = float(self.low[i]), float(self.high[i])
        return None if low != low or high != high else (low, high)
