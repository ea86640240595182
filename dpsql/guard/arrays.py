"""arrays: columns of a query over sample units -> numbers that are added up for each unit in each group, and compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Counts = Literal["value", "known", "unlike 0"]
"""Number that a value adds: itself, or 1 where it is known, or known and not 0."""


@dataclass(frozen=True, slots=True)
class RowSums:
    """RowSums that are added up for each unit in each group.

    many    [rows]
    order   the places of rows by their groups, and by their units in each; None where they come so
    starts  of the rows of a unit in a group, in that order; None where each has one
    units   of these rows, and
    groups
    """

    many: int
    order: Places | None
    starts: Places | None
    units: Places
    groups: Places

    @staticmethod
    def of(units: Places, groups: Places | None) -> RowSums:
        """RowSums of some units, in some groups; in one, where none are given."""
        groups = groups if groups is not None else np.zeros(len(units), dtype=np.int64)
        order = _in_order(units, groups)
        if order is not None:
            units, groups = units[order], groups[order]
        begins = np.ones(len(units), dtype=np.bool_)
        begins[1:] = (units[1:] != units[:-1]) | (groups[1:] != groups[:-1])
        if begins.all():
            return RowSums(len(units), order, None, units, groups)
        starts = np.flatnonzero(begins)
        return RowSums(len(units), order, starts, units[starts], groups[starts])

    def added(self, found: Numbers | None) -> Numbers:
        """Sums of what each row adds; of 1 each where nothing is given."""
        if found is None and self.starts is not None:
            return np.diff(self.starts, append=self.many).astype(np.float64)
        if found is None:
            return np.ones(self.many)
        ordered = found if self.order is None else found[self.order]
        return ordered if self.starts is None else np.asarray(np.add.reduceat(ordered, self.starts))


def places(found: Array) -> Places:
    """Sample units from 0; their stored numbers begin at 1, and may be text."""
    known = found.filled(1) if isinstance(found, np.ma.MaskedArray) else found
    return (known if known.dtype == np.int64 else known.astype(np.float64)).astype(np.int64) - 1


def numbered(keys: Array) -> Places:
    """Numbers of groups by the order of their hashes, from 0; -1 for rows in none."""
    hidden = np.ma.getmaskarray(np.ma.asarray(keys))
    known = np.ascontiguousarray(np.ma.getdata(keys)[~hidden] if hidden.any() else np.ma.getdata(keys))
    found = np.full(len(hidden), -1, dtype=np.int64)
    if len(known) and known.max() == known.min():
        found[~hidden] = 0
    elif len(known):
        found[~hidden] = np.unique(known, return_inverse=True)[1].reshape(-1)
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


def added_by(of: Counts, column: Array | None) -> Numbers | None:
    """Numbers that rows add; None for 1 each."""
    if column is None:
        return None
    if of == "value":
        return filled(column)
    hidden = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    if of == "known":
        return np.asarray(~hidden, dtype=np.float64) if hidden is not None else None
    return np.asarray(filled(column) != 0, dtype=np.float64)


def _in_order(units: Places, groups: Places) -> Places | None:
    """The places of rows by their groups, and by their units in each; None where they come so. Most come in the order of units."""
    if (units[1:] < units[:-1]).any():
        return np.lexsort((units, groups))
    if not len(groups) or groups.max() == groups.min():
        return None
    # numbers of one or two bytes are put in order by these; -1 is there too
    return np.argsort(groups.astype(np.min_scalar_type(-1 - int(groups.max()))), kind="stable")


def counted(starts: Places, met: Bools) -> Places:
    """The rows of each group that meet something."""
    if not len(starts):
        return starts
    return np.asarray(np.add.reduceat(met, starts, dtype=np.int64))


def smallest(starts: Places, met: Bools) -> int:
    """The fewest units of a group that has any; each unit has one row for each of its groups."""
    often = counted(starts, met)
    return int(often[often > 0].min()) if often.any() else 0


def distinct(units: Places) -> int:
    """Number of different sample units."""
    seen = np.zeros(int(units.max(initial=-1)) + 1, dtype=np.bool_)
    seen[units] = True
    return int(np.count_nonzero(seen))


def in_proportion(starts: Places, adds: Numbers) -> tuple[Numbers, Numbers]:
    """Numbers that units add, over the one that the first unit of their group adds: of groups where all add the same, which is not 1,
    and of those where they add different ones; 0 of the others.

    Why  twice a sum says what the sum does, to whoever halves it: what is added in the same proportions is one question. A sum of
         different numbers is none of people, though most of a small group may have the same
    """
    places = np.flatnonzero((adds != 0) & np.isfinite(adds))
    groups, at = np.unique(np.searchsorted(starts, places, "right") - 1, return_index=True)
    firsts, sizes = np.ones(len(starts)), np.diff(starts, append=len(adds))
    firsts[groups] = adds[places[at]]
    every = np.repeat(firsts, sizes)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = adds / every
    scaled[~np.isfinite(scaled)] = 0
    differ = np.repeat(counted(starts, (scaled != 0) & (scaled != 1)) > 0, sizes)
    return np.where(differ | (every == 1), 0.0, scaled), np.where(differ, scaled, 0.0)
