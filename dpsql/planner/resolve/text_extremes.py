"""MIN and MAX over people of texts without a list: the least or greatest value among those that are selected privately.

    SELECT site, MAX(city) FROM person GROUP BY site
    =>  site, (SELECT MAX(k1) FROM release_1 WHERE k0 IS NOT DISTINCT FROM site) over the groups, where release_1 holds
    SELECT site, city FROM person GROUP BY site, city

Why    the values are group keys of a release of their own: a threshold on a hidden number of people lets them through, with the limits
       on groups that it enforces for groups and values together (rule 59); what is looked up in it is post-processing
Notes  NULL is never MIN or MAX, and its rows are left out before anything is cut; a value of too few people for the guard is none
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.aggregates.record import Aggregate
from dpsql.aggregates.shared import ROWS, UNITS
from dpsql.core.domains import Categories, Value
from dpsql.core.errors import error
from dpsql.core.spans import Span, span_of
from dpsql.expressions.logic import is_null, negation, truth
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.plan.resolved import Block, GroupKey
from dpsql.planner.grammar import name_of
from dpsql.planner.resolve.nobody import never_counted, note_decided
from dpsql.planner.resolve.scalars import check_plain, scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.statement import Statement
from dpsql.planner.resolve.syntax import all_of
from dpsql.relations.relations import Relation, filtered
from dpsql.sql.nodes import Node

LOOKED_UP = "\0texts"
"""Stands for what is looked up until its release has a name; no identifier of a statement can hold it."""
NOTE = "MIN and MAX of text are the first and last among the values that enough people share; rarer ones are left out"


@dataclass(frozen=True, slots=True)
class TextExtreme:
    """MIN or MAX of a text without a list.

    written  as the statement has it
    """

    name: str
    written: str
    largest: bool
    value: Scalar
    condition: Scalar | None
    span: Span | None


@dataclass(slots=True)
class TextExtremes:
    """Those of one block, each asked once."""

    scope: Scope
    found: dict[tuple[bool, Node, Node | None], TextExtreme] = field(default_factory=dict)

    def column(self, node: exp.Expression) -> exp.Column | None:
        """Placeholder of an aggregate until it is looked up; None for any other. Raises 302 where it would show an identifier."""
        filters = isinstance(node, exp.Filter)
        call = node.this if filters else node
        if not isinstance(call, exp.Min | exp.Max) or call.expressions or not isinstance(call.this, exp.Expression):
            return None
        if isinstance(call.this, exp.Distinct | exp.Star):
            return None
        value = scalar(call.this, self.scope)
        if not value.sqltype.is_text or isinstance(value.domain, Categories):
            return None
        words = name_of(call).removesuffix("()")
        check_plain(call.this, words)
        if value.is_identifying:
            raise error(302, f"{words} would show an identifier", hint="ask for what people share", span=span_of(node))
        condition = truth(scalar(node.expression.this, self.scope)) if filters else None
        largest = isinstance(call, exp.Max)
        written = node.sql(dialect="duckdb", comments=False)
        asked = TextExtreme(f"t{len(self.found)}", written, largest, value, condition, span_of(node))
        one = self.found.setdefault((largest, value.tree, tree_of(condition)), asked)
        return _column(LOOKED_UP, one.name)

    def keys(self, block: Sequence[GroupKey]) -> list[GroupKey]:
        """The values, as a further key of groups."""
        return [GroupKey(f"k{len(block)}", one.value, None, one.span) for one in self.found.values()]

    def without_decided(self, statement: Statement, relation: Relation, tree: exp.Expression) -> None:
        """Leave out, and let a query find NULL for, those of which the declarations say that no row has a value (rule 53)."""
        none = frozenset[Value | None]({None})
        for asked, one in list(self.found.items()):
            told = never_counted(statement, relation, one.condition, (one.value,), none)
            if told is not None:
                note_decided(statement, told, one.written)
                _replace(tree, one.name, _no_text())
                del self.found[asked]

    def look_up(self, statement: Statement, tree: exp.Expression, pending: str, block: Block) -> None:
        """Let a query over a block's groups, which are called `pending`, look up each value among those of its own release."""
        for one, key in zip(self.found.values(), self.keys(block.keys), strict=True):
            source = _with_value(
                block.source if one.condition is None else filtered(block.source, one.condition), one.value
            )
            people = Aggregate(ROWS if source.unit is None else UNITS, None, None, "a0", one.span)
            name = statement.release(Block("", source, (*block.keys, key), (people,), block.lists))
            extreme = (exp.Max if one.largest else exp.Min)(this=_column(name, key.name))
            same = [exp.NullSafeEQ(this=_column(name, k.name), expression=_column(pending, k.name)) for k in block.keys]
            found = exp.Select(expressions=[extreme])
            found.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(name, quoted=True))))
            enough = exp.Not(this=exp.Is(this=_column(name, people.name), expression=exp.Null()))
            found.set("where", exp.Where(this=all_of([*same, enough])))
            _replace(tree, one.name, exp.Subquery(this=found))
        statement.notes.append(NOTE)

    def of_nobody(self, tree: exp.Expression) -> None:
        """Let a query over no group, or over one row of nobody, find none."""
        for one in self.found.values():
            _replace(tree, one.name, _no_text())


def _with_value(source: Relation, value: Scalar) -> Relation:
    """The rows that have a value: NULL is never an extreme, and takes no one's place among a person's values.

    Why    a row stays or goes by its own value alone, before a person's values are cut to their limit: no more of them than the limit
           are left, with or without this
    Notes  it is no condition of the statement, which could set people apart: nothing is released of who has none
    """
    return replace(source, where=(*source.where, negation(is_null(value)))) if value.nullable else source


def _no_text() -> exp.Expression:
    return exp.cast(exp.Null(), "VARCHAR")


def _replace(tree: exp.Expression, name: str, value: exp.Expression) -> None:
    for column in list(tree.find_all(exp.Column)):
        if column.table == LOOKED_UP and column.name == name:
            column.replace(value.copy())


def _column(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
