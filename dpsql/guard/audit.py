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
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.core.errors import Error, error
from dpsql.guard.cells import HASH_BITS, Cells, Keys
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
_ZERO, _RIDGE = 1e-3, 1e-10
Commons = npt.NDArray[np.float64]


@dataclass(slots=True)
class _Space:
    """The answers of one kind.

    cells    the latest, that are looked at, and
    gram     of every two of them the size of what they have in common
    watched  vectors of few, and
    common   of each cell with each of these
    late     cells that came since, by their statement and place there, each with its spread
    """

    policy: Policy
    cells: list[Keys] = field(default_factory=list)
    spreads: list[float] = field(default_factory=list)
    gram: Commons = field(default_factory=lambda: np.zeros((0, 0)))
    common: Commons = field(default_factory=lambda: np.zeros((0, 0)))
    watched: list[Keys] = field(default_factory=list)
    late: list[tuple[Cells, int, float]] = field(default_factory=list)

    def copy(self) -> _Space:
        return replace(self, late=list(self.late))

    def settle(self) -> None:
        """Look at what came late. Of a history that was read nothing is looked at beyond the latest answers and vectors."""
        late, every = self.late, _Overlaps(self.cells, self.late)
        seen, known = len(self.watched), len(self.cells)
        first = max(len(every) - MOST_ANSWERS, 0)
        self.watched = [*self.watched, *self._few(every)]
        gone, unwatched = min(first, known), max(len(self.watched) - MOST_WATCHED, 0)
        self.watched, seen = self.watched[unwatched:], max(seen - unwatched, 0)
        self.cells = [every.cell(place) for place in range(first, len(every))]
        self.spreads = [*self.spreads[gone:], *(spread for *_, spread in late[max(first - known, 0) :])]
        self.gram = self.gram[gone:, gone:]
        for place in range(len(self.gram), len(self.cells)):
            check()
            self.gram = _grown(self.gram, self.cells[: place + 1])
        kept = self.common[gone:, unwatched:]
        common = np.hstack([kept, _common(self.cells[: known - gone], self.watched[seen:])])
        self.common = np.vstack([common, _common(self.cells[known - gone :], self.watched)])
        self.late = []

    def _few(self, every: _Overlaps) -> list[Keys]:
        """Vectors of few that the late cells make, the last as many as are watched at least."""
        found: list[Keys] = []
        for last in range(len(every) - 1, len(self.cells) - 1, -1):
            check()
            if len(found) >= MOST_WATCHED:
                break
            first = max(last - MOST_PAIRS, 0)
            latest = [every.cell(place) for place in range(first, last + 1)]
            found = [*_few(latest, every.near(first, last), self.policy), *found]
        return found

    def exposed(self, most: float) -> Iterator[Keys]:
        """Watched vectors in the span whose number is known more exactly than `most` [units that one can move it by].

        Why  the answers are combined with weights of least size. Those of a ridge are nearly these, and are found in a fraction of the
             time; what they leave and how exact they are decides which vectors are looked at more closely
        """
        if not self.watched:
            return
        sizes = np.array([len(watched) for watched in self.watched])
        ridge = _RIDGE * max(float(np.trace(self.gram)), 1.0)
        combined = np.asarray(
            np.linalg.solve(self.gram + ridge * np.eye(len(self.gram)), self.common), dtype=np.float64
        )
        slack = np.asarray(4 * ridge * (combined**2).sum(axis=0) + 9 * _ZERO * sizes, dtype=np.float64)
        if not self._close(combined, sizes, slack, 2 * most).any():
            return
        combined = np.asarray(np.linalg.lstsq(self.gram, self.common, rcond=None)[0], dtype=np.float64)
        for place in np.flatnonzero(self._close(combined, sizes, np.zeros(len(sizes)), most)).tolist():
            yield self.watched[place]

    def _close(
        self, combined: Commons, sizes: npt.NDArray[np.int64], slack: Commons, most: float
    ) -> npt.NDArray[np.bool_]:
        """The watched vectors that combinations leave nothing of, and that they tell more exactly than `most`."""
        left = sizes - (combined * self.common).sum(axis=0)
        known = np.sqrt(((combined * np.array(self.spreads)[:, None]) ** 2).sum(axis=0))
        return np.asarray((left <= _ZERO * sizes + slack) & (known < most))


class Audit:
    """The span of everything that was released."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._spaces: dict[str, _Space] = {}

    def add(self, asked: BlockQuestion) -> None:
        self._put(self._spaces, asked)

    def check(self, asked: Sequence[BlockQuestion]) -> list[Error]:
        """R4: what a statement would expose together with all before it."""
        kinds = {kind for one in asked for kind in one.cells.kinds}
        for kind in kinds & self._spaces.keys():
            self._spaces[kind].settle()
        spaces = {kind: self._spaces[kind].copy() for kind in kinds & self._spaces.keys()}
        for one in asked:
            self._put(spaces, one)
        for kind in sorted(kinds):
            check()
            spaces[kind].settle()
            for watched in spaces[kind].exposed(SIGMA * self._policy.k):
                return [self._problem(self._policy.people(len(watched)))]
        return []

    def _put(self, spaces: dict[str, _Space], asked: BlockQuestion) -> None:
        for place, kind in enumerate(asked.cells.kinds):
            spaces.setdefault(kind, _Space(self._policy)).late.append((asked.cells, place, asked.spread))

    def _problem(self, people: int) -> Error:
        return error(
            604,
            f"rule R4: this and earlier statements together are about fewer than {self._policy.k} people "
            f"(about {people} {self._policy.source})",
            hint="use the answers that are released, or GROUP BY the columns instead",
        )


class _Overlaps:
    """Cells that are known, and late ones after them, which are loaded when they are first asked for."""

    def __init__(self, known: Sequence[Keys], late: Sequence[tuple[Cells, int, float]]) -> None:
        self._known, self._late = known, late
        self._cells: dict[int, Keys] = dict(enumerate(known))
        self._rows: dict[int, Commons] = {}

    def __len__(self) -> int:
        return len(self._known) + len(self._late)

    def cell(self, place: int) -> Keys:
        if place not in self._cells:
            cells, at, _ = self._late[place - len(self._known)]
            self._cells[place] = cells.load(at)
        return self._cells[place]

    def near(self, first: int, last: int) -> Commons:
        """Size of what every two of some cells, not too many, have in common."""
        found = np.zeros((last + 1 - first, last + 1 - first))
        for row, place in enumerate(range(first, last + 1)):
            if place not in self._rows:
                before = range(max(place - MOST_PAIRS, 0), place + 1)
                self._rows[place] = _overlaps(self.cell(place), [self.cell(one) for one in before])
            found[row, : row + 1] = found[: row + 1, row] = self._rows[place][-row - 1 :]
        return found


def _few(latest: Sequence[Keys], common: Commons, policy: Policy) -> list[Keys]:
    """Vectors of few that combinations of two with the last, or of a whole and its parts, make.

    common  of every two of them
    """
    sizes, last = np.diag(common), len(latest) - 1
    order = sorted(range(last), key=lambda place: -sizes[place])
    cell, found = latest[last], []
    for whole in [last, *(place for place in order if common[place, last] == sizes[last])]:
        parts = _parts(whole, [last, *order], common)
        if _is_few(sizes[whole] - sizes[parts].sum(), policy):
            found.append(np.setdiff1d(latest[whole], np.concatenate([cell[:0], *(latest[i] for i in parts)])))
    for place in order:
        other, both = latest[place], common[place, last]
        if _is_few(sizes[last] - both, policy):
            found.append(np.setdiff1d(cell, other, assume_unique=True))
        if _is_few(sizes[place] - both, policy):
            found.append(np.setdiff1d(other, cell, assume_unique=True))
        if _is_few(both, policy):
            found.append(np.intersect1d(cell, other, assume_unique=True))
    return found


def _parts(whole: int, others: Sequence[int], common: Commons) -> list[int]:
    """Places of disjoint parts of a whole, the first parts first."""
    sizes, parts = np.diag(common), list[int]()
    inside = (sizes < sizes[whole]) & (common[whole] == sizes)
    for other in others:
        if inside[other] and not common[other, parts].any():
            parts.append(other)
    return parts


def _is_few(size: float, policy: Policy) -> bool:
    return size > 0 and policy.is_few(int(size))


def _grown(gram: Commons, cells: Sequence[Keys]) -> Commons:
    """Commons of what every two of some cells have in common, from those of all but the last."""
    grown = np.empty((len(cells), len(cells)))
    grown[:-1, :-1] = gram
    grown[-1, :] = grown[:, -1] = _overlaps(cells[-1], cells)
    return grown


def _overlaps(cell: Keys, others: Sequence[Keys]) -> Commons:
    """Number of keys that a cell has in common with each of others."""
    held = _held(cell, max((int(keys[-1]) for keys in (cell, *others) if len(keys)), default=0))
    return np.array(
        [np.count_nonzero(held[o >> np.uint32(HASH_BITS)] == o + np.uint32(1)) for o in others], dtype=np.float64
    )


def _common(cells: Sequence[Keys], watched: Sequence[Keys]) -> Commons:
    """The same for each of some cells and each of many vectors of few, which are looked up all at once."""
    every = np.concatenate([np.zeros(0, dtype=np.uint32), *watched])
    ends = np.cumsum([0, *(len(keys) for keys in watched)])
    units, known = every >> np.uint32(HASH_BITS), every + np.uint32(1)
    last = max((int(keys[-1]) for keys in (*cells, *watched) if len(keys)), default=0)
    found = np.zeros((len(cells), len(watched)))
    for row, cell in enumerate(cells):
        check()
        same = np.cumsum(np.append(False, _held(cell, last)[units] == known), dtype=np.int64)
        found[row] = np.diff(same[ends])
    return found


def _held(cell: Keys, last: int) -> Keys:
    """By unit, up to that of the last key, one more than the key that a cell holds of it: a key may be 0, which stands for none."""
    held = np.zeros((last >> HASH_BITS) + 1, dtype=np.uint32)
    held[cell >> np.uint32(HASH_BITS)] = cell + np.uint32(1)
    return held
