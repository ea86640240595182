"""Public rows that the statement itself writes out: how many of them one row meets, counted in the rows.

Why  the rows are text of the statement, the same on all databases, and the conditions are on every row of the join; so of one row the
     pairs are at most as many as the written rows that one value can meet. Written rows that differ in what is equated cannot be
     met together, nor can intervals that have no value in common (rules 5, 9)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dpsql.core.domains import Value
from dpsql.core.sqltypes import DATE, SqlType
from dpsql.expressions.conversion import unconverted
from dpsql.expressions.logic import conjuncts
from dpsql.expressions.scalar import Scalar
from dpsql.relations.relations import Relation
from dpsql.sql.nodes import Node

Row = tuple[Value | None, ...]
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BESIDE = {">": 1, ">=": 0, "<": -1, "<=": 0}
"""Distance from a column's value to the end of what it lets through, by comparison: beyond it, at it, or before it."""
_EXACT = 2**53
"""To where every whole number is a DOUBLE of its own, and decimals of 15 digits are."""
End = tuple[str, int]
"""A comparison of an expression with the column at a position."""


def meeting(left: Relation, right: Relation, conditions: Iterable[Scalar], equated: Iterable[Node]) -> Relation:
    """The written rows, told how many of them one row of the left can meet where all of the conditions are true.

    equated  columns of the right that the join equates with what a row of the left has
    """
    assert right.written is not None
    places = {column.scalar.tree: i for i, column in enumerate(right.columns)}
    exact = [places[tree] for tree in equated if not right.columns[places[tree]].scalar.sqltype.is_float]
    groups: dict[Row, list[Row]] = {}
    for row in right.written:
        groups.setdefault(tuple(row[i] for i in exact), []).append(row)
    ends: dict[object, list[End]] = {}
    for compared, end in _compared(left, right, places, conditions):
        ends.setdefault(compared, []).append(end)
    met = (min([len(rows), *(_overlap(rows, told) for told in ends.values())]) for rows in groups.values())
    return replace(right, met=max([1, *met]))


def _compared(
    left: Relation, right: Relation, places: dict[Node, int], conditions: Iterable[Scalar]
) -> Iterator[tuple[object, End]]:
    """Comparisons of expressions over the left with columns of the right, by what is compared and the kind of the column's values."""
    known = {leaf.tree for column in left.columns for leaf in column.scalar.leaves()}
    for condition in (part for whole in conditions for part in conjuncts(whole) if part.function in _TURNED):
        words = condition.function, _TURNED[condition.function]
        for word, (mine, theirs) in zip(words, (condition.args, condition.args[::-1]), strict=True):
            column, leaves = unconverted(theirs), {leaf.tree for leaf in mine.leaves()}
            if column.tree in places and leaves and leaves <= known and _keeps_order(column.sqltype, theirs.sqltype):
                kind = "integer" if column.sqltype.is_integer else str(column.sqltype)
                yield (mine.tree, kind), (word, places[column.tree])


def _keeps_order(held: SqlType, compared: SqlType) -> bool:
    """True if different values of a type stay different, and in their order, in the type in which they are compared."""
    if held == compared or not compared.is_float:
        return held in (compared, DATE) or held.is_integer or held.is_decimal
    most = held.range if held.is_integer else None
    return most.upper <= _EXACT if most is not None else held.is_decimal and held.width <= 15


def _overlap(rows: Sequence[Row], ends: Sequence[End]) -> int:
    """The most rows whose intervals have a value in common, which is then the lower end of one of them. What is NULL here may be an
    infinite value, and ends nothing."""
    told = [[(0, row[at], _BESIDE[word], word[0]) for word, at in ends if row[at] is not None] for row in rows]
    intervals = [
        (
            max((end[:3] for end in some if end[3] == ">"), default=(-1,)),
            min((end[:3] for end in some if end[3] == "<"), default=(1,)),
        )
        for some in told
    ]
    return max(sum(low <= at <= high for low, high in intervals) for at, _ in intervals)
