"""Sources of the declared tables: files and columns of them, and the view that shows a table as declared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import VARCHAR, SqlType, parse_type
from dpsql.engines.duckdb import delimited
from dpsql.engines.writing import name, raise_all, text, too_long, unfit
from dpsql.schema.mistakes import nearest, printable, suggestion
from dpsql.schema.model import Column, Schema, Table

ATTACHED = "dpsql source"
Typed = tuple[str, str]
"""(name, type as DuckDB writes it)"""

_TABLES = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? ORDER BY ALL"


@dataclass(frozen=True, slots=True)
class StoredSource:
    """The place of one table: a file, or a table (schema, name) inside a DuckDB file."""

    table: str
    path: Path
    inner: tuple[str, str] | None = None

    @property
    def place(self) -> str:
        """Name of the source in a message."""
        return f"{self.path}, table {printable(self.table)}"


# --- files --------------------------------------------------------------------------------------------------------


def root(schema: Schema) -> Path:
    """The dataset's folder or DuckDB file. Raises 707."""
    path = (schema.folder / bare(schema.source)).resolve()
    if not path.exists():
        raise error(
            707,
            f"[dataset] source {printable(schema.source)} does not exist: {path}",
            hint="write a folder or a DuckDB file",
        )
    return path


def bare(source: str) -> str:
    """A source without DuckDB's scheme."""
    return source.removeprefix("duckdb:")


def in_folder(folder: Path, tables: Iterable[Table]) -> list[StoredSource]:
    """The file of every table. Raises 707 with everything that is missing or cannot be read."""
    sources = [StoredSource(t.name, (folder / t.source).resolve()) for t in tables]
    raise_all(707, [f"{s.place}: {what}" for s in sources if (what := unreadable(s.path)) is not None])
    return sources


def in_database(path: Path, tables: Iterable[Table], stored: list[tuple[str, str]]) -> list[StoredSource]:
    """Of every declared table the one in a database file, which holds these. Raises 707 with everything that is missing.

    Views inside the file do not count: they could reach other files, or change from one reading to the next.
    """
    sources, lines = [], []
    for table in tables:
        inner = _match(table.source, stored)
        if inner is None:
            hint = suggestion(table.source, [dotted(s) for s in stored])
            lines.append(f"{path}, table {printable(table.name)}: holds no table {printable(table.source)}; {hint}")
        else:
            sources.append(StoredSource(table.name, path, inner))
    raise_all(707, lines)
    return sources


def attach(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Open a DuckDB file for reading only. Raises 707."""
    problem = unreadable(path)
    try:
        if problem is None:
            connection.execute(f"ATTACH {text(str(path))} AS {name(ATTACHED)} (READ_ONLY)")
            return
    except duckdb.Error:
        problem = (
            f"is not a DuckDB file that DuckDB {duckdb.__version__} can read, or a program has it open for writing"
        )
    raise error(707, f"{path}: {problem}")


def stored_tables(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """(schema, name) of every table in the attached file."""
    return [(str(s), str(t)) for s, t in connection.execute(_TABLES, [ATTACHED]).fetchall()]


def files(sources: Iterable[StoredSource]) -> list[Path]:
    """Every file that the tables are read from; a DuckDB file's log of changes is one, also while there is none."""
    found: dict[Path, None] = {}
    for source in sources:
        found[source.path] = None
        if source.inner is not None:
            found[source.path.with_name(source.path.name + ".wal")] = None
    return list(found)


def unreadable(path: Path) -> str | None:
    """Obstacle that keeps a file from being read, or None."""
    if any(c in str(path) for c in "*?["):
        return "a source is one file, so its path may not contain * ? ["
    if not path.is_file():
        beside = {one.stem: one.name for one in path.parent.iterdir()} if path.parent.is_dir() else {}
        meant = nearest(path.stem, list(beside))
        return (
            f"there is no such file; {'correct source' if meant is None else f'write {beside[meant]}'}, or put it there"
        )
    try:
        path.open("rb").close()
    except OSError:
        return "the file may not be read; allow this user to"
    return None


def _match(written: str, stored: list[tuple[str, str]]) -> tuple[str, str] | None:
    """The stored table that a declaration names: as schema.name, or by its name alone in schema main."""
    folded = written.lower()
    exact = [s for s in stored if s[0] == "main" and s[1].lower() == folded]
    return next(iter([*exact, *(s for s in stored if f"{s[0]}.{s[1]}".lower() == folded)]), None)


def dotted(stored: tuple[str, str]) -> str:
    return stored[1] if stored[0] == "main" else f"{stored[0]}.{stored[1]}"


# --- columns ------------------------------------------------------------------------------------------------------


def stored_columns(connection: duckdb.DuckDBPyConnection, source: StoredSource) -> list[Typed]:
    """The columns as they are stored, from the file's description of itself. Raises 707."""
    problem: Error | None = None
    try:
        if source.inner is None and source.path.suffix.lower() == ".csv":
            return [(column, "VARCHAR") for column in delimited.header(source.path)]
        rows = connection.execute(f"DESCRIBE SELECT * FROM {relation(source, [])}").fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]
    except delimited.HeaderError as fault:
        problem = error(707, f"{source.place}: {fault}")
    except (duckdb.Error, OSError):
        what = "is not a Parquet file that can be read" if source.inner is None else "cannot be read"
        problem = error(707, f"{source.place}: {what}")
    raise problem


def relation(source: StoredSource, columns: list[Typed]) -> str:
    """SQL for the rows as they are stored; `columns` is needed for CSV only."""
    if source.inner is not None:
        return ".".join(name(part) for part in (ATTACHED, *source.inner))
    if source.path.suffix.lower() == ".csv":
        return delimited.reader(source.path, [column for column, _ in columns])
    # a folder called year=2020 must not add a column
    return f"read_parquet({text(str(source.path))}, hive_partitioning = false)"


_NESTED = ("STRUCT", "MAP", "UNION", "BLOB")


def computable(sqltype: str) -> SqlType | None:
    """The type in which dpsql reads a stored column if it is free to choose; None where there is none."""
    return VARCHAR if sqltype.startswith("ENUM") else parse_type(sqltype)


def view(table: Table, source: StoredSource, stored: list[Typed]) -> str:
    """SQL that shows a table as it is declared. Call `missing` first."""
    types = {column.lower(): (column, sqltype) for column, sqltype in stored}
    items = [_item(table, c, types[c.name.lower()], source) for c in table.columns]
    return f"CREATE VIEW main.{name(table.name)} AS SELECT {', '.join(items)} FROM {relation(source, stored)}"


def too_long_view(table: Table, source: StoredSource, stored: list[Typed]) -> str:
    """SQL of that view: for each column of text or lists whether it counts as NULL because of its length. For the owner's check."""
    types = {column.lower(): (column, sqltype) for column, sqltype in stored}
    cut = [c for c in table.columns if c.is_cut]
    items = [f"{_is_long(typed(c, types[c.name.lower()]), c)} AS {name(c.name)}" for c in cut]
    return f"CREATE VIEW main.{name(too_long(table))} AS SELECT {', '.join(items)} FROM {relation(source, stored)}"


def unfit_view(table: Table, source: StoredSource, stored: list[Typed]) -> str:
    """SQL of that view: for each column the values that are stored and do not fit its type. For the owner's check."""
    types = {column.lower(): (column, sqltype) for column, sqltype in stored}
    items = [f"{unfitting(c, types[c.name.lower()])} AS {name(c.name)}" for c in table.columns]
    return f"CREATE VIEW main.{name(unfit(table))} AS SELECT {', '.join(items)} FROM {relation(source, stored)}"


def unfitting(column: Column, stored: Typed) -> str:
    """SQL of the number of values that do not fit the declared type."""
    if stored[1] == str(column.sqltype):
        return "count(*) FILTER (WHERE false)"
    return f"count(*) FILTER (WHERE {name(stored[0])} IS NOT NULL AND {typed(column, stored)} IS NULL)"


def _item(table: Table, column: Column, stored: Typed, source: StoredSource) -> str:
    """One column: as it is where the types agree, else cast, with NULL for what does not fit (no row may raise).

    Text or a list of people that is longer than its column's length does not fit either: one unit's value would else decide what a
    statement costs (rule 47).
    """
    value = typed(column, stored)
    if column.is_cut and not table.public:
        value = f"CASE WHEN {_is_long(value, column)} THEN NULL ELSE {value} END"
    if column.sqltype.is_text and source.inner is not None:
        # a collation of the file would change what equality and GROUP BY mean; a cast keeps it
        value = f'({value}) COLLATE "binary"'
    return f"{value if table.public else _one_zero(value, column.sqltype)} AS {name(column.name)}"


def _one_zero(value: str, sqltype: SqlType) -> str:
    """SQL of a floating value of people, or of a list of them, with 0.0 in place of -0.0.

    Why  0.0 = -0.0, so a program that writes a file may keep one of them for all rows that hold nothing else: DuckDB 1.4 does. Then one
         unit's row decides which zero another's is, and its text or ATAN2 of it shows which
    """
    if sqltype.is_float:
        return f"({value}) + CAST(0 AS {sqltype})"
    if sqltype.element is not None and sqltype.element.is_float:
        return f"list_transform({value}, lambda e: e + CAST(0 AS {sqltype.element}))"
    return value


def typed(column: Column, stored: Typed) -> str:
    """SQL of a stored value in the declared type; NULL where it does not fit."""
    found = name(stored[0])
    if stored[1] == str(column.sqltype):
        return found
    if column.sqltype.is_decimal:
        # as decimal_of of expressions/conversion.py does, and why
        if stored[1] == "VARCHAR":
            found = f"CAST(TRY_CAST({found} AS {column.sqltype}) AS VARCHAR)"
        elif stored[1] == "FLOAT":
            found = f"CAST({found} AS DOUBLE)"
    return f"TRY_CAST({found} AS {column.sqltype})"


def _is_long(value: str, column: Column) -> str:
    """SQL: whether a text is longer than its column's length; its bytes are at hand, its characters are counted only if need be.

    A list is too long by its elements, or by a text among them.
    """
    if column.sqltype.element is not None:
        texts = f"len([e FOR e IN {value} IF strlen(e) > {column.longest} AND length(e) > {column.longest}])"
        long = f"len({value}) > {column.length}"
        return f"({long} OR {texts} > 0)" if column.longest is not None else f"({long})"
    return f"(strlen({value}) > {column.longest} AND length({value}) > {column.longest})"


def _nested(stored: str, column: Column) -> str | None:
    """Type of a stored column that its declared type cannot show, and what to write instead; None for what it can."""
    if stored.endswith("]"):
        inner = stored[: stored.rindex("[")]
        simple = not inner.endswith("]") and not inner.startswith(_NESTED)
        if column.sqltype.element is not None and simple:
            return None
        return "a list; leave it out" + (', or declare it as in { type = "VARCHAR[]", length = 10 }' if simple else "")
    if stored.startswith(_NESTED):
        return f"{stored.partition('(')[0]}; leave it out"
    return "no list; leave it out, or declare a simple type" if _is_no_list(stored, column) else None


def _is_no_list(stored: str, column: Column) -> bool:
    """True if a list is declared where none is stored; text is read as one."""
    return column.sqltype.element is not None and stored != "VARCHAR"


def missing(table: Table, source: StoredSource, stored: list[Typed]) -> list[str]:
    """One line for each declared column that the file does not have, or has in a form that plain types cannot show, and for what a
    public table lacks: its key columns, or any column at all."""
    types = {column.lower(): sqltype for column, sqltype in stored}
    lines = []
    for column in table.columns:
        sqltype = types.get(column.name.lower())
        if sqltype is None:
            hint = suggestion(column.name, [n for n, _ in stored])
            lines.append(f"{source.place}: has no column {printable(column.name)}; {hint}")
        elif (kind := _nested(sqltype, column)) is not None:
            lines.append(f"{source.place}: column {printable(column.name)} is stored as {kind}")
    if table.public and not table.columns:
        return [f"{source.place}: has no column of a type that dpsql computes with"]
    keys = table.key if table.public else ()
    return lines + [
        f"{source.place}: key names {printable(key)}, which the file does not have"
        for key in keys
        if table.column(key) is None
    ]
