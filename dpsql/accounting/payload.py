"""A noisy table as bytes and back, exactly: JSON, compressed when large."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import cast

from dpsql.plan import KeyValue, NoisyTable

_COMPRESS_FROM = 4096  # bytes
_PLAIN, _COMPRESSED = b"j", b"z"
_LARGEST_DECIMAL = 2**2048  # Python may refuse to print or read longer integers in decimal, from 640 digits on
_KEY_TYPES: frozenset[type] = frozenset({int, str, bool, type(None)})
_CELL_TYPES: frozenset[type] = frozenset({int})


def encode(table: NoisyTable) -> bytes | None:
    """The table's bytes; None if it holds anything but what its type allows."""
    if not _fits(table.keys, _KEY_TYPES, table.groups) or not _fits(table.cells, _CELL_TYPES, table.groups):
        return None
    columns = [[_printable(column) for column in part] for part in (table.keys, table.cells)]
    text = json.dumps([table.groups, *columns], separators=(",", ":")).encode("ascii")
    return _PLAIN + text if len(text) < _COMPRESS_FROM else _COMPRESSED + zlib.compress(text, 1)


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
    return NoisyTable(keys, cast(tuple[list[int], ...], cells), groups)


def _fits(columns: Sequence[Sequence[KeyValue]], allowed: frozenset[type], groups: int) -> bool:
    return all(len(column) == groups and set(map(type, column)) <= allowed for column in columns)


def _printable(column: Sequence[KeyValue]) -> object:
    """The column, or with its integers in hexadecimal where one is too long for decimal."""
    numbers = [value for value in column if isinstance(value, int)]
    if not numbers or -_LARGEST_DECIMAL < min(numbers) <= max(numbers) < _LARGEST_DECIMAL:
        return column
    return {"hex": [[hex(value)] if type(value) is int else value for value in column]}


def _restored(column: object) -> list[KeyValue]:
    if isinstance(column, list):
        return column
    if not isinstance(column, dict):
        raise TypeError
    return [int(value[0], 16) if isinstance(value, list) else value for value in column["hex"]]
