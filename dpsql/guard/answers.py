"""answers: whom released numbers were about, many together: what is compared with what comes, as it is packed in the ledger.

Why  an answer is a function of the text of its statement and of the declarations, as the sample units are: none of it is of the data.
     So it may be kept, or be made anew, and decides the same
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpsql.guard.cells import SKETCH_BITS, Cells, Fine

FORM = 1
"""Of what is packed."""
_WORDS = SKETCH_BITS // 64
_Array = npt.NDArray[np.generic]
_Number = TypeVar("_Number", bound=np.generic)
_Text = TypeVar("_Text", str, Fine)


@dataclass(frozen=True, slots=True)
class PastAnswers:
    """PastAnswers in the order in which they were released.

    kinds, fine             texts that answers have by their number
    digests, sizes, words   of each cell, in the order in which they first come; its sketch in words
    cell, kind, told        of each answer: its cell, its kind, and what tells it apart from others of the cell
    at, charge              its place in the statement, and whose that is
    precision               one over the square of a deviation
    """

    kinds: tuple[str, ...]
    fine: tuple[str, ...]
    digests: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint32]
    words: npt.NDArray[np.uint64]
    cell: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int32]
    told: npt.NDArray[np.int32]
    at: npt.NDArray[np.int32]
    charge: npt.NDArray[np.int64]
    precision: npt.NDArray[np.float64]

    @staticmethod
    def of(released: Sequence[tuple[Cells, float, float]], charge: int) -> PastAnswers:
        """The answers of one statement: cells, the precision of each, and the fewest sample units of one that is shown."""
        kinds: dict[str, int] = {}
        fine: dict[Fine, int] = {}
        kept = [np.flatnonzero(cells.marks["size"] >= fewest) for cells, _, fewest in released]
        at = _joined([places + begun for places, begun in zip(kept, _begun(released), strict=True)], np.int32)
        parts = [(cells, places, precision) for (cells, precision, _), places in zip(released, kept, strict=True)]
        kind = _joined([_numbered(cells.kinds, places, kinds) for cells, places, _ in parts], np.int32)
        told = _joined([_numbered(cells.fine, places, fine) for cells, places, _ in parts], np.int32)
        marks = np.concatenate([cells.marks for cells, _, _ in released])[at] if len(at) else None
        return PastAnswers(
            tuple(kinds),
            tuple(map(_text, fine)),
            marks["digest"] if marks is not None else np.zeros(0, dtype=np.uint64),
            marks["size"] if marks is not None else np.zeros(0, dtype=np.uint32),
            _words(marks["sketch"]) if marks is not None else np.zeros((0, _WORDS), dtype=np.uint64),
            np.arange(len(at), dtype=np.int32),
            kind,
            told,
            at,
            np.full(len(at), charge, dtype=np.int64),
            _joined([np.full(len(places), precision) for _, places, precision in parts], np.float64),
        )


def fine_of(text: str) -> Fine:
    return tuple((str(name), tuple(map(str, texts))) for name, texts in json.loads(text))


def packed(found: PastAnswers) -> bytes:
    """A line that says what follows, then the numbers, those of eight bytes first."""
    head = json.dumps([found.kinds, found.fine, len(found.digests), len(found.cell)], separators=(",", ":")).encode()
    line = head + b" " * (-(len(head) + 1) % 8) + b"\n"
    return line + b"".join(np.ascontiguousarray(array).tobytes() for array in _arrays(found))


def unpacked(body: bytes) -> PastAnswers:
    """PastAnswers as they were packed. Raises ValueError, TypeError, LookupError where the bytes are none of ours."""
    end = body.index(b"\n") + 1
    kinds, fine, cells, answers = json.loads(body[:end])
    sizes = [cells, cells * _WORDS, answers, answers, cells, *(answers,) * 4]
    types = ["<u8", "<u8", "<i8", "<f8", "<u4", *("<i4",) * 4]
    ends = [end + size for size in accumulate(n * int(t[-1]) for n, t in zip(sizes, types, strict=True))]
    if min(cells, answers) < 0 or ends[-1] != len(body):
        raise ValueError("numbers are missing")
    digests, words, charge, precision, units, cell, kind, told, at = (
        np.frombuffer(body, dtype=t, count=n, offset=begun)
        for t, n, begun in zip(types, sizes, [end, *ends[:-1]], strict=True)
    )
    if any(
        len(each) and not 0 <= each.min() <= each.max() < most
        for each, most in ((cell, cells), (kind, len(kinds)), (told, len(fine)))
    ):
        raise ValueError("numbers of what is not there")
    texts = tuple(map(str, kinds)), tuple(map(str, fine))
    return PastAnswers(*texts, digests, units, words.reshape(-1, _WORDS), cell, kind, told, at, charge, precision)


def _arrays(found: PastAnswers) -> list[_Array]:
    eight = [found.digests, found.words, found.charge, found.precision]
    return [*eight, found.sizes, found.cell, found.kind, found.told, found.at]


def _numbered(texts: Sequence[_Text], places: npt.NDArray[np.int64], known: dict[_Text, int]) -> npt.NDArray[np.int64]:
    """The numbers of the texts at some places, in the order in which they first come."""
    if len(set(texts)) == 1 and len(places):
        return np.full(len(places), known.setdefault(texts[0], len(known)), dtype=np.int64)
    return np.array([known.setdefault(texts[place], len(known)) for place in places.tolist()], dtype=np.int64)


def _joined(pieces: Sequence[_Array], kind: type[_Number]) -> npt.NDArray[_Number]:
    return np.concatenate([np.zeros(0, dtype=kind), *pieces]).astype(kind)


def _begun(released: Sequence[tuple[Cells, float, float]]) -> list[int]:
    return list(accumulate((len(cells) for cells, _, _ in released), initial=0))[:-1]


def _words(sketches: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(sketches).view("<u8")


def _text(fine: Fine) -> str:
    return json.dumps(fine, separators=(",", ":"))
