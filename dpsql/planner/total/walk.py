"""The walk over the expressions of printed text: each node by the rule of its kind, a guard where a rule finds no proof."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.core.domains import LARGEST_DOUBLE, Interval
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.expressions.known import Known, Ruled, meet
from dpsql.planner.total.casts import boolean

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
"""Trees that the engine's TRY does not take inside."""
_VARYING = (exp.Column, exp.Placeholder, exp.Parameter, exp.Query)
"""Trees that keep an expression from being a constant."""


@dataclass(slots=True)
class KnownColumns:
    """The columns that an expression can name: (source, name), both in lower case."""

    columns: dict[tuple[str, str], Known]
    outer: KnownColumns | None = None
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
class Walk:
    """Works out the values of expressions, and puts a guard around every operator that may raise.

    rules       by the parser's name of a node: versions of it differ in which they know
    everywhere  whether an operator that is proved total gets a guard all the same
    guarded     how many guards and casts there are so far
    around      the nodes that they are
    nullable    the nodes that may be NULL by themselves, whatever the conditions around them
    query       the values of a query inside an expression: the column that it shows
    assumed     by the `id` of a constant what is taken of it in place of its value (proofs.py)
    """

    rules: Mapping[str, Rule]
    everywhere: bool
    query: Callable[[exp.Expression, KnownColumns], Sequence[Known]]
    assumed: Mapping[int, Known] = field(default_factory=dict)
    guarded: int = 0
    facts: list[Facts] = field(default_factory=list)
    known: dict[int, Known] = field(default_factory=dict)
    around: set[int] = field(default_factory=set)
    nullable: set[int] = field(default_factory=set)

    def value(self, node: exp.Expression, scope: KnownColumns) -> Known:
        """Known value of an expression. Raises NotTotalError."""
        found = self._value(node, scope)
        whole = node
        while isinstance(whole.parent, exp.Expression) and id(whole.parent) in self.around:
            whole = whole.parent
        if found.null:
            self.nullable.add(id(whole))
        for facts in self.facts:
            known = told(facts, whole)
            if known is not None:
                limits = known.limits if known.limits is not None else found.limits
                found = replace(found, limits=limits, null=found.null and known.null, least=known.least or found.least)
        self.known[id(node)] = self.known[id(whole)] = found
        return found

    def condition(self, node: exp.Expression, scope: KnownColumns) -> Known:
        found = self.value(node, scope)
        if not boolean(found):
            raise unknown(node)
        return found

    def _value(self, node: exp.Expression, scope: KnownColumns) -> Known:
        rule = self.rules.get(type(node).__name__)
        if rule is None:
            raise unknown(node)
        return rule(self, node, scope)

    def ruled(self, node: exp.Expression, ruled: Ruled | None) -> Known:
        """The value that a rule gives; a guard goes around the operator where it may raise."""
        if ruled is None:
            raise unknown(node)
        if not isinstance(node, exp.Cast) and self._is_folded(node):
            node = self._typed(node, ruled.known.sqltype)
        if ruled.veiled:
            node = self._veiled(node, ruled.known.sqltype)
        if ruled.by == "always" or (ruled.by == "proof" and not self.everywhere):
            return ruled.known
        if node.find(*_NO_GUARD) is None:
            self._wrap(node, exp.Try())
        elif ruled.by != "proof":
            raise unknown(node)
        return ruled.known if ruled.by == "proof" else replace(ruled.known, null=True)

    def _is_folded(self, node: exp.Expression) -> bool:
        """True if the engine may take an operator for NULL before it knows its type: an operand is a constant that may be NULL.

        Why  it gives such a NULL another type than the operator's: what is computed of it is then not what was proved. It does so
             before any row is looked at, so that a condition around the operand, which rows must meet, says nothing here
        """
        constants = (part for part in node.iter_expressions() if part.find(*_VARYING) is None)
        return any(id(inner) in self.nullable for part in constants for inner in part.walk())

    def _typed(self, node: exp.Expression, sqltype: SqlType) -> exp.Expression:
        """The operator in a cast to its type, unless it stands in one."""
        parent = node.parent
        computes = sqltype.is_number or sqltype.is_counted or sqltype.is_text or sqltype.is_boolean
        if not computes or (isinstance(parent, exp.Cast) and type_of(parent.args["to"]) == sqltype):
            return node
        return self._wrap(node, exp.Cast(to=exp.DataType.build(str(sqltype), dialect="duckdb")))

    def _veiled(self, node: exp.Expression, sqltype: SqlType) -> exp.Expression:
        """The operator plus a zero of its type, which changes no value: of a sum of floats the engine infers no limits.

        Why  TRY would hide them too, but takes no aggregate inside, and an aggregate passes a column's limits on
        """
        sum_ = exp.Add()
        self._wrap(node, sum_)
        zero = exp.Cast(this=exp.Literal.number(0), to=exp.DataType.build(str(sqltype), dialect="duckdb"))
        sum_.set("expression", zero)
        return self._wrap(sum_, exp.Paren())

    def _wrap(self, node: exp.Expression, wrapper: exp.Expression) -> exp.Expression:
        node.replace(wrapper)
        wrapper.set("this", node)
        self.around.add(id(wrapper))
        self.guarded += 1
        return wrapper


Rule = Callable[[Walk, exp.Expression, KnownColumns], Known]


def type_of(node: exp.Expression) -> SqlType:
    """The type that a cast names. Raises NotTotalError."""
    key = (node.this, *(part.name for part in node.expressions))
    if key not in _TYPES:
        text = node.sql("duckdb")
        found = parse_type("HUGEINT" if text == "INT128" else text)
        if found is None:
            raise unknown(node)
        _TYPES[key] = found
    return _TYPES[key]


_TYPES: dict[tuple[object, ...], SqlType] = {}
"""By the parser's name and parameters: at most as many as dpsql computes with."""


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
    """Key of an expression: a column by its name, which is compared faster than a tree."""
    return (node.text("table"), node.name) if isinstance(node, exp.Column) else node


def told(facts: Facts, node: exp.Expression) -> Known | None:
    """Known value of an expression, if it was told."""
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
