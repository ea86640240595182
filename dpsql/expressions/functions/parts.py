"""Parts of a text by constant positions: SUBSTRING, LEFT and RIGHT.

Positions below zero count from the end, or backwards. DuckDB 1.x reads those of SUBSTRING otherwise where it knows that every text of a
column is ASCII: there one other text of anybody changes the part that is cut of everybody's (rule 45). So none is printed: each such
part is one that LEFT and RIGHT cut, which read it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpsql.core.domains import UNBOUNDED
from dpsql.core.errors import error
from dpsql.core.sqltypes import VARCHAR
from dpsql.expressions.functions.record import Constants, Function, Rule, as_text, text_and_numbers
from dpsql.expressions.known import Known, Ruled
from dpsql.expressions.scalar import Scalar
from dpsql.sql.nodes import Call, Node, Number

_FARTHEST = 10_000
"""[letters] Constant positions lie before this."""


def part(function: str, scalar: Scalar, positions: list[Scalar]) -> Scalar:
    """SUBSTRING(x, start[, length]), LEFT(x, n), RIGHT(x, n), with constant positions."""
    scalar = as_text(scalar, function)
    if function == "substring":
        start, *count = (a.value for a in positions if isinstance(a.value, int))
        tree = _window(scalar.tree, start, count[0] if count else None)
    else:
        tree = Call(function, (scalar.tree, *(a.tree for a in positions)))
    return Scalar(function, (scalar, *positions), tree, VARCHAR, UNBOUNDED, None, scalar.nullable)


def _window(text: Node, start: int, count: int | None) -> Node:
    """SUBSTRING(text, start, count) of positions that may be below zero."""
    if start >= 0:
        first = start if count is None or count >= 0 else max(start + count, 1)
        counts = () if count is None else (count if count >= 0 else max(start - first, 0),)
        return Call("substring", (text, *(Number(n) for n in (first, *counts))))
    if count is None or count >= -start:
        return _side("right", text, -start)
    return _side("right", _side("left", text, start + max(count, 0)), abs(count))


def _side(function: str, text: Node, count: int) -> Node:
    """LEFT or RIGHT; below zero all but so many."""
    return Call(function, (text, Number(count)))


def _forward(args: Sequence[Known]) -> Ruled | None:
    """SUBSTRING of positions that are not below zero."""
    forward = all(p.limits is not None and p.limits.lower >= 0 for p in args[1:])
    return text_and_numbers(args) if forward else None


def _positions(what: str) -> Callable[[Constants], None]:
    def check(constants: Constants) -> None:
        for value in constants[1:]:
            if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _FARTHEST:
                raise error(
                    102, f"the positions of {what} must be constant whole numbers", hint="write SUBSTRING(x, 1, 2)"
                )

    return check


def _part(name: str, example: str, rule: Rule, *, optional: int = 0, syntax: bool = False) -> Function:
    return Function(
        (name,),
        example,
        "text",
        ("value", "constant", "constant") if optional else ("value", "constant"),
        lambda text, *positions: part(name, text, list(positions)),
        {name: rule},
        optional,
        check=_positions(name.upper()),
        syntax=syntax,
    )


FUNCTIONS = (
    _part("substring", "SUBSTRING(a, 1, 3)", _forward, optional=1, syntax=True),
    _part("left", "LEFT(a, 3)", text_and_numbers),
    _part("right", "RIGHT(a, 3)", text_and_numbers),
)  # fmt: skip
