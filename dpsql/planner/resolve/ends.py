"""The ends of intervals as columns: dp_low(x) and dp_high(x), and which columns of a result have an interval at all.

A released column has the ends that its estimate gives. What is computed from one row of released columns is computed again for many
redrawn tables (release/estimating.py), by the same text: its ends are the 2.5 % and 97.5 % quantiles of what comes out, and
NULL where much of it is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.aggregates.record import Aggregate
from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.plan.resolved import Block
from dpsql.plan.tables import ROW_NUMBER, end_column, intervals_table, redrawn_table
from dpsql.planner.grammar import END_NAMES, name_of
from dpsql.planner.resolve.syntax import is_query, parts_of, unaliased
from dpsql.planner.walks import every

_ACROSS_ROWS = (exp.Window, exp.AggFunc, exp.Star)


def is_end(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in END_NAMES


def argument_of(node: exp.Anonymous) -> exp.Expression:
    """Argument of dp_low or dp_high. Raises 106."""
    if len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Expression):
        raise error(
            106, f"{name_of(node)} takes one column", hint=f"write {str(node.this).lower()}(n)", span=span_of(node)
        )
    found: exp.Expression = node.expressions[0]
    return found


def end(node: exp.Anonymous, value: exp.Expression, pending: str, aggregates: Sequence[Aggregate]) -> exp.Expression:
    """The end of the interval of a value that is made of released columns.

    value       the argument over the released table, which is called `pending` until the release has its name
    aggregates  of the release; its other columns are group keys, which are exact

    Raises 106 where the value has no interval.
    """
    low = str(node.this).lower() == "dp_low"
    while isinstance(value, exp.Paren):
        value = value.this
    names = {a.name for a in aggregates}
    if not any(c.name in names for c in value.find_all(exp.Column)):
        raise error(
            106,
            f"{name_of(node)} needs a released value, such as a count; a group key is exact",
            hint="name an aggregate or its alias",
            span=span_of(node),
        )
    if isinstance(value, exp.Column):
        table = intervals_table(pending)
        shown: exp.Expression = _column(table, end_column(value.name, low))
    else:
        if not is_redrawn(value, pending, aggregates):
            raise _without_interval(node)
        table = redrawn_table(pending)
        share = "0.025" if low else "0.975"
        inner = exp.Cast(this=_moved(value, pending, table), to=exp.DataType.build("DOUBLE"))
        quantile = exp.Anonymous(this="quantile_cont", expressions=[inner, exp.Literal.number(share)])
        shown = exp.Case(ifs=[exp.If(this=_mostly_known(inner), true=quantile)])
    found = exp.Select(expressions=[shown])
    found.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(table, quoted=True))))
    same = exp.EQ(this=_column(table, ROW_NUMBER), expression=_column(pending, ROW_NUMBER))
    found.set("where", exp.Where(this=same))
    return exp.Subquery(this=found)


def named_after(tree: exp.Select, pending: str, name: str) -> exp.Select:
    """The query with the pending release, and the tables beside it, under the release's name."""
    for node in every(tree, exp.Table, exp.Column):
        part = "this" if isinstance(node, exp.Table) else "table"
        if node.args.get(part) is not None and pending in node.args[part].name:
            node.set(part, exp.to_identifier(node.args[part].name.replace(pending, name), quoted=True))
    return tree


def _without_interval(node: exp.Expression) -> Error:
    return error(
        106,
        f"{name_of(node)} needs a value that is computed from counts, sums and averages of one row",
        hint="leave windows, subqueries, quantiles, extremes and correlations out of it",
        span=span_of(node),
    )


def _mostly_known(value: exp.Expression) -> exp.Expression:
    """Condition that at most 2.5 % of the redrawn values are unknown, so that the ends are taken from the others."""
    most = exp.Mul(this=exp.Literal.number("0.975"), expression=exp.Count(this=exp.Star()))
    return exp.GT(this=exp.Count(this=value.copy()), expression=most)


def is_redrawn(value: exp.Expression, table: str, aggregates: Sequence[Aggregate]) -> bool:
    """True if a value is computed from one row of a released table, and from what has noise that can be drawn again.

    Why  what is chosen of a histogram stays as it is in a redrawn table: ends from there would leave out its own error
    """
    parts = list(parts_of(value))
    if any(is_query(p) or isinstance(p, _ACROSS_ROWS) for p in parts):
        return False
    others = {a.name for a in aggregates if not a.is_redrawn}
    return all(not isinstance(p, exp.Column) or (p.table == table and p.name not in others) for p in parts)


def computed(
    tree: exp.Expression, release: Block, direct: tuple[tuple[str, str] | None, ...]
) -> tuple[exp.Expression | None, ...]:
    """For each column of a query over a release its expression over the redrawn table, where it is computed row by row."""
    found: list[exp.Expression | None] = []
    for projection, source in zip(tree.expressions, direct, strict=False):
        value = unaliased(projection)
        wanted = source is None and value.find(exp.Column) is not None
        wanted = wanted and is_redrawn(value, release.name, release.aggregates)
        found.append(_moved(value, release.name, redrawn_table(release.name)) if wanted else None)
    return tuple(found)


def _moved(value: exp.Expression, table: str, other: str) -> exp.Expression:
    """The same over another table."""
    copy = value.copy()
    for column in copy.find_all(exp.Column):
        if column.table == table:
            column.set("table", exp.to_identifier(other, quoted=True))
    return copy


def _column(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
