"""The prepared snapshot in DuckDB's SQL: what is written of the private tables, and the views that show its files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import duckdb

from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType
from dpsql.engines.snapshot import Snapshot
from dpsql.engines.writing import name, text
from dpsql.schema.model import ROW, UNIT_COLUMN, Schema, Table, with_unit


def views(connection: duckdb.DuckDBPyConnection, schema: Schema, found: Snapshot) -> dict[str, str]:
    """By view name the SQL that shows private tables from the snapshot; nothing where its files do not have their columns."""
    private = [t for t in schema.tables if not t.public]
    result: dict[str, str] = {}
    for table, file in zip(private, found.files, strict=True):
        if _described(connection, file) != [(n, str(_stored(t))) for n, t in _columns(schema, table)]:
            return {}
        items = [_item(n, t) for n, t in _columns(schema, table)]
        result[table.name] = _view(table.name, items[: len(table.columns)], file)
        if schema.privacy.unit != ROW and schema.unit_column(table) is None:
            result[with_unit(table.name)] = _view(with_unit(table.name), items, file)
    return result


def _described(connection: duckdb.DuckDBPyConnection, file: Path) -> list[tuple[str, str]] | None:
    with contextlib.suppress(duckdb.Error):
        rows = connection.execute(f"DESCRIBE SELECT * FROM {_relation(file)}").fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]
    return None


def _view(view: str, items: list[str], file: Path) -> str:
    return f"CREATE VIEW main.{name(view)} AS SELECT {', '.join(items)} FROM {_relation(file)}"


def _relation(file: Path) -> str:
    return f"read_parquet({text(str(file))}, hive_partitioning = false)"


def _columns(schema: Schema, table: Table) -> list[tuple[str, SqlType]]:
    """The declared columns, then the unit, where a row is not its own."""
    columns = [(c.name, c.sqltype) for c in table.columns]
    if schema.privacy.unit == ROW:
        return columns
    path = schema.path_to_unit(table)
    here = schema.table(path[-2].table) if len(path) > 1 else table
    unit = None if here is None else here.column(path[-1].columns[0] if path else schema.privacy.unit_column or "")
    if unit is None:
        raise error(901, "a private table does not reach the unit")
    return [*columns, (UNIT_COLUMN, unit.sqltype)]


def _stored(sqltype: SqlType) -> SqlType:
    """The type in the file: Parquet has none for HUGEINT, and DuckDB would round it to DOUBLE."""
    return SqlType("VARCHAR") if sqltype.name == "HUGEINT" else sqltype


def _item(column: str, sqltype: SqlType) -> str:
    quoted = name(column)
    return quoted if _stored(sqltype) == sqltype else f"TRY_CAST({quoted} AS {sqltype}) AS {quoted}"


def rows(schema: Schema, table: Table) -> str:
    """SQL of what a table's file holds, over the engine's views: rows that reach no unit are left out of every answer."""
    if schema.privacy.unit == ROW:
        return f"SELECT {', '.join(_written(name(n), t, name(n)) for n, t in _columns(schema, table))} FROM main.{name(table.name)}"
    own = schema.unit_column(table)
    source = name(table.name if own is not None else with_unit(table.name))
    unit = name(own if own is not None else UNIT_COLUMN)
    items = [_written(name(n), t, name(n)) for n, t in _columns(schema, table)[:-1]]
    items.append(_written(unit, _columns(schema, table)[-1][1], name(UNIT_COLUMN)))
    return f"SELECT {', '.join(items)} FROM main.{source} WHERE {unit} IS NOT NULL ORDER BY {unit}"


def _written(column: str, sqltype: SqlType, alias: str) -> str:
    stored = _stored(sqltype)
    return f"{column} AS {alias}" if stored == sqltype else f"CAST({column} AS {stored}) AS {alias}"
