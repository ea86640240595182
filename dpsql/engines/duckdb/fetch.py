"""From a DuckDB result to columns, exactly: integers never pass through a floating-point number on the way."""

from __future__ import annotations

import duckdb
import numpy as np

from dpsql.core.columns import Array, Column, ResultRows
from dpsql.core.errors import error
from dpsql.core.sqltypes import INTEGER_BITS

_EXACT_IN_NUMPY = frozenset(set(INTEGER_BITS) - {"HUGEINT"} | {"BOOLEAN", "VARCHAR", "FLOAT", "DOUBLE"})
"""HUGEINT and DECIMAL would become DOUBLE there."""
_AT_ONCE = 2**16
"""Rows that are held as Python's tuples."""


def columns(result: duckdb.DuckDBPyConnection, width: int) -> tuple[Column[object], ...]:
    """The columns of a result that was just executed, `width` of them, NULL as None."""
    described = result.description or []
    if len(described) != width:
        raise error(901, "a result does not have the columns that were planned")
    if all(str(column[1]) in _EXACT_IN_NUMPY for column in described):
        return tuple(_column(array) for array in result.fetchnumpy().values())
    pieces: list[list[Column[object]]] = [[] for _ in range(width)]
    while found := result.fetchmany(_AT_ONCE):
        for i, column in enumerate(pieces):
            column.append(Column.of([row[i] for row in found]))
    return tuple(map(Column.joined, pieces))


def rows(result: duckdb.DuckDBPyConnection) -> ResultRows:
    """The rows of a result that was just executed, as Python's own values."""
    return ResultRows(columns(result, len(result.description or [])))


def _column(array: Array) -> Column[object]:
    """An array of DuckDB's as a column: masked where NULL is, and of NULL alone of any type."""
    nulls = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else None
    values = np.ma.getdata(array)
    if values.dtype.kind in "iu" and (values.dtype != np.uint64 or np.all(values <= np.uint64(2**63 - 1))):
        return Column(values.astype(np.int64, copy=False), nulls)
    if values.dtype.kind == "f":
        return Column(values.astype(np.float64, copy=False), nulls)
    return Column(values if values.dtype.kind == "b" else values.astype(np.object_, copy=False), nulls)
