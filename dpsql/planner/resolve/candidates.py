"""dp_argmax(candidate, SUM(utility)) FROM people, candidates: each candidate's utility written out, and their table left out of FROM.

The candidates are rows of a public table or query, joined without a condition, so that each row of a person meets all of them: they are
read like the lists of group keys, the same on all databases. In their place stands one utility for each, with the candidate's values as
constants, so that a unit's rows stay as many as they are, and what is chosen is told by its place:

    CASE dp_argmax(utility of the first, of the second, ...) WHEN 1 THEN first WHEN 2 THEN second ... END
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal

from sqlglot import exp

from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import DATE, TIME, VARCHAR, SqlType
from dpsql.planner.grammar import is_aggregate
from dpsql.planner.parameters import constant
from dpsql.planner.resolve.sources import Source, column_names, glance, items, shown_names
from dpsql.planner.resolve.statement import Env, Public, Statement
from dpsql.planner.resolve.syntax import is_query, output_name, parts_of, replaced
from dpsql.planner.walks import every

MOST = 200
"""[candidates] Each is a sum of its own in the engine's SQL."""
_OVER_GROUPS = ("having", "qualify", "order")
_WAY = "write SELECT dp_argmax(price, SUM(CASE WHEN bid >= price THEN price ELSE 0 END)) FROM bids, prices"


def scored(statement: Statement, select: exp.Select, call: exp.Anonymous, env: Env) -> exp.Select:
    """The SELECT with the utility of each candidate of its dp_argmax written out.

    Raises 102, 105, 109 for another form, 304 for more candidates than MOST, 402 where they are not joined as they are.
    """
    if isinstance(call.parent, exp.Filter):
        hint = "write dp_argmax(candidate, SUM(x) FILTER (WHERE ...))"
        raise error(102, "the FILTER of dp_argmax stands inside it", hint=hint, span=span_of(call))
    clauses = [*select.expressions, *(select.args[part] for part in _OVER_GROUPS if select.args.get(part))]
    others = [part for clause in clauses for part in _outside(clause, call) if is_aggregate(part)]
    if others:
        what = "dp_argmax stands alone: its candidates are joined to everybody's rows"
        raise error(109, what, hint="ask for the other aggregate in a query of its own", span=span_of(others[0]))
    candidate, utility = _arguments(call)
    found = _candidates(statement, select, candidate, env)
    names = [name.lower() for name in column_names(statement, found)]
    kept = _without(select, found.node)
    reads = every(call, exp.Column)
    inside = {id(c) for c in reads}
    outside = [c for c in every(kept, exp.Column) if id(c) not in inside and _is_of(c, found, names)]
    if outside:
        hint = "choose among them in a query of its own: FROM people, (SELECT x FROM candidates WHERE ...) AS c"
        raise error(402, f"{found.name} is joined without a condition", hint=hint, span=span_of(outside[0]))
    _check_names(statement, kept, [c for c in reads if not c.table and c.name.lower() in names], found, env)
    rows = _rows(statement, found, len(names), call)
    utilities = [_of_row(utility, found, names, row) for row in rows]
    place = exp.Anonymous(this=call.this, expressions=utilities)
    place.meta.update(call.meta)
    shown = [_of_row(candidate, found, names, row) for row in rows]
    ifs = [exp.If(this=exp.Literal.number(i), true=value) for i, value in enumerate(shown, 1)]
    chosen: exp.Expression = exp.Case(this=place, ifs=ifs)
    if call.parent is select:
        chosen = exp.Alias(this=chosen, alias=exp.to_identifier(output_name(call), quoted=True))
    made = replaced(kept, {id(call): chosen})
    assert isinstance(made, exp.Select)
    return made


def _outside(shown: exp.Expression, call: exp.Expression) -> Iterator[exp.Expression]:
    inside = {id(part) for part in every(call, exp.Expression)}
    return (part for part in parts_of(shown) if id(part) not in inside)


def _arguments(call: exp.Anonymous) -> tuple[exp.Expression, exp.Expression]:
    """The candidate, and the utility of one row."""
    if len(call.expressions) != 2:
        raise error(106, "dp_argmax takes a candidate and a SUM or COUNT", hint=_WAY, span=span_of(call))
    candidate, score = call.expressions
    condition = score.expression.this if isinstance(score, exp.Filter) else None
    total = score.this if condition is not None else score
    utility: exp.Expression | None = None
    match total:
        case exp.Sum() if not isinstance(total.this, exp.Distinct):
            utility = total.this
        case exp.CountIf():
            utility = _where(total.this, exp.Literal.number(1))
        case exp.Count() if isinstance(total.this, exp.Star) or total.this is None:
            utility = exp.Literal.number(1)
        case exp.Count() if not isinstance(total.this, exp.Distinct):
            there = exp.Not(this=exp.Is(this=total.this, expression=exp.Null()))
            utility = _where(there, exp.Literal.number(1))
    if utility is None or any(is_aggregate(part) or is_query(part) for part in parts_of(utility)):
        what = "the score of a candidate is one SUM or COUNT"
        raise error(102, what, hint=f"{_WAY}, with weights inside SUM", span=span_of(score) or span_of(call))
    if condition is not None:
        utility = _where(condition, utility)
    return candidate, utility


def _where(condition: exp.Expression, utility: exp.Expression) -> exp.Expression:
    return exp.Case(ifs=[exp.If(this=condition, true=utility)], default=exp.Literal.number(0))


def _candidates(statement: Statement, select: exp.Select, candidate: exp.Expression, env: Env) -> Source:
    """The public item of FROM that the candidate is of. Raises 402."""
    named = every(candidate, exp.Column)
    joins = {id(join.this): join for join in select.args.get("joins") or ()}
    for node in items(select) if named else ():
        found = glance(statement, node, env)
        if found.is_private or not _is_of(named[0], found, [n.lower() for n in column_names(statement, found)]):
            continue
        join = joins.get(id(node)) or next(iter(joins.values()), None)
        if join is None:
            break
        if not any(join.args.get(part) for part in ("on", "using", "side", "method")):
            return found
        what = f"{found.name} is joined with a condition"
        raise error(402, what, hint=f"{_WAY}, with the condition inside SUM", span=span_of(node))
    what = "the candidates of dp_argmax are a column of a public table beside people's rows in FROM"
    raise error(402, what, hint=_WAY, span=span_of(candidate))


def _is_of(column: exp.Column, found: Source, names: Sequence[str]) -> bool:
    """True if a column is of a source, or has the name of one of its columns."""
    if column.table:
        return column.table.lower() == found.name.lower()
    return column.name.lower() in names


def _check_names(statement: Statement, kept: exp.Select, meant: Sequence[exp.Column], found: Source, env: Env) -> None:
    """Raises 105 where a name without a table is that of a candidate's column and of another one."""
    for other in (glance(statement, node, env) for node in items(kept)) if meant else ():
        names = shown_names(statement, other)
        for column in meant:
            if column.name.lower() in names:
                what = f"{column.name} is a column of {found.name} and of {other.name}"
                raise error(105, what, hint=f"write {found.name}.{column.name}", span=span_of(column))


def _without(select: exp.Select, node: exp.Expression) -> exp.Select:
    """A SELECT without one item of FROM."""
    joins = list(select.args.get("joins") or ())
    kept = exp.Select(**select.args)
    if select.args["from_"].this is node:
        first, *joins = joins
        kept.args["from_"] = exp.From(this=first.this)
    kept.args["joins"] = [join for join in joins if join.this is not node]
    return kept


def _rows(statement: Statement, found: Source, columns: int, call: exp.Expression) -> list[tuple[exp.Expression, ...]]:
    """The candidates, each once, every value as a constant. Raises 106, 304."""
    if found.table is not None:
        declared = [exp.to_identifier(c.name, quoted=True) for c in found.table.columns]
        tree: exp.Expression = exp.Select(expressions=[exp.column(name) for name in declared])
        tree.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(found.table.name, quoted=True))))
    else:
        assert isinstance(found.query, Public)
        tree = found.query.tree
    types = [sqltype for _, sqltype in statement.described(tree)]
    public, own = statement.reads(tree)
    if own or statement.lists is None:
        what = "the candidates are made of released values, which are not known before"
        raise error(402, what, hint="name them: FROM people, (VALUES (1), (2)) AS c(x)", span=span_of(call))
    rows = statement.lists.tuples(statement.text(_as_texts(tree, columns)), [VARCHAR] * columns, public)
    if rows is None or not 2 <= len(rows) <= MOST:
        many = "more than can be read" if rows is None else f"{len(rows):,}"
        what = f"dp_argmax chooses among 2 to {MOST} candidates, and {found.name} has {many}"
        raise error(304, what, hint="list fewer, or coarser ones", span=span_of(call))
    return [tuple(_constant(text, kind, call) for text, kind in zip(row, types, strict=True)) for row in rows]


def _as_texts(tree: exp.Expression, columns: int) -> exp.Select:
    """The different rows of a query, in the order of their values, each value as a text."""
    names = [exp.to_identifier(f"c{i}", quoted=True) for i in range(columns)]
    rows = exp.Select(expressions=[exp.Star()], distinct=exp.Distinct())
    alias = exp.TableAlias(this=exp.to_identifier("candidates"), columns=names)
    rows.set("from_", exp.From(this=exp.Subquery(this=tree, alias=alias)))
    rows.set("order", exp.Order(expressions=[exp.Ordered(this=exp.column(name.copy())) for name in names]))
    text = exp.DataType.build("VARCHAR")
    found = exp.Select(expressions=[exp.Cast(this=exp.column(name.copy()), to=text.copy()) for name in names])
    found.set("from_", exp.From(this=exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier("listed")))))
    return found


def _constant(text: object, sqltype: SqlType, call: exp.Expression) -> exp.Expression:
    """A value that was read as a text, as a constant of its type. Raises 106."""
    if text is None:
        return exp.Null()
    assert isinstance(text, str)
    value: object = text
    try:
        if sqltype.is_boolean:
            value = text == "true"
        elif sqltype.is_integer:
            value = int(text)
        elif sqltype.is_decimal:
            value = Decimal(text)
        elif sqltype.is_float:
            value = float(text)
        elif sqltype.is_counted:
            value = (date if sqltype == DATE else time if sqltype == TIME else datetime).fromisoformat(text)
        elif not sqltype.is_text:
            what = f"a candidate is of the type {sqltype}"
            raise error(106, what, hint="cast it to a number or text", span=span_of(call))
    except ValueError:
        # infinity, 24:00, and what is before the year 1 or after 9999
        what = f"a candidate is a {sqltype} that no constant can be"
        raise error(106, what, hint="leave it out, or cast it to a text", span=span_of(call)) from None
    return constant(value, "of a candidate")


def _of_row(node: exp.Expression, found: Source, names: Sequence[str], row: Sequence[exp.Expression]) -> exp.Expression:
    """An expression with one candidate's values in it."""

    def value(part: exp.Expression) -> exp.Expression:
        if not (isinstance(part, exp.Column) and _is_of(part, found, names)):
            return part
        if part.name.lower() not in names:
            raise error(105, f"{found.name} has no column {part.name[:60]}", hint=_WAY, span=span_of(part))
        return exp.Paren(this=row[names.index(part.name.lower())].copy())

    return node.copy().transform(value)
