"""Syntax nodes of aggregates over people -> Aggregate values, each asked once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.algebra.logic import conjunction, truth
from dpsql.algebra.scalar import Scalar, finite_hull
from dpsql.domains import Interval, Unbounded
from dpsql.errors import Error, error
from dpsql.plan import Aggregate
from dpsql.planner.grammar import AGGREGATE_NAMES, AGGREGATES, SHELL_ONLY, name_of
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.syntax import parts_of
from dpsql.spans import span_of
from dpsql.sqltypes import HUGEINT

_ADVICE = "use COUNT, SUM or AVG"


def is_aggregate(node: exp.Expression) -> bool:
    """Whether a node is an aggregate over people (a window's own function is not: windows stand over released rows)."""
    if _is_window_function(node):
        return False
    if isinstance(node, exp.Filter):
        return True
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in AGGREGATE_NAMES
    return type(node) in AGGREGATES or (type(node) in SHELL_ONLY and isinstance(node, exp.AggFunc))


def _is_window_function(node: exp.Expression) -> bool:
    parent = node.parent
    if node.arg_key != "this" or parent is None:
        return False
    return isinstance(parent, exp.Window) or (isinstance(parent, exp.Filter) and _is_window_function(parent))


@dataclass(slots=True)
class Collector:
    """The aggregates of one block, in the order in which they are met."""

    scope: Scope
    unit: Scalar | None
    found: dict[str, Aggregate] = field(default_factory=dict)

    def add(self, node: exp.Expression) -> Aggregate:
        """The aggregate of a node. Raises 102 for one that has no mechanism, 106, 109, 201 for its argument."""
        problem: Error
        try:
            asked = self._read(node)
        except Error as raised:
            problem = raised
        else:
            key = f"{asked.function}|{asked.argument.sql if asked.argument else ''}|{asked.condition.sql if asked.condition else ''}"
            if asked.argument is not None:
                key += f"|{asked.argument.domain}"
            key += f"|{asked.sqltype}"
            return self.found.setdefault(key, replace(asked, name=f"a{len(self.found)}"))
        if problem.span is None:
            problem.span = span_of(node)
        raise problem

    def _read(self, node: exp.Expression) -> Aggregate:
        condition: Scalar | None = None
        inner = node
        if isinstance(node, exp.Filter):
            inner = node.this
            condition = truth(scalar(node.expression.this, self.scope))
        span = span_of(node)
        match inner:
            case exp.Count():
                return self._count(inner, condition)
            case exp.CountIf():
                counted = truth(scalar(inner.this, self.scope))
                both = counted if condition is None else conjunction([condition, counted])
                return Aggregate("rows", None, both, "", span, HUGEINT)
            case exp.Sum() | exp.Avg():
                return self._of_value(inner, "sum" if isinstance(inner, exp.Sum) else "avg", inner.this, condition)
            case exp.Anonymous() if str(inner.this).lower() == "mean" and len(inner.expressions) == 1:
                return self._of_value(inner, "avg", inner.expressions[0], condition)
            case exp.Anonymous() if str(inner.this).lower() == "dp_sum":
                return self._dp_sum(inner, condition)
        raise error(102, f"{name_of(inner)} over people has no mechanism here", hint=_ADVICE)

    def _count(self, node: exp.Count, condition: Scalar | None) -> Aggregate:
        span = span_of(node)
        argument = node.this
        if argument is None or isinstance(argument, exp.Star):
            return Aggregate("rows", None, condition, "", span)
        if isinstance(argument, exp.Distinct):
            return self._count_distinct(argument, condition)
        value = scalar(argument, self.scope)
        if value.is_literal and not value.is_null:
            return Aggregate("rows", None, condition, "", span)
        return Aggregate("count", value, condition, "", span)

    def _count_distinct(self, node: exp.Distinct, condition: Scalar | None) -> Aggregate:
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Star):
            raise error(
                101,
                "COUNT(DISTINCT ...) needs one column",
                hint="write COUNT(*) for rows, COUNT(DISTINCT column) for values",
            )
        value = scalar(node.expressions[0], self.scope)
        if self.unit is None or not value.key or value.key != self.unit.key:
            raise error(
                102,
                "COUNT(DISTINCT ...) counts people only",
                hint="name the column of the privacy unit, or write COUNT(*)",
            )
        return Aggregate("units", None, condition, "", span_of(node))

    def _of_value(
        self, node: exp.Expression, function: str, argument: exp.Expression, condition: Scalar | None
    ) -> Aggregate:
        words = function.upper()
        if isinstance(argument, exp.Distinct):
            raise error(102, f"{words}(DISTINCT ...) is not supported", hint=f"write {words}(x)")
        if isinstance(argument, exp.Order):
            raise error(102, f"ORDER BY inside {words} changes nothing", hint=f"write {words}(x)")
        misplaced = (*AGGREGATES, exp.Filter, exp.Window)
        nested = next((n for n in parts_of(argument) if isinstance(n, misplaced)), None)
        if nested is not None:
            raise error(109, f"{name_of(nested)} stands inside {words}", hint="aggregate once")
        value = scalar(argument, self.scope)
        if function == "avg" and value.sqltype.is_boolean:
            inside = argument.sql(dialect="duckdb")[:60]
            raise error(106, "AVG needs a number, not BOOLEAN", hint=f"write AVG(CAST({inside} AS INTEGER))")
        if value.sqltype.is_number and finite_hull(value) is None:
            raise _without_bounds(words, argument.sql(dialect="duckdb"), value)
        return Aggregate(function, value, condition, "", span_of(node))

    def _dp_sum(self, node: exp.Anonymous, condition: Scalar | None) -> Aggregate:
        return Aggregate("sum", bounded_by_call(node, self.scope), condition, "", span_of(node))


def bounded_by_call(node: exp.Anonymous, scope: Scope) -> Scalar:
    """The value of dp_sum(x, lower := a, upper := b, unit_lower := c, unit_upper := d), with the bounds that it names.

    lower, upper            clamp each value
    unit_lower, unit_upper  clamp each unit's total in a group
    """
    named = {p.this.name.lower(): p.expression for p in node.expressions if isinstance(p, exp.PropertyEQ)}
    values = [p for p in node.expressions if not isinstance(p, exp.PropertyEQ)]
    known = {"lower", "upper", "unit_lower", "unit_upper"}
    if len(values) != 1 or set(named) - known or len(named) != len(node.expressions) - 1 or not named:
        raise error(
            106, "dp_sum takes a value and lower := and upper :=", hint="write dp_sum(x, lower := 0, upper := 100)"
        )
    value = scalar(values[0], scope)
    rows = _interval(named, "lower", "upper", scope)
    total = _interval(named, "unit_lower", "unit_upper", scope)
    return replace(
        value,
        function="bounded",
        args=(value,),
        domain=rows if rows is not None else value.domain,
        unit_bounds=total if total is not None else value.unit_bounds if rows is None else None,
    )


def _interval(named: dict[str, exp.Expression], low: str, high: str, scope: Scope) -> Interval | None:
    """The constants of two named arguments; None where neither is given."""
    if low not in named and high not in named:
        return None
    limits = [scalar(named[name], scope) for name in (low, high) if name in named]
    numbers = [s.limits.lower for s in limits if s.is_literal and s.limits is not None and s.sqltype.is_number]
    if len(numbers) != 2 or numbers[0] > numbers[1]:
        raise error(
            106,
            f"{low} and {high} of dp_sum must be constants, {low} first",
            hint=f"write dp_sum(x, {low} := 0, {high} := 100)",
        )
    return Interval(numbers[0], numbers[1])


def _without_bounds(function: str, argument: str, value: Scalar) -> Error:
    """Name the columns to declare bounds for, and the aggregate that brings its own."""
    shown = argument if len(argument) <= 80 else "..."
    message = f"{function}({shown}) has no bounds, so one person could change it without limit"
    if value.is_identifying:
        return error(201, message, hint="count people instead: COUNT(*)")
    bare = [p for p in value.walk() if p.is_column and isinstance(p.domain, Unbounded) and p.sqltype.is_number]
    names = sorted({p.origin for p in bare if p.origin})
    declare = f"declare bounds for {', '.join(names)} or " if names else ""
    if function == "SUM":
        instead = f"write dp_sum({shown}, lower := 0, upper := 100)"
    elif value.is_column:
        instead = f"add WHERE {shown} BETWEEN 0 AND 100"
    else:
        instead = f"write {function}(LEAST(GREATEST({shown}, 0), 100))"
    return error(201, message, hint=declare + instead)
