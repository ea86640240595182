"""R3b: pairs of answers of one analyst that differ by a few people, and whose difference could be read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.guard.cells import MARK, Cells, Keys, Marks, apart, differing
from dpsql.guard.leaving_out import Policy


@dataclass(frozen=True, slots=True)
class Asked:
    """What was released of one block.

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
    asked: tuple[Asked, ...]


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
    """

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.marks: Marks = np.zeros(0, dtype=MARK)
        self.precisions: npt.NDArray[np.float64] = np.zeros(0)
        self.sources: list[tuple[Past | None, Cells, int]] = []

    def add(self, marks: Marks, precisions: Sequence[float], sources: Sequence[tuple[Past | None, Cells, int]]) -> None:
        fresh: list[int] = []
        added: list[tuple[int, float]] = []
        for i, digest in enumerate(marks["digest"].tolist()):
            place = self.places.setdefault(digest, len(self.places))
            if place == len(self.sources):
                fresh.append(i)
                self.sources.append(sources[i])
            added.append((place, precisions[i]))
        self.marks = np.concatenate([self.marks, marks[fresh]])
        self.precisions = np.concatenate([self.precisions, np.zeros(len(fresh))])
        np.add.at(self.precisions, [place for place, _ in added], [precision for _, precision in added])

    def near(self, mark: np.void, most: int, precision: float) -> list[int]:
        """The cells that differ from one, by so many sample units at most it may be, and whose answers are so precise."""
        close = np.flatnonzero(
            (self.precisions > precision)
            & (np.abs(self.marks["size"].astype(np.int64) - int(mark["size"])) <= most)
            & (self.marks["digest"] != mark["digest"])
        )
        return [int(i) for i in close[apart(self.marks["sketch"][close], mark["sketch"]) <= 2 * most]]


class History:
    """The cells of one analyst, or of everybody where no analysts are told apart.

    policy    what is few
    readable  times what one unit can move it: a difference whose noise deviates by less can be read
    """

    def __init__(self, policy: Policy, readable: float) -> None:
        self._policy, self._readable = policy, readable
        self._kinds: dict[str, _Kind] = {}

    def add(self, asked: Sequence[tuple[Asked, Past | None]]) -> None:
        """Remember releases, with the statements that they are of."""
        marks = [one.cells.marks for one, _ in asked]
        by_kind: dict[str, tuple[list[int], list[float], list[tuple[Past | None, Cells, int]]]] = {}
        begun = 0
        for one, past in asked:
            precision = _precision(one.spread)
            for place in self._compared(one):
                rows, precisions, sources = by_kind.setdefault(one.cells.kinds[place], ([], [], []))
                rows.append(begun + place)
                precisions.append(precision)
                sources.append((past, one.cells, place))
            begun += len(one.cells)
        every = np.concatenate(marks) if marks else np.zeros(0, dtype=MARK)
        for kind, (rows, precisions, sources) in by_kind.items():
            self._kinds.setdefault(kind, _Kind()).add(every[rows], precisions, sources)

    def conflict(self, asked: Sequence[Asked]) -> Conflict | None:
        """The first earlier cell, or other cell of the statement, that one of its cells differs from by few people."""
        here = History(self._policy, self._readable)
        for one in asked:
            for place in self._compared(one):
                check()
                found = self._with(one, place) or here._with(one, place)
                if found is not None:
                    return found
                here.add([(replace(one, cells=_only(one.cells, place)), None)])
        return None

    def _compared(self, asked: Asked) -> Iterable[int]:
        """The cells that may be half of a pair: small groups of a breakdown are suppressed by their noisy number, and what they have in
        common with other small groups says nothing."""
        if asked.groups == 1:
            return range(len(asked.cells))
        fewest = self._policy.k / self._policy.scale
        return [int(i) for i in np.flatnonzero(asked.cells.marks["size"] >= fewest)]

    def _with(self, asked: Asked, place: int) -> Conflict | None:
        kind = self._kinds.get(asked.cells.kinds[place])
        if kind is None:
            return None
        mark = asked.cells.marks[place]
        known = kind.places.get(int(mark["digest"]))
        own = _precision(asked.spread) + (kind.precisions[known] if known is not None else 0.0)
        least = self._readable**2 - _variance(own)
        if least <= 0:
            # whatever the difference is, it cannot be read
            return None
        keys: Keys | None = None
        for i in kind.near(mark, math.ceil(self._policy.k / self._policy.scale), 1 / least):
            past, others, at = kind.sources[i]
            keys = asked.cells.load(place) if keys is None else keys
            units, other = differing(keys, others.load(at)), int(kind.marks["size"][i])
            if 0 < units < max(int(mark["size"]), other) and self._policy.is_few(units):
                return Conflict(self._policy.people(units), past)
        return None


def _only(found: Cells, place: int) -> Cells:
    return Cells(found.kinds[place : place + 1], found.marks[place : place + 1], lambda _: found.load(place))


def _variance(precision: float) -> float:
    """Of the mean of several answers to one question, each weighted by its precision."""
    return 1 / precision if precision > 0 else math.inf


def _precision(spread: float) -> float:
    return 1 / spread**2 if spread > 0 else math.inf
