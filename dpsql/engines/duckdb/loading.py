"""From columns to DuckDB tables, exactly: NULL and NaN stay apart, integers and decimals keep every digit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import duckdb
import numpy as np

from dpsql.core.columns import Array, Column, Decimals, objects
from dpsql.core.sqltypes import SqlType
from dpsql.engines.writing import name

_INPUT = "dpsql input"
_VALUE, _NULL, _NAN = 0, 1, 2
_AT_ONCE = 2**16
_INT64 = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


class HeldTable(Protocol):
    """A table as Python holds it: see plan.tables.PublicTable."""

    @property
    def name(self) -> str: ...

    @property
    def columns(self) -> tuple[tuple[str, SqlType], ...]: ...

    @property
    def data(self) -> tuple[Sequence[object], ...]: ...


def load(connection: duckdb.DuckDBPyConnection, table: HeldTable) -> None:
    """Make the table `main.name`, in place of any of that name.

    Raises DuckDB's and Python's own exceptions where a value is beyond its type, so callers keep it inside their wall.
    """
    _make(connection, table, f"CREATE OR REPLACE TABLE main.{name(table.name)}")


def load_beside(connection: duckdb.DuckDBPyConnection, table: HeldTable) -> None:
    """Make the table for this connection alone, hiding any of that name until it is closed. Raises as `load`."""
    _make(connection, table, f"CREATE OR REPLACE TEMP TABLE {name(table.name)}")


def load_into(connection: duckdb.DuckDBPyConnection, schema: str, table: HeldTable) -> None:
    """Make the table in another SQL schema, which is there. Raises as `load`."""
    _make(connection, table, f"CREATE OR REPLACE TABLE {name(schema)}.{name(table.name)}")


def _make(connection: duckdb.DuckDBPyConnection, table: HeldTable, target: str) -> None:
    if not table.data or not table.data[0]:
        columns = ", ".join(f"{name(n)} {t}" for n, t in table.columns)
        connection.execute(f"{target} ({columns})")
        return
    arrays: dict[str, Array] = {}
    items = []
    for i, ((column, sqltype), values) in enumerate(zip(table.columns, table.data, strict=True)):
        items.append(f"{_item(arrays, i, sqltype, values)} AS {name(column)}")
    connection.register(_INPUT, arrays)
    try:
        connection.execute(f"{target} AS SELECT {', '.join(items)} FROM {name(_INPUT)}")
    finally:
        connection.unregister(_INPUT)


def _item(arrays: dict[str, Array], i: int, sqltype: SqlType, values: Sequence[object]) -> str:
    """Put a column into arrays; SQL that makes the column again.

    NULL and NaN travel in a column of their own: DuckDB takes NaN in an array for NULL. A group key of a fractional type is its text.
    """
    column = Column.of(values)
    arrays[f"v{i}"] = array = _array(column, sqltype)
    value = f"v{i}"
    if array.dtype == np.int64 and isinstance(column, Decimals):
        # a product of DECIMALs is exact, and so is the cast: it has that scale
        value = (
            f"CAST(v{i} AS DECIMAL(19, 0)) * CAST('1e-{column.scale}' AS DECIMAL({column.scale + 1}, {column.scale}))"
        )
    cast = f"CAST({value} AS {sqltype})"
    states = np.zeros(len(column), dtype=np.int8)
    if sqltype.is_float:
        states[array != array] = _NAN
    if column.nulls is not None:
        states[column.nulls] = _NULL
    if not states.any():
        return cast
    arrays[f"s{i}"] = states
    nan = f" WHEN s{i} = {_NAN} THEN CAST('nan' AS {sqltype})" if sqltype.is_float else ""
    return f"CASE WHEN s{i} = {_NULL} THEN NULL{nan} ELSE {cast} END"


def _array(column: Column[object], sqltype: SqlType) -> Array:
    """The values, with a neutral one in place of NULL; text where no array type holds them exactly."""
    held = column.values.dtype
    if sqltype.is_float:
        read = [float(v) if isinstance(v, str) else v for v in _filled(column)] if held == np.object_ else column.values
        return np.asarray(read, dtype=np.float64)
    if sqltype.is_boolean:
        return np.array(_filled(column), dtype=np.bool_) if held == np.object_ else column.values.astype(np.bool_)
    if held == np.int64 and (sqltype.is_integer or (isinstance(column, Decimals) and _is_held(column, sqltype))):
        return column.values
    if sqltype.name in _INT64:
        try:
            return np.array(_filled(column), dtype=np.int64)
        except OverflowError:
            pass
    return _text_array(column)


def _is_held(column: Decimals, sqltype: SqlType) -> bool:
    """True if DuckDB multiplies 19 digits by a power of ten without a loss, and of the type's own scale."""
    return sqltype.is_decimal and sqltype.scale == column.scale <= 18


def _filled(column: Column[object], nothing: object = 0) -> list[object]:
    return [nothing if value is None else value for value in column]


def _text_array(column: Column[object]) -> Array:
    texts = [v if isinstance(v, str) else str(v) for v in _filled(column, "0")]
    for start in range(0, len(texts), _AT_ONCE):
        # half a surrogate pair, which is no text, breaks DuckDB 1.4 for good
        "".join(texts[start : start + _AT_ONCE]).encode()
    return objects(texts)
