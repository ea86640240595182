"""Names and types of a source for a first schema, read from file headers only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb

from dpsql.core.errors import error
from dpsql.engines.duckdb import sources
from dpsql.engines.duckdb.locked import connect
from dpsql.schema.drafted import DraftTable, ForeignKey

SUFFIXES = (".parquet", ".csv")
_CONSTRAINTS = """SELECT constraint_type, constraint_column_names, referenced_table, referenced_column_names FROM duckdb_constraints()
WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY constraint_index"""


def describe(path: Path) -> list[DraftTable]:
    """The tables of a folder or of a DuckDB file, by name. A CSV file's columns are all text. Raises 707."""
    if not path.exists():
        raise error(707, f"{path} does not exist", hint="write a folder of Parquet or CSV files, or a DuckDB file")
    connection = connect(None)
    try:
        return (_folder if path.is_dir() else _database)(connection, path)
    finally:
        connection.close()


def _folder(connection: duckdb.DuckDBPyConnection, path: Path) -> list[DraftTable]:
    try:
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
    except OSError:
        files = None
    if files is None:
        raise error(707, f"the folder {path} may not be read", hint="allow this user to read it")
    return [_table(connection, sources.StoredSource(file.stem, (file,)), file.name) for file in files]


def _database(connection: duckdb.DuckDBPyConnection, path: Path) -> list[DraftTable]:
    sources.attach(connection, path)
    stored = sources.stored_tables(connection)
    drafts = [_table(connection, sources.StoredSource(s[1], (path,), s), sources.dotted(s)) for s in stored]
    return [_declared(connection, draft, place) for draft, place in zip(drafts, stored, strict=True)]


def _declared(connection: duckdb.DuckDBPyConnection, draft: DraftTable, place: tuple[str, str]) -> DraftTable:
    """The table with the keys that the file declares; where it declares nothing of the table, what may be NULL is not known."""
    found = connection.execute(_CONSTRAINTS, [sources.ATTACHED, *place]).fetchall()
    keys = [tuple(columns) for kind, columns, *_ in found if kind == "PRIMARY KEY"]
    foreign = (
        ForeignKey(tuple(columns), sources.dotted((place[0], table)), tuple(targets))
        for kind, columns, table, targets in found
        if kind == "FOREIGN KEY"
    )
    never = frozenset(
        column for kind, columns, *_ in found if kind in ("NOT NULL", "PRIMARY KEY") for column in columns
    )
    return replace(draft, key=keys[0] if keys else (), foreign_keys=tuple(foreign), required=never if found else None)


def _table(connection: duckdb.DuckDBPyConnection, source: sources.StoredSource, written: str) -> DraftTable:
    columns = sources.stored_columns(connection, source)
    name = source.table if source.inner is None else written
    return DraftTable(name, written, [(column, _plain(sqltype)) for column, sqltype in columns])


def _plain(sqltype: str) -> str:
    """A type without what it quotes of the rows: an ENUM lists its values."""
    return "VARCHAR" if sqltype.startswith("ENUM") else sqltype if "'" not in sqltype else sqltype.partition("(")[0]
