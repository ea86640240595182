"""Rules for operators and functions of one row: arithmetic, the calendar, text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from dpsql.core.domains import interval
from dpsql.core.sqltypes import BIGINT, BOOLEAN
from dpsql.planner.total import arithmetic as numbers
from dpsql.planner.total import functions
from dpsql.planner.total.known import NULL, Known, integer
from dpsql.planner.total.rules import Ruled
from dpsql.planner.total.walk import Rule, Scope, Walk, unknown

_BEYOND = str(2**127)
"""The digits of the least whole number; without its sign it is of no type."""
Plain = Callable[[Sequence[Known]], Ruled | None]
_FUNCTIONS: dict[str, Plain] = {
    "Sqrt": functions.increasing(math.sqrt, ">= 0"),
    "Ln": functions.increasing(math.log, "> 0"),
    "Exp": functions.increasing(math.exp, ""),
    "Pow": functions.power,
    "Sign": functions.sign,
    "IsNan": functions.float_test,
    "IsInf": functions.float_test,
    "Floor": functions.to_whole("floor"),
    "Ceil": functions.to_whole("ceil"),
    "Trunc": functions.to_whole("trunc"),
    "Lower": functions.texts(1),
    "Upper": functions.texts(1),
    "Length": functions.texts(1, BIGINT),
    "StartsWith": functions.texts(2, BOOLEAN),
    "EndsWith": functions.texts(2, BOOLEAN),
    "Contains": functions.texts(2, BOOLEAN),
    "DPipe": functions.texts(2),
    "Substring": functions.position,
    "Left": functions.position,
    "Right": functions.position,
    "ConcatWs": functions.any_text,
    "MD5": functions.any_text,
}
"""By the parser's name of the node: versions of it differ in which functions they know."""
_NAMED: dict[str, Plain] = {
    "isfinite": functions.float_test,
    "trunc": functions.to_whole("trunc"),
    "ends_with": functions.texts(2, BOOLEAN),
    "prefix": functions.texts(2, BOOLEAN),
    "suffix": functions.texts(2, BOOLEAN),
    "strlen": functions.texts(1, BIGINT),
}
_LOGARITHMS = {"2": functions.increasing(math.log2, "> 0"), "10": functions.increasing(math.log10, "> 0")}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*"}
_DIVISIONS: dict[str, Callable[[Known, Known], Ruled | None]] = {
    "Div": numbers.divide,
    "IntDiv": numbers.integer_divide,
    "Mod": numbers.modulo,
    "BitwiseRightShift": numbers.right_shift,
}


def arithmetic(walk: Walk, node: exp.Expression, scope: Scope) -> Known:
    a, b = _beside(walk.value(node.this, scope), walk.value(node.expression, scope))
    if isinstance(node, exp.Add) and a.sqltype.is_temporal:
        return walk.ruled(node, functions.shift(a, b))
    return walk.ruled(node, numbers.arithmetic(_ARITHMETIC[type(node).__name__], a, b))


def division(walk: Walk, node: exp.Expression, scope: Scope) -> Known:
    a, b = _beside(walk.value(node.this, scope), walk.value(node.expression, scope))
    return walk.ruled(node, _DIVISIONS[type(node).__name__](a, b))


def negative(walk: Walk, node: exp.Expression, scope: Scope) -> Known:
    if isinstance(node.this, exp.Literal) and node.this.name == _BEYOND:
        # the engine reads the sign with the digits
        return integer(-int(_BEYOND))
    return walk.ruled(node, numbers.negative(_typed(walk.value(node.this, scope))))


def absolute(walk: Walk, node: exp.Expression, scope: Scope) -> Known:
    return walk.ruled(node, numbers.absolute(_typed(walk.value(node.this, scope))))


def logarithm(walk: Walk, node: exp.Expression, scope: Scope) -> Known:
    rule = _LOGARITHMS.get(node.this.name) if isinstance(node.this, exp.Literal) else None
    if rule is None or node.expression is None:
        raise unknown(node)
    return walk.ruled(node, rule([_typed(walk.value(node.expression, scope))]))


def rounding(walk: Walk, node: exp.Expression, scope: Scope) -> Known:
    digits = node.args.get("decimals")
    if digits is None:
        return walk.ruled(node, functions.to_whole("round")([_typed(walk.value(node.this, scope))]))
    return walk.ruled(node, functions.round_to([_typed(walk.value(n, scope)) for n in (node.this, digits)]))


def trimmed(walk: Walk, node: exp.Expression, scope: Scope) -> Known:
    if node.expression is not None:
        raise unknown(node)
    return walk.ruled(node, functions.texts(1)([walk.value(node.this, scope)]))


def truncated(walk: Walk, node: exp.Expression, scope: Scope) -> Known:
    return walk.ruled(node, functions.truncated(node.text("unit").lower(), walk.value(node.this, scope)))


def difference(walk: Walk, node: exp.Expression, scope: Scope) -> Known:
    a, b = walk.value(node.this, scope), walk.value(node.expression, scope)
    return walk.ruled(node, functions.difference(node.text("unit").lower(), a, b))


def span(walk: Walk, node: exp.Expression, scope: Scope) -> Known:
    return walk.ruled(node, functions.span("to_days", [walk.value(node.this, scope)]))


def named(walk: Walk, node: exp.Expression, scope: Scope) -> Known:
    name, args = node.name.lower(), list(node.expressions)
    if name == "date_part" and len(args) == 2 and isinstance(args[0], exp.Literal):
        return walk.ruled(node, functions.date_part(args[0].name.lower(), walk.value(args[1], scope)))
    values = [_typed(walk.value(arg, scope)) for arg in args]
    if name in _NAMED:
        return walk.ruled(node, _NAMED[name](values))
    return walk.ruled(node, functions.span(name, values))


def _beside(a: Known, b: Known) -> tuple[Known, Known]:
    """The operands of an operator; a bare NULL takes the type of the other side, and what is done with it is NULL."""
    if a.sqltype == NULL and b.sqltype == NULL:
        return integer(0), integer(0)
    return _typed(a, b), _typed(b, a)


def _typed(value: Known, other: Known | None = None) -> Known:
    """A bare NULL as a value of a type: no function is worked out for it."""
    if value.sqltype != NULL:
        return value
    if other is None:
        return functions.NOTHING
    return Known(other.sqltype, interval(1, 1) if other.sqltype.is_number else None)


def _arguments(node: exp.Expression) -> list[exp.Expression]:
    """The operands of a function, in order; options that are no operand make it another function."""
    found: list[exp.Expression] = []
    for name, part in node.args.items():
        if isinstance(part, exp.Expression):
            found.append(part)
        elif isinstance(part, list):
            found += part
        elif name not in ("safe", "coalesce", "big_int", "ignore_nulls", "binary", "_") and part:
            raise unknown(node)
    return found


def _function(rule: Plain) -> Rule:
    return lambda walk, node, scope: walk.ruled(node, rule([_typed(walk.value(a, scope)) for a in _arguments(node)]))


OPERATORS: Mapping[str, Rule] = {
    **dict.fromkeys(_ARITHMETIC, arithmetic),
    **dict.fromkeys(_DIVISIONS, division),
    "Neg": negative,
    "Abs": absolute,
    "Log": logarithm,
    "Round": rounding,
    "Trim": trimmed,
    "TimestampTrunc": truncated,
    "DateTrunc": truncated,
    "DateDiff": difference,
    "ToDays": span,
    "Anonymous": named,
    **{name: _function(rule) for name, rule in _FUNCTIONS.items()},
}
