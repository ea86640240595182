"""Views of the data on a fresh connection before it is locked: one view a declared table, and the unit beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import parse_type
from dpsql.engines.base import Find
from dpsql.engines.duckdb import delimited, prepared, sources
from dpsql.engines.duckdb.locked import wall
from dpsql.engines.signature import DeclaredFiles, FileParts, Signature, within
from dpsql.engines.writing import grouped, name, raise_all
from dpsql.schema.model import ROW, UNIT_COLUMN, Column, Schema, Table, with_unit
from dpsql.schema.paths import require_agreeing

Part = tuple[Table, list[sources.Shape]]


@dataclass(frozen=True, slots=True)
class ShownViews:
    """Views that were made on a connection.

    tables        with all columns, those of public tables too
    files         the declared ones, as they were before they were opened
    read          those of them that are read: of public tables alone where private ones are read from a snapshot
    prepared      of the prepared snapshot that private tables are read from, or None
    public_views  SQL that shows the public tables to another connection; none where they share a file with private ones
    public_files  all that those views read
    shapes        by table what it is read from
    """

    tables: tuple[Table, ...]
    files: DeclaredFiles
    read: Signature
    prepared: Signature | None
    public_views: tuple[str, ...]
    public_files: tuple[Path, ...]
    shapes: Mapping[str, list[sources.Shape]]


def show(
    connection: duckdb.DuckDBPyConnection,
    schema: Schema,
    find: Find,
    outputs: Iterable[Path],
    only: FileParts,
    kept: Path,
) -> ShownViews:
    """Make the views and wall the connection: it reaches the declared files and parts of them, and may write to `outputs`. Raises 707,
    801, 804.

    only  see EngineKind.begin
    kept  private folder for parts of files
    """
    require_agreeing(schema)
    found, signature, lost = _sources(connection, schema, only, kept)
    declared = _declared(found, signature)
    copy = find(declared)
    copied = prepared.views(connection, schema, copy) if copy is not None else {}
    # what became of the files of private tables is nothing to the copy
    raise_all(707, list(lost.values()) if not copied else [])
    parts = _parts(connection, schema, found, lost)
    for table, shapes in parts:
        show_table(connection, table, shapes, copied.get(table.name))
    for table in (t for t in schema.tables if _is_far(schema, t)):
        connection.execute(copied.get(with_unit(table.name)) or unit_view(schema, table))
    reached = copy.files if copy is not None and copied else ()
    parts_of_files = [within(kept, path) for path in sources.files(found)]
    wall(connection, [*sources.files(found), *parts_of_files, *reached, *outputs])
    public = [(table, shapes) for table, shapes in parts if table.public and shapes[0][0].inner is None]
    shared = {str(f) for t, shapes in parts if t.public for f in sources.files(s for s, _ in shapes)}
    return ShownViews(
        tables=tuple(table for table, *_ in parts),
        files=declared,
        read=signature if not copied else Signature(tuple(file for file in signature.files if file[0] in shared)),
        prepared=copy.signature if copy is not None and copied else None,
        public_views=tuple(sources.view(table, shapes) for table, shapes in public),
        public_files=tuple(path for _, shapes in public for source, _ in shapes for path in source.paths),
        shapes={table.name: shapes for table, shapes in parts},
    )


def show_table(
    connection: duckdb.DuckDBPyConnection, table: Table, shapes: list[sources.Shape], copied: str | None = None
) -> None:
    """Make the view of a table, and of a private one those that its owner's check reads; `copied` is SQL in place of the first."""
    connection.execute(copied or sources.view(table, shapes))
    if not table.public and shapes:
        connection.execute(sources.unfit_view(table, shapes))
        if any(c.is_cut for c in table.columns):
            connection.execute(sources.too_long_view(table, shapes))


def show_grouped(
    connection: duckdb.DuckDBPyConnection, table: Table, shapes: list[sources.Shape], columns: Sequence[str]
) -> None:
    """Show some columns of all rows of a table beside it; of text they are copied once, for each question would read it to its end."""
    if columns:
        kind = "TABLE" if any(source.is_csv for source, _ in shapes) else "VIEW"
        items = ", ".join(map(name, columns))
        connection.execute(f"CREATE {kind} main.{name(grouped(table))} AS SELECT {items} FROM main.{name(table.name)}")


def unit_view(schema: Schema, table: Table) -> str:
    """SQL that shows a table with the unit's value as its last column, by the references up to the unit.

    A reference points at a key, so no row is repeated; a row whose references lead to no row does not appear.
    """
    path = schema.path_to_unit(table)
    joined, here = f"main.{name(table.name)} AS t0", "t0"
    for i, reference in enumerate(path[:-1], start=1):
        joined += f" JOIN main.{name(reference.table)} AS t{i}"
        on = " AND ".join(f"{here}.{name(column)} = t{i}.{name(target)}" for column, target in reference.pairs)
        joined, here = f"{joined} ON {on}", f"t{i}"
    items = [f"t0.{name(c.name)}" for c in table.columns]
    items.append(f"{here}.{name(path[-1].columns[0])} AS {name(UNIT_COLUMN)}")
    return f"CREATE VIEW main.{name(with_unit(table.name))} AS SELECT {', '.join(items)} FROM {joined}"


def _is_far(schema: Schema, table: Table) -> bool:
    """True if the unit's value is in another table."""
    return not table.public and schema.privacy.unit != ROW and schema.unit_column(table) is None


def _declared(found: list[sources.StoredSource], signature: Signature) -> DeclaredFiles:
    of = tuple((s.table, tuple(map(str, sources.files([s])))) for s in found)
    return DeclaredFiles(signature, of, tuple((s.table, s.pattern) for s in found if s.inner is None))


def _sources(
    connection: duckdb.DuckDBPyConnection, schema: Schema, only: FileParts, kept: Path
) -> tuple[list[sources.StoredSource], Signature, dict[str, str]]:
    """Sources of the tables, the files' signature from before anything of them is read, and by private table whose files are lost a
    line that says so."""
    path = sources.root(schema)
    if path.is_dir():
        found, lost = sources.in_folder(path, schema.tables, only, kept)
        return found, Signature.take(sources.files(found)), lost
    signature = Signature.take(sources.files([sources.StoredSource("", (path,), ("", ""))]))
    sources.attach(connection, path)
    return sources.in_database(path, schema.tables, sources.stored_tables(connection)), signature, {}


def _parts(
    connection: duckdb.DuckDBPyConnection, schema: Schema, found: list[sources.StoredSource], lost: Collection[str]
) -> list[Part]:
    """Each table with what it is read from; nothing of those that are lost."""
    shapes = [sources.shapes(connection, source) if source.table not in lost else [] for source in found]
    tables = [
        _public_columns(connection, t, *s[0]) if t.public else t for t, s in zip(schema.tables, shapes, strict=True)
    ]
    parts = list(zip(tables, shapes, strict=True))
    raise_all(804, [line for table, shapes in parts for shape in shapes for line in sources.missing(table, *shape)])
    return parts


def _public_columns(
    connection: duckdb.DuckDBPyConnection, table: Table, source: sources.StoredSource, stored: list[sources.Typed]
) -> Table:
    """A public table with all columns that dpsql computes with; of CSV in the types that all values have."""
    if source.is_csv:
        row = connection.execute(delimited.inference(source.paths, [c for c, _ in stored])).fetchone()
        types = [parse_type(str(sqltype)) for sqltype in row or ()]
    else:
        types = [sources.computable(sqltype) for _, sqltype in stored]
    columns = (
        Column(column, sqltype, UNBOUNDED, True, "")
        for (column, _), sqltype in zip(stored, types, strict=True)
        if sqltype is not None
    )
    return replace(table, columns=tuple(columns))
