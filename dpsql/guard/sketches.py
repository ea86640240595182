"""sketches: which of many cells are near another, by size and sketch. None that is is missing; what is found is compared exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.guard.cells import SKETCH_BITS

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
WORDS = SKETCH_BITS // 64
_SHORT = 4
"""Words of a folded sketch: what is far apart needs no look at the whole."""
_LATE = 1_024
"""Cells that may stand in no order."""
_PAIRS = 2**18
"""Pairs of cells that are compared at once: so many that their words fit where a processor reads fast."""
_SHORT_DISTANCE = 24
"""[bits] By more than these differ the words of most cells that have nothing to do with each other."""
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
        self._ordered = _Ordered.of(self, np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.sizes)

    def add(self, sizes: Places, words: Words) -> None:
        self.sizes.add(sizes)
        self.words.add(words)

    def among(self, able: npt.NDArray[np.bool_]) -> Candidates:
        """Those of some of the cells that are asked for."""
        if len(self) - len(self._ordered) > max(_LATE, len(self._ordered) // 8):
            self._ordered = _Ordered.of(self, np.arange(len(self)))
        size = len(self._ordered)
        late = _Ordered.of(self, np.flatnonzero(able[size:]) + size)
        return Candidates(self, (self._ordered.among(able), late))


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Cells by their sizes: their places, sizes, and folded sketches, each word of all of them together."""

    order: Places
    sizes: Places
    folded: Words

    @classmethod
    def of(cls, known: Sketches, places: Places) -> _Ordered:
        order = places[np.argsort(known.sizes.values[places], kind="stable")]
        return cls(order, known.sizes.values[order], np.ascontiguousarray(_folded(known.words.values[order])))

    def __len__(self) -> int:
        return len(self.order)

    def among(self, able: npt.NDArray[np.bool_]) -> _Ordered:
        kept = np.flatnonzero(able[self.order])
        return _Ordered(self.order[kept], self.sizes[kept], self.folded[:, kept])

    def near(self, sizes: Places, folded: Words, most: int) -> Iterator[tuple[Places, Places]]:
        """Pairs of a given cell and an own one, as far as folded sketches tell: their places in these orders.

        sizes, folded  of the given cells, in the order of their sizes
        """
        # the first word tells most pairs apart where few bits may differ
        pairs = _PAIRS if 2 * most < _SHORT_DISTANCE else _PAIRS // 16
        begun = 0
        while begun < len(sizes):
            check()
            # of some cells of about one size, which all look at about the same ones
            alike = int(np.searchsorted(sizes, sizes[begun] + most, side="right"))
            low = int(np.searchsorted(self.sizes, sizes[begun] - most, side="right"))
            high = int(np.searchsorted(self.sizes, sizes[alike - 1] + most, side="left"))
            end = min(alike, begun + max(pairs // max(high - low, 1), 1))
            first = _bits(folded[0, begun:end, None] ^ self.folded[0, low:high])
            ones, others = np.divmod(np.flatnonzero(first < 2 * most), max(high - low, 1))
            ones, others = ones + begun, others + low
            kept = _distances(folded[:, ones], self.folded[:, others]) < 2 * most
            yield ones[kept], others[kept]
            begun = end


@dataclass(frozen=True, slots=True)
class Candidates:
    """Cells that are compared with others, of all that are known: those in the order of their sizes, and those that came late."""

    known: Sketches
    parts: tuple[_Ordered, ...]

    def near(self, sizes: Places, words: Words, most: int) -> tuple[Places, Places]:
        """Pairs of a given cell and a known one that may differ by fewer than so many units, equal ones among them: the places of both,
        in order."""
        order = np.argsort(sizes, kind="stable")
        folded = np.ascontiguousarray(_folded(words[order]))
        found = [(order[:0], order[:0])]
        for part in self.parts:
            for at, other in part.near(sizes[order], folded, most):
                ones, others = order[at], part.order[other]
                kept = np.abs(self.known.sizes.values[others] - sizes[ones]) < most
                kept &= _distances(words[ones].T, self.known.words.values[others].T) < 2 * most
                found.append((ones[kept], others[kept]))
        ones, others = (np.concatenate(side) for side in zip(*found, strict=True))
        order = np.lexsort((others, ones))
        return ones[order], others[order]


def _folded(words: Words) -> Words:
    return np.asarray(np.bitwise_xor.reduce(words.reshape(len(words), WORDS // _SHORT, _SHORT), axis=1).T)


def _distances(ones: Words, others: Words) -> Places:
    """Number of bits in which each column differs from that of another."""
    return np.asarray(_bits(ones ^ others).sum(axis=0, dtype=np.int64))


def _bits(unlike: Words) -> npt.NDArray[np.uint8]:
    """Number of set bits of each word."""
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(unlike))
    halves = np.ascontiguousarray(unlike).view(np.uint16).reshape(*unlike.shape, 4)
    return np.asarray(_BITS[halves].sum(axis=-1, dtype=np.uint8))
