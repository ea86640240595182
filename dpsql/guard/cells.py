"""cells: the predicate region of a statistic in each group, and how two of them are compared.

A cell holds a key for each sample unit that adds something to it: the unit's place, and eight bits of a hash of what it adds. Two cells
of one kind differ by the units of which they hold another key, or none. (One change in 256 has the same hash, and is not seen.) Of each
cell a mark is at hand: a sketch, whose distance from another is never more than twice what the cells differ by, leaves few to compare
exactly, and equal cells are known by their digest. So the keys of what was asked long ago are read again only where it is close.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.guard.arrays import Numbers, Places

Keys = npt.NDArray[np.uint32]
Marks = npt.NDArray[np.void]
Fine = tuple[tuple[str, tuple[str, ...]], ...]
"""Thresholds and lists that tell cells apart which are the same to the sample (thresholds.py)."""

HASH_BITS = 8
SKETCH_BITS = 2_048
MARK = np.dtype([("digest", "<u8"), ("size", "<u4"), ("sketch", "u1", SKETCH_BITS // 8)])
"""Of one cell. digest: equal for equal keys; size: [sample units] that add something."""
_MIX = np.uint32(0x9E3779B1)
"""Odd: two keys never become one."""
_AT_ONCE = 64
"""Cells whose sketches are made at once."""
_DIGITS = 300
"""Powers of ten of the largest number that a unit adds, and of its inverse: what is beyond is told no further apart."""
_WHOLE = 1_000
"""Whole numbers below this are hashed once, where there are more of them."""
_POWERS = 10.0 ** np.arange(-_DIGITS, _DIGITS + 1, dtype=np.float64)


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
    # of the same keys, as COUNT and AVG have them of one value, a mark is made once
    at = {id(keys): keys for _, keys in found}
    distinct = list(at.values())
    marks = np.zeros(len(distinct), dtype=MARK)
    marks["size"], marks["digest"] = [len(keys) for keys in distinct], [_digest(keys) for keys in distinct]
    for begun in range(0, len(distinct), _AT_ONCE):
        some = distinct[begun : begun + _AT_ONCE]
        marks["sketch"][begun : begun + len(some)] = _sketches(some)
    places = {one: place for place, one in enumerate(at)}
    marks = marks[np.array([places[id(keys)] for _, keys in found], dtype=np.int64)]
    return Cells(
        tuple(kind for kind, _ in found), tuple(fine) or ((),) * len(found), marks, lambda place: found[place][1]
    )


def keyed(units: Places, adds: Numbers) -> Keys:
    """The keys of sample units that add some numbers: the same in as many digits as are sure, in whatever order these were added up."""
    return np.asarray((units.astype(np.uint32) << np.uint32(HASH_BITS)) | _hashes(adds))


def of_kind(kind: str, found: list[Keys], multiples: list[Keys], others: list[Keys]) -> list[tuple[str, Keys]]:
    """Cells of a kind, with those that tell multiples of what adds up; hashes have none."""
    cells = [(kind, keys) for keys in (*found, *(multiples if kind == "adds" else ()))]
    return cells + [("adds in proportion", keys) for keys in others if kind == "adds"]


def _hashes(adds: Numbers) -> Keys:
    if len(adds) > 1 and (adds == adds[0]).all():
        # they all add the same, as where they are counted
        return _hashed(adds[:1])
    if len(adds) > _WHOLE and (np.abs(adds) < _WHOLE).all():
        whole = adds.astype(np.int64)
        if (whole == adds).all():
            # each of many small numbers is hashed once
            return _hashed(np.arange(1 - _WHOLE, _WHOLE, dtype=np.float64))[whole + (_WHOLE - 1)]
    return _hashed(adds)


def _hashed(adds: Numbers) -> Keys:
    # what is beyond the range of exponents is at its end
    with np.errstate(divide="ignore"):
        digits = np.clip(np.floor(np.log10(np.abs(adds))), -_DIGITS, _DIGITS)
    powers = _POWERS[digits.astype(np.int64) + _DIGITS]
    shown: Numbers = np.round(np.clip(adds, -(10.0**_DIGITS), 10.0**_DIGITS) / powers, 9) * np.sign(adds) + digits
    mixed = (shown.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - HASH_BITS)
    return mixed.astype(np.uint32)


def differences(found: Sequence[Keys], ones: Places, others: Places) -> Places:
    """[sample units] of which the cells at some places hold something else than those at others."""
    sizes = np.array([len(keys) for keys in found], dtype=np.int64)
    every, begun = np.concatenate([np.zeros(0, dtype=np.uint32), *found]).astype(np.int64), np.cumsum(sizes) - sizes
    sides = np.concatenate([ones, others])
    often = sizes[sides]
    at = np.arange(int(often.sum())) - np.repeat(np.cumsum(often) - often, often) + np.repeat(begun[sides], often)
    pairs = np.repeat(np.tile(np.arange(len(ones)), 2), often)
    codes = np.sort(pairs << 32 | every[at])
    twice = codes[1:] == codes[:-1]
    both = np.append(twice, False) | np.insert(twice, 0, False)
    units = codes[~both[: len(codes)]] >> HASH_BITS
    first = np.append(True, units[1:] != units[:-1])[: len(units)]
    return np.bincount(units[first] >> (32 - HASH_BITS), minlength=len(ones))


def _sketches(found: Sequence[Keys]) -> npt.NDArray[np.uint8]:
    """Of each cell a bit for each bucket of keys: 1 where an odd number of them falls in it."""
    buckets = ((np.concatenate(found) * _MIX) >> np.uint32(32 - SKETCH_BITS.bit_length() + 1)).astype(np.int64)
    buckets += np.repeat(np.arange(len(found)) * SKETCH_BITS, [len(keys) for keys in found])
    many = np.bincount(buckets, minlength=len(found) * SKETCH_BITS)
    return np.packbits((many & 1).astype(np.uint8)).reshape(len(found), -1)


def _digest(keys: Keys) -> int:
    return int.from_bytes(hashlib.blake2b(keys.tobytes(), digest_size=8).digest())
