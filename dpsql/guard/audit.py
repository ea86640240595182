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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.core.errors import Error, error
from dpsql.guard.cells import Keys
from dpsql.guard.history import BlockQuestion
from dpsql.guard.leaving_out import Policy

MOST_ANSWERS = 400
"""Answers of one kind that a vector is combined of, the latest."""
MOST_PAIRS = 64
"""Answers that one is compared with, the latest."""
MOST_WATCHED = 256
"""Vectors of one kind that are watched, the latest."""
SIGMA = 10
"""Times k: a number of people that is known less exactly than this is not exposed."""
_ZERO = 1e-3


@dataclass(slots=True)
class _Space:
    """The answers of one kind.

    gram     of every two the size of what they have in common
    watched  vectors of few that are none of what can be worked out so far
    """

    cells: list[Keys] = field(default_factory=list)
    spreads: list[float] = field(default_factory=list)
    gram: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    watched: list[Keys] = field(default_factory=list)

    def copy(self) -> _Space:
        return _Space(list(self.cells), list(self.spreads), self.gram, list(self.watched))

    def add(self, cell: Keys, spread: float, watched: Iterable[Keys]) -> None:
        self.watched = [*self.watched, *watched][-MOST_WATCHED:]
        self.cells, self.spreads = [*self.cells, cell][-MOST_ANSWERS:], [*self.spreads, spread][-MOST_ANSWERS:]
        size = len(self.cells)
        grown = np.zeros((size, size))
        grown[: size - 1, : size - 1] = self.gram[len(self.gram) - size + 1 :, len(self.gram) - size + 1 :]
        grown[-1, :] = grown[:, -1] = [_common(cell, other) for other in self.cells]
        self.gram = grown

    def exposed(self) -> Iterator[tuple[Keys, float]]:
        """Watched vectors in the span, and how exactly the number of each is known [units that one can move it by]."""
        if not self.watched:
            return
        common = np.array([[_common(w, cell) for w in self.watched] for cell in self.cells], dtype=np.float64)
        combined = np.linalg.lstsq(self.gram, common, rcond=None)[0]
        for place, watched in enumerate(self.watched):
            if len(watched) - combined[:, place] @ common[:, place] <= _ZERO * len(watched):
                yield watched, float(np.sqrt(((combined[:, place] * np.array(self.spreads)) ** 2).sum()))


class Audit:
    """The span of everything that was released."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._spaces: dict[str, _Space] = {}

    def add(self, asked: BlockQuestion) -> None:
        self._put(self._spaces, asked)

    def check(self, asked: Sequence[BlockQuestion]) -> list[Error]:
        """R4: what a statement would expose together with all before it."""
        spaces = {kind: space.copy() for kind, space in self._spaces.items()}
        for one in asked:
            self._put(spaces, one)
        for kind in {kind for one in asked for kind in one.cells.kinds}:
            check()
            for watched, known in spaces[kind].exposed():
                if known < SIGMA * self._policy.k:
                    return [self._problem(self._policy.people(len(watched)))]
        return []

    def _put(self, spaces: dict[str, _Space], asked: BlockQuestion) -> None:
        for place, kind in enumerate(asked.cells.kinds):
            space, keys = spaces.setdefault(kind, _Space()), asked.cells.load(place)
            space.add(keys, asked.spread, self._few(keys, space.cells))

    def _few(self, cell: Keys, others: Sequence[Keys]) -> Iterator[Keys]:
        """Vectors of few that combinations of two, or of a whole and its parts, make."""
        latest = sorted(others[-MOST_PAIRS:], key=len, reverse=True)
        wholes = [cell, *(other for other in latest if _common(other, cell) == len(cell))]
        found = [_without_parts(whole, [cell, *latest]) for whole in wholes]
        for other in latest:
            found += [np.setdiff1d(cell, other, assume_unique=True), np.setdiff1d(other, cell, assume_unique=True)]
            found.append(np.intersect1d(cell, other, assume_unique=True))
        yield from (vector for vector in found if len(vector) and self._policy.is_few(len(vector)))

    def _problem(self, people: int) -> Error:
        return error(
            604,
            f"rule R4: this and earlier statements together are about fewer than {self._policy.k} people "
            f"(about {people} {self._policy.source})",
            hint="use the answers that are released, or GROUP BY the columns instead",
        )


def _without_parts(whole: Keys, others: Sequence[Keys]) -> Keys:
    """Keys of a whole that are left after its disjoint parts, the first parts first."""
    rest = whole
    for other in others:
        if len(other) < len(whole) and _common(other, rest) == len(other):
            rest = np.setdiff1d(rest, other, assume_unique=True)
    return rest


def _common(one: Keys, other: Keys) -> int:
    return len(np.intersect1d(one, other, assume_unique=True))
