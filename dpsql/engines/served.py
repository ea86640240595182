"""Common parts of the engines that ask a server of the owner's in place: tables without files, and errors of constant text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dpsql.core.domains import Value
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import SqlType
from dpsql.engines.base import Dialect, Kept, RaisedError
from dpsql.engines.dialects.words import DialectWords, is_narrow
from dpsql.engines.writing import value
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
"""Constants: from here on data has been touched, and a server's own messages quote it."""


class ServedEngine(ABC):
    """See base.Engine; what is here is the same of every server."""

    dialect: Dialect
    tables: Mapping[str, Table]
    words: DialectWords
    shared_views: tuple[str, ...] = ()
    shared_files: tuple[Path, ...] = ()

    def __reduce__(self) -> str:
        raise TypeError("an engine cannot be copied or pickled")

    @abstractmethod
    def owner_rows(self, sql: str) -> Rows: ...

    def show_added(self, table: Table, since: Mapping[str, int], columns: Sequence[str]) -> Table | None:
        raise error(901, "a table of a server has no files here")

    def copy(self, schema: Schema, table: Table, file: Path, kept: Kept | None = None) -> None:
        raise error(901, "a server makes no prepared snapshot")

    def public_table(self, table: str) -> PublicTable:
        columns = tuple((c.name, c.sqltype) for c in self._public(table).columns)
        items = ", ".join(self._portable(self.words.name(column), sqltype) for column, sqltype in columns)
        rows = self.owner_rows(f"SELECT {items} FROM {self.words.name(table)}")
        return PublicTable(table, columns, tuple([row[i] for row in rows] for i in range(len(columns))))

    def distinct(self, table: str, column: str, limit: int | None = None) -> list[Value]:
        sqltype = next(c.sqltype for c in self._public(table).columns if c.name == column)
        source = f"SELECT {self.dialect.measured(self.words.name(column), sqltype)} AS v FROM {self.words.name(table)}"
        most = "" if limit is None else f" LIMIT {limit}"
        rows = self.owner_rows(f"SELECT DISTINCT v FROM ({source}) AS held WHERE v IS NOT NULL{most}")
        return [value(cell, sqltype) for (cell,) in rows]

    def _portable(self, column: str, sqltype: SqlType) -> str:
        """SQL of a value in a form that Python holds exactly, as DuckDB writes it."""
        plain = is_narrow(sqltype) or sqltype.is_float or sqltype.is_boolean or sqltype.is_text
        return column if plain else self.words.cast(column, SqlType("VARCHAR"))

    def _public(self, table: str) -> Table:
        found = self.tables[table]
        if not found.public:
            raise error(901, "a private table was about to be read as a public one")
        return found


def told(fault: BaseException, code: int, of_machine: Callable[[BaseException], bool]) -> Error:
    """The error of a failure, in constant text; what is an error of dpsql's own passes where it says nothing of values.

    of_machine  whether the server lacks something, whatever the values are
    """
    if isinstance(fault, Error):
        if fault.code in ("DPSQL-702", "DPSQL-707", "DPSQL-804"):
            return fault
        return error(903, TEXTS[903]) if fault.code == "DPSQL-903" else error(901, "an invariant of the engine failed")
    if code == 701 and not of_machine(fault):
        return RaisedError(701, TEXTS[701])
    return error(code, TEXTS[code])
