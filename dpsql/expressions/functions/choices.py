"""Functions that choose among values. The parser has forms of its own for most of them, from which their scalars are made."""

from __future__ import annotations

from dpsql.expressions import conditional
from dpsql.expressions.functions.record import Function
from dpsql.expressions.scalar import Scalar


def _if(condition: Scalar, then: Scalar, other: Scalar | None = None) -> Scalar:
    return conditional.case([(condition, then)], other)


FUNCTIONS = (
    Function(("coalesce", "ifnull"), "COALESCE(x, 0)", "the first that is not NULL", ("value",),
        lambda *values: conditional.coalesce(list(values)), repeats=True, syntax=True),
    Function(("nullif",), "NULLIF(x, 0)", "x; NULL where they are equal", ("value", "value"), conditional.nullif,
        syntax=True),
    Function(("least",), "LEAST(x, y)", "the smallest that is not NULL", ("value",),
        lambda *values: conditional.extreme("least", list(values)), repeats=True, syntax=True),
    Function(("greatest",), "GREATEST(x, y)", "the greatest that is not NULL", ("value",),
        lambda *values: conditional.extreme("greatest", list(values)), repeats=True, syntax=True),
    Function(("if",), "IF(x > 0, a, b)", "one of two values", ("value",) * 3, _if, optional=1, syntax=True),
)  # fmt: skip
