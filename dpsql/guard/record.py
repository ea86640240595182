"""A bounded statement with whom it asks about, and the record of these in the ledger: text that holds nothing of the data.

A first line of JSON says what is compared at once: of the cells their marks, compressed, since most of small ones is empty. Then come
the keys of all cells that differ, which are read where one is close: COUNT(*) and AVG of a value that everybody has hold the same keys.
A statement whose record is of an earlier version is evaluated anew from its text, where it can be; versions 1 and 2 held regions.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, repeat
from typing import Any

import numpy as np

from dpsql.core.errors import Error
from dpsql.guard.cells import HASH_BITS, MARK, Cells, Fine, Keys, Marks
from dpsql.guard.history import BlockQuestion
from dpsql.plan.releases import Bounded, SmallCell

VERSION = 8
"""Of what is written."""
Load = Callable[[int], Keys]
"""The keys of a cell, by its place in the record."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A bounded statement with whom it asks about.

    asked     by block; none where the guard is off
    small     by block, the aggregates that are in some group about fewer people than the owner lets be shown
    findings  what R1, R3a and R5 say against it
    """

    bounded: Bounded
    asked: Mapping[str, BlockQuestion] = field(default_factory=dict)
    small: Mapping[str, tuple[SmallCell, ...]] = field(default_factory=dict)
    findings: tuple[Error, ...] = ()


def written(asked: Sequence[BlockQuestion], identity: str) -> str:
    """Write the questions of one statement that were released.

    identity  of the sample units that the cells are of
    """
    body = [[one.spread, one.people, one.groups, one.about, _runs(one.cells)] for one in asked]
    marks = np.concatenate([np.zeros(0, dtype=MARK), *(one.cells.marks for one in asked)])
    head = {"version": VERSION, "sample": identity, "asked": body, "marks": _deflated(marks.tobytes())}
    every = [(one.cells, place) for one in asked for place in range(len(one.cells))]
    cells = [found.load(place) for found, place in (every[i] for i in _different(marks).values())]
    keys = _packed(np.concatenate([np.zeros(0, dtype=np.uint32), *cells]))
    return f"{json.dumps(head, separators=(',', ':'))}\n{keys}"


def read(text: str, identity: str, load: Load) -> tuple[BlockQuestion, ...] | None:
    """Read the questions that were released; None where it is of other sample units, or of an earlier version.

    Raises ValueError, TypeError, KeyError where the text is none of ours.
    """
    found = _head(text)
    if not _is_of(found, identity):
        return None
    marks = _marks(found)
    asked: list[BlockQuestion] = []
    begun = 0
    for spread, people, groups, about, runs in found["asked"]:
        end = begun + sum(often for *_, often in runs)
        if end > len(marks) or any(often < 1 for *_, often in runs):
            raise ValueError("cells without a mark")
        kinds = tuple(chain.from_iterable(repeat(str(kind), often) for kind, _, often in runs))
        fine = tuple(chain.from_iterable(repeat(_fine(telling), often) for _, telling, often in runs))
        cells = Cells(kinds, fine, marks[begun:end], lambda place, begun=begun: load(begun + place))  # type: ignore[misc]
        asked.append(BlockQuestion(cells, float(spread), int(people), int(groups), str(about)))
        begun = end
    return tuple(asked)


def is_of(text: str, identity: str) -> bool:
    """True if a record is of these sample units. Raises as `read`."""
    return _is_of(_head(text), identity)


def keys(text: str) -> list[Keys]:
    """The keys of every cell of a record. Raises as `read`."""
    marks = _marks(_head(text))
    different = _different(marks)
    ends = np.cumsum(marks["size"][list(different.values())].astype(np.int64))
    found = _unpacked(text.partition("\n")[2])
    if len(found) != (ends[-1] if len(ends) else 0):
        raise ValueError("cells without keys")
    held = dict(zip(different, np.split(found, ends)[:-1], strict=True))
    return [held[digest] for digest in marks["digest"].tolist()]


def _different(marks: Marks) -> dict[int, int]:
    """The digests of cells, each once, with the place where it first comes."""
    first: dict[int, int] = {}
    for place, digest in enumerate(marks["digest"].tolist()):
        first.setdefault(digest, place)
    return first


def _runs(cells: Cells) -> list[tuple[str, Fine, int]]:
    """The kinds of cells, one after the other, with how many there are of each."""
    return [(*one, len(list(many))) for one, many in groupby(zip(cells.kinds, cells.fine, strict=True))]


def _fine(found: Any) -> Fine:
    return tuple((str(name), tuple(map(str, texts))) for name, texts in found)


def _head(text: str) -> Any:
    return json.loads(text.partition("\n")[0])


def _is_of(head: Any, identity: str) -> bool:
    return isinstance(head, dict) and head["version"] == VERSION and bool(head["sample"] == identity)


def _marks(head: Any) -> Marks:
    return np.frombuffer(_inflated(head["marks"]), dtype=MARK)


def spreads(text: str) -> list[float]:
    """The spreads of what was released, of any version. Raises as `read`."""
    found = _head(text)
    if isinstance(found, dict) and "asked" in found:
        return [float(one[0]) for one in found["asked"]]
    if isinstance(found, dict):
        return [float(question[1]) for question in found["questions"]]
    return [float(question[1]) / 2 for question in found[1]]


def _packed(keys: Keys) -> str:
    """Differences of the places, ordered in each cell, then the hashes: the bytes of each place together, compressed."""
    places = np.diff(keys >> np.uint32(HASH_BITS), prepend=np.uint32(0))
    planes = [places.astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes(), keys.astype(np.uint8).tobytes()]
    return _deflated(b"".join(planes))


def _unpacked(packed: str) -> Keys:
    planes = np.frombuffer(_inflated(packed), dtype=np.uint8).reshape(5, -1)
    places = np.cumsum(np.ascontiguousarray(planes[:4].T).view("<u4").reshape(-1), dtype=np.uint32)
    found: Keys = (places << np.uint32(HASH_BITS)) | planes[4].astype(np.uint32)
    return found


def _deflated(found: bytes) -> str:
    return base64.b64encode(zlib.compress(found, 1)).decode()


def _inflated(packed: str) -> bytes:
    try:
        return zlib.decompress(base64.b64decode(packed, validate=True))
    except zlib.error:
        raise ValueError("what is packed cannot be read") from None
