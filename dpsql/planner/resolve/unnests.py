"""UNNEST of a column that is declared as a list: in FROM behind its table, or in the SELECT list of a query in FROM."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.expressions.scalar import Scalar
from dpsql.planner.calls import is_unnest
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.sources import column_names, glance, items
from dpsql.planner.resolve.statement import Env, Statement
from dpsql.planner.resolve.syntax import no_unnest, unnests
from dpsql.planner.resolve.unit_windows import has_windows, moved
from dpsql.relations.relations import Relation
from dpsql.relations.unnest import unnested
from dpsql.schema.model import Column

_WAY = "write FROM t, UNNEST(t.tags) AS u(tag)"


def in_from(statement: Statement, select: exp.Select, env: Env) -> None:
    """Write FROM t, UNNEST(t.tags) AS u(tag) as FROM (SELECT *, UNNEST(t.tags) AS tag FROM t) AS t, in place; u.tag is t.tag then.

    Why  beside inner joins it is the same whether a row is taken once for each element before or after it meets others; beside outer
         joins it is not, so these are refused. Names stay clear: no column of t has the name, and u stands nowhere else
    """
    joins = list(select.args.get("joins") or ())
    for join in [j for j in joins if is_unnest(j.this.this)]:
        _check_join(join, joins)
        call, alias = join.this.this, join.this.args.get("alias")
        names: list[exp.Expression] = alias.args.get("columns") or [] if alias is not None else []
        if len(names) != 1 or len(call.expressions) != 1 or not isinstance(call.expressions[0], exp.Column):
            raise error(102, "UNNEST in FROM needs a column, and names for its rows", hint=_WAY, span=span_of(call))
        joins = [other for other in joins if other is not join]
        select.set("joins", joins)
        item = _item(statement, select, call.expressions[0], env)
        _renamed(select, alias.name, names[0].name, item)
        _check_name(statement, item, names[0].name, env)
        inner = exp.Select(expressions=[exp.Star(), exp.alias_(call, names[0].name, quoted=True)])
        outside = exp.Subquery(alias=exp.TableAlias(this=exp.to_identifier(item.alias_or_name, quoted=True)))
        item.replace(outside)
        inner.set("from_", exp.From(this=item))
        outside.set("this", inner)


def _check_join(join: exp.Join, joins: list[exp.Join]) -> None:
    on = join.args.get("on")
    plain = on is None or (isinstance(on, exp.Boolean) and on.this)
    if not plain or any(j.side or j.args.get("method") for j in (join, *joins)) or join.args.get("using"):
        what = "UNNEST is not joined, nor beside an outer join"
        hint = "write it in a query of its own: FROM (SELECT *, UNNEST(tags) AS tag FROM t) AS t LEFT JOIN ..."
        raise error(102, what, hint=hint, span=span_of(join.this))


def _item(statement: Statement, select: exp.Select, column: exp.Column, env: Env) -> exp.Expression:
    """The item of FROM that has the list."""
    others = [n for n in items(select) if not is_unnest(n.this)]
    found = [
        n
        for n in others
        if (n.alias_or_name.lower() == column.table.lower() if column.table else _has(statement, n, column, env))
    ]
    if len(found) != 1 or not found[0].alias_or_name:
        raise error(105, "UNNEST is of no column of one table before it", hint=_WAY, span=span_of(column))
    return found[0]


def _has(statement: Statement, node: exp.Expression, column: exp.Column, env: Env) -> bool:
    return column.name.lower() in _names(statement, node, env)


def _names(statement: Statement, node: exp.Expression, env: Env) -> set[str]:
    return {name.lower() for name in column_names(statement, glance(statement, node, env))}


def _check_name(statement: Statement, item: exp.Expression, name: str, env: Env) -> None:
    if name.lower() in _names(statement, item, env):
        table = item.alias_or_name
        what = f"{name} is a column of {table} already"
        raise error(105, what, hint=f"write UNNEST({table}.x) AS u(another_name)", span=span_of(item))


def _renamed(select: exp.Select, alias: str, name: str, item: exp.Expression) -> None:
    """Call u.tag by the table that the elements stand beside now."""
    taken = [t for t in select.find_all(exp.Table, exp.Subquery) if t.alias_or_name.lower() == alias.lower()]
    if taken:
        raise error(105, f"{alias} stands in FROM twice", hint=f"write AS another_name({name})", span=span_of(taken[0]))
    for column in select.find_all(exp.Column):
        if column.table.lower() == alias.lower():
            column.set("table", exp.to_identifier(item.alias_or_name, quoted=True))


# --- the SELECT list ------------------------------------------------------------------------------------------------------


def with_elements(statement: Statement, select: exp.Select, source: Relation, scope: Scope) -> tuple[Relation, Scope]:
    """The rows, each once for each element of the list that the SELECT list unnests, and the scope in which UNNEST is the element."""
    nodes = unnests(select)
    merged = {s.tree for s in scope.merged.values()} - {c.scalar.tree for c in source.columns}
    if len(nodes) > 1 or has_windows(select) or merged:
        hint = "write the other one in a query around it: FROM (SELECT *, UNNEST(tags) AS tag FROM t) AS t"
        raise error(
            102, "UNNEST stands beside another UNNEST, a window or a FULL JOIN", hint=hint, span=span_of(nodes[-1])
        )
    (node,) = nodes
    listed = scalar(node.expressions[0], scope)
    element = _element(statement, listed)
    if element is None:
        raise no_unnest(node)
    narrowed = tuple(replace(c, scalar=scope.adjusted(c.scalar)) for c in source.columns)
    relation, value = unnested(replace(source, columns=narrowed), statement.alias("unnested"), listed, element)
    here = moved(scope, source, relation)
    here.known = {id(node): value}
    return relation, here


def _element(statement: Statement, listed: Scalar) -> Column | None:
    """One element, as it is declared."""
    table, _, name = listed.origin.rpartition(".")
    declared = statement.schema.table(table)
    column = declared.column(name) if declared is not None and listed.is_column else None
    return column.element if column is not None else None
