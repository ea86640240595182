"""Dates and intervals in arithmetic: what a date is shifted by, and how far two are apart."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.core.errors import error
from dpsql.core.sqltypes import DATE, TIME
from dpsql.expressions import arithmetic, casting, logic, temporal
from dpsql.expressions.functions import calendar
from dpsql.expressions.functions.record import IntervalLiteral
from dpsql.expressions.literals import integer_literal
from dpsql.expressions.scalar import Scalar

Build = Callable[[exp.Expression], Scalar]


def moved(operator: str, left: Scalar, right: Scalar) -> Scalar:
    if left.sqltype == TIME:
        raise error(106, "a time of day is compared, not computed with", hint="write HOUR(x) * 60 + MINUTE(x)")
    if operator == "-" and right.sqltype.is_temporal:
        return temporal.days_between(left, right)
    if right.sqltype.is_integer and left.sqltype.name == "DATE":
        return casting.cast(temporal.shift(left, _signed(operator, right), "day"), left.sqltype)
    raise error(106, "a date can be shifted by whole days or an interval", hint="write d + INTERVAL 7 DAY")


def _signed(operator: str, amount: Scalar) -> Scalar:
    return amount if operator == "+" else arithmetic.negative(amount)


def interval_of(node: exp.Expression) -> tuple[exp.Expression, exp.Expression | None] | None:
    """INTERVAL 7 DAY, INTERVAL (n) DAY and n * INTERVAL 7 DAY: the interval, and what it is taken so many times of; else None."""
    inner = node.unnest()
    if isinstance(inner, exp.Interval):
        times = inner.this if isinstance(inner.this, exp.Paren) else None
        return (exp.Interval(this=exp.Literal.number(1), unit=inner.args.get("unit")) if times else inner), times
    if isinstance(inner, exp.Mul):
        sides = [(inner.this, inner.expression), (inner.expression, inner.this)]
        return next(((side.unnest(), other) for side, other in sides if isinstance(side.unnest(), exp.Interval)), None)
    return None


def shifted(operator: str, left: exp.Expression, right: exp.Expression, build: Build) -> Scalar:
    if interval_of(left):
        if operator == "-" or interval_of(right):
            raise error(106, "an interval can be added to a date only", hint="write d + INTERVAL 7 DAY")
        left, right = right, left
    found = interval_of(right)
    assert found is not None
    period, times = period_of(found[0]), found[1]
    amount = integer_literal(period.amount)
    if times is not None:
        number = build(times)
        amount = number if period.amount == 1 else arithmetic.add_subtract_multiply("*", number, amount)
    return temporal.shift(build(left), _signed(operator, amount), period.unit)


def period_of(node: exp.Expression) -> IntervalLiteral:
    """INTERVAL 7 DAY, '7' DAY, '7 days' as so many of one unit. Raises 106."""
    amount, unit = node.this, node.args.get("unit")
    digits = amount.name if isinstance(amount, exp.Literal) else ""
    if unit is None and " " in digits.strip():
        digits, _, word = digits.strip().partition(" ")
        unit = exp.Var(this=word)
    if unit is None or not digits.removeprefix("-").isdigit() or len(digits) > 6:
        raise error(106, "an interval must be a constant whole number of one unit", hint="write INTERVAL 7 DAY")
    return IntervalLiteral(int(digits), unit.name)


def part_between(name: str, node: exp.Expression, build: Build) -> Scalar | None:
    """EXTRACT(part FROM a - b) of times; None for anything else. Raises 102 for other parts than seconds and days."""
    between = node.unnest()
    if not isinstance(between, exp.Sub) or interval_of(between.expression):
        return None
    end, start = build(between.this), build(between.expression)
    if not (end.sqltype.is_counted and start.sqltype.is_temporal) or end.sqltype == start.sqltype == DATE:
        return None
    return calendar.part_between(name, start, end)


_COMPARED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparison with its sides exchanged."""


def apart(operator: str, left: exp.Expression, right: exp.Expression, build: Build) -> Scalar | None:
    """`d - e > INTERVAL 3 DAY`: how far two times are apart, compared with a constant; None for any other comparison.

    Why  as many microseconds; the engine, too, counts a month as 30 days where it compares
    """
    if isinstance(left, exp.Interval):
        left, right, operator = right, left, _COMPARED[operator]
    between = left.unnest()
    if not isinstance(right, exp.Interval) or not isinstance(between, exp.Sub):
        return None
    period = period_of(right)
    unit = temporal.part_name(period.unit)
    width = temporal.FIXED_UNITS.get(unit) or temporal.MONTHS.get(unit, 0) * 30 * temporal.DAY
    if not width:
        raise error(106, "an interval must be a constant whole number of one unit", hint="write INTERVAL 7 DAY")
    apart = temporal.difference("microsecond", build(between.expression), build(between.this))
    return logic.compare(operator, apart, integer_literal(period.amount * width))
