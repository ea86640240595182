"""SQL trees in tests: short ways to make, read and change them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dpsql.core.sqltypes import BIGINT, DOUBLE
from dpsql.expressions.scalar import Scalar
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Bare, Binary, Call, Cast, Column, Literal, Node, Number
from dpsql.sql.trees import rewritten, walk

X = Column("", "x")
SECRET = "$cut"
"""How the secret stands in the engine SQL."""


def text(scalar: Scalar) -> str:
    """What the engine is asked for."""
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
