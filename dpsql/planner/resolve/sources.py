"""The items of FROM: tables, WITH queries and subqueries -> the relations that a private block reads; joined.py joins them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.core.domains import MOST_CATEGORIES
from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import BIGINT
from dpsql.planner.calls import is_unnest
from dpsql.planner.resolve.catalog import CATALOG, CATALOG_TABLES, no_table
from dpsql.planner.resolve.statement import Cte, Env, Private, Public, Statement
from dpsql.planner.resolve.syntax import is_query, parts_of
from dpsql.planner.walks import copied, every
from dpsql.relations.declared import public_scan, scan
from dpsql.relations.relations import Relation, distinct_names, renamed
from dpsql.schema import spent
from dpsql.schema.model import Schema, Table
from dpsql.schema.qualifiers import MAIN


@dataclass(frozen=True, slots=True)
class Source:
    """One item of FROM: a declared table, or a query under a name.

    table  the declaration, or None
    query  the WITH query or subquery, or None
    names  column names from an alias list
    """

    node: exp.Expression
    name: str
    table: Table | None = None
    query: Private | Public | None = None
    names: tuple[str, ...] = ()

    @property
    def is_private(self) -> bool:
        return not self.table.public if self.table is not None else isinstance(self.query, Private)


def source(statement: Statement, node: exp.Expression, env: Env) -> Source:
    """Relation that an item of FROM reads, for the one place that reads it.

    Raises 105 for a name that is neither declared nor a WITH query, 106 where more names are listed than there are columns.
    """
    seen = statement.glanced.pop((id(node), id(env.ctes)), None)
    if seen is not None:
        assert isinstance(seen[-1], Source)
        return seen[-1]
    found = _resolved(statement, node, env)
    if found.names:
        _require_columns(statement, found)
    return found


def _require_columns(statement: Statement, found: Source) -> None:
    there = len(column_names(statement, replace(found, names=())))
    if len(found.names) > there:
        raise error(
            106,
            f"{len(found.names)} names are listed for {there} column{'s' * (there > 1)} of {found.name}",
            hint=f"write {found.name}({', '.join(found.names[:there])})",
            span=span_of(found.node),
        )


def glance(statement: Statement, node: exp.Expression, env: Env) -> Source:
    """The same, kept for whoever reads it afterwards: a query that is looked at on every level is resolved once on each."""
    found = source(statement, node, env)
    statement.glanced[id(node), id(env.ctes)] = (node, env.ctes, found)
    return found


def _resolved(statement: Statement, node: exp.Expression, env: Env) -> Source:
    if is_unnest(node.this):
        hint = "write FROM (SELECT *, UNNEST(tags) AS tag FROM t) AS t"
        raise error(102, "UNNEST cannot stand in FROM of this query", hint=hint, span=span_of(node))
    if isinstance(node.this, exp.GenerateSeries):
        return Source(node, node.alias or _unnamed(node), query=_series(statement, node), names=_listed(node))
    if isinstance(node, exp.Table):
        return _table(statement, node, env)
    if isinstance(node, exp.Subquery):
        found = statement.query(node.this, env.inside(None))
        return Source(node, node.alias or _unnamed(node), query=found, names=_listed(node))
    if isinstance(node, exp.Values):
        rows = exp.Select(expressions=[exp.Star()])
        rows.set("from_", exp.From(this=public_values(node).tree.copy()))
        return Source(node, node.alias or _unnamed(node), query=Public(rows), names=_listed(node))
    raise error(102, "this cannot stand in FROM", hint="name a declared table, or a subquery", span=span_of(node))


def public_values(node: exp.Values) -> Public:
    """VALUES, whose rows are written out. Raises 402 for a query among them."""
    held = next((part for row in node.expressions for part in parts_of(row) if is_query(part)), None)
    if held is not None:
        raise error(402, "a query cannot stand in VALUES", hint="write SELECT (SELECT ...)", span=span_of(held))
    return Public(node)


def _series(statement: Statement, node: exp.Expression) -> Public:
    """The rows of a series of constants. Raises 106 for one that fails, or is too long to be written out."""
    rows = exp.Select(expressions=[exp.Star()])
    rows.set("from_", exp.From(this=exp.Table(this=node.this.copy())))
    each = exp.Select(expressions=[exp.Literal.number(1)], from_=rows.args["from_"].copy())
    if statement.lists is not None and statement.lists.tuples(statement.text(each), (BIGINT,), ()) is None:
        hint = f"write constants, at most {MOST_CATEGORIES:,} of them, such as generate_series(1, 12)"
        raise error(106, "this series is none, or too long", hint=hint, span=span_of(node))
    return Public(rows)


def _unnamed(node: exp.Expression) -> str:
    """A name for a subquery without one: the next such one of a FROM clause is numbered."""
    select = node.parent_select
    others = [n for n in items(select) if not n.alias_or_name] if isinstance(select, exp.Select) else []
    place = next((i for i, other in enumerate(others) if other is node), 0)
    return f"subquery {place + 1}" if place else "subquery"


def column_names(statement: Statement, found: Source) -> list[str]:
    """The names of a source's columns, in order, repeated ones too."""
    if found.table is not None:
        names = [c.name for c in found.table.columns]
    elif isinstance(found.query, Private):
        names = [c.name for c in found.query.relation.columns]
    else:
        assert found.query is not None
        names = list(statement.names(found.query))
    return [*found.names, *names[len(found.names) :]]


def shown_names(statement: Statement, found: Source) -> set[str]:
    """Names of a source's columns, in lower case."""
    return {name.lower() for name in distinct_names(column_names(statement, found))}


def _listed(node: exp.Expression) -> tuple[str, ...]:
    alias = node.args.get("alias")
    return tuple(c.name for c in alias.args.get("columns") or ()) if isinstance(alias, exp.TableAlias) else ()


def _table(statement: Statement, node: exp.Table, env: Env) -> Source:
    cte = env.ctes.get(node.name.lower()) if not node.db else None
    if cte is not None:
        return Source(
            node, node.alias or node.name, query=_with_query(statement, cte), names=_listed(node) or cte.names
        )
    table = statement.schema.table(node.name) if node.db.lower() in ("", MAIN) else None
    if table is None:
        raise unknown_table(node, statement.schema)
    return Source(node, node.alias or table.name, table=table, names=_listed(node))


def _with_query(statement: Statement, cte: Cte) -> Private | Public:
    """Relation of a WITH query: a public one once for all, people's rows anew for each place, under table names of its
    own."""
    if cte.public is not None:
        return cte.public
    found = statement.query(copied(cte.node), cte.env)
    if isinstance(found, Public):
        cte.public = found
    return found


def check_tables(tree: exp.Expression, schema: Schema) -> None:
    """Raise 105 for a table that is neither declared nor a WITH query of the statement, nor of the catalog or of what was spent."""
    named = every(tree, exp.Table, exp.CTE)
    queries = {node.alias.lower() for node in named if isinstance(node, exp.CTE)}
    for node in named:
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            continue
        declared = node.db.lower() in ("", MAIN) and schema.table(node.name) is not None
        known = declared or (not node.db and node.name.lower() in queries)
        catalog = node.db.lower() == CATALOG and node.name.lower() in CATALOG_TABLES
        own = spent.is_one(node.db, node.name) or spent.is_synthetic(node.db)
        if node.catalog or not (known or catalog or own):
            raise unknown_table(node, schema)


def unknown_table(node: exp.Table, schema: Schema) -> Error:
    return no_table(".".join(filter(None, (node.catalog, node.db))), node.name, schema, span_of(node))


def items(select: exp.Select) -> Iterator[exp.Expression]:
    """The nodes of FROM, in order."""
    clause = select.args.get("from_")
    if clause is not None:
        yield clause.this
    for join in select.args.get("joins") or ():
        yield join.this


def beside_sources(select: exp.Select) -> Iterator[exp.Expression]:
    """The parts of a SELECT that are its own, without it and the items of FROM."""
    read = {id(select), *map(id, items(select))}
    return (part for part in parts_of(select) if id(part) not in read)


def relation(statement: Statement, found: Source) -> Relation:
    """The relation of one source, under names for the engine that nothing else in the statement has."""
    if found.table is not None:
        alias = statement.alias(found.table.name)
        declared = (
            public_scan(found.table, alias, found.name)
            if found.table.public
            else scan(statement.schema, found.table, alias, found.name)
        )
        return renamed(declared, found.name, found.names) if found.names else declared
    if isinstance(found.query, Private):
        return renamed(found.query.relation, found.name, found.names)
    assert found.query is not None
    return statement.bound_relation(found.query, found.name, found.names)
