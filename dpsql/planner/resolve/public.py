"""A SELECT that reads no people's rows itself: it stays as it was written, with releases in place of the queries over people."""

from __future__ import annotations

from sqlglot import exp

from dpsql.errors import Error, error
from dpsql.planner.resolve.correlated import Correlated, columns_of, replaced, split
from dpsql.planner.resolve.key_lists import CORRELATED
from dpsql.planner.resolve.people import rows_of_people
from dpsql.planner.resolve.scalars import flat_conjuncts
from dpsql.planner.resolve.sources import Source, glance, items
from dpsql.planner.resolve.statement import Env, Private, Public, Statement, is_query, parts_of, unparenthesised
from dpsql.spans import span_of


def public_select(statement: Statement, select: exp.Select, sources: dict[int, Source], env: Env) -> Public:
    """The query for the sandbox. Raises 402 where a query inside it would look at people's rows without aggregating them."""
    changed: dict[int, exp.Expression] = {}
    for found in sources.values():
        if isinstance(found.query, Public) and not isinstance(found.node, exp.Values):
            changed[id(found.node)] = _derived(found)
    outer = [(s.name.lower(), columns_of(statement, s)) for s in sources.values() if _may_be_named(select)]
    for part in ("expressions", "where", "group", "having", "qualify", "order", "joins"):
        value = select.args.get(part) or []
        for node in value if isinstance(value, list) else [value]:
            for inner in parts_of(node):
                if is_query(inner) and id(inner) not in changed and not _is_source(inner):
                    changed[id(inner)] = _inside(statement, inner, select, outer, env)
    tree = replaced(select, changed)
    assert isinstance(tree, exp.Select)
    if select.args.get("with_") is not None:
        tree = tree.copy() if tree is select else tree
        tree.set("with_", None)
    return statement.sized(Public(tree, _unique(tree, sources)))


def _may_be_named(select: exp.Select) -> bool:
    """Whether a query inside could refer to this one: only then are the columns of its sources asked for."""
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
    statement: Statement,
    node: exp.Expression,
    select: exp.Select,
    outer: list[tuple[str, set[str]]],
    env: Env,
) -> exp.Expression:
    """A query in an expression of a public SELECT: public itself, or one aggregate over people (rule 1)."""
    if (
        isinstance(node, exp.Subquery)
        and isinstance(node.this, exp.Select)
        and _reads_people(statement, node.this, env)
    ):
        one = split(statement, node, outer, env, "dpsql_0")
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
    keys = exp.Select(
        expressions=[exp.Alias(this=n.copy(), alias=exp.to_identifier(f"c{i}")) for i, n in enumerate(one.outer)],
        distinct=exp.Distinct(),
    )
    for part in ("from_", "joins"):
        if select.args.get(part) is not None:
            keys.set(part, select.args[part])
    where = select.args.get("where")
    own = [
        n
        for n in (flat_conjuncts(where.this) if where is not None else [])
        if not _holds_query_over_people(statement, n, env)
    ]
    for node in own:
        keys.set(
            "where",
            exp.Where(
                this=node if keys.args.get("where") is None else exp.And(this=keys.args["where"].this, expression=node)
            ),
        )
    one.select.meta[CORRELATED] = keys
    found = statement.query(one.select, env.inside(None))
    if isinstance(found, Private):
        raise rows_of_people(found, one.node)
    same = [
        exp.EQ(
            this=exp.column(exp.to_identifier(f"c{i}", quoted=True), table=exp.to_identifier(one.name, quoted=True)),
            expression=n,
        )
        for i, n in enumerate(one.outer)
    ]
    condition: exp.Expression = same[0]
    for equal in same[1:]:
        condition = exp.And(this=condition, expression=equal)
    replacements = {
        id(c): _looked_up(c, found.tree, one.name, condition) for c in value.find_all(exp.Column) if c.table == one.name
    }
    return replaced(value, replacements)


def _looked_up(column: exp.Column, tree: exp.Expression, name: str, condition: exp.Expression) -> exp.Expression:
    lookup = exp.Select(expressions=[column])
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    lookup.set("from_", exp.From(this=exp.Subquery(this=tree, alias=alias)))
    lookup.set("where", exp.Where(this=condition))
    return exp.Subquery(this=lookup)


def _holds_query_over_people(statement: Statement, node: exp.Expression, env: Env) -> bool:
    private = {t.name.lower() for t in statement.schema.tables if not t.public} | set(env.ctes)
    return any(isinstance(t, exp.Table) and t.name.lower() in private for t in node.walk())


# --- what is known of the rows ------------------------------------------------------------------------------------


def _unique(tree: exp.Select, sources: dict[int, Source]) -> frozenset[frozenset[int]]:
    """Column positions that no two rows agree in: of one row at most, of GROUP BY, of DISTINCT, or of the one source."""
    limit = tree.args.get("limit")
    if tree.args.get("from_") is None:
        return frozenset({frozenset()})
    if limit is not None and limit.expression is not None and limit.expression.name == "1":
        return frozenset({frozenset()})
    names = {_bare(p): i for i, p in reversed(list(enumerate(tree.expressions)))}
    group = tree.args.get("group")
    if group is not None:
        keys = [
            _bare(k) if not k.name.isdigit() else _bare(tree.expressions[int(k.name) - 1]) for k in group.expressions
        ]
        plain = not any(group.args.get(part) for part in ("all", "rollup", "cube", "grouping_sets"))
        return (
            frozenset({frozenset(names[k] for k in keys)}) if plain and all(k in names for k in keys) else frozenset()
        )
    if any(isinstance(p, exp.AggFunc) for e in tree.expressions for p in parts_of(e)) and not tree.find(exp.Window):
        return frozenset({frozenset()})
    if tree.args.get("distinct") is not None and not any(isinstance(p, exp.Star) for p in tree.expressions):
        return frozenset({frozenset(range(len(tree.expressions)))})
    return _of_source(tree, names, sources)


def _of_source(tree: exp.Select, names: dict[str, int], sources: dict[int, Source]) -> frozenset[frozenset[int]]:
    """Rows of one source keep their unique columns, whatever WHERE, ORDER BY and LIMIT leave of them."""
    found = next(iter(sources.values())) if len(sources) == 1 else None
    if found is None or found.names or any(isinstance(p, exp.Star) for p in tree.expressions):
        only_star = len(tree.expressions) == 1 and isinstance(tree.expressions[0], exp.Star)
        return (
            found.query.unique if found is not None and only_star and isinstance(found.query, Public) else frozenset()
        )
    if found.table is not None and found.table.key:
        places = {names.get(key.lower()) for key in found.table.key}
        return frozenset({frozenset(p for p in places if p is not None)}) if None not in places else frozenset()
    if isinstance(found.query, Public) and isinstance(found.query.tree, exp.Select):
        shown = found.query.names or tuple(p.alias_or_name for p in found.query.tree.expressions)
        inner = [name.lower() for name in shown]
        sets = [{names.get(inner[i]) for i in positions} for positions in found.query.unique]
        return frozenset(frozenset(p for p in s if p is not None) for s in sets if None not in s)
    return frozenset()


def _bare(projection: exp.Expression) -> str:
    """The column that a projection shows as it is; "" where it computes."""
    node = projection.this if isinstance(projection, exp.Alias) else projection
    return node.name.lower() if isinstance(node, exp.Column) else f"\0{node.sql()}"
