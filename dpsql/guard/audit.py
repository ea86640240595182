"""R4, of mode "audit": whether some combination of all answers together is about a few people.

Answers are vectors of a space: the region R is the function that is 1 in R and 0 elsewhere. What can be worked out of answers is
their span. So a few people are exposed where the function of their region lies in it: the total minus all parts but one, a union
minus what it is a union of, a suppressed cell as what the other cells leave. (Chin and Ozsoyoglu's audit of sums, over regions in
place of people.)

The regions that are watched are the narrow ones among what two answers have in common, what one leaves of another, and what all parts
inside an answer leave of it; and the cells of a statement that a small number of people suppresses (R2), together. Under a measure of
the space that is 0 for what is void alone, a function lies in a span where its distance from it is 0. Distances come from the measures
of intersections alone: Gram's matrix, of which a Cholesky factor grows by a row with every answer.

Where a watched region is in the span, the noise of the answers that it is combined of says how exactly it is known. It is refused
where the standard deviation is below SIGMA times k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dpsql.errors import Error, error
from dpsql.guard import words
from dpsql.guard.history import Past
from dpsql.guard.questions import Question
from dpsql.guard.regions import (
    MOST_DIFFERENCE,
    NOTHING,
    Region,
    Tangled,
    both,
    but_not,
    common,
    either,
    identity,
    measure,
    meet,
    share,
    within,
    without_void,
)
from dpsql.guard.tracker import Policy

SIGMA = 10
"""Times k: a number of people that is known less exactly than this is not exposed."""
MOST_ANSWERS = 4_000
"""Of one space; later ones are compared in pairs alone."""
MOST_WATCHED = 2_000
DEPENDENT = 1e-10
INSIDE = 1e-5


@dataclass(slots=True)
class _Space:
    """The answers about the same tables.

    answers   a basis of them, and
    factor    the Cholesky factor of the measures of their intersections
    spread    the standard deviation of the noise in each [people]
    watched   regions that must not be in the span
    inside    for each what of it lies in the directions so far, and
    rest      what of its measure is left
    """

    answers: list[Region] = field(default_factory=list)
    factor: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    spread: list[float] = field(default_factory=list)
    seen: dict[object, int] = field(default_factory=dict)
    watched: list[Region] = field(default_factory=list)
    known: set[object] = field(default_factory=set)
    inside: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    rest: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def copy(self) -> _Space:
        return replace(
            self,
            answers=list(self.answers),
            spread=list(self.spread),
            seen=dict(self.seen),
            watched=list(self.watched),
            known=set(self.known),
        )

    def add(self, region: Region, spread: float) -> None:
        """One more answer."""
        known = self.seen.get(identity(region))
        if known is not None:
            self.spread[known] = min(self.spread[known], spread)
            return
        if len(self.answers) >= MOST_ANSWERS:
            return
        size = len(self.answers)
        gram = np.array([common(region, other) for other in self.answers])
        row = _solved(self.factor, gram)
        left = measure(region) - float(row @ row)
        if left <= DEPENDENT:
            return
        length = math.sqrt(left)
        factor = np.zeros((size + 1, size + 1))
        factor[:size, :size] = self.factor
        factor[size, :size], factor[size, size] = row, length
        self.factor = factor
        self.seen[identity(region)] = size
        self.answers.append(region)
        self.spread.append(spread)
        if len(self.watched):
            shared = np.array([common(region, other) for other in self.watched])
            along = (shared - self.inside @ row) / length
            self.inside = np.column_stack([self.inside, along])
            self.rest = self.rest - along**2
        else:
            self.inside = np.zeros((0, size + 1))

    def watch(self, region: Region) -> None:
        """One more region that must not be exposed; not one that is an answer itself."""
        name = identity(region)
        if name in self.known or name in self.seen or len(self.watched) >= MOST_WATCHED or measure(region) <= DEPENDENT:
            return
        self.known.add(name)
        self.watched.append(region)
        row = _solved(self.factor, np.array([common(region, other) for other in self.answers]))
        self.inside = np.vstack([self.inside.reshape(len(self.watched) - 1, len(self.answers)), row])
        self.rest = np.append(self.rest, measure(region) - float(row @ row))

    def exposed(self) -> Iterator[tuple[Region, float]]:
        """The watched regions in the span, each with the standard deviation of what it is combined to [people]; not those that are
        an answer themselves."""
        sizes = np.array([measure(region) for region in self.watched])
        for place in np.nonzero(self.rest <= INSIDE * sizes)[0].tolist():
            if identity(self.watched[place]) in self.seen:
                continue
            weights = np.linalg.solve(self.factor.T, self.inside[place])
            yield self.watched[place], math.sqrt(float(weights**2 @ np.array(self.spread) ** 2))


class Audit:
    """All answers so far, and what they must not add up to."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._spaces: dict[tuple[str, ...], _Space] = {}
        self._analysts: set[str] = set()

    def add(self, past: Past) -> None:
        """What was answered."""
        self._analysts.add(past.analyst)
        for question in past.questions:
            self._grow(self._spaces.setdefault(question.tables, _Space()), question)

    def check(self, questions: Sequence[Question], analyst: str) -> list[Error]:
        """R4: what would be exposed if these were answered too."""
        tried: dict[tuple[str, ...], _Space] = {}
        for question in questions:
            space = tried.setdefault(question.tables, self._spaces.get(question.tables, _Space()).copy())
            exposed_before = {identity(region) for region, spread in space.exposed()}
            self._grow(space, question)
            for region, spread in space.exposed():
                if identity(region) not in exposed_before and spread < SIGMA * self._policy.guard.k:
                    return [self._problem(region, spread, self._analysts <= {analyst})]
        return []

    def _problem(self, region: Region, spread: float, own: bool) -> Error:
        """own: whether all answers are the caller's; of anybody else's nothing is said."""
        few = self._policy.count(share(region))
        whom = f"with {words.of_region(region)} (about {few} as declared)" if own else "in a group of a few"
        return error(
            604,
            f"rule R4: together with the answers before it, this would tell the number of people {whom} up to +-{spread:.3g}",
            hint="use the answers that are released, or ask for groups of more people",
        )

    def _grow(self, space: _Space, question: Question) -> None:
        """The answers of a question, and what is to be watched since."""
        least = self._policy.least
        cells = question.parts() or question.whole()
        small = [cell for cell in cells if share(cell) < least]
        large = [cell for cell in cells if share(cell) >= least]
        before = list(space.answers)
        if small and large:
            # what suppression hides, one by one and together
            together = NOTHING
            for cell in small:
                together = either(together, cell, MOST_DIFFERENCE)
                space.watch(cell)
            space.watch(together)
        for cell in large if small and large else cells:
            for other in before:
                if meet(cell, other):
                    self._watch_pair(space, cell, other)
            self._watch_rest(space, cell, before + large)
            space.add(cell, question.spread)

    def _watch_pair(self, space: _Space, one: Region, other: Region) -> None:
        for found in (_both(one, other), _but_not(one, other), _but_not(other, one)):
            if found and share(found) < self._policy.least:
                space.watch(found)

    def _watch_rest(self, space: _Space, new: Region, answers: Sequence[Region]) -> None:
        """What the parts of an answer leave of it: of the new one, and of those that it is a part of."""
        for whole in (new, *(a for a in answers if share(a) > share(new) and within(new, a))):
            rest: Region | None = whole
            for part in (*answers, new):
                if (
                    rest
                    and part is not whole
                    and share(part) < share(whole)
                    and meet(part, rest)
                    and within(part, whole)
                ):
                    rest = _but_not(rest, part)
            if rest and rest != whole and share(rest) < self._policy.least:
                space.watch(rest)


def _both(one: Region, other: Region) -> Region:
    try:
        return without_void(both(one, other, MOST_DIFFERENCE))
    except Tangled:
        return NOTHING


def _but_not(one: Region, other: Region) -> Region:
    try:
        return without_void(but_not(one, other, MOST_DIFFERENCE))
    except Tangled:
        return NOTHING


def _solved(factor: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """x with factor x = right, factor a lower triangle."""
    if not len(right):
        return np.zeros(0)
    return np.asarray(np.linalg.solve(factor, right))
