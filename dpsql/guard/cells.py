"""cells: what released statistics are about in each group, and how two of them are compared.

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

Keys = npt.NDArray[np.uint32]
Marks = npt.NDArray[np.void]

HASH_BITS = 8
SKETCH_BITS = 2_048
MARK = np.dtype([("digest", "<u8"), ("size", "<u4"), ("sketch", "u1", SKETCH_BITS // 8)])
"""Of one cell. digest: equal for equal keys; size: [sample units] that add something."""
_MIX = np.uint32(0x9E3779B1)
_BITS = np.unpackbits(np.arange(2**16, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1).sum(
    axis=1, dtype=np.uint8
)
"""How many bits of a number of two bytes are set."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The statistics of one release, each in each of its groups.

    kinds  "adds", or what else is asked of which values: only equal kinds are compared
    marks  of each cell
    load   gives the keys of one, in order
    """

    kinds: tuple[str, ...]
    marks: Marks
    load: Callable[[int], Keys]

    def __len__(self) -> int:
        return len(self.kinds)


def cells(found: Sequence[tuple[str, Keys]]) -> Cells:
    """Cells of a kind and keys each, which are different and in order."""
    marks = np.zeros(len(found), dtype=MARK)
    for place, (_, keys) in enumerate(found):
        marks[place] = (_digest(keys), len(keys), _sketch(keys))
    return Cells(tuple(kind for kind, _ in found), marks, lambda place: found[place][1])


def keyed(units: npt.NDArray[np.int64], adds: npt.NDArray[np.float64]) -> Keys:
    """The keys of sample units that add some numbers: the same in as many digits as are sure, in whatever order these were added up."""
    digits = np.floor(np.log10(np.abs(adds)))
    shown = np.round(adds / 10.0**digits, 9) * np.sign(adds) + digits
    mixed = (shown.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - HASH_BITS)
    return (units.astype(np.uint32) << np.uint32(HASH_BITS)) | mixed.astype(np.uint32)


def differing(one: Keys, other: Keys) -> int:
    """[sample units] of which two cells hold something else."""
    return len(np.unique(np.setxor1d(one, other, assume_unique=True) >> np.uint32(HASH_BITS)))


def apart(sketches: npt.NDArray[np.uint8], sketch: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """The distances of sketches from one, none of them more than the keys that the cells do not share."""
    return np.asarray(_BITS[(sketches ^ sketch).view(np.uint16)].sum(axis=1, dtype=np.int64))


def _digest(keys: Keys) -> int:
    return int.from_bytes(hashlib.blake2b(keys.tobytes(), digest_size=8).digest())


def _sketch(keys: Keys) -> npt.NDArray[np.uint8]:
    """A bit for each bucket: whether an odd number of keys falls in it."""
    buckets = (keys * _MIX) >> np.uint32(21)
    return np.packbits((np.bincount(buckets, minlength=SKETCH_BITS) & 1).astype(np.uint8))
