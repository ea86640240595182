"""R4, of mode "audit": whether some combination of all answers together is about a few people.

Answers are vectors of a space: the region R is the function that is 1 in R and 0 elsewhere. What can be worked out of answers is
their span. So a few people are exposed where the function of their region lies in it: the total minus all parts but one, a union
minus what it is a union of, a suppressed cell as what the other cells leave. (Chin and Ozsoyoglu's audit of sums, over regions in
place of people.)

The regions that are watched are the narrow ones among what two answers have in common, what one leaves of another, and what all parts
inside an answer leave of it; and the cells of a statement that a small number of people suppresses (R2), together. Under an extent
that is 0 for what is void alone, a function lies in a span where its distance from it is 0. Distances come from the extents
of intersections alone: Gram's matrix, of whose Cholesky factor the inverse grows by the rows of every question.

Where a watched region is in the span, the noise of the answers that it is combined of says how exactly it is known. It is refused
where the standard deviation is below 10 k people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsql.core.errors import Error, error
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
    extent,
    identity,
    or_nothing,
    share,
    without_void,
)
from dpsql.guard.sizes import Floats, Places, Sizes
from dpsql.guard.tracker import Policy

MOST_ANSWERS = 2_000
"""Of one space; later ones are compared in pairs alone."""
MOST_WATCHED = 2_000
"""Regions of one space; later ones are not watched."""
MOST_PAIRS = 128
"""Pairs of an answer of one question and an earlier one, the latest first, whose combinations are watched."""
MOST_WHOLES = 64
"""Answers that those of one question are parts of, the largest first, and whose parts are added up."""
MOST_PARTS = 64
"""Answers that are added up to one."""
MOST_MET = 512
"""Pairs of parts of which is looked up, for one question, whether what they have in common is known."""
DEPENDENT = 1e-10
"""An extent that is nothing but rounding."""
INSIDE = 1e-5
"""Of the extent of a watched region: what lies outside of the span of one that is in it, for rounding."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """What there was of a space: how many answers, directions and watched regions, and the numbers that change."""

    answers: int
    basis: int
    watched: int
    rest: Floats
    spreads: Floats
    sizes: tuple[tuple[int, int, list[int]], ...]


class _Space:
    """The answers about the same tables, and what must not be in their span.

    answers   in their order, with `shares` and `extents`
    within    [i, j] whether answer i is inside answer j, and
    apart     whether they have nobody in common
    watched   regions that must not be in the span
    """

    def __init__(self) -> None:
        self.answers: list[Region] = []
        self.watched: list[Region] = []
        self.shares = self.extents = self._spreads = np.zeros(0)
        self.within = np.zeros((64, 64), dtype=bool)
        self.apart = np.zeros((64, 64), dtype=bool)
        self._seen: dict[object, int] = {}
        self._known: set[object] = set()
        self._extents, self._shared, self._of_watched = Sizes(True), Sizes(False), Sizes(True)
        # which answers are a basis of all; of the Cholesky factor of their extents the inverse; and of every watched region what
        # lies in each direction, how large it is, and what of it lies in none
        self._basis: list[int] = []
        self._inverse = np.zeros((64, 64))
        self._inside = np.zeros((64, 64))
        self._sizes = self._rest = np.zeros(0)

    def mark(self) -> _Mark:
        sizes = tuple(each.mark() for each in (self._extents, self._shared, self._of_watched))
        counts = len(self.answers), len(self._basis), len(self.watched)
        return _Mark(*counts, self._rest.copy(), self._spreads.copy(), sizes)

    def back_to(self, mark: _Mark) -> None:
        """Forget what came after a mark."""
        for region in self.answers[mark.answers :]:
            del self._seen[identity(region)]
        for region in self.watched[mark.watched :]:
            self._known.discard(identity(region))
        del self.answers[mark.answers :], self.watched[mark.watched :], self._basis[mark.basis :]
        self.shares, self.extents = self.shares[: mark.answers], self.extents[: mark.answers]
        self._spreads, self._rest, self._sizes = mark.spreads, mark.rest, self._sizes[: mark.watched]
        for sizes, before in zip((self._extents, self._shared, self._of_watched), mark.sizes, strict=True):
            sizes.back_to(before)

    def common(self, regions: Sequence[Region]) -> tuple[Floats, Floats]:
        """The extent, and the share, of what some regions have in common with every answer: a row for each region."""
        return _rows(self._extents, regions), _rows(self._shared, regions)

    def place(self, region: Region) -> int | None:
        """Which answer a region is."""
        return self._seen.get(identity(region))

    def add(self, regions: Sequence[Region], spread: float) -> list[int]:
        """More answers; the places of those that were not there. spread: the standard deviation of their noise [people]."""
        before, fresh = len(self.answers), []
        for region in regions:
            known = self._seen.get(identity(region))
            if known is not None:
                # two answers to one question, each weighted by its exactness
                exactness = math.hypot(1 / self._spreads[known], 1 / spread)
                self._spreads[known] = 1 / exactness if exactness else math.inf
            elif len(self.answers) < MOST_ANSWERS:
                self._seen[identity(region)] = len(self.answers)
                self.answers.append(region)
                self._extents.add(region)
                self._shared.add(region)
                fresh.append(region)
        if not fresh:
            return []
        count = len(self.answers)
        self.shares = np.append(self.shares, [share(region) for region in fresh])
        self.extents = np.append(self.extents, [extent(region) for region in fresh])
        self._spreads = np.append(self._spreads, [spread] * len(fresh))
        common = _rows(self._extents, fresh)
        self.within, self.apart = _room(self.within, count, count), _room(self.apart, count, count)
        self.within[before:count, :count] = self.extents[before:, None] - common <= DEPENDENT
        self.within[:before, before:count] = (self.extents[None, :before] - common[:, :before] <= DEPENDENT).T
        self.apart[before:count, :count] = common <= DEPENDENT
        self.apart[:before, before:count] = common[:, :before].T <= DEPENDENT
        self._span(common, before)
        return list(range(before, count))

    def _span(self, common: Floats, before: int) -> None:
        """More directions: those of the answers from `before` on that are not combinations of others.

        common  what they have in common with all answers
        """
        size, count = len(self._basis), len(self.watched)
        rows = common[:, self._basis] @ self._inverse[:size, :size].T
        left = common[:, before:] - rows @ rows.T
        inverse, chosen = _independent(left)
        if not chosen:
            return
        wide = size + len(chosen)
        self._inverse, self._inside = _room(self._inverse, wide, wide), _room(self._inside, count, wide)
        self._inverse[:size, size:wide] = 0
        self._inverse[size:wide, :size] = -inverse @ (rows[chosen] @ self._inverse[:size, :size])
        self._inverse[size:wide, size:wide] = inverse
        if count:
            shared = _rows(self._of_watched, [self.answers[before + i] for i in chosen]).T
            along = (shared - self._inside[:count, :size] @ rows[chosen].T) @ inverse.T
            self._inside[:count, size:wide] = along
            self._rest = self._rest - (along**2).sum(axis=1)
        self._basis += [before + i for i in chosen]

    def watch(self, regions: Sequence[Region]) -> None:
        """More regions that must not be exposed."""
        before, fresh = len(self.watched), []
        for region in regions:
            name = identity(region)
            if name in self._known or name in self._seen or extent(region) <= DEPENDENT:
                continue
            if len(self.watched) < MOST_WATCHED:
                self._known.add(name)
                self.watched.append(region)
                self._of_watched.add(region)
                fresh.append(region)
        if not fresh:
            return
        size, count = len(self._basis), len(self.watched)
        rows = _rows(self._extents, fresh)[:, self._basis] @ self._inverse[:size, :size].T
        self._inside = _room(self._inside, count, size)
        self._inside[before:count, :size] = rows
        sizes = np.array([extent(region) for region in fresh])
        self._sizes = np.append(self._sizes, sizes)
        self._rest = np.append(self._rest, sizes - (rows**2).sum(axis=1))

    def exposed(self) -> list[int]:
        """The places of the watched regions in the span; not those that are an answer themselves."""
        places = np.nonzero(self._rest <= INSIDE * self._sizes)[0].tolist()
        return [place for place in places if identity(self.watched[place]) not in self._seen]

    def exactness(self, places: Sequence[int]) -> Floats:
        """Of watched regions in the span, the standard deviation of what they are combined to [people]."""
        size = len(self._basis)
        weights = self._inside[places, :size] @ self._inverse[:size, :size]
        return np.asarray(np.sqrt(weights**2 @ self._spreads[self._basis] ** 2))


def _rows(sizes: Sizes, regions: Sequence[Region]) -> Floats:
    if not regions:
        return np.zeros((0, sizes.count))
    return np.array([sizes.common(region) for region in regions])


def _room(array: npt.NDArray[Any], height: int, width: int) -> npt.NDArray[Any]:
    """The array, with room for so many rows and columns."""
    rows, columns = array.shape
    more = [
        (0, max(2 * size, needed) - size if needed > size else 0) for size, needed in ((rows, height), (columns, width))
    ]
    return np.pad(array, more) if any(after for _, after in more) else array


def _independent(products: Floats) -> tuple[Floats, list[int]]:
    """Of vectors, by their inner products, those that are no combination of the ones before; the inverse of their Cholesky factor."""
    inverse, chosen = np.zeros_like(products), list[int]()
    for i in range(len(products)):
        size = len(chosen)
        row = inverse[:size, :size] @ products[i, chosen]
        left = products[i, i] - row @ row
        if left > DEPENDENT:
            length = math.sqrt(left)
            inverse[size, :size] = -(row @ inverse[:size, :size]) / length
            inverse[size, size] = 1 / length
            chosen.append(i)
    return inverse[: len(chosen), : len(chosen)], chosen


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
                before = set(space.exposed())
                self._grow(space, question)
                new = [place for place in space.exposed() if place not in before]
                for place, spread in zip(new, space.exactness(new).tolist(), strict=True):
                    if spread < self._policy.exposed:
                        return [self._problem(space.watched[place], spread, self._analysts <= {analyst})]
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
                with suppress(Tangled):
                    together = either(together, cell, MOST_DIFFERENCE)
            space.watch([*small, together])
        answered = large if small and large else cells
        space.watch(list(self._between(space, answered)))
        space.add(answered, question.spread)
        space.watch(list(self._left_over(space, answered)))

    def _between(self, space: _Space, answers: Sequence[Region]) -> Iterator[Region]:
        """What is narrow of what new answers have in common with earlier ones, and of what one leaves of the other."""
        if not answers or not space.answers:
            return
        extents, shares = space.common(answers)
        own, size = (np.array([of(answer) for answer in answers])[:, None] for of in (extent, share))
        met = extents > DEPENDENT
        kinds: list[tuple[npt.NDArray[np.bool_], Callable[[Region, Region], Region]]] = [
            (shares < self._policy.least, _both),
            ((size - shares < self._policy.least) & (own - extents > DEPENDENT), _but_not),
            (
                (space.shares - shares < self._policy.least) & (space.extents - extents > DEPENDENT),
                lambda a, b: _but_not(b, a),
            ),
        ]
        left = MOST_PAIRS
        for few, combined in kinds:
            # the latest of the earlier ones first
            earlier, new = np.nonzero((few & met).T[::-1])
            for i, j in list(zip(new.tolist(), (len(space.answers) - 1 - earlier).tolist(), strict=True))[:left]:
                found = combined(answers[i], space.answers[j])
                if found and share(found) < self._policy.least:
                    yield found
            left -= min(left, len(new))

    def _left_over(self, space: _Space, answers: Sequence[Region]) -> Iterator[Region]:
        """What is narrow of what the parts of an answer leave of it: of the new ones, and of those that they are parts of."""
        new = [place for answer in answers if (place := space.place(answer)) is not None]
        count, least = len(space.answers), self._policy.least
        around = space.within[new, :count].any(axis=0)
        parts = space.within[:count, :count] & (space.shares[:, None] < space.shares)
        wholes = np.nonzero(around & (space.shares @ parts >= space.shares - least))[0]
        orders = np.arange(count)[::-1], np.argsort(-space.shares, kind="stable")
        adding = _Adding(space, set(new))
        for whole in sorted(wholes.tolist(), key=lambda place: -space.shares[place])[:MOST_WHOLES]:
            for order in orders:
                chosen = adding.up(order[parts[order, whole]])
                if space.shares[whole] - space.shares[chosen].sum() < least:
                    rest = space.answers[whole]
                    for part in chosen:
                        rest = _but_not(rest, space.answers[part])
                    if rest and share(rest) < least:
                        yield rest


@dataclass(slots=True)
class _Adding:
    """Adds up answers of a space that what they have in common is known of.

    new    the places of those that are new
    known  of two answers whether what they have in common is an answer
    """

    space: _Space
    new: set[int]
    known: dict[tuple[int, int], bool] = field(default_factory=dict)

    def up(self, parts: Places) -> list[int]:
        """Some of the parts, those that are new first, then in their order: what has nobody in common with the ones before; then what
        has somebody in common with them that is known."""
        fresh = np.array([part in self.new for part in parts.tolist()], dtype=bool)
        chosen: list[int] = []
        for listed in (parts[fresh], parts[~fresh]):
            left = listed
            for part in chosen:
                left = left[self.space.apart[part, left]]
            while len(left) and len(chosen) < MOST_PARTS:
                chosen.append(int(left[0]))
                left = left[self.space.apart[left[0], left]]
        beside = parts[~self.space.within[parts][:, chosen].any(axis=1)]
        for part in beside.tolist()[:MOST_PARTS]:
            if len(chosen) < MOST_PARTS and all(
                self.space.apart[part, other] or self._met(part, other) for other in chosen
            ):
                chosen.append(part)
        return chosen

    def _met(self, one: int, other: int) -> bool:
        if self.space.within[other, one]:
            return True
        pair = min(one, other), max(one, other)
        if pair not in self.known:
            if len(self.known) >= MOST_MET:
                return False
            self.known[pair] = self.space.place(_both(self.space.answers[one], self.space.answers[other])) is not None
        return self.known[pair]


def _both(one: Region, other: Region) -> Region:
    return without_void(or_nothing(both, one, other, MOST_DIFFERENCE))


def _but_not(one: Region, other: Region) -> Region:
    return without_void(or_nothing(but_not, one, other, MOST_DIFFERENCE))
