"""Proofs that hold for every text of one shape whose constants lie within limits: a text with new constants is looked up, not proved.

Why   the walk knows a constant in a cast by its type and its limits alone, as it knows a column. So what it proves with wide limits in
      place of the constant is proved of each constant within them: the rules are of all values that the limits hold. Every other
      constant stays as it is; and constants that are equal in the proof have to be equal in the text, since a condition says
      something of an expression with the same constants alone. A proof that needs a guard is none: the text would be another one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from sqlglot import exp

from dpsql.core.domains import Interval
from dpsql.core.sqltypes import DATE
from dpsql.expressions.known import Known, within
from dpsql.planner.total.casts import constant
from dpsql.planner.total.relations import Relations
from dpsql.planner.total.structure import number
from dpsql.planner.total.walk import NotTotalError, type_of

_DATES = date.min.isoformat(), date.max.isoformat()
_DIGITS = 9
"""Before the point: such an integer is INTEGER to the engine, and their product is a BIGINT."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof of a shape.

    values  the constants that it was made with, in the order of the text
    wide    of each what was assumed instead; None where it has to be that one
    """

    values: tuple[str, ...]
    wide: tuple[Known | None, ...]

    def covers(self, values: Sequence[str]) -> bool:
        """True if it is a proof of the text with these constants too."""
        first = {value: place for place, value in reversed(list(enumerate(self.values)))}
        return all(
            found == values[first[value]] and (found == value if assumed is None else _holds(assumed, found))
            for value, found, assumed in zip(self.values, values, self.wide, strict=True)
        )


def proved(
    tree: exp.Expression,
    constants: Sequence[exp.Expression],
    checker: Callable[[Mapping[int, Known]], Relations],
) -> Proof | None:
    """The proof of the shape of a tree that is proved itself; None where there is none without guards, and the tree may have some now.

    constants  of the tree, in the order of its text
    checker    makes the walk that assumes these values of them
    """
    wide = tuple(map(_widened, constants))
    relations = checker({id(node): known for node, known in zip(constants, wide, strict=True) if known is not None})
    try:
        relations.query(tree, None, {})
    except NotTotalError:
        return None
    return None if relations.walk.guarded else Proof(tuple(node.name for node in constants), wide)


def _widened(node: exp.Expression) -> Known | None:
    """Wide limits that may be assumed of a constant; None where it is more than a value in a cast."""
    if type(node.parent) is not exp.Cast or node.parent.this is not node:
        return None
    if node.args.get("is_string"):
        is_date = type_of(node.parent.args["to"]) == DATE
        return _between(*(constant(text, DATE) for text in _DATES)) if is_date else None
    whole, point, after = node.name.partition(".")
    if not whole.isdigit() or len(whole) > _DIGITS:
        return None
    return _between(*(number(f"{digit * _DIGITS}{point}{digit * len(after)}") for digit in "09"))


def _between(first: Known | None, last: Known | None) -> Known | None:
    if first is None or last is None or first.limits is None or last.limits is None:
        return None
    return replace(last, limits=Interval(first.limits.lower, last.limits.upper))


def _holds(assumed: Known, value: str) -> bool:
    """True if a constant is one of those that were assumed: of their type, or of that with fewer digits."""
    if assumed.sqltype == DATE:
        return constant(value, DATE) is not None
    found, sqltype = number(value), assumed.sqltype
    if found is None or (found.sqltype.name, found.sqltype.scale) != (sqltype.name, sqltype.scale):
        return False
    return within(found.limits, assumed.limits)
