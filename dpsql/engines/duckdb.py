"""The engine that reads the data: DuckDB in this process, shown the declared tables and nothing else."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import duckdb

from dpsql.domains import UNBOUNDED, Value
from dpsql.engines import delimited, fetch, sources
from dpsql.engines.base import ExactTable
from dpsql.engines.locked import connect, interruptible, lock, name, one_select, was_interrupted
from dpsql.engines.signature import Signature
from dpsql.engines.values import measured, value
from dpsql.errors import Error, error
from dpsql.plan import PublicTable
from dpsql.schema.model import Column, Schema, Table
from dpsql.sqltypes import SqlType, parse_type

_TEXTS = {
    701: "the engine could not finish the statement; nothing was released and what was charged stays charged",
    702: "the data changed after it was opened; nothing was released and what was charged stays charged",
    703: "interrupted; nothing was released and what was charged stays charged",
    707: "a data source cannot be read",
}
"""Constants: from here on data has been touched, and DuckDB's own messages quote it."""

Result = TypeVar("Result")


class DuckDBEngine:
    """The declared tables of one schema as views, on files that are read in place.

    Input      Parquet and CSV files of a folder, or the tables of a DuckDB file
    Output     views with the declared names, columns and types; a value that does not fit its type is NULL
    Why        access is limited to those files, settings are locked, nothing is logged; one private folder takes what
               does not fit in memory, and it goes with the engine
    Errors     707 a file is missing or cannot be read; 804 it does not have the declared columns
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, tables: tuple[Table, ...], signature: Signature, spill: Path
    ) -> None:
        self._connection = connection
        self.tables = {t.name: t for t in tables}
        self._remove = weakref.finalize(self, _remove, spill, os.getpid())
        self._running: set[duckdb.DuckDBPyConnection] = set()
        self._guard = threading.Lock()
        self.signature = signature

    def __repr__(self) -> str:
        return "<DuckDBEngine>"

    def __reduce__(self) -> str:
        raise TypeError("an engine cannot be copied or pickled")

    @staticmethod
    def open(schema: Schema) -> DuckDBEngine:
        """Show the declared tables. Public tables get all columns that dpsql computes with. Raises 707, 804."""
        spill = Path(tempfile.mkdtemp(prefix="dpsql-"))
        connection = connect(spill)
        try:
            tables, signature = _show(connection, schema)
        except BaseException:
            connection.close()
            _remove(spill, os.getpid())
            raise
        return DuckDBEngine(connection, tables, signature, spill)

    def exact(self, sql: str, keys: int, sums: int) -> ExactTable:
        """Exact sums of one statement: its first columns are group keys, the next sums [quanta]; see Engine."""

        def read(cursor: duckdb.DuckDBPyConnection) -> ExactTable:
            columns = fetch.lists(cursor.execute(one_select(cursor, sql)), keys + sums)
            key_lists = tuple(fetch.keys(column) for column in columns[:keys])
            return ExactTable(key_lists, tuple(fetch.integers(column) for column in columns[keys:]))

        return self._walled(read, 701)

    def owner_rows(self, sql: str) -> list[tuple[object, ...]]:
        """Exact rows, for the owner's check and about public tables; never on an analyst's behalf."""
        return self._walled(lambda cursor: cursor.execute(one_select(cursor, sql)).fetchall(), 707)

    def public_table(self, table: str) -> PublicTable:
        """All rows of a public table, ready for the sandbox. Raises 707, 702."""
        columns = tuple((c.name, c.sqltype) for c in self._public(table).columns)
        items = ", ".join(_portable(name(column), sqltype) for column, sqltype in columns)
        sql = f"SELECT {items} FROM main.{name(table)}"
        data = self._walled(lambda cursor: fetch.lists(cursor.execute(sql), len(columns)), 707)
        return PublicTable(table, columns, data)

    def distinct(self, table: str, column: str, limit: int | None = None) -> list[Value]:
        """The values of a public table's column as domains hold them, in no order, without NULL, NaN and infinity.

        With a limit at most that many, so that a caller can tell cheaply that there are more.
        """
        sqltype = next(c.sqltype for c in self._public(table).columns if c.name == column)
        source = f"SELECT {measured(name(column), sqltype)} AS v FROM main.{name(table)}"
        most = "" if limit is None else f" LIMIT {limit}"
        rows = self.owner_rows(f"SELECT DISTINCT v FROM ({source}) WHERE v IS NOT NULL{most}")
        return [value(cell, sqltype) for (cell,) in rows]

    def columns(self, table: str) -> list[tuple[str, str]]:
        """(name, type) of the columns that a table shows."""
        return [(c.name, str(c.sqltype)) for c in self.tables[table].columns]

    def unchanged(self) -> bool:
        """Whether the files are still those that were opened, as far as the file system tells."""
        return self.signature.holds()

    def interrupt(self) -> None:
        """Stop every statement that is running, from another thread."""
        with self._guard:
            for cursor in self._running:
                cursor.interrupt()

    def close(self) -> None:
        """Let the files go, and remove what was spilled."""
        self._connection.close()
        self._remove()

    def _public(self, table: str) -> Table:
        found = self.tables[table]
        if not found.public:
            raise error(901, "a private table was about to be read as a public one")
        return found

    def _walled(self, read: Callable[[duckdb.DuckDBPyConnection], Result], code: int) -> Result:
        """Run something on a fresh cursor; raise what goes wrong as constant text, outside of any except block."""
        before = self.unchanged()
        result, failed = self._attempt(read, code) if before else (None, 702)
        if failed != 703 and not self.unchanged():
            failed = 702
        if failed is not None or result is None:
            raise error(failed or code, _TEXTS.get(failed or code, "an invariant of the engine failed"))
        return result

    def _attempt(
        self, read: Callable[[duckdb.DuckDBPyConnection], Result], code: int
    ) -> tuple[Result | None, int | None]:
        try:
            with self._cursor() as cursor:
                return interruptible(cursor, lambda: read(cursor)), None
        except (Exception, KeyboardInterrupt) as fault:
            if was_interrupted(fault):
                return None, 703
            return None, 901 if isinstance(fault, Error) else code

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._connection.cursor()
        with self._guard:
            self._running.add(cursor)
        try:
            yield cursor
        finally:
            with self._guard:
                self._running.discard(cursor)
            cursor.close()


def _remove(spill: Path, owner: int) -> None:
    """Remove a spill folder, unless this is a fork of the process that uses it."""
    if os.getpid() == owner:
        shutil.rmtree(spill, ignore_errors=True)


def _show(connection: duckdb.DuckDBPyConnection, schema: Schema) -> tuple[tuple[Table, ...], Signature]:
    """Make the views and lock the connection; the tables as shown, and the files' signature from before."""
    path = sources.root(schema)
    if path.is_dir():
        found = sources.in_folder(path, schema.tables)
        signature = Signature.take(sources.files(found))
    else:
        signature = Signature.take(sources.files([sources.Source("", path, ("", ""))]))
        sources.attach(connection, path)
        found = sources.in_database(connection, path, schema.tables)
    tables = _views(connection, schema, found)
    lock(connection, sources.files(found))
    return tables, signature


def _views(connection: duckdb.DuckDBPyConnection, schema: Schema, found: list[sources.Source]) -> tuple[Table, ...]:
    stored = [sources.stored_columns(connection, source) for source in found]
    tables = [
        _public_columns(connection, t, s, c) if t.public else t
        for t, s, c in zip(schema.tables, found, stored, strict=True)
    ]
    parts = list(zip(tables, found, stored, strict=True))
    sources.raise_all(804, [line for part in parts for line in (*sources.unfit(*part), *_unkeyed(part[0], part[1]))])
    for part in parts:
        connection.execute(sources.view(*part))
    return tuple(tables)


def _public_columns(
    connection: duckdb.DuckDBPyConnection, table: Table, source: sources.Source, stored: list[sources.Typed]
) -> Table:
    """A public table with all columns that dpsql computes with; of CSV in the types that all values have."""
    if source.inner is None and source.path.suffix.lower() == ".csv":
        row = connection.execute(delimited.inference(source.path, [c for c, _ in stored])).fetchone()
        types = [parse_type(str(sqltype)) for sqltype in row or ()]
    else:
        types = [sources.computable(sqltype) for _, sqltype in stored]
    columns = (
        Column(column, sqltype, UNBOUNDED, True, "")
        for (column, _), sqltype in zip(stored, types, strict=True)
        if sqltype is not None
    )
    return replace(table, columns=tuple(columns))


def _unkeyed(table: Table, source: sources.Source) -> list[str]:
    """One line for each key column that a public table does not have; a private table's are declared columns."""
    return [
        f"{source.place}: key names {column}, which the file does not have"
        for column in table.key
        if table.public and table.column(column) is None
    ]


def _portable(column: str, sqltype: SqlType) -> str:
    """SQL of a value in a form that Python holds exactly."""
    exact = (sqltype.is_integer and sqltype.name not in ("HUGEINT", "UBIGINT")) or sqltype.is_float
    return column if exact or sqltype.is_boolean or sqltype.is_text else f"CAST({column} AS VARCHAR)"
