"""EXCEPT and INTERSECT of people's rows -> DISTINCT rows under EXISTS."""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.expressions.scalar import Scalar, equate_keys, same_key, same_parts
from dpsql.planner.resolve.statement import Private


def membership(node: exp.SetOperation, first: Private, second: Private) -> exp.Select:
    """EXCEPT and INTERSECT of people's rows: the different rows of the first side for which the second has none, or has one.

    Why  the unit, or all columns of a key of its rows, stand in the same places of both sides, so whether a row is kept depends on its
         own unit's rows (rules 1, 7); where they do not it is refused
    """
    word = type(node).__name__.upper()
    pairs = list(zip(first.relation.columns, second.relation.columns, strict=False))
    held = [_equal_in_keys(one.scalar, other.scalar) for one, other in pairs]
    keys = ((one.scalar, other.scalar) for (one, other), same in zip(pairs, held, strict=True) if same)
    if not equate_keys(keys) or len(first.relation.columns) != len(second.relation.columns):
        raise error(
            402,
            f"{word} of people's rows needs as many columns on both sides, with the privacy unit in the same place",
            hint=f"write SELECT unit, ... {word} SELECT unit, ..., or EXISTS on the privacy unit",
            span=span_of(node),
        )
    if not node.args.get("distinct"):
        raise error(402, f"{word} ALL of people's rows is not supported", hint=f"write {word}", span=span_of(node))
    names, sides = [f"c{i}" for i in range(len(pairs))], ("kept", "tested")
    equal = [
        (exp.EQ if same else exp.NullSafeEQ)(this=exp.column(name, "kept"), expression=exp.column(name, "tested"))
        for name, same in zip(names, held, strict=True)
    ]
    kept, tested = (
        exp.Subquery(
            this=side.copy(),
            alias=exp.TableAlias(this=exp.to_identifier(alias), columns=[*map(exp.to_identifier, names)]),
        )
        for side, alias in zip((node.this, node.expression), sides, strict=True)
    )
    found: exp.Expression = exp.Exists(this=exp.select("1").from_(tested).where(exp.and_(*equal)))
    shown = [exp.alias_(exp.column(f"c{i}", "kept"), one.name, quoted=True) for i, (one, _) in enumerate(pairs)]
    return (
        exp.select(*shown).distinct().from_(kept).where(found if isinstance(node, exp.Intersect) else exp.not_(found))
    )


def _equal_in_keys(one: Scalar, other: Scalar) -> bool:
    """True if two columns hold the same key, or the same part of one, and where both are NULL the row is nobody's or there is none."""
    never_null = not (one.nullable and other.nullable)
    return same_key(one, other) or (never_null and any(True for _ in same_parts(one, other)))
