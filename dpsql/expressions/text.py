"""Text functions whose work and result are bounded by a constant times their argument."""

from __future__ import annotations

from dpsql.core.domains import UNBOUNDED, interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, BOOLEAN, VARCHAR
from dpsql.expressions.literals import literal
from dpsql.expressions.logic import BOTH
from dpsql.expressions.scalar import NULL_TYPE, Scalar
from dpsql.sql.nodes import Binary, Call

_MOST = 2**31


def _text(scalar: Scalar, function: str) -> Scalar:
    if scalar.sqltype == NULL_TYPE:
        return literal(None, VARCHAR)
    if not scalar.sqltype.is_text:
        raise error(
            106, f"{function.upper()} needs text, not {scalar.sqltype}", hint="write CAST(... AS VARCHAR) around it"
        )
    return scalar


def length(scalar: Scalar) -> Scalar:
    scalar = _text(scalar, "length")
    limits = interval(0, _MOST)
    return Scalar(
        "length", (scalar,), Call("length", (scalar.tree,)), BIGINT, UNBOUNDED, limits, scalar.nullable, integral=True
    )


def change(function: str, scalar: Scalar) -> Scalar:
    """LOWER, UPPER, TRIM, LTRIM, RTRIM."""
    scalar = _text(scalar, function)
    return Scalar(function, (scalar,), Call(function, (scalar.tree,)), VARCHAR, UNBOUNDED, None, scalar.nullable)


def _position(scalar: Scalar, function: str) -> Scalar:
    if not (scalar.is_literal and isinstance(scalar.value, int) and abs(scalar.value) < 10_000):
        raise error(
            102, f"the positions of {function.upper()} must be constant whole numbers", hint="write SUBSTRING(x, 1, 2)"
        )
    return scalar


def part(function: str, scalar: Scalar, positions: list[Scalar]) -> Scalar:
    """SUBSTRING(x, start[, length]), LEFT(x, n), RIGHT(x, n), with constant positions."""
    scalar = _text(scalar, function)
    args = [_position(p, function) for p in positions]
    tree = Call(function, (scalar.tree, *(a.tree for a in args)))
    return Scalar(function, (scalar, *args), tree, VARCHAR, UNBOUNDED, None, scalar.nullable)


def contains(function: str, scalar: Scalar, other: Scalar) -> Scalar:
    """STARTS_WITH, ENDS_WITH, CONTAINS."""
    scalar, other = _text(scalar, function), _text(other, function)
    nullable = scalar.nullable or other.nullable
    return Scalar(function, (scalar, other), Call(function, (scalar.tree, other.tree)), BOOLEAN, BOTH, None, nullable)


def concatenate(left: Scalar, right: Scalar) -> Scalar:
    """left || right"""
    left, right = _text(left, "||"), _text(right, "||")
    if isinstance(left.value, str) and isinstance(right.value, str):
        return literal(left.value + right.value, VARCHAR)
    tree = Binary("||", left.tree, right.tree)
    return Scalar("||", (left, right), tree, VARCHAR, UNBOUNDED, None, left.nullable or right.nullable)
