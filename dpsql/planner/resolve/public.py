"""A SELECT that reads no people's rows itself: it stays as it was written, with releases in place of the queries over people."""

from __future__ import annotations

from sqlglot import exp

from dpsql.aggregates.record import Record
from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.planner.calls import spelt_out
from dpsql.planner.grammar import OF_PEOPLE, name_of, record_of
from dpsql.planner.resolve import unique
from dpsql.planner.resolve.correlated import HIDDEN_KEY, Correlated, hidden_name, split
from dpsql.planner.resolve.ends import is_end
from dpsql.planner.resolve.key_lists import CORRELATED
from dpsql.planner.resolve.rows_of_people import rows_of_people
from dpsql.planner.resolve.sources import Source, column_names, glance, items, shown_names
from dpsql.planner.resolve.statement import Env, Private, Public, Statement
from dpsql.planner.resolve.syntax import all_of, is_query, parts_of, replaced, unparenthesised, where_parts


def public_select(statement: Statement, select: exp.Select, sources: dict[int, Source], env: Env) -> Public:
    """The query for the sandbox. Raises 402 where a query inside it would look at people's rows without aggregating them."""
    own = next((p for p in parts_of(select) if isinstance(p, exp.Anonymous) and str(p.this).lower() in OF_PEOPLE), None)
    if own is not None:
        raise error(
            102,
            f"{name_of(own)} is about people's rows, and these are public",
            hint=f"write plain SQL, such as {_plain(record_of(own), own)}",
            span=span_of(own),
        )
    wrong = next((p for p in parts_of(select) if is_end(p)), None)
    if wrong is not None:
        raise error(
            102,
            f"{name_of(wrong)} stands in a query that does not aggregate people's rows itself",
            hint="write it in the query that does, and give it a name there",
            span=span_of(wrong),
        )
    changed: dict[int, exp.Expression] = {}
    for found in sources.values():
        if isinstance(found.query, Public) and not isinstance(found.node, exp.Values):
            changed[id(found.node)] = _derived(found)
    outer = [(s.name.lower(), shown_names(statement, s)) for s in sources.values() if _may_be_named(select)]
    for part, value in select.args.items():
        if part in ("from_", "with_") or not value:
            continue
        for node in value if isinstance(value, list) else [value]:
            for inner in parts_of(node) if isinstance(node, exp.Expression) else ():
                if is_query(inner) and id(inner) not in changed and not _is_source(inner):
                    if part in ("limit", "offset"):
                        raise error(106, f"{part.upper()} needs a constant", hint="write a number", span=span_of(inner))
                    changed[id(inner)] = _inside(statement, inner, select, outer, env)
    tree = replaced(select, changed)
    assert isinstance(tree, exp.Select)
    if select.args.get("with_") is not None:
        tree = tree.copy() if tree is select else tree
        tree.set("with_", None)
    shown = [_shown(statement, found) for found in sources.values()]
    return statement.sized(Public(tree, unique.of_select(tree, shown)))


def _plain(record: Record | None, call: exp.Anonymous) -> str:
    """Aggregate over public rows that gives what an aggregate over people gives."""
    if record is None or not record.plain or not call.expressions:
        return "SUM(x) or AVG(x)"
    return spelt_out(record.plain, call.expressions[0]).sql(dialect="duckdb")


def _shown(statement: Statement, found: Source) -> unique.Shown:
    """A source's columns in order, and what is unique in it."""
    kept = unique.NOTHING
    if isinstance(found.query, Public):
        kept = found.query.unique
    elif found.table is not None and found.table.key:
        declared = [c.name.lower() for c in found.table.columns]
        kept = frozenset({frozenset(declared.index(name.lower()) for name in found.table.key)})
    columns = tuple(name.lower() for name in column_names(statement, found))
    types = tuple(c.sqltype for c in found.table.columns) if found.table is not None else ()
    return unique.Shown(found.name.lower(), columns, kept, types)


def _may_be_named(select: exp.Select) -> bool:
    """True if a query inside could refer to this one: only then are the columns of its sources asked for."""
    return any(is_query(part) and not _is_source(part) for part in parts_of(select) if part is not select)


def _is_source(node: exp.Expression) -> bool:
    return isinstance(node.parent, exp.From | exp.Join) and node.arg_key == "this"


def _derived(found: Source) -> exp.Expression:
    """A WITH query or subquery of FROM as a subquery of its own text."""
    assert isinstance(found.query, Public)
    columns = [exp.to_identifier(name, quoted=True) for name in found.names or found.query.names]
    alias = exp.TableAlias(this=exp.to_identifier(found.name, quoted=True), columns=columns)
    return exp.Subquery(this=found.query.tree, alias=alias)


def _inside(
    statement: Statement, node: exp.Expression, select: exp.Select, outer: list[tuple[str, set[str]]], env: Env
) -> exp.Expression:
    """A query in an expression of a public SELECT: public itself, or one aggregate over people (rule 1)."""
    if (
        isinstance(node, exp.Subquery)
        and isinstance(node.this, exp.Select)
        and _reads_people(statement, node.this, env)
    ):
        one = split(statement, node, outer, env, hidden_name(0))
        if one is not None:
            return _correlated(statement, *one, select, env)
    part = "query" if node.args.get("query") else "this"
    if isinstance(node, exp.Exists) and isinstance(node.this, exp.Select) and _reads_people(statement, node.this, env):
        raise _existence(node)
    if not isinstance(node, exp.Subquery | exp.Exists) and part == "this":
        raise error(402, "a query cannot stand here", hint="write it in FROM", span=span_of(node))
    found = statement.query(unparenthesised(node.args[part]), env.inside(None))
    if isinstance(found, Private):
        if isinstance(node, exp.Subquery):
            raise rows_of_people(found, node)
        raise _existence(node)
    changed: dict[str, object] = dict(node.args)
    changed[part] = exp.Subquery(this=found.tree) if part == "query" else found.tree
    return type(node)(**changed)


def _existence(node: exp.Expression) -> Error:
    return error(
        402,
        "this would show whether people's rows have some value",
        hint="ask for a count of people instead: (SELECT COUNT(*) FROM ... WHERE ...) > 10",
        span=span_of(node),
    )


def _reads_people(statement: Statement, select: exp.Select, env: Env) -> bool:
    return any(glance(statement, n, env).is_private for n in items(select))


def _correlated(
    statement: Statement, one: Correlated, value: exp.Expression, select: exp.Select, env: Env
) -> exp.Expression:
    """One value of a release for each row: the subquery looks it up by its keys; the keys are those of the outer query."""
    one.select.meta[CORRELATED] = _outer_keys(statement, one, select, env)
    found = statement.query(one.select, env.inside(None))
    if isinstance(found, Private):
        raise rows_of_people(found, one.node)
    table = exp.to_identifier(one.name, quoted=True)
    keys = (exp.column(exp.to_identifier(f"{HIDDEN_KEY}{i}", quoted=True), table=table) for i in range(len(one.outer)))
    condition = all_of(exp.EQ(this=key, expression=node) for key, node in zip(keys, one.outer, strict=True))
    replacements = {
        id(c): _looked_up(c, found.tree, one.name, condition) for c in value.find_all(exp.Column) if c.table == one.name
    }
    return replaced(value, replacements)


def _outer_keys(statement: Statement, one: Correlated, select: exp.Select, env: Env) -> exp.Select:
    """A query for the outer values that a correlated subquery is looked up by."""
    named = [exp.Alias(this=n.copy(), alias=exp.to_identifier(f"c{i}")) for i, n in enumerate(one.outer)]
    keys = exp.Select(expressions=named, distinct=exp.Distinct())
    for part in ("from_", "joins"):
        if select.args.get(part) is not None:
            keys.set(part, select.args[part])
    own = [n for n in where_parts(select) if not _holds_query_over_people(statement, n, env)]
    if own:
        keys.set("where", exp.Where(this=all_of(own)))
    return keys


def _looked_up(column: exp.Column, tree: exp.Expression, name: str, condition: exp.Expression) -> exp.Expression:
    lookup = exp.Select(expressions=[column])
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    lookup.set("from_", exp.From(this=exp.Subquery(this=tree, alias=alias)))
    lookup.set("where", exp.Where(this=condition))
    return exp.Subquery(this=lookup)


def _holds_query_over_people(statement: Statement, node: exp.Expression, env: Env) -> bool:
    private = {t.name.lower() for t in statement.schema.tables if not t.public} | set(env.ctes)
    return any(isinstance(t, exp.Table) and t.name.lower() in private for t in node.walk())
