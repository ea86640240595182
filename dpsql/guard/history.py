"""R3b: pairs of answers of one analyst that differ by a few people, and whose difference could be read.

Many answers together are what is packed in the ledger. An answer is a function of the text of its statement and of the declarations, as
the sample units are: none of it is of the data, so it may be kept, or be made anew, and decides the same.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.guard.arrays import Bools, Numbers, Places
from dpsql.guard.cells import MARK, Cells, Fine, Keys, Marks, differences
from dpsql.guard.leaving_out import Policy
from dpsql.guard.sketches import Growing, Sketches, pieces
from dpsql.guard.thresholds import are_apart

Load = Callable[[int, int], Keys]
"""The keys of a cell, by the charge of its statement and its place there."""
_KEYS = 2**20
"""Keys of cells that are compared at once."""
_Name = TypeVar("_Name", str, int)
OWN = 0
"""Stands for the charge of a statement that is not charged yet."""
FORM = 3
"""Of what is packed."""
RELEASED = np.dtype(
    [("charge", "<i8"), ("precision", "<f8"), ("kind", "<u8"), ("cell", "<i4"), ("told", "<i4"), ("at", "<i4")]
)
"""Of one answer: the charge of its statement and its place there; one over the square of its deviation; a digest of its kind; the
numbers of its cell, and of what tells it apart from others of the cell."""


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
class PastAnswers:
    """Answers in the order in which they were released.

    fine      texts that answers have by their number
    marks     of each cell, in the order in which they first come
    released  of each answer
    """

    fine: tuple[str, ...]
    marks: Marks
    released: npt.NDArray[np.void]

    @staticmethod
    def of(asked: Sequence[BlockQuestion], charge: int, few: float) -> PastAnswers:
        """The answers of one statement, without the groups of a breakdown of fewer sample units than `few`: what is suppressed has in
        common with others of it says nothing."""
        fine: dict[Fine, int] = {}
        marks, found, begun = [np.zeros(0, dtype=MARK)], [np.zeros(0, dtype=RELEASED)], 0
        for cells, spread, groups in ((one.cells, one.spread, one.groups) for one in asked):
            kept = np.flatnonzero(cells.marks["size"] >= (few if groups > 1 else 0.0))
            own = np.zeros(len(kept), dtype=RELEASED)
            own["charge"], own["precision"], own["at"] = charge, 1 / spread**2 if spread > 0 else math.inf, kept + begun
            own["kind"] = [_digest(cells.kinds[place]) for place in kept.tolist()]
            own["told"] = _told(fine, cells.fine, kept)
            marks, found, begun = [*marks, cells.marks[kept]], [*found, own], begun + len(cells)
        every = np.concatenate(found)
        every["cell"] = np.arange(len(every))
        texts = tuple(json.dumps(one, separators=(",", ":")) for one in fine)
        return PastAnswers(texts, np.concatenate(marks), every)

    def packed(self) -> bytes:
        """A line that says what follows, then the answers and the marks."""
        head = json.dumps([self.fine, len(self.released)], separators=(",", ":")).encode()
        return head + b"\n" + self.released.tobytes() + self.marks.tobytes()

    @staticmethod
    def unpacked(body: bytes) -> PastAnswers:
        """PastAnswers as they were packed. Raises ValueError, TypeError, LookupError where the bytes are none of ours."""
        begun = body.index(b"\n") + 1
        fine, many = json.loads(body[: begun - 1])
        released = np.frombuffer(body, dtype=RELEASED, count=max(many, 0), offset=begun)
        marks = np.frombuffer(body, dtype=MARK, offset=begun + released.nbytes)
        for name, most in (("cell", len(marks)), ("told", len(fine))):
            if many and not 0 <= released[name].min() <= released[name].max() < most:
                raise ValueError("numbers of what is not there")
        return PastAnswers(tuple(map(str, fine)), marks, released)


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
        self.add(PastAnswers.of(asked, charge, self._policy.k / self._policy.scale))

    def conflict(self, asked: Sequence[BlockQuestion]) -> Conflict | None:
        """An earlier cell, or other cell of the statement, that one of its cells differs from by few people."""
        own, known = _Answered(), self._known
        own.add(PastAnswers.of(asked, OWN, self._policy.k / self._policy.scale))
        ends = [*accumulate(len(one.cells) for one in asked)]

        def load(charge: int, at: int) -> Keys:
            if charge != OWN:
                return self._load(charge, at)
            own_cells = asked[bisect(ends, at)].cells
            return own_cells.load(at - ends[bisect(ends, at)] + len(own_cells))

        same = known.same(own)
        precisions = own.precisions.values + known.precisions_at(same)
        beside = (known, known.precisions.values, same), (own, precisions, np.arange(len(same)))
        for kind in dict.fromkeys(own.kind.values.tolist()):
            places = np.flatnonzero(own.kind.values == np.uint64(kind))
            for others, theirs, equal in beside:
                found = self._between(own, places, precisions, others, theirs, load)
                found = found or self._within(own, places, precisions, others, equal)
                if found is not None:
                    return found
        return None

    def _sees_no_few(self) -> bool:
        """True if one sample unit stands for enough people: then no difference that the sample sees is few."""
        return not self._policy.is_few(1)

    def _between(
        self, own: _Answered, places: Places, precisions: Numbers, others: _Answered, theirs: Numbers, load: Load
    ) -> Conflict | None:
        """A cell of the statement, of those of one kind, and another one of it, whose difference is few people and could be read."""
        kind = own.kind.values[places[0]]
        if self._sees_no_few():
            return None
        most = math.ceil(self._policy.k / self._policy.scale)
        variances, spreads = _variance(precisions), _variance(theirs)
        # a difference is known no more exactly than either of the two
        places = places[variances[places] < self._readable**2]
        able = (spreads < self._readable**2) & (others.kind.values == kind)
        marks, known = own.sketches.marks.values, others.sketches.marks.values
        ones, near = others.sketches.near(able, marks[places], most)
        ones = places[ones]
        kept = known["digest"][near] != marks["digest"][ones]
        if others is own:
            # each pair once
            kept &= near > ones
        kept &= variances[ones] + spreads[near] < self._readable**2
        ones, near = ones[kept], near[kept]
        largest = np.maximum(marks["size"][ones], known["size"][near]).astype(np.int64)
        for begun, end in pieces(2 * largest, _KEYS):
            units = _differences(own, ones[begun:end], others, near[begun:end], load)
            few = (units > 0) & (units < largest[begun:end]) & (units * self._policy.scale < self._policy.k)
            for place in np.flatnonzero(few).tolist():
                earlier, _ = others.source(int(near[begun + place]))
                return Conflict(self._policy.people(int(units[place])), earlier or None)
        return None

    def _within(
        self, own: _Answered, places: Places, precisions: Numbers, others: _Answered, same: Places
    ) -> Conflict | None:
        """The same for a cell of the statement and one that is the same to the sample. All answers of either are taken for answers of
        each, so that the difference is taken for no less exact than it is."""
        kept = places[(2 * _variance(precisions[places]) < self._readable**2) & (same[places] >= 0)]
        kept = kept[~own.told_alike(kept, others, same[kept])]
        sizes = own.sketches.sizes
        different, at = np.unique(sizes[kept], return_inverse=True)
        few = [self._policy.is_few(size) for size in different.tolist()]
        kept = kept[~np.array(few, dtype=np.bool_)[at.reshape(-1)]]
        told, known = own.told(kept), others.told(same[kept])
        for place, equal in zip(kept.tolist(), same[kept].tolist(), strict=True):
            check()
            for past, charge in known[equal].items():
                if any(one != past and are_apart(_fine(one), _fine(past), int(sizes[place])) for one in told[place]):
                    return Conflict(0, charge or None)
        return None


def _differences(own: _Answered, ones: Places, others: _Answered, near: Places, load: Load) -> Places:
    """[sample units] of which cells and others hold something else."""
    (here, one), (there, other) = (np.unique(places, return_inverse=True) for places in (ones, near))
    sources = [own.source(place) for place in here.tolist()] + [others.source(place) for place in there.tolist()]
    return differences([load(*source) for source in sources], one.reshape(-1), other.reshape(-1) + len(here))


class _Answered:
    """The different cells of answers, and the answers themselves.

    kind        of each cell
    precisions  of the mean of all answers that a cell had
    first       the place of the first of these
    alone       the number of the one text that tells them apart; -1 where they have several
    """

    def __init__(self) -> None:
        self.sketches = Sketches()
        self.kind, self.precisions, self.first = Growing(np.uint64), Growing(np.float64), Growing(np.int64)
        self.alone = Growing(np.int64)
        self._released: Growing[np.void] = Growing(RELEASED)
        self._fine: dict[str, int] = {}
        # by digest, that of the kind in it
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._released)

    def add(self, found: PastAnswers) -> None:
        """Add answers, in order: the same as if they came one by one."""
        begun, size, released = len(self), len(self.sketches), found.released.copy()
        released["told"] = _numbers(self._fine, found.fine)[released["told"]]
        first = np.empty(len(found.marks), dtype=np.int64)
        # of several answers of a cell the first is written last
        first[released["cell"][::-1]] = np.arange(len(released))[::-1]
        kind = released["kind"][first]
        cells = _numbers(self._places, _salted(found.marks, kind))
        # places grow by one with each cell that was not there
        fresh = np.flatnonzero(cells > np.maximum.accumulate(np.append(size - 1, cells))[:-1])
        released["cell"] = cells[released["cell"]]
        # mostly of a history that is read all are
        self.sketches.add(found.marks if len(fresh) == len(found.marks) else found.marks[fresh])
        self.kind.add(kind[fresh])
        self.first.add(first[fresh] + begun)
        self.precisions.add(np.zeros(len(fresh)))
        np.add.at(self.precisions.values, released["cell"], released["precision"])
        self.alone.add(released["told"][first[fresh]])
        self.alone.values[released["cell"][released["told"] != self.alone.values[released["cell"]]]] = -1
        self._released.add(released)

    def since(self, begun: int) -> PastAnswers:
        released = self._released.values[begun:].copy()
        cells, released["cell"] = _compact(released["cell"])
        fine, released["told"] = _compact(released["told"])
        texts = list(self._fine)
        marks = self.sketches.marks.values[cells]
        return PastAnswers(tuple(texts[i] for i in fine.tolist()), marks, released)

    def source(self, place: int) -> tuple[int, int]:
        """The charge of the statement that a cell was first released by, and its place there."""
        first = self._released.values[self.first.values[place]]
        return int(first["charge"]), int(first["at"])

    def same(self, others: _Answered) -> Places:
        """The places of equal cells of the same kind; -1 for none."""
        salted = _salted(others.sketches.marks.values, others.kind.values)
        return np.array([self._places.get(digest, -1) for digest in salted], dtype=np.int64)

    def precisions_at(self, places: Places) -> Numbers:
        """Of the cells at some places; 0 for none."""
        return np.append(self.precisions.values, 0.0)[places]

    def told_alike(self, places: Places, others: _Answered, equal: Places) -> Bools:
        """True for cells at some places whose answers, and those of the others' cells, are all told by one and the same text."""
        theirs = np.array([*(others._fine.get(text, -1) for text in self._fine), -1], dtype=np.int64)
        own = theirs[self.alone.values[places]]
        return np.asarray((own >= 0) & (own == others.alone.values[equal]))

    def told(self, places: Places) -> dict[int, dict[str, int]]:
        """By cell at some places, the texts that tell its answers apart, with the charge by which each was first released."""
        asked = np.zeros(len(self.sketches), dtype=np.bool_)
        asked[places] = True
        released = self._released.values
        answers = np.flatnonzero(asked[released["cell"]])
        codes = released["cell"][answers].astype(np.int64) << 32 | released["told"][answers]
        once = released[answers[np.sort(np.unique(codes, return_index=True)[1])]]
        texts, found = list(self._fine), dict[int, dict[str, int]]()
        for cell, told, charge in zip(*(once[name].tolist() for name in ("cell", "told", "charge")), strict=True):
            found.setdefault(cell, {})[texts[told]] = charge
        return found


def _told(known: dict[Fine, int], names: Sequence[Fine], places: Places) -> Places:
    """The numbers of the names at some places; the next ones, in order, for those that are not known.

    Why  most cells of a statement have one and the same object for a name, which is looked up once
    """
    same = np.fromiter(map(id, names), dtype=np.int64, count=len(names))[places]
    _, first, at = np.unique(same, return_index=True, return_inverse=True)
    numbers = np.zeros(len(first), dtype=np.int64)
    for one in np.argsort(first).tolist():
        numbers[one] = known.setdefault(names[int(places[first[one]])], len(known))
    return numbers[at.reshape(-1)]


def _fine(text: str) -> Fine:
    return tuple((str(name), tuple(map(str, texts))) for name, texts in json.loads(text))


def _numbers(known: dict[_Name, int], names: Iterable[_Name]) -> Places:
    """The numbers of names; the next ones for those that are not known."""
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def _compact(numbers: Places) -> tuple[Places, Places]:
    """The different ones of some numbers, and the place of each among them."""
    found, places = np.unique(numbers, return_inverse=True)
    return found, places.reshape(-1)


def _salted(marks: Marks, kind: npt.NDArray[np.uint64]) -> list[int]:
    """Digests of cells: equal keys of another kind are another cell."""
    found: list[int] = (marks["digest"] ^ kind).tolist()
    return found


@lru_cache
def _digest(kind: str) -> int:
    return int.from_bytes(hashlib.blake2b(kind.encode(), digest_size=8).digest())


def _variance(precisions: Numbers) -> Numbers:
    """Of the mean of several answers to one question, each weighted by its precision."""
    return np.asarray(np.divide(1.0, precisions, out=np.full(len(precisions), np.inf), where=precisions > 0))
