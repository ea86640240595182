"""R4, of mode "audit": whether some combination of all answers together, whoever was given them, is about a few people.

Answers are vectors over the sample units: a cell is 1 where a unit adds what it adds to it, and 0 elsewhere. What can be worked out of
answers is their span. So a few people are exposed where the vector of them lies in it: the total minus all parts but one, a union minus
what it is a union of. (Chin and Ozsoyoglu's audit of sums, over sample units in place of people.)

The vectors that are watched are what two answers have in common, what one leaves of another, and what all parts of an answer leave of
it, where these are few. A vector lies in the span where its distance from it is 0: distances come from the sizes of intersections,
Gram's matrix. The noise of the answers that it is combined of says how exactly it is known; it is refused where the standard deviation
is below 10 k people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.core.errors import Error, error
from dpsql.guard.evaluating import Cell, Keys
from dpsql.guard.history import Asked
from dpsql.guard.leaving_out import Policy

MOST_ANSWERS = 400
"""Answers of one kind that a vector is combined of, the latest."""
MOST_PAIRS = 64
"""Answers that one is compared with, the latest."""
SIGMA = 10
"""Times k: a number of people that is known less exactly than this is not exposed."""
_ZERO = 1e-3


@dataclass(slots=True)
class _Space:
    """The answers of one kind, with the sizes of what each has in common with the others."""

    cells: list[Keys]
    spreads: list[float]
    gram: npt.NDArray[np.float64]

    def add(self, cell: Keys, spread: float) -> None:
        self.cells, self.spreads = [*self.cells, cell][-MOST_ANSWERS:], [*self.spreads, spread][-MOST_ANSWERS:]
        common = np.array([_common(cell, other) for other in self.cells], dtype=np.float64)
        size = len(self.cells)
        grown = np.zeros((size, size))
        kept = self.gram[-(size - 1) :, -(size - 1) :] if size > 1 else np.zeros((0, 0))
        grown[: size - 1, : size - 1] = kept
        grown[-1, :] = grown[:, -1] = common
        self.gram = grown

    def deviation(self, watched: Keys) -> float | None:
        """How exactly the number of a watched vector is known [units that one can move it by]; None where it is not in the span."""
        common = np.array([_common(watched, cell) for cell in self.cells], dtype=np.float64)
        combined = np.linalg.lstsq(self.gram, common, rcond=None)[0]
        if len(watched) - combined @ common > _ZERO * len(watched):
            return None
        return float(np.sqrt(((combined * np.array(self.spreads)) ** 2).sum()))


class Audit:
    """The span of everything that was released."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._spaces: dict[str, _Space] = {}

    def add(self, asked: Asked) -> None:
        for cell in asked.cells:
            self._space(cell.kind).add(cell.keys, asked.spread)

    def check(self, asked: Sequence[Asked]) -> list[Error]:
        """R4: what a statement would expose together with all before it."""
        spaces = {kind: _Space(list(s.cells), list(s.spreads), s.gram) for kind, s in self._spaces.items()}
        for one in asked:
            for cell in one.cells:
                space = spaces.setdefault(cell.kind, _empty())
                space.add(cell.keys, one.spread)
        for one in asked:
            for cell in one.cells:
                check()
                found = self._exposed(cell, spaces[cell.kind])
                if found is not None:
                    return [found]
        return []

    def _exposed(self, cell: Cell, space: _Space) -> Error | None:
        for watched in self._watched(cell.keys, space.cells):
            known = space.deviation(watched)
            if known is not None and known < SIGMA * self._policy.k:
                people = self._policy.people(len(watched))
                return error(
                    604,
                    f"rule R4: this and earlier statements together are about fewer than {self._policy.k} people "
                    f"(about {people} as declared)",
                    hint="use the answers that are released, or GROUP BY the columns instead",
                )
        return None

    def _watched(self, cell: Keys, others: Sequence[Keys]) -> Iterator[Keys]:
        """Vectors of few that combinations of two, or of a whole and its parts, make."""
        latest = sorted(others[-MOST_PAIRS:], key=len, reverse=True)
        for whole in (other for other in latest if _common(other, cell) == len(cell)):
            rest = _without_parts(whole, [cell, *latest])
            if len(rest) and self._policy.is_few(len(rest)):
                yield rest
        for other in latest:
            for vector in (
                np.setdiff1d(cell, other, assume_unique=True),
                np.setdiff1d(other, cell, assume_unique=True),
                np.intersect1d(cell, other, assume_unique=True),
            ):
                if len(vector) and self._policy.is_few(len(vector)):
                    yield vector

    def _space(self, kind: str) -> _Space:
        return self._spaces.setdefault(kind, _empty())


def _without_parts(whole: Keys, others: Sequence[Keys]) -> Keys:
    """What disjoint parts of a whole leave of it, the first parts first."""
    rest = whole
    for other in others:
        if len(other) < len(whole) and _common(other, rest) == len(other):
            rest = np.setdiff1d(rest, other, assume_unique=True)
    return rest


def _empty() -> _Space:
    return _Space([], [], np.zeros((0, 0)))


def _common(one: Keys, other: Keys) -> int:
    return len(np.intersect1d(one, other, assume_unique=True))
