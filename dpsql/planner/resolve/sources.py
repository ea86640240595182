"""FROM: tables, WITH queries, subqueries and joins -> the relations that a private block reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.expressions.conditional import coalesce
from dpsql.expressions.logic import compare
from dpsql.expressions.scalar import Scalar
from dpsql.planner.resolve.connect import can_join, connect, equalities_between, not_joined
from dpsql.planner.resolve.free import CATALOG, CATALOG_TABLES, no_table
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Nested, Scope, scope_of
from dpsql.planner.resolve.statement import Cte, Env, Private, Public, Statement
from dpsql.planner.resolve.syntax import flat_conjuncts, is_query, parts_of
from dpsql.relations import joins
from dpsql.relations.relations import Relation, bare, derived, distinct_names, public_scan, renamed, scan
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
    """What an item of FROM reads, for the one place that reads it. Raises 105 for a name that is neither declared nor a WITH query."""
    seen = statement.glanced.pop((id(node), id(env.ctes)), None)
    if seen is not None:
        assert isinstance(seen[-1], Source)
        return seen[-1]
    return _resolved(statement, node, env)


def glance(statement: Statement, node: exp.Expression, env: Env) -> Source:
    """The same, kept for whoever reads it afterwards: a query that is looked at on every level is resolved once on each."""
    found = source(statement, node, env)
    statement.glanced[id(node), id(env.ctes)] = (node, env.ctes, found)
    return found


def _resolved(statement: Statement, node: exp.Expression, env: Env) -> Source:
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
    """What a source's columns can be called, in lower case."""
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
    """What a WITH query gives: a public one once for all, people's rows anew for each place, under table names of its own."""
    if cte.public is not None:
        return cte.public
    found = statement.query(cte.node.copy(), cte.env)
    if isinstance(found, Public):
        cte.public = found
    return found


def check_tables(tree: exp.Expression, schema: Schema) -> None:
    """Raise 105 for a table that is neither declared nor a WITH query of the statement, nor of the catalog or of what was spent."""
    queries = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for node in tree.find_all(exp.Table):
        declared = node.db.lower() in ("", MAIN) and schema.table(node.name) is not None
        known = declared or (not node.db and node.name.lower() in queries)
        catalog = node.db.lower() == CATALOG and node.name.lower() in CATALOG_TABLES
        if node.catalog or not (known or catalog or spent.is_one(node.db, node.name)):
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


# --- relations ----------------------------------------------------------------------------------------------------


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


@dataclass(slots=True)
class Joined:
    """The relations of FROM, as far as they are joined already, and the conditions that are to join the rest.

    merged     columns that USING and NATURAL made one: for each name the sources that have it
    filters    EXISTS conditions that SEMI and ANTI joins stand for, as syntax
    """

    parts: list[Relation] = field(default_factory=list)
    conditions: list[Scalar] = field(default_factory=list)
    merged: dict[str, list[str]] = field(default_factory=dict)
    filters: list[exp.Expression] = field(default_factory=list)


def from_clause(
    statement: Statement, select: exp.Select, sources: dict[int, Source], nested: Nested, outer: Scope | None
) -> Joined:
    """The relations of a private FROM: outer joins done, the others waiting for WHERE.

    sources  by the id of the item's node

    Raises 402 for joins that lose or multiply people, with the condition to add.
    """
    clause = select.args["from_"]
    done = Joined()
    group = Joined(parts=[relation(statement, sources[id(clause.this)])])
    for join in select.args.get("joins") or ():
        if _is_comma(join):
            _flush(done, group)
            group = Joined(parts=[relation(statement, sources[id(join.this)])])
        elif (join.kind or "").upper() in ("SEMI", "ANTI"):
            group.filters.append(_existence(join))
        else:
            _add(statement, group, join, relation(statement, sources[id(join.this)]), nested, outer)
    _flush(done, group)
    return done


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(part) for part in ("on", "using", "side", "kind", "method"))


def _flush(done: Joined, group: Joined) -> None:
    done.parts += group.parts
    done.conditions += group.conditions
    done.merged |= group.merged
    done.filters += group.filters


def _existence(join: exp.Join) -> exp.Expression:
    """`a SEMI JOIN b ON c` keeps the rows of a for which EXISTS (SELECT 1 FROM b WHERE c); ANTI those for which not."""
    on = join.args.get("on")
    if on is None:
        raise error(402, "a SEMI or ANTI join needs ON", hint="write ON a.key = b.key", span=span_of(join))
    inner = exp.Select(expressions=[exp.Literal.number(1)])
    inner.set("from_", exp.From(this=join.this))
    inner.set("where", exp.Where(this=on.copy()))
    found: exp.Expression = exp.Exists(this=inner)
    return exp.Not(this=found) if (join.kind or "").upper() == "ANTI" else found


def _add(
    statement: Statement, group: Joined, join: exp.Join, right: Relation, nested: Nested, outer: Scope | None
) -> None:
    if (join.args.get("method") or "").upper() not in ("", "NATURAL"):
        raise error(
            402,
            f"{join.args['method'].upper()} joins cannot be answered",
            hint="write JOIN ... ON a.key = b.key",
            span=span_of(join),
        )
    side = (join.side or "").upper()
    if side:
        _outer(statement, group, join, right, side, nested, outer)
        return
    group.conditions += _on(group, join, [*group.parts, right], right, nested, outer)
    group.parts.append(right)


def _on(
    group: Joined,
    join: exp.Join,
    parts: list[Relation],
    right: Relation,
    nested: Nested | None,
    outer: Scope | None,
) -> list[Scalar]:
    """The AND parts of ON, or the equalities that USING and NATURAL stand for."""
    shared = _shared(group, join, right)
    if shared is not None:
        return [compare("=", mine, theirs) for mine, theirs in shared]
    on = join.args.get("on")
    if on is None:
        return []
    scope = parts_scope(parts, group.merged, nested, outer)
    return [_as_equality(scalar(node, scope)) for node in flat_conjuncts(on)]


def _as_equality(condition: Scalar) -> Scalar:
    """a IS NOT DISTINCT FROM b as a = b where one of them is never NULL: ON is true of the same rows."""
    if condition.function == "is not distinct from" and not all(side.nullable for side in condition.args):
        return compare("=", *condition.args)
    return condition


def _shared(group: Joined, join: exp.Join, right: Relation) -> list[tuple[Scalar, Scalar]] | None:
    """The columns of USING or NATURAL on both sides, noted as merged."""
    if join.args.get("using"):
        names = [node.name for node in join.args["using"]]
    elif (join.args.get("method") or "").upper() == "NATURAL":
        mine = {c.name.lower() for part in group.parts for c in part.columns}
        names = [c.name for c in right.columns if c.name.lower() in mine]
        if not names:
            raise error(
                402, "NATURAL JOIN finds no column of the same name on both sides", hint="write ON", span=span_of(join)
            )
    else:
        return None
    shared = [(_left_column(group, name), _named(right, name)) for name in names]
    for name in names:
        first = next(c.source for part in group.parts for c in part.columns if c.name.lower() == name.lower())
        group.merged.setdefault(name.lower(), [first.lower()]).append(right.columns[0].source.lower())
    return shared


def _left_column(group: Joined, name: str) -> Scalar:
    sources = group.merged.get(name.lower())
    if sources is not None:
        places = {(c.source.lower(), c.name.lower()): c.scalar for part in group.parts for c in part.columns}
        return _merged(places, name.lower(), sources)
    return next((_named(part, name) for part in group.parts if _has(part, name)), None) or _named(group.parts[0], name)


def _has(relation: Relation, name: str) -> bool:
    return any(c.name.lower() == name.lower() for c in relation.columns)


def _named(relation: Relation, name: str) -> Scalar:
    found = [c.scalar for c in relation.columns if c.name.lower() == name.lower()]
    if not found:
        where = " or ".join(relation.sources())
        raise error(105, f"there is no column {name!r} in {where}", hint="write ON, or name a column of both sides")
    return found[0]


def _outer(
    statement: Statement,
    group: Joined,
    join: exp.Join,
    right: Relation,
    side: str,
    nested: Nested,
    outer: Scope | None,
) -> None:
    """LEFT, RIGHT and FULL joins: the sides as they stand, joined at once."""
    span = span_of(join.this)
    if len(group.parts) > 1 and not any(part.is_private for part in group.parts):
        raise error(
            402,
            "an outer join of people's rows starts with their table",
            hint="write the people's table first: people LEFT JOIN public table",
            span=span,
        )
    left, rest = (
        connect(group.parts, group.conditions, span) if len(group.parts) > 1 else (group.parts[0], group.conditions)
    )
    left = replace(left, where=(*left.where, *rest), predicates=(*left.predicates, *rest))
    kept_left, kept_right = side in ("LEFT", "FULL"), side in ("RIGHT", "FULL")
    if (kept_left and not left.is_private) or (kept_right and not right.is_private):
        raise error(
            402,
            f"this {side} JOIN would make rows that belong to nobody",
            hint="keep the side with people's rows: people LEFT JOIN public table",
            span=span,
        )
    if kept_right:
        left = left if bare(left) else derived(left, statement.alias("side"))
    if kept_left:
        right = right if bare(right) else derived(right, statement.alias("side"))
    group.parts = [left]
    conditions = _on(group, join, [left, right], right, None, outer)
    first, second = (right, left) if side == "RIGHT" else (left, right)
    equalities = equalities_between(first, second, conditions)
    if not can_join(first, second, equalities):
        raise not_joined(first, second, span)
    equated = {frozenset({e.left.tree, e.right.tree}) for e in equalities}
    residual = [c for c in conditions if frozenset(a.tree for a in c.args) not in equated or c.function != "="]
    joined = joins.full_join if side == "FULL" else joins.left_join
    group.parts, group.conditions = [joined(first, second, equalities, residual)], []
    if side == "RIGHT":
        for sources in group.merged.values():
            if sources[-1] in {s.lower() for s in right.sources()}:
                sources.insert(0, sources.pop())
    if side == "FULL":
        group.merged = {name: found if found[0] == "" else ["", *found] for name, found in group.merged.items()}


# --- scopes -------------------------------------------------------------------------------------------------------


def parts_scope(
    parts: list[Relation], merged: dict[str, list[str]], nested: Nested | None, outer: Scope | None
) -> Scope:
    """The scope of relations that stand beside each other."""
    columns = [c for part in parts for c in part.columns]
    places = {(c.source.lower(), c.name.lower()): c.scalar for c in columns}
    private = any(part.is_private for part in parts)
    found = Scope(places, private=private, outer=outer, nested=nested, names=tuple(columns))
    found.merged = {name: _merged(places, name, sources) for name, sources in merged.items()}
    return found


def joined_scope(
    joined: Relation, merged: dict[str, list[str]], nested: Nested, outer: Scope | None, sources: Iterable[Source] = ()
) -> Scope:
    """The scope of a whole FROM clause; `*` shows its sources in the order in which they were written."""
    found = scope_of(joined, nested, outer)
    places = {s.name.lower(): i for i, s in enumerate(sources)}
    found.names = tuple(sorted(found.names, key=lambda c: places.get(c.source.lower(), len(places))))
    found.merged = {name: _merged(found.columns, name, sources) for name, sources in merged.items()}
    return found


def _merged(places: dict[tuple[str, str], Scalar], name: str, sources: list[str]) -> Scalar:
    """USING's one column: the kept side's, and of a FULL join the one that is there."""
    if sources[0] == "":
        return coalesce([places[source, name] for source in sources[1:]])
    return places[sources[0], name]
