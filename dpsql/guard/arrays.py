"""arrays: columns of a query over sample units -> numbers that are added up and compared."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


def places(found: Array) -> Places:
    """Sample units from 0; their stored numbers begin at 1, and may be text."""
    known = np.ma.filled(np.ma.asarray(found), 1)
    return (known if known.dtype == np.int64 else known.astype(np.float64)).astype(np.int64) - 1


def numbered(keys: Array) -> Places:
    """Numbers of groups, from 0; -1 for rows in none."""
    hidden = np.ma.getmaskarray(np.ma.asarray(keys))
    known = np.ma.filled(keys, 0)
    if not len(known) or known.max() == known.min():
        return np.where(hidden, -1, 0).astype(np.int64)
    found = np.full(len(known), -1, dtype=np.int64)
    found[~hidden] = np.unique(known[~hidden], return_inverse=True)[1].reshape(-1)
    return found


def hashed(found: Array) -> Numbers:
    """The upper 40 bits of hashes, 0 for NULL: the sums of a unit's rows are then exact, in whatever order they are added up."""
    known = np.asarray(found.data if isinstance(found, np.ma.MaskedArray) else found).astype(np.uint64)
    numbers = (known >> np.uint64(24)).astype(np.float64)
    numbers[np.ma.getmaskarray(np.ma.asarray(found))] = 0.0
    return numbers


def filled(found: Array, missing: float = 0.0) -> Numbers:
    """Numbers, with another in place of NULL."""
    if not isinstance(found, np.ma.MaskedArray):
        return np.asarray(found, dtype=np.float64)
    numbers = np.array(found.data, dtype=np.float64)
    numbers[np.ma.getmaskarray(found)] = missing
    return numbers
