"""LATERAL subqueries -> joins on what they equate with the tables before them.

    FROM p, LATERAL (SELECT a FROM r WHERE r.k = p.k AND rest ORDER BY b LIMIT n) AS l

has for each row of p the first n rows of its own k: those with `k = p.k` of

    SELECT a, k FROM (SELECT a, k, b FROM r WHERE rest) QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY b) <= n

One aggregate of such rows is there for every row of p, COUNT of none being 0: a LEFT JOIN of r GROUP BY k.

Why  what is written so is resolved like any query: a window that is not over one unit's rows is refused, and so is a join that does not
     equate units; the rows that one unit may have come of both (rules 1, 5, 10)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.planner.grammar import is_aggregate
from dpsql.planner.resolve.correlated import HIDDEN_KEY, Names, linked, side_of, value_of
from dpsql.planner.resolve.sources import glance, items, shown_names
from dpsql.planner.resolve.statement import Env, Statement
from dpsql.planner.resolve.syntax import all_of, flat_conjuncts, output_name, parts_of, replaced, unaliased, where_parts
from dpsql.planner.resolve.unit_windows import HINT
from dpsql.planner.walks import every
from dpsql.schema.model import RESERVED

_HIDDEN_ORDER, _ROWS = f"{RESERVED}o", f"{RESERVED}rows"
Link = tuple[exp.Expression, exp.Expression]
"""An expression of the subquery, and what it equals before it."""


def with_laterals(statement: Statement, select: exp.Select, env: Env) -> exp.Select:
    """The SELECT with LATERAL before each subquery of FROM that names, with its table, a column of what stands before it. Where all of
    this is public it is the engine's."""
    nodes, joins = list(items(select)), list(select.args.get("joins") or ())
    for place, join in enumerate(joins, 1):
        node, before = join.this, {one.alias_or_name.lower() for one in nodes[:place]}
        named = isinstance(node, exp.Subquery) and not before.isdisjoint(_named_outside(node))
        if named and not _are_public(statement, nodes[: place + 1], env):
            lateral = exp.Lateral(this=exp.Subquery(this=node.this), alias=node.args.get("alias"))
            joins[place - 1] = exp.Join(**{**join.args, "this": lateral})
    if all(one is other for one, other in zip(joins, select.args.get("joins") or (), strict=True)):
        return select
    found = exp.Select(**{**select.args, "joins": joins})
    found.meta.update(select.meta)
    return found


def _are_public(statement: Statement, nodes: list[exp.Expression], env: Env) -> bool:
    try:
        return not any(glance(statement, node, env).is_private for node in nodes)
    except Error:
        # people's rows that name what stands outside of their query
        return False


def _named_outside(node: exp.Subquery) -> set[str]:
    """The tables, in lower case, of columns inside a subquery that are not of its own FROM, or of one further inside."""
    own = {source.alias_or_name.lower() for source in every(node.this, exp.Table, exp.Subquery, exp.Lateral)}
    return {column.table.lower() for column in every(node.this, exp.Column) if column.table} - own


def without_laterals(statement: Statement, select: exp.Select, env: Env) -> exp.Select:
    """A SELECT with joins in place of its LATERAL subqueries. Raises 102, 106, 402 for what is no such join."""
    written = _Joins(statement, env)
    clause = select.args["from_"]
    if isinstance(clause.this, exp.Lateral):
        clause = exp.From(this=_named(clause.this, clause.this.this.this))
    written.see(clause.this)
    for join in select.args.get("joins") or ():
        written.add(join)
    if any(_stars(p) for p in select.expressions) and (written.values or not written.private):
        hint = "name the columns that are to be shown"
        raise error(102, "* beside a LATERAL subquery is not supported", hint=hint, span=span_of(select.expressions[0]))
    made = exp.Select(**{**select.args, "from_": clause, "joins": written.joins})
    if written.conditions:
        made.set("where", exp.Where(this=all_of([*where_parts(select), *written.conditions])))
    found = _with_values(made, written)
    found.meta.update(select.meta)
    return found


@dataclass(slots=True)
class _Joins:
    """The joins of a SELECT, written out one by one.

    names       the sources so far, and their columns
    conditions  what WHERE takes over
    values      what the columns of aggregates stand for, by source and name, in lower case
    private     whether there are people's rows before the first LATERAL
    """

    statement: Statement
    env: Env
    names: Names = field(default_factory=list)
    joins: list[exp.Join] = field(default_factory=list)
    conditions: list[exp.Expression] = field(default_factory=list)
    values: dict[tuple[str, str], exp.Expression] = field(default_factory=dict)
    private: bool = False

    def see(self, node: exp.Expression) -> None:
        found = glance(self.statement, node, self.env)
        self.names.append((found.name.lower(), shown_names(self.statement, found)))
        self.private = self.private or found.is_private

    def add(self, join: exp.Join) -> None:
        node = join.this
        if not isinstance(node, exp.Lateral):
            self.joins.append(join)
            self.see(node)
            return
        if join.args.get("using") or join.args.get("method") or (join.side or "").upper() not in ("", "LEFT"):
            raise _refused(join, "this join of a LATERAL subquery is not supported", "write JOIN LATERAL (...) ON TRUE")
        inner = node.this.this
        links, rest = self._parted(inner) if isinstance(inner, exp.Select) else ([], [])
        if not links:
            plain = _named(node, inner)
            self.joins.append(exp.Join(**{**join.args, "this": plain}))
            self.see(plain)
        elif inner.args.get("group") is None and any(map(_aggregates, inner.expressions)):
            self._aggregated(join, inner, links, rest)
        else:
            self._rows(join, inner, links, rest)

    def _parted(self, inner: exp.Select) -> tuple[list[Link], list[exp.Expression]]:
        """The equalities of a subquery with what stands before it, and its other conditions."""
        if inner.args.get("with_") is not None:
            raise _refused(inner, "WITH in a LATERAL subquery is not supported", "write it before the statement")
        sources = [glance(self.statement, n, self.env) for n in items(inner)]
        names = [(s.name.lower(), shown_names(self.statement, s)) for s in sources]
        for part in _clauses(inner):
            if isinstance(part, exp.Column) and side_of(part, names, self.names) == "outer":
                what = "a LATERAL subquery can name what stands before it in its WHERE alone"
                raise _refused(part, what, "compute it in the SELECT list around it")
        return linked(where_parts(inner), names, self.names)

    def _rows(self, join: exp.Join, inner: exp.Select, links: list[Link], rest: list[exp.Expression]) -> None:
        """The subquery with its keys as further columns, joined on them."""
        subquery = _named(join.this, _first_rows(inner, [mine for mine, _ in links], rest))
        self.see(subquery)
        equal, kept = _equal(subquery.alias, links), _kept(join)
        if join.side:
            self.joins.append(exp.Join(this=subquery, side="LEFT", on=all_of([*equal, *kept])))
        else:
            self.joins.append(exp.Join(this=subquery))
            self.conditions += [*equal, *kept]

    def _aggregated(self, join: exp.Join, inner: exp.Select, links: list[Link], rest: list[exp.Expression]) -> None:
        """The groups of the subquery's keys, kept beside every row."""
        kept = _kept(join)
        if any(inner.args.get(part) for part in ("having", "qualify", "limit", "offset")) or (kept and join.side):
            what = "HAVING, LIMIT and LEFT JOIN ... ON beside one aggregate in LATERAL are not supported"
            raise _refused(join, what, "leave them out: there is one row")
        shown = _named(join.this, inner)
        grouped = exp.Select(expressions=_keys([mine for mine, _ in links]), joins=inner.args.get("joins"))
        grouped.set("from_", inner.args["from_"])
        grouped.set("group", exp.Group(expressions=[mine.copy() for mine, _ in links]))
        if rest:
            grouped.set("where", exp.Where(this=all_of(rest)))
        listed = shown.args["alias"].args.get("columns") or ()
        names = [*(c.name for c in listed), *map(output_name, inner.expressions[len(listed) :])]
        for name, projection in zip(names, inner.expressions, strict=False):
            self.values[shown.alias.lower(), name.lower()] = value_of(projection, grouped, shown.alias)
        made = exp.Subquery(this=grouped, alias=_alias(shown.alias))
        self.joins = [
            *map(_beside, self.joins),
            exp.Join(this=made, side="LEFT", on=all_of(_equal(shown.alias, links))),
        ]
        self.conditions += kept
        self.names.append((shown.alias.lower(), {name.lower() for name in names}))


def _first_rows(inner: exp.Select, keys: list[exp.Expression], rest: list[exp.Expression]) -> exp.Select:
    """The rows of a subquery for every value of its keys, and of each value no more than its LIMIT lets through."""
    found = _keyed(inner, keys, rest)
    skipped, most = (_number(inner.args.get(part)) for part in ("offset", "limit"))
    if skipped is None and most is None:
        return found
    clause, starred = inner.args.get("order"), any(map(_stars, inner.expressions))
    by = [_ordering(ordered, inner) for ordered in (clause.expressions if clause is not None else ())]
    if inner.args.get("distinct") is not None and by:
        raise _refused(inner, "DISTINCT with ORDER BY and LIMIT in LATERAL is not supported", "write GROUP BY instead")
    hidden = [_aliased(o.this, f"{_HIDDEN_ORDER}{i}") for i, o in enumerate(by)]
    found.set("expressions", [*found.expressions, *hidden])
    first = exp.Select(
        expressions=[
            *([exp.Star()] if starred else [_column(_ROWS, output_name(p)) for p in inner.expressions]),
            *(_column(_ROWS, f"{HIDDEN_KEY}{i}") for i in range(len(keys))),
        ]
    )
    first.set("from_", exp.From(this=exp.Subquery(this=found, alias=_alias(_ROWS))))
    ordered = [exp.Ordered(**{**o.args, "this": _column(_ROWS, f"{_HIDDEN_ORDER}{i}")}) for i, o in enumerate(by)]
    numbers = [_row_number(inner, len(keys), ordered) for _ in range(2)]
    kept: list[exp.Expression] = []
    if skipped is not None:
        kept.append(exp.GT(this=numbers[0], expression=exp.Literal.number(skipped)))
    if most is not None:
        kept.append(exp.LTE(this=numbers[1], expression=exp.Literal.number((skipped or 0) + most)))
    first.set("qualify", exp.Qualify(this=all_of(kept)))
    return first


def _keyed(inner: exp.Select, keys: list[exp.Expression], rest: list[exp.Expression]) -> exp.Select:
    """The subquery for all values of its keys at once: they stand among its columns, and part its groups and windows."""

    def parted(window: exp.Window) -> exp.Expression:
        by = [*(window.args.get("partition_by") or ()), *(key.copy() for key in keys)]
        return exp.Window(**{**window.args, "partition_by": by})

    windows = [part for part in _clauses(inner) if isinstance(part, exp.Window)]
    changed = replaced(inner, {id(window): parted(window) for window in windows})
    clauses = {name: part for name, part in changed.args.items() if name not in ("order", "limit", "offset", "where")}
    found = exp.Select(**{**clauses, "expressions": [*changed.expressions, *_keys(keys)]})
    if rest:
        found.set("where", exp.Where(this=all_of(rest)))
    group = inner.args.get("group")
    if group is not None and not group.args.get("all"):
        if any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets")):
            raise _refused(group, "ROLLUP, CUBE and GROUPING SETS in LATERAL are not supported", "write GROUP BY alone")
        found.set("group", exp.Group(expressions=[*group.expressions, *(key.copy() for key in keys)]))
    return found


def _row_number(inner: exp.Select, keys: int, order: list[exp.Ordered]) -> exp.Window:
    """The number of a row among those of its keys' values."""
    found = exp.Window(this=exp.RowNumber(), partition_by=[_column(_ROWS, f"{HIDDEN_KEY}{i}") for i in range(keys)])
    if order:
        found.set("order", exp.Order(expressions=[one.copy() for one in order]))
    found.meta[HINT] = "compare the privacy unit of both in WHERE: inner.unit = outer.unit"
    span = span_of(inner)
    if span is not None:
        found.meta.update(start=span.start, end=span.end - 1)
    return found


def _ordering(ordered: exp.Ordered, inner: exp.Select) -> exp.Ordered:
    """One part of ORDER BY, with the expression in place of its position or alias."""
    node, shown = ordered.this, inner.expressions
    found = node
    if isinstance(node, exp.Literal) and node.name.isdigit() and 1 <= int(node.name) <= len(shown):
        found = unaliased(shown[int(node.name) - 1])
    elif isinstance(node, exp.Column) and not node.table:
        aliases = (p.this for p in shown if isinstance(p, exp.Alias) and p.alias.lower() == node.name.lower())
        found = next(aliases, node)
    return exp.Ordered(**{**ordered.args, "this": found.copy()})


def _number(clause: exp.Expression | None) -> int | None:
    """The number of LIMIT or OFFSET. Raises 106 where it is none."""
    if clause is None:
        return None
    if not (isinstance(clause.expression, exp.Literal) and clause.expression.name.isdigit()):
        raise error(106, "LIMIT in LATERAL needs a constant", hint="write a number", span=span_of(clause))
    return int(clause.expression.name)


def _with_values(select: exp.Select, written: _Joins) -> exp.Select:
    """The SELECT with the values of aggregates in place of the columns that name them."""
    values: dict[int, exp.Expression] = {}
    for column in (part for part in _clauses(select, ("where",)) if isinstance(part, exp.Column)):
        name = column.name.lower()
        sources = [s for s, names in written.names if name in names and column.table.lower() in ("", s)]
        value = written.values.get((sources[0], name)) if len(sources) == 1 else None
        if value is not None:
            shown = isinstance(column.parent, exp.Select)
            values[id(column)] = _aliased(value.copy(), column.name) if shown else value.copy()
    found = replaced(select, values)
    assert isinstance(found, exp.Select)
    return found


def _clauses(select: exp.Select, also: tuple[str, ...] = ()) -> Iterator[exp.Expression]:
    """The parts of a SELECT's clauses, without FROM, and without WHERE where it is not named in `also`."""
    for name, clause in select.args.items():
        if name in ("from_", "joins", "with_") or (name == "where" and name not in also):
            continue
        for node in clause if isinstance(clause, list) else [clause]:
            if isinstance(node, exp.Expression):
                yield from parts_of(node)


def _kept(join: exp.Join) -> list[exp.Expression]:
    """The conditions of ON, without TRUE."""
    on = join.args.get("on")
    parts = flat_conjuncts(on) if on is not None else []
    return [part for part in parts if not (isinstance(part, exp.Boolean) and part.this)]


def _beside(join: exp.Join) -> exp.Join:
    """A join that an outer join behind it can follow: a comma would part the two."""
    plain = not any(join.args.get(part) for part in ("on", "using", "side", "kind", "method"))
    return exp.Join(this=join.this, kind="CROSS") if plain else join


def _named(node: exp.Lateral, inner: exp.Expression) -> exp.Subquery:
    """A subquery under the name and the column names of a LATERAL one."""
    alias = node.args.get("alias")
    return exp.Subquery(this=inner, alias=alias.copy() if alias is not None else _alias(f"{RESERVED}lateral"))


def _equal(source: str, links: list[Link]) -> list[exp.Expression]:
    return [
        exp.EQ(this=_column(source, f"{HIDDEN_KEY}{i}"), expression=theirs.copy())
        for i, (_, theirs) in enumerate(links)
    ]


def _keys(keys: list[exp.Expression]) -> list[exp.Expression]:
    return [_aliased(key.copy(), f"{HIDDEN_KEY}{i}") for i, key in enumerate(keys)]


def _column(source: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(source, quoted=True))


def _aliased(node: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name, quoted=True))


def _aggregates(node: exp.Expression) -> bool:
    return any(map(is_aggregate, parts_of(node)))


def _stars(node: exp.Expression) -> bool:
    return any(isinstance(part, exp.Star) and not isinstance(part.parent, exp.Count) for part in parts_of(node))


def _refused(node: exp.Expression, what: str, hint: str) -> Error:
    return error(402, what, hint=hint, span=span_of(node))
