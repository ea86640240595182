"""A noisy table as bytes and back, exactly: JSON, compressed when large, with long columns of integers as their bytes."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import cast

import numpy as np

from dpsql.plan.tables import KeyValue, NoisyTable

_COMPRESS_FROM = 4096  # bytes
_BINARY_FROM = 1000  # integers
_PLAIN, _COMPRESSED = b"j", b"z"
_LARGEST_DECIMAL = 2**2048  # Python may refuse to print or read longer integers in decimal, from 640 digits on
_KEY_TYPES: frozenset[type] = frozenset({int, str, bool, type(None)})
_CELL_TYPES: frozenset[type] = frozenset({int, type(None)})


def encode(table: NoisyTable) -> bytes | None:
    """The table's bytes; None if it holds anything but what its type allows."""
    if not _fits(table.keys, _KEY_TYPES, table.groups) or not _fits(table.cells, _CELL_TYPES, table.groups):
        return None
    columns = [[_printable(column) for column in part] for part in (table.keys, table.cells)]
    text = json.dumps([table.groups, *columns], separators=(",", ":")).encode("ascii")
    # the last bits of noisy integers do not compress
    binary = any(isinstance(column, dict) and "i64" in column for part in columns for column in part)
    return _PLAIN + text if binary or len(text) < _COMPRESS_FROM else _COMPRESSED + zlib.compress(text, 1)


def decode(payload: bytes) -> NoisyTable | None:
    """The table that was encoded; None if these are not the bytes of one."""
    try:
        text = zlib.decompress(payload[1:]) if payload[:1] == _COMPRESSED else payload[1:]
        groups, *parts = json.loads(text)
        keys, cells = [tuple(map(_restored, part)) for part in parts]
    except (ValueError, TypeError, LookupError, RecursionError, zlib.error):
        return None
    if type(groups) is not int or not _fits(keys, _KEY_TYPES, groups) or not _fits(cells, _CELL_TYPES, groups):
        return None
    return NoisyTable(keys, cast(tuple[Sequence[int | None], ...], cells), groups)


def _fits(columns: Sequence[Sequence[KeyValue]], allowed: frozenset[type], groups: int) -> bool:
    return all(len(column) == groups and set(map(type, column)) <= allowed for column in columns)


def _printable(column: Sequence[KeyValue]) -> object:
    """The column; as the bytes of 64-bit integers where it is long; with hexadecimal where one is too long for decimal."""
    if len(column) >= _BINARY_FROM and set(map(type, column)) == {int}:
        integers = cast(Sequence[int], column)
        if min(integers) >= -(2**63) and max(integers) < 2**63:
            return {"i64": base64.b64encode(np.array(integers, dtype="<i8").tobytes()).decode("ascii")}
    numbers = [value for value in column if isinstance(value, int)]
    if not numbers or -_LARGEST_DECIMAL < min(numbers) <= max(numbers) < _LARGEST_DECIMAL:
        return column
    return {"hex": [[hex(value)] if type(value) is int else value for value in column]}


def _restored(column: object) -> list[KeyValue]:
    if isinstance(column, list):
        return column
    if not isinstance(column, dict):
        raise TypeError
    if isinstance(column.get("i64"), str):
        return cast(list[KeyValue], np.frombuffer(base64.b64decode(column["i64"], validate=True), dtype="<i8").tolist())
    return [int(value[0], 16) if isinstance(value, list) else value for value in column["hex"]]
