"""R3b: pairs of answers of one analyst that differ by a few people, and whose difference could be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.guard.cells import MARK, Cells, Fine, Keys, Marks, differing, near
from dpsql.guard.leaving_out import Policy
from dpsql.guard.thresholds import are_apart

Precisions = npt.NDArray[np.float64]
"""One over the square of a deviation."""


@dataclass(frozen=True, slots=True)
class BlockQuestion:
    """Question that was released of one block.

    spread  deviation of the noise, over the most that one unit can move it
    people  [units] that it is about, as declared
    about   these in words
    """

    cells: Cells
    spread: float
    people: int
    groups: int = 1
    about: str = "everybody"


@dataclass(frozen=True, slots=True)
class Past:
    """A charged statement."""

    charge: int
    analyst: str
    statement: str
    asked: tuple[BlockQuestion, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two answers that a few people make the difference of.

    people   [units] as declared
    earlier  None for another part of the same statement
    """

    people: int
    earlier: Past | None


class _Kind:
    """The different cells of one kind.

    precisions  of the mean of all answers that a cell had
    sources     what it was first released by, and its place there
    fine        by the place of a cell, what tells apart its answers, each with what it was first released by
    """

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.marks: Marks = np.zeros(0, dtype=MARK)
        self.precisions: Precisions = np.zeros(0)
        self.sources: list[tuple[Past | None, Cells, int]] = []
        self.fine: dict[int, dict[Fine, Past | None]] = {}

    def add(self, marks: Marks, precisions: Sequence[float], sources: Sequence[tuple[Past | None, Cells, int]]) -> None:
        fresh: list[int] = []
        added: list[tuple[int, float]] = []
        for i, digest in enumerate(marks["digest"].tolist()):
            place = self.places.setdefault(digest, len(self.places))
            if place == len(self.sources):
                fresh.append(i)
                self.sources.append(sources[i])
            past, cells, at = sources[i]
            self.fine.setdefault(place, {}).setdefault(cells.fine[at], past)
            added.append((place, precisions[i]))
        self.marks = np.concatenate([self.marks, marks[fresh]])
        self.precisions = np.concatenate([self.precisions, np.zeros(len(fresh))])
        np.add.at(self.precisions, [place for place, _ in added], [precision for _, precision in added])

    def keys(self, place: int) -> Keys:
        _, found, at = self.sources[place]
        return found.load(at)

    def precisions_of(self, digests: npt.NDArray[np.uint64]) -> Precisions:
        """Of cells known by their digests: 0 where they were never answered."""
        places = [self.places.get(digest) for digest in digests.tolist()]
        return np.array([0.0 if place is None else self.precisions[place] for place in places])


class History:
    """The cells of one analyst, or of everybody where no analysts are told apart.

    policy    what is few
    readable  times what one unit can move it: a difference whose noise deviates by less can be read
    """

    def __init__(self, policy: Policy, readable: float) -> None:
        self._policy, self._readable = policy, readable
        self._kinds: dict[str, _Kind] = {}

    def add(self, asked: Sequence[tuple[BlockQuestion, Past | None]]) -> None:
        """Remember releases, with the statements that they are of."""
        marks = [one.cells.marks for one, _ in asked]
        by_kind: dict[str, tuple[list[int], list[float], list[tuple[Past | None, Cells, int]]]] = {}
        begun = 0
        for one, past in asked:
            precision = _precision(one.spread)
            # small groups of a breakdown are suppressed: what they have in common with other small groups says nothing
            fewest = self._policy.k / self._policy.scale if one.groups > 1 else 0
            for place in np.flatnonzero(one.cells.marks["size"] >= fewest).tolist():
                rows, precisions, sources = by_kind.setdefault(one.cells.kinds[place], ([], [], []))
                rows.append(begun + place)
                precisions.append(precision)
                sources.append((past, one.cells, place))
            begun += len(one.cells)
        every = np.concatenate(marks) if marks else np.zeros(0, dtype=MARK)
        for kind, (rows, precisions, sources) in by_kind.items():
            self._kinds.setdefault(kind, _Kind()).add(every[rows], precisions, sources)

    def conflict(self, asked: Sequence[BlockQuestion]) -> Conflict | None:
        """An earlier cell, or other cell of the statement, that one of its cells differs from by few people."""
        here = History(self._policy, self._readable)
        here.add([(one, None) for one in asked])
        for kind, own in here._kinds.items():
            known = self._kinds.get(kind, _Kind())
            precisions = own.precisions + known.precisions_of(own.marks["digest"])
            for others, theirs in ((known, known.precisions), (own, precisions)):
                found = self._between(own, precisions, others, theirs) or self._within(own, precisions, others)
                if found is not None:
                    return found
        return None

    def _between(self, own: _Kind, precisions: Precisions, others: _Kind, theirs: Precisions) -> Conflict | None:
        """A cell of the statement and another one, whose difference is few people and could be read."""
        pairs = near(own.marks, others.marks, math.ceil(self._policy.k / self._policy.scale))
        i, j = pairs[:, 0], pairs[:, 1]
        readable = _variance(precisions[i]) + _variance(theirs[j]) < self._readable**2
        keys: tuple[int, Keys] | None = None
        for one, other in pairs[readable].tolist():
            check()
            keys = (one, own.keys(one)) if keys is None or keys[0] != one else keys
            units = differing(keys[1], others.keys(other))
            most = max(int(own.marks["size"][one]), int(others.marks["size"][other]))
            if 0 < units < most and self._policy.is_few(units):
                return Conflict(self._policy.people(units), others.sources[other][0])
        return None

    def _within(self, own: _Kind, precisions: Precisions, others: _Kind) -> Conflict | None:
        """The same for a cell of the statement and one that is the same to the sample. All answers of either are taken for answers of
        each, so that the difference is taken for no less exact than it is."""
        readable = 2 * _variance(precisions) < self._readable**2
        for place, digest in enumerate(own.marks["digest"].tolist()):
            size = int(own.marks["size"][place])
            if not readable[place] or self._policy.is_few(size):
                continue
            for past_fine, past in others.fine.get(others.places.get(digest, -1), {}).items():
                if any(are_apart(one, past_fine, size) for one in own.fine[place]):
                    return Conflict(0, past)
        return None


def _variance(precisions: Precisions) -> Precisions:
    """Of the mean of several answers to one question, each weighted by its precision."""
    return np.asarray(np.divide(1.0, precisions, out=np.full(len(precisions), np.inf), where=precisions > 0))


def _precision(spread: float) -> float:
    return 1 / spread**2 if spread > 0 else math.inf
