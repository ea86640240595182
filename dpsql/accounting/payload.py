"""A noisy table as bytes and back, exactly: JSON, compressed when large, with long columns of integers as their bytes."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import cast

import numpy as np

from dpsql.core.columns import Column
from dpsql.plan.tables import KeyValue, NoisyTable

_COMPRESS_FROM = 4096  # bytes
_BINARY_FROM = 1000  # integers
_WIDTHS = {"i8": "<i1", "i16": "<i2", "i32": "<i4", "i64": "<i8"}
"""The narrowest of these that holds a whole column: what is written is synced to the disk."""
_PLAIN, _COMPRESSED = b"j", b"z"
_LARGEST_DECIMAL = 2**2048  # Python may refuse to print or read longer integers in decimal, from 640 digits on
_KEY_TYPES: frozenset[type] = frozenset({int, str, bool, type(None)})
_CELL_TYPES: frozenset[type] = frozenset({int, type(None)})


def encode(table: NoisyTable) -> bytes | None:
    """The table's bytes; None if it holds anything but what its type allows."""
    keys: list[Column[KeyValue]] = list(map(Column.of, table.keys))
    cells: list[Column[KeyValue]] = list(map(Column.of, table.cells))
    if not _fits(keys, _KEY_TYPES, table.groups) or not _fits(cells, _CELL_TYPES, table.groups):
        return None
    columns = [[_printable(column) for column in part] for part in (keys, cells)]
    text = json.dumps([table.groups, *columns], separators=(",", ":")).encode("ascii")
    # the last bits of noisy integers do not compress
    binary = any(isinstance(column, dict) and "hex" not in column for part in columns for column in part)
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
    return NoisyTable(keys, cast(tuple[Column[int | None], ...], cells), groups)


def _fits(columns: Sequence[Column[KeyValue]], allowed: frozenset[type], groups: int) -> bool:
    return all(len(column) == groups and (_is_whole(column) or set(map(type, column)) <= allowed) for column in columns)


def _is_whole(column: Column[KeyValue]) -> bool:
    """True if all of it are 64-bit integers."""
    return column.values.dtype == np.int64 and column.nulls is None


def _fit(column: Column[KeyValue], kind: np.iinfo[np.signedinteger]) -> bool:
    return bool(kind.min <= column.values.min() and column.values.max() <= kind.max)


def _printable(column: Column[KeyValue]) -> object:
    """The column; as the bytes of integers where it is long; with hexadecimal where one is too long for decimal."""
    if len(column) >= _BINARY_FROM and _is_whole(column):
        name, kind = next(one for one in _WIDTHS.items() if _fit(column, np.iinfo(one[1])))
        return {name: base64.b64encode(column.values.astype(kind, copy=False).tobytes()).decode("ascii")}
    values = column.tolist()
    numbers = [value for value in values if isinstance(value, int)] if column.values.dtype == np.object_ else []
    if not numbers or -_LARGEST_DECIMAL < min(numbers) <= max(numbers) < _LARGEST_DECIMAL:
        return values
    return {"hex": [[hex(value)] if type(value) is int else value for value in values]}


def _restored(column: object) -> Column[KeyValue]:
    if isinstance(column, list):
        return Column.of(column)
    if not isinstance(column, dict):
        raise TypeError
    name = next(iter(column), "")
    if name in _WIDTHS:
        found = np.frombuffer(base64.b64decode(column[name], validate=True), dtype=_WIDTHS[name])
        return Column(found.astype(np.int64, copy=False))
    return Column.of([int(value[0], 16) if isinstance(value, list) else value for value in column["hex"]])
