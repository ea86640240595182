"""The ends of intervals as columns: dp_low(x) and dp_high(x), and which columns of a result have an interval at all.

A released column has the ends that its estimate gives. What is computed from one row of released columns is computed again for many
redrawn tables (estimating.py), by the same text: its ends are the 2.5 % and 97.5 % quantiles of what comes out.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.errors import Error, error
from dpsql.plan import ROW_NUMBER, end_column, intervals_table, redrawn_table
from dpsql.planner.grammar import END_NAMES, name_of
from dpsql.planner.resolve.syntax import is_query, parts_of, unaliased
from dpsql.spans import span_of

_ROW_WISE = (exp.Window, exp.AggFunc, exp.Star)


def is_end(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in END_NAMES


def argument_of(node: exp.Anonymous) -> exp.Expression:
    """What dp_low or dp_high is about. Raises 106."""
    if len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Expression):
        raise error(
            106, f"{name_of(node)} takes one column", hint=f"write {str(node.this).lower()}(n)", span=span_of(node)
        )
    found: exp.Expression = node.expressions[0]
    return found


def end(node: exp.Anonymous, value: exp.Expression, pending: str, outputs: set[str]) -> exp.Expression:
    """The end of the interval of a value that is made of released columns.

    value    the argument over the released table, which is called `pending` until the release has its name
    outputs  the columns that are aggregates; the others are group keys, which are exact

    Raises 106 where the value has no interval.
    """
    low = str(node.this).lower() == "dp_low"
    while isinstance(value, exp.Paren):
        value = value.this
    if not any(c.name in outputs for c in value.find_all(exp.Column)):
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
        if not is_row_wise(value, pending):
            raise _without_interval(node)
        table = redrawn_table(pending)
        share = "0.025" if low else "0.975"
        inner = exp.Cast(this=_moved(value, pending, table), to=exp.DataType.build("DOUBLE"))
        shown = exp.Anonymous(this="quantile_cont", expressions=[inner, exp.Literal.number(share)])
    found = exp.Select(expressions=[shown])
    found.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(table, quoted=True))))
    same = exp.EQ(this=_column(table, ROW_NUMBER), expression=_column(pending, ROW_NUMBER))
    found.set("where", exp.Where(this=same))
    return exp.Subquery(this=found)


def _without_interval(node: exp.Expression) -> Error:
    return error(
        106,
        f"{name_of(node)} needs a value that is computed from one row of released columns",
        hint="leave windows and subqueries out of it",
        span=span_of(node),
    )


def is_row_wise(value: exp.Expression, table: str) -> bool:
    """Whether a value is computed from one row of a table and nothing else."""
    parts = list(parts_of(value))
    if any(is_query(p) or isinstance(p, _ROW_WISE) for p in parts):
        return False
    return all(not isinstance(p, exp.Column) or p.table == table for p in parts)


def computed(
    tree: exp.Expression, release: str, direct: tuple[tuple[str, str] | None, ...]
) -> tuple[exp.Expression | None, ...]:
    """For each column of a query over a release its expression over the redrawn table, where it is computed row by row."""
    found: list[exp.Expression | None] = []
    for projection, source in zip(tree.expressions, direct, strict=False):
        value = unaliased(projection)
        wanted = source is None and is_row_wise(value, release) and value.find(exp.Column) is not None
        found.append(_moved(value, release, redrawn_table(release)) if wanted else None)
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
