"""Public tables: their columns, and the domains that columns of private tables take from them."""

from __future__ import annotations

from dataclasses import replace

from dpsql.core.domains import MOST_CATEGORIES, UNBOUNDED, Categories, Domain, categories, interval
from dpsql.core.sqltypes import SqlType
from dpsql.engines.base import Engine
from dpsql.engines.writing import name, raise_all, value
from dpsql.schema.mistakes import printable, suggestion
from dpsql.schema.model import Column, Schema, Table
from dpsql.schema.roles import default_role

MOST_LISTED = 1_000
"""A public column with at most this many values is a list of them; the limit keeps opening fast."""


def fill(engine: Engine, schema: Schema) -> Schema:
    """The schema with the columns of its public tables and the domains they list.

    Raises 804 with every domain that cannot be taken from the column that the schema names.
    """
    shown = {t.name: engine.tables[t.name] for t in schema.tables if t.public}
    takers = [(t, c, c.domain_from) for t in schema.tables for c in t.columns if c.domain_from is not None]
    found = {(t.name, c.name): _listed(engine, shown, t, c, place) for t, c, place in takers}
    raise_all(804, [problem for problem in found.values() if isinstance(problem, str)])
    columns = {t.name: _columns(engine, schema, t) for t in shown.values()}
    return schema.with_public_facts({k: v for k, v in found.items() if isinstance(v, Categories)}, columns)


def _columns(engine: Engine, schema: Schema, table: Table) -> tuple[Column, ...]:
    held = zip(table.columns, _holding_null(engine, table), _lengths(engine, table), strict=True)
    columns = (replace(c, domain=_domain(engine, table, c), nullable=null, length=most) for c, null, most in held)
    return tuple(replace(c, role=default_role(schema, table, c)) for c in columns)


def _holding_null(engine: Engine, table: Table) -> list[bool]:
    """For each column whether it holds a NULL, all in one scan."""
    items = ", ".join(f"count(*) > count({name(c.name)})" for c in table.columns)
    (row,) = engine.owner_rows(f"SELECT {items} FROM {engine.dialect.relation(table.name)}")
    return [bool(cell) for cell in row]


def _lengths(engine: Engine, table: Table) -> list[int | None]:
    """For each column the characters of its longest text; None for what is no text."""
    texts = [c.name for c in table.columns if c.sqltype.is_text]
    if not texts:
        return [None for _ in table.columns]
    items = ", ".join(f"max(length({name(text)}))" for text in texts)
    (row,) = engine.owner_rows(f"SELECT {items} FROM {engine.dialect.relation(table.name)}")
    found = {text: int(str(cell or 0)) for text, cell in zip(texts, row, strict=True)}
    return [found.get(c.name) for c in table.columns]


def _domain(engine: Engine, table: Table, column: Column) -> Domain:
    """Domain of a public column: a list where it is short, else an interval of its finite values."""
    if column.sqltype.is_boolean:
        return categories([False, True])
    if column.sqltype.is_integer or column.sqltype.is_text:
        values = engine.distinct(table.name, column.name, MOST_LISTED + 1)
        if 0 < len(values) <= MOST_LISTED:
            return categories(values)
    return UNBOUNDED if column.sqltype.is_text else _interval(engine, table, column)


def _interval(engine: Engine, table: Table, column: Column) -> Domain:
    quoted, sqltype = name(column.name), column.sqltype
    dialect, finite = engine.dialect, ""
    if sqltype.is_float or sqltype.is_temporal:
        finite = f" FILTER (WHERE {dialect.measured(quoted, sqltype)} IS NOT NULL)"
    ends = ", ".join(dialect.measured(f"({end}({quoted}){finite})", sqltype) for end in ("min", "max"))
    ((low, high),) = engine.owner_rows(f"SELECT {ends} FROM {engine.dialect.relation(table.name)}")
    if low is None or high is None:
        return UNBOUNDED
    lower, upper = value(low, sqltype), value(high, sqltype)
    return UNBOUNDED if isinstance(lower, str) or isinstance(upper, str) else interval(lower, upper)


def _listed(
    engine: Engine, shown: dict[str, Table], table: Table, column: Column, place: tuple[str, str]
) -> Categories | str:
    """The domain that a column takes from a public one, or what is wrong with it."""
    where = f"table {printable(table.name)}, column {printable(column.name)}: domain from {'.'.join(place)}"
    source = shown[place[0]]
    listed = source.column(place[1])
    if listed is None:
        return f"{where} is not a column of that table; {suggestion(place[1], [c.name for c in source.columns])}"
    if _kind(listed.sqltype) != _kind(column.sqltype):
        return f"{where} is of type {listed.sqltype}, not {column.sqltype}; write another column"
    values = engine.distinct(source.name, listed.name, MOST_CATEGORIES + 1)
    if not values or len(values) > MOST_CATEGORIES:
        much = "has no values" if not values else f"has more than {MOST_CATEGORIES:,} values"
        return f"{where} {much}; write a list, or bounds"
    return categories(values)


def _kind(sqltype: SqlType) -> str:
    return "number" if sqltype.is_number else sqltype.name
