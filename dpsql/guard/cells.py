"""cells: what one released statistic in one group is about, and how two of them are compared.

A cell holds a key for each sample unit that adds something to it: the unit's place, and eight bits of a hash of what it adds. Two
cells of one kind differ by the units of which they hold another key, or none. (One change in 256 has the same hash, and is not seen.)
A sketch of each cell, whose distance from another is never more than twice what they differ by, leaves few to compare exactly; equal
cells are known by their digest. So the keys of what was asked long ago are read again only where it is close.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint32]
Sketch = npt.NDArray[np.uint16]

HASH_BITS = 8
BUCKETS = 64
"""Of a sketch."""
_MIX = np.uint32(0x9E3779B1)


@dataclass(frozen=True, slots=True)
class Cell:
    """One released statistic in one group.

    kind    "adds", or what else is asked of which values: only equal kinds are compared
    size    [sample units] that add something
    digest  8 bytes: equal for equal keys
    sketch  how many keys fall in each bucket
    load    gives the keys, in order
    """

    kind: str
    size: int
    digest: int
    sketch: Sketch
    load: Callable[[], Keys]

    @property
    def keys(self) -> Keys:
        return self.load()

    def __len__(self) -> int:
        return self.size


def cell(kind: str, keys: Keys) -> Cell:
    """The cell of some keys, which are different and in order."""
    digest = int.from_bytes(hashlib.blake2b(keys.tobytes(), digest_size=8).digest())
    buckets = (keys * _MIX) >> np.uint32(26)
    return Cell(kind, len(keys), digest, np.bincount(buckets, minlength=BUCKETS).astype(np.uint16), lambda: keys)


def keyed(units: npt.NDArray[np.int64], adds: npt.NDArray[np.float64]) -> Keys:
    """The keys of sample units that add some numbers: the same in as many digits as are sure, in whatever order these were added up."""
    digits = np.floor(np.log10(np.abs(adds)))
    shown = np.round(adds / 10.0**digits, 9) * np.sign(adds) + digits
    mixed = (shown.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - HASH_BITS)
    return (units.astype(np.uint32) << np.uint32(HASH_BITS)) | mixed.astype(np.uint32)


def differing(one: Cell, other: Cell) -> int:
    """[sample units] of which two cells hold something else."""
    if one.digest == other.digest:
        return 0
    return len(np.unique(np.setxor1d(one.keys, other.keys, assume_unique=True) >> np.uint32(HASH_BITS)))
