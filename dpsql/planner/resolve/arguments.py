"""What stands inside an aggregate over people: plain values, and the named bounds of dpsql's own calls."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpsql.aggregates.distinct_values import combination
from dpsql.core.domains import Interval, Unbounded
from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import DOUBLE, INTEGER
from dpsql.expressions.conditional import case
from dpsql.expressions.functions.numbers import float_test
from dpsql.expressions.literals import NULL, boolean_literal, literal
from dpsql.expressions.logic import compare, disjunction, is_null, negation
from dpsql.expressions.scalar import Scalar, finite_hull
from dpsql.planner.grammar import is_aggregate, name_of
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.syntax import parts_of


def named_arguments(node: exp.Anonymous) -> dict[str, exp.Expression]:
    return {p.this.name.lower(): p.expression for p in node.expressions if isinstance(p, exp.PropertyEQ)}


def check_plain(argument: exp.Expression | None, words: str, example: str = "") -> None:
    """Refuse what cannot stand inside an aggregate over people, such as in `example`."""
    if argument is None:
        raise error(106, f"{words} needs a value", hint=f"write {example or f'{words}(x)'}")
    if isinstance(argument, exp.Distinct):
        raise error(102, f"{words}(DISTINCT ...) is not supported", hint=f"write {words}(x)")
    if isinstance(argument, exp.Order):
        raise error(102, f"ORDER BY inside {words} changes nothing", hint=f"write {words}(x)")
    nested = next((n for n in parts_of(argument) if is_aggregate(n) or isinstance(n, exp.Window)), None)
    if nested is not None:
        raise error(109, f"{name_of(nested)} stands inside {words}", hint="aggregate once")


def distinct_value(node: exp.Distinct, scope: Scope) -> Scalar:
    """The value of COUNT(DISTINCT a), (DISTINCT a, b) or (DISTINCT (a, b)). Raises 101, 109."""
    values, whole = list(node.expressions), len(node.expressions) == 1
    if whole and (listed := _respelt_list(values[0])):
        values, whole = listed, False
    while len(values) == 1 and isinstance(values[0], exp.Tuple | exp.Paren):
        inner = values[0]
        values = list(inner.expressions) if isinstance(inner, exp.Tuple) else [inner.this]
    if not values or any(isinstance(value, exp.Star) for value in values):
        what, hint = "COUNT(DISTINCT ...) needs columns", "write COUNT(*) for rows, COUNT(DISTINCT column) for values"
        raise error(101, what, hint=hint, span=span_of(node))
    for value in values:
        check_plain(value, "COUNT(DISTINCT)")
    found = [scalar(value, scope) for value in values]
    return found[0] if len(found) == 1 else combination(found, whole)


def unit_there(value: Scalar) -> Scalar | None:
    """When a value that is its row's own unit or NULL is the unit; None for a value that can be anything else.

    Why  a join that equates units puts beside a row its own unit, or NULL where nothing is met; CASE and COALESCE choose among these.
         So the different values that are not NULL are the units with a row for which this is true
    """
    if value.is_unit:
        return boolean_literal(True)
    if value.is_null:
        return boolean_literal(False)
    if any(key.is_unit for key in value.held_or_null):
        return negation(is_null(value))
    if value.function not in ("case", "coalesce"):
        return None
    chosen = value.function == "case"
    conditions = value.args[: len(value.args) // 2 * 2 : 2] if chosen else ()
    there = [unit_there(part) for part in (value.args[1::2] if chosen else value.args)]
    default = unit_there(value.args[-1]) if chosen and len(value.args) % 2 else boolean_literal(False)
    known = [part for part in there if part is not None]
    if default is None or len(known) < len(there):
        return None
    if not chosen:
        always = any(part.value is True for part in known)
        return boolean_literal(True) if always else disjunction(known)
    if all(part.value is True for part in known) and default.value is False:
        return disjunction(list(conditions))
    return case(list(zip(conditions, known, strict=True)), default)


def _respelt_list(node: exp.Expression) -> list[exp.Expression]:
    """What a tool had written as DISTINCT a, b and sends as CASE WHEN a IS NULL THEN NULL WHEN b IS NULL THEN NULL ELSE (a, b) END; []
    for anything else."""
    if not isinstance(node, exp.Case) or node.this is not None:
        return []
    listed = node.args.get("default")
    values = list(listed.expressions) if isinstance(listed, exp.Tuple) else []
    nulls = [exp.If(this=exp.Is(this=value.copy(), expression=exp.Null()), true=exp.Null()) for value in values]
    return values if values and node.args["ifs"] == nulls else []


def bounded_by_call(node: exp.Anonymous, scope: Scope) -> Scalar:
    """The value of dp_sum(x, lower := a, upper := b, unit_lower := c, unit_upper := d), with the bounds that it names.

    lower, upper            clamp each value
    unit_lower, unit_upper  clamp each unit's total in a group
    """
    named = named_arguments(node)
    if "bounds" in named:
        what = "bounds := 'auto' chooses a clamp with noise, over people; within one person's rows there is nothing to choose by"
        raise error(106, what, hint="write SUM(x), or dp_sum(x, lower := 0, upper := 100)", span=span_of(node))
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


def clamped_by_call(node: exp.Anonymous, scope: Scope) -> Scalar:
    """dp_clamped(x), or with lower := a, upper := b: 1 where the clamp changes a value, 0 where not, NULL where there is none."""
    values = [p for p in node.expressions if not isinstance(p, exp.PropertyEQ)]
    if len(values) != 1:
        raise error(106, "dp_clamped takes one value", hint="write dp_clamped(x)", span=span_of(node))
    check_plain(values[0], "dp_clamped")
    if any(name.startswith("unit_") or name == "bounds" for name in named_arguments(node)):
        raise error(106, "dp_clamped takes lower and upper alone", hint="write dp_clamped(x, lower := 0, upper := 9)")
    value = bounded_by_call(node, scope) if len(node.expressions) > 1 else scalar(values[0], scope)
    raw = value.args[0] if value.function == "bounded" else value
    if not raw.sqltype.is_number:
        raise error(106, f"dp_clamped needs a number, not {raw.sqltype}", hint="leave it out", span=span_of(node))
    bounds = finite_hull(value)
    if bounds is None:
        raise without_bounds("dp_clamped", values[0].sql(dialect="duckdb"), value)
    unknown = is_null(raw)
    if raw.sqltype.is_float:
        unknown = disjunction([unknown, float_test("isnan", raw)])
    below, above = (literal(end, DOUBLE) for end in (bounds.lower, bounds.upper))
    outside = disjunction([compare("<", raw, below), compare(">", raw, above)])
    one, none = literal(1, INTEGER), literal(0, INTEGER)
    return case([(unknown, NULL), (outside, one)], none)


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


def without_bounds(function: str, argument: str, value: Scalar) -> Error:
    """Name the columns to declare bounds for, and the aggregate that brings its own."""
    shown = argument if len(argument) <= 80 else "..."
    message = f"{function}({shown}) has no bounds, so one person could change it without limit"
    if value.is_identifying:
        return error(201, message, hint="count people instead: COUNT(*)")
    bare = [p for p in value.walk() if p.is_column and isinstance(p.domain, Unbounded) and not p.sqltype.is_text]
    names = sorted({p.origin for p in bare if p.origin})
    declare = f"declare bounds for {', '.join(names)} or " if names else ""
    if function == "SUM":
        instead = f"write dp_sum({shown}, lower := 0, upper := 100), or bounds := 'auto'"
    elif value.sqltype.is_temporal:
        instead = f"add WHERE {shown} BETWEEN {value.sqltype} '2000-01-01' AND {value.sqltype} '2030-01-01'"
    elif value.is_column:
        instead = f"add WHERE {shown} BETWEEN 0 AND 100"
    else:
        instead = f"write {function}(LEAST(GREATEST({shown}, 0), 100))"
    return error(201, message, hint=declare + instead)
