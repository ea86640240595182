"""Synthetic tables of a ledger: the names under which drawn rows are read, and what is known of each (named.py)."""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.accounting import layout
from dpsql.accounting.named import Register
from dpsql.core.sqltypes import SqlType, parse_type

Codes = npt.NDArray[np.int32]
Listed = tuple[int | str | bool | None, ...]


@dataclass(frozen=True, slots=True)
class SyntheticColumn:
    """A column of a synthetic table.

    values  that its rows may have, as group keys travel (plan/tables.py)
    """

    name: str
    sqltype: SqlType
    values: Listed


@dataclass(frozen=True, slots=True)
class StoredSynthetic:
    """A synthetic table as it is known by its name, with its rows.

    name, analyst  who made it under what name
    statement      what it was made by
    cube           the name of the cube that it was drawn from
    fingerprint    of the cube's stored answer and of what decides the rows of it
    codes          of each column and row the place of its value
    noise, fit     total variation by two columns, the mean over all pairs: expected of the cube's noise, and between cube and rows
    time           when it was made
    """

    name: str
    analyst: str
    statement: str
    cube: str
    fingerprint: str
    columns: tuple[SyntheticColumn, ...]
    codes: Codes
    noise: float
    fit: float
    time: str = ""

    @property
    def rows(self) -> int:
        return int(self.codes.shape[1])


def written(table: StoredSynthetic) -> str:
    """A table as the ledger keeps it."""
    words = [table.name, table.analyst, table.statement, table.cube, table.fingerprint]
    columns = [[one.name, str(one.sqltype), list(one.values)] for one in table.columns]
    packed = base64.b64encode(zlib.compress(table.codes.astype("<i4").tobytes(), 6)).decode("ascii")
    return json.dumps([words, columns, table.rows, table.noise, table.fit, table.time or layout.now(), packed])


def read(body: str) -> StoredSynthetic | None:
    """The table that was written; None if this is anything else."""
    try:
        words, listed, rows, noise, fit, time, packed = json.loads(body)
        name, analyst, statement, cube, fingerprint = map(str, words)
        columns = tuple(_column(*one) for one in listed)
        flat = np.frombuffer(zlib.decompress(base64.b64decode(packed)), dtype="<i4").astype(np.int32)
        codes = flat.reshape(len(columns), int(rows))
        sizes = np.array([len(one.values) for one in columns], dtype=np.int32)
        if not columns or np.any(codes < 0) or np.any(codes >= sizes[:, None]) or not math.isfinite(noise + fit):
            return None
        whose = (name, analyst, statement, cube, fingerprint)
        return StoredSynthetic(*whose, columns, codes, float(noise), float(fit), str(time))
    except (ValueError, TypeError, LookupError, RecursionError, zlib.error):
        return None


def _column(name: object, sqltype: str, values: Listed) -> SyntheticColumn:
    known = parse_type(sqltype)
    if known is None or not all(isinstance(value, int | str | None) for value in values):
        raise ValueError
    return SyntheticColumn(str(name), known, tuple(values))


SYNTHETIC = Register("synthetic", written, read)
