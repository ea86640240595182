"""Common parts of all engines, and of those that ask a server of the owner's in place: public tables, and errors of constant text."""

from __future__ import annotations

import ctypes
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import SqlType
from dpsql.engines.base import Dialect, Kept, RaisedError
from dpsql.engines.dialects.words import DialectWords, is_narrow
from dpsql.engines.writing import name as quoted
from dpsql.plan.tables import PublicTable
from dpsql.schema.model import Schema, Table

Rows = list[tuple[object, ...]]
TEXTS = {
    701: "the engine could not finish the statement; nothing was released and what was charged stays charged",
    702: "the data changed after it was opened; nothing was released and what was charged stays charged",
    704: "the prepared snapshot cannot be written into the database that is named for it",
    707: "a data source cannot be read",
    903: "what crossed from the engine is not an integer, or no group key; nothing was released and what was charged stays charged",
}
"""Constants: from here on data has been touched, and the engines' own messages quote it."""


class TableEngine(ABC):
    """See base.Engine; what is here is the same of every engine."""

    dialect: Dialect
    tables: Mapping[str, Table]

    def __reduce__(self) -> str:
        raise TypeError("an engine cannot be copied or pickled")

    @abstractmethod
    def owner_rows(self, sql: str) -> Rows: ...

    def name(self, identifier: str) -> str:
        """An identifier."""
        return quoted(identifier)

    def as_text(self, value: str) -> str:
        return f"CAST({value} AS VARCHAR)"

    def columns(self, sql: str, width: int) -> tuple[Sequence[object], ...]:
        """So many columns of exact values, for its owner and about public tables."""
        rows = self.owner_rows(sql)
        return tuple([row[i] for row in rows] for i in range(width))

    def public_table(self, table: str) -> PublicTable:
        columns = tuple((c.name, c.sqltype) for c in self._public(table).columns)
        items = ", ".join(self._portable(self.name(column), sqltype) for column, sqltype in columns)
        sql = f"SELECT {items} FROM {self.dialect.relation(table)}"
        return PublicTable(table, columns, self.columns(sql, len(columns)))

    def _portable(self, column: str, sqltype: SqlType) -> str:
        """SQL of a value in a form that Python holds exactly, as DuckDB writes it."""
        plain = is_narrow(sqltype) or sqltype.is_float or sqltype.is_boolean or sqltype.is_text
        return column if plain else self.as_text(column)

    def _public(self, table: str) -> Table:
        found = self.tables[table]
        if not found.public:
            raise error(901, "a private table was about to be read as a public one")
        return found


class ServedEngine(TableEngine):
    """See base.Engine; what is here is the same of every server."""

    words: DialectWords
    shared_views: tuple[str, ...] = ()
    shared_files: tuple[Path, ...] = ()

    def name(self, identifier: str) -> str:
        return self.words.name(identifier)

    def as_text(self, value: str) -> str:
        return self.words.cast(value, SqlType("VARCHAR"))

    def show_added(self, table: Table, since: Mapping[str, int], columns: Sequence[str]) -> Table | None:
        raise error(901, "a table of a server has no files here")

    def copy(self, schema: Schema, table: Table, file: Path, kept: Kept | None = None) -> None:
        raise error(901, "a server makes no prepared snapshot")


def told(
    fault: BaseException, code: int, of_machine: Callable[[BaseException], bool], texts: Mapping[int, str] = TEXTS
) -> Error:
    """The error of a failure, in constant text; what is an error of dpsql's own passes where it says nothing of values.

    of_machine  whether the engine lacks something, whatever the values are
    """
    if isinstance(fault, Error):
        if fault.code in ("DPSQL-702", "DPSQL-707", "DPSQL-804"):
            return fault
        return error(903, texts[903]) if fault.code == "DPSQL-903" else error(901, "an invariant of the engine failed")
    if code == 701 and not of_machine(fault):
        return RaisedError(701, texts[701])
    return error(code, texts[code])


def outlive_forks(connection: object) -> None:
    """In a child process, keep a connection for ever: to close it there would end that of the parent, or wait for its threads."""
    known = weakref.ref(connection)

    def in_child() -> None:
        alive = known()
        if alive is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(alive))

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)
