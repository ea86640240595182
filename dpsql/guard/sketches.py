"""sketches: which of many cells are near another, by size and sketch. None that is is missing; what is found is compared exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.guard.arrays import Bools, Places
from dpsql.guard.cells import MARK, SKETCH_BITS, Marks

Words = npt.NDArray[np.uint64]
WORDS = SKETCH_BITS // 64
_SHORT = 4
"""Words of a folded sketch: what is far apart needs no look at the whole."""
_PAIRS = 2**18
"""Pairs of cells that are compared at once."""
_SMALL = 32
"""[sample units] Sketches of no more are nearly empty, so most are about alike: many such cells are looked for by the buckets they
share, many others by parts of their sketches."""
_MANY = 64
"""As many cells are enough to read the sketches of all others."""
_LOWEST = 16
"""Lowest buckets, or parts of a sketch, by which a cell may be looked for."""
_PLACE, _CELL = 32, 2**32 - 1
"""Bits of the place of a cell, below those of a code."""
_ODD = np.multiply.accumulate(np.full(WORDS, 0x9E3779B97F4A7C15, dtype=np.uint64))
"""Odd numbers by which the words of a part are mixed."""
_BITS = np.unpackbits(np.arange(2**16, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1).sum(
    axis=1, dtype=np.uint8
)
"""Number of set bits of each number of two bytes."""
_Number = TypeVar("_Number", bound=np.generic)


class Growing(Generic[_Number]):
    """Rows of numbers to which more are added, mostly without a copy of the others."""

    def __init__(self, kind: type[_Number] | np.dtype[_Number], *width: int) -> None:
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
    """Marks of cells, each known by its place.

    Why  cells that differ by fewer than `most` units differ in size by fewer, and in at most two keys of each unit: so their sketches
         differ in fewer than twice as many bits, and sketches folded to fewer bits, each the parity of several, in no more
    """

    def __init__(self) -> None:
        self.marks: Growing[np.void] = Growing(MARK)
        self._folded = Growing(np.uint64, _SHORT)
        # the places of cells by their sizes, and these sizes
        self._order, self._sizes = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.marks)

    @property
    def sizes(self) -> Places:
        return self.marks.values["size"].astype(np.int64)

    def add(self, marks: Marks) -> None:
        sizes = marks["size"].astype(np.int64)
        order = np.argsort(sizes, kind="stable")
        at = np.searchsorted(self._sizes, sizes[order], side="right")
        self._order = np.insert(self._order, at, order + len(self))
        self._sizes = np.insert(self._sizes, at, sizes[order])
        self.marks.add(marks)
        self._folded.add(_folded(_words(marks)))

    def near(self, able: Bools, marks: Marks, most: int) -> tuple[Places, Places]:
        """Pairs of a given cell and a known one of those that are able to be near, which may differ by fewer than so many units, equal
        ones among them: the places of both, in order."""
        sizes, words = marks["size"].astype(np.int64), _words(marks)
        found = [np.zeros(0, dtype=np.int64)]
        for ones, others in self._looked_for(able, sizes, words, most):
            kept = _distances(words[ones], _words(self.marks.values, others)) < 2 * most
            found.append(ones[kept] << _PLACE | others[kept])
        # millions of them are sorted in a fraction of the time that np.unique hashes them in
        pairs = np.sort(np.concatenate(found))
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]]
        return pairs >> _PLACE, pairs & _CELL

    def _looked_for(self, able: Bools, sizes: Places, words: Words, most: int) -> Iterator[tuple[Places, Places]]:
        """Pairs that may be near: of many cells by what they have in common, of others by size and folded sketch."""
        folded, known = _folded(words), self.sizes
        is_small, is_alone = sizes <= _SMALL, np.ones(len(sizes), dtype=np.bool_)
        for some, met in ((is_small, _sharing), (~is_small, _agreeing)):
            if 2 * most > _LOWEST or np.count_nonzero(some) < _MANY:
                continue
            is_alone &= ~some
            ones = np.flatnonzero(some)
            low = np.searchsorted(self._sizes, sizes[ones].min() - most, side="right")
            others = self._order[low : np.searchsorted(self._sizes, sizes[ones].max() + most)]
            others = others[able[others]]
            for here, there in met(words[ones], _words(self.marks.values, others), most):
                here, there = ones[here], others[there]
                kept = np.abs(known[there] - sizes[here]) < most
                here, there = here[kept], there[kept]
                kept = _distances(folded[here], self._folded.values[there]) < 2 * most
                yield here[kept], there[kept]
        alone = np.flatnonzero(is_alone)
        ends = np.searchsorted(self._sizes, sizes[alone] + most)
        for ones, at in _spans(np.searchsorted(self._sizes, sizes[alone] - most, side="right"), ends):
            here, there = alone[ones], self._order[at]
            here, there = here[able[there]], there[able[there]]
            kept = _distances(folded[here], self._folded.values[there]) < 2 * most
            yield here[kept], there[kept]


def _sharing(own: Words, known: Words, most: int) -> Iterator[tuple[Places, Places]]:
    """Pairs of cells that may be near, by the buckets that are set in their sketches; some of them more than once.

    Why  sketches with p and q set buckets that differ in at most t = 2 most - 2 share one where p + q > t, and of those that they share
         the lowest is among the lowest t + 1 of either, as at most t of these are not the other's. Where p + q <= t, one has fewer than
         `most`
    """
    (codes, many), (theirs, others) = _lowest(own, 2 * most), _lowest(known, 2 * most)
    yield from _met(codes, theirs)
    for here, there in ((many < most, others < 2 * most), (many < 2 * most, others < most)):
        yield from _met(np.flatnonzero(here), np.flatnonzero(there))


def _agreeing(own: Words, known: Words, most: int) -> Iterator[tuple[Places, Places]]:
    """Pairs of cells that may be near, by a part in which their sketches agree; some of them more than once.

    Why  sketches that differ in fewer than 2 most bits, cut in 2 most parts, agree in one of them
    """
    for part in range(2 * most):
        yield from _met(*(_codes(words[:, part :: 2 * most]) for words in (own, known)))


def _codes(words: Words) -> Places:
    """The same code for rows of equal words, each with its place."""
    mixed = (words * _ODD[: words.shape[1]]).sum(axis=1, dtype=np.uint64) >> np.uint64(_PLACE + 1)
    codes = mixed.astype(np.int64) << _PLACE | np.arange(len(words))
    return np.asarray(codes)


def _lowest(words: Words, most: int) -> tuple[Places, Places]:
    """The lowest set buckets of sketches, each with the place of its sketch; and how many are set in each."""
    written = words.view(np.uint8)
    places, begun = np.nonzero(written)
    one, bit = np.nonzero(np.unpackbits(written[places, begun, None], axis=1))
    places, buckets = places[one], 8 * begun[one] + bit
    many = np.bincount(places, minlength=len(words))
    turn = np.arange(len(places)) - np.repeat(np.cumsum(many) - many, many)
    return (buckets << _PLACE | places)[turn < most], many


def _met(ones: Places, others: Places) -> Iterator[tuple[Places, Places]]:
    """Pairs of cells that have a code in common, where each stands with its cell."""
    others = np.sort(others)
    low, high = (np.searchsorted(others >> _PLACE, ones >> _PLACE, side=side) for side in ("left", "right"))
    for mine, at in _spans(low, high):
        yield ones[mine] & _CELL, others[at] & _CELL


def _spans(low: Places, high: Places) -> Iterator[tuple[Places, Places]]:
    """All places from a low one up to a high one, each with the number of the span that it is in: of several spans at once."""
    sizes = np.maximum(high - low, 0)
    for begun, end in pieces(sizes, _PAIRS):
        often = sizes[begun:end]
        inside = np.arange(int(often.sum())) - np.repeat(np.cumsum(often) - often, often)
        yield np.repeat(np.arange(begun, end), often), np.repeat(low[begun:end], often) + inside


def pieces(sizes: Places, most: int) -> Iterator[tuple[int, int]]:
    """Runs of places whose sizes are not too much together; of one place at least."""
    ends, begun = np.cumsum(sizes), 0
    while begun < len(sizes):
        check()
        done = int(ends[begun - 1]) if begun else 0
        end = max(begun + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield begun, end
        begun = end


def _words(marks: Marks, places: Places | None = None) -> Words:
    """The sketches of cells, or of those at some places."""
    sketches = marks["sketch"] if places is None else marks["sketch"][places]
    return np.ascontiguousarray(sketches).view(np.uint64).reshape(len(sketches), WORDS)


def _folded(words: Words) -> Words:
    return np.asarray(np.bitwise_xor.reduce(words.reshape(len(words), WORDS // _SHORT, _SHORT), axis=1))


def _distances(ones: Words, others: Words) -> Places:
    """Number of bits in which each row differs from that of another."""
    unlike = ones ^ others
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(unlike).sum(axis=1, dtype=np.int64))
    return np.asarray(_BITS[np.ascontiguousarray(unlike).view(np.uint16)].sum(axis=1, dtype=np.int64))
