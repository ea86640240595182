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
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

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
    either,
    identity,
    measure,
    share,
    without_void,
)
from dpsql.guard.tracker import Policy
from dpsql.guard.values import Values

SIGMA = 10
"""Times k: a number of people that is known less exactly than this is not exposed."""
MOST_ANSWERS = 2_000
"""Of one space; later ones are compared in pairs alone."""
MOST_WATCHED = 2_000
MOST_NEW = 64
"""Earlier answers that one new answer is combined with, one by one."""
MOST_AROUND = 16
"""Earlier answers that one new answer is a part of, and whose parts are added up."""
DEPENDENT = 1e-10
INSIDE = 1e-5


class _Sizes:
    """How much regions have in common, of one with all others at once.

    A region is a few boxes, a box a set of values in a few columns, and different sets of one column are few: so the sizes of what two
    sets have in common are worked out once for each pair of sets, and those of boxes are products of them.

    measured  whether by measure, or by share
    """

    def __init__(self, measured: bool) -> None:
        self._measured = measured
        self._owners: list[int] = []
        self._sets: dict[str, list[Values]] = {}
        self._numbers: dict[str, dict[Values, int]] = {}
        self._tables: dict[str, npt.NDArray[np.float64]] = {}
        self._boxes: dict[str, list[int]] = {}
        self.count = 0

    def add(self, region: Region) -> None:
        for box in region:
            for key, values in box.items():
                self._number(key, values)
            for key, numbers in self._boxes.items():
                numbers.append(self._number(key, box[key]) if key in box else 0)
            self._owners.append(self.count)
        self.count += 1

    def cut(self, count: int) -> None:
        """Forget all but the first regions."""
        boxes = bisect_left(self._owners, count)
        del self._owners[boxes:]
        for numbers in self._boxes.values():
            del numbers[boxes:]
        self.count = count

    def common(self, region: Region) -> npt.NDArray[np.float64]:
        """Of every region that was added, how much it has in common with this one."""
        found = np.zeros(self.count)
        owners = np.array(self._owners, dtype=np.int64)
        for box in region:
            rows = {key: self._number(key, values) for key, values in box.items()}
            size = np.ones(len(owners))
            for key, numbers in self._boxes.items():
                size *= self._tables[key][rows.get(key, 0), np.array(numbers, dtype=np.int64)]
            found += np.bincount(owners, size, self.count)
        return found

    def _number(self, key: str, values: Values) -> int:
        """Which of the sets of its column this is; 0 is all of it."""
        if key not in self._sets:
            self._sets[key], self._numbers[key] = [values.axis.whole], {values.axis.whole: 0}
            self._tables[key] = np.ones((1, 1))
            self._boxes[key] = [0] * len(self._owners)
        known = self._numbers[key].get(values)
        if known is not None:
            return known
        sets, number = self._sets[key], len(self._sets[key])
        sets.append(values)
        self._numbers[key][values] = number
        sizes = [self._size(values.both(other)) for other in sets]
        table = np.zeros((number + 1, number + 1))
        table[:number, :number] = self._tables[key]
        table[number, :], table[:, number] = sizes, sizes
        self._tables[key] = table
        return number

    def _size(self, values: Values) -> float:
        return 0.0 if values.is_empty else values.measure if self._measured else values.share


@dataclass(frozen=True, slots=True)
class _Mark:
    """What there was of a space."""

    answers: int
    watched: int
    rest: npt.NDArray[np.float64]


class _Space:
    """The answers about the same tables, and what must not be in their span.

    answers  a basis of them
    watched  regions that must not be in the span
    """

    def __init__(self) -> None:
        self.answers: list[Region] = []
        self.shares: list[float] = []
        self.watched: list[Region] = []
        self._spread: list[float] = []
        self._seen: dict[object, int] = {}
        self._known: set[object] = set()
        self._measures, self._shared, self._of_watched = _Sizes(True), _Sizes(False), _Sizes(True)
        # of the Cholesky factor of the answers' measures the inverse, and of every watched region what lies in each direction
        self._inverse = np.zeros((64, 64))
        self._inside = np.zeros((64, 64))
        self._sizes: list[float] = []
        self._rest = np.zeros(0)

    def mark(self) -> _Mark:
        return _Mark(len(self.answers), len(self.watched), self._rest.copy())

    def back_to(self, mark: _Mark) -> None:
        """Forget what came after a mark."""
        for region in self.answers[mark.answers :]:
            self._seen.pop(identity(region), None)
        for region in self.watched[mark.watched :]:
            self._known.discard(identity(region))
        for listed, count in ((self.answers, mark.answers), (self.watched, mark.watched)):
            del listed[count:]
        del self.shares[mark.answers :], self._spread[mark.answers :], self._sizes[mark.watched :]
        for sizes, count in (
            (self._measures, mark.answers),
            (self._shared, mark.answers),
            (self._of_watched, mark.watched),
        ):
            sizes.cut(count)
        self._rest = mark.rest

    def common(self, region: Region) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The measure, and the share, of what a region has in common with every answer."""
        return self._measures.common(region), self._shared.common(region)

    def add(self, region: Region, spread: float) -> None:
        """One more answer. spread: the standard deviation of its noise [people]."""
        name, size = identity(region), len(self.answers)
        if name in self._seen:
            self._spread[self._seen[name]] = min(self._spread[self._seen[name]], spread)
            return
        if size >= MOST_ANSWERS:
            return
        row = self._row(region)
        left = measure(region) - float(row @ row)
        if left <= DEPENDENT:
            return
        length = math.sqrt(left)
        self._grow(size + 1, len(self.watched))
        self._inverse[size, :size] = -(row @ self._inverse[:size, :size]) / length
        self._inverse[size, size] = 1 / length
        if self.watched:
            count = len(self.watched)
            along = (self._of_watched.common(region) - self._inside[:count, :size] @ row) / length
            self._inside[:count, size] = along
            self._rest = self._rest - along**2
        self._seen[name] = size
        self.answers.append(region)
        self.shares.append(share(region))
        self._spread.append(spread)
        self._measures.add(region)
        self._shared.add(region)

    def watch(self, region: Region) -> None:
        """One more region that must not be exposed."""
        name, size = identity(region), measure(region)
        if name in self._known or name in self._seen or len(self.watched) >= MOST_WATCHED or size <= DEPENDENT:
            return
        row = self._row(region)
        self._grow(len(self.answers), len(self.watched) + 1)
        self._inside[len(self.watched), : len(self.answers)] = row
        self._known.add(name)
        self.watched.append(region)
        self._sizes.append(size)
        self._of_watched.add(region)
        self._rest = np.append(self._rest, size - float(row @ row))

    def exposed(self) -> Iterator[tuple[Region, float]]:
        """The watched regions in the span, each with the standard deviation of what it is combined to [people]; not those that are
        an answer themselves."""
        size = len(self.answers)
        for place in np.nonzero(self._rest <= INSIDE * np.array(self._sizes))[0].tolist():
            if identity(self.watched[place]) not in self._seen:
                weights = self._inside[place, :size] @ self._inverse[:size, :size]
                yield self.watched[place], math.sqrt(float(weights**2 @ np.array(self._spread) ** 2))

    def _row(self, region: Region) -> npt.NDArray[np.float64]:
        """What of a region lies in each direction."""
        size = len(self.answers)
        return np.asarray(self._inverse[:size, :size] @ self._measures.common(region))

    def _grow(self, answers: int, watched: int) -> None:
        width, height = len(self._inverse), len(self._inside)
        if answers > width:
            self._inverse = np.pad(self._inverse, ((0, width), (0, width)))
            self._inside = np.pad(self._inside, ((0, 0), (0, width)))
        if watched > height:
            self._inside = np.pad(self._inside, ((0, height), (0, 0)))


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
        marks: list[tuple[_Space, _Mark]] = []
        try:
            for question in questions:
                space = self._spaces.setdefault(question.tables, _Space())
                marks.append((space, space.mark()))
                before = {identity(region) for region, _ in space.exposed()}
                self._grow(space, question)
                for region, spread in space.exposed():
                    if identity(region) not in before and spread < SIGMA * self._policy.guard.k:
                        return [self._problem(region, spread, self._analysts <= {analyst})]
        finally:
            for space, mark in reversed(marks):
                space.back_to(mark)
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
        if small and large:
            # what suppression hides, one by one and together
            together = NOTHING
            for cell in small:
                space.watch(cell)
                with suppress(Tangled):
                    together = either(together, cell, MOST_DIFFERENCE)
            space.watch(together)
        answered = large if small and large else cells
        before = len(space.answers)
        for cell in answered:
            self._watch_pairs(space, cell, before)
            space.add(cell, question.spread)
        for cell in answered:
            self._watch_rests(space, cell)

    def _watch_pairs(self, space: _Space, new: Region, before: int) -> None:
        """What is narrow of what a new answer has in common with an earlier one, and of what one leaves of the other."""
        least = self._policy.least
        measures, shares = (found[:before] for found in space.common(new))
        sizes = np.array(space.shares[:before])
        met = measures > DEPENDENT
        few = met & ((shares < least) | (share(new) - shares < least) | (sizes - shares < least))
        for place in np.nonzero(few)[0][:MOST_NEW].tolist():
            other = space.answers[place]
            for found in (_both(new, other), _but_not(new, other), _but_not(other, new)):
                if found and share(found) < least:
                    space.watch(found)

    def _watch_rests(self, space: _Space, new: Region) -> None:
        """What the parts of an answer leave of it: of the new one, and of those that it is a part of."""
        measures, _ = space.common(new)
        own = measure(new)
        around = np.nonzero(own - measures <= DEPENDENT)[0][:MOST_AROUND].tolist()
        for whole in [
            new,
            *(space.answers[place] for place in around if identity(space.answers[place]) != identity(new)),
        ]:
            self._watch_rest(space, whole)

    def _watch_rest(self, space: _Space, whole: Region) -> None:
        least = self._policy.least
        size, sizes = share(whole), np.array(space.shares)
        measures, _ = space.common(whole)
        inside = [measure(answer) for answer in space.answers]
        parts = np.nonzero((np.array(inside) - measures <= DEPENDENT) & (sizes < size))[0]
        if not len(parts) or float(sizes[parts].sum()) < size - least:
            return
        rest = whole
        for place in sorted(parts.tolist(), key=lambda i: -sizes[i])[:MOST_NEW]:
            rest = _but_not(rest, space.answers[place])
            if not rest:
                return
        if share(rest) < least:
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
