"""Rows for the elements of a list that is declared in a column."""

from __future__ import annotations

from dataclasses import replace

from dpsql.core.errors import error
from dpsql.expressions.lengths import LONGEST
from dpsql.expressions.logic import is_null, negation
from dpsql.expressions.scalar import Scalar, column
from dpsql.relations.relations import (
    Made,
    Relation,
    UnitBound,
    boundary,
    check_growth,
    computed_column,
    derived_column,
    product_bound,
)
from dpsql.schema.model import UNIT_COLUMN, Column
from dpsql.sql.nodes import Call
from dpsql.sql.nodes import Column as ColumnNode
from dpsql.sql.queries import Item


def unnested(source: Relation, alias: str, listed: Scalar, element: Column) -> tuple[Relation, Scalar]:
    """Each row once for each element of its list, which stands beside it; none for a list that is empty or NULL.

    listed     the column of lists
    element    one element, as it is declared
    Output     the relation, and the column of elements
    Stability  a row becomes at most as many as the declared length, so a unit has that many times its rows; nothing is unique any
               more, and no column adds up to its unit's declared total                                            [rows]
    Why        a longer list is NULL where it is read (rule 47), and the rows that come out for a unit are made of its own. That no
               more of them are counted is enforced by the cut before the sums, like any bound on rows
    Refuses    204 where lists beside each other could be too many rows
               402 at row level, where one row would become several of its unit that nothing holds together
    """
    rows, unit = _held_together(source)
    length = listed.length if listed.length is not None else LONGEST + 1
    check_growth(source, becomes=length)
    shown = [c.scalar for c in source.columns]
    moved = (replace(derived_column(alias, f"c{i}", s), unit_bounds=None) for i, s in enumerate(shown))
    columns = tuple(replace(c, scalar=scalar) for c, scalar in zip(source.columns, moved, strict=True))
    carried = replace(derived_column(alias, UNIT_COLUMN, unit), keys=unit.keys, constant=True)
    tree = Call("unnest", (listed.tree,))
    items = [*(Item(s.tree, f"c{i}") for i, s in enumerate(shown)), Item(tree, "e0"), Item(unit.tree, UNIT_COLUMN)]
    made = computed_column(alias, "e0", _value(element), (listed,))
    owned = replace(source, where=(*source.where, negation(is_null(unit))))
    behind = boundary(owned, alias, items, False)
    computed = ((c.scalar.tree, s.tree) for c, s in zip(columns, shown, strict=True))
    relation = Relation(
        columns,
        UnitBound(carried, product_bound(rows, length)),
        frozenset(),
        replace(behind, plain=behind.with_unit),
        predicates=source.predicates,
        tables=source.tables,
        facts=source.facts,
        made=Made("unnested", (source,), computed=(*computed, (made.tree, tree)), becomes=length),
    )
    return relation, made


def _held_together(source: Relation) -> tuple[int | None, Scalar]:
    """The most rows of a unit, and its value beside them."""
    if source.unit is None or source.unit.column is None:
        raise error(
            402,
            "each row is its own unit here, and UNNEST would make several of it",
            hint="ask about the list of a row: write LIST_CONTAINS(x, 'a')",
        )
    return source.unit.max_rows, source.unit.column


def _value(element: Column) -> Scalar:
    """Value of an element; any may be NULL."""
    return column(ColumnNode("", element.name), element.sqltype, element.domain, nullable=True, length=element.longest)
