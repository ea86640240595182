"""Declared tables as relations: whose their rows are, and what is unique in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Generic, TypeVar

from dpsql.core.domains import hull
from dpsql.core.errors import error
from dpsql.expressions.scalar import NO_KEYS, NO_NAMES, NO_PARTS, Scalar, column
from dpsql.relations.relations import From, Made, Named, Relation, UnitBound, product_bound
from dpsql.schema.by_period import count as periods_of
from dpsql.schema.dependences import determined
from dpsql.schema.model import ROW, UNIT_COLUMN, Column, Schema, Table, rows_fact, unit_fact, with_unit
from dpsql.schema.paths import HeldKey, Name, held_keys, held_parts, named_keys, unit_key
from dpsql.sql.nodes import Column as ColumnNode
from dpsql.sql.nodes import Node
from dpsql.sql.queries import Table as TableNode

Declared = TypeVar("Declared")


class Same(Generic[Declared]):
    """A declaration by which something is kept: equal to itself alone, so that what other declarations made is never taken."""

    __slots__ = ("one",)

    def __init__(self, one: Declared) -> None:
        self.one = one

    def __hash__(self) -> int:
        return id(self.one)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.one is self.one


def scan(schema: Schema, table: Table, alias: str, source: str = "") -> Relation:
    """The rows of one declared private table.

    Output     its declared columns; the unit is one of them, or is reached by the declared references
    Stability  one unit added or removed changes its own rows only. A reference points at a key, so a row meets at most one
               row on each step up: it keeps one unit                                                             [rows]
    Why        keys are verified and approved per data version (rule 36)
    """
    if table.public:
        raise error(901, "a public table has no privacy unit")
    return _scan(Same(schema), Same(table), alias, source)


@lru_cache(maxsize=256)
def _scan(of: Same[Schema], whose: Same[Table], alias: str, source: str) -> Relation:
    """The scan, made once for these very declarations."""
    schema, table = of.one, whose.one
    columns, one = _private_columns(schema, table, alias, source), schema.one_row_per_unit(table)
    here = TableNode(table.name, alias)
    if schema.privacy.unit == ROW:
        return Relation(
            columns, UnitBound(None, 1), _keys(table, alias), From(here, here), tables=(table,), made=Made("scan")
        )
    unit = _unit(schema, table, alias)
    inside = schema.unit_column(table) is not None
    # where there are periods the limit is of each of them
    most = product_bound(table.max_rows_per_unit, periods_of(table))
    return Relation(
        columns,
        UnitBound(unit, 1 if one else most),
        _keys(table, alias),
        From(here, here if inside else TableNode(with_unit(table.name), alias)),
        tables=(table,),
        facts=frozenset({unit_fact(table.name), *(() if one else (rows_fact(table.name),))}),
        made=Made("scan"),
    )


def _private_columns(schema: Schema, table: Table, alias: str, source: str) -> tuple[Named, ...]:
    held, named, one = held_keys(schema, table), named_keys(schema, table), schema.one_row_per_unit(table)
    parts, unit = held_parts(schema, table, alias), schema.unit_column(table)
    steady = determined((unit,), table.determines) if unit is not None and table.determines else frozenset()
    return tuple(
        Named(
            source or table.name,
            c.name,
            replace(
                _column(c, table, alias, held.get(c.name, NO_KEYS), named.get(c.name, NO_NAMES), one),
                parts=parts.get(c.name, NO_PARTS),
                steady=c.name in steady,
            ),
        )
        for c in table.columns
    )


def public_scan(table: Table, alias: str, source: str = "") -> Relation:
    """The rows of one declared public table; its declared key is verified unique at each opening (rule 9)."""
    if not table.public:
        raise error(901, "a private table was about to be read as a public one")
    return _public_scan(Same(table), alias, source)


@lru_cache(maxsize=256)
def _public_scan(whose: Same[Table], alias: str, source: str) -> Relation:
    """The scan, made once for this very declaration."""
    table = whose.one
    columns = tuple(Named(source or table.name, c.name, _column(c, table, alias)) for c in table.columns)
    here = TableNode(table.name, alias)
    most = tuple((ColumnNode(alias, c.name), rows) for name, rows in table.multiplicity if (c := table.column(name)))
    determines = tuple(
        (_places(table, alias, d.columns), _places(table, alias, d.determined)) for d in table.determines
    )
    return Relation(columns, None, _keys(table, alias), From(here, here), multiplicity=most, determines=determines)


def _places(table: Table, alias: str, names: Iterable[str]) -> frozenset[Node]:
    return frozenset(ColumnNode(alias, c.name) for name in names if (c := table.column(name)) is not None)


def _column(
    declared: Column,
    table: Table,
    alias: str,
    keys: frozenset[HeldKey] = NO_KEYS,
    names: frozenset[Name] = NO_NAMES,
    one: bool = False,
) -> Scalar:
    return Scalar(
        "column",
        (),
        ColumnNode(alias, declared.name),
        declared.sqltype,
        declared.domain,
        declared.sqltype.range,
        declared.nullable,
        declared.sqltype.is_integer,
        role=declared.role,
        step=declared.step,
        origin=f"{table.name}.{declared.name}",
        declared=hull(declared.domain) if declared.sqltype.is_number else None,
        keys=keys,
        names=names,
        constant=one or any(key.is_unit for key in keys),
        unit_bounds=declared.unit_bounds,
        length=declared.length if declared.sqltype.element is not None else declared.longest,
    )


def _unit(schema: Schema, table: Table, alias: str) -> Scalar:
    inside = schema.unit_column(table)
    if inside is not None:
        declared = table.column(inside)
        assert declared is not None
        found = _column(declared, table, alias)
    else:
        owner = schema.table(schema.privacy.unit_table or "")
        declared = owner.column(schema.privacy.unit_column or "") if owner is not None else None
        assert owner is not None and declared is not None
        place = ColumnNode(alias, UNIT_COLUMN)
        found = column(place, declared.sqltype, declared.domain, role="identifier", length=declared.longest)
    unit = unit_key(schema)
    return replace(
        found, nullable=False, keys=frozenset({unit}), names=frozenset({(unit.table, unit.columns[0])}), constant=True
    )


def _keys(table: Table, alias: str) -> frozenset[frozenset[Node]]:
    if not table.key:
        return frozenset()
    return frozenset({frozenset(ColumnNode(alias, name) for name in table.key)})
