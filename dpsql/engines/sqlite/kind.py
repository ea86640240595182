"""SQLite as a kind of engine, for those who open a source: its rows are copied, and DuckDB answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dpsql.core.domains import UNBOUNDED
from dpsql.engines.base import Engine, Find, UnitPlace
from dpsql.engines.duckdb import sources
from dpsql.engines.duckdb.copied import Chunk, CopiedEngine
from dpsql.engines.duckdb.kind import KIND as DUCKDB
from dpsql.engines.signature import ALL_FILES, DeclaredFiles, FileParts, Signature
from dpsql.engines.sqlite import reading
from dpsql.engines.sqlite.reading import FileTable, OpenFile
from dpsql.engines.writing import raise_all
from dpsql.schema.drafted import DraftTable
from dpsql.schema.model import Column, Schema, Table
from dpsql.schema.paths import require_agreeing


@dataclass(frozen=True, slots=True)
class SQLiteKind:
    """The tables of a SQLite file: its path, or `sqlite:///` and the path."""

    @property
    def version(self) -> str:
        return f"sqlite 1, {DUCKDB.version}"

    def begin(
        self,
        schema: Schema,
        find: Find,
        outputs: Iterable[Path] = (),
        only: FileParts = ALL_FILES,
    ) -> Engine:
        require_agreeing(schema)
        path = _path(schema)
        signature = Signature.take(reading.files(path))
        every = tuple(file for file, *_ in signature.files)
        identity = DeclaredFiles(signature, tuple((t.name, every) for t in schema.tables))

        def work(held: OpenFile) -> Engine:
            parts = _parts(held, schema)
            tables = [table for table, _ in parts]
            stored = {table.name: found for table, found in parts}
            return CopiedEngine.over(
                schema, tables, lambda t: _rows(held, t, stored[t.name]), identity, find, outputs, True
            )

        return reading.read(path, signature, work)

    def places(self, schema: Schema) -> tuple[UnitPlace, ...]:
        path = _path(schema)
        return (UnitPlace(str(path), path),)

    def describe(self, source: str, *, sniff: bool = False) -> tuple[str, str, list[DraftTable]]:
        path = reading.located(Path(_bare(source)).resolve())
        tables = reading.read(path, Signature.take(reading.files(path)), OpenFile.drafted)
        return path.stem, str(path), tables

    def require_copies(self, schema: Schema) -> None:
        """It makes them."""


def _bare(source: str) -> str:
    """A source's path: what stands behind `sqlite:///`, if that does."""
    return source.removeprefix("sqlite:").removeprefix("///")


def _path(schema: Schema) -> Path:
    return reading.located((schema.folder / _bare(schema.source)).resolve())


def _parts(held: OpenFile, schema: Schema) -> list[tuple[Table, FileTable]]:
    """The declared tables, with all columns, and where they are. Raises 707, 804 with everything that is wrong."""
    tables = {table.name: table for table in held.tables()}
    found = sources.in_database(held.path, schema.tables, [("main", name) for name in tables])
    stored = [tables[source.inner[1]] for source in found if source.inner is not None]
    whole = [_public(t, s) if t.public else t for t, s in zip(schema.tables, stored, strict=True)]
    names = [[(column, "VARCHAR") for column, _ in each.columns] for each in stored]
    lines = (sources.missing(*part) for part in zip(whole, found, names, strict=True))
    raise_all(804, [line for some in lines for line in some])
    return list(zip(whole, stored, strict=True))


def _public(table: Table, stored: FileTable) -> Table:
    columns = ((column, reading.computable(written)) for column, written in stored.columns)
    return replace(table, columns=tuple(Column(c, t, UNBOUNDED, True, "") for c, t in columns if t is not None))


def _rows(held: OpenFile, table: Table, stored: FileTable) -> Iterator[Chunk]:
    names = {column.lower(): column for column, _ in stored.columns}
    return held.rows(stored.name, [names[column.name.lower()] for column in table.columns])


KIND = SQLiteKind()
