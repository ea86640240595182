"""From Python lists to DuckDB tables, exactly: NULL and NaN stay apart, integers and decimals keep every digit."""

from __future__ import annotations

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.core.sqltypes import SqlType
from dpsql.engines.writing import name
from dpsql.plan.tables import PublicTable

_INPUT = "dpsql input"
_VALUE, _NULL, _NAN = 0, 1, 2
_INT64 = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")

Array = npt.NDArray[np.generic]


def load(connection: duckdb.DuckDBPyConnection, table: PublicTable) -> None:
    """Make the table `main.name`, in place of any of that name.

    Raises DuckDB's and Python's own exceptions where a value is beyond its type, so callers keep it inside their wall.
    """
    _make(connection, table, f"CREATE OR REPLACE TABLE main.{name(table.name)}")


def load_beside(connection: duckdb.DuckDBPyConnection, table: PublicTable) -> None:
    """Make the table for this connection alone, hiding any of that name until it is closed. Raises as `load`."""
    _make(connection, table, f"CREATE OR REPLACE TEMP TABLE {name(table.name)}")


def load_into(connection: duckdb.DuckDBPyConnection, schema: str, table: PublicTable) -> None:
    """Make the table in another SQL schema, which is there. Raises as `load`."""
    _make(connection, table, f"CREATE OR REPLACE TABLE {name(schema)}.{name(table.name)}")


def _make(connection: duckdb.DuckDBPyConnection, table: PublicTable, target: str) -> None:
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


def _item(arrays: dict[str, Array], i: int, sqltype: SqlType, values: list[object]) -> str:
    """Put a column into arrays; SQL that makes the column again.

    NULL and NaN travel in a column of their own: DuckDB takes NaN in an array for NULL. A group key of a fractional type is its text.
    """
    if sqltype.is_float:
        values = [float(v) if isinstance(v, str) else v for v in values]
    states = _states(values, sqltype)
    arrays[f"v{i}"] = _array(values, sqltype, states)
    cast = f"CAST(v{i} AS {sqltype})"
    if states is None:
        return cast
    arrays[f"s{i}"] = states
    nan = f" WHEN s{i} = {_NAN} THEN CAST('nan' AS {sqltype})" if sqltype.is_float else ""
    return f"CASE WHEN s{i} = {_NULL} THEN NULL{nan} ELSE {cast} END"


def _states(values: list[object], sqltype: SqlType) -> npt.NDArray[np.int8] | None:
    """Mark the values that are NULL and NaN; None where every value is itself."""
    if sqltype.is_float:
        odd = [_NULL if v is None else (_VALUE if v == v else _NAN) for v in values]
    elif None in values:
        odd = [_NULL if v is None else _VALUE for v in values]
    else:
        return None
    return np.array(odd, dtype=np.int8) if any(odd) else None


def _array(values: list[object], sqltype: SqlType, states: npt.NDArray[np.int8] | None) -> Array:
    """The values, with a neutral one in place of NULL; text where no array type holds them exactly."""
    if sqltype.name in _INT64 or sqltype.is_float or sqltype.is_boolean:
        kind = np.int64 if sqltype.name in _INT64 else np.float64 if sqltype.is_float else np.bool_
        filled = values if states is None else [0 if v is None else v for v in values]
        try:
            return np.array(filled, dtype=kind)
        except OverflowError:
            return _text_array(filled)
    return _text_array(values if states is None else ["0" if v is None else v for v in values])


def _text_array(values: list[object]) -> Array:
    texts = [v if isinstance(v, str) else str(v) for v in values]
    # half a surrogate pair, which is no text, breaks DuckDB 1.4 for good
    "".join(texts).encode()
    return np.array(texts, dtype=object)
