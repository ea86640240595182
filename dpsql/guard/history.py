"""R3b: pairs of answers of one analyst that differ by a few people, and whose difference could be read."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.guard.answers import PastAnswers, fine_of
from dpsql.guard.cells import Cells, Keys, differences
from dpsql.guard.leaving_out import Policy
from dpsql.guard.sketches import CellPlaces, Growing, Places, Sketches
from dpsql.guard.thresholds import are_apart

Precisions = npt.NDArray[np.float64]
Load = Callable[[int, int], Keys]
"""The keys of a cell, by the charge of its statement and its place there."""
_KEYS = 2**20
"""Keys of cells that are compared at once."""
OWN = 0
"""Stands for the charge of a statement that is not charged yet."""


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
class Conflict:
    """Two answers that a few people make the difference of.

    people   [units] as declared
    earlier  the charge of the other one; None for another part of the same statement
    """

    people: int
    earlier: int | None


class History:
    """The answers of one analyst, or of everybody where no analysts are told apart.

    policy    what is few
    readable  times what one unit can move it: a difference whose noise deviates by less can be read
    load      keys of what was answered
    """

    def __init__(self, policy: Policy, readable: float, load: Load) -> None:
        self._policy, self._readable, self._load = policy, readable, load
        self._known = _Answered()

    def __len__(self) -> int:
        """Number of answers."""
        return len(self._known)

    @property
    def cells(self) -> int:
        """Number of different cells."""
        return len(self._known.sketches)

    def add(self, answers: PastAnswers) -> None:
        """Remember answers."""
        self._known.add(answers)

    def since(self, begun: int) -> PastAnswers:
        """The answers from a place on."""
        return self._known.since(begun)

    def remember(self, asked: Sequence[BlockQuestion], charge: int) -> None:
        """Remember the answers of a statement."""
        self.add(self._answers(asked, charge))

    def _answers(self, asked: Sequence[BlockQuestion], charge: int) -> PastAnswers:
        # small groups of a breakdown are suppressed: what they have in common with other small groups says nothing
        few = self._policy.k / self._policy.scale
        released = [(one.cells, _precision(one.spread), few if one.groups > 1 else 0.0) for one in asked]
        return PastAnswers.of(released, charge)

    def conflict(self, asked: Sequence[BlockQuestion]) -> Conflict | None:
        """An earlier cell, or other cell of the statement, that one of its cells differs from by few people."""
        own, known = _Answered(), self._known
        own.add(self._answers(asked, OWN))
        ends = [*accumulate(len(one.cells) for one in asked)]

        def load(charge: int, at: int) -> Keys:
            if charge != OWN:
                return self._load(charge, at)
            own_cells = asked[bisect(ends, at)].cells
            return own_cells.load(at - ends[bisect(ends, at)] + len(own_cells))

        same = known.same(own)
        precisions = own.precisions.values + np.where(same < 0, 0.0, known.precisions_at(same))
        for kind, text in enumerate(own.kinds):
            places = np.flatnonzero(own.kind.values == kind)
            for others, theirs, equal in (
                (known, known.precisions.values, same),
                (own, precisions, np.arange(len(same))),
            ):
                found = self._between(own, places, precisions, others, theirs, others.kinds.get(text, -1), load)
                found = found or self._within(own, places, precisions, others, equal)
                if found is not None:
                    return found
        return None

    def _sees_no_few(self) -> bool:
        """True if one sample unit stands for enough people: then no difference that the sample sees is few."""
        return not self._policy.is_few(1)

    def _between(
        self,
        own: _Answered,
        places: Places,
        precisions: Precisions,
        others: _Answered,
        theirs: Precisions,
        kind: int,
        load: Load,
    ) -> Conflict | None:
        """A cell of the statement and another one of a kind, whose difference is few people and could be read."""
        if self._sees_no_few():
            return None
        most = math.ceil(self._policy.k / self._policy.scale)
        variances, spreads = _variance(precisions), _variance(theirs)
        # a difference is known no more exactly than either of the two
        places = places[variances[places] < self._readable**2]
        candidates = others.sketches.among((spreads < self._readable**2) & (others.kind.values == kind))
        sizes = own.sketches.sizes.values
        ones, near = candidates.near(sizes[places], own.sketches.words.values[places], most)
        ones = places[ones]
        kept = others.digests.values[near] != own.digests.values[ones]
        if others is own:
            # each pair once
            kept &= near > ones
        kept &= variances[ones] + spreads[near] < self._readable**2
        ones, near = ones[kept], near[kept]
        largest = np.maximum(sizes[ones], others.sketches.sizes.values[near])
        for begun, end in _pieces(2 * largest):
            units = _differences(own, ones[begun:end], others, near[begun:end], load)
            few = (units > 0) & (units < largest[begun:end]) & (units * self._policy.scale < self._policy.k)
            for place in np.flatnonzero(few).tolist():
                earlier, _ = others.source(int(near[begun + place]))
                return Conflict(self._policy.people(int(units[place])), earlier or None)
        return None

    def _within(
        self, own: _Answered, places: Places, precisions: Precisions, others: _Answered, same: Places
    ) -> Conflict | None:
        """The same for a cell of the statement and one that is the same to the sample. All answers of either are taken for answers of
        each, so that the difference is taken for no less exact than it is."""
        readable = 2 * _variance(precisions) < self._readable**2
        sizes = own.sketches.sizes.values
        few = {size for size in np.unique(sizes[places]).tolist() if self._policy.is_few(size)}
        kept = places[readable[places] & (same[places] >= 0) & ~np.isin(sizes[places], list(few))]
        told, known = own.told(kept), others.told(same[kept])
        fine = {text: fine_of(text) for text in (*told.texts, *known.texts)}
        for one, other in _unlike(told, known, same):
            check()
            place, text, past = int(told.cells[one]), told.texts[told.told[one]], known.texts[known.told[other]]
            if are_apart(fine[text], fine[past], int(sizes[place])):
                return Conflict(0, int(known.charges[other]) or None)
        return None


def _pieces(sizes: Places) -> Iterator[tuple[int, int]]:
    """Runs of places whose sizes are not too much together; of one place at least."""
    ends, begun = np.cumsum(sizes), 0
    while begun < len(sizes):
        check()
        done = int(ends[begun - 1]) if begun else 0
        end = max(begun + 1, int(np.searchsorted(ends, done + _KEYS, side="right")))
        yield begun, end
        begun = end


def _differences(own: _Answered, ones: Places, others: _Answered, near: Places, load: Load) -> Places:
    """[sample units] of which cells and others hold something else."""
    (here, one), (there, other) = (np.unique(places, return_inverse=True) for places in (ones, near))
    sources = [own.source(place) for place in here.tolist()] + [others.source(place) for place in there.tolist()]
    return differences([load(*source) for source in sources], one.reshape(-1), other.reshape(-1) + len(here))


@dataclass(frozen=True, slots=True)
class _Told:
    """Texts that tell apart the answers of some cells, each once a cell, as they were first released.

    cells    the place of the cell of each
    told     its number in `texts`
    charges  by which it was released
    """

    cells: Places
    told: Places
    charges: Places
    texts: tuple[str, ...]


def _unlike(told: _Told, known: _Told, same: Places) -> list[tuple[int, int]]:
    """Pairs of a text about a cell and another one about the cell that is the same: by cells, then as the others came.

    same  by the place of a cell, that of the other one
    """
    order = np.argsort(known.cells, kind="stable")
    low, high = (np.searchsorted(known.cells[order], same[told.cells], side=side) for side in ("left", "right"))
    ones = np.repeat(np.arange(len(told.cells)), high - low)
    others = order[np.arange(len(ones)) - np.repeat(np.cumsum(high - low) - high, high - low)]
    numbers = {text: number for number, text in enumerate(dict.fromkeys((*told.texts, *known.texts)))}
    here, there = (np.array([numbers[text] for text in side.texts], dtype=np.int64) for side in (told, known))
    differs = np.flatnonzero(here[told.told[ones]] != there[known.told[others]])
    ones, others = ones[differs], others[differs]
    by = np.lexsort((ones, others, told.cells[ones]))
    return list(zip(ones[by].tolist(), others[by].tolist(), strict=True))


class _Answered:
    """The different cells of answers, and the answers themselves.

    kinds       by text, the numbers of
    kind        of each cell
    precisions  of the mean of all answers that a cell had
    first       the place of the first of these
    """

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.sketches, self.digests = Sketches(), Growing(np.uint64)
        self.kind, self.precisions, self.first = Growing(np.int32), Growing(np.float64), Growing(np.int64)
        self._places = CellPlaces()
        self._fine: dict[str, int] = {}
        self._cell, self._told, self._at = Growing(np.int32), Growing(np.int32), Growing(np.int32)
        self._charge, self._precision = Growing(np.int64), Growing(np.float64)

    def __len__(self) -> int:
        return len(self._cell)

    def add(self, found: PastAnswers) -> None:
        """Add answers, in order: the same as if they came one by one."""
        kinds = np.array([self.kinds.setdefault(kind, len(self.kinds)) for kind in found.kinds], dtype=np.int32)
        fine = np.array([self._fine.setdefault(text, len(self._fine)) for text in found.fine], dtype=np.int32)
        begun, size = len(self), len(self.sketches)
        first = np.empty(len(found.digests), dtype=np.int64)
        # of several answers of a cell the first is written last
        first[found.cell[::-1]] = np.arange(len(found.cell))[::-1]
        kind = kinds[found.kind[first]]
        salted = found.digests ^ self._salts()[kind]
        cells = self._places.add(salted)
        # places grow by one with each cell that was not there
        fresh, places = (
            np.flatnonzero(cells > np.maximum.accumulate(np.concatenate([[size - 1], cells]))[:-1]),
            cells[found.cell],
        )
        self.sketches.add(found.sizes[fresh].astype(np.int64), found.words[fresh])
        self.digests.add(found.digests[fresh])
        self.kind.add(kind[fresh])
        self.first.add(first[fresh] + begun)
        self.precisions.add(np.zeros(len(fresh)))
        np.add.at(self.precisions.values, places, found.precision)
        self._cell.add(places.astype(np.int32))
        self._told.add(fine[found.told])
        self._at.add(found.at)
        self._charge.add(found.charge)
        self._precision.add(found.precision)

    def since(self, begun: int) -> PastAnswers:
        cells, cell = np.unique(self._cell.values[begun:], return_inverse=True)
        fine, told = np.unique(self._told.values[begun:], return_inverse=True)
        texts = list(self._fine)
        return PastAnswers(
            tuple(self.kinds),
            tuple(texts[i] for i in fine.tolist()),
            self.digests.values[cells],
            self.sketches.sizes.values[cells].astype(np.uint32),
            self.sketches.words.values[cells],
            cell.astype(np.int32),
            self.kind.values[self._cell.values[begun:]],
            told.astype(np.int32),
            self._at.values[begun:],
            self._charge.values[begun:],
            self._precision.values[begun:],
        )

    def source(self, place: int) -> tuple[int, int]:
        """The charge of the statement that a cell was first released by, and its place there."""
        first = self.first.values[place]
        return int(self._charge.values[first]), int(self._at.values[first])

    def same(self, others: _Answered) -> Places:
        """The places of equal cells of the same kind; -1 for none."""
        salts = np.array([_salt(kind) for kind in others.kinds], dtype=np.uint64)
        salted = others.digests.values ^ salts[others.kind.values]
        return self._places.find(salted)

    def precisions_at(self, places: Places) -> Precisions:
        return self.precisions.values[places] if len(self.precisions) else np.zeros(len(places))

    def told(self, places: Places) -> _Told:
        """Texts that tell apart the answers of the cells at some places."""
        asked = np.zeros(len(self.sketches), dtype=np.bool_)
        asked[places] = True
        answers = np.flatnonzero(asked[self._cell.values])
        codes = self._cell.values[answers].astype(np.int64) << 32 | self._told.values[answers]
        answers = answers[np.sort(np.unique(codes, return_index=True)[1])]
        texts, told = np.unique(self._told.values[answers], return_inverse=True)
        every = list(self._fine)
        return _Told(
            self._cell.values[answers].astype(np.int64),
            told.reshape(-1),
            self._charge.values[answers],
            tuple(every[i] for i in texts.tolist()),
        )

    def _salts(self) -> npt.NDArray[np.uint64]:
        return np.array([_salt(kind) for kind in self.kinds], dtype=np.uint64)


def _salt(kind: str) -> int:
    """A number that makes equal keys of another kind another cell."""
    return int.from_bytes(hashlib.blake2b(kind.encode(), digest_size=8).digest())


def _variance(precisions: Precisions) -> Precisions:
    """Of the mean of several answers to one question, each weighted by its precision."""
    return np.asarray(np.divide(1.0, precisions, out=np.full(len(precisions), np.inf), where=precisions > 0))


def _precision(spread: float) -> float:
    return 1 / spread**2 if spread > 0 else math.inf
