"""Relations of one FROM clause -> one relation, by the conditions that join them, in whatever order they were written."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.core.errors import Error, error
from dpsql.core.spans import Span
from dpsql.expressions.conversion import unconverted
from dpsql.expressions.scalar import Scalar, same_key
from dpsql.relations.joins import Equality, equates_units, inner_join, meets_few, public_equality
from dpsql.relations.relations import Relation
from dpsql.sql.nodes import Node


def connect(
    parts: Sequence[Relation], conditions: Sequence[Scalar], span: Span | None = None
) -> tuple[Relation, list[Scalar]]:
    """All parts joined, starting from the first private one where there is any; and the conditions that the joins do not already hold.

    Raises 402 with the condition to add where a part shares no key with the others.
    """
    start = next((i for i, part in enumerate(parts) if part.is_private), 0)
    joined, waiting = parts[start], [part for i, part in enumerate(parts) if i != start]
    known = [*conditions, *(common for c in conditions for common in _common(c))]
    used: set[Node] = set()
    while waiting:
        for part in waiting:
            equalities = equalities_between(joined, part, known)
            if can_join(joined, part, equalities):
                used |= {c.tree for c in known if _is_one_of(c, equalities)}
                joined = inner_join(joined, part, equalities)
                waiting = [other for other in waiting if other is not part]
                break
        else:
            raise not_joined(joined, waiting[0], span)
    return joined, [c for c in conditions if c.tree not in used]


def can_join(left: Relation, right: Relation, equalities: Sequence[Equality]) -> bool:
    return equates_units(equalities) if right.is_private else meets_few(left, right, equalities)


def equalities_between(left: Relation, right: Relation, conditions: Sequence[Scalar]) -> list[Equality]:
    """The conditions that equate an expression of the left with one of the right, in that order of sides."""
    mine, theirs = columns_of(left), columns_of(right)
    found = []
    for condition in conditions:
        if condition.function != "=":
            continue
        for first, second in (condition.args, condition.args[::-1]):
            one, other = _plain(first), _plain(second)
            if _within(one, mine) and _within(other, theirs):
                equality = Equality(first, second) if right.is_private else public_equality(one, other)
                if equality is not None:
                    found.append(equality)
    return found


def _within(scalar: Scalar, columns: set[Node]) -> bool:
    leaves = {leaf.tree for leaf in scalar.leaves()}
    return bool(leaves) and leaves <= columns


def _plain(scalar: Scalar) -> Scalar:
    """What a comparison converted to the common type; the join decides on its own which side is cast."""
    inner = unconverted(scalar)
    return inner if inner.is_column and inner.sqltype.is_integer and scalar.sqltype.is_integer else scalar


def _is_one_of(condition: Scalar, equalities: Sequence[Equality]) -> bool:
    """Whether a join holds this very condition; one whose sides were cast anew is kept beside it."""
    sides = [{e.left.tree, e.right.tree} for e in equalities]
    return condition.function == "=" and {a.tree for a in condition.args} in sides


def _common(condition: Scalar) -> list[Scalar]:
    """The AND parts that every branch of an OR has: they hold wherever the OR does."""
    if condition.function != "or":
        return []
    branches = [{p.tree: p for p in (b.args if b.function == "and" else (b,))} for b in condition.args]
    return [p for tree, p in branches[0].items() if all(tree in other for other in branches[1:])]


def columns_of(relation: Relation) -> set[Node]:
    """All columns that expressions over a relation can read."""
    return {leaf.tree for c in relation.columns for leaf in c.scalar.leaves()}


def reads_only(scalar: Scalar, relation: Relation) -> bool:
    return _within(scalar, columns_of(relation))


def not_joined(left: Relation, right: Relation, span: Span | None) -> Error:
    """402, naming the equality that is missing."""
    if left.unit is not None and left.unit.column is None and right.is_private:
        return error(
            402,
            "each row is its own unit, so rows of people cannot be joined with each other",
            hint="ask about one private table at a time",
            span=span,
        )
    names = " and ".join(sorted({name for part in (left, right) for name in part.sources()})[:4])
    wanted = _private_key(left, right) if right.is_private else _public_key(left, right)
    what = (
        f"the join of {names} does not equate their privacy units{_whose(left, right)}"
        if right.is_private
        else f"the join of {names} is not on a unique key of {', '.join(right.sources())}"
    )
    return error(402, what, hint=wanted, span=span)


def _whose(left: Relation, right: Relation) -> str:
    """By which columns the rows of both sides belong to people, where those have not the same name."""
    units = [
        part.unit.column.origin for part in (left, right) if part.unit is not None and part.unit.column is not None
    ]
    (mine, one), (theirs, other) = (unit.rpartition(".")[::2] for unit in (units if all(units) else ["", ""]))
    if one == other:
        return ""
    return f": rows of {mine} belong to people by {mine}.{one}, rows of {theirs} by {theirs}.{other}"


def _private_key(left: Relation, right: Relation) -> str:
    for mine in left.columns:
        for theirs in right.columns:
            if same_key(mine.scalar, theirs.scalar):
                return f"add {mine.source}.{mine.name} = {theirs.source}.{theirs.name} as an AND part of ON"
    return "keep the privacy unit among the columns of both sides, and equate it"


def _public_key(left: Relation, right: Relation) -> str:
    keys = sorted((tuple(c for c in right.columns if c.scalar.tree in unique) for unique in right.unique), key=len)
    if not keys:
        return "declare a key for the public table, or aggregate each by itself"
    parts = []
    for theirs in keys[0]:
        mine = next((c for c in left.columns if c.name.lower() == theirs.name.lower()), None)
        shown = f"{mine.source}.{mine.name}" if mine is not None else "..."
        parts.append(f"{shown} = {theirs.source}.{theirs.name}")
    return f"write ON {' AND '.join(parts)}"
