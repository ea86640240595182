"""The prepared snapshot in DuckDB's SQL: what is written of the private tables, and the views that show its files."""

from __future__ import annotations

import contextlib
from math import ceil, floor
from pathlib import Path

import duckdb

from dpsql.core.domains import Interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType
from dpsql.engines.base import Kept
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


def rows(schema: Schema, table: Table, kept: Kept | None = None) -> str:
    """SQL of what a table's file holds, over the engine's views: rows that reach no unit are left out of every answer.

    schema  with the days on which bounds of this version end
    kept    closed periods whose rows are those of an earlier file: of the views only the others are taken (rule 62)
    """
    columns = _columns(schema, table)
    if schema.privacy.unit == ROW:
        return f"SELECT {', '.join(_written(name(n), t, name(n)) for n, t in columns)} FROM main.{name(table.name)}"
    own = schema.unit_column(table)
    source = name(table.name if own is not None else with_unit(table.name))
    unit = name(own if own is not None else UNIT_COLUMN)
    items = [_written(name(n), t, name(n)) for n, t in columns[:-1]]
    items.append(_written(unit, columns[-1][1], name(UNIT_COLUMN)))
    taken, older = _by_period(table, kept)
    sql = f"SELECT {', '.join(items)} FROM main.{source} WHERE {unit} IS NOT NULL{taken}"
    if kept is None:
        return f"{sql} ORDER BY {unit}"
    copied = f"SELECT {', '.join(name(n) for n, _ in columns)} FROM {_relation(kept.file)} WHERE {older}"
    return f"{sql} UNION ALL {copied} ORDER BY {name(UNIT_COLUMN)}"


def _by_period(table: Table, kept: Kept | None) -> tuple[str, str]:
    """Conditions on the rows that are taken from the views, and on those that are copied. Rows outside of the declared days, or with
    none, are in no period: nobody reads them."""
    column = table.column(table.period.column) if table.period is not None else None
    if column is None or table.period is None or not isinstance(column.domain, Interval):
        return "", "false"
    begin = "DATE '1970-01-01' + ({})" if column.sqltype.name == "DATE" else "make_timestamp({})"
    ends = begin.format(ceil(column.domain.lower)), begin.format(floor(column.domain.upper))
    inside = f" AND {name(column.name)} BETWEEN {ends[0]} AND {ends[1]}"
    if kept is None:
        return inside, "false"
    firsts = ", ".join(f"DATE {text(str(table.period.begin(period)))}" for period in kept.periods)
    period = f"CAST(date_trunc({text(table.period.every)}, {name(column.name)}) AS DATE)"
    return f"{inside} AND {period} NOT IN ({firsts})", f"{period} IN ({firsts})"


def _written(column: str, sqltype: SqlType, alias: str) -> str:
    stored = _stored(sqltype)
    return f"{column} AS {alias}" if stored == sqltype else f"CAST({column} AS {stored}) AS {alias}"
