"""Queries inside the expressions of a private block: EXISTS, IN and scalar subqueries.

What a row is asked may depend on its own unit's rows and on public data, on nothing else (rules 1, 2). So EXISTS and IN over people's
rows must equate the units of both sides, and a scalar must be a release or public; that is bound before the block runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dpsql.core.domains import UNBOUNDED
from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import BOOLEAN
from dpsql.expressions.conversion import unify
from dpsql.expressions.lengths import LONGEST_BOUND
from dpsql.expressions.logic import BOTH, compare, truth
from dpsql.expressions.scalar import Scalar, equate_keys, goes_with, same_parts
from dpsql.planner.resolve.joined import columns_of, connect, from_clause, parts_scope, reads_only
from dpsql.planner.resolve.people import aggregates
from dpsql.planner.resolve.rows_of_people import rows_of_people
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.sources import glance, items, source
from dpsql.planner.resolve.statement import Env, Private, Public, Query, Statement, bound_column
from dpsql.planner.resolve.syntax import false_as_null, unparenthesised, where_parts
from dpsql.relations.relations import Relation, applied, side_by_side
from dpsql.schema.model import ROW
from dpsql.sql.nodes import Column, Exists, InQuery, Node, Number, QueryValue
from dpsql.sql.queries import Select, Table

_GROUPING = ("group", "having", "qualify", "distinct", "limit", "offset", "with_")


@dataclass(frozen=True, slots=True)
class Subqueries:
    """Answers the queries inside one block's expressions. `env` is the block's own."""

    statement: Statement
    env: Env

    def nested(self, node: exp.Expression, scope: Scope) -> Scalar:
        """A query as a scalar over the columns of `scope`. Raises 402 where other people's rows would be looked at."""
        if isinstance(node, exp.Exists):
            return self._exists(unparenthesised(node.this), scope, None, node)
        if node.args.get("query"):
            return self._in(node, scope)
        return self._scalar(node, scope)

    def owners(self, name: str) -> list[str]:
        """The declared tables that have a column of a name."""
        return [t.name for t in self.statement.schema.tables if t.column(name) is not None]

    # --- IN -------------------------------------------------------------------------------------------------------

    def _in(self, node: exp.Expression, scope: Scope) -> Scalar:
        value = scalar(node.this, scope)
        select = unparenthesised(node.args["query"])
        if isinstance(select, exp.Select) and select.args.get("from_") is not None and not _groups(select):
            if len(select.expressions) != 1:
                raise error(106, "IN takes a query of one column", hint="select one column", span=span_of(node))
            if any(glance(self.statement, n, self.env).is_private for n in items(select)):
                return self._exists(select, scope, value, node)
        found = self._alone(select, scope)
        if isinstance(found, Public):
            return self._among(value, found, node)
        if len(found.relation.columns) != 1:
            raise error(106, "IN takes a query of one column", hint="select one column", span=span_of(node))
        return self._linked(found.relation, [], [], scope, value, found.relation.columns[0].scalar, node)

    def _among(self, value: Scalar, query: Public, node: exp.Expression) -> Scalar:
        """Membership in a public list, with SQL's meaning of NULL: the list is public."""
        name, types = self.statement.bind(query)
        if len(types) != 1:
            raise error(106, "IN takes a query of one column", hint="select one column", span=span_of(node))
        listed = bound_column(name, "c0", types[0])
        (one, other), _ = unify([value, listed], "IN")
        tree = InQuery(one.tree, Select((other.tree,), Table(name)))
        return Scalar("in public", (value,), tree, BOOLEAN, BOTH, nullable=True)

    # --- EXISTS ---------------------------------------------------------------------------------------------------

    def _exists(self, select: exp.Expression, scope: Scope, value: Scalar | None, node: exp.Expression) -> Scalar:
        """EXISTS (SELECT ... FROM inner WHERE ...), or IN over it where `value` must equal the selected column."""
        if not isinstance(select, exp.Select) or select.args.get("from_") is None or _groups(select):
            return self._whole(select, scope, node)
        sources = {id(n): source(self.statement, n, self.env) for n in items(select)}
        inner = Subqueries(self.statement, self.env.inside(scope))
        joined = from_clause(self.statement, select, sources, inner, scope)
        if joined.kept is not None:
            raise joined.kept
        here = parts_scope(joined.parts, joined.merged, inner, scope)
        nodes = [*where_parts(select), *joined.filters]
        conditions = [*joined.conditions, *(truth(scalar(n, here)) for n in nodes)]
        known = {column for part in joined.parts for column in columns_of(part)}
        own = [c for c in conditions if all(leaf.tree in known for leaf in c.leaves())]
        links = [c for c in conditions if c not in own]
        relation, rest = self._joined(joined.parts, own, select)
        selected = None
        if value is not None:
            projection = select.expressions[0]
            selected = scalar(projection.this if isinstance(projection, exp.Alias) else projection, here)
        return self._linked(relation, rest, links, scope, value, selected, node)

    @staticmethod
    def _joined(parts: list[Relation], own: list[Scalar], select: exp.Expression) -> tuple[Relation, list[Scalar]]:
        """The inner relation. Public tables alone need no keys: whether some of their rows fit is no fact about anyone."""
        if any(part.is_private for part in parts):
            return connect(parts, own, span_of(select))
        return side_by_side(parts), own

    def _whole(self, select: exp.Expression, scope: Scope, node: exp.Expression) -> Scalar:
        """EXISTS over a query that groups, orders or unites: its rows must be public."""
        found = self._alone(select, scope)
        if isinstance(found, Private):
            raise self._unequated(node)
        name, _ = self.statement.bind(found)
        tree = Exists(Select((Number(1),), Table(name)))
        return Scalar("exists", (), tree, BOOLEAN, BOTH, constant=True)

    def _unequated(self, node: exp.Expression, missing: str | None = None) -> Error:
        """402 for rows of others.

        missing  the condition that would make them the row's own
        """
        hint = "compare the privacy unit of both sides: EXISTS (... WHERE inner.unit = outer.unit), or unit IN (SELECT unit ...)"
        if missing is not None:
            hint = f"add {missing} as an AND part of the subquery's WHERE"
        elif self.statement.schema.privacy.unit == ROW:
            hint = "leave the subquery out, or read public tables alone in it: each row is a person of its own here"
        return error(402, "this would look at other people's rows", hint=hint, span=span_of(node))

    def _linked(
        self,
        inner: Relation,
        rest: list[Scalar],
        links: list[Scalar],
        scope: Scope,
        value: Scalar | None,
        selected: Scalar | None,
        node: exp.Expression,
    ) -> Scalar:
        """The EXISTS scalar of an inner relation, once it is known to look at the row's own unit alone.

        Why  the units of both sides are equal, so which rows are found depends on that unit's rows and on public data
        """
        if value is not None and selected is not None:
            links = [*links, compare("=", value, selected)]
        if inner.is_private and not self._within_unit(inner, links, scope):
            from dpsql.planner.resolve.not_joined import equality

            # NOT IN would still be decided by NULLs
            missing = equality(scope.names, inner.columns) if false_as_null(node) else None
            raise self._unequated(node, missing)
        if not false_as_null(node) and not all(s.is_unit for s in (value, selected) if s is not None):
            raise error(
                402,
                "NOT IN would be decided by NULLs among the values",
                hint="write NOT EXISTS (SELECT 1 ... WHERE inner.x = outer.x AND inner.unit = outer.unit)",
                span=span_of(node),
            )
        conditions = [*inner.where, *rest, *links]
        tree = Exists(Select((Number(1),), inner.read(False), tuple(dict.fromkeys(applied(conditions)))))
        tying = _tying(links)
        asked = (*inner.predicates, *rest, *(c for c in links if not _equates_keys(c) and c not in tying))
        around, ties = _outer_leaves(links, inner)
        constant = all(_fixed(c, columns_of(inner)) for c in links)
        return Scalar("exists", (*asked, *around), tree, BOOLEAN, BOTH, constant=constant, ties=ties)

    @staticmethod
    def _within_unit(inner: Relation, links: list[Scalar], scope: Scope) -> bool:
        if not scope.private:
            return False
        around = _scope_columns(scope)
        sides = (pair for link in links if link.function == "=" for pair in (link.args, link.args[::-1]))
        return equate_keys(
            (mine, theirs)
            for mine, theirs in sides
            if reads_only(mine, inner) and theirs.is_column and theirs.tree in around
        )

    def _alone(self, select: exp.Expression, scope: Scope) -> Query:
        """A query that is resolved by itself. Raises 402 where it names what is around it."""
        problem: Error
        try:
            return self.statement.query(select, self.env.inside(None))
        except Error as found:
            problem = found
        around = {name for name, _ in scope.columns}
        if problem.code == "DPSQL-105" and any(c.table.lower() in around for c in select.find_all(exp.Column)):
            raise error(
                402,
                "this query cannot refer to the one around it",
                hint="join it in FROM, grouped by what it is compared with",
                span=span_of(select),
            )
        raise problem

    # --- scalars --------------------------------------------------------------------------------------------------

    def _scalar(self, node: exp.Expression, scope: Scope) -> Scalar:
        """An uncorrelated scalar subquery: one public value, bound before the block runs; NULL where there is no row."""
        found = self._alone(unparenthesised(node), scope)
        if isinstance(found, Private):
            raise rows_of_people(found, node)
        name, types = self.statement.bind(found, one_row=True)
        if len(types) != 1:
            raise error(106, "a subquery used as a value has one column", hint="select one column", span=span_of(node))
        tree = QueryValue(Select((Column("", "c0"),), Table(name), limit=1))
        limits = types[0].range
        whole = types[0].is_integer
        return Scalar(
            "released", (), tree, types[0], UNBOUNDED, limits, True, whole, constant=True, length=LONGEST_BOUND
        )


def _groups(select: exp.Select) -> bool:
    return any(select.args.get(part) for part in _GROUPING) or any(aggregates(p) for p in select.expressions)


def _equates_keys(condition: Scalar) -> bool:
    """True if a condition only ties rows to their own unit: no constant is compared with an identifier there."""
    return condition.function == "=" and goes_with(*condition.args)


def _tying(links: list[Scalar]) -> list[Scalar]:
    """The conditions that equate together a key of several columns: like that of one column, they only tie rows to their own unit's."""
    parts = [c for c in links if c.function == "=" and any(True for _ in same_parts(c.args[0], c.args[1]))]
    return parts if equate_keys((c.args[0], c.args[1]) for c in parts) else []


def _outer_leaves(links: list[Scalar], inner: Relation) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
    """The columns of the row itself that the conditions read, and apart its private keys: those only tie EXISTS to its own
    unit's rows, and a condition that does more is told itself."""
    known = columns_of(inner)
    found = {leaf.tree: leaf for c in links for leaf in c.leaves() if leaf.tree not in known}.values()
    return tuple(leaf for leaf in found if not leaf.names), tuple(leaf for leaf in found if leaf.names)


def _fixed(condition: Scalar, inner: set[Node]) -> bool:
    """True if a condition is the same for all rows of a unit, its inner rows being the same for all of them (rule 8)."""
    if condition.is_column:
        return condition.tree in inner or condition.constant
    if condition.function == "exists" or not condition.args:
        return condition.is_constant
    return all(_fixed(arg, inner) for arg in condition.args)


def _scope_columns(scope: Scope) -> set[Node]:
    """The columns of the private scopes around."""
    found: set[Node] = set()
    around: Scope | None = scope
    while around is not None and around.private:
        found |= {s.tree for s in around.columns.values()}
        around = around.outer
    return found
