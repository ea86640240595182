"""From a DuckDB result to Python lists, exactly: integers never pass through a floating-point number on the way."""

from __future__ import annotations

import duckdb

from dpsql.core.errors import error
from dpsql.core.sqltypes import INTEGER_BITS

_EXACT_IN_NUMPY = frozenset(set(INTEGER_BITS) - {"HUGEINT"} | {"BOOLEAN", "VARCHAR", "FLOAT", "DOUBLE"})
"""HUGEINT and DECIMAL would become DOUBLE there."""


def lists(result: duckdb.DuckDBPyConnection, width: int) -> tuple[list[object], ...]:
    """The columns of a result that was just executed, `width` of them, NULL as None."""
    described = result.description or []
    if len(described) != width:
        raise error(901, "a result does not have the columns that were planned")
    if all(str(column[1]) in _EXACT_IN_NUMPY for column in described):
        return tuple(array.tolist() for array in result.fetchnumpy().values())
    rows = result.fetchall()
    return tuple([row[i] for row in rows] for i in range(width))
