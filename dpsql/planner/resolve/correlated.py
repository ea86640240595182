"""Correlated scalar subqueries -> joins on group keys.

    (SELECT f(aggregates) FROM r WHERE r.a = outer.b AND rest)

has one value for each value of `outer.b`: it is the row `a = outer.b` of

    (SELECT r.a, aggregates FROM r WHERE rest GROUP BY r.a)

and where there is no such row, COUNT is 0 and every other aggregate NULL (rule 33). Grouped by the unit that query is a per-unit
aggregate; grouped by anything else it is a release.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.planner.grammar import is_aggregate
from dpsql.planner.resolve.key_lists import CORRELATED, LOOKED_UP
from dpsql.planner.resolve.sources import Source, glance, items, shown_names
from dpsql.planner.resolve.statement import Env, Statement
from dpsql.planner.resolve.syntax import all_of, is_query, parts_of, replaced, where_parts
from dpsql.schema.model import RESERVED

Names = list[tuple[str, set[str]]]
"""For each item of FROM its name and its columns, in lower case."""


HIDDEN_KEY, HIDDEN_VALUE = f"{RESERVED}c", f"{RESERVED}v"


def hidden_name(number: int) -> str:
    """Name of a subquery that was made a join."""
    return f"{RESERVED}subquery {number}"


@dataclass(frozen=True, slots=True)
class Correlated:
    """A subquery made a join.

    name    of the joined source
    select  the grouped query: its key columns first
    outer   what the keys equal, in the outer query
    node    the subquery as it was written
    """

    name: str
    select: exp.Select
    outer: list[exp.Expression]
    node: exp.Expression


def decorrelate(
    statement: Statement, select: exp.Select, sources: dict[int, Source], env: Env
) -> tuple[exp.Select, list[Correlated]]:
    """A private SELECT whose correlated scalar subqueries are columns of joined sources, and those sources."""
    waiting = [n for part in ("where", "expressions") for n in _subqueries(select.args.get(part))]
    if not waiting:
        return select, []
    aggregated = select.args.get("group") is not None or any(
        is_aggregate(p) for e in select.expressions for p in parts_of(e)
    )
    outer = [(s.name.lower(), shown_names(statement, s)) for s in sources.values()]
    found: list[Correlated] = []
    values: dict[int, exp.Expression] = {}
    for node in waiting:
        one = split(statement, node, outer, env, hidden_name(len(found)))
        if one is not None:
            if aggregated and not (_stands_in(node, select, "where") or _inside_aggregate(node, select)):
                raise error(
                    402,
                    "a correlated subquery cannot stand beside aggregates over people",
                    hint="aggregate both in FROM, and join the results",
                    span=span_of(node),
                )
            correlated, value = one
            keys = _public_keys(statement, select, sources, correlated.outer)
            if keys is not None:
                correlated.select.meta[CORRELATED] = keys
            found.append(correlated)
            values[id(node)] = value
    if not found:
        return select, []
    rest = replaced(select, values)
    assert isinstance(rest, exp.Select)
    return rest, found


def _stands_in(node: exp.Expression, select: exp.Select, part: str) -> bool:
    clause = select.args.get(part)
    return clause is not None and any(p is node for p in clause.walk())


def _inside_aggregate(node: exp.Expression, select: exp.Select) -> bool:
    """True if a node is in the argument of an aggregate of the SELECT, where it has a value for each row."""
    above = node.parent
    while isinstance(above, exp.Expression) and above is not select:
        if is_aggregate(above):
            return True
        above = above.parent
    return False


def _subqueries(part: object) -> list[exp.Subquery]:
    """The scalar subqueries of a clause, not those inside other queries."""
    nodes = part if isinstance(part, list) else [part]
    return [
        inner
        for node in nodes
        if isinstance(node, exp.Expression)
        for inner in parts_of(node)
        if isinstance(inner, exp.Subquery) and isinstance(inner.this, exp.Select)
    ]


def split(
    statement: Statement, node: exp.Subquery, outer: Names, env: Env, name: str
) -> tuple[Correlated, exp.Expression] | None:
    """A correlated subquery as a grouped query, and the expression that its value is; None where it is not correlated."""
    select = node.this
    if select.args.get("from_") is None:
        return None
    parts = where_parts(select)
    if not any(isinstance(c, exp.Column) for part in parts for c in part.walk()):
        return None
    sources = [glance(statement, n, env) for n in items(select)]
    inner = [(s.name.lower(), shown_names(statement, s)) for s in sources]
    links, rest = linked(parts, inner, outer)
    if not links:
        return None
    _check(select, node)
    grouped = exp.Select(expressions=[_aliased(mine, f"{HIDDEN_KEY}{i}") for i, (mine, _) in enumerate(links)])
    for part in ("from_", "joins"):
        if select.args.get(part) is not None:
            grouped.set(part, select.args[part])
    if rest:
        grouped.set("where", exp.Where(this=all_of(rest)))
    grouped.set("group", exp.Group(expressions=[mine for mine, _ in links]))
    grouped.meta[LOOKED_UP] = True
    value = value_of(select.expressions[0], grouped, name)
    return Correlated(name, grouped, [theirs for _, theirs in links], node), value


def linked(
    parts: list[exp.Expression], inner: Names, outer: Names
) -> tuple[list[tuple[exp.Expression, exp.Expression]], list[exp.Expression]]:
    """The equalities of an inner with an outer expression, and the other AND parts."""
    links, rest = [], []
    for part in parts:
        sides = {side_of(c, inner, outer) for c in part.walk() if isinstance(c, exp.Column)}
        if "outer" not in sides:
            rest.append(part)
            continue
        one, other = (part.this, part.expression) if isinstance(part, exp.EQ) else (part, part)
        mine = {side_of(c, inner, outer) for c in one.walk() if isinstance(c, exp.Column)}
        theirs = {side_of(c, inner, outer) for c in other.walk() if isinstance(c, exp.Column)}
        if isinstance(part, exp.EQ) and mine == {"inner"} and theirs == {"outer"}:
            links.append((one, other))
        elif isinstance(part, exp.EQ) and mine == {"outer"} and theirs == {"inner"}:
            links.append((other, one))
        else:
            raise error(
                402,
                "a subquery can refer to the query around it by = alone",
                hint="write inner column = outer column as an AND part of WHERE, or join in FROM",
                span=span_of(part),
            )
    return links, rest


def side_of(column: exp.Column, inner: Names, outer: Names) -> str:
    """Side that a column name belongs to: the inner query comes first."""
    for word, names in (("inner", inner), ("outer", outer)):
        if any((not column.table or column.table.lower() == n) and column.name.lower() in cs for n, cs in names):
            return word
    return "unknown"


def _check(select: exp.Select, node: exp.Expression) -> None:
    others = [p for p in ("group", "having", "qualify", "distinct", "limit", "offset", "with_") if select.args.get(p)]
    if others or len(select.expressions) != 1 or not any(is_aggregate(p) for p in parts_of(select.expressions[0])):
        raise error(
            402,
            "a correlated subquery must be one aggregate",
            hint="write (SELECT AVG(x) FROM ... WHERE inner column = outer column)",
            span=span_of(node),
        )


def _aliased(node: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=node.copy(), alias=exp.to_identifier(name, quoted=True))


def value_of(projection: exp.Expression, grouped: exp.Select, name: str) -> exp.Expression:
    """The subquery's expression over the joined source; its aggregates become columns of the grouped query."""
    columns: dict[int, exp.Expression] = {}
    node = projection.this if isinstance(projection, exp.Alias) else projection
    for part in _outermost_aggregates(node):
        column = f"{HIDDEN_VALUE}{sum(p.alias.startswith(HIDDEN_VALUE) for p in grouped.expressions)}"
        grouped.append("expressions", _aliased(part, column))
        found: exp.Expression = exp.column(
            exp.to_identifier(column, quoted=True), table=exp.to_identifier(name, quoted=True)
        )
        inner = part.this if isinstance(part, exp.Filter) else part
        if isinstance(inner, exp.Count | exp.CountIf):
            found = exp.Coalesce(this=found, expressions=[exp.Literal.number(0)])
        columns[id(part)] = found
    return exp.Paren(this=replaced(node, columns))


def _outermost_aggregates(node: exp.Expression) -> list[exp.Expression]:
    if is_aggregate(node):
        return [node]
    children = [child for child in node.iter_expressions() if isinstance(child, exp.Expression)]
    return [found for child in children if not is_query(child) for found in _outermost_aggregates(child)]


# --- where the keys come from -------------------------------------------------------------------------------------


def _public_keys(
    statement: Statement, select: exp.Select, sources: dict[int, Source], outer: list[exp.Expression]
) -> exp.Select | None:
    """A query for the outer's values where they are columns of one public table, after the conditions on it alone."""
    tables = [s for s in sources.values() if s.table is not None and s.table.public]
    names = [(s.name.lower(), shown_names(statement, s)) for s in sources.values()]
    owners = {_owner(node, names) for node in outer}
    found = next((s for s in tables if owners == {s.name.lower()}), None)
    if found is None:
        return None
    listed = exp.Select(expressions=[_aliased(node, f"c{i}") for i, node in enumerate(outer)], distinct=exp.Distinct())
    listed.set("from_", exp.From(this=found.node.copy()))
    own = [
        part.copy()
        for part in where_parts(select)
        if not any(is_query(p) for p in parts_of(part)) and _owner(part, names) == found.name.lower()
    ]
    if own:
        listed.set("where", exp.Where(this=all_of(own)))
    return listed


def _owner(node: exp.Expression, names: Names) -> str | None:
    """The one source that an expression reads; None where it reads several, or none."""
    owners = {
        n
        for c in node.walk()
        if isinstance(c, exp.Column)
        for n, cs in names
        if (not c.table or c.table.lower() == n) and c.name.lower() in cs
    }
    return owners.pop() if len(owners) == 1 else None
