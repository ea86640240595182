"""Names of declared tables, as statements write them: `orders`, `sales.orders`, `shop.sales.orders`, `main.person`, `public.person`.

A declared name with a point in it, `[tables."sales.orders"]`, is of the SQL schema before the point; one without is of `main`.
"""

from __future__ import annotations

from dpsql.schema import spent
from dpsql.schema.model import Schema, Table

MAIN = "main"
"""The SQL schema of declared tables whose name says none, and the one that is meant where none is named."""
SAME = (MAIN, "public")
"""The name of the schema of these; other systems call it public."""
KEPT = (spent.SCHEMA, spent.ROWS, "information_schema", "pg_catalog", "system", "temp")
"""Schemas in which nothing may be declared: they hold something else."""


def place(name: str) -> tuple[str, str]:
    """The SQL schema and the name within it.

    >>> place("sales.orders"), place("orders")
    (('sales', 'orders'), ('main', 'orders'))
    """
    within, _, short = name.rpartition(".")
    return within or MAIN, short


def sql_schemas(schema: Schema) -> list[str]:
    """The SQL schemas that hold declared tables, `main` first."""
    found = {within.lower(): within for within, _ in (place(table.name) for table in schema.tables)}
    return list(({MAIN: MAIN} | found).values())


def tables_in(schema: Schema, *words: str) -> list[Table]:
    """The declared tables that these words before a name mean; "" stands for none. SQL names do not depend on case."""
    dataset = schema.name.lower()
    match [word.lower() for word in words if word]:
        case []:
            return list(schema.tables)
        case [one]:
            return _within(schema, one) or (_within(schema, MAIN) if one in (*SAME, dataset) else [])
        case [catalog, one] if catalog == dataset:
            return _within(schema, one) or (_within(schema, MAIN) if one in SAME else [])
    return []


def _within(schema: Schema, folded: str) -> list[Table]:
    return [table for table in schema.tables if place(table.name)[0].lower() == folded]


def meant(schema: Schema, *parts: str) -> tuple[Table, ...]:
    """The declared tables that a name of one to three parts can mean; a part may be "".

    A whole name goes before the last part of a longer one: `orders` is `sales.orders` where no table of `main` is called so.
    """
    *words, name = parts
    if not any(words) or [word.lower() for word in words if word] == [MAIN]:
        whole = schema.table(name)
        if whole is not None:
            return (whole,)
    return tuple(t for t in tables_in(schema, *words) if place(t.name)[1].lower() == name.lower())


def table(schema: Schema, *parts: str) -> Table | None:
    """The one declared table that a name means, or None."""
    found = meant(schema, *parts)
    return found[0] if len(found) == 1 else None
