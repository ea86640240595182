"""Syntax nodes of aggregates over people -> Aggregate values, each asked once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

from sqlglot import exp

from dpsql.aggregates.bounds import check_bounds
from dpsql.aggregates.distinct_values import combination
from dpsql.aggregates.record import ANY_NUMBER, Aggregate, Constant, Given, Record
from dpsql.aggregates.shared import COUNT, DISTINCT, PEOPLE, ROWS, UNITS
from dpsql.core.cancellation import check
from dpsql.core.domains import Interval
from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import HUGEINT
from dpsql.expressions.conditional import unit_there
from dpsql.expressions.logic import conjunction, truth
from dpsql.expressions.scalar import Scalar, finite_hull
from dpsql.planner.constructs import FUNCTIONS
from dpsql.planner.grammar import BY_NODE, name_of, record_of
from dpsql.planner.resolve.scalars import arguments, check_plain, distinct_value, given, scalar
from dpsql.planner.resolve.scope import Scope

_ADVICE = "use COUNT, SUM, AVG, MEDIAN, STDDEV, MODE or CORR"


@dataclass(frozen=True, slots=True)
class AskedAggregates:
    """Aggregates that one node asks for: one aggregate, or several that make a list."""

    aggregates: tuple[Aggregate, ...]
    listed: bool = False


@dataclass(slots=True)
class Collector:
    """The aggregates of one block, in the order in which they are met, and how each was written, by its name."""

    scope: Scope
    unit: Scalar | None
    found: dict[Hashable, Aggregate] = field(default_factory=dict)
    written: dict[str, exp.Expression] = field(default_factory=dict)

    def add(self, node: exp.Expression) -> AskedAggregates:
        """Resolve the aggregates that a node asks for. Raises 102 for what has no mechanism, 106, 109, 201 for its
        argument."""
        check()
        problem: Error
        try:
            asked = self._read(node)
        except Error as raised:
            problem = raised
        else:
            asked = replace(asked, aggregates=tuple(self._named(a) for a in asked.aggregates))
            self.written |= {a.name: node for a in asked.aggregates if a.name not in self.written}
            return asked
        if problem.span is None:
            problem.span = span_of(node)
        raise problem

    def count_people(self, node: exp.Expression) -> None:
        """Ask for the number of people of a list of values, which is what they are selected by; nothing shows it."""
        self._named(Aggregate(ROWS if self.unit is None else PEOPLE, None, None, "", span_of(node)))

    def _named(self, asked: Aggregate) -> Aggregate:
        return self.found.setdefault(asked.asked, replace(asked, name=f"a{len(self.found)}"))

    def _read(self, node: exp.Expression) -> AskedAggregates:
        condition: Scalar | None = None
        inner = node
        if isinstance(node, exp.Filter):
            inner = node.this
            condition = truth(scalar(node.expression.this, self.scope))
        match inner:
            case exp.Count():
                return AskedAggregates((self._count(inner, condition),))
            case exp.CountIf():
                counted = truth(scalar(inner.this, self.scope))
                both = counted if condition is None else conjunction([condition, counted])
                return AskedAggregates((Aggregate(ROWS, None, both, "", span_of(node), HUGEINT),))
            case exp.Min() | exp.Max() if inner.expressions:
                raise error(102, f"{name_of(inner)} of several values is not supported", hint="write MAX(x)")
            case exp.WithinGroup():
                return self._within_group(inner, condition)
        record = record_of(inner)
        if record is None or not record.takes:
            raise _no_mechanism(inner)
        if record.build is not None:
            return self._built(given(record, inner, self.scope), inner, condition)
        values = (
            inner.expressions if isinstance(inner, exp.Anonymous) else (inner.this, inner.expression)[: record.takes]
        )
        if len(values) != record.takes != ANY_NUMBER:
            takes, name = "one argument" if record.takes == 1 else "two arguments", str(inner.this).upper()
            raise error(106, f"{name} takes {takes}", hint=f"write {name}({record.example.partition('(')[2]}")
        return AskedAggregates((self._of_values(inner, record, values, condition),))

    def _within_group(self, node: exp.WithinGroup, condition: Scalar | None) -> AskedAggregates:
        """PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x), from above with DESC; MODE() WITHIN GROUP (ORDER BY x)."""
        inner, order = node.this, node.expression
        if not isinstance(order, exp.Order) or len(order.expressions) != 1:
            raise error(102, "WITHIN GROUP needs one ORDER BY", hint="write WITHIN GROUP (ORDER BY x)")
        record = record_of(inner) if type(inner) in BY_NODE else None
        if record is None or record.build is None:
            raise error(102, f"{name_of(inner)} WITHIN GROUP is not supported", hint="write MEDIAN(x)")
        (ordered,) = order.expressions
        call = type(inner)(this=ordered.this, expressions=arguments(inner))
        call.meta.update(inner.meta)
        found = given(record, call, self.scope)
        if ordered.args.get("desc"):
            found = replace(found, constants=tuple(map(_from_above, found.constants)))
        return self._built(found, inner, condition)

    def _built(self, call: Given, node: exp.Expression, condition: Scalar | None) -> AskedAggregates:
        record, span = call.record, span_of(node)
        assert record.build is not None
        found = record.build(call)
        sqltype = record.sqltype(found.value.sqltype)
        asked = (Aggregate(record, found.value, condition, "", span, sqltype, number=n) for n in found.numbers)
        return AskedAggregates(tuple(asked), found.listed)

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
        first = combination(values, whole=True) if record.takes == ANY_NUMBER else values[0]
        return Aggregate(record, first, condition, "", span_of(node), sqltype, second)

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
        value, shown = scalar(argument, self.scope), partial(argument.sql, dialect="duckdb")
        if record.inside:
            bounds = finite_hull(value)
            plain = value.is_identifying or not (value.sqltype.is_number or value.is_null)
            if not plain:
                value = scalar(exp.Anonymous(this=record.inside, expressions=[argument.copy()]), self.scope)
            if not plain and finite_hull(value) is None:
                raise _above_zero(words, shown()[:60], bounds)
        check_bounds(Given(record, words, shown, value, (), {}))
        return value


def _above_zero(words: str, argument: str, bounds: Interval | None) -> Error:
    """For what is computed of logarithms, of a value whose bounds do not lie above 0."""
    if bounds is not None and bounds.upper > 0:
        least = "1" if bounds.upper > 1 else f"{float(bounds.upper / 1000):g}"
        hint = f"write {words}(GREATEST({argument}, {least}))"
    else:
        hint = f"write {words}(LEAST(GREATEST({argument}, 1), 100))"
    return error(201, f"{words}({argument}) needs bounds above 0", hint=hint)


def _from_above(constant: Constant) -> Constant:
    """A share of rows, counted from the other end."""
    if isinstance(constant, tuple):
        return tuple(map(_from_above, constant))
    return 1 - constant if isinstance(constant, int | Fraction) else constant


def _no_mechanism(node: exp.Expression) -> Error:
    hint = FUNCTIONS.get(name_of(node).lower().removesuffix("()"), _ADVICE)
    return error(102, f"{name_of(node)} over people has no mechanism here", hint=hint)
