"""Bounds that an aggregate's value needs: those that a call names, and what to write where there are none."""

from __future__ import annotations

from fractions import Fraction

from dpsql.aggregates.record import Built, Given
from dpsql.core.domains import Interval, Unbounded, hull
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import DOUBLE, INTEGER, TIME
from dpsql.expressions.conditional import case
from dpsql.expressions.functions.numbers import float_test
from dpsql.expressions.literals import NULL, literal
from dpsql.expressions.logic import compare, disjunction, is_null
from dpsql.expressions.scalar import Scalar, bounded, finite_hull

_HINT = "write dp_sum(x, lower := 0, upper := 100)"


def bounded_sum(given: Given) -> Built:
    """dp_sum(x, lower := a, upper := b, unit_lower := c, unit_upper := d), with the bounds that it names.

    lower, upper            clamp each value
    unit_lower, unit_upper  clamp each unit's total in a group
    """
    if "bounds" in given.named:
        what = "bounds := 'auto' chooses a clamp with noise, over people; within one person's rows there is nothing to choose by"
        raise error(106, what, hint="write SUM(x), or dp_sum(x, lower := 0, upper := 100)")
    if given.constants or not given.named or set(given.named) - {"lower", "upper", "unit_lower", "unit_upper"}:
        raise error(106, "dp_sum takes a value and lower := and upper :=", hint=_HINT)
    rows, total = _interval(given, "lower", "upper"), _interval(given, "unit_lower", "unit_upper")
    return Built(bounded(given.value, rows, total))


def clamped(given: Given) -> Built:
    """dp_clamped(x), or with lower := a, upper := b: 1 where the clamp changes a value, 0 where not, NULL where there is none."""
    if given.constants:
        raise error(106, "dp_clamped takes one value", hint="write dp_clamped(x)")
    if set(given.named) - {"lower", "upper"}:
        raise error(106, "dp_clamped takes lower and upper alone", hint="write dp_clamped(x, lower := 0, upper := 9)")
    raw = given.value
    value = bounded(raw, _interval(given, "lower", "upper"), None) if given.named else raw
    if not raw.sqltype.is_number:
        raise error(106, f"dp_clamped needs a number, not {raw.sqltype}", hint="leave it out")
    bounds = finite_hull(value)
    if bounds is None:
        raise without_bounds(given, value)
    unknown = is_null(raw)
    if raw.sqltype.is_float:
        unknown = disjunction([unknown, float_test("isnan", raw)])
    below, above = (literal(end, DOUBLE) for end in (bounds.lower, bounds.upper))
    outside = disjunction([compare("<", raw, below), compare(">", raw, above)])
    return Built(case([(unknown, NULL), (outside, literal(1, INTEGER))], literal(0, INTEGER)))


def _interval(given: Given, low: str, high: str) -> Interval | None:
    """The constants of two named arguments; None where neither is given."""
    if low not in given.named and high not in given.named:
        return None
    lower, upper = given.named.get(low), given.named.get(high)
    if not isinstance(lower, int | Fraction) or not isinstance(upper, int | Fraction) or lower > upper:
        what = f"{low} and {high} of dp_sum must be constants, {low} first"
        raise error(106, what, hint=f"write dp_sum(x, {low} := 0, {high} := 100)")
    return Interval(Fraction(lower), Fraction(upper))


def check_bounds(given: Given) -> None:
    """Raise 106 and 201 for a value that an aggregate does not take, and for one without bounds."""
    value, words = given.value, given.word
    if value.sqltype.is_boolean and not given.record.booleans:
        hint = f"write {words}(CAST({given.shown()[:60]} AS INTEGER))"
        raise error(106, f"{words} needs a number, not BOOLEAN", hint=hint)
    if value.sqltype.is_counted and not given.record.temporal:
        inside = given.shown()[:60]
        number = f"HOUR({inside})" if value.sqltype == TIME else f"date_diff('day', DATE '2000-01-01', {inside})"
        hint = f"write {words}({number})"
        raise error(106, f"{words} needs a number, not {value.sqltype}", hint=hint)
    declared = finite_hull(value) if value.sqltype.is_number else hull(value.domain)
    if (value.sqltype.is_number or value.sqltype.is_counted) and declared is None:
        raise without_bounds(given, value)


def without_bounds(given: Given, value: Scalar) -> Error:
    """Name the columns to declare bounds for, and the call that brings its own."""
    shown = given.shown() if len(given.shown()) <= 80 else "..."
    message = f"{given.word}({shown}) has no bounds, so one person could change it without limit"
    if value.is_identifying:
        return error(201, message, hint="count people instead: COUNT(*)")
    bare = [p for p in value.walk() if p.is_column and isinstance(p.domain, Unbounded) and not p.sqltype.is_text]
    names = sorted({p.origin for p in bare if p.origin})
    declare = f"declare bounds for {', '.join(names)} or " if names else ""
    if given.record.bounded:
        instead = f"write {given.record.bounded.format(value=shown)}"
    elif value.sqltype == TIME:
        instead = f"add WHERE {shown} BETWEEN TIME '00:00:00' AND TIME '23:59:59'"
    elif value.sqltype.is_temporal:
        instead = f"add WHERE {shown} BETWEEN {value.sqltype} '2000-01-01' AND {value.sqltype} '2030-01-01'"
    elif value.is_column:
        instead = f"add WHERE {shown} BETWEEN 0 AND 100"
    else:
        instead = f"write {given.word}(LEAST(GREATEST({shown}, 0), 100))"
    return error(201, message, hint=declare + instead)
