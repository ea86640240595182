"""answers: whom released numbers were about, many together: what is compared with what comes, as it is packed in the ledger.

Why  an answer is a function of the text of its statement and of the declarations, as the sample units are: none of it is of the data.
     So it may be kept, or be made anew, and decides the same
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpsql.guard.arrays import Places
from dpsql.guard.cells import MARK, Cells, Fine, Marks

_Name = TypeVar("_Name", str, Fine)

FORM = 2
"""Of what is packed."""
RELEASED = np.dtype(
    [("charge", "<i8"), ("precision", "<f8"), ("cell", "<i4"), ("kind", "<i4"), ("told", "<i4"), ("at", "<i4")]
)
"""Of one answer: the charge of its statement and its place there; one over the square of its deviation; its cell, its kind, and what
tells it apart from others of the cell, by their numbers."""


@dataclass(frozen=True, slots=True)
class PastAnswers:
    """Answers in the order in which they were released.

    kinds, fine  texts that answers have by their number
    marks        of each cell, in the order in which they first come
    released     of each answer
    """

    kinds: tuple[str, ...]
    fine: tuple[str, ...]
    marks: Marks
    released: npt.NDArray[np.void]

    @staticmethod
    def of(released: Sequence[tuple[Cells, float, float]], charge: int) -> PastAnswers:
        """The answers of one statement: cells, the precision of each, and the fewest sample units of one that is shown."""
        kinds: dict[str, int] = {}
        fine: dict[Fine, int] = {}
        marks, found, begun = [np.zeros(0, dtype=MARK)], [np.zeros(0, dtype=RELEASED)], 0
        for cells, precision, fewest in released:
            kept = np.flatnonzero(cells.marks["size"] >= fewest)
            own = np.zeros(len(kept), dtype=RELEASED)
            own["charge"], own["precision"], own["at"] = charge, precision, kept + begun
            own["kind"] = _numbers(kinds, cells.kinds, kept)
            own["told"] = _numbers(fine, cells.fine, kept)
            marks, found, begun = [*marks, cells.marks[kept]], [*found, own], begun + len(cells)
        every = np.concatenate(found)
        every["cell"] = np.arange(len(every))
        texts = tuple(json.dumps(one, separators=(",", ":")) for one in fine)
        return PastAnswers(tuple(kinds), texts, np.concatenate(marks), every)


def _numbers(known: dict[_Name, int], names: Sequence[_Name], places: Places) -> Places:
    """The numbers of the names at some places; the next ones, in order, for those that are not known.

    Why  most cells of a statement have one and the same object for a name, which is looked up once
    """
    same = np.fromiter(map(id, names), dtype=np.int64, count=len(names))[places]
    _, first, at = np.unique(same, return_index=True, return_inverse=True)
    numbers = np.zeros(len(first), dtype=np.int64)
    for one in np.argsort(first).tolist():
        numbers[one] = known.setdefault(names[int(places[first[one]])], len(known))
    return numbers[at.reshape(-1)]


def fine_of(text: str) -> Fine:
    return tuple((str(name), tuple(map(str, texts))) for name, texts in json.loads(text))


def packed(found: PastAnswers) -> bytes:
    """A line that says what follows, then the answers and the marks."""
    head = json.dumps([found.kinds, found.fine, len(found.released)], separators=(",", ":")).encode()
    return head + b"\n" + found.released.tobytes() + found.marks.tobytes()


def unpacked(body: bytes) -> PastAnswers:
    """PastAnswers as they were packed. Raises ValueError, TypeError, LookupError where the bytes are none of ours."""
    begun = body.index(b"\n") + 1
    kinds, fine, many = json.loads(body[: begun - 1])
    released = np.frombuffer(body, dtype=RELEASED, count=max(many, 0), offset=begun)
    marks = np.frombuffer(body, dtype=MARK, offset=begun + released.nbytes)
    for name, most in (("cell", len(marks)), ("kind", len(kinds)), ("told", len(fine))):
        if many and not 0 <= released[name].min() <= released[name].max() < most:
            raise ValueError("numbers of what is not there")
    return PastAnswers(tuple(map(str, kinds)), tuple(map(str, fine)), marks, released)
