"""Words of the refusal of a join: whose rows it would join, and the condition to write."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.core.errors import Error, error
from dpsql.core.spans import Span
from dpsql.expressions.scalar import same_key, same_parts
from dpsql.relations.relations import Named, Relation
from dpsql.schema.paths import HeldKey


def not_joined(left: Relation, right: Relation, span: Span | None, clause: str = "ON") -> Error:
    """402, naming the equality that is missing."""
    if left.unit is not None and left.unit.column is None and right.is_private:
        return error(
            402,
            "each row is its own unit, so rows of people cannot be joined with each other",
            hint="ask about one private table at a time",
            span=span,
        )
    sides = _owned if right.is_private else Relation.sources
    names = " and ".join(sorted({name for part in (left, right) for name in sides(part)})[:4])
    wanted = _private_key(left, right, clause) if right.is_private else _public_key(left, right)
    what = (
        f"the join of {names} does not equate their privacy units{_whose(left, right)}"
        if right.is_private
        else f"the join of {names} is not on a unique key of {', '.join(right.sources())}"
    )
    return error(402, what, hint=wanted, span=span)


def _owned(part: Relation) -> Sequence[str]:
    """The sources of a relation that are people's, where its columns tell."""
    declared = tuple(f"{table.name}." for table in part.tables)
    named = tuple(dict.fromkeys(c.source for c in part.columns if c.scalar.origin.startswith(declared)))
    return named if declared and named else part.sources()


def _whose(left: Relation, right: Relation) -> str:
    """By which columns the rows of both sides belong to people, where those have not the same name."""
    units = [
        part.unit.column.origin for part in (left, right) if part.unit is not None and part.unit.column is not None
    ]
    (mine, one), (theirs, other) = (unit.rpartition(".")[::2] for unit in (units if all(units) else ["", ""]))
    if one == other:
        return ""
    return f": rows of {mine} belong to people by {mine}.{one}, rows of {theirs} by {theirs}.{other}"


def _private_key(left: Relation, right: Relation, clause: str) -> str:
    if (missing := equality(left.columns, right.columns)) is not None:
        return f"add {missing} as an AND part of {clause}"
    if (parts := _key_parts(left, right)) is not None:
        return f"add {parts} as AND parts of {clause}"
    for part in (left, right):
        if (way := _on_the_way(part)) is not None:
            return f"join {way} too, by which its rows belong to people, and equate the privacy units"
    return "keep the privacy unit among the columns of both sides, and equate it"


def _on_the_way(part: Relation) -> str | None:
    """The table that a declared one refers to for its unit, and on what, where it is no column of its own."""
    table = part.tables[0] if len(part.tables) == 1 else None
    if table is None or not table.unit_path or part.unit is None or part.unit.column is None or part.unit.column.origin:
        return None
    step = next((one for one in table.references if one.name == table.unit_path[0]), None)
    on = (
        [f"{part.sources()[0]}.{mine} = {step.table}.{theirs}" for mine, theirs in step.pairs]
        if step is not None
        else []
    )
    return f"{step.table} ON {' AND '.join(on)}" if step is not None else None


def equality(left: Sequence[Named], right: Sequence[Named]) -> str | None:
    """The condition that columns of two sides hold the same private key, where their names tell the sides apart."""
    for mine in left:
        for theirs in right:
            if same_key(mine.scalar, theirs.scalar) and mine.source.lower() != theirs.source.lower():
                return f"{mine.source}.{mine.name} = {theirs.source}.{theirs.name}"
    return None


def _key_parts(left: Relation, right: Relation) -> str | None:
    """The equalities of a private key of several columns that both sides hold, each of one row."""
    equal: dict[tuple[HeldKey, str, str], dict[str, str]] = {}
    for mine in left.columns:
        for theirs in right.columns:
            for one, other in same_parts(mine.scalar, theirs.scalar):
                found = equal.setdefault((one.key, one.row, other.row), {})
                found[one.column] = f"{mine.source}.{mine.name} = {theirs.source}.{theirs.name}"
                if len(found) == len(one.key.columns):
                    return " AND ".join(found.values())
    return None


def _public_key(left: Relation, right: Relation) -> str:
    keys = sorted((tuple(c for c in right.columns if c.scalar.tree in unique) for unique in right.unique), key=len)
    if not keys and not any(column.scalar.origin for column in right.columns):
        return f"write GROUP BY in {right.columns[0].source}, and join it on what it is grouped by"
    if not keys:
        return "declare a key for the public table, or aggregate each by itself"
    parts = []
    for theirs in keys[0]:
        mine = next((c for c in left.columns if c.name.lower() == theirs.name.lower()), None)
        shown = f"{mine.source}.{mine.name}" if mine is not None else "..."
        parts.append(f"{shown} = {theirs.source}.{theirs.name}")
    return f"write ON {' AND '.join(parts)}"
