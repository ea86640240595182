"""How whom a statement was about is kept in the ledger: JSON that holds nothing of the data.

Version 3 is of cells. Versions 1 and 2 held regions; such a statement is evaluated anew from its text, where it can be.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsql.guard.evaluating import Cell
from dpsql.guard.history import Asked

VERSION = 3
"""Of what is written."""


def written(asked: Sequence[Asked], identity: str) -> str:
    """What was released of one statement.

    identity  of the sample units that the cells are of
    """
    body = [
        [one.spread, one.people, one.groups, one.about, [[cell.kind, _packed(cell)] for cell in one.cells]]
        for one in asked
    ]
    return json.dumps({"version": VERSION, "sample": identity, "asked": body}, separators=(",", ":"))


def read(text: str, identity: str) -> tuple[Asked, ...] | None:
    """What was released; None where it is of other sample units, or was written before there were any.

    Raises ValueError, TypeError, KeyError where the text is none of ours.
    """
    found: Any = json.loads(text)
    if not isinstance(found, dict) or found["version"] < VERSION or found["sample"] != identity:
        return None
    return tuple(
        Asked(tuple(Cell(str(k), _unpacked(p)) for k, p in cells), float(spread), int(people), int(groups), str(about))
        for spread, people, groups, about, cells in found["asked"]
    )


def spreads(text: str) -> list[float]:
    """The spreads of what was released, of any version. Raises as `read`."""
    found: Any = json.loads(text)
    if isinstance(found, dict) and found["version"] >= VERSION:
        return [float(one[0]) for one in found["asked"]]
    if isinstance(found, dict):
        return [float(question[1]) for question in found["questions"]]
    return [float(question[1]) / 2 for question in found[1]]


def _packed(cell: Cell) -> str:
    """Differences of ordered keys, the bytes of each place together, compressed."""
    keys = np.diff(cell.keys, prepend=np.uint64(0))
    planes = keys.view(np.uint8).reshape(-1, 8).T.tobytes()
    return base64.b85encode(zlib.compress(planes, 1)).decode()


def _unpacked(packed: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
    planes = np.frombuffer(zlib.decompress(base64.b85decode(packed)), dtype=np.uint8)
    if len(planes) % 8:
        raise ValueError("no keys")
    return np.cumsum(np.ascontiguousarray(planes.reshape(8, -1).T).view(np.uint64).reshape(-1), dtype=np.uint64)
