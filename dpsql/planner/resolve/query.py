"""A query of any shape -> private rows, or a public query over releases: which of the two it is, and who resolves it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpsql.core.cancellation import check
from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.expressions.scalar import same_key
from dpsql.planner.resolve.grouping_sets import flatten
from dpsql.planner.resolve.people import rows_of_people
from dpsql.planner.resolve.private import private_select
from dpsql.planner.resolve.public import public_select
from dpsql.planner.resolve.sources import Source, glance, items, public_values, shown_names, source
from dpsql.planner.resolve.statement import Cte, Env, Private, Public, Query, Statement
from dpsql.planner.resolve.syntax import replaced, unparenthesised
from dpsql.relations.per_unit import union_all

FLAT = "already written out"
"""What marks the outer query of grouping sets, which reads released groups."""


def query(statement: Statement, node: exp.Expression, env: Env) -> Query:
    """Resolve one query in its surroundings.

    Raises 402 for queries that mix people's rows with public ones, and what the resolvers of its parts raise.
    """
    check()
    node = unparenthesised(node)
    if isinstance(node, exp.Select):
        return _select(statement, node, _with(node, env))
    if isinstance(node, exp.SetOperation):
        return _set_operation(statement, node, _with(node, env))
    if isinstance(node, exp.Values):
        return public_values(node)
    raise error(102, "this is not a query", hint="write SELECT ...", span=span_of(node))


def _with(node: exp.Expression, env: Env) -> Env:
    """The surroundings inside a query: its WITH queries, each of which sees the ones before it."""
    clause = node.args.get("with_")
    if clause is None:
        return env
    for cte in clause.expressions:
        alias = cte.args["alias"]
        names = tuple(c.name for c in alias.args.get("columns") or ())
        env = replace(env, ctes={**env.ctes, cte.alias.lower(): Cte(cte.this, names, env.inside(None))})
    return env


def _select(statement: Statement, select: exp.Select, env: Env) -> Query:
    tested = _tested(select)
    seen = {id(n): glance(statement, n, env) for n in items(select)}
    _check_names(seen)
    kept = [s for node, s in seen.items() if node not in tested]
    if any(s.is_private for s in kept):
        if select.meta.get(FLAT):
            raise error(
                302,
                "ROLLUP, CUBE and GROUPING SETS over the privacy unit would mix one person's groups with everyone's",
                hint="write GROUP BY with the columns alone",
                span=span_of(select.args["group"]) or span_of(select),
            )
        flat = flatten(select, {name for s in seen.values() for name in shown_names(statement, s)})
        if flat is not None:
            flat.meta[FLAT] = True
            return query(statement, flat, env)
    # What SEMI and ANTI joins test is read by the EXISTS that they stand for.
    sources = {id(n): seen[id(n)] if id(n) in tested else source(statement, n, env) for n in items(select)}
    if any(s.is_private for s in kept):
        return private_select(statement, select, sources, env)
    other = next((s for s in sources.values() if s.is_private), None)
    if other is not None:
        raise error(
            402,
            "this would show whether people's rows have some value",
            hint="ask for a count of people instead, grouped by what they share",
            span=span_of(other.node),
        )
    return public_select(statement, select, sources, env)


def _tested(select: exp.Select) -> set[int]:
    """The items of FROM whose rows the SELECT does not have, by id: those of SEMI and ANTI joins only decide which rows stay."""
    return {id(j.this) for j in select.args.get("joins") or () if (j.kind or "").upper() in ("SEMI", "ANTI")}


def _check_names(sources: dict[int, Source]) -> None:
    seen: set[str] = set()
    for found in sources.values():
        name = found.name.lower()
        if name in seen:
            raise error(
                105,
                f"{found.name} stands in FROM twice",
                hint=f"write {found.name} AS another_name",
                span=span_of(found.node),
            )
        seen.add(name)


def _set_operation(statement: Statement, node: exp.SetOperation, env: Env) -> Query:
    sides = [query(statement, side, env.inside(env.outer)) for side in (node.this, node.expression)]
    first, second = sides
    if isinstance(first, Public) and isinstance(second, Public):
        values = {id(node.this): _side(first.tree), id(node.expression): _side(second.tree)}
        tree = replaced(node, values)
        if tree.args.get("with_") is not None:
            tree.set("with_", None)
        return statement.sized(Public(tree, names=first.names))
    word = type(node).__name__.upper()
    if not (isinstance(first, Private) and isinstance(second, Private)):
        raise error(
            402,
            f"{word} mixes rows of people with public rows, which belong to nobody",
            hint="aggregate both sides first",
            span=span_of(node),
        )
    if not isinstance(node, exp.Union):
        return query(statement, _membership(node, first, second), env)
    return _union(statement, node, first, second)


def _membership(node: exp.SetOperation, first: Private, second: Private) -> exp.Select:
    """EXCEPT and INTERSECT of people's rows: the different rows of the first side for which the second has none, or has one.

    Why  the unit, or a key of its rows, stands in the same place of both sides, so whether a row is kept depends on its own unit's rows
         (rules 1, 7); where there is none it is refused
    """
    word = type(node).__name__.upper()
    pairs = list(zip(first.relation.columns, second.relation.columns, strict=False))
    held = [same_key(one.scalar, other.scalar) for one, other in pairs]
    if not any(held) or len(first.relation.columns) != len(second.relation.columns):
        raise error(
            402,
            f"{word} of people's rows needs as many columns on both sides, with the privacy unit in the same place",
            hint=f"write SELECT unit, ... {word} SELECT unit, ..., or EXISTS on the privacy unit",
            span=span_of(node),
        )
    if not node.args.get("distinct"):
        raise error(402, f"{word} ALL of people's rows is not supported", hint=f"write {word}", span=span_of(node))
    names, sides = [f"c{i}" for i in range(len(pairs))], ("kept", "tested")
    equal = [
        (exp.EQ if same else exp.NullSafeEQ)(this=exp.column(name, "kept"), expression=exp.column(name, "tested"))
        for name, same in zip(names, held, strict=True)
    ]
    kept, tested = (
        exp.Subquery(
            this=side.copy(),
            alias=exp.TableAlias(this=exp.to_identifier(alias), columns=[*map(exp.to_identifier, names)]),
        )
        for side, alias in zip((node.this, node.expression), sides, strict=True)
    )
    found: exp.Expression = exp.Exists(this=exp.select("1").from_(tested).where(exp.and_(*equal)))
    shown = [exp.alias_(exp.column(f"c{i}", "kept"), one.name, quoted=True) for i, (one, _) in enumerate(pairs)]
    return (
        exp.select(*shown).distinct().from_(kept).where(found if isinstance(node, exp.Intersect) else exp.not_(found))
    )


def _side(tree: exp.Expression) -> exp.Expression:
    """One side of UNION, in parentheses where it has an order or a limit of its own."""
    own = any(tree.args.get(part) is not None for part in ("order", "limit", "offset"))
    return exp.Subquery(this=tree) if own else tree


def _union(statement: Statement, node: exp.Union, first: Private, second: Private) -> Private:
    """UNION ALL of people's rows; UNION leaves out repeats where the unit is among the columns."""
    for part in ("limit", "offset"):
        if node.args.get(part) is not None:
            raise rows_of_people(Private(first.relation, node), node)
    united = union_all(first.relation, second.relation, statement.alias("united"))
    if not node.args.get("distinct"):
        return Private(united, node)
    return Private(statement.distinct(united, node), node)
