"""Relations over a unit's own rows inside a private block: groups, distinct rows, windows, and the union of two
relations.

All of them look at one unit at a time: the unit is among the grouping columns, the partition or the distinct columns, whether the
statement selects it or not. So the rows that come out for one unit are a function of the rows that went in for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from dpsql.core.domains import Categories, join
from dpsql.core.errors import error
from dpsql.expressions.conversion import unify
from dpsql.expressions.literals import literal
from dpsql.expressions.logic import is_null, negation
from dpsql.expressions.scalar import NO_KEYS, Scalar, held_together, limits_of_any, one_form
from dpsql.relations.relations import (
    From,
    Made,
    Named,
    Relation,
    UnitBound,
    applied,
    boundary,
    computed_column,
    derived_column,
    translated,
)
from dpsql.schema.model import UNIT_COLUMN
from dpsql.sql.nodes import Node
from dpsql.sql.queries import Derived, Item, Select, UnionAll


@dataclass(frozen=True, slots=True)
class Computed:
    """An aggregate or window of one unit's rows.

    tree   over the columns of the relation
    like   the type, domain and limits of its values
    shows  the columns whose values it shows, as MIN does and COUNT does not
    chosen  whether a condition, of FILTER or CASE, decides what it is
    numbers whether it is another number in each row of a unit
    """

    tree: Node
    like: Scalar
    shows: tuple[Scalar, ...] = ()
    chosen: bool = False
    numbers: bool = False


def per_unit(
    source: Relation, alias: str, keys: Sequence[Scalar], aggregates: Sequence[Computed]
) -> tuple[Relation, tuple[Scalar, ...], tuple[Scalar, ...]]:
    """GROUP BY the unit and `keys`: one row per distinct group; the relation, its key columns and its aggregate columns.

    Stability  one row where all keys are functions of the unit; else as many as the input has, or as the keys have declared
               values if that is less (rule 6)                                                                    [rows]
    Why        groups of one unit are made of its rows alone; each aggregate is a function of the multiset of those (rule 10)
    """
    unit = _unit(source)
    k = tuple(replace(derived_column(alias, f"k{i}", key), unit_bounds=None) for i, key in enumerate(keys))
    a = tuple(computed_column(alias, f"a{i}", c.like, c.shows) for i, c in enumerate(aggregates))
    grouped = [one_form(key).tree for key in keys]
    items = [Item(tree, f"k{i}") for i, tree in enumerate(grouped)]
    items += [Item(c.tree, f"a{i}") for i, c in enumerate(aggregates)]
    items.append(Item(unit.tree, UNIT_COLUMN))
    # A constant groups nothing, and a bare number would be a position.
    varying = [tree for tree, key in zip(grouped, keys, strict=True) if any(True for _ in key.leaves())]
    owned = replace(source, where=(*source.where, _present(unit)))
    derived = boundary(owned, alias, items, False, (unit.tree, *varying))
    carried = replace(derived_column(alias, UNIT_COLUMN, unit), keys=unit.keys, constant=True)
    own = (c.tree for key, c in zip(keys, k, strict=True) if not key.is_constant)
    looked = (key for key in keys if key.computes_identifier and not key.held and key.tree != unit.tree)
    relation = Relation(
        tuple(Named(alias, f"k{i}", key) for i, key in enumerate(k)),
        UnitBound(carried, _groups(source, keys)),
        frozenset({frozenset({carried.tree, *own})}),
        replace(derived, plain=derived.with_unit),
        predicates=(*source.predicates, *looked),
        tables=source.tables,
        facts=frozenset() if all(key.is_constant for key in keys) else source.facts,
        made=Made(
            "per_unit",
            (source,),
            keys=tuple(keys),
            computed=_computed((*k, *a), (*keys, *aggregates)),
            chosen=_chosen(a, aggregates),
        ),
    )
    return relation, k, a


def holds_unit(relation: Relation) -> bool:
    """True if the visible columns hold the unit, or a key of its rows, so that rows which agree in all of them are of one unit."""
    unit = relation.unit.column.tree if relation.unit is not None and relation.unit.column is not None else None
    return any(c.scalar.tree == unit for c in relation.columns) or bool(
        held_together(c.scalar for c in relation.columns)
    )


def distinct(source: Relation, alias: str) -> Relation:
    """SELECT DISTINCT of columns that hold the unit, or a key of its rows: at most the rows that the unit had (rule 7).

    Why      rows that agree in such a column are of one unit
    Refuses  901 (the planner asks `holds_unit` before)
    """
    if not holds_unit(source):
        raise error(901, "rows of different people would be compared")
    names = tuple((c.source, c.name) for c in source.columns)
    relation, keys, _ = per_unit(source, alias, [c.scalar for c in source.columns], [])
    columns = (Named(s, n, key) for (s, n), key in zip(names, keys, strict=True))
    return replace(relation, columns=tuple(columns), made=Made("distinct", (source,)))


def windowed(source: Relation, alias: str, windows: Sequence[Computed]) -> tuple[Relation, tuple[Scalar, ...]]:
    """The same rows, each with the windows' values beside it. Every window is partitioned by the unit (the planner sees to it).

    Stability  no rows come or go; a window's value is a function of its unit's rows (rule 10)                    [rows]
    """
    unit = _unit(source)
    columns = tuple(replace(c, scalar=derived_column(alias, f"c{i}", c.scalar)) for i, c in enumerate(source.columns))
    w = tuple(computed_column(alias, f"w{i}", c.like, c.shows) for i, c in enumerate(windows))
    shown = [c.scalar for c in source.columns]
    items = [Item(s.tree, f"c{i}") for i, s in enumerate(shown)]
    items += [Item(c.tree, f"w{i}") for i, c in enumerate(windows)]
    items.append(Item(unit.tree, UNIT_COLUMN))
    carried = replace(derived_column(alias, UNIT_COLUMN, unit), keys=unit.keys, constant=True)
    owned = replace(source, where=(*source.where, _present(unit)))
    moved = {c.scalar.tree: d.scalar.tree for c, d in zip(source.columns, columns, strict=True)}
    moved[unit.tree] = carried.tree
    derived = boundary(owned, alias, items, False)
    relation = Relation(
        columns,
        UnitBound(carried, source.unit.max_rows if source.unit is not None else None),
        translated(source.unique, moved),
        replace(derived, plain=derived.with_unit),
        predicates=source.predicates,
        tables=source.tables,
        facts=source.facts,
        made=Made(
            "windowed",
            (source,),
            computed=_computed([*(c.scalar for c in columns), *w], [*shown, *windows]),
            chosen=_chosen(w, windows),
        ),
        numbered=tuple(column.tree for column, window in zip(w, windows, strict=True) if window.numbers),
    )
    return relation, w


def union_all(first: Relation, second: Relation, alias: str) -> Relation:
    """The rows of both, columns by their place.

    Stability  Ka + Kb; what was unique or constant per unit in each is not in both together (rules 5, 8)         [rows]
    """
    if len(first.columns) != len(second.columns):
        raise error(
            106, "the two sides of UNION have not the same number of columns", hint="select as many on both sides"
        )
    pairs = [unify([a.scalar, b.scalar], "UNION") for a, b in zip(first.columns, second.columns, strict=True)]
    one, other = _unit(first), _unit(second)
    items = [[typed[side] for typed, _ in pairs] for side in (0, 1)]
    halves = [_half(relation, columns) for relation, columns in zip((first, second), items, strict=True)]
    columns = []
    for i, (a, b) in enumerate(zip(*items, strict=True)):
        columns.append(Named(first.columns[i].source, first.columns[i].name, _either(alias, f"c{i}", a, b)))
    carried = replace(
        _either(alias, UNIT_COLUMN, one, other), keys=one.keys & other.keys, nullable=False, constant=True
    )
    rows = [r.unit.max_rows if r.unit is not None else None for r in (first, second)]
    tree = Derived(UnionAll(tuple(halves)), alias)
    return Relation(
        tuple(columns),
        UnitBound(carried, rows[0] + rows[1] if rows[0] is not None and rows[1] is not None else None),
        frozenset(),
        From(tree, tree),
        predicates=(*first.predicates, *second.predicates),
        tables=(*first.tables, *second.tables),
        facts=first.facts | second.facts,
        made=Made("union_all", (first, second)),
    )


def _computed(columns: Sequence[Scalar], behind: Sequence[Scalar | Computed]) -> tuple[tuple[Node, Node], ...]:
    return tuple((c.tree, b.tree) for c, b in zip(columns, behind, strict=True))


def _chosen(columns: Sequence[Scalar], behind: Sequence[Computed]) -> tuple[Node, ...]:
    return tuple(c.tree for c, b in zip(columns, behind, strict=True) if b.chosen)


def _half(relation: Relation, columns: list[Scalar]) -> Node:
    items = [Item(s.tree, f"c{i}") for i, s in enumerate(columns)]
    items.append(Item(_unit(relation).tree, UNIT_COLUMN))
    return Select(tuple(items), relation.read(), applied(relation.where))


def _either(alias: str, name: str, first: Scalar, second: Scalar) -> Scalar:
    """A column that holds values of two: known is what is true of both; the unit stays the unit where both hold it."""
    both = first.held & second.held if first.constant and second.constant else NO_KEYS
    same = frozenset(key for key in both if key.is_unit)
    like = replace(
        literal(None, first.sqltype),
        domain=second.domain
        if first.is_null
        else first.domain
        if second.is_null
        else join(first.domain, second.domain),
        limits=limits_of_any((first, second)),
        nullable=first.nullable or second.nullable,
        integral=first.integral and second.integral,
        role="identifier" if first.is_identifying or second.is_identifying else "",
        constant=bool(same),
        length=max(first.length or 0, second.length or 0) if first.sqltype.is_text else None,
    )
    return replace(computed_column(alias, name, like, (first, second)), keys=same, names=first.names & second.names)


def _unit(source: Relation) -> Scalar:
    if source.unit is None or source.unit.column is None:
        raise error(
            402,
            "each row is its own unit here, so there is nothing to group, number or unite within one",
            hint="aggregate the rows directly, such as SELECT COUNT(*)",
        )
    return source.unit.column


def _present(unit: Scalar) -> Scalar:
    return negation(is_null(unit))


def _groups(source: Relation, keys: Sequence[Scalar]) -> int | None:
    """The most groups of one unit."""
    if all(key.is_constant for key in keys):
        return 1
    assert source.unit is not None
    varying = [key for key in keys if not key.is_constant]
    # Declared values bound the groups only where no others can come: a boolean has no others.
    if all(key.sqltype.is_boolean and isinstance(key.domain, Categories) for key in varying):
        most = prod(3 for _ in varying)
        return min(most, source.unit.max_rows) if source.unit.max_rows is not None else most
    return source.unit.max_rows
