"""A query of any shape -> private rows, or a public query over releases: which of the two it is, and who resolves it. Of a SELECT that
reads people's rows, rows of one unit stay private, and what aggregates over people becomes a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.core.cancellation import check
from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.expressions.logic import compare, conjunction, truth
from dpsql.expressions.scalar import Scalar, held_together
from dpsql.plan.resolved import GroupKey
from dpsql.planner.grammar import is_aggregate
from dpsql.planner.resolve.candidates import scored
from dpsql.planner.resolve.correlated import Correlated, decorrelate
from dpsql.planner.resolve.grouping_sets import flatten
from dpsql.planner.resolve.joined import can_join, connect, equalities_between, from_clause, joined_scope, parts_scope
from dpsql.planner.resolve.key_lists import Listed
from dpsql.planner.resolve.laterals import with_laterals, without_laterals
from dpsql.planner.resolve.memberships import membership
from dpsql.planner.resolve.nobody import kept_by, rows_of_nobody, ruled_out
from dpsql.planner.resolve.people import group_keys, grouping, release
from dpsql.planner.resolve.public import public_select
from dpsql.planner.resolve.rows_of_people import one_of_equal_rows, rows_of_people, shown_row_by_row
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.sources import Source, glance, items, public_values, relation, shown_names, source
from dpsql.planner.resolve.statement import Cte, Env, Private, Public, Query, Statement
from dpsql.planner.resolve.subqueries import Subqueries
from dpsql.planner.resolve.syntax import (
    aliases_of,
    check_no_unnest,
    of_many,
    parts_of,
    replaced,
    unnests,
    unparenthesised,
    where_parts,
)
from dpsql.planner.resolve.tiles import with_groups_cut, with_tiles
from dpsql.planner.resolve.unit_groups import unit_groups
from dpsql.planner.resolve.unit_windows import has_windows, unit_windows, windows_of
from dpsql.planner.resolve.unnests import in_from, with_elements
from dpsql.relations.joins import left_join
from dpsql.relations.per_unit import union_all
from dpsql.relations.relations import Named, Relation, filtered, projected
from dpsql.schema.model import RESERVED

FLAT = "already written out"
"""Marks the outer query of grouping sets, which reads released groups."""


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
    if unnests(select):
        in_from(statement, select, env)
    if any(isinstance(join.this, exp.Subquery) for join in select.args.get("joins") or ()):
        select = with_laterals(statement, select, env)
    if any(isinstance(n, exp.Lateral) for n in items(select)):
        select = without_laterals(statement, select, env)
    call = of_many(select)
    if call is not None:
        select = scored(statement, select, call, env)
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
    check_no_unnest(select)
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
    _refuse_limit(node)
    if not isinstance(node, exp.Union):
        return query(statement, membership(node, first, second), env)
    return _union(statement, node, first, second)


def _side(tree: exp.Expression) -> exp.Expression:
    """One side of UNION, in parentheses where it has an order or a limit of its own."""
    own = any(tree.args.get(part) is not None for part in ("order", "limit", "offset"))
    return exp.Subquery(this=tree) if own else tree


def _union(statement: Statement, node: exp.Union, first: Private, second: Private) -> Private:
    """UNION ALL of people's rows; UNION leaves out repeats where the unit is among the columns."""
    united = union_all(first.relation, second.relation, statement.alias("united"))
    if not node.args.get("distinct"):
        return Private(united, node)
    return Private(statement.distinct(united, node), node)


def private_select(
    statement: Statement, select: exp.Select, sources: dict[int, Source], env: Env, cuts: Sequence[Correlated] = ()
) -> Query:
    """Resolve a SELECT with people's rows in FROM.

    cuts  further sources that its rows are joined with

    Raises 301, 302 (rows or groups of people shown), 402 (joins and subqueries), 1xx (names, types, misplaced aggregates).
    """
    written = select
    select, correlated = decorrelate(statement, select, sources, env)
    nested = Subqueries(statement, env)
    source, scope, conditions = _rows(statement, select, sources, [*correlated, *cuts], nested, env)
    source, scope = _restricted(source, scope, conditions)
    nodes = grouping(select, scope)
    aggregated = any(is_aggregate(part) for p in _shown(select) for part in parts_of(p))
    grouped = [scalar(node, scope) for node in nodes] if scope.kept is not None else []
    if scope.kept is not None and (not (nodes or aggregated) or _hold_unit(grouped, source)):
        raise scope.kept
    if not nodes and not aggregated and select.args.get("group") is None:
        if not env.top and any(isinstance(window.this, exp.Ntile) for window in windows_of(select)):
            found, joined = with_groups_cut(statement, written, source, scope)
            if joined:
                return private_select(statement, found, sources, env, joined)
            select, scope = with_tiles(statement, select, written, scope)
        return _row_level(statement, select, source, scope, env)
    check_no_unnest(select)
    keys = group_keys(nodes, scope.of_keys())
    if _hold_unit([key.scalar for key in keys], source):
        if env.top:
            raise rows_of_people(Private(source, select, _grouped_by_unit(select, keys, source)), select)
        if select.args.get("group") is None and not aggregated:
            return _distinct(statement, select, source, scope)
        return unit_groups(statement, select, source, scope, keys)
    return release(statement, select, source, scope, keys, env)


def _shown(select: exp.Select) -> list[exp.Expression]:
    """Aggregates that make a SELECT an aggregating one."""
    having, order = select.args.get("having"), select.args.get("order")
    return [*select.expressions, *([having] if having is not None else []), *([order] if order is not None else [])]


def _grouped_by_unit(select: exp.Select, keys: list[GroupKey], source: Relation) -> exp.Expression | None:
    group = select.args.get("group")
    if group is None:
        return None
    at = next((i for i, key in enumerate(keys) if _hold_unit([key.scalar], source)), 0)
    found: exp.Expression = group.expressions[at] if at < len(group.expressions) else select
    return found


def _hold_unit(keys: Sequence[Scalar], source: Relation) -> bool:
    """True if grouping expressions hold the unit, or a private key of its rows, on a side that is always there (rule 2)."""
    unit = source.unit.column if source.unit is not None else None
    return bool(held_together(keys)) or any(unit is not None and key.tree == unit.tree for key in keys)


# --- rows ---------------------------------------------------------------------------------------------------------


def _rows(
    statement: Statement,
    select: exp.Select,
    sources: dict[int, Source],
    correlated: list[Correlated],
    nested: Subqueries,
    env: Env,
) -> tuple[Relation, Scope, list[Scalar]]:
    """FROM and WHERE: the joined relation, its scope, and the conditions that are left."""
    joined = from_clause(statement, select, sources, nested, env.outer)
    aliases = aliases_of(select)
    nodes = [*where_parts(select), *joined.filters]
    late = [n for n in nodes if _reads_any(n, correlated)]
    scope = parts_scope(joined.parts, joined.merged, nested, env.outer)
    scope.aliases = aliases
    conditions = [_condition(n, scope) for n in nodes if n not in late]
    clause = (
        "WHERE"
        if any(join.args.get("using") or join.args.get("method") for join in select.args.get("joins") or ())
        else "ON"
    )
    source, rest = connect(joined.parts, [*joined.conditions, *conditions], span_of(select.args["from_"]), clause)
    for one in correlated:
        source = _with_subquery(statement, source, one, joined.merged, nested, env)
    kept = joined.kept
    if kept is not None:
        kept = kept_by(statement, source, [*joined.later, *conditions], bool(late), kept)
    scope = joined_scope(source, joined.merged, nested, env.outer, sources.values())
    scope.aliases, scope.kept = aliases, kept
    scope.hidden = frozenset(one.name.lower() for one in correlated)
    return source, scope, [*rest, *(_condition(n, scope) for n in late)]


def _reads_any(node: exp.Expression, correlated: list[Correlated]) -> bool:
    names = {one.name for one in correlated}
    return any(isinstance(part, exp.Column) and part.table in names for part in node.walk())


def _condition(node: exp.Expression, scope: Scope) -> Scalar:
    """One AND part of WHERE, where an alias of the SELECT list may stand for its expression if no column has that name."""
    nested = next((p for p in parts_of(node) if is_aggregate(p)), None)
    if nested is not None:
        raise error(109, "WHERE cannot use an aggregate", hint="write it in HAVING", span=span_of(nested))
    return truth(scalar(node, scope))


def _with_subquery(
    statement: Statement, source: Relation, one: Correlated, merged: dict[str, list[str]], nested: Subqueries, env: Env
) -> Relation:
    """A correlated subquery as what it stands for: a LEFT JOIN on its keys, which are unique there."""
    right = relation(statement, Source(one.select, one.name, query=statement.query(one.select, env.inside(None))))
    scope = joined_scope(source, merged, nested, env.outer)
    keys = right.columns[: len(one.outer)]
    conditions = [compare("=", scalar(node, scope), key.scalar) for node, key in zip(one.outer, keys, strict=True)]
    equalities = equalities_between(source, right, conditions)
    if len(equalities) < len(conditions) or not can_join(source, right, equalities):
        raise error(
            402,
            "the subquery's condition cannot be made a join on its group keys",
            hint="join it in FROM, grouped by what it is compared with",
            span=span_of(one.node),
        )
    return left_join(source, right, equalities)


def _restricted(source: Relation, scope: Scope, conditions: list[Scalar]) -> tuple[Relation, Scope]:
    if not conditions:
        return source, scope
    found = conjunction(conditions)
    kept = filtered(source, found)
    return kept, scope.narrowed(kept.where)


# --- private results ----------------------------------------------------------------------------------------------


def _row_level(statement: Statement, select: exp.Select, source: Relation, scope: Scope, env: Env) -> Query:
    """The rows themselves, through the SELECT list; windows within a unit are computed first."""
    if env.top:
        note = ruled_out(statement, source, Listed(()))
        if note is not None:
            return rows_of_nobody(statement, note, _columns(select, scope))
        alike = one_of_equal_rows(select, source, scope)
        if alike is None:
            raise shown_row_by_row(select, source, scope)
        return release(statement, alike, source, scope, group_keys(grouping(alike, scope), scope.of_keys()), env)
    _refuse_limit(select)
    if unnests(select):
        source, scope = with_elements(statement, select, source, scope)
    elif has_windows(select):
        source, scope = unit_windows(statement, select, source, scope)
    having = select.args.get("having")
    if having is not None:
        raise error(109, "HAVING needs an aggregate", hint="write the condition in WHERE", span=span_of(having))
    columns = _columns(select, scope)
    qualify = select.args.get("qualify")
    if qualify is not None:
        source = filtered(source, truth(scalar(qualify.this, scope)))
    shown = projected(source, columns)
    if select.args.get("distinct") is not None:
        shown = statement.distinct(shown, select)
    return Private(shown, select)


def _distinct(statement: Statement, select: exp.Select, source: Relation, scope: Scope) -> Private:
    _refuse_limit(select)
    shown = projected(source, _columns(select, scope))
    return Private(statement.distinct(shown, select), select, select.expressions[0])


def _refuse_limit(select: exp.Expression) -> None:
    """ORDER BY alone changes nothing in a subquery; LIMIT would let other people's rows decide which of one's own stay."""
    for part in ("limit", "offset"):
        value = select.args.get(part)
        if value is not None:
            raise error(
                402,
                f"{part.upper()} on rows of people would let one person's rows push out another's",
                hint="aggregate first, then order and limit the groups",
                span=span_of(value) or span_of(select),
            )


def _columns(select: exp.Select, scope: Scope) -> tuple[Named, ...]:
    """The SELECT list as columns; `*` stands for all that FROM shows."""
    found: list[Named] = []
    for projection in select.expressions:
        node = projection.this if isinstance(projection, exp.Alias) else projection
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            found += _star(node, scope)
        else:
            found.append(Named("", projection.alias_or_name or f"column{len(found)}", scalar(node, scope)))
    return tuple(found)


def _star(node: exp.Expression, scope: Scope) -> list[Named]:
    table = node.table.lower() if isinstance(node, exp.Column) else ""
    if any(node.args.get(part) for part in ("except_", "except", "replace", "rename")):
        raise error(102, "* with EXCLUDE or REPLACE is not supported", hint="name the columns", span=span_of(node))
    shown: list[Named] = []
    merged: set[str] = set()
    for column in scope.names:
        name = column.name.lower()
        own = column.source.lower() in scope.hidden or name.startswith(RESERVED)
        if own or (table and column.source.lower() != table):
            continue
        if name in scope.merged and not table:
            if name not in merged:
                shown.append(Named(column.source, column.name, scope.merged[name]))
            merged.add(name)
        else:
            shown.append(column)
    if not shown:
        raise error(105, f"there is no table {table!r} in this statement", hint="name one of FROM", span=span_of(node))
    return [replace(c, scalar=scope.adjusted(c.scalar)) for c in shown]
