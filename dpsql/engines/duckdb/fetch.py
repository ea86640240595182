"""From a DuckDB result to Python lists, exactly: integers never pass through a floating-point number on the way."""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb

from dpsql.core.errors import error
from dpsql.core.sqltypes import INTEGER_BITS
from dpsql.plan.tables import KeyValue

_EXACT_IN_NUMPY = frozenset(set(INTEGER_BITS) - {"HUGEINT"} | {"BOOLEAN", "VARCHAR", "FLOAT", "DOUBLE"})
"""HUGEINT and DECIMAL would become DOUBLE there."""
_DIGITS = "-?[0-9]{1,39}"
"""As long as the largest HUGEINT."""
_WHOLE = re.compile(_DIGITS)
_WHOLE_COLUMN = re.compile(rf"{_DIGITS}(?:\n{_DIGITS})*")


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
    """A column of group keys: integers, booleans, text and NULL. Raises 903 for anything else."""
    if set(map(type, column)) - {int, str, bool, type(None)}:
        raise error(903, "a group key that crossed from the engine is neither an integer, a boolean nor text")
    return column  # type: ignore[return-value]


def integers(column: Sequence[object]) -> list[int]:
    """A column of sums as integers [quanta]: NULL, the sum of nothing, is 0.

    Why     the noise is made for quanta: of a sum that is in other ones by mistake, it would hide too little
    Raises  903 for what is no integer of scale 0, or has more digits than any sum (rule 48)

    >>> integers(["-5", None, "170141183460469231731687303715884105727"])
    [-5, 0, 170141183460469231731687303715884105727]
    """
    kinds = {type(value) for value in column}
    if kinds <= {int}:
        return list(column)  # type: ignore[arg-type]
    if kinds == {str}:
        # one call on the whole column is faster than one a value
        joined = "\n".join(column)  # type: ignore[arg-type]
        found = joined.split("\n")
        if len(found) == len(column) and _WHOLE_COLUMN.fullmatch(joined):
            return list(map(int, found))
    return [_integer(value) for value in column]


def _integer(value: object) -> int:
    match value:
        case None:
            return 0
        case int() if not isinstance(value, bool):
            return value
        case str() if _WHOLE.fullmatch(value):
            return int(value)
        case _:
            raise error(903, "a sum that crossed from the engine is not an integer")
