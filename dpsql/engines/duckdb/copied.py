"""Rows of another place, copied into a DuckDB file of the engine's private folder: for what DuckDB does not read in place.

The copy is what statements read, and what a prepared snapshot is written from. Where there is a prepared snapshot already, only public
tables are copied.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import duckdb

from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType
from dpsql.engines.base import Find, Identity
from dpsql.engines.duckdb import sources
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.loading import load_beside
from dpsql.engines.duckdb.locked import connect
from dpsql.engines.writing import name, text, unfit
from dpsql.schema.model import Column, Schema, Table

_CHUNK = "dpsql rows"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a table.

    columns  (name, type) as they come; the declared type is made of each value by itself, or NULL
    data     one list per column, as of a PublicTable
    lost     for each column the values that are there and cannot come, and so are NULL
    """

    columns: tuple[tuple[str, SqlType], ...]
    data: tuple[Sequence[object], ...]
    lost: tuple[int, ...]

    @property
    def name(self) -> str:
        return _CHUNK


Read: TypeAlias = Callable[[Table], Iterable[Chunk]]


class CopiedEngine(DuckDBEngine):
    """The declared tables as views on a copy of their rows.

    Why  each value is converted by itself, so that no row decides how another is read (rule 10), and it is done before anything is
         asked: what does not fit is NULL, whatever it is
    """

    @staticmethod
    def over(
        schema: Schema,
        tables: Sequence[Table],
        read: Read,
        origin: Identity,
        find: Find,
        outputs: Iterable[Path] = (),
        by_rows: bool = False,
    ) -> CopiedEngine:
        """Copy the rows of some tables, which have the declared columns, those of public tables too. Raises 707.

        read    gives all rows of a table, of one version
        origin  by what the rows are known again
        by_rows  whether each table is known by its rows too
        """
        snapshot, outputs = find(origin), tuple(outputs)
        opened = _opened(schema, tables, read, find=lambda _: snapshot, outputs=outputs, whole=snapshot is None)
        if snapshot is not None and opened._shown.prepared is None:
            # its files have other columns
            opened.close()
            opened = _opened(schema, tables, read, find=lambda _: None, outputs=outputs, whole=True)
        opened.signature = opened._by_rows(origin) if by_rows else origin
        if opened._shown.prepared is None:
            opened._read = origin
        return opened

    def keep(self, folder: Path) -> None:
        """Remove a folder with the engine; call before `close`."""
        self._folder = weakref.finalize(self, _remove, folder, os.getpid())

    def close(self) -> None:
        super().close()
        self._folder()


def _opened(
    schema: Schema, tables: Sequence[Table], read: Read, *, find: Find, outputs: Iterable[Path], whole: bool
) -> CopiedEngine:
    folder = Path(tempfile.mkdtemp(prefix="dpsql-copy-"))
    try:
        lost = _written(folder, tables, lambda table: read(table) if whole or table.public else ())
        # a table with the unit beside it is a view on these
        moved = tuple(replace(t, source=t.name) for t in schema.tables)
        local = replace(schema, source=str(folder / "rows.duckdb"), folder=folder, tables=moved)
        opened = CopiedEngine.begin(local, find=find, outputs=outputs)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    opened.keep(folder)
    for table in (t for t in tables if not t.public):
        counts = ", ".join(f"{n} AS {name(c.name)}" for c, n in zip(table.columns, lost[table.name], strict=True))
        opened._connection.execute(f"CREATE OR REPLACE VIEW main.{name(unfit(table))} AS SELECT {counts}")
    return opened


def _written(folder: Path, tables: Sequence[Table], read: Read) -> dict[str, list[int]]:
    """Write the file. Output: by table for each column the values that do not fit. Raises 707."""
    file, spill = folder / "rows.duckdb", folder / "spill"
    spill.mkdir(mode=0o700)
    try:
        connection = connect(spill)
        try:
            connection.execute(f"ATTACH {text(str(file))} AS {name(sources.ATTACHED)}")
            lost = {table.name: _copied(connection, table, read(table)) for table in tables}
            connection.execute(f"DETACH {name(sources.ATTACHED)}")
        finally:
            connection.close()
        return lost
    except (duckdb.Error, OSError):
        pass
    raise error(
        707, "the rows cannot be copied into a temporary file", hint="see that the disk of temporary files has room"
    )


def _copied(connection: duckdb.DuckDBPyConnection, table: Table, chunks: Iterable[Chunk]) -> list[int]:
    target = f"{name(sources.ATTACHED)}.main.{name(table.name)}"
    connection.execute(f"CREATE TABLE {target} ({', '.join(f'{name(c.name)} {c.sqltype}' for c in table.columns)})")
    lost = [0 for _ in table.columns]
    for chunk in chunks:
        load_beside(connection, chunk)
        for place, count in enumerate(_appended(connection, target, table, chunk)):
            lost[place] += count + chunk.lost[place]
    return lost


def _appended(connection: duckdb.DuckDBPyConnection, target: str, table: Table, chunk: Chunk) -> Iterator[int]:
    stored = [(column, str(sqltype)) for column, sqltype in chunk.columns]
    items = [_item(c, s) for c, s in zip(table.columns, stored, strict=True)]
    connection.execute(f"INSERT INTO {target} SELECT {', '.join(items)} FROM {name(_CHUNK)}")
    counts = ", ".join(sources.unfitting(c, s) for c, s in zip(table.columns, stored, strict=True))
    (row,) = connection.execute(f"SELECT {counts} FROM {name(_CHUNK)}").fetchall()
    yield from (int(count) for count in row)


def _item(column: Column, stored: sources.Typed) -> str:
    """A value as it is kept. Whether DuckDB 1.4 keeps the sign of -0.0 depends on the rows beside it, so nothing is kept of it."""
    value = sources.typed(column, stored)
    return f"CASE WHEN {value} = 0 THEN 0 ELSE {value} END" if column.sqltype.is_float else value


def _remove(folder: Path, owner: int) -> None:
    """Remove the copy, unless this is a fork of the process that uses it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
