# mypy: disable-error-code="import-not-found, misc"
"""Harlequin's catalog tree: the dataset, its tables and columns, with what is declared of them. No statement is sent for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harlequin.adapter import HarlequinConnection
from harlequin.catalog import Catalog, CatalogItem, CatalogSearchResult, InteractiveCatalogItem
from harlequin.driver import HarlequinDriver

from dpsql.clients.declared import domain_text, name_sql, table_sql
from dpsql.clients.harlequin.status import short_type
from dpsql.core.escaping import harmless
from dpsql.core.sqltypes import SqlType
from dpsql.schema import spent
from dpsql.schema.model import Column, Schema, Table


def catalog(schema: Schema) -> Catalog:
    """The tree of an opened dataset, and of the tables that show what was spent."""
    declared = [_table(schema, table) for table in schema.tables]
    name = name_sql(schema.name)
    dataset = DatasetItem(name, name, schema.name, "dataset", declared, type_name="DATASET", loaded=True)
    return Catalog([dataset, _spent()])


def search(tree: Catalog, term: str, kind: str) -> list[CatalogSearchResult]:
    """The items whose name contains a text: "relations", "columns" or "all", with the names above each."""
    depths = {"relations": (1,), "columns": (2,)}.get(kind, (0, 1, 2))
    return [
        CatalogSearchResult(item, parents)
        for item, parents in _walk(tree.items, ())
        if len(parents) in depths and term.lower() in item.label.lower()
    ]


def _walk(items: Sequence[CatalogItem], parents: tuple[str, ...]) -> Iterator[tuple[CatalogItem, tuple[str, ...]]]:
    for item in items:
        yield item, parents
        yield from _walk(item.children, (*parents, item.label))


def _table(schema: Schema, table: Table) -> CatalogItem:
    name = table_sql(table.name)
    columns = [
        _leaf(f"{name}.{name_sql(column.name)}", column.name, column_label(schema, table, column), column.sqltype)
        for column in table.columns
    ]
    kind = "PUBLIC TABLE" if table.public else "PRIVATE TABLE"
    return TableItem(name, name, table.name, table_label(schema, table), columns, type_name=kind, loaded=True)


def _spent() -> CatalogItem:
    tables = [
        CatalogItem(
            full := f"{spent.SCHEMA}.{table}",
            full,
            table,
            "free",
            [_leaf(f"{full}.{column}", column, short_type(str(kind)), kind) for column, kind in columns],
            "FREE TABLE",
        )
        for table, columns in spent.TABLES.items()
    ]
    return CatalogItem(spent.SCHEMA, spent.SCHEMA, spent.SCHEMA, "what was spent", tables, "SCHEMA")


def _leaf(path: str, name: str, label: str, sqltype: SqlType) -> CatalogItem:
    return CatalogItem(path, name_sql(name), name, label, [], str(sqltype))


def table_label(schema: Schema, table: Table) -> str:
    """Label of a table: private or public, and how many rows of it one unit has."""
    if table.public:
        return "public"
    if schema.one_row_per_unit(table):
        return "private, 1 row a unit"
    most = table.max_rows_per_unit
    return "private" if most is None else f"private, {most} row{'s' * (most != 1)} a unit"


def column_label(schema: Schema, table: Table, column: Column) -> str:
    """The short type of a column, then what is declared of it: bounds or values, the unit or its role, NULL."""
    parts = ["" if column.sqltype.is_boolean else harmless(domain_text(column))]
    if not table.public:
        is_unit = schema.unit_column(table) == column.name
        parts.append("unit" if is_unit else column.role if column.role in ("identifier", "quasi") else "")
    parts.append("or NULL" if column.nullable and not table.public else "")
    said = ", ".join(part for part in parts if part)
    return f"{short_type(str(column.sqltype))} {said}".rstrip()


# --- what the context menu offers: free statements, in a new buffer to be run or not --------------------------------


def _describe(item: CatalogItem, driver: HarlequinDriver) -> None:
    driver.insert_text_in_new_buffer(f"DESCRIBE {item.query_name};")


def _explain(item: CatalogItem, driver: HarlequinDriver) -> None:
    driver.insert_text_in_new_buffer(f"EXPLAIN SELECT COUNT(*) FROM {item.query_name};")


def _columns(item: CatalogItem, driver: HarlequinDriver) -> None:
    driver.insert_text_at_selection(", ".join(child.query_name for child in item.children))


def _budget(item: CatalogItem, driver: HarlequinDriver) -> None:
    driver.insert_text_in_new_buffer("SHOW BUDGET;")


class TableItem(InteractiveCatalogItem[HarlequinConnection]):
    """A declared table. It holds no connection, so that a tree that is stored or copied holds none either."""

    INTERACTIONS = (
        ("Describe It (free)", _describe),
        ("Explain a Count of It (free)", _explain),
        ("Insert Columns at Cursor", _columns),
    )


class DatasetItem(InteractiveCatalogItem[HarlequinConnection]):
    """The dataset, above its tables."""

    INTERACTIONS = (("Show the Budget (free)", _budget),)
