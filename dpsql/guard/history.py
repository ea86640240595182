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
from dpsql.guard.regions import Region, identity, share

_ALL = np.uint64(2**64 - 1)


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

    shares  of the people, expected
    masks   for each column 64 bits that two regions share if they share a value
    wide    breakdowns into too many cells to be listed
    """

    found: list[Earlier] = field(default_factory=list)
    seen: set[object] = field(default_factory=set)
    shares: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(64))
    masks: dict[str, npt.NDArray[np.uint64]] = field(default_factory=dict)
    wide: list[tuple[Shape, Past]] = field(default_factory=list)

    def add(self, region: Region, past: Past) -> None:
        known = (identity(region), past.analyst)
        if known in self.seen:
            return
        self.seen.add(known)
        place = len(self.found)
        if place == len(self.shares):
            self.shares = np.concatenate([self.shares, np.empty(place)])
            self.masks = {key: np.concatenate([old, np.full(place, _ALL)]) for key, old in self.masks.items()}
        self.found.append(Earlier(region, past))
        self.shares[place] = share(region)
        for key, mask in _masks(region).items():
            if key not in self.masks:
                self.masks[key] = np.full(len(self.shares), _ALL)
            self.masks[key][place] = mask

    def near(self, region: Region, most: float) -> Iterator[Earlier]:
        count = len(self.found)
        places = np.nonzero(np.abs(self.shares[:count] - share(region)) < most)[0]
        for key, mask in _masks(region).items():
            if key in self.masks and len(places):
                places = places[(self.masks[key][places] & mask) != 0]
        for place in places.tolist():
            yield self.found[place]
        for shape, past in self.wide:
            for cell in shape.cell_of(region):
                yield Earlier(cell, past)


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


class History:
    """The regions of all statements so far."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, ...], _Bucket] = {}
        self.statements: list[Past] = []

    def add(self, past: Past) -> None:
        self.statements.append(past)
        for question in past.questions:
            bucket = self._buckets.setdefault(question.tables, _Bucket())
            for region in (*question.whole(), *question.parts()):
                bucket.add(region, past)
            bucket.wide += [(shape, past) for shape in question.shapes if shape.cells > MOST_CELLS]

    def add_region(self, tables: tuple[str, ...], region: Region, past: Past) -> None:
        """One region alone."""
        self._buckets.setdefault(tables, _Bucket()).add(region, past)

    def near(self, tables: tuple[str, ...], region: Region, most: float) -> Iterator[Earlier]:
        """What a region could be subtracted from, or from it, so that less than `most` of the people are left."""
        bucket = self._buckets.get(tables)
        return bucket.near(region, most) if bucket is not None else iter(())
