"""What was asked before, arranged so that the few questions that a new one could be subtracted from are found at once.

Two questions whose difference is about fewer than k people are expected to be about numbers of people that differ by less than k, and
to share a value in every column. Both are looked at for all regions together, before any two are compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dpsql.guard.questions import MOST_CELLS, Question, Shape
from dpsql.guard.regions import (
    MOST_DIFFERENCE,
    NOTHING,
    Region,
    Tangled,
    apparent,
    both,
    but_not,
    identity,
    others,
    share,
    without_void,
)

_ALL = np.uint64(2**64 - 1)
_COLUMNS, _BOXES = -1, -2
"""Kinds of regions: one box of several columns, or of none; several boxes."""


@dataclass(frozen=True, slots=True)
class Past:
    """A statement that was answered: its place in the ledger, who asked, and what."""

    charge: int
    analyst: str
    statement: str
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier region, and the statement that asked for it."""

    region: Region
    past: Past


@dataclass(slots=True)
class _Bucket:
    """The regions of questions over the same tables.

    shares  of the people, expected, and
    most    as many as there can be, where the share of a condition is not known
    masks   for each column 64 bits that two regions share if they share a value
    chooses for each column whether regions select by it
    kinds   of a region that is a box of one column that column's number in `columns`, of others _COLUMNS or _BOXES
    wide    breakdowns into too many cells to be listed
    pairs   two regions that everybody is in one of, and a few people in both
    """

    least: float
    found: list[Earlier] = field(default_factory=list)
    seen: set[object] = field(default_factory=set)
    known: set[object] = field(default_factory=set)
    shares: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(64))
    most: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(64))
    masks: dict[str, npt.NDArray[np.uint64]] = field(default_factory=dict)
    chooses: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    kinds: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(64, dtype=np.int64))
    columns: dict[str, int] = field(default_factory=dict)
    wide: list[tuple[Shape, Past]] = field(default_factory=list)
    pairs: list[tuple[Region, Earlier]] = field(default_factory=list)

    def add(self, region: Region, past: Past) -> None:
        known = (identity(region), past.analyst)
        if known in self.seen:
            return
        self.seen.add(known)
        self.known.add(known[0])
        place = len(self.found)
        for other in self.completing(region, self.least):
            if common_to_all(region, other.region, self.least):
                self.pairs.append((region, Earlier(other.region, past)))
        if place == len(self.shares):
            self.shares = np.concatenate([self.shares, np.empty(place)])
            self.most = np.concatenate([self.most, np.empty(place)])
            self.kinds = np.concatenate([self.kinds, np.empty(place, dtype=np.int64)])
            self.masks = {key: np.concatenate([old, np.full(place, _ALL)]) for key, old in self.masks.items()}
            self.chooses = {key: np.pad(old, (0, place)) for key, old in self.chooses.items()}
        self.found.append(Earlier(region, past))
        self.shares[place], self.kinds[place] = share(region), self._kind(region)
        self.most[place] = share(apparent(region))
        for key, mask in _masks(region).items():
            if key not in self.masks:
                self.masks[key] = np.full(len(self.shares), _ALL)
            self.masks[key][place] = mask
        for key in {key for box in region for key in box}:
            if key not in self.chooses:
                self.chooses[key] = np.zeros(len(self.shares), dtype=bool)
            self.chooses[key][place] = True

    def _kind(self, region: Region) -> int:
        if len(region) != 1:
            return _BOXES
        if len(region[0]) != 1:
            return _COLUMNS
        return self.columns.setdefault(next(iter(region[0])), len(self.columns))

    def completing(self, region: Region, most: float) -> Iterator[Earlier]:
        """Regions that are expected to be as large as what a region leaves of everybody, and could be that.

        Why  what a box of one column leaves of everybody is a box of that column; what one of several columns leaves is no box
        """
        count, kind = len(self.found), self._kind(region)
        fits = np.abs(self.shares[:count] - (1 - share(region))) < most
        if kind != _BOXES:
            kinds = self.kinds[:count]
            fits &= (kinds == _BOXES) | ((kinds == kind) & (kind != _COLUMNS))
        places = np.nonzero(fits)[0]
        return (self.found[place] for place in places.tolist())

    def near(self, region: Region, most: float) -> Iterator[Earlier]:
        count = len(self.found)
        fits = (self.shares[:count] < share(apparent(region)) + most) & (self.most[:count] > share(region) - most)
        places = np.nonzero(fits)[0]
        for key, mask in _masks(region).items():
            if key in self.masks and len(places):
                places = places[(self.masks[key][places] & mask) != 0]
        for place in self._overlapping(places, region).tolist():
            yield self.found[place]
        for shape, past in self.wide:
            for cell in shape.cell_of(region):
                yield Earlier(cell, past)

    def _overlapping(self, places: npt.NDArray[np.int64], region: Region) -> npt.NDArray[np.int64]:
        """Those that can have two thirds of the people of the smaller one in common with a region.

        Why  where one is inside the other they have all of those in common, and two that are nearly equal (tracker.py) a third of the
             people of both together. A box that does not select by a column has in every value of it its share of the people
        """
        size = share(region)
        if len(region) != 1 or not len(places) or any(v.axis.opaque for v in region[0].values()):
            return places
        most = self.most[places].copy()
        for key, values in region[0].items():
            chosen = self.chooses.get(key)
            free = ~chosen[places] if chosen is not None else np.ones(len(places), dtype=bool)
            most[free] *= values.share
        known = self.most[places] == self.shares[places]
        enough = np.minimum(self.shares[places], size) * 2 / 3 - 1e-12
        kept: npt.NDArray[np.int64] = places[~known | (most >= enough)]
        return kept


def _masks(region: Region) -> dict[str, np.uint64]:
    """For every column that all boxes of a region select by, the bits of the values that they leave."""
    keys = set(region[0]).intersection(*region[1:]) if region else set()
    found: dict[str, np.uint64] = {}
    for key in keys:
        mask = 0
        for box in region:
            mask |= box[key].mask
        found[key] = np.uint64(mask)
    return found


def common_to_all(one: Region, other: Region, least: float) -> Region:
    """What two regions have in common, where that is less than `least` of the people and everybody is in one of them."""
    try:
        few = without_void(both(one, other, MOST_DIFFERENCE))
        if not few or share(few) >= least or without_void(but_not(others(one), other, MOST_DIFFERENCE)):
            return NOTHING
    except Tangled:
        return NOTHING
    return few


class History:
    """The regions of all statements so far. least: of the people, the smallest share that is not narrow."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._buckets: dict[tuple[str, ...], _Bucket] = {}
        self.statements: list[Past] = []

    def add(self, past: Past) -> None:
        self.statements.append(past)
        for question in past.questions:
            bucket = self._bucket(question.tables)
            for region in (*question.whole(), *question.parts()):
                bucket.add(region, past)
            bucket.wide += [(shape, past) for shape in question.shapes if shape.cells > MOST_CELLS]

    def add_region(self, tables: tuple[str, ...], region: Region, past: Past) -> None:
        """One region alone."""
        self._bucket(tables).add(region, past)

    def _bucket(self, tables: tuple[str, ...]) -> _Bucket:
        return self._buckets.setdefault(tables, _Bucket(self._least))

    def knows(self, tables: tuple[str, ...], region: Region) -> bool:
        """Whether a region was asked for, by anybody."""
        bucket = self._buckets.get(tables)
        return bucket is not None and identity(region) in bucket.known

    def completing(self, tables: tuple[str, ...], region: Region, most: float) -> Iterator[Earlier]:
        """What could be everybody together with a region, but for less than `most` of the people."""
        bucket = self._buckets.get(tables)
        return bucket.completing(region, most) if bucket is not None else iter(())

    def around_all(self, tables: tuple[str, ...]) -> list[tuple[Region, Earlier]]:
        """Pairs of regions that everybody is in one of, and a few people in both."""
        bucket = self._buckets.get(tables)
        return list(bucket.pairs) if bucket is not None else []

    def near(self, tables: tuple[str, ...], region: Region, most: float) -> Iterator[Earlier]:
        """What a region could be subtracted from, or from it, so that less than `most` of the people are left."""
        bucket = self._buckets.get(tables)
        return bucket.near(region, most) if bucket is not None else iter(())

    def inside(self, tables: tuple[str, ...], shape: Shape, most: float) -> Iterator[tuple[Region, Earlier]]:
        """The cells of a breakdown into many that earlier regions are in, beside those."""
        bucket = self._buckets.get(tables)
        if bucket is None or shape.cells <= MOST_CELLS:
            return
        smallest, largest = shape.cell_shares()
        count = len(bucket.found)
        fits = (bucket.shares[:count] < largest + most) & (bucket.most[:count] > smallest - most)
        for place in np.nonzero(fits)[0].tolist():
            for cell in shape.cell_of(bucket.found[place].region):
                yield cell, bucket.found[place]
