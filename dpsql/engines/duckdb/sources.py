"""Sources of the declared tables: files and columns of them, and the view that shows a table as declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import VARCHAR, SqlType, parse_type
from dpsql.engines.duckdb import delimited
from dpsql.engines.signature import FileParts, FileStart, matching
from dpsql.engines.writing import name, raise_all, text, too_long, unfit
from dpsql.schema.mistakes import nearest, printable, suggestion
from dpsql.schema.model import Column, Schema, Table

ATTACHED = "dpsql source"
Typed = tuple[str, str]
"""(name, type as DuckDB writes it)"""

_TABLES = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? ORDER BY ALL"


@dataclass(frozen=True, slots=True)
class StoredSource:
    """The place of one table: a file, all files of a pattern, or a table (schema, name) inside a DuckDB file.

    pattern   that names the files
    declared  columns of a private table, which files that do not describe themselves are read for
    """

    table: str
    paths: tuple[Path, ...]
    inner: tuple[str, str] | None = None
    pattern: Path | None = None
    declared: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Name of the source in a message."""
        return f"{self.paths[0]}, table {printable(self.table)}"

    @property
    def is_csv(self) -> bool:
        """True if it is delimited text, whose values have no types."""
        return self.form is not None

    @property
    def form(self) -> delimited.TextForm | None:
        return delimited.form_of(self.paths[0]) if self.inner is None else None


Shape = tuple[StoredSource, list[Typed]]
"""Files of one table that have the same columns, and these as they are stored."""


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


def in_folder(
    folder: Path, tables: Sequence[Table], only: FileParts, kept: Path
) -> tuple[list[StoredSource], dict[str, str]]:
    """The files of every table, and by private table whose files cannot be read one line that says why. Raises 707 with all such lines
    where public tables have some.

    only  see EngineKind.begin
    kept  private folder for the first bytes of files
    """
    sources = [_of_table(folder, table, only.get(table.name), kept) for table in tables]
    public = {path for t, s in zip(tables, sources, strict=True) if t.public for path in s.paths}
    lost = {}
    for table, source in zip(tables, sources, strict=True):
        what = _wrong(table, source) or next(filter(None, map(unreadable, source.paths)), None)
        if what is None and not table.public and not public.isdisjoint(path.resolve() for path in source.paths):
            what = "it takes in the file of a public table; keep that one elsewhere"
        if what is not None:
            lost[table.name] = f"{source.place}: {what}"
    if any(table.public and table.name in lost for table in tables):
        raise_all(707, list(lost.values()))
    return sources, lost


def _of_table(folder: Path, table: Table, only: Mapping[str, FileStart | None] | None, kept: Path) -> StoredSource:
    """The file of a table, or all of a pattern, or those of them that are meant; a pattern that names none stands for itself."""
    written, declared = folder / table.source, () if table.public else tuple(column.name for column in table.columns)
    pattern = written.parent.resolve() / written.name if "*" in table.source else None
    found = matching(pattern) if pattern is not None else (written.resolve(),)
    if only is not None:
        found = tuple(_start(path, only[path.name], kept) for path in found if path.name in only)
    return StoredSource(table.name, found or (pattern or written,), pattern=pattern, declared=declared)


def _start(path: Path, start: FileStart | None, kept: Path) -> Path:
    """A file, or its first bytes as one."""
    if start is None:
        return path
    from dpsql.engines.duckdb.appended import copied_start

    return copied_start(path, start, kept)


def _wrong(table: Table, source: StoredSource) -> str | None:
    """The mistake in a pattern; None for one that names files, and for a file."""
    if source.pattern is None:
        return None
    if table.public:
        return "a public table is one file; name it without *"
    if "*" in str(source.pattern.parent):
        return "* names files of one folder; write it in the last part of source only"
    if (source.pattern.parent / "_delta_log").exists():
        return "its folder is a table of Delta Lake and holds removed rows too; write its rows as Parquet into another folder"
    return "no file has such a name; correct source, or put one there" if source.paths == (source.pattern,) else None


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
            sources.append(StoredSource(table.name, (path,), inner))
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
        found.update(dict.fromkeys(source.paths))
        if source.inner is not None:
            found[source.paths[0].with_name(source.paths[0].name + ".wal")] = None
    return list(found)


def unreadable(path: Path) -> str | None:
    """Obstacle that keeps a file from being read, or None."""
    if any(c in str(path) for c in "*?["):
        return "the path of a file may not contain * ? [; files of one folder are named by * in the last part of source"
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


def shapes(connection: duckdb.DuckDBPyConnection, source: StoredSource) -> list[Shape]:
    """The columns of a table as they are stored, from its files' descriptions of themselves: once for all files that have the same.

    Why     read together, a file's column would be read in the type that another's has, and a value that does not fit would raise
    Raises  707
    """
    found: dict[tuple[delimited.TextForm | None, tuple[Typed, ...]], list[Path]] = {}
    for path in source.paths:
        one = replace(source, paths=(path,))
        found.setdefault((one.form, tuple(stored_columns(connection, one))), []).append(path)
    return [(replace(source, paths=tuple(paths)), list(stored)) for (_, stored), paths in found.items()]


def stored_columns(connection: duckdb.DuckDBPyConnection, source: StoredSource) -> list[Typed]:
    """The columns as they are stored, from the file's description of itself. Raises 707."""
    problem: Error | None = None
    try:
        if source.is_csv:
            return [(column, "VARCHAR") for column in delimited.columns_of(source.paths[0], source.declared)]
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
    if source.is_csv:
        return delimited.reader(source.paths, [column for column, _ in columns])
    # a folder called year=2020 must not add a column
    return f"read_parquet([{', '.join(text(str(path)) for path in source.paths)}], hive_partitioning = false)"


_NESTED = ("STRUCT", "MAP", "UNION", "BLOB")


def computable(sqltype: str) -> SqlType | None:
    """The type in which dpsql reads a stored column if it is free to choose; None where there is none."""
    return VARCHAR if sqltype.startswith("ENUM") else parse_type(sqltype)


def view(table: Table, shapes: list[Shape]) -> str:
    """SQL that shows a table as it is declared. Call `missing` first."""
    return _view(table.name, table.columns, shapes, lambda c, stored, source: _item(table, c, stored, source))


def too_long_view(table: Table, shapes: list[Shape]) -> str:
    """SQL of that view: for each column of text or lists whether it counts as NULL because of its length. For the owner's check."""
    cut = [c for c in table.columns if c.is_cut]
    return _view(
        too_long(table), cut, shapes, lambda c, stored, _: f"{_is_long(typed(c, stored), c)} AS {name(c.name)}"
    )


def unfit_view(table: Table, shapes: list[Shape]) -> str:
    """SQL of that view: for each column the values that are stored and do not fit its type. For the owner's check."""
    counted = _view(
        unfit(table), table.columns, shapes, lambda c, stored, _: f"{unfitting(c, stored)} AS {name(c.name)}"
    )
    if len(shapes) == 1:
        return counted
    head, _, each = counted.partition(" AS SELECT ")
    sums = ", ".join(f"sum({name(c.name)}) AS {name(c.name)}" for c in table.columns)
    return f"{head} AS SELECT {sums} FROM (SELECT {each}) AS counted"


def _view(
    view: str, columns: Iterable[Column], shapes: list[Shape], item: Callable[[Column, Typed, StoredSource], str]
) -> str:
    """SQL of a view of all files of a table: of each shape by itself, so that every file is cast from the types that it has."""
    parts = []
    for source, stored in shapes:
        types = {column.lower(): (column, sqltype) for column, sqltype in stored}
        items = ", ".join(item(column, types[column.name.lower()], source) for column in columns)
        parts.append(f"SELECT {items} FROM {relation(source, stored)}")
    return f"CREATE VIEW main.{name(view)} AS {' UNION ALL '.join(parts)}"


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
