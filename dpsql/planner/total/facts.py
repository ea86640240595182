"""What a branch of CASE knows because its condition is true: limits of the very expressions that the condition compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from dpsql.core.domains import LARGEST_DOUBLE, Interval
from dpsql.expressions.known import Known, meet

_FINITE = Interval(-LARGEST_DOUBLE, LARGEST_DOUBLE)
Facts = dict[object, Known]
"""By `key`."""
Value = Callable[[exp.Expression], Known]


def learnt(condition: exp.Expression, value: Value) -> Facts:
    """Facts about expressions where a condition is true.

    Why  the engine works a branch out for those rows alone whose condition is true; NaN is above every number to it, so only an upper
         end keeps NaN out
    """
    facts: Facts = {}
    for part in _conjuncts(condition):
        for node, known in _of(part, value):
            before = facts.get(key(node), known)
            limits = meet(before.limits, known.limits)
            facts[key(node)] = replace(known, limits=limits, least=known.least or before.least)
    return facts


def key(node: exp.Expression) -> object:
    """What an expression is told by: a column by its name, which is compared faster than a tree."""
    return (node.text("table"), node.name) if isinstance(node, exp.Column) else node


def told(facts: Facts, node: exp.Expression) -> Known | None:
    """What is known of an expression."""
    if isinstance(node, exp.Column):
        return facts.get(key(node))
    return facts.get(node) if any(type(node) is type(other) for other in facts) else None


def _conjuncts(condition: exp.Expression) -> Iterator[exp.Expression]:
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        elif isinstance(part, exp.Paren):
            waiting.append(part.this)
        else:
            yield part


def _of(part: exp.Expression, value: Value) -> Iterator[tuple[exp.Expression, Known]]:
    if isinstance(part, exp.Between):
        low, high = value(part.args["low"]).limits, value(part.args["high"]).limits
        here = value(part.this)
        if low is not None and high is not None and low.lower <= high.upper:
            yield part.this, replace(here, limits=meet(Interval(low.lower, high.upper), here.limits), null=False)
    elif isinstance(part, exp.Anonymous) and part.name.lower() == "isfinite" and len(part.expressions) == 1:
        here = value(part.expressions[0])
        yield part.expressions[0], replace(here, limits=meet(here.limits, _FINITE), null=False)
    elif isinstance(part, exp.GTE | exp.GT):
        bound, here = value(part.expression).limits, value(part.this)
        if bound is not None and bound.lower >= 0 and here.sqltype.is_number:
            strict = isinstance(part, exp.GT) or bound.lower > 0
            yield part.this, replace(here, least="> 0" if strict else ">= 0")
