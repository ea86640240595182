"""Sandbox for released and public tables: a DuckDB that holds nothing private and reaches nothing."""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import duckdb

from dpsql.core import cancellation
from dpsql.core.cancellation import require_process
from dpsql.core.columns import ResultRows
from dpsql.core.domains import MOST_CATEGORIES, Value
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import INTEGER, SqlType, parse_type
from dpsql.engines.base import Engine
from dpsql.engines.duckdb import fetch
from dpsql.engines.duckdb.dialect import measured, portable
from dpsql.engines.duckdb.loading import load
from dpsql.engines.duckdb.locked import connect, ending, lock, one_select, run
from dpsql.engines.writing import name, values
from dpsql.expressions.buckets import MACRO
from dpsql.plan.tables import PublicTable
from dpsql.schema.model import Schema

Typed = tuple[str, str]
"""(name, type as DuckDB writes it)"""

_TEXTS = {
    106: "a function, operator or clause meets what it does not take",
    706: "the released result could not be post-processed; what was charged stays charged",
    707: "a public table cannot be read",
}

Result = TypeVar("Result")
Asked = TypeVar("Asked", bound=Hashable)


class Walled:
    """One database, used by one statement at a time, whose errors are constant text.

    Errors     703, 710, 711, 712 and 110 where the statement was ended; 802 in a fork of the process; 901 for anything but one question

    make  the database
    rows  [rows] the most that a question may give; None: no limit
    """

    def __init__(self, make: Callable[[], duckdb.DuckDBPyConnection], rows: int | None) -> None:
        self._process = os.getpid()
        self._make, self._most = make, rows
        self._held: duckdb.DuckDBPyConnection | None = None
        self._described: OrderedDict[str, tuple[Typed, ...]] = OrderedDict()
        self._turn = threading.RLock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """The database; made when it is first needed."""
        if self._held is None:
            self._held = self._make()
        return self._held

    def describe(self, sql: str) -> tuple[Typed, ...]:
        """The columns that a question over the tables in it would have; it is bound and not run. Raises 106."""
        with self._turn:
            return self._walled(lambda: _describe(self._connection, sql), 106)

    def columns(self, sql: str) -> tuple[Typed, ...]:
        """The columns that a question over the tables in it would have, while these keep their columns. Raises 106.

        Why  what stands in WHERE names no column and types none, so a text with other numbers there is not asked again
        """
        asked = alike(sql)
        if asked is None:
            return self.describe(sql)
        with self._turn:
            return _newest(self._described, asked, lambda: self.describe(sql))

    def close(self) -> None:
        """Let go of it; a fork of the process leaves that to it."""
        if self._held is not None and self._process == os.getpid():
            self._held.close()

    def _read(self, result: duckdb.DuckDBPyConnection) -> tuple[list[Typed], list[tuple[object, ...]]]:
        """Columns and rows of a result that is made while it is read."""
        columns = [(str(c[0]), str(c[1])) for c in result.description or []]
        if self._most is None:
            return columns, result.fetchall()
        rows = result.fetchmany(self._most + 1)
        self._require_few(len(rows))
        return columns, rows

    def _require_few(self, rows: int) -> None:
        if self._most is not None and rows > self._most:
            raise error(cancellation.COUNTED, "more rows than the limits allow")

    def _walled(self, work: Callable[[], Result], code: int) -> Result:
        """Raise what goes wrong as constant text, outside of any except block: DuckDB's messages quote values."""
        require_process(self._process)
        try:
            return work()
        except (Exception, KeyboardInterrupt) as fault:
            known = 901 if isinstance(fault, Error) else code
            problem = ending(fault) or error(
                known,
                _TEXTS.get(known, "something other than one question reached the sandbox"),
                hint="ask its parts one by one: EXPLAIN is free" if known == 106 else "",
            )
        raise problem

    def _ran(self, work: Callable[[], Result], code: int = 706) -> Result:
        """Run a question, which its statement may end."""
        with self._turn:
            return self._walled(lambda: run(self._connection, work), code)


_WORD = re.compile(r""""(?:[^"]|"")*"|'(?:[^']|'')*'|\w+|[^\w\s]""")
"""A name or a text, whole; a word or a number; a sign."""
_UNSURE = re.compile(r"--|/\*|\\|\0|\$")
"""Characters that may begin a comment, or a text in other quotes."""
_VALUE = re.compile(r"[0-9]+|'[0-9]{4}-[0-9]{2}-[0-9]{2}'")
_AFTER = frozenset({"SELECT", "FROM", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH"})
"""Words that end a WHERE."""


def alike(sql: str) -> str | None:
    """The text with holes in place of the numbers and dates in its own WHERE; None where one could be mistaken.

    >>> alike("SELECT a + 1, COUNT(*) FROM t WHERE b > 2.5 AND d < '2020-01-31' GROUP BY 1").replace(chr(0), "?")
    'SELECT a + 1, COUNT(*) FROM t WHERE b > ?.? AND d < ? GROUP BY 1'
    """
    if _UNSURE.search(sql):
        return None
    depth, inside = 0, False

    def hole(part: re.Match[str]) -> str:
        nonlocal depth, inside
        word = part[0].upper()
        depth += (word in "([{") - (word in ")]}")
        if depth == 0:
            inside = (inside or word == "WHERE") and word not in _AFTER
        return "\0" if inside and _VALUE.fullmatch(word) else part[0]

    return _WORD.sub(hole, sql)


def _describe(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[Typed, ...]:
    one_select(connection, sql)
    relation = connection.query(sql)
    return tuple((str(n), str(t)) for n, t in zip(relation.columns, relation.types, strict=True))


MOST_KNOWN = 256
"""Lists of group keys, and columns of questions: dashboards ask for the same again."""


class Sandbox(Walled):
    """Evaluates SQL over tables that hold only released and public values.

    Why        no files, no settings, no caller's variables are in reach; one thread, so that order is no accident
    Errors     106 a statement that does not bind; 706 one that fails on its values; else as Walled
    Notes      reused for a whole connection and shared by its threads, one statement at a time

    memory  [bytes] the most that it may hold; None: DuckDB's own limit
    """

    def __init__(self, memory: int | None = None, rows: int | None = None) -> None:
        super().__init__(lambda: _sharing((), (), (), memory), rows)
        self._memory = memory
        self._engine: Engine | None = None
        self._waiting: set[str] = set()
        self._loaded: set[str] = set()
        self._known: OrderedDict[str, Sequence[tuple[Value | None, ...]] | None] = OrderedDict()
        self._tried: OrderedDict[Hashable, tuple[Typed, ...]] = OrderedDict()

    def share(self, engine: Engine, schema: Schema) -> None:
        """Show the declared public tables as `main.name`, in place of everything loaded so far; call once, before all else.

        Input   the schema with its public columns filled in
        Output  views over the public files, the only files in reach; where the source is one DuckDB file, tables that stay
                empty until they are needed, since in that file private tables would be in reach too
        Notes   a view reads the file as it is now: look at `engine.unchanged()` before and after what reads it
        Errors  707 a public file cannot be read
        """
        empty = [] if engine.shared_views else [_empty_table(engine, t.name) for t in schema.tables if t.public]
        with self._turn:
            views, files = engine.shared_views, engine.shared_files
            self._held = self._walled(lambda: _sharing(views, files, empty, self._memory), 707)
            self._engine = engine
            self._waiting = {table.name for table in empty}

    def need(self, names: Iterable[str]) -> None:
        """See that these public tables hold their rows; one that cannot be shared as a file is loaded once. Raises 702, 707.

        names  as they are declared
        """
        with self._turn:
            for table in self._waiting & set(names):
                if self._engine is not None:
                    self._fill(self._engine.public_table(table))
                    self._waiting.discard(table)

    def still_there(self, public: Collection[str]) -> None:
        """A public table is read in place: if its file was written meanwhile, what was read may be of two versions. Raises 708."""
        if public and self._engine is not None and not self._engine.unchanged():
            raise error(708, "the data files changed since the connection was opened", hint="open a new connection")

    def load(self, table: PublicTable) -> None:
        """Make the table `main.name`, in place of any of that name. Values beyond their type raise 706."""
        with self._turn:
            self._loaded.add(table.name)
            self._fill(table)

    def _fill(self, table: PublicTable) -> None:
        self._walled(lambda: load(self._connection, table), 706)

    def forget(self) -> None:
        """Drop what was loaded: the next statement cannot meet a table of the last."""
        with self._turn:
            dropped = "; ".join(f"DROP TABLE IF EXISTS main.{name(table)}" for table in sorted(self._loaded))
            self._loaded.clear()
            if dropped:
                self._walled(lambda: self._connection.execute(dropped), 706)

    def run(self, sql: str) -> ResultRows:
        """The rows of one question over the loaded tables, in its order. Raises 706."""
        return self._ran(lambda: self._typed(sql))[1]

    def _typed(self, sql: str) -> tuple[tuple[Typed, ...], ResultRows]:
        """The columns and rows of a question; the second of two columns of one name has another."""
        # DuckDB keeps the order of what it limits; it is one question before it is put in parentheses, and after
        one_select(self._connection, sql)
        most = f"SELECT * FROM ({sql}\n) LIMIT {self._most + 1}" if self._most is not None else sql
        result = self._connection.execute(one_select(self._connection, most))
        columns = tuple((str(column[0]), str(column[1])) for column in result.description or ())
        found = fetch.rows(result)
        self._require_few(len(found))
        return columns, found

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """The rows of a question of dpsql's own over the loaded tables, however many. Raises 706."""

        def work() -> list[tuple[object, ...]]:
            return self._connection.execute(one_select(self._connection, sql)).fetchall()

        return self._ran(work)

    def table(self, table: str, sql: str) -> PublicTable:
        """The rows of one question over the loaded tables, exactly, under that name; its columns are c0, c1, ...

        Raises 106 where a column is of a type that dpsql does not compute with; 706.
        """
        with self._turn:
            columns = [(f"c{i}", _computed(sqltype)) for i, (_, sqltype) in enumerate(self.describe(sql))]
            items = ", ".join(portable(column, sqltype) for column, sqltype in columns)
            asked = f"SELECT {items} FROM ({sql}\n) AS t({', '.join(column for column, _ in columns)})"
            most = f" LIMIT {self._most + 1}" if self._most is not None else ""

            def work() -> tuple[Sequence[object], ...]:
                result = self._connection.execute(one_select(self._connection, asked + most))
                data = fetch.columns(result, len(columns))
                self._require_few(len(data[0]))
                return data

            return PublicTable(table, tuple(columns), self._ran(work))

    def tuples(
        self, sql: str, types: Sequence[SqlType], public: Sequence[str]
    ) -> Sequence[tuple[Value | None, ...]] | None:
        """See PublicTuples. What public tables hold stays as it is while the connection is open, so it is asked once."""
        with self._turn:
            return _newest(self._known, sql, lambda: self._tuples(sql, types, public))

    def _tuples(
        self, sql: str, types: Sequence[SqlType], public: Sequence[str]
    ) -> Sequence[tuple[Value | None, ...]] | None:
        self.need(public)
        names = [f"c{i}" for i in range(len(types))]
        items = ", ".join(measured(column, sqltype) for column, sqltype in zip(names, types, strict=True))
        try:
            rows = self.rows(f"SELECT {items} FROM ({sql}\n) AS t({', '.join(names)}) LIMIT {MOST_CATEGORIES + 1}")
        except Error as problem:
            if problem.code in cancellation.ENDED:
                raise
            return None
        if len(rows) > MOST_CATEGORIES:
            return None
        return list(zip(*map(values, zip(*rows, strict=True), types), strict=True))

    def tried(self, sql: str, tables: Sequence[PublicTable]) -> tuple[Typed, ...]:
        """The columns that a question has over tables of these names and columns, which are forgotten again. Raises 106.

        tables  where one has rows, the question is run for nothing but to see that it can be, and what its columns are
        Why     it reads public tables beside these, and what they hold stays as it is; so the same is asked once
        """
        asked = (sql, tuple((table.name, table.columns) for table in tables))
        with self._turn:
            return _newest(self._tried, asked, lambda: self._columns(sql, tables))

    def _columns(self, sql: str, tables: Sequence[PublicTable]) -> tuple[Typed, ...]:
        try:
            for table in tables:
                self.load(table)
            if any(column for table in tables for column in table.data):
                return self._ran(lambda: self._typed(sql), 106)[0]
            return self.describe(sql)
        finally:
            self.forget()


def _newest(known: OrderedDict[Asked, Result], asked: Asked, make: Callable[[], Result]) -> Result:
    """An answer that is known, or is made; it is the newest of all, and of more than there may be the oldest is forgotten."""
    if asked not in known:
        known[asked] = make()
    known.move_to_end(asked)
    if len(known) > MOST_KNOWN:
        known.popitem(last=False)
    return known[asked]


def _sharing(
    views: Iterable[str], files: Iterable[Path], tables: Iterable[PublicTable], memory: int | None
) -> duckdb.DuckDBPyConnection:
    """A connection that reaches these files alone, shown by these views, and that holds these tables.

    It knows the functions of dpsql's own: DuckDB names their columns as they are written.
    """
    connection = connect(None, threads=1, memory=memory)
    try:
        connection.execute(MACRO)
        for view in views:
            connection.execute(view)
        lock(connection, files)
        for table in tables:
            load(connection, table)
    except BaseException:
        connection.close()
        raise
    return connection


def _empty_table(engine: Engine, table: str) -> PublicTable:
    columns = tuple((c.name, c.sqltype) for c in engine.tables[table].columns)
    return PublicTable(table, columns, tuple([] for _ in columns))


def _computed(sqltype: str) -> SqlType:
    """The type of a column; one of nothing but NULL has, in DuckDB 2.0, a type of its own, and is stored as INTEGER."""
    found = INTEGER if sqltype == '"NULL"' else parse_type(sqltype)
    if found is None:
        raise error(106, f"a column of type {sqltype} is none that dpsql computes with", hint="cast it")
    return found
