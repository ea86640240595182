"""Names and types of a source for a first schema, read from file headers only."""

from __future__ import annotations

from pathlib import Path

import duckdb

from dpsql.core.errors import error
from dpsql.engines.duckdb import sources
from dpsql.engines.duckdb.locked import connect
from dpsql.schema.drafted import DraftTable

SUFFIXES = (".parquet", ".csv")


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
    return [_table(connection, sources.StoredSource(file.stem, file), file.name) for file in files]


def _database(connection: duckdb.DuckDBPyConnection, path: Path) -> list[DraftTable]:
    sources.attach(connection, path)
    stored = sources.stored_tables(connection)
    return [_table(connection, sources.StoredSource(s[1], path, s), sources.dotted(s)) for s in stored]


def _table(connection: duckdb.DuckDBPyConnection, source: sources.StoredSource, written: str) -> DraftTable:
    columns = sources.stored_columns(connection, source)
    name = source.table if source.inner is None else written
    return DraftTable(name, written, [(column, _plain(sqltype)) for column, sqltype in columns])


def _plain(sqltype: str) -> str:
    """A type without what it quotes of the rows: an ENUM lists its values."""
    return "VARCHAR" if sqltype.startswith("ENUM") else sqltype if "'" not in sqltype else sqltype.partition("(")[0]
