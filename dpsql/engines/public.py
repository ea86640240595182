"""Public tables: their columns, and the domains that columns of private tables take from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.core.domains import MOST_CATEGORIES, UNBOUNDED, Categories, Domain, Value, categories, interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType
from dpsql.engines.base import Dialect, Engine
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
    """The columns with what two questions of the whole table tell: one of aggregates, one of short lists."""
    items = (item for c in table.columns for item in (f"count(*) > count({name(c.name)})", *_ends(engine.dialect, c)))
    (row,) = engine.owner_rows(f"SELECT {', '.join(items)} FROM {engine.dialect.relation(table.name)}")
    listable = [c for c in table.columns if c.sqltype.is_integer or c.sqltype.is_text]
    listed = dict(zip([c.name for c in listable], distinct(engine, table, listable, MOST_LISTED + 1), strict=True))
    columns = []
    for column, (null, low, high) in zip(table.columns, zip(*[iter(row)] * 3, strict=True), strict=True):
        most = int(str(high or 0)) if column.sqltype.is_text else None
        domain = _domain(column, listed.get(column.name, []), low, high)
        columns.append(replace(column, domain=domain, nullable=bool(null), length=most))
    return tuple(replace(c, role=default_role(schema, table, c)) for c in columns)


def distinct(engine: Engine, table: Table, columns: Sequence[Column], limit: int) -> list[list[Value]]:
    """The values of a column of a public table, or of several of whole numbers and text, as domains hold them, in no order, without
    NULL, NaN and infinity; at most `limit` of each."""
    if not table.public:
        raise error(901, "a private table was about to be read as a public one")
    asked = []
    for i, column in enumerate(columns):
        item = engine.dialect.measured(name(column.name), column.sqltype)
        item = f"CAST({item} AS VARCHAR)" if len(columns) > 1 else item
        rows = f"SELECT {item} AS v FROM {engine.dialect.relation(table.name)}"
        few = f"SELECT DISTINCT v FROM ({rows}) AS held WHERE v IS NOT NULL LIMIT {limit}"
        asked.append(f"SELECT {i} AS i, v FROM ({few}) AS few")
    found: list[list[Value]] = [[] for _ in columns]
    for place, cell in engine.owner_rows(" UNION ALL ".join(asked)) if asked else ():
        sqltype = columns[int(str(place))].sqltype
        found[int(str(place))].append(int(str(cell)) if sqltype.is_integer else value(cell, sqltype))
    return found


def _ends(dialect: Dialect, column: Column) -> tuple[str, str]:
    """SQL of the least and the largest finite value of a column; of text, of its length."""
    quoted, sqltype, finite = name(column.name), column.sqltype, ""
    if sqltype.is_text or sqltype.is_boolean:
        return "NULL", f"max(length({quoted}))" if sqltype.is_text else "NULL"
    if sqltype.is_float or sqltype.is_temporal:
        finite = f" FILTER (WHERE {dialect.measured(quoted, sqltype)} IS NOT NULL)"
    least, largest = (dialect.measured(f"({end}({quoted}){finite})", sqltype) for end in ("min", "max"))
    return least, largest


def _domain(column: Column, listed: Sequence[Value], low: object, high: object) -> Domain:
    """Domain of a public column: a list where it is short, else an interval of its finite values."""
    sqltype = column.sqltype
    if sqltype.is_boolean:
        return categories([False, True])
    if 0 < len(listed) <= MOST_LISTED:
        return categories(listed)
    if sqltype.is_text or low is None or high is None:
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
    (values,) = distinct(engine, source, [listed], MOST_CATEGORIES + 1)
    if not values or len(values) > MOST_CATEGORIES:
        much = "has no values" if not values else f"has more than {MOST_CATEGORIES:,} values"
        return f"{where} {much}; write a list, or bounds"
    return categories(values)


def _kind(sqltype: SqlType) -> str:
    return "number" if sqltype.is_number else sqltype.name
