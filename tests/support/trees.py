"""SQL trees in tests: short ways to make, read and change them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction

from dpsql.core.sqltypes import BIGINT, DOUBLE
from dpsql.expressions.scalar import Scalar
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Bare, Binary, Call, Cast, Column, Literal, Node, Number
from dpsql.sql.trees import rewritten, walk

X = Column("", "x")
SECRET = "$cut"
"""The name of the secret in the engine SQL."""


def text(scalar: Scalar) -> str:
    """The query that the engine is asked."""
    return printed(scalar.tree)


def name_of(scalar: Scalar) -> str:
    """The bare name of a column; "" for anything else."""
    return scalar.tree.name if isinstance(scalar.tree, Column) else ""


def changed(tree: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with every node that a function makes another of."""
    return rewritten(tree, {part: new for part in walk(tree) if (new := change(part)) != part})


def unclamped(x: Node, quantum: Fraction) -> Node:
    """A value on a grid, without bounds."""
    return Cast(Bare(Binary("/", Cast(x, DOUBLE), Literal(quantum, DOUBLE))), BIGINT)


def or_zero(tree: Node) -> Node:
    return Call("COALESCE", (tree, Number(0)))


def told(identity: Hashable) -> str:
    """The input of a statistic or a histogram, for people."""
    match identity:
        case (("rows" | "units") as kind, condition):
            return f"{kind}({_told(condition)})"
        case (("total" | "grid" | "magnitudes") as kind, value, condition):
            return f"{kind}({_told(value)}; {_told(condition)})"
        case (("pair" | "moments") as kind, with_rows, values, condition):
            return f"{kind}{' with rows' if with_rows else ''}({_told(values)}; {_told(condition)})"
        case ("joint", blocks, rows, condition):
            each = [
                f"{_told(value)} {'as a pair' if split else 'centred'} * {s}{', gaps' * gaps}"
                + (f", square * {square[0]} around {square[1]}" if square else "")
                for value, s, split, gaps, *square in blocks
            ]
            return f"joint({'; '.join([*each, *([f'rows * {rows}'] if rows else [])])}; {_told(condition)})"
        case ("distinct", value, condition, most):
            return f"distinct({_told(value)}; {_told(condition)}; {most} of a unit)"
        case ("unit total", low, high, value, condition):
            return f"unit total([{low}, {high}]; {_told(value)}; {_told(condition)})"
        case tuple() as parts:
            return " ".join(told(part) for part in parts)
    return _told(identity)


def _told(part: object) -> str:
    match part:
        case None:
            return ""
        case Node():
            return printed(part)
        case (Node() as value, int(low), int(high), quantum):
            return f"{printed(value)} in [{low}, {high}] * {quantum}"
        case ((_, int()), *_) as values:
            return "; ".join(f"{_told(value)} ^ {degree}" for value, degree in values)
    return str(part)
