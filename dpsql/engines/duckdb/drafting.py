"""Names and types of a source for a first schema, read from file headers only."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import duckdb

from dpsql.core.errors import error
from dpsql.engines.duckdb import delimited, sources
from dpsql.engines.duckdb.locked import connect
from dpsql.schema.drafted import DraftTable, ForeignKey

SUFFIXES = (".parquet", *delimited.SUFFIXES)
_OTHERS = (".xlsx", ".orc", ".avro", ".feather", ".arrow")
"""Suffixes of data that is not read, but named."""
_DAY = re.compile(r"[-_.]?(?:\d{4}[-_]?\d{2}(?:[-_]?\d{2})?|\d{1,6})$")
"""The end of the name of one of several files of a table: a day, a month, a number."""
_CONSTRAINTS = """SELECT constraint_type, constraint_column_names, referenced_table, referenced_column_names FROM duckdb_constraints()
WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY constraint_index"""


def describe(path: Path, *, sniff: bool = False) -> list[DraftTable]:
    """The tables of a folder or of a DuckDB file, by name. A CSV file's columns are all text. Raises 707.

    sniff  read the values of CSV files, and give their columns the types in which all of them are written
    """
    if not path.exists():
        raise error(707, f"{path} does not exist", hint="write a folder of Parquet or CSV files, or a DuckDB file")
    connection = connect(None)
    try:
        return _folder(connection, path, sniff) if path.is_dir() else _database(connection, path)
    finally:
        connection.close()


def _folder(connection: duckdb.DuckDBPyConnection, path: Path, sniff: bool) -> list[DraftTable]:
    found = [*_patterns(path), *_of_days(path)]
    if not found:
        others = sorted(one.name for one in _files(path, _OTHERS))
        what = f"; {others[0]} is not read: write it as Parquet" if others else ""
        raise error(
            707, f"{path} holds no Parquet or CSV file{what}", hint="write a folder that holds some, or a DuckDB file"
        )
    drafts = []
    for name, written, files in found:
        source = sources.StoredSource(name, files)
        draft = _table(connection, source, written)
        drafts.append(_sniffed(connection, source, draft) if sniff and source.is_csv else draft)
    return drafts


Found = tuple[str, str, tuple[Path, ...]]
"""A table: its name, its source as a schema writes it, and the files."""


def _patterns(path: Path) -> list[Found]:
    """The tables of the files in a folder; several that differ by a day or a number at the end of their names are one."""
    together: dict[tuple[str, str], list[Path]] = {}
    for file in _files(path, SUFFIXES):
        name, suffix = split(file)
        day = _DAY.search(name)
        begins = name[: day.start()] if day and day.start() else ""
        mark = name[len(begins)] if begins and name[len(begins)] in "-_." else ""
        together.setdefault((f"{begins}{mark}" if begins else name, suffix), []).append(file)
    found: list[Found] = []
    for (begins, suffix), files in together.items():
        pattern = f"{begins}*{suffix}"
        # a pattern that would take in another table's file is none
        if len(files) > 1 and set(path.glob(pattern)) == set(files):
            found.append((begins.rstrip("-_."), pattern, tuple(files)))
        else:
            found += [(split(file)[0], file.name, (file,)) for file in files]
    return found


def _of_days(path: Path) -> list[Found]:
    """Folders whose files are all of one kind: each is a table of all of them."""
    found: list[Found] = []
    # a name with a dot is that of something else, such as a prepared snapshot
    for folder in sorted(
        one for one in path.iterdir() if one.is_dir() and "." not in one.name and os.access(one, os.R_OK)
    ):
        files = _files(folder, SUFFIXES)
        suffixes = {split(file)[1] for file in files}
        if len(suffixes) == 1:
            found.append((folder.name, f"{folder.name}/*{suffixes.pop()}", tuple(files)))
    return found


def _files(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    try:
        within = sorted(path.iterdir())
    except OSError:
        within = None
    if within is None:
        raise error(707, f"the folder {path} may not be read", hint="allow this user to read it")
    return [f for f in within if f.name.lower().endswith(suffixes) and not f.name.startswith(".") and f.is_file()]


def split(file: Path) -> tuple[str, str]:
    """The name of a file without its suffix, and the suffix: orders, .csv.gz."""
    suffix = next(s for s in sorted(SUFFIXES, key=len, reverse=True) if file.name.lower().endswith(s))
    return file.name[: -len(suffix)], file.name[-len(suffix) :]


def _sniffed(connection: duckdb.DuckDBPyConnection, source: sources.StoredSource, draft: DraftTable) -> DraftTable:
    """The table with the types in which all its values are written: read off the rows, as its owner asked."""
    names = [column for column, _ in draft.columns]
    row = connection.execute(delimited.inference(source.paths, names)).fetchone()
    assert row is not None
    return replace(draft, columns=list(zip(names, map(str, row), strict=True)))


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
