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
Bools = npt.NDArray[np.bool_]
WORDS = SKETCH_BITS // 64
_SHORT = 4
"""Words of a folded sketch: what is far apart needs no look at the whole."""
_LATE = 1_024
"""Cells that may stand in no order."""
_PAIRS = 2**18
"""Pairs of cells that are compared at once: so many that their words fit where a processor reads fast."""
_SMALL = 32
"""[sample units] Sketches of no more are nearly empty, so most are about alike: such cells are looked for by the buckets they share."""
_LOWEST = 16
"""Lowest buckets of a cell by which it may be looked for."""
_PLACE, _CELL = 32, 2**32 - 1
"""Bits of the place of a cell, below those of a code."""
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


class CellPlaces:
    """Places of different cells, by their digests: numbered in the order in which they first came.

    Why  a breakdown has as many cells as groups, and to look them up one by one takes longer than to compare them. Those of small
         statements go into a dictionary, until they are many; the others stand in order
    """

    def __init__(self) -> None:
        self._ordered, self._at = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
        self._late: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._ordered) + len(self._late)

    def find(self, digests: npt.NDArray[np.uint64]) -> Places:
        """The place of each; -1 for none."""
        found = np.full(len(digests), -1, dtype=np.int64)
        if len(digests) >= _LATE and self._late:
            self._settle()
        if len(self._ordered):
            near = np.minimum(np.searchsorted(self._ordered, digests), len(self._ordered) - 1)
            found = np.where(self._ordered[near] == digests, self._at[near], -1)
        if self._late:
            late = np.array([self._late.get(digest, -1) for digest in digests.tolist()], dtype=np.int64)
            found = np.where(found < 0, late, found)
        return found

    def add(self, digests: npt.NDArray[np.uint64]) -> Places:
        """The place of each, after those that were not there are added."""
        found = self.find(digests)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            fresh, first, which = np.unique(digests[missing], return_index=True, return_inverse=True)
            places = np.empty(len(fresh), dtype=np.int64)
            places[np.argsort(first)] = np.arange(len(fresh)) + len(self)
            found[missing] = places[which.reshape(-1)]
            if len(fresh) < _LATE:
                self._late.update(zip(fresh.tolist(), places.tolist(), strict=True))
            else:
                self._put(fresh, places)
            if len(self._late) > max(_LATE, len(self._ordered) // 8):
                self._settle()
        return found

    def _settle(self) -> None:
        late = np.array([*self._late], dtype=np.uint64), np.array([*self._late.values()], dtype=np.int64)
        self._late = {}
        self._put(*late)

    def _put(self, digests: npt.NDArray[np.uint64], places: Places) -> None:
        every, at = np.concatenate([self._ordered, digests]), np.concatenate([self._at, places])
        order = np.argsort(every, kind="stable")
        self._ordered, self._at = every[order], at[order]


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

    def among(self, able: Bools) -> Candidates:
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

    def among(self, able: Bools) -> _Ordered:
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
class _Buckets:
    """Cells by the buckets that are set in their sketches.

    Why  sketches with p and q set buckets that differ in at most t share at least (p + q - t) / 2. Of r that they share, the lowest r
         are among the lowest t + r of either, as at most t of these are not the other's. So cells that are near, t = 2 most - 2, share
         two of the lowest 2 most where p + q >= 2 most + 2, and one where p + q >= 2 most. What has fewer is compared with all of them

    lowest  of each cell, in order; -1 where it has fewer
    many    of each cell, of all
    """

    lowest: Places
    many: Places

    @classmethod
    def of(cls, words: Words, lowest: int) -> _Buckets:
        """The lowest buckets of sketches."""
        cells, places = np.nonzero(words)
        left = words[cells, places]
        held, begun = [np.zeros(0, dtype=np.int64)], places * 64
        while len(left):
            bit = left & (~left + np.uint64(1))
            held.append(cells * SKETCH_BITS + begun + _bits(bit - np.uint64(1)))
            left = left ^ bit
            more = left != 0
            cells, begun, left = cells[more], begun[more], left[more]
        found = np.sort(np.concatenate(held))
        owners = found // SKETCH_BITS
        many = np.bincount(owners, minlength=len(words))
        at = np.arange(len(found)) - np.repeat(np.cumsum(many) - many, many)
        kept = at < lowest
        shown = np.full((len(words), lowest), -1, dtype=np.int64)
        shown[owners[kept], at[kept]] = found[kept] % SKETCH_BITS
        return cls(shown, many)

    def near(self, others: _Buckets, most: int) -> Iterator[tuple[Places, Places, bool]]:
        """Pairs of a cell and another one that may be near, some of them more than once; and whether their sketches are known to be."""
        for ones, theirs in _met(self._twos(), others._twos()):
            kept = self.many[ones] + others.many[theirs] >= 2 * most + 2
            yield ones[kept], theirs[kept], False
        few, few_theirs = self.many <= most, others.many <= most
        for here, there in ((few, few_theirs | ~few_theirs), (~few, few_theirs)):
            for ones, theirs in _met(self._each(here, 2 * most), others._each(there, 2 * most)):
                kept = self.many[ones] + others.many[theirs] <= 2 * most + 1
                # of 2 most + 1 set buckets two are shared
                yield ones[kept], theirs[kept], True
        for many in np.unique(self.many[self.many < 2 * most]).tolist():
            fewer = np.flatnonzero(others.many + many < 2 * most)
            yield from ((*pair, True) for pair in _met(np.flatnonzero(self.many == many), fewer))

    def _each(self, asked: Bools, most: int) -> Places:
        """The lowest buckets of the cells of those asked for that have few, each with its cell."""
        cells = np.flatnonzero(asked & (self.many <= most + 1))
        rows, places = np.nonzero(self.lowest[cells] >= 0)
        return np.asarray(self.lowest[cells][rows, places] << _PLACE | cells[rows])

    def _twos(self) -> Places:
        """Every two of the lowest buckets of each cell, with the cell."""
        first, second = np.triu_indices(self.lowest.shape[1], 1)
        cells, places = np.nonzero(self.lowest[:, second] >= 0)
        codes = self.lowest[cells, first[places]] * SKETCH_BITS + self.lowest[cells, second[places]]
        return np.asarray(codes << _PLACE | cells)


def _met(ones: Places, others: Places) -> Iterator[tuple[Places, Places]]:
    """Pairs of cells that have a code in common, where each stands with its cell."""
    ones, others = np.sort(ones), np.sort(others)
    cells, others, codes, theirs = ones & _CELL, others & _CELL, ones >> _PLACE, others >> _PLACE
    low, high = (np.searchsorted(theirs, codes, side=side) for side in ("left", "right"))
    ends = np.cumsum(high - low)
    begun = 0
    while begun < len(codes):
        check()
        done = int(ends[begun - 1]) if begun else 0
        end = max(begun + 1, int(np.searchsorted(ends, done + _PAIRS, side="right")))
        often = (high - low)[begun:end]
        at = np.arange(int(often.sum())) - np.repeat(np.cumsum(often) - often, often)
        yield np.repeat(cells[begun:end], often), others[np.repeat(low[begun:end], often) + at]
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
        found = [(order[:0], order[:0])]
        for part in self.parts:
            for ones, others, is_near in self._looked_for(part, order, sizes, words, most):
                kept = np.abs(self.known.sizes.values[others] - sizes[ones]) < most
                ones, others = ones[kept], others[kept]
                if not is_near:
                    kept = _distances(words[ones].T, self.known.words.values[others].T) < 2 * most
                    ones, others = ones[kept], others[kept]
                found.append((ones, others))
        ones, others = (np.concatenate(side) for side in zip(*found, strict=True))
        pairs = np.sort(ones << _PLACE | others)
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]]
        return pairs >> _PLACE, pairs & _CELL

    def _looked_for(
        self, part: _Ordered, order: Places, sizes: Places, words: Words, most: int
    ) -> Iterator[tuple[Places, Places, bool]]:
        """Pairs that may be near, of small cells by the buckets that they share, of others by their size; and whether their sketches
        are known to be."""
        folded = np.ascontiguousarray(_folded(words[order]))
        small = int(np.searchsorted(sizes[order], _SMALL, side="right")) if 2 * most <= _LOWEST else 0
        theirs = part.order[: np.searchsorted(part.sizes, _SMALL + most)]
        if small and len(theirs):
            own = _Buckets.of(words[order[:small]], 2 * most)
            for at, other, is_near in own.near(_Buckets.of(self.known.words.values[theirs], 2 * most), most):
                if not is_near:
                    kept = _distances(folded[:, at], part.folded[:, other]) < 2 * most
                    at, other = at[kept], other[kept]
                yield order[at], theirs[other], is_near
        order, folded = order[small:], folded[:, small:]
        for at, other in part.near(sizes[order], folded, most):
            yield order[at], part.order[other], False


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
