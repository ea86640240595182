"""sketches: which of many cells are near another, by size and sketch. None that is is missing; what is found is compared exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dpsql.guard.cells import SKETCH_BITS

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
WORDS = SKETCH_BITS // 64
_SHORT = 4
"""Words of a folded sketch: what is far apart needs no look at the whole."""
_LATE = 1_024
"""Cells that may stand in no order."""
_BITS = np.unpackbits(np.arange(2**16, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1).sum(
    axis=1, dtype=np.uint8
)
"""Number of set bits of each number of two bytes."""
_Number = TypeVar("_Number", bound=np.generic)


class Growing(Generic[_Number]):
    """Rows of numbers to which more are added, mostly without a copy of the others."""

    def __init__(self, kind: type[_Number], *width: int) -> None:
        self._held: npt.NDArray[_Number] = np.empty((0, *width), dtype=kind)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> npt.NDArray[_Number]:
        return self._held[: self._size]

    def add(self, more: npt.NDArray[_Number]) -> None:
        size = self._size + len(more)
        if size > len(self._held):
            held = np.empty((max(size, size * 5 // 4 if self._size else 0), *self._held.shape[1:]), self._held.dtype)
            held[: self._size] = self.values
            self._held = held
        self._held[self._size : size] = more
        self._size = size


class Sketches:
    """Sizes and sketches of cells, each known by its place.

    Why  cells that differ by fewer than `most` units differ in size by fewer, and in at most two keys of each unit: so their sketches
         differ in fewer than twice as many bits, and sketches folded to fewer bits, each the parity of several, in no more
    """

    def __init__(self) -> None:
        self.sizes, self.words = Growing(np.int64), Growing(np.uint64, WORDS)
        self._order: Places = np.zeros(0, dtype=np.int64)
        self._sizes: Places = np.zeros(0, dtype=np.int64)
        self._folded: Words = np.zeros((_SHORT, 0), dtype=np.uint64)

    def __len__(self) -> int:
        return len(self.sizes)

    def add(self, sizes: Places, words: Words) -> None:
        self.sizes.add(sizes)
        self.words.add(words)

    def among(self, able: npt.NDArray[np.bool_]) -> Candidates:
        """Those of some of the cells that are asked for."""
        if len(self) - len(self._order) > max(_LATE, len(self._order) // 8):
            self._sort()
        size = len(self._order)
        kept = np.flatnonzero(able[self._order])
        late = np.flatnonzero(able[size:]) + size
        return Candidates(self, self._order[kept], self._sizes[kept], self._folded[:, kept], late)

    def _sort(self) -> None:
        self._order = np.argsort(self.sizes.values, kind="stable")
        self._sizes = self.sizes.values[self._order]
        # each word of all cells together: so a range of cells is read at once
        self._folded = np.ascontiguousarray(_folded(self.words.values)[:, self._order])


@dataclass(frozen=True, slots=True)
class Candidates:
    """Cells that are compared with others, of all that are known.

    order, sizes, folded  their places in the order of their sizes, with their folded sketches
    late                  the places of those that stand in no order
    """

    known: Sketches
    order: Places
    sizes: Places
    folded: Words
    late: Places

    def near(self, size: int, words: Words, most: int) -> Places:
        """The places, in order, of cells that may differ from one by fewer than so many units; equal ones are among them."""
        low, high = np.searchsorted(self.sizes, (size - most, size + most), side="right")
        found = self.order[low:high][_distances(self.folded[:, low:high], _folded(words[None])) < 2 * most]
        found = np.sort(np.concatenate([found, self.late]))
        found = found[np.abs(self.known.sizes.values[found] - size) < most]
        return found[_distances(self.known.words.values[found].T, words[:, None]) < 2 * most]


def _folded(words: Words) -> Words:
    return np.asarray(np.bitwise_xor.reduce(words.reshape(len(words), -1, _SHORT), axis=1).T)


def _distances(ones: Words, other: Words) -> Places:
    """Number of bits in which each column differs from another."""
    unlike = ones ^ other
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(unlike).sum(axis=0, dtype=np.int64))
    halves = np.ascontiguousarray(unlike).view(np.uint16).reshape(*unlike.shape, 4)
    return np.asarray(_BITS[halves].sum(axis=(0, 2), dtype=np.int64))
