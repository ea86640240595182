"""Names that a private block can use, and what stands behind them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol

from sqlglot import exp

from dpsql.core import domains
from dpsql.core.domains import Categories, Domain, Interval
from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import DOUBLE, SqlType
from dpsql.expressions.scalar import Scalar
from dpsql.planner.resolve.syntax import false_as_null
from dpsql.relations.relations import Named, Relation
from dpsql.schema.model import RESERVED
from dpsql.sql.nodes import Node

Place = tuple[str, str]
"""(source, column), both in lower case"""
Beside = Callable[[SqlType, Fraction, int], Fraction]


class Nested(Protocol):
    """Resolver of a query inside an expression (resolve/subqueries.py)."""

    def nested(self, node: exp.Expression, scope: Scope) -> Scalar: ...
    def owners(self, name: str) -> list[str]: ...


@dataclass(slots=True)
class Scope:
    """The columns of one private block under the names that the statement gives them.

    columns  what stands behind (source, column)
    merged   columns that USING and NATURAL made one, by name
    hidden   sources that only dpsql names: the subqueries it turned into joins
    outer    the scope around a correlated subquery
    nested   answers queries inside expressions
    aliases  names of the SELECT list, which stand for their expressions where no column has that name
    known    what nodes stand for that were computed before: aggregates and windows of a unit's rows, by the node's id
    grouped  inside GROUP BY: the scope of its input, and the key columns by what they group by
    narrow   declared values that WHERE leaves, by what an expression computes
    kept     what to raise unless the public rows that an outer join keeps count nowhere; None where none does (nobody.py)
    strict   the same of fractions, without the value that a strict comparison leaves out: for group keys, as a clamp may end there
    names    the columns in order, for messages and `*`
    open_aliases  those being replaced right now: none of them stands for itself
    answered  queries inside expressions that were resolved before, by their text: the same text is the same expression
    built     what nodes were found to stand for, by the node's id: each is worked out once, however often it is asked about
    """

    columns: dict[Place, Scalar]
    merged: dict[str, Scalar] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    private: bool = True
    outer: Scope | None = None
    nested: Nested | None = None
    aliases: Mapping[str, exp.Expression] = field(default_factory=dict)
    known: dict[int, Scalar] = field(default_factory=dict)
    grouped: tuple[Scope, dict[Node, Scalar]] | None = None
    narrow: dict[Node, Domain] = field(default_factory=dict)
    strict: dict[Node, Domain] = field(default_factory=dict)
    names: tuple[Named, ...] = ()
    kept: Error | None = None
    open_aliases: set[str] = field(default_factory=set)
    answered: dict[str, Scalar] = field(default_factory=dict)
    built: dict[int, tuple[exp.Expression, Scalar]] = field(default_factory=dict, init=False)
    _sources: dict[str, list[str]] = field(default_factory=dict, init=False)

    def sources(self, name: str) -> list[str]:
        """The sources that have a column of a name, in lower case."""
        if not self._sources:
            for source, column in self.columns:
                self._sources.setdefault(column, []).append(source)
        return self._sources.get(name, [])

    def column(self, node: exp.Column) -> Scalar | None:
        """The column that a node names; None where there is none. Raises 105 for a table or a name that is not clear."""
        found = self._own(node)
        return found if found is not None or self.outer is None else self.outer.column(node)

    def has(self, node: exp.Column) -> bool:
        """True if the name is one of this scope itself, and not of one around it."""
        return self._own(node) is not None

    def _own(self, node: exp.Column) -> Scalar | None:
        name, source = node.name.lower(), node.table.lower()
        if source:
            if (source, name) not in self.columns and self.outer is None and source not in {p[0] for p in self.columns}:
                raise self._no_table(node)
            return self.columns.get((source, name))
        if name in self.merged:
            return self.merged[name]
        places = self.sources(name)
        found = [self.columns[place, name] for place in places if place not in self.hidden]
        if len(found) > 1:
            raise error(
                105,
                f"{node.name} is a column of {' and of '.join(places)}",
                hint=f"write {places[0]}.{node.name}",
                span=span_of(node),
            )
        return found[0] if found else None

    def has_answered(self, node: exp.Expression) -> bool:
        """True if a query was resolved here before."""
        return text_of(node) in self.answered

    def alias(self, node: exp.Column) -> exp.Expression | None:
        """The expression that a name of the SELECT list stands for."""
        name = node.name.lower()
        return self.aliases.get(name) if not node.table and name not in self.open_aliases else None

    def _no_table(self, node: exp.Column) -> Error:
        sources = sorted({place[0] for place in self.columns if place[0] not in self.hidden})
        near = f"did you mean {sources[0]}?" if len(sources) == 1 else "the tables are " + ", ".join(sources)
        return error(105, f"there is no table {node.table!r} in this statement", hint=near, span=span_of(node))

    def unknown(self, node: exp.Column) -> Error:
        seen = (n.name for n in self.names if n.source.lower() not in self.hidden)
        shown = [name for name in seen if not name.startswith(RESERVED)]
        sources = sorted({n.source for n in self.names if n.source.lower() not in self.hidden})
        near = difflib.get_close_matches(node.name.lower(), [n.lower() for n in shown], 1, 0.7)
        meant = next((n for n in shown if near and n.lower() == near[0]), None)
        hint = f"did you mean {meant}?"
        owners = self.nested.owners(node.name) if self.nested is not None else []
        lists = (c.domain.values for c in self.columns.values() if isinstance(c.domain, Categories))
        if any(node.name in values for values in lists):
            hint = f"a text stands in single quotes: '{node.name}'"
        elif owners:
            hint = f"it is a column of {' and of '.join(owners[:4])}, which FROM has to name"
        elif meant is None:
            hint = "its columns are " + ", ".join(shown[:12]) + ", ..." * (len(shown) > 12)
            hint += "; a text stands in single quotes" * bool(node.this.args.get("quoted"))
        where = sources[0] if len(sources) == 1 else " or ".join(sources)
        return error(105, f"there is no column {node.name!r} in {where}", hint=hint, span=span_of(node))

    def adjusted(self, scalar: Scalar) -> Scalar:
        """An expression with the values that WHERE left of it."""
        allowed = self.narrow.get(scalar.tree) if self.narrow else None
        if allowed is None:
            return scalar
        return replace(scalar, domain=domains.intersect(scalar.domain, allowed), nullable=False)

    def narrowed(self, conditions: Iterable[Scalar]) -> Scope:
        """The scope of what stands behind WHERE: declared values that no kept row can have are dropped from the domains.

        Only top-level AND parts that compare that very expression with constants narrow it (rule 15). Narrowing chooses the
        clamp and the key list; both are enforced, so it decides accuracy, never privacy.
        """
        own: dict[Node, tuple[Scalar, list[Scalar]]] = {}
        for part in conditions:
            if _compares(part):
                own.setdefault(part.args[0].tree, (part.args[0], []))[1].append(part)
        narrow, strict = dict(self.narrow), dict(self.strict)
        for tree, (subject, parts) in own.items():
            adjusted = self.adjusted(subject)
            for allowed in _allowed(adjusted, parts):
                narrow[tree] = domains.intersect(narrow.get(tree, subject.domain), allowed)
            inside = _between(adjusted, parts, _beside) if tree in narrow else None
            if inside is not None and inside != narrow[tree]:
                strict[tree] = domains.intersect(narrow[tree], inside)
        return replace(self, narrow=narrow, strict=strict)

    def of_keys(self) -> Scope:
        """The scope in which group keys are read."""
        return replace(self, narrow={**self.narrow, **self.strict}, strict={}) if self.strict else self


def text_of(node: exp.Expression) -> str:
    """By which a query is known again: its text, and for IN whether NULL counts as FALSE where it stands."""
    text = node.sql(dialect="duckdb", comments=False)
    return f"{text}\0" if node.args.get("query") and not false_as_null(node) else text


def _allowed(subject: Scalar, parts: list[Scalar]) -> list[Domain]:
    found = [listed for part in parts if (listed := _listed(part)) is not None]
    between = _between(subject, parts)
    return [*found, *([between] if between is not None else [])]


def _compares(part: Scalar) -> bool:
    """True if a condition compares an expression with constants that are not NULL."""
    if not part.args or part.function not in ("=", "in", "<", "<=", ">", ">="):
        return False
    values = part.args[1:]
    return not part.args[0].is_literal and bool(values) and all(v.is_literal and v.value is not None for v in values)


def _listed(part: Scalar) -> Domain | None:
    """The values that `=` or IN lets through."""
    if part.function not in ("=", "in"):
        return None
    return domains.categories(a.value for a in part.args[1:] if a.value is not None)


def _between(subject: Scalar, parts: list[Scalar], beside: Beside | None = None) -> Domain | None:
    """The interval that the `<` and `>` parts leave of a number or date; None where one of its ends is open.

    beside  finds the nearest fraction that a strict comparison lets through; without it the bound stays
    """
    if not (subject.sqltype.is_number or subject.sqltype.is_counted):
        return None
    declared = domains.hull(subject.domain)
    lows = [declared.lower] if declared is not None else []
    highs = [declared.upper] if declared is not None else []
    # The next whole number, day or microsecond is the nearest value that a strict comparison lets through.
    gap = 1 if subject.sqltype.is_integer or subject.sqltype.is_counted else 0
    for part in parts:
        bound = domains.hull(part.args[1].domain)
        if bound is None:
            continue
        if part.function in (">", ">="):
            strict = beside(subject.sqltype, bound.lower, 1) if beside is not None else bound.lower
            nearest = Fraction(math.floor(bound.lower)) + gap if gap else strict
            lows.append(bound.lower if part.function == ">=" else nearest)
        elif part.function in ("<", "<="):
            strict = beside(subject.sqltype, bound.upper, -1) if beside is not None else bound.upper
            nearest = Fraction(math.ceil(bound.upper)) - gap if gap else strict
            highs.append(bound.upper if part.function == "<=" else nearest)
    if not lows or not highs or max(lows) > min(highs) or (declared is not None and len(lows) + len(highs) == 2):
        return None
    return _within(subject.domain, Interval(max(lows), min(highs)))


def _beside(sqltype: SqlType, bound: Fraction, step: int) -> Fraction:
    """The next value of a fraction's type above a bound, or below it; the bound itself where the type does not tell."""
    if sqltype.is_decimal:
        grid = 10**sqltype.scale
        return Fraction((math.floor if step > 0 else math.ceil)(bound * grid) + step, grid)
    return Fraction(math.nextafter(float(bound), step * math.inf)) if sqltype == DOUBLE else bound


def _within(domain: Domain, interval: Interval) -> Domain:
    if isinstance(domain, Categories):
        kept = tuple(v for v in domain.values if v in interval)
        return Categories(kept) if kept else interval
    return interval


def scope_of(relation: Relation, nested: Nested | None = None, outer: Scope | None = None) -> Scope:
    """The scope of one relation's columns."""
    columns = {(c.source.lower(), c.name.lower()): c.scalar for c in relation.columns}
    return Scope(columns, private=relation.is_private, outer=outer, nested=nested, names=relation.columns)
