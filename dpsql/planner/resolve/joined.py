"""The joins of FROM, the order in which they connect what they join, and its scopes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import Span, span_of
from dpsql.expressions.conditional import coalesce
from dpsql.expressions.conversion import unconverted
from dpsql.expressions.logic import compare
from dpsql.expressions.scalar import Scalar
from dpsql.planner.resolve.implied import implied
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Nested, Scope, scope_of
from dpsql.planner.resolve.sources import Source, relation
from dpsql.planner.resolve.statement import Statement
from dpsql.planner.resolve.syntax import flat_conjuncts
from dpsql.relations import joins
from dpsql.relations.joins import Equality, equates_units, inner_join, meets_few, public_equality
from dpsql.relations.periods import narrowed
from dpsql.relations.relations import Relation, bare, derived
from dpsql.sql.nodes import Node


def connect(
    parts: Sequence[Relation], conditions: Sequence[Scalar], span: Span | None = None, clause: str = "ON"
) -> tuple[Relation, list[Scalar]]:
    """All parts joined, starting from the first private one where there is any; and the conditions that the joins do not already hold.

    clause  in which the hint has a condition written: USING and NATURAL leave no room for ON

    Raises 402 with the condition to add where a part shares no key with the others.
    """
    parts = narrowed(parts, conditions) if any(part.has_periods for part in parts) else parts
    start = next((i for i, part in enumerate(parts) if part.is_private), 0)
    joined, waiting = parts[start], [part for i, part in enumerate(parts) if i != start]
    waiting.sort(
        key=lambda part: part.written is not None
    )  # all that a row has is told before its written rows are counted
    known = [*conditions, *(common for c in conditions for common in _common(c))]
    used: set[Node] = set()
    while waiting:
        waiting = [told(joined, part, known) for part in waiting]
        part = next((p for p in waiting if can_join(joined, p, equalities_between(joined, p, known))), None)
        if part is None and (more := implied(known)):
            known += more
            continue
        if part is None:
            from dpsql.planner.resolve.not_joined import not_joined

            raise not_joined(joined, waiting[0], span, clause)
        equalities = equalities_between(joined, part, known)
        used |= {c.tree for c in known if _is_one_of(c, equalities)}
        # of rows that the statement writes out the conditions are the join's: the guard sees whom it leaves out
        both = columns_of(joined) | columns_of(part) if part.written is not None else set()
        residual = [c for c in conditions if c.tree not in used and _within(c, both) and not reads_only(c, joined)]
        used |= {c.tree for c in residual}
        joined = inner_join(joined, part, equalities, residual)
        waiting = [other for other in waiting if other is not part]
    return joined, [c for c in conditions if c.tree not in used]


def told(left: Relation, right: Relation, conditions: Sequence[Scalar]) -> Relation:
    """The right, told how many of its rows one of the left can meet where the statement writes them out."""
    if right.written is None:
        return right
    from dpsql.relations.written import meeting

    return meeting(left, right, conditions, [e.right.tree for e in equalities_between(left, right, conditions)])


def can_join(left: Relation, right: Relation, equalities: Sequence[Equality]) -> bool:
    return equates_units(equalities) if right.is_private else meets_few(left, right, equalities)


def equalities_between(left: Relation, right: Relation, conditions: Sequence[Scalar]) -> list[Equality]:
    """The conditions that equate an expression of the left with one of the right, in that order of sides."""
    mine, theirs = columns_of(left), columns_of(right)
    found = []
    for condition in conditions:
        if condition.function != "=":
            continue
        for first, second in (condition.args, condition.args[::-1]):
            one, other = _plain(first), _plain(second)
            if _within(one, mine) and _within(other, theirs):
                equality = Equality(first, second) if right.is_private else public_equality(one, other)
                if equality is not None:
                    found.append(equality)
    return found


def _within(scalar: Scalar, columns: set[Node]) -> bool:
    leaves = {leaf.tree for leaf in scalar.leaves()}
    return bool(leaves) and leaves <= columns


def _plain(scalar: Scalar) -> Scalar:
    """Operand of a comparison before it was converted to the common type; the join decides on its own which side is
    cast."""
    inner = unconverted(scalar)
    return inner if inner.is_column and inner.sqltype.is_integer and scalar.sqltype.is_integer else scalar


def _is_one_of(condition: Scalar, equalities: Sequence[Equality]) -> bool:
    """True if a join holds this very condition; one whose sides were cast anew is kept beside it."""
    sides = [{e.left.tree, e.right.tree} for e in equalities]
    return condition.function == "=" and {a.tree for a in condition.args} in sides


def _common(condition: Scalar) -> list[Scalar]:
    """The AND parts that every branch of an OR has: they hold wherever the OR does."""
    if condition.function != "or":
        return []
    branches = [{p.tree: p for p in (b.args if b.function == "and" else (b,))} for b in condition.args]
    return [p for tree, p in branches[0].items() if all(tree in other for other in branches[1:])]


def columns_of(relation: Relation) -> set[Node]:
    """All columns that expressions over a relation can read."""
    return {leaf.tree for c in relation.columns for leaf in c.scalar.leaves()}


def reads_only(scalar: Scalar, relation: Relation) -> bool:
    return _within(scalar, columns_of(relation))


@dataclass(slots=True)
class Joined:
    """The relations of FROM, as far as they are joined already, and the conditions that are to join the rest.

    merged     columns that USING and NATURAL made one: for each name the sources that have it
    filters    EXISTS conditions that SEMI and ANTI joins stand for, as syntax
    kept       what to raise unless the public rows that an outer join keeps count nowhere; None where none does
    later      conditions of the joins behind it
    """

    parts: list[Relation] = field(default_factory=list)
    conditions: list[Scalar] = field(default_factory=list)
    merged: dict[str, list[str]] = field(default_factory=dict)
    filters: list[exp.Expression] = field(default_factory=list)
    kept: Error | None = None
    later: list[Scalar] = field(default_factory=list)


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
    done.kept = done.kept or group.kept
    done.later += group.later


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
        _outer(statement, group, join, right, side, outer)
        return
    conditions = _on(group, join, [*group.parts, right], right, nested, outer)
    group.conditions += conditions
    group.later += conditions if group.kept is not None else ()
    group.parts.append(right)


def _on(
    group: Joined, join: exp.Join, parts: list[Relation], right: Relation, nested: Nested | None, outer: Scope | None
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
        where = " or ".join(relation.sources()) or "one side of the join"
        raise error(105, f"there is no column {name!r} in {where}", hint="write ON, or name a column of both sides")
    return found[0]


def _outer(
    statement: Statement, group: Joined, join: exp.Join, right: Relation, side: str, outer: Scope | None
) -> None:
    """LEFT, RIGHT and FULL joins: the sides as they stand, joined at once."""
    span = span_of(join.this)
    left, lost = _left_side(group, side, right, span)
    if side in ("RIGHT", "FULL"):
        left = left if bare(left) else derived(left, statement.alias("side"))
    if side in ("LEFT", "FULL"):
        right = right if bare(right) else derived(right, statement.alias("side"))
    if lost is not None:
        _keep_public(group, join, left, right, lost, outer)
    else:
        _meet(group, join, left, right, side, outer)
    if side == "RIGHT":
        for sources in group.merged.values():
            if sources[-1] in {s.lower() for s in right.sources()}:
                sources.insert(0, sources.pop())
    if side == "FULL":
        group.merged = {name: found if found[0] == "" else ["", *found] for name, found in group.merged.items()}


def _meet(group: Joined, join: exp.Join, left: Relation, right: Relation, side: str, outer: Scope | None) -> None:
    group.parts = [left]
    conditions = _on(group, join, [left, right], right, None, outer)
    first, second = (right, left) if side == "RIGHT" else (left, right)
    second = told(first, second, conditions)
    equalities = equalities_between(first, second, conditions)
    if not can_join(first, second, equalities):
        from dpsql.planner.resolve.not_joined import not_joined

        raise not_joined(first, second, span_of(join.this))
    equated = {frozenset({e.left.tree, e.right.tree}) for e in equalities}
    residual = [c for c in conditions if frozenset(a.tree for a in c.args) not in equated or c.function != "="]
    joined = joins.full_join if side == "FULL" else joins.left_join
    group.parts, group.conditions = [joined(first, second, equalities, residual)], []


def _left_side(group: Joined, side: str, right: Relation, span: Span | None) -> tuple[Relation, Error | None]:
    """Relation to the left of an outer join, and what to raise where rows would be made that belong to nobody."""
    private = [any(part.is_private for part in group.parts), right.is_private]
    lost = (side != "RIGHT" and not private[0]) or (side != "LEFT" and not private[1])
    problem = error(
        402,
        f"this {side} JOIN would make rows that belong to nobody",
        hint="count columns of people's tables and not rows, or write JOIN: GROUP BY public columns shows groups without people too",
        span=span,
    )
    if lost and side == "FULL":
        raise problem
    if lost and side == "LEFT":
        return group.parts[0], problem
    many = len(group.parts) > 1
    if many and not private[0]:
        raise error(
            402,
            "an outer join of people's rows starts with their table",
            hint="write the people's table first: people LEFT JOIN public table",
            span=span,
        )
    left, rest = connect(group.parts, group.conditions, span) if many else (group.parts[0], group.conditions)
    left = replace(left, where=(*left.where, *rest), predicates=(*left.predicates, *rest))
    return left, problem if lost else None


def _keep_public(
    group: Joined, join: exp.Join, left: Relation, right: Relation, problem: Error, outer: Scope | None
) -> None:
    """An outer join that keeps public rows, as the inner join: whoever reads it asks whether the two say the same (nobody.py)."""
    before, known = ([left], []) if left.is_private else (group.parts, group.conditions)
    conditions = _on(group, join, [*before, right], right, None, outer)
    public = {column for part in (*before, right) if not part.is_private for column in columns_of(part)}
    if any(all(leaf.tree in public for leaf in c.leaves()) for c in conditions):
        # it would say which public rows meet nobody
        raise problem
    group.parts, group.conditions, group.kept = [*before, right], [*known, *conditions], problem


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
