"""Consequences of `determines = { order_id = ["customer_id"] }` (rule 60) and of references over several columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dpsql.schema.model import Dependence, Reference, Schema, Table


def determined(columns: Iterable[str], dependences: Sequence[Dependence]) -> frozenset[str]:
    """The columns in which rows agree that agree in these.

    >>> sorted(determined(["a"], [Dependence(("b",), ("c",)), Dependence(("a",), ("b",))]))
    ['a', 'b', 'c']
    """
    found = frozenset(columns)
    for _ in dependences:
        found = found.union(*(d.determined for d in dependences if found.issuperset(d.columns)))
    return found


def deriving(schema: Schema, table: Table) -> tuple[tuple[str, ...], ...]:
    """Columns of a private table that determine the first step of its path, and so the unit: like a key, but of several rows."""
    path, told = schema.path_to_unit(table), _towards_unit(schema, table)
    return tuple(d.columns for d in told if determined(d.columns, told).issuperset(path[0].columns))


def structural(schema: Schema, table: Table) -> tuple[Dependence, ...]:
    """The dependences on which rests whose row it is: those by which columns determine the first step of a table's path."""
    told = _towards_unit(schema, table)
    reached = [determined(columns, told) for columns in deriving(schema, table)]
    return tuple(d for d in told if any(one.issuperset(d.columns) for one in reached))


def leading(schema: Schema, table: Table) -> Iterator[Reference]:
    """The references over several columns that lead to a table."""
    return (r for t in schema.tables for r in t.references if r.table == table.name and len(r.columns) > 1)


def _towards_unit(schema: Schema, table: Table) -> tuple[Dependence, ...]:
    """The dependences by columns that are not the unit's already."""
    path = schema.path_to_unit(table)
    return tuple(d for d in table.determines if path and not set(d.columns).issuperset(path[0].columns))
