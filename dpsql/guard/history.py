"""What was asked before, arranged so that the few questions that a new one could be subtracted from are found at once.

Two questions whose difference is about fewer than k people are expected to be about numbers of people that differ by less than k, and
to share a value in every column. Both are looked at for all regions together, before any two are compared exactly.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.guard.questions import MOST_CELLS, Question, Shape
from dpsql.guard.regions import (
    MOST_DIFFERENCE,
    NOTHING,
    ROUNDING,
    Region,
    Tangled,
    apparent,
    both,
    but_not,
    identity,
    is_everybody,
    is_unknown,
    others,
    share,
    without_void,
)
from dpsql.guard.sizes import Places, Sizes

_ALL = np.uint64(2**64 - 1)
_COLUMNS, _BOXES = " several columns", " several boxes"
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
    """An earlier region, and the statement that asked for it.

    spread  of all answers that its analyst has to it together, the standard deviation of the noise [units]
    """

    region: Region
    past: Past
    spread: float


@dataclass(slots=True)
class _Bucket:
    """The regions of questions over the same tables.

    least    of the people, the smallest share that is not narrow
    found    every region once for each analyst, with the first statement that asked for it; `seen` the places of both
    total    whether everybody was asked for
    shares   of the people, expected, and
    most     as many as there can be, where the share of a condition is not known
    unknown  whether one is not known
    apparents  of the people, how many what is known of them is expected to hold
    masks    for each column 64 bits that two regions share if they share a value
    sizes    what they have in common with another, and
    known    what is known of them has
    ordered  regions in the order of their shares, by kind
    wide     breakdowns into too many cells to be listed
    pairs    two regions that everybody is in one of, and a few people in both
    """

    least: float
    found: list[Earlier] = field(default_factory=list)
    seen: dict[object, int] = field(default_factory=dict)
    total: bool = False
    shares: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(64))
    most: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(64))
    apparents: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(64))
    unknown: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(64, dtype=bool))
    masks: dict[str, npt.NDArray[np.uint64]] = field(default_factory=dict)
    sizes: Sizes = field(default_factory=lambda: Sizes(by_extent=False))
    known: Sizes = field(default_factory=lambda: Sizes(by_extent=False))
    ordered: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    wide: list[tuple[Shape, Past, float]] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)

    def add(self, region: Region, past: Past, spread: float) -> None:
        name = identity(region), past.analyst
        before = self.seen.get(name)
        if before is not None:
            self.found[before] = replace(self.found[before], spread=together(self.found[before].spread, spread))
            return
        place = self.seen[name] = len(self.found)
        self.total = self.total or is_everybody(region)
        for other in self.completing(region, self.least):
            if common_to_all(region, other.region, self.least):
                self.pairs.append((place, self.seen[identity(other.region), other.past.analyst]))
        if place == len(self.shares):
            self.shares = np.concatenate([self.shares, np.empty(place)])
            self.most = np.concatenate([self.most, np.empty(place)])
            self.apparents = np.concatenate([self.apparents, np.empty(place)])
            self.unknown = np.concatenate([self.unknown, np.empty(place, dtype=bool)])
            self.masks = {key: np.concatenate([old, np.full(place, _ALL)]) for key, old in self.masks.items()}
        self.found.append(Earlier(region, past, spread))
        self.sizes.add(region)
        known = apparent(region)
        self.known.add(known)
        size, self.unknown[place], self.apparents[place] = share(region), is_unknown(region), share(known)
        self.shares[place], self.most[place] = size, self.apparents[place] if self.unknown[place] else size
        insort(self.ordered.setdefault(_kind(region), []), (size, place))
        for key, mask in _masks(region).items():
            if key not in self.masks:
                self.masks[key] = np.full(len(self.shares), _ALL)
            self.masks[key][place] = mask

    def completing(self, region: Region, most: float) -> Iterator[Earlier]:
        """Regions that are expected to be as large as what a region leaves of everybody, and could be that.

        Why  what a box of one column leaves of everybody is a box of that column; what one of several columns leaves is no box
        """
        kind, size = _kind(region), 1 - share(region)
        kinds = self.ordered if kind == _BOXES else {_BOXES} if kind == _COLUMNS else {kind, _BOXES}
        for other in kinds:
            listed = self.ordered.get(other, [])
            first, last = bisect_right(listed, (size - most, len(self.found))), bisect_left(listed, (size + most, -1))
            yield from (self.found[place] for _, place in listed[first:last])

    def near(self, region: Region, most: float) -> Iterator[Earlier]:
        count = len(self.found)
        own, largest = share(region), share(apparent(region))
        fits = (self.shares[:count] < largest + most) & (self.most[:count] > own - most)
        places = np.nonzero(fits)[0]
        for key, mask in _masks(region).items():
            if key in self.masks and len(places):
                places = places[(self.masks[key][places] & mask) != 0]
        if len(places):
            unknown = self.unknown[places] | is_unknown(region)
            places = np.concatenate(
                [self._known_close(places[unknown], region), self._close(places[~unknown], region, most)]
            )
        for place in places.tolist():
            check()
            yield self.found[place]
        for shape, past, spread in self.wide:
            for cell in shape.cell_of(region):
                yield Earlier(cell, past, spread)

    def _known_close(self, places: Places, region: Region) -> Places:
        """Of regions with parts of unknown size, those of which one can be inside the other, or that can be nearly equal.

        Why  where a region is inside another, what is known of it is inside what is known of that one; and two that are nearly equal
             have more in common, as far as it is known, than they are apart (tracker.py)
        """
        if not len(places):
            return places
        known = apparent(region)
        own, sizes = share(known), self.apparents[places]
        common = self.known.common(known, places) + ROUNDING
        return places[(common >= np.minimum(own, sizes)) | (3 * common >= own + sizes)]

    def _close(self, places: Places, region: Region, most: float) -> Places:
        """The regions of which less than `most` of the people can be what they differ by from another.

        Why  all but those of the larger one are in both; and one is inside the other, or they are nearly equal: apart they have no more
             than they have in common (tracker.py)
        """
        if not len(places):
            return places
        own, sizes = share(region), self.shares[places]
        common = self.sizes.common(region, places) + ROUNDING
        inside = common >= np.minimum(own, sizes)
        return places[(np.maximum(own, sizes) - common < most) & (inside | (3 * common >= own + sizes))]


def _kind(region: Region) -> str:
    """Of a region that is a box of one column that column; of others _COLUMNS or _BOXES."""
    if len(region) != 1:
        return _BOXES
    return next(iter(region[0])) if len(region[0]) == 1 else _COLUMNS


def _masks(region: Region) -> dict[str, np.uint64]:
    """For every column that all boxes of a region select by, the bits of the values that they leave."""
    if len(region) == 1:
        return {key: np.uint64(values.mask) for key, values in region[0].items()}
    keys = set(region[0]).intersection(*region[1:]) if region else set()
    found: dict[str, np.uint64] = {}
    for key in keys:
        mask = 0
        for box in region:
            mask |= box[key].mask
        found[key] = np.uint64(mask)
    return found


def common_to_all(one: Region, other: Region, least: float) -> Region:
    """What two regions have in common, where that is less than `least` of the people and everybody is in one of them.

    Why  neither is everybody by itself: a few people and the total are no pair of this kind, their sum tells nothing new
    """
    try:
        rest = without_void(others(one))
        few = without_void(both(one, other, MOST_DIFFERENCE)) if rest and without_void(others(other)) else NOTHING
        if not few or share(few) >= least or without_void(but_not(rest, other, MOST_DIFFERENCE)):
            return NOTHING
    except Tangled:
        return NOTHING
    return few


def together(one: float, other: float) -> float:
    """The noise of two answers to one question, each weighted by its exactness."""
    exactness = math.hypot(1 / one if one else math.inf, 1 / other if other else math.inf)
    return 1 / exactness if exactness else math.inf


class History:
    """The regions of all statements so far. least: of the people, the smallest share that is not narrow."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._buckets: dict[tuple[str, ...], _Bucket] = {}

    def add(self, past: Past) -> None:
        for question in past.questions:
            bucket = self._bucket(question.tables)
            for region in (*question.whole(), *question.parts()):
                bucket.add(region, past, question.spread)
            bucket.wide += [(shape, past, question.spread) for shape in question.shapes if shape.cells > MOST_CELLS]

    def add_region(self, tables: tuple[str, ...], region: Region, past: Past, spread: float) -> None:
        """One region alone."""
        self._bucket(tables).add(region, past, spread)

    def spread(self, tables: tuple[str, ...], region: Region, analyst: str) -> float:
        """The noise of the answers that an analyst has to a region; infinite where there is none."""
        bucket = self._buckets.get(tables)
        place = bucket.seen.get((identity(region), analyst)) if bucket is not None else None
        return bucket.found[place].spread if bucket is not None and place is not None else math.inf

    def _bucket(self, tables: tuple[str, ...]) -> _Bucket:
        return self._buckets.setdefault(tables, _Bucket(self._least))

    def knows_total(self, tables: tuple[str, ...]) -> bool:
        """Whether everybody was asked for, by anybody."""
        bucket = self._buckets.get(tables)
        return bucket is not None and bucket.total

    def completing(self, tables: tuple[str, ...], region: Region, most: float) -> Iterator[Earlier]:
        """What could be everybody together with a region, but for less than `most` of the people."""
        bucket = self._buckets.get(tables)
        return bucket.completing(region, most) if bucket is not None else iter(())

    def around_all(self, tables: tuple[str, ...]) -> list[tuple[Earlier, Earlier]]:
        """Pairs of regions that everybody is in one of, and a few people in both."""
        bucket = self._buckets.get(tables)
        return [(bucket.found[one], bucket.found[other]) for one, other in bucket.pairs] if bucket is not None else []

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
