"""The declared tables without rows, and what was spent: what names and types are read off, and SHOW and DESCRIBE answered with."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence

import duckdb

from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.engines.duckdb.loading import load, load_into
from dpsql.engines.duckdb.locked import connect, lock, one_select
from dpsql.engines.writing import name
from dpsql.expressions.buckets import MACRO
from dpsql.plan.tables import PublicTable
from dpsql.postprocess.sandbox import Typed, Walled
from dpsql.schema import spent
from dpsql.schema.model import Schema
from dpsql.schema.qualifiers import MAIN, place, sql_schemas

_CATALOG = re.compile(r'SHOW TABLES|DESCRIBE ("(dpsql|synthetic)"\.)?"(?:[^"]|"")+"')
_TAKEN = (MAIN, "memory", "system", "temp", "information_schema", "pg_catalog", spent.SCHEMA, spent.ROWS)

Placed = Callable[[str], tuple[str, str]]
"""The SQL schema and name that a declared table has."""


class EmptyTables(Walled):
    """The declared tables without rows, at chosen places, and the tables of what was spent.

    schema  with the columns of its public tables, which were learned at opening
    placed  gives the SQL schema and name of each declared table here
    memory  [bytes] the most that they may hold; None: DuckDB's own limit
    """

    def __init__(self, schema: Schema, placed: Placed, memory: int | None, rows: int | None) -> None:
        super().__init__(lambda: self._walled(lambda: _declaring(schema, placed, memory), 106), rows)
        self._rows_of: dict[str, Hashable] = {}

    def spent(self, tables: Sequence[PublicTable]) -> None:
        """Refresh the amounts spent in the sandbox, in place of what these tables of it held. Raises 706."""
        with self._turn:
            for table in tables:
                self._walled(lambda table=table: load_into(self._connection, spent.SCHEMA, table), 706)  # type: ignore[misc]

    def hold(self, within: str, table: PublicTable, key: Hashable) -> None:
        """Hold a table with its rows in a SQL schema, in place of one of its name with another key. Raises 706."""
        with self._turn:
            if self._rows_of.get(table.name.lower()) == key:
                return

            def work() -> None:
                self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name(within)}")
                load_into(self._connection, within, table)

            self._walled(work, 706)
            # what was described before may have had other columns
            self._described.clear()
            self._rows_of[table.name.lower()] = key

    def rows(self, sql: str) -> tuple[list[Typed], list[tuple[object, ...]]]:
        """The columns and rows of one question: SELECT over the tables here, SHOW TABLES or DESCRIBE "t". Raises 106."""

        def work() -> tuple[list[Typed], list[tuple[object, ...]]]:
            asked = sql if _CATALOG.fullmatch(sql) else one_select(self._connection, sql)
            return self._read(self._connection.execute(asked))

        return self._ran(work, 106)


class DeclaredTables(EmptyTables):
    """Tells the columns of what is asked over the declared tables, which are empty here: planning reads no row of any table.

    A statement names each table by its whole name, a point in it or not; here all are in one SQL schema.

    shown  the same, each in its own SQL schema: for information_schema
    """

    def __init__(self, schema: Schema, memory: int | None = None, rows: int | None = None) -> None:
        super().__init__(schema, lambda name: (MAIN, name), memory, rows)
        self.shown: EmptyTables = EmptyTables(schema, place, memory, rows) if sql_schemas(schema) != [MAIN] else self

    def describe_public(self, sql: str, empty: Sequence[PublicTable]) -> tuple[tuple[str, SqlType], ...]:
        """See PublicTypes."""
        with self._turn:
            try:
                for table in empty:
                    self._walled(lambda table=table: load(self._connection, table), 706)  # type: ignore[misc]
                described = [(column, parse_type(text)) for column, text in self.describe(sql)]
            finally:
                dropped = "; ".join(f"DROP TABLE IF EXISTS main.{name(table.name)}" for table in empty)
                if dropped:
                    self._walled(lambda: self._connection.execute(dropped), 706)
        unknown = next((column for column, sqltype in described if sqltype is None), None)
        if unknown is not None:
            raise error(106, f"{unknown} has a type that cannot be used beside people's rows", hint="cast it")
        return tuple((column, sqltype) for column, sqltype in described if sqltype is not None)

    def spent(self, tables: Sequence[PublicTable]) -> None:
        super().spent(tables)
        if self.shown is not self:
            self.shown.spent(tables)

    def close(self) -> None:
        super().close()
        if self.shown is not self:
            self.shown.close()


def _declaring(schema: Schema, placed: Placed, memory: int | None) -> duckdb.DuckDBPyConnection:
    """A connection that reaches nothing and holds the declared tables and those of what was spent, all without rows.

    information_schema shows them under the dataset's name, unless DuckDB needs that name itself.
    """
    connection = connect(None, threads=1, memory=memory)
    try:
        if schema.name.lower() not in _TAKEN:
            connection.execute(f"ATTACH ':memory:' AS {name(schema.name)}; USE {name(schema.name)}; DETACH memory")
        connection.execute(MACRO)
        lock(connection)
        for table in schema.tables:
            within, own = map(name, placed(table.name))
            columns = ", ".join(f"{name(c.name)} {c.sqltype}{'' if c.nullable else ' NOT NULL'}" for c in table.columns)
            if columns:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {within}; CREATE TABLE {within}.{own} ({columns})")
        connection.execute(f"CREATE SCHEMA {name(spent.SCHEMA)}")
        for shown, listed in spent.TABLES.items():
            load_into(connection, spent.SCHEMA, PublicTable(shown, listed, tuple([] for _ in listed)))
    except BaseException:
        connection.close()
        raise
    return connection
