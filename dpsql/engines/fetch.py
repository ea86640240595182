"""From a DuckDB result to Python lists, exactly: integers never pass through a floating-point number on the way."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import duckdb

from dpsql.errors import error
from dpsql.plan import KeyValue
from dpsql.sqltypes import INTEGER_BITS

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


def keys(column: list[object]) -> list[KeyValue]:
    """A column of group keys: integers, booleans, text and NULL."""
    if {type(value) for value in set(column)} - {int, str, bool, type(None)}:
        raise error(901, "a group key is neither an integer, a boolean nor text")
    return column  # type: ignore[return-value]


def integers(column: Sequence[object]) -> list[int]:
    """A column of sums as integers [quanta]: NULL, the sum of nothing, is 0; a decimal of fixed scale loses its point.

    >>> integers(["-0.05", None, "170141183460469231731687303715884105727"])
    [-5, 0, 170141183460469231731687303715884105727]
    """
    kinds = {type(value) for value in column}
    if kinds <= {int}:
        return list(column)  # type: ignore[arg-type]
    if kinds == {str}:
        # one call on the whole column is faster than one a value
        return list(map(int, "\n".join(column).replace(".", "").split("\n")))  # type: ignore[arg-type]
    return [_integer(value) for value in column]


def _integer(value: object) -> int:
    match value:
        case None:
            return 0
        case int() if not isinstance(value, bool):
            return value
        case str():
            return int(value.replace(".", ""))
        case Decimal():
            return int(format(value, "f").replace(".", ""))
        case _:
            raise error(901, "a sum is not an integer")
