"""Where released and public tables are computed with: a DuckDB that holds nothing private and reaches nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.engines.locked import connect, interruptible, lock, name, one_select, was_interrupted
from dpsql.errors import Error, error
from dpsql.plan import PublicTable
from dpsql.schema.model import Schema
from dpsql.sqltypes import SqlType

Typed = tuple[str, str]
"""(name, type as DuckDB writes it)"""

_INPUT = "dpsql input"
_VALUE, _NULL, _NAN = 0, 1, 2
_INT64 = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_TEXTS = {
    106: "the statement does not fit together: a function, operator or clause meets a type that it does not take",
    703: "interrupted; what was charged stays charged",
    706: "the released result could not be post-processed; what was charged stays charged",
}

Result = TypeVar("Result")
Array = npt.NDArray[np.generic]


class Sandbox:
    """Evaluates SQL over tables that hold only released and public values.

    Why        no files, no settings, no caller's variables are in reach; one thread, so that order is no accident
    Errors     106 a statement that does not bind; 706 one that fails on its values; 703 interrupted: all constant text
    Notes      reused for a whole connection and shared by its threads, one statement at a time
    """

    def __init__(self) -> None:
        self._connection = _empty()
        self._declared: duckdb.DuckDBPyConnection | None = None
        self._turn = threading.RLock()

    def __repr__(self) -> str:
        return "<Sandbox>"

    def load(self, table: PublicTable) -> None:
        """Make the table `main.name`, in place of any of that name. Values beyond their type raise 706."""
        with self._turn:
            self._walled(lambda: _load(self._connection, table), 706)

    def drop(self, table: str) -> None:
        """Forget a table; there need not be one."""
        with self._turn:
            self._walled(lambda: self._connection.execute(f"DROP TABLE IF EXISTS main.{name(table)}"), 706)

    def run(self, sql: str) -> tuple[list[Typed], list[tuple[object, ...]]]:
        """The columns and rows of one question over the loaded tables. Raises 706, 703."""

        def work() -> tuple[list[Typed], list[tuple[object, ...]]]:
            result = self._connection.execute(one_select(self._connection, sql))
            return [(str(c[0]), str(c[1])) for c in result.description or []], result.fetchall()

        with self._turn:
            return self._walled(lambda: interruptible(self._connection, work), 706)

    def describe(self, sql: str) -> tuple[Typed, ...]:
        """The columns that a question over the loaded tables would have; it is not run. Raises 106."""
        with self._turn:
            return self._walled(lambda: _describe(self._connection, sql), 106)

    def define(self, schema: Schema) -> None:
        """Remember the declared tables, without rows and apart from the loaded ones, for `names`."""
        with self._turn:
            if self._declared is not None:
                self._declared.close()
            self._declared = _empty()
            for table in schema.tables:
                columns = ", ".join(f"{name(c.name)} {c.sqltype}" for c in table.columns)
                if columns:
                    self._declared.execute(f"CREATE TABLE main.{name(table.name)} ({columns})")

    def names(self, sql: str) -> tuple[Typed, ...]:
        """The columns that DuckDB would give a statement over the declared tables; it is not run. Raises 106."""
        declared = self._declared
        if declared is None:
            raise error(901, "no tables are declared to the sandbox")
        with self._turn:
            return self._walled(lambda: _describe(declared, sql), 106)

    def interrupt(self) -> None:
        """Stop what is running, from another thread."""
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()
        if self._declared is not None:
            self._declared.close()

    @staticmethod
    def _walled(work: Callable[[], Result], code: int) -> Result:
        """Raise what goes wrong as constant text, outside of any except block: DuckDB's messages quote values."""
        failed = code
        try:
            return work()
        except (Exception, KeyboardInterrupt) as fault:
            if was_interrupted(fault):
                failed = 703
            elif isinstance(fault, Error):
                failed = 901
        raise error(failed, _TEXTS.get(failed, "something other than one question reached the sandbox"))


def _empty() -> duckdb.DuckDBPyConnection:
    connection = connect(None, threads=1)
    lock(connection)
    return connection


def _describe(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[Typed, ...]:
    one_select(connection, sql)
    relation = connection.query(sql)
    return tuple((str(n), str(t)) for n, t in zip(relation.columns, relation.types, strict=True))


# --- loading ------------------------------------------------------------------------------------------------------


def _load(connection: duckdb.DuckDBPyConnection, table: PublicTable) -> None:
    target = f"CREATE OR REPLACE TABLE main.{name(table.name)}"
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

    NULL and NaN travel in a column of their own: DuckDB takes NaN in an array for NULL.
    """
    states = _states(values, sqltype)
    arrays[f"v{i}"] = _array(values, sqltype, states)
    cast = f"CAST(v{i} AS {sqltype})"
    if states is None:
        return cast
    arrays[f"s{i}"] = states
    nan = f" WHEN s{i} = {_NAN} THEN CAST('nan' AS {sqltype})" if sqltype.is_float else ""
    return f"CASE WHEN s{i} = {_NULL} THEN NULL{nan} ELSE {cast} END"


def _states(values: list[object], sqltype: SqlType) -> npt.NDArray[np.int8] | None:
    """Which values are NULL and NaN; None where every value is itself."""
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
