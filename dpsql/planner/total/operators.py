"""Rules for operators and functions of one row: arithmetic, the calendar, text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from dpsql.core.domains import interval
from dpsql.core.sqltypes import COMBINATION, VARCHAR
from dpsql.expressions.functions import ENGINE
from dpsql.expressions.functions.calendar import shifted
from dpsql.expressions.functions.record import is_text, texts
from dpsql.expressions.known import NOTHING, NULL, Known, Ruled, always, integer
from dpsql.planner.total import arithmetic as numbers
from dpsql.planner.total.walk import KnownColumns, Rule, Walk, unknown

_BEYOND = str(2**127)
"""The digits of the least whole number; without its sign it is of no type."""
Plain = Callable[[Sequence[Known]], Ruled | None]
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*"}
_DIVISIONS: dict[str, Callable[[Known, Known], Ruled | None]] = {
    "Div": numbers.divide,
    "IntDiv": numbers.integer_divide,
    "Mod": numbers.modulo,
    "BitwiseRightShift": numbers.right_shift,
}


def arithmetic(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    a, b = _beside(walk.value(node.this, scope), walk.value(node.expression, scope))
    if isinstance(node, exp.Add) and a.sqltype.is_temporal:
        return walk.ruled(node, shifted(a, b))
    return walk.ruled(node, numbers.arithmetic(_ARITHMETIC[type(node).__name__], a, b))


def division(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    a, b = _beside(walk.value(node.this, scope), walk.value(node.expression, scope))
    return walk.ruled(node, _DIVISIONS[type(node).__name__](a, b))


def negative(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    if isinstance(node.this, exp.Literal) and node.this.name == _BEYOND:
        # the engine reads the sign with the digits
        return integer(-int(_BEYOND))
    return walk.ruled(node, numbers.negative(_typed(walk.value(node.this, scope))))


def concatenated(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    return walk.ruled(node, texts(2)([_typed(walk.value(part, scope)) for part in (node.this, node.expression)]))


def named(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """A function of the engine, by the rule of its record."""
    rule = ENGINE.get(node.name.lower()) or _OWN.get(node.name.lower())
    if rule is None:
        raise unknown(node)
    return walk.ruled(node, rule([_typed(walk.value(arg, scope)) for arg in node.expressions]))


def _any_texts(args: Sequence[Known]) -> Ruled | None:
    return always(Known(VARCHAR)) if all(map(is_text, args)) else None


def _combined(args: Sequence[Known]) -> Ruled | None:
    return always(Known(COMBINATION, null=False))


_OWN: Mapping[str, Plain] = {"md5": _any_texts, "row": _combined}
"""Functions that only dpsql calls."""
NAMES = frozenset({*ENGINE, *_OWN})
"""The functions of the engine that are known by their names."""


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
        return NOTHING
    return Known(other.sqltype, interval(1, 1) if other.sqltype.is_number else None)


OPERATORS: Mapping[str, Rule] = {
    **dict.fromkeys(_ARITHMETIC, arithmetic),
    **dict.fromkeys(_DIVISIONS, division),
    "Neg": negative,
    "DPipe": concatenated,
    "Anonymous": named,
}
