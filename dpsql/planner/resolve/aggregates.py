"""Syntax nodes of aggregates over people -> Aggregate values, each asked once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from dpsql.aggregates.auto_sum import AUTO_SUM
from dpsql.aggregates.mode import TOP
from dpsql.aggregates.quantile import QUANTILE
from dpsql.aggregates.randomized_response import RANDOMIZED_RESPONSE
from dpsql.aggregates.record import Aggregate, Record
from dpsql.aggregates.registry import BY_SPELLING
from dpsql.aggregates.shared import AVG, COUNT, DISTINCT, ROWS, SUM, UNITS
from dpsql.aggregates.sum import sum_type
from dpsql.core.cancellation import check
from dpsql.core.domains import Categories, Interval, hull, integers
from dpsql.core.errors import Error, error
from dpsql.core.spans import Span, span_of
from dpsql.core.sqltypes import DOUBLE, HUGEINT, TIMESTAMP
from dpsql.expressions.logic import conjunction, truth
from dpsql.expressions.scalar import Scalar, finite_hull
from dpsql.mechanisms.randomized_response import LEAST, MOST
from dpsql.planner.grammar import BY_NODE, name_of
from dpsql.planner.resolve.arguments import (
    bounded_by_call,
    check_plain,
    clamped_by_call,
    distinct_value,
    named_arguments,
    unit_there,
    without_bounds,
)
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope

_ADVICE = "use COUNT, SUM, AVG, MEDIAN, STDDEV, MODE or CORR"
_QUANTILES: dict[type[exp.Expression], str] = {
    exp.PercentileCont: "expression",
    exp.PercentileDisc: "expression",
    exp.Quantile: "quantile",
    exp.ApproxQuantile: "quantile",
}
"""Where each keeps which quantile is asked."""
_CONTINUOUS = (exp.Median, exp.PercentileCont)
MOST_TOP = 100
_FINEST_FRACTION = 10**6
"""Costs are counts of rows times this at most: far inside 64 bits."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one node asks: one aggregate, or several that make a list."""

    aggregates: tuple[Aggregate, ...]
    listed: bool = False


@dataclass(slots=True)
class Collector:
    """The aggregates of one block, in the order in which they are met."""

    scope: Scope
    unit: Scalar | None
    found: dict[Hashable, Aggregate] = field(default_factory=dict)

    def add(self, node: exp.Expression) -> Asked:
        """What a node asks. Raises 102 for what has no mechanism, 106, 109, 201 for its argument."""
        check()
        problem: Error
        try:
            asked = self._read(node)
        except Error as raised:
            problem = raised
        else:
            return replace(asked, aggregates=tuple(self._named(a) for a in asked.aggregates))
        if problem.span is None:
            problem.span = span_of(node)
        raise problem

    def count_people(self, node: exp.Expression) -> None:
        """Ask for the number of people of a list of values, which is what they are selected by; nothing shows it."""
        self._named(Aggregate(ROWS if self.unit is None else UNITS, None, None, "", span_of(node)))

    def _named(self, asked: Aggregate) -> Aggregate:
        return self.found.setdefault(asked.asked, replace(asked, name=f"a{len(self.found)}"))

    def _read(self, node: exp.Expression) -> Asked:
        condition: Scalar | None = None
        inner = node
        if isinstance(node, exp.Filter):
            inner = node.this
            condition = truth(scalar(node.expression.this, self.scope))
        match inner:
            case exp.Count():
                return Asked((self._count(inner, condition),))
            case exp.CountIf():
                counted = truth(scalar(inner.this, self.scope))
                both = counted if condition is None else conjunction([condition, counted])
                return Asked((Aggregate(ROWS, None, both, "", span_of(node), HUGEINT),))
            case exp.Min() | exp.Max() if inner.expressions:
                raise error(102, f"{name_of(inner)} of several values is not supported", hint="write MAX(x)")
            case exp.Median():
                return Asked((self._quantile(inner, inner.this, Fraction(1, 2), condition),))
            case exp.Mode():
                return Asked((self._top(inner, inner.this, 1, condition),))
            case exp.WithinGroup():
                return self._within_group(inner, condition)
            case exp.Anonymous():
                return self._by_name(inner, condition, span_of(node))
        if type(inner) in BY_NODE:
            values = (inner.this, inner.expression)[: BY_NODE[type(inner)].takes]
            return Asked((self._of_values(inner, BY_NODE[type(inner)], values, condition),))
        if type(inner) in _QUANTILES:
            return self._quantiles(inner, inner.this, inner.args.get(_QUANTILES[type(inner)]), condition)
        raise _no_mechanism(inner)

    def _by_name(self, node: exp.Anonymous, condition: Scalar | None, span: Span | None) -> Asked:
        """Those that the parser has no node for: our own, and the other spellings."""
        name = str(node.this).lower()
        match name:
            case "dp_sum":
                return Asked((self._dp_sum(node, condition),))
            case "dp_randomized_response":
                return Asked((self._randomized_response(node, condition),))
            case "dp_clamped":
                outside = clamped_by_call(node, self.scope)
                return Asked((Aggregate(AVG, outside, condition, "", span, DOUBLE),))
            case "approx_top_k":
                value, most = node.expressions[0], _whole(node.expressions[1:], name_of(node), MOST_TOP)
                return Asked(tuple(self._top(node, value, i, condition) for i in range(1, most + 1)), listed=True)
        record = BY_SPELLING[name]
        if record.read is None or not record.takes:
            raise _no_mechanism(node)
        if len(node.expressions) != record.takes:
            takes = "one argument" if record.takes == 1 else "two arguments"
            raise error(
                106, f"{name.upper()} takes {takes}", hint=f"write {name.upper()}({record.example.partition('(')[2]}"
            )
        return Asked((self._of_values(node, record, node.expressions, condition),))

    def _within_group(self, node: exp.WithinGroup, condition: Scalar | None) -> Asked:
        """PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x), from above with DESC; MODE() WITHIN GROUP (ORDER BY x)."""
        inner, order = node.this, node.expression
        if not isinstance(order, exp.Order) or len(order.expressions) != 1:
            raise error(102, "WITHIN GROUP needs one ORDER BY", hint="write WITHIN GROUP (ORDER BY x)")
        value = order.expressions[0]
        if isinstance(inner, exp.Mode) and inner.this is None:
            return Asked((self._top(inner, value.this, 1, condition),))
        if type(inner) not in _QUANTILES or inner.args.get(_QUANTILES[type(inner)]) is not None:
            raise error(102, f"{name_of(inner)} WITHIN GROUP is not supported", hint="write MEDIAN(x)")
        return self._quantiles(inner, value.this, inner.this, condition, descending=bool(value.args.get("desc")))

    def _quantiles(
        self,
        node: exp.Expression,
        argument: exp.Expression,
        which: exp.Expression | None,
        condition: Scalar | None,
        *,
        descending: bool = False,
    ) -> Asked:
        listed = isinstance(which, exp.Array)
        asked = (
            [_fraction(n, node) for n in which.expressions]
            if isinstance(which, exp.Array)
            else [_fraction(which, node)]
        )
        if not asked:
            raise error(106, f"{name_of(node)} of an empty list", hint="write QUANTILE_CONT(x, [0.25, 0.75])")
        fractions = [1 - f if descending else f for f in asked]
        return Asked(tuple(self._quantile(node, argument, f, condition) for f in fractions), listed)

    def _quantile(
        self, node: exp.Expression, argument: exp.Expression, fraction: Fraction, condition: Scalar | None
    ) -> Aggregate:
        found = self._of_values(node, QUANTILE, (argument,), condition)
        assert found.argument is not None
        sqltype = found.argument.sqltype
        continuous = isinstance(node, _CONTINUOUS) and not (sqltype.is_decimal or sqltype.is_float)
        between = TIMESTAMP if sqltype.is_temporal else DOUBLE
        return replace(found, sqltype=between if continuous else sqltype, number=fraction)

    def _top(self, node: exp.Expression, argument: exp.Expression, place: int, condition: Scalar | None) -> Aggregate:
        """The value at one place of those that most rows have."""
        check_plain(argument, name_of(node).removesuffix("()"))
        value = scalar(argument, self.scope)
        words = argument.sql(dialect="duckdb")[:60]
        if value.is_identifying:
            raise error(302, f"{name_of(node)} would show an identifier", hint="ask for what people share")
        whole = value.integral or value.sqltype.name == "DATE"
        listed = isinstance(value.domain, Categories) or value.sqltype.is_boolean
        listed = listed or (whole and integers(value.domain) is not None)
        if not listed or value.sqltype.is_float:
            raise error(
                203,
                f"{name_of(node)} chooses among declared values, and {words} has no finite list of them",
                hint=f"declare a domain, or write SELECT {words}, COUNT(*) ... GROUP BY 1 ORDER BY 2 DESC LIMIT 1",
            )
        return Aggregate(TOP, value, condition, "", span_of(node), value.sqltype, number=Fraction(place))

    def _count(self, node: exp.Count, condition: Scalar | None) -> Aggregate:
        span = span_of(node)
        argument = node.this
        if argument is None or isinstance(argument, exp.Star):
            return Aggregate(ROWS, None, condition, "", span)
        if isinstance(argument, exp.Distinct):
            return self._count_distinct(argument, condition)
        value = scalar(argument, self.scope)
        if value.is_literal and not value.is_null:
            return Aggregate(ROWS, None, condition, "", span)
        return Aggregate(COUNT, value, condition, "", span)

    def _count_distinct(self, node: exp.Distinct, condition: Scalar | None) -> Aggregate:
        value = distinct_value(node, self.scope)
        there = unit_there(value) if self.unit is not None else None
        if there is not None:
            kept = [part for part in (there, condition) if part is not None and part.value is not True]
            return Aggregate(UNITS, None, conjunction(kept) if kept else None, "", span_of(node))
        if value.is_identifying and not value.held_or_null:
            raise error(
                102,
                "COUNT(DISTINCT ...) counts an identifier only where it is the privacy unit, or a key by itself",
                hint="name the column of the privacy unit, or write COUNT(*)",
            )
        return Aggregate(DISTINCT, value, condition, "", span_of(node))

    def _of_values(
        self, node: exp.Expression, record: Record, arguments: Sequence[exp.Expression], condition: Scalar | None
    ) -> Aggregate:
        if record.deciding is not None:
            return self._of_deciding_rows(node, record, arguments[0], condition)
        values = [self._value(node, record, argument) for argument in arguments]
        sqltype = record.sqltype(values[0].sqltype)
        second = values[1] if record.takes == 2 else None
        return Aggregate(record, values[0], condition, "", span_of(node), sqltype, second)

    def _of_deciding_rows(
        self, node: exp.Expression, record: Record, argument: exp.Expression, condition: Scalar | None
    ) -> Aggregate:
        assert record.deciding is not None
        words = name_of(node).removesuffix("()")
        check_plain(argument, words)
        value = scalar(argument, self.scope)
        if not value.sqltype.is_boolean:
            hint = f"write {words}({argument.sql(dialect='duckdb')[:60]} IS NOT NULL), or compare it with a value"
            raise error(106, f"{words} needs a condition, not {value.sqltype}", hint=hint)
        deciding = record.deciding(truth(value))
        both = deciding if condition is None else conjunction([deciding, condition])
        return Aggregate(record, None, both, "", span_of(node), record.sqltype(value.sqltype))

    def _value(self, node: exp.Expression, record: Record, argument: exp.Expression) -> Scalar:
        words = name_of(node).removesuffix("()")
        check_plain(argument, words, record.example if record.takes == 2 else "")
        value = scalar(argument, self.scope)
        inside = argument.sql(dialect="duckdb")[:60]
        if value.sqltype.is_boolean and not record.booleans:
            raise error(106, f"{words} needs a number, not BOOLEAN", hint=f"write {words}(CAST({inside} AS INTEGER))")
        if value.sqltype.is_temporal and not record.temporal:
            hint = f"write {words}(date_diff('day', DATE '2000-01-01', {inside}))"
            raise error(106, f"{words} needs a number, not {value.sqltype}", hint=hint)
        if record.inside:
            bounds = finite_hull(value)
            value = scalar(exp.Anonymous(this=record.inside, expressions=[argument.copy()]), self.scope)
            if finite_hull(value) is None:
                raise _above_zero(words, inside, bounds)
        if value.sqltype.is_temporal and hull(value.domain) is None:
            raise without_bounds(words, argument.sql(dialect="duckdb"), value)
        if value.sqltype.is_number and finite_hull(value) is None:
            raise without_bounds(words, argument.sql(dialect="duckdb"), value)
        return value

    def _dp_sum(self, node: exp.Anonymous, condition: Scalar | None) -> Aggregate:
        if named_arguments(node).get("bounds") is not None:
            return self._auto_sum(node, condition)
        value = bounded_by_call(node, self.scope)
        return Aggregate(SUM, value, condition, "", span_of(node), sum_type(value.sqltype))

    def _auto_sum(self, node: exp.Anonymous, condition: Scalar | None) -> Aggregate:
        """dp_sum(x, bounds := 'auto')"""
        named, hint = named_arguments(node), "write dp_sum(x, bounds := 'auto')"
        if len(node.expressions) != 2 or len(named) != 1 or isinstance(node.expressions[0], exp.PropertyEQ):
            raise error(106, "dp_sum takes a value and bounds := 'auto', or its own bounds, not both", hint=hint)
        asked = named["bounds"]
        if not (isinstance(asked, exp.Literal) and asked.is_string and asked.name.lower() == "auto"):
            raise error(106, "bounds of dp_sum can only be 'auto'", hint=hint)
        check_plain(node.expressions[0], "SUM")
        value = scalar(node.expressions[0], self.scope)
        if not (value.sqltype.is_number or value.sqltype.is_boolean):
            raise error(106, f"SUM needs a number, not {value.sqltype}", hint="count it, or cast it to a number")
        return Aggregate(AUTO_SUM, value, condition, "", span_of(node), sum_type(value.sqltype))

    def _randomized_response(self, node: exp.Anonymous, condition: Scalar | None) -> Aggregate:
        """dp_randomized_response(condition, epsilon)"""
        if len(node.expressions) != 2 or named_arguments(node):
            what = "dp_randomized_response takes a condition and the epsilon of each report"
            raise error(106, what, hint="write dp_randomized_response(plan = 3, 1.0)")
        argument, asked = node.expressions
        check_plain(argument, "dp_randomized_response")
        value = scalar(argument, self.scope)
        if not value.sqltype.is_boolean:
            what = f"dp_randomized_response needs true or false, not {value.sqltype}"
            raise error(106, what, hint="write dp_randomized_response(plan = 3, 1.0), one of its values at a time")
        epsilon = scalar(asked, self.scope)
        known = epsilon.limits.lower if epsilon.is_literal and epsilon.limits is not None else Fraction(0)
        if not LEAST <= known <= MOST:
            what = f"the epsilon of dp_randomized_response must be a constant from {float(LEAST):g} to {float(MOST):g}"
            raise error(106, what, hint="write dp_randomized_response(plan = 3, 1.0)")
        return Aggregate(RANDOMIZED_RESPONSE, value, condition, "", span_of(node), DOUBLE, number=known)


def _above_zero(words: str, argument: str, bounds: Interval | None) -> Error:
    """For what is computed of logarithms, of a value whose bounds do not lie above 0."""
    if bounds is not None and bounds.upper > 0:
        least = "1" if bounds.upper > 1 else f"{float(bounds.upper / 1000):g}"
        hint = f"write {words}(GREATEST({argument}, {least}))"
    else:
        hint = f"write {words}(LEAST(GREATEST({argument}, 1), 100))"
    return error(201, f"{words}({argument}) needs bounds above 0", hint=hint)


def _no_mechanism(node: exp.Expression) -> Error:
    return error(102, f"{name_of(node)} over people has no mechanism here", hint=_ADVICE)


def _fraction(node: exp.Expression | None, asked: exp.Expression) -> Fraction:
    """Which quantile: a constant from 0 to 1."""
    text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    # a parameter that is a float is written with an exponent
    written = re.fullmatch(r"\d{0,20}\.?\d{0,20}(e[+-]?\d{1,2})?", text) and re.match(r"\.?\d", text)
    number = Fraction(text) if written else Fraction(-1)
    if not 0 <= number <= 1 or number.denominator > _FINEST_FRACTION:
        raise error(
            106,
            f"{name_of(asked)} needs a constant from 0 to 1 with at most 6 digits",
            hint="write QUANTILE_CONT(x, 0.9)",
        )
    return number


def _whole(nodes: list[exp.Expression | None], what: str, most: int) -> int:
    """How many values are asked for."""
    node = nodes[0] if len(nodes) == 1 else None
    text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    number = int(text) if re.fullmatch(r"\d{1,9}", text) else 0
    if not 1 <= number <= most:
        raise error(106, f"{what} takes a column and a constant from 1 to {most}", hint="write APPROX_TOP_K(x, 3)")
    return number
