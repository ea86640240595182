"""The expressions of printed text, one rule for each kind of node: its value, or that it is not known to be total."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from dpsql.domains import Interval, interval
from dpsql.planner.total import arithmetic, functions
from dpsql.planner.total.casts import boolean, cast, constant, try_cast
from dpsql.planner.total.facts import Facts, learnt
from dpsql.planner.total.known import LIST, NULL, ROWS, Known, common, either, integer, of_type
from dpsql.planner.total.rules import Ruled
from dpsql.sqltypes import BIGINT, BOOLEAN, DOUBLE, HUGEINT, VARCHAR, SqlType, decimal, parse_type

Plain = Callable[[Sequence[Known]], Ruled | None]
_NO_GUARD = (
    exp.AggFunc,
    exp.Window,
    exp.Query,
    exp.Exists,
    exp.Explode,
    exp.Comprehension,
    exp.Placeholder,
    exp.Filter,
)
"""What the engine's TRY does not take inside."""

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
_ARITHMETIC: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_DIVISIONS: dict[type[exp.Expression], Callable[[Known, Known], Ruled | None]] = {
    exp.Div: arithmetic.divide,
    exp.IntDiv: arithmetic.integer_divide,
    exp.Mod: arithmetic.modulo,
    exp.BitwiseRightShift: arithmetic.right_shift,
}
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)


@dataclass(slots=True)
class Scope:
    """The columns that an expression can name: (source, name), both in lower case."""

    columns: dict[tuple[str, str], Known]
    outer: Scope | None = None
    aliases: dict[str, Known] = field(default_factory=dict)

    def find(self, source: str, name: str) -> Known | None:
        found = [k for (s, n), k in self.columns.items() if n == name and source in ("", s)]
        if len(found) == 1:
            return found[0]
        if not found and not source and name in self.aliases:
            return self.aliases[name]
        return self.outer.find(source, name) if not found and self.outer is not None else None


class NotTotalError(Exception):
    """Some part of a text is outside what is known to be total."""


def unknown(node: exp.Expression) -> NotTotalError:
    return NotTotalError(type(node).__name__)


@dataclass(slots=True)
class Values:
    """Works out the values of expressions, and puts a guard around every operator that may raise.

    everywhere  whether an operator that is proved total gets a guard all the same
    guarded     how many guards there are so far
    query       the value of a query inside an expression: the column that it shows
    """

    everywhere: bool
    query: Callable[[exp.Expression, Scope], Sequence[Known]]
    guarded: int = 0
    _facts: list[Facts] = field(default_factory=list)
    _known: dict[int, Known] = field(default_factory=dict)

    def value(self, node: exp.Expression, scope: Scope) -> Known:
        """What an expression can be. Raises NotTotalError."""
        found = self._value(node, scope)
        parent = node.parent
        whole = parent if isinstance(parent, exp.Try) else node
        for facts in self._facts:
            known = facts.get(whole) if any(type(whole) is type(other) for other in facts) else None
            if known is not None:
                limits = known.limits if known.limits is not None else found.limits
                found = replace(found, limits=limits, null=found.null and known.null, least=known.least or found.least)
        self._known[id(whole)] = found
        return found

    def condition(self, node: exp.Expression, scope: Scope) -> Known:
        found = self.value(node, scope)
        if not boolean(found):
            raise unknown(node)
        return found

    def _value(self, node: exp.Expression, scope: Scope) -> Known:
        for rules in (_STRUCTURE, _OPERATORS):
            rule = rules.get(type(node))
            if rule is not None:
                return rule(self, node, scope)
        plain = _FUNCTIONS.get(type(node).__name__)
        if plain is not None:
            return self._ruled(node, plain([_typed(self.value(a, scope)) for a in _arguments(node)]))
        raise unknown(node)

    def _ruled(self, node: exp.Expression, ruled: Ruled | None) -> Known:
        """The value that a rule gives; a guard goes around the operator where it may raise."""
        if ruled is None:
            raise unknown(node)
        if ruled.by == "always" or (ruled.by == "proof" and not self.everywhere):
            return ruled.known
        if node.find(*_NO_GUARD) is None:
            self._guard(node)
        elif ruled.by != "proof":
            raise unknown(node)
        return ruled.known if ruled.by == "proof" else replace(ruled.known, null=True)

    def _guard(self, node: exp.Expression) -> None:
        guard = exp.Try()
        node.replace(guard)
        guard.set("this", node)
        self.guarded += 1

    # --- structure ------------------------------------------------------------------------------------------------

    def column(self, node: exp.Expression, scope: Scope) -> Known:
        found = scope.find(node.text("table").lower(), node.name.lower())
        if found is None:
            raise unknown(node)
        return found

    def literal(self, node: exp.Expression, scope: Scope) -> Known:
        if node.args.get("is_string"):
            return Known(VARCHAR, None, null=False)
        if node.name.isdigit():
            return integer(int(node.name))
        digits, _, after = node.name.partition(".")
        if digits.isdigit() and after.isdigit() and len(digits) + len(after) <= 38:
            number = Fraction(node.name)
            return Known(decimal(len(digits) + len(after), len(after)), Interval(number, number), null=False)
        if "e" in node.name.lower():
            double = float(node.name)
            point = Interval(Fraction(double), Fraction(double)) if math.isfinite(double) else None
            return Known(DOUBLE, point, null=False)
        raise unknown(node)

    def cast(self, node: exp.Expression, scope: Scope) -> Known:
        target = _type(node.args["to"])
        inner = node.this
        if isinstance(inner, exp.Literal) and inner.args.get("is_string") and not target.is_text:
            found = constant(inner.name, target)
            if found is None:
                raise unknown(node)
            return found
        if isinstance(node, exp.TryCast):
            return self._ruled(node, try_cast(self.value(inner, scope), target))
        return self._ruled(node, cast(self.value(inner, scope), target))

    def case(self, node: exp.Expression, scope: Scope) -> Known:
        """Branches know their condition; that a branch is worked out for its rows alone is the engine's own promise."""
        if node.this is not None:
            raise unknown(node)
        found = []
        for branch in list(node.args["ifs"]):
            self.condition(branch.this, scope)
            self._facts.append(learnt(branch.this, lambda node: self._known[id(node)]))
            found.append(self.value(branch.args["true"], scope))
            self._facts.pop()
        default = node.args.get("default")
        found.append(self.value(default, scope) if default is not None else Known(NULL))
        return self._one(node, found)

    def _one(self, node: exp.Expression, values: list[Known]) -> Known:
        found = either(values)
        if found is None:
            raise unknown(node)
        return found

    def coalesce(self, node: exp.Expression, scope: Scope) -> Known:
        values = [self.value(n, scope) for n in (node.this, *list(node.expressions))]
        return replace(self._one(node, values), null=all(v.null for v in values))

    def nullif(self, node: exp.Expression, scope: Scope) -> Known:
        values = [self.value(n, scope) for n in (node.this, node.expression)]
        if common(*values) != values[0].sqltype:
            raise unknown(node)
        return replace(values[0], null=True, literal=False)

    def extreme(self, node: exp.Expression, scope: Scope) -> Known:
        """LEAST and GREATEST skip NULL, so only what cannot be NULL narrows the result."""
        values = [self.value(n, scope) for n in (node.this, *list(node.expressions))]
        found = self._one(node, values)
        if found.limits is None or found.sqltype.is_float:
            return found
        sure = [v.limits for v in values if not v.null and v.limits is not None]
        low, high = found.limits.lower, found.limits.upper
        if sure and isinstance(node, exp.Least):
            high = min(limits.upper for limits in sure)
        elif sure:
            low = max(limits.lower for limits in sure)
        return replace(found, limits=Interval(min(low, high), max(low, high)), null=all(v.null for v in values))

    def compared(self, node: exp.Expression, scope: Scope) -> Known:
        return self._compared(node, [node.this, node.expression], scope)

    def between(self, node: exp.Expression, scope: Scope) -> Known:
        return self._compared(node, [node.this, node.args["low"], node.args["high"]], scope)

    def _compared(self, node: exp.Expression, sides: Sequence[exp.Expression], scope: Scope) -> Known:
        values = [self.value(side, scope) for side in sides]
        if values[0].sqltype == BOOLEAN and all(v.sqltype.is_integer for v in values[1:]):
            # the engine makes 0 or 1 of it
            return of_type(BOOLEAN)
        if any(common(values[0], other) is None for other in values[1:]):
            raise unknown(node)
        return of_type(BOOLEAN)

    def among(self, node: exp.Expression, scope: Scope) -> Known:
        if node.args.get("query") is None:
            return self._compared(node, [node.this, *list(node.expressions)], scope)
        value = self.value(node.this, scope)
        (listed,) = self.query(node.args["query"], scope)
        if common(value, listed) is None:
            raise unknown(node)
        return of_type(BOOLEAN)

    def connected(self, node: exp.Expression, scope: Scope) -> Known:
        """AND and OR, without recursion along a chain."""
        waiting, parts = [node], []
        while waiting:
            part = waiting.pop()
            if type(part) is type(node):
                waiting += [part.expression, part.this]
            else:
                parts.append(part)
        for part in parts:
            self.condition(part, scope)
        return of_type(BOOLEAN)

    def negated(self, node: exp.Expression, scope: Scope) -> Known:
        self.condition(node.this, scope)
        return of_type(BOOLEAN)

    def tested(self, node: exp.Expression, scope: Scope) -> Known:
        """IS NULL, IS TRUE, IS FALSE."""
        value = self.value(node.this, scope)
        if not (isinstance(node.expression, exp.Null) or (isinstance(node.expression, exp.Boolean) and boolean(value))):
            raise unknown(node)
        return of_type(BOOLEAN, null=False)

    def like(self, node: exp.Expression, scope: Scope) -> Known:
        """[I]LIKE of a constant; ESCAPE of one ASCII character that the pattern uses well."""
        inner = node.this if isinstance(node, exp.Escape) else node
        if isinstance(node, exp.Escape) and not _escapes(inner.expression, node.expression):
            raise unknown(node)
        if not (self.value(inner.this, scope).sqltype in (VARCHAR, NULL) and _is_text(inner.expression)):
            raise unknown(node)
        return of_type(BOOLEAN)

    def exists(self, node: exp.Expression, scope: Scope) -> Known:
        self.query(node.this, scope)
        return of_type(BOOLEAN, null=False)

    def scalar_query(self, node: exp.Expression, scope: Scope) -> Known:
        """A query as a value: of a bound table, which has one row."""
        found = self.query(node.this, scope)
        if len(found) != 1:
            raise unknown(node)
        return replace(found[0], null=True)

    def tried(self, node: exp.Expression, scope: Scope) -> Known:
        return replace(self.value(node.this, scope), null=True)

    # --- operators ------------------------------------------------------------------------------------------------

    def arithmetic(self, node: exp.Expression, scope: Scope) -> Known:
        a, b = _beside(self.value(node.this, scope), self.value(node.expression, scope))
        if isinstance(node, exp.Add) and a.sqltype.is_temporal:
            return self._ruled(node, functions.shift(a, b))
        return self._ruled(node, arithmetic.arithmetic(_ARITHMETIC[type(node)], a, b))

    def division(self, node: exp.Expression, scope: Scope) -> Known:
        a, b = _beside(self.value(node.this, scope), self.value(node.expression, scope))
        return self._ruled(node, _DIVISIONS[type(node)](a, b))

    def negative(self, node: exp.Expression, scope: Scope) -> Known:
        return self._ruled(node, arithmetic.negative(_typed(self.value(node.this, scope))))

    def absolute(self, node: exp.Expression, scope: Scope) -> Known:
        return self._ruled(node, arithmetic.absolute(_typed(self.value(node.this, scope))))

    def logarithm(self, node: exp.Expression, scope: Scope) -> Known:
        rule = _LOGARITHMS.get(node.this.name) if isinstance(node.this, exp.Literal) else None
        if rule is None or node.expression is None:
            raise unknown(node)
        return self._ruled(node, rule([_typed(self.value(node.expression, scope))]))

    def rounding(self, node: exp.Expression, scope: Scope) -> Known:
        digits = node.args.get("decimals")
        if digits is None:
            return self._ruled(node, functions.to_whole("round")([_typed(self.value(node.this, scope))]))
        return self._ruled(node, functions.round_to([_typed(self.value(n, scope)) for n in (node.this, digits)]))

    def trimmed(self, node: exp.Expression, scope: Scope) -> Known:
        if node.expression is not None:
            raise unknown(node)
        return self._ruled(node, functions.texts(1)([self.value(node.this, scope)]))

    def truncated(self, node: exp.Expression, scope: Scope) -> Known:
        return self._ruled(node, functions.truncated(node.text("unit").lower(), self.value(node.this, scope)))

    def difference(self, node: exp.Expression, scope: Scope) -> Known:
        a, b = self.value(node.this, scope), self.value(node.expression, scope)
        return self._ruled(node, functions.difference(node.text("unit").lower(), a, b))

    def span(self, node: exp.Expression, scope: Scope) -> Known:
        return self._ruled(node, functions.span("to_days", [self.value(node.this, scope)]))

    def named(self, node: exp.Expression, scope: Scope) -> Known:
        name, args = node.name.lower(), list(node.expressions)
        if name == "date_part" and len(args) == 2 and _is_text(args[0]):
            return self._ruled(node, functions.date_part(args[0].name.lower(), self.value(args[1], scope)))
        values = [_typed(self.value(arg, scope)) for arg in args]
        if name in _NAMED:
            return self._ruled(node, _NAMED[name](values))
        return self._ruled(node, functions.span(name, values))

    # --- lists ----------------------------------------------------------------------------------------------------

    def numbers(self, node: exp.Expression, scope: Scope) -> Known:
        """range(n): as many numbers as a row has rows behind it, so n is no larger than those."""
        start, most = self.value(node.args["start"], scope), self.value(node.args["end"], scope)
        if node.args.get("step") is not None or start.limits != interval(0, 0) or not node.args.get("is_end_exclusive"):
            raise unknown(node)
        if most.sqltype != BIGINT or most.limits is None or most.limits.upper > ROWS:
            raise unknown(node)
        upper = max(most.limits.upper - 1, Fraction(0))
        return Known(LIST, None, element=Known(BIGINT, Interval(Fraction(0), upper), null=False))

    def picked(self, node: exp.Expression, scope: Scope) -> Known:
        """list[position]: NULL where there is none."""
        held = self.value(node.this, scope)
        (place,) = (self.value(n, scope) for n in list(node.expressions))
        if held.element is None or place.sqltype not in (BIGINT, SqlType("INTEGER")):
            raise unknown(node)
        return replace(held.element, null=True)

    def array(self, node: exp.Expression, scope: Scope) -> Known:
        """[value for name in list]"""
        inner = node.expressions[0] if len(node.expressions) == 1 else None
        if not isinstance(inner, exp.Comprehension) or inner.args.get("condition") is not None:
            raise unknown(node)
        held = self.value(inner.args["iterator"], scope)
        if held.element is None:
            raise unknown(node)
        here = Scope({("", inner.expression.name.lower()): held.element}, scope)
        return Known(LIST, None, element=self.value(inner.this, here))

    def unnested(self, node: exp.Expression, scope: Scope) -> Known:
        held = self.value(node.this, scope)
        if held.element is None:
            raise unknown(node)
        return held.element

    def sorted_list(self, node: exp.Expression, scope: Scope) -> Known:
        held = self.value(node.this, scope)
        if held.sqltype != LIST:
            raise unknown(node)
        return held

    # --- aggregates and windows -----------------------------------------------------------------------------------

    def aggregate(self, node: exp.Expression, scope: Scope) -> Known:
        """COUNT, SUM, MIN, MAX, MEDIAN, LIST: no guard goes around them."""
        argument = node.this if node.this is not None else node.expressions[0]
        if isinstance(argument, exp.Distinct) and isinstance(node, exp.Count) and len(argument.expressions) == 1:
            argument = argument.expressions[0]
        if isinstance(argument, exp.Star) and isinstance(node, exp.Count):
            return Known(BIGINT, interval(0, ROWS), null=False)
        value = self.value(argument, scope)
        found = _AGGREGATES[type(node)](value)
        if found is None:
            raise unknown(node)
        return found

    def filtered(self, node: exp.Expression, scope: Scope) -> Known:
        self.condition(node.expression.this, scope)
        return self.aggregate(node.this, scope) if type(node.this) in _AGGREGATES else self.value(node, scope)

    def window(self, node: exp.Expression, scope: Scope) -> Known:
        for part in list(node.args.get("partition_by") or []):
            self.value(part, scope)
        order = node.args.get("order")
        for ordered in list(order.expressions) if order is not None else []:
            self.value(ordered.this, scope)
        function = node.this
        if isinstance(function, exp.RowNumber | exp.Rank | exp.DenseRank):
            return Known(BIGINT, interval(1, ROWS), null=False)
        if isinstance(function, exp.Lag | exp.Lead | exp.FirstValue | exp.LastValue):
            return replace(self.value(function.this, scope), null=True, literal=False)
        if type(function) in _AGGREGATES:
            return self.aggregate(function, scope)
        raise unknown(node)


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


def _listed(value: Known) -> Known | None:
    return Known(LIST, None, element=value)


def _named_in_some(*names: str) -> list[type[exp.Expression]]:
    """Kinds of nodes that have different names in different versions of the parser."""
    return [kind for name in names if (kind := getattr(exp, name, None)) is not None]


_AGGREGATES: dict[type[exp.Expression], Callable[[Known], Known | None]] = {
    exp.Count: _counted,
    exp.Sum: _summed,
    exp.Min: _same,
    exp.Max: _same,
    exp.Median: _middle,
    **dict.fromkeys(_named_in_some("ArrayAgg", "List"), _listed),
}

Rule = Callable[[Values, exp.Expression, Scope], Known]
_STRUCTURE: Mapping[type[exp.Expression], Rule] = {
    exp.Column: Values.column,
    exp.Literal: Values.literal,
    exp.Null: lambda self, node, scope: Known(NULL),
    exp.Boolean: lambda self, node, scope: of_type(BOOLEAN, null=False),
    exp.Placeholder: lambda self, node, scope: Known(VARCHAR, None, null=False),
    exp.Parameter: lambda self, node, scope: Known(VARCHAR, None, null=False),
    exp.Paren: lambda self, node, scope: self.value(node.this, scope),
    exp.Cast: Values.cast,
    exp.TryCast: Values.cast,
    exp.Try: Values.tried,
    exp.Case: Values.case,
    exp.Coalesce: Values.coalesce,
    exp.Nullif: Values.nullif,
    exp.Least: Values.extreme,
    exp.Greatest: Values.extreme,
    **dict.fromkeys(_COMPARED, Values.compared),
    exp.Between: Values.between,
    exp.In: Values.among,
    exp.And: Values.connected,
    exp.Or: Values.connected,
    exp.Not: Values.negated,
    exp.Is: Values.tested,
    exp.Like: Values.like,
    exp.ILike: Values.like,
    exp.Escape: Values.like,
    exp.Exists: Values.exists,
    exp.Subquery: Values.scalar_query,
    exp.GenerateSeries: Values.numbers,
    exp.Bracket: Values.picked,
    exp.Array: Values.array,
    exp.Explode: Values.unnested,
    **dict.fromkeys(_named_in_some("ArraySort", "SortArray"), Values.sorted_list),
    exp.Filter: Values.filtered,
    exp.Window: Values.window,
    **dict.fromkeys(_AGGREGATES, Values.aggregate),
}
_OPERATORS: Mapping[type[exp.Expression], Rule] = {
    **dict.fromkeys(_ARITHMETIC, Values.arithmetic),
    **dict.fromkeys(_DIVISIONS, Values.division),
    exp.Neg: Values.negative,
    exp.Abs: Values.absolute,
    exp.Log: Values.logarithm,
    exp.Round: Values.rounding,
    exp.Trim: Values.trimmed,
    exp.TimestampTrunc: Values.truncated,
    exp.DateTrunc: Values.truncated,
    exp.DateDiff: Values.difference,
    exp.ToDays: Values.span,
    exp.Anonymous: Values.named,
}


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


def _type(node: exp.Expression) -> SqlType:
    text = node.sql("duckdb")
    found = parse_type("HUGEINT" if text == "INT128" else text)
    if found is None:
        raise unknown(node)
    return found


def _is_text(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and bool(node.args.get("is_string"))


def _escapes(pattern: exp.Expression, escape: exp.Expression) -> bool:
    """Whether no escape character stands last, with nothing to escape."""
    if not (_is_text(pattern) and _is_text(escape) and len(escape.name) == 1 and escape.name.isascii()):
        return False
    place, text = 0, pattern.name
    while place < len(text):
        place += 2 if text[place] == escape.name else 1
    return place == len(text)
