"""cells: the predicate region of a statistic in each group, and how two of them are compared.

A cell holds a key for each sample unit that adds something to it: the unit's place, and eight bits of a hash of what it adds. Two cells
of one kind differ by the units of which they hold another key, or none. (One change in 256 has the same hash, and is not seen.) Of each
cell a mark is at hand: a sketch, whose distance from another is never more than twice what the cells differ by, leaves few to compare
exactly, and equal cells are known by their digest. So the keys of what was asked long ago are read again only where it is close.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check

Keys = npt.NDArray[np.uint32]
Marks = npt.NDArray[np.void]
Places = npt.NDArray[np.int64]
Pairs = tuple[Places, Places]
Fine = tuple[tuple[str, tuple[str, ...]], ...]
"""What tells cells apart that are the same to the sample (thresholds.py)."""

HASH_BITS = 8
SKETCH_BITS = 2_048
LOWEST = 16
"""Keys of a cell that are kept with it, the lowest in an order of their own."""
MARK = np.dtype([("digest", "<u8"), ("size", "<u4"), ("lowest", "<u4", LOWEST), ("sketch", "u1", SKETCH_BITS // 8)])
"""Of one cell. digest: equal for equal keys; size: [sample units] that add something."""
_MIX = np.uint32(0x9E3779B1)
"""Odd: two keys never become one."""
_BITS = np.unpackbits(np.arange(2**16, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1).sum(
    axis=1, dtype=np.uint8
)
"""Number of set bits of each number of two bytes."""
_DIGITS = 300
"""Powers of ten of the largest number that a unit adds, and of its inverse: what is beyond is told no further apart."""
_FOLDS = 4
"""Parts of a sketch that are laid over each other: what is far apart so needs no look at the whole."""
_AT_ONCE = 250_000
"""Pairs of cells that are looked at together."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The statistics of one release, each in each of its groups.

    kinds  "adds", or what else is asked of which values: only equal kinds are compared
    fine   of each cell
    marks  of each cell
    load   gives the keys of one, in order
    """

    kinds: tuple[str, ...]
    fine: tuple[Fine, ...]
    marks: Marks
    load: Callable[[int], Keys]

    def __len__(self) -> int:
        return len(self.kinds)


def cells(found: Sequence[tuple[str, Keys]], fine: Sequence[Fine] = ()) -> Cells:
    """Cells of a kind and keys each, which are different and in order."""
    marks = np.zeros(len(found), dtype=MARK)
    sizes = np.array([len(keys) for _, keys in found], dtype=np.int64)
    marks["size"], marks["digest"] = sizes, [_digest(keys) for _, keys in found]
    mixed = np.concatenate([np.zeros(0, dtype=np.uint32), *(keys for _, keys in found)]) * _MIX
    cell = np.repeat(np.arange(len(found), dtype=np.uint64), sizes)
    # a bit for each bucket: whether an odd number of keys falls in it
    sketches, bits = (
        np.zeros(len(found) * (SKETCH_BITS // 8), dtype=np.uint8),
        np.uint8(128) >> (mixed >> 21 & 7).astype(np.uint8),
    )
    np.bitwise_xor.at(sketches, cell * np.uint64(SKETCH_BITS // 8) + (mixed >> 24), bits)
    marks["sketch"] = sketches.reshape(len(found), SKETCH_BITS // 8)
    ordered = np.sort(cell << np.uint64(32) | mixed).astype(np.uint32)
    turn = np.arange(len(mixed)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    marks["lowest"][cell[turn < LOWEST].astype(np.int64), turn[turn < LOWEST]] = ordered[turn < LOWEST]
    return Cells(
        tuple(kind for kind, _ in found), tuple(fine) or ((),) * len(found), marks, lambda place: found[place][1]
    )


def keyed(units: npt.NDArray[np.int64], adds: npt.NDArray[np.float64]) -> Keys:
    """The keys of sample units that add some numbers: the same in as many digits as are sure, in whatever order these were added up."""
    if len(adds) > 1 and (adds == adds[0]).all():
        # they all add the same, as where they are counted
        low = keyed(units[:1], adds[:1]) & np.uint32(2**HASH_BITS - 1)
        return np.asarray((units.astype(np.uint32) << np.uint32(HASH_BITS)) | low)
    # what is beyond the range of exponents is at its end
    digits = np.clip(np.floor(np.log10(np.abs(adds))), -_DIGITS, _DIGITS)
    shown: npt.NDArray[np.float64] = (
        np.round(np.clip(adds, -(10.0**_DIGITS), 10.0**_DIGITS) / 10.0**digits, 9) * np.sign(adds) + digits
    )
    mixed = (shown.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - HASH_BITS)
    return (units.astype(np.uint32) << np.uint32(HASH_BITS)) | mixed.astype(np.uint32)


def differing(one: Keys, other: Keys) -> int:
    """[sample units] of which two cells hold something else."""
    return len(np.unique(np.setxor1d(one, other, assume_unique=True) >> np.uint32(HASH_BITS)))


def near(ones: Marks, others: Marks, most: int) -> Places:
    """Pairs of places, in order: cells that differ, by fewer than so many units where it may be. None of those that do is missing:
    their sizes differ by fewer, and their sketches by at most two keys of each unit."""
    found = [np.zeros((0, 2), dtype=np.int64)]
    size, other = (marks["size"].astype(np.int64) for marks in (ones, others))
    folded, other_folded = _folded(ones), _folded(others)
    is_long = len(ones) * len(others) > _AT_ONCE and most <= LOWEST
    pairs = _sharing(ones, size, others, other, most) if is_long else _sized(size, other, most)
    for i, j in pairs if len(others) else ():
        check()
        kept = (np.abs(size[i] - other[j]) < most) & (ones["digest"][i] != others["digest"][j])
        i, j = i[kept], j[kept]
        kept = _bits(folded.take(i, 0) ^ other_folded.take(j, 0)) < 2 * most
        i, j = i[kept], j[kept]
        kept = _bits(ones["sketch"][i] ^ others["sketch"][j]) < 2 * most
        i, j = i[kept], j[kept]
        found.append(np.column_stack([i, j]))
    return np.unique(np.concatenate(found), axis=0)


def _sharing(ones: Marks, size: Places, others: Marks, other: Places, most: int) -> Iterator[Pairs]:
    """Pairs that share one of their lowest keys.

    Why  two cells that are d units apart, and have more than d keys each, share one of their d + 1 lowest: were none of these shared,
         the cell whose lowest ones end first would have d + 1 keys that the other lacks (Chaudhuri, Ganti and Kaushik 2006)
    """
    few, fewer = np.flatnonzero(size < most), np.flatnonzero(other < most)
    yield from ((few[i], j) for i, j in _sized(size[few], other, most))
    yield from ((i, fewer[j]) for i, j in _sized(size, other[fewer], most))
    j, low = np.nonzero(np.arange(most) < other[:, None])
    keys = others["lowest"][j, low]
    order = np.argsort(keys)
    keys, j = keys[order], j[order]
    i, low = np.nonzero(np.arange(most) < size[:, None])
    asked = ones["lowest"][i, low]
    yield from ((i[a], j[b]) for a, b in _ranged(keys, asked, asked))


def _sized(size: Places, other: Places, most: int) -> Iterator[Pairs]:
    """Pairs that differ little in size."""
    order = np.argsort(other, kind="stable")
    yield from ((i, order[j]) for i, j in _ranged(other[order], size - most, size + most))


def _ranged(ordered: npt.NDArray[np.generic], low: Places | Keys, high: Places | Keys) -> Iterator[Pairs]:
    """The places of ranges, and of the ordered values in each, about so many at a time as are looked at together."""
    first, last = np.searchsorted(ordered, low), np.searchsorted(ordered, high, side="right")
    many = last - first
    begun = np.cumsum(many) - many
    for part in np.split(np.arange(len(many)), np.flatnonzero(np.diff(begun // _AT_ONCE)) + 1):
        counts = many[part]
        turn = np.arange(counts.sum()) - np.repeat(begun[part] - begun[part[:1]], counts)
        yield np.repeat(part, counts), np.repeat(first[part], counts) + turn


def _folded(marks: Marks) -> npt.NDArray[np.uint8]:
    """Shorter sketches, each bit the parity of the keys of some buckets: they too differ by no more than the keys do."""
    parts = marks["sketch"].reshape(len(marks), _FOLDS, SKETCH_BITS // 8 // _FOLDS)
    return np.asarray(np.bitwise_xor.reduce(parts, axis=1))


def _bits(found: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Number of set bits in each row."""
    return np.asarray(_BITS[found.view(np.uint16)].sum(axis=1, dtype=np.int64))


def _digest(keys: Keys) -> int:
    return int.from_bytes(hashlib.blake2b(keys.tobytes(), digest_size=8).digest())
