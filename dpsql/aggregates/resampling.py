"""Intervals of what is computed from noisy cells: the noise is drawn again around what was released.

The exact cells are the released ones less their noise, and the noise has a known distribution. So the values that a column would
have for `released - noise`, over many draws, show where the exact value lies; the middle 95 % of them are the interval. The draws are
points that fill the cube evenly, not random ones: the same answer has the same interval, and nothing random is used. All of it is
post-processing of released numbers and public scales.
Source: the parametric bootstrap, of the noise alone: Ferrando, Wang, Sheldon 2022, Parametric Bootstrap for Differentially Private
Confidence Intervals; the points: McKay, Beckman, Conover 1979 (Latin hypercubes).
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import overload

import numpy as np

from dpsql.aggregates.base import Floats, Noise

DRAWS = 4096
FEWEST = 8
"""Draws beyond each end of an interval: of fewer nothing is told."""
Interval = tuple[float, float] | None


@lru_cache(maxsize=32)
def points(dimensions: int, draws: int = DRAWS) -> Floats:
    """Points of the open unit cube, one row each, always the same: in each dimension one in each of `draws` equal parts.

    Why  each column is the ranks of a fixed stream of bytes: nothing is random, and no part of the cube is left out
    """
    stream = np.frombuffer(hashlib.shake_256(b"points").digest(8 * draws * dimensions), dtype=np.uint64)
    ranks = stream.reshape(dimensions, draws).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    found: Floats = (ranks.T + 0.5) / draws
    return found


def redrawn(cells: Sequence[int], noise: Noise) -> Floats:
    """Exact cells that the released ones of one group may have come from, one column a draw."""
    drawn: Floats = np.array([float(c) for c in cells])[:, None] - _noise_at(noise, len(cells))
    return drawn


@lru_cache(maxsize=8)
def _noise_at(noise: Noise, cells: int) -> Floats:
    """The noise of as many cells at the points: the same for every group of a column."""
    return np.round(noise.at(points(cells).T))


def middle(values: Floats, level: Fraction) -> Interval:
    """The interval that holds the middle `level` of some values; one that is unknown may be any, so it counts on both sides."""
    known = values[~np.isnan(values)]
    unknown = len(values) - len(known)
    if not len(known):
        return None
    cut = (1 - float(level)) / 2 * len(values)
    ordered = np.sort(known)
    low, high = math.floor(cut) - unknown, len(known) - 1 - math.floor(cut) + unknown
    return (
        float(ordered[low]) if low >= 0 else -math.inf,
        float(ordered[high]) if high < len(known) else math.inf,
    )


class Intervals(Sequence[Interval]):
    """The interval of each group, worked out when it is read."""

    __slots__ = ()

    @abstractmethod
    def at(self, group: int) -> Interval:
        """Of one group, counted from 0."""

    @overload
    def __getitem__(self, i: int) -> Interval: ...
    @overload
    def __getitem__(self, i: slice) -> list[Interval]: ...
    def __getitem__(self, i: int | slice) -> Interval | list[Interval]:
        places = range(len(self))[i]
        return self.at(places) if isinstance(places, int) else [self.at(j) for j in places]


@dataclass(slots=True)
class Resampled(Intervals):
    """The intervals of columns that are computed of redrawn cells.

    cells   the released cells, one list each, as long as there are groups
    values  the column's values for exact cells, an array of one row a cell
    least, most  what every value lies between
    step    by which an interval of width 0 is widened
    shown   whether a group has a value
    known   whether anything is known of where it lies; else the interval is from `least` to `most`
    """

    cells: Sequence[Sequence[int]]
    noise: Noise
    level: Fraction
    values: Callable[[Floats], Floats]
    least: float
    most: float
    step: float
    shown: Sequence[bool]
    known: Sequence[bool]
    _found: dict[int, Interval] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.shown)

    def at(self, group: int) -> Interval:
        if group not in self._found:
            self._found[group] = self._interval(group)
        return self._found[group]

    def _interval(self, group: int) -> Interval:
        if not self.shown[group]:
            return None
        if not self.known[group]:
            return self.least, self.most
        if (1 - self.level) / 2 * DRAWS < FEWEST:
            return None
        found = middle(self.values(redrawn([cell[group] for cell in self.cells], self.noise)), self.level)
        if found is None:
            return None
        low, high = (max(self.least, min(self.most, end)) for end in found)
        return (low, high) if low < high else (max(self.least, low - self.step), min(self.most, high + self.step))
