"""Inputs of group keys, as something to select from: the values of a column that are declared, or the rows of public
tables.

A list that is made of these decides which groups are shown and never which rows there are: the engine leaves out rows that are off the
list before anything is cut (rule 13). So values that are missing here, or too many, cost accuracy and no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from dpsql.core import domains
from dpsql.core.domains import MOST_CATEGORIES, Categories, Interval, Value
from dpsql.core.sqltypes import BIGINT, DATE, INTEGER, TIMESTAMP, SqlType
from dpsql.expressions.scalar import Scalar
from dpsql.expressions.steps import compared_with, steps_of
from dpsql.relations.relations import Relation, applied
from dpsql.schema.model import RESERVED
from dpsql.sql.nodes import Binary, Call, Cast, Column, Literal, Node, Number
from dpsql.sql.queries import Derived, Item, Join, Select, UnionAll

MOST_WRITTEN = 1_000
"""Of a list whose values are not one after the other: they stand in the text."""


@dataclass(frozen=True, slots=True)
class Input:
    """Values of one column, or rows of public tables.

    source   an item of FROM
    columns  what the columns of the statement are called there
    rows     [rows] how many there are; None where only the public tables tell
    """

    source: Node
    columns: Mapping[Node, Node]
    rows: int | None = None


def side_by_side(inputs: Sequence[Input]) -> Node:
    """Every combination of their rows."""
    return reduce(lambda one, other: Join("CROSS", one, other), (one.source for one in inputs))


# --- columns ------------------------------------------------------------------------------------------------------


def of_column(leaf: Scalar, number: int, keys: Sequence[Scalar], conditions: Sequence[Scalar]) -> Input | None:
    """The declared values of a column, with NULL where it can be NULL; None where they are too many, or not known.

    keys, conditions  what reads it. Of a time each must be constant within some unit of the calendar, so that one time stands for all
    """
    found = _values(leaf, keys, conditions)
    if found is None:
        return None
    query, rows = found
    if leaf.nullable:
        nothing = Select((Item(Literal(None, leaf.sqltype), "v"),))
        query, rows = UnionAll((query, nothing)), rows + 1
    name = _name(number)
    return Input(Derived(query, name), {leaf.tree: Column(name, "v")}, rows)


def of_key(key: Scalar, number: int) -> Input | None:
    """The listed values of a key whose columns have too many."""
    listed = domains.integers(key.domain) if key.integral or key.sqltype == DATE else key.domain
    return of_column(replace(key, domain=listed), number, (), ()) if isinstance(listed, Categories) else None


def _name(number: int) -> str:
    return f"{RESERVED}input {number}"


def _values(leaf: Scalar, keys: Sequence[Scalar], conditions: Sequence[Scalar]) -> tuple[Node, int] | None:
    sqltype = leaf.sqltype
    if sqltype.is_boolean:
        return _written((False, True), sqltype)
    match leaf.domain:
        case Categories(values=values) if not sqltype.is_float or leaf.integral:
            return _one_by_one(values, leaf)
        case Interval() as bounds if sqltype.is_integer or sqltype == DATE:
            listed = domains.integers(bounds)
            more = _beyond(bounds, keys, conditions) if listed is not None else ()
            values = listed.values if listed is not None else ()
            return _one_by_one(tuple(sorted({*_whole(values), *more})) if more else values, leaf) if values else None
        case Interval() as bounds if sqltype == TIMESTAMP:
            return _times(bounds, leaf, (*keys, *conditions))
    return None


def _one_by_one(values: tuple[Value, ...], leaf: Scalar) -> tuple[Node, int] | None:
    """Values of a list; whole numbers and days that follow one another as a range."""
    row = domains.in_a_row(values) if len(values) > 2 and (leaf.integral or leaf.sqltype == DATE) else None
    if row is not None:
        return _range(*row, 1, leaf.sqltype), len(values)
    return _written(values, leaf.sqltype)


def _whole(values: Iterable[Value | None]) -> list[int]:
    return [v for v in values if isinstance(v, int) and not isinstance(v, bool)]


def _written(values: Iterable[Value], sqltype: SqlType) -> tuple[Node, int] | None:
    literals = tuple(Literal(v, sqltype) for v in values)
    if not 0 < len(literals) <= MOST_WRITTEN:
        return None
    each = Call("unnest", (Call("list_value", literals),))
    return Select((Item(Cast(each, sqltype, tries=False), "v"),)), len(literals)


def _range(first: int, last: int, step: int, sqltype: SqlType) -> Node:
    each: Node = Call("unnest", (Call("range", (Number(first), Number(last + 1), Number(step))),))
    if sqltype == DATE:
        each = Binary("+", Literal(0, DATE), Cast(each, INTEGER, tries=False))
    elif sqltype == TIMESTAMP:
        each = Call("make_timestamp", (Cast(each, BIGINT, tries=False),))
    return Select((Item(Cast(each, sqltype, tries=False), "v"),))


def _beyond(bounds: Interval, keys: Sequence[Scalar], conditions: Sequence[Scalar]) -> set[int]:
    """Values beyond the bounds that tell conditions apart, where a key has labels.

    Why  bounds decide nothing (rule 56): rows beyond them are in the group of their label, so it stays on the list. What a key computes
         of a value, as a number or a text, has no label: its list ends with the bounds
    """
    labels = [part for key in keys for part in key.walk() if part.sqltype.is_boolean]
    if not labels:
        return set()
    compared = (part for condition in (*labels, *conditions) for part in condition.walk() if part.is_literal)
    ends = [math.ceil(bounds.lower), math.floor(bounds.upper)]
    known = _whole(part.value for part in compared)
    return {near for value in (*known, *ends) for near in (value - 1, value, value + 1)}


# --- times --------------------------------------------------------------------------------------------------------


def _times(bounds: Interval, leaf: Scalar, read_by: Sequence[Scalar]) -> tuple[Node, int] | None:
    """A time of every step, and those around each constant that times are compared with.

    Why  all that reads the time changes at the start of some unit of the calendar or at a constant alone, so each of its results is
         that of one of these times
    """
    unit = steps_of(leaf, read_by)
    if unit is None:
        return None
    first, last = math.floor(bounds.lower / unit) * unit, math.floor(bounds.upper)
    count = (last - first) // unit + 1
    if count > MOST_CATEGORIES:
        return None
    low, high = (Literal(math.floor(end), TIMESTAMP) for end in (bounds.lower, bounds.upper))
    parts = [_range(first, last, unit, TIMESTAMP), Select((Item(low, "v"),))]
    constants = dict.fromkeys(c.tree for scalar in read_by for c in compared_with(scalar, leaf))
    for tree in constants:
        for shifted in (tree, *(Binary(sign, tree, Call("to_microseconds", (Number(1),))) for sign in "+-")):
            parts.append(Select((Item(Cast(shifted, TIMESTAMP), "v"),)))
    every = Derived(UnionAll(tuple(parts)), f"{RESERVED}times")
    inside = (Binary(">=", Column("", "v"), low), Binary("<=", Column("", "v"), high))
    return Select((Item(Column("", "v"), "v"),), every, inside, once=True), count + 1 + 3 * len(constants)


# --- public tables ------------------------------------------------------------------------------------------------


def of_public(parts: Sequence[Relation], conditions: Sequence[Scalar], needed: Sequence[Scalar], number: int) -> Input:
    """The distinct values that public tables hold in some columns, after the conditions that read these tables alone."""
    name, columns = _name(number), list({leaf.tree: leaf for leaf in needed}.values())
    items = tuple(Item(leaf.tree, f"v{i}") for i, leaf in enumerate(columns))
    source = reduce(lambda one, other: Join("CROSS", one, other), (part.read() for part in parts))
    where = applied((*conditions, *(own for part in parts for own in part.where)))
    query = Select(items, source, where, once=True)
    return Input(Derived(query, name), {leaf.tree: Column(name, f"v{i}") for i, leaf in enumerate(columns)})


def of_extended(part: Relation, needed: Sequence[Scalar], number: int) -> Input:
    """The same of a table that an outer join may have no row of: then all of its columns are NULL (rule 58)."""
    found = of_public((part,), (), needed, number)
    assert isinstance(found.source, Derived)
    nothing = Select(tuple(Item(Literal(None, leaf.sqltype), f"v{i}") for i, leaf in enumerate(needed)))
    return Input(Derived(UnionAll((found.source.query, nothing)), found.source.alias), found.columns)
