"""R3b: pairs of answers of one analyst that differ by a few people, and whose difference could be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.guard.cells import BUCKETS, Cell, differing
from dpsql.guard.leaving_out import Policy

_MANY = 256


@dataclass(frozen=True, slots=True)
class Asked:
    """What was released of one block.

    spread  deviation of the noise, over the most that one unit can move it
    people  [units] that it is about, as declared
    about   these in words
    """

    cells: tuple[Cell, ...]
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


@dataclass(slots=True)
class _Kind:
    """The cells of one kind, in the order in which they were released."""

    sketches: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros((_MANY, BUCKETS), dtype=np.int32))
    sizes: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_MANY, dtype=np.int64))
    cells: list[Cell] = field(default_factory=list)
    precisions: list[float] = field(default_factory=list)
    pasts: list[Past | None] = field(default_factory=list)

    def add(self, cell: Cell, spread: float, past: Past | None) -> None:
        count = len(self.cells)
        if count == len(self.sizes):
            self.sketches = np.concatenate([self.sketches, np.zeros_like(self.sketches)])
            self.sizes = np.concatenate([self.sizes, np.zeros_like(self.sizes)])
        self.sketches[count], self.sizes[count] = cell.sketch, cell.size
        self.cells.append(cell)
        self.precisions.append(_precision(spread))
        self.pasts.append(past)

    def near(self, cell: Cell, most: int) -> list[int]:
        """The cells that may differ from one by so many sample units at most."""
        close = np.flatnonzero(np.abs(self.sizes[: len(self.cells)] - cell.size) <= most)
        apart = np.abs(self.sketches[close] - cell.sketch.astype(np.int32)).sum(axis=1)
        return [int(i) for i in close[apart <= 2 * most]]


class History:
    """The cells of one analyst, or of everybody where no analysts are told apart.

    policy    what is few
    readable  times what one unit can move it: a difference whose noise deviates by less can be read
    """

    def __init__(self, policy: Policy, readable: float) -> None:
        self._policy, self._readable = policy, readable
        self._kinds: dict[str, _Kind] = {}

    def add(self, asked: Asked, past: Past | None) -> None:
        for cell in asked.cells:
            if self._is_compared(asked, cell):
                self._kinds.setdefault(cell.kind, _Kind()).add(cell, asked.spread, past)

    def conflict(self, asked: Sequence[Asked]) -> Conflict | None:
        """The first earlier cell, or other cell of the statement, that one of its cells differs from by few people."""
        here = History(self._policy, self._readable)
        for one in asked:
            for cell in one.cells:
                check()
                if self._is_compared(one, cell):
                    found = self._with(cell, one.spread) or here._with(cell, one.spread)
                    if found is not None:
                        return found
            here.add(one, None)
        return None

    def _is_compared(self, asked: Asked, cell: Cell) -> bool:
        """Whether a cell may be half of a pair: small groups of a breakdown are suppressed by their noisy number, and what they have in
        common with other small groups says nothing."""
        return asked.groups == 1 or not self._policy.is_few(len(cell))

    def _with(self, cell: Cell, spread: float) -> Conflict | None:
        kind = self._kinds.get(cell.kind)
        if kind is None:
            return None
        alike: dict[int, list[int]] = {}
        for i in kind.near(cell, math.ceil(self._policy.k / self._policy.scale)):
            alike.setdefault(kind.cells[i].digest, []).append(i)
        own = _precision(spread) + sum(kind.precisions[i] for i in alike.pop(cell.digest, ()))
        for equal in alike.values():
            other = kind.cells[equal[0]]
            units = differing(other, cell)
            if not 0 < units < max(len(cell), len(other)) or not self._policy.is_few(units):
                continue
            if _variance(own) + _variance(sum(kind.precisions[i] for i in equal)) < self._readable**2:
                return Conflict(self._policy.people(units), kind.pasts[equal[0]])
        return None


def _variance(precision: float) -> float:
    """Of the mean of several answers to one question, each weighted by its precision."""
    return 1 / precision if precision > 0 else math.inf


def _precision(spread: float) -> float:
    return 1 / spread**2 if spread > 0 else math.inf
