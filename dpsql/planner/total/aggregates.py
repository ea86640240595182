"""Rules for aggregates, windows and lists: no guard goes around them, so each is proved by the limits of what it adds up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpsql.core.domains import Interval, interval
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DOUBLE, HUGEINT, SqlType, decimal
from dpsql.expressions.known import LIST, ROWS, Known, of_type
from dpsql.planner.total.walk import KnownColumns, Rule, Walk, unknown


def aggregate(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """COUNT, SUM, MIN, MAX, MEDIAN, LIST: no guard goes around them."""
    argument = node.this if node.this is not None else node.expressions[0]
    if isinstance(argument, exp.Distinct) and isinstance(node, exp.Count) and len(argument.expressions) == 1:
        argument = argument.expressions[0]
    if isinstance(argument, exp.Star) and isinstance(node, exp.Count):
        return Known(BIGINT, interval(0, ROWS), null=False)
    value = walk.value(argument, scope)
    found = _TOTALS[type(node).__name__](value)
    if found is None:
        raise unknown(node)
    return found


def filtered(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    walk.condition(node.expression.this, scope)
    return aggregate(walk, node.this, scope) if type(node.this).__name__ in _TOTALS else walk.value(node, scope)


def window(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    for part in list(node.args.get("partition_by") or []):
        walk.value(part, scope)
    order = node.args.get("order")
    for ordered in list(order.expressions) if order is not None else []:
        walk.value(ordered.this, scope)
    function = node.this
    if isinstance(function, exp.RowNumber | exp.Rank | exp.DenseRank):
        return Known(BIGINT, interval(1, ROWS), null=False)
    if isinstance(function, exp.Lag | exp.Lead | exp.FirstValue | exp.LastValue):
        return replace(walk.value(function.this, scope), null=True, literal=False)
    if type(function).__name__ in _TOTALS:
        return aggregate(walk, function, scope)
    raise unknown(node)


def numbers(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """range(n): as many numbers as a row has rows behind it, so n is no larger than those."""
    start, most = walk.value(node.args["start"], scope), walk.value(node.args["end"], scope)
    if node.args.get("step") is not None or start.limits != interval(0, 0) or not node.args.get("is_end_exclusive"):
        raise unknown(node)
    if most.sqltype != BIGINT or most.limits is None or most.limits.upper > ROWS:
        raise unknown(node)
    upper = max(most.limits.upper - 1, Fraction(0))
    return Known(LIST, None, element=Known(BIGINT, Interval(Fraction(0), upper), null=False))


def picked(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """list[position]: NULL where there is none."""
    held = walk.value(node.this, scope)
    (place,) = (walk.value(n, scope) for n in list(node.expressions))
    if held.element is None or place.sqltype not in (BIGINT, SqlType("INTEGER")):
        raise unknown(node)
    return replace(held.element, null=True)


def array(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """[value for name in list]"""
    inner = node.expressions[0] if len(node.expressions) == 1 else None
    if not isinstance(inner, exp.Comprehension) or inner.args.get("condition") is not None:
        raise unknown(node)
    held = walk.value(inner.args["iterator"], scope)
    if held.element is None:
        raise unknown(node)
    here = KnownColumns({("", inner.expression.name.lower()): held.element}, scope)
    return Known(LIST, None, element=walk.value(inner.this, here))


def unnested(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """The elements of a list, or of a column of lists: UNNEST raises on none."""
    held = walk.value(node.this, scope)
    if held.sqltype.element is not None:
        return of_type(held.sqltype.element)
    if held.element is None:
        raise unknown(node)
    return held.element


def sorted_list(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    held = walk.value(node.this, scope)
    if held.sqltype != LIST:
        raise unknown(node)
    return held


def _counted(value: Known) -> Known | None:
    return Known(BIGINT, interval(0, ROWS), null=False)


def _summed(value: Known) -> Known | None:
    """SUM in the type that the engine adds up in, over at most ROWS rows; of DOUBLE it would depend on their order."""
    if not (value.sqltype.is_integer or value.sqltype.is_decimal) or value.limits is None:
        return None
    low, high = min(value.limits.lower, Fraction(0)) * ROWS, max(value.limits.upper, Fraction(0)) * ROWS
    sqltype = decimal(38, value.sqltype.scale) if value.sqltype.is_decimal else HUGEINT
    held = sqltype.range
    assert held is not None
    return Known(sqltype, Interval(low, high)) if held.lower < low and high < held.upper else None


def _same(value: Known) -> Known | None:
    return replace(value, null=True, literal=False) if value.sqltype != LIST else None


def _middle(value: Known) -> Known | None:
    return Known(DOUBLE) if value.sqltype == DOUBLE else None


def _decided(value: Known) -> Known | None:
    return Known(BOOLEAN) if value.sqltype == BOOLEAN else None


def _listed(value: Known) -> Known | None:
    return Known(LIST, None, element=value)


_TOTALS: dict[str, Callable[[Known], Known | None]] = {
    "Count": _counted,
    "Sum": _summed,
    "Min": _same,
    "Max": _same,
    "Median": _middle,
    "LogicalAnd": _decided,
    "LogicalOr": _decided,
    "ArrayAgg": _listed,
    "List": _listed,
}

AGGREGATES: Mapping[str, Rule] = {
    **dict.fromkeys(_TOTALS, aggregate),
    "Filter": filtered,
    "Window": window,
    "GenerateSeries": numbers,
    "Bracket": picked,
    "Array": array,
    "Explode": unnested,
    "ArraySort": sorted_list,
    "SortArray": sorted_list,
}
