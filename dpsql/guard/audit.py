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

from dpsql.core.cancellation import check
from dpsql.core.errors import Error, error
from dpsql.guard.arrays import Bools, Numbers, Places
from dpsql.guard.cells import HASH_BITS, Cells, Keys
from dpsql.guard.history import BlockQuestion
from dpsql.guard.leaving_out import Policy

MOST_ANSWERS = 400
"""Answers of one kind that a vector is combined of, the latest."""
MOST_PAIRS = 64
"""Answers that one is compared with, the latest."""
MOST_WATCHED = 256
"""Vectors of one kind that are watched, the latest."""
MOST_LAYERS = 8
"""Of cells that are looked up together, those that another cell may be put to."""
SIGMA = 10
"""Times k: a number of people that is known less exactly than this is not exposed."""
_ZERO, _RIDGE = 1e-3, 1e-10


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
    gram: Numbers = field(default_factory=lambda: np.zeros((0, 0)))
    common: Numbers = field(default_factory=lambda: np.zeros((0, 0)))
    watched: list[Keys] = field(default_factory=list)
    late: list[tuple[Cells, int, float]] = field(default_factory=list)

    @property
    def told(self) -> list[tuple[int, float]]:
        """The late cells by their digests, and their spreads."""
        return [(int(cells.marks["digest"][at]), spread) for cells, at, spread in self.late]

    def settle(self) -> None:
        """Look at what came late. Of a history that was read nothing is looked at beyond the latest answers and vectors."""
        late, old = self.late, self.cells
        if not late:
            return
        first = max(len(old) + len(late) - MOST_ANSWERS, 0)
        gone, fresh = min(first, len(old)), late[max(first - len(old), 0) :]
        held, loaded = len(old) - gone, [cells.load(at) for cells, at, _ in fresh]
        cells = [*old[gone:], *loaded]
        gram = np.empty((len(cells), len(cells)))
        gram[:held, :held] = self.gram[gone:, gone:]
        gram[held:] = _overlaps(loaded, cells)
        gram[:, held:] = gram[held:].T
        found = [*self.watched, *self._few(cells, gram, first)]
        unwatched = max(len(found) - MOST_WATCHED, 0)
        seen, watched = max(len(self.watched) - unwatched, 0), found[unwatched:]
        common = np.hstack([self.common[gone:, unwatched:], _overlaps(cells[:held], watched[seen:])])
        common = np.vstack([common, _overlaps(loaded, watched)])
        # all at once: whoever was interrupted above has changed nothing
        self.spreads = [*self.spreads[gone:], *(spread for *_, spread in fresh)]
        self.cells, self.gram, self.watched, self.common, self.late = cells, gram, watched, common, []

    def _few(self, cells: Sequence[Keys], gram: Numbers, first: int) -> list[Keys]:
        """Vectors of few that the late cells make, the last as many as are watched at least.

        cells  all that are looked at now, from the place `first` on, and
        gram   of these
        """
        old = self.cells

        def cell(place: int) -> Keys:
            if place < len(old):
                return old[place]
            late, at, _ = self.late[place - len(old)]
            return late.load(at)

        found = list[Keys]()
        for last in range(len(old) + len(self.late) - 1, len(old) - 1, -1):
            check()
            if len(found) >= MOST_WATCHED:
                break
            begun = max(last - MOST_PAIRS, 0)
            if begun < first:
                first = max(last + 1 - MOST_ANSWERS, 0)
                cells = [cell(place) for place in range(first, last + 1)]
                gram = _overlaps(cells, cells)
            some = slice(begun - first, last + 1 - first)
            found = [*_few(cells[some], gram[some, some], self.policy), *found]
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

    def _close(self, combined: Numbers, sizes: Places, slack: Numbers, most: float) -> Bools:
        """The watched vectors that combinations leave nothing of, and that they tell more exactly than `most`."""
        left = sizes - (combined * self.common).sum(axis=0)
        known = np.sqrt(((combined * np.array(self.spreads)[:, None]) ** 2).sum(axis=0))
        return np.asarray((left <= _ZERO * sizes + slack) & (known < most))


class Audit:
    """The span of everything that was released."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._spaces: dict[str, _Space] = {}
        # by kind, cells that were asked about last, and the space with them
        self._tried: dict[str, tuple[list[tuple[int, float]], _Space]] = {}

    def add(self, asked: BlockQuestion) -> None:
        for place, kind in enumerate(asked.cells.kinds):
            self._spaces.setdefault(kind, _Space(self._policy)).late.append((asked.cells, place, asked.spread))

    def check(self, asked: Sequence[BlockQuestion]) -> list[Error]:
        """R4: what a statement would expose together with all before it."""
        late: dict[str, list[tuple[Cells, int, float]]] = {}
        for one in asked:
            for place, kind in enumerate(one.cells.kinds):
                late.setdefault(kind, []).append((one.cells, place, one.spread))
        for kind in sorted(late):
            check()
            space = replace(self._settled(kind), late=late[kind])
            told = space.told
            space.settle()
            self._tried[kind] = told, space
            for watched in space.exposed(SIGMA * self._policy.k):
                return [self._problem(self._policy.people(len(watched)))]
        return []

    def _settled(self, kind: str) -> _Space:
        """The answers of a kind; as they were with the last statement, where it is all that came since."""
        space = self._spaces.setdefault(kind, _Space(self._policy))
        told, tried = self._tried.pop(kind, ([], space))
        if told and told == space.told:
            self._spaces[kind] = space = tried
        space.settle()
        return space

    def _problem(self, people: int) -> Error:
        return error(
            604,
            f"rule R4: this and earlier statements together are about fewer than {self._policy.k} people "
            f"(about {people} {self._policy.source})",
            hint="use the answers that are released, or GROUP BY the columns instead",
        )


def _few(latest: Sequence[Keys], common: Numbers, policy: Policy) -> list[Keys]:
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


def _parts(whole: int, others: Sequence[int], common: Numbers) -> list[int]:
    """Places of disjoint parts of a whole, the first parts first."""
    sizes, parts = np.diag(common), list[int]()
    inside = (sizes < sizes[whole]) & (common[whole] == sizes)
    for other in others:
        if inside[other] and not common[other, parts].any():
            parts.append(other)
    return parts


def _is_few(size: float, policy: Policy) -> bool:
    return size > 0 and policy.is_few(int(size))


def _overlaps(cells: Sequence[Keys], others: Sequence[Keys]) -> Numbers:
    """Number of keys that each of some cells has in common with each of others. Cells of different units, as the groups of a breakdown
    are, are looked up together; of cells that are equal, as of a COUNT and an AVG, one is looked up."""
    (cells, ones), (others, places) = _different(cells), _different(others)
    every = np.concatenate([np.zeros(0, dtype=np.uint32), *others]) + np.uint32(1)
    units = ((every - np.uint32(1)) >> np.uint32(HASH_BITS)).astype(np.int64)
    at = np.repeat(np.arange(len(others)), [len(keys) for keys in others])
    found = np.zeros((len(cells), len(others)))
    for held, row in _layers(cells, int(units.max(initial=0))):
        check()
        same = np.flatnonzero(held[units] == every)
        met = row[units[same]] * len(others) + at[same]
        found += np.bincount(met, minlength=found.size).reshape(found.shape)
    return found[ones][:, places]


def _different(cells: Sequence[Keys]) -> tuple[list[Keys], Places]:
    """The different ones of some cells, and the place of each among them."""
    names: dict[bytes, int] = {}
    places = [names.setdefault(keys.tobytes(), len(names)) for keys in cells]
    first = dict(zip(reversed(places), reversed(cells), strict=True))
    return [first[place] for place in range(len(names))], np.array(places, dtype=np.int64)


def _layers(cells: Sequence[Keys], last: int) -> list[tuple[Keys, Places]]:
    """Cells of different units together: by unit what one of them holds, and which.

    last  the last unit that is looked up, at least
    """
    size = max([last, *(int(keys[-1]) >> HASH_BITS for keys in cells if len(keys))]) + 1
    layers: list[tuple[Keys, Places]] = []
    for place, keys in enumerate(cells):
        units = keys >> np.uint32(HASH_BITS)
        free = next((layer for layer in layers[-MOST_LAYERS:] if not layer[0][units].any()), None)
        if free is None:
            free = np.zeros(size, dtype=np.uint32), np.zeros(size, dtype=np.int64)
            layers.append(free)
        held, row = free
        held[units], row[units] = keys + np.uint32(1), place
    return layers
