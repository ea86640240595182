"""Refusals of queries that would show rows of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.core.wording import counted, listed
from dpsql.expressions.scalar import Scalar, finite_hull
from dpsql.planner.resolve.key_lists import is_null_alone
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.statement import Private
from dpsql.planner.resolve.syntax import unaliased
from dpsql.relations.relations import Relation
from dpsql.sql.duckdb import advised


def one_of_equal_rows(select: exp.Select, source: Relation, scope: Scope) -> exp.Select | None:
    """SELECT x ... WHERE x IS NULL LIMIT 1 as SELECT DISTINCT x: whether there is such a row; None for any other SELECT.

    Why  all rows are NULL in all that is shown, so one of them is the list of the different ones: a selection like any list of values,
         for which a person counts once (rules 14, 59)
    """
    limit = select.args.get("limit")
    parts = ("offset", "distinct", "having", "qualify", "windows")
    if limit is None or limit.expression.name != "1" or any(select.args.get(part) for part in parts):
        return None
    nodes = [unaliased(projection) for projection in select.expressions]
    if not all(isinstance(node, exp.Column) and scope.has(node) for node in nodes):
        return None
    if not all(is_null_alone(scalar(node, scope), source.where) for node in nodes):
        return None
    return exp.Select(**{**select.args, "distinct": exp.Distinct()})


def rows_of_people(found: Private, node: exp.Expression) -> Error:
    """Refusal of a query over people's rows that would be shown or looked at one by one."""
    if found.grouped is not None:
        return error(
            302,
            "a group would be one person, because the privacy unit or a key of its rows is grouped by",
            hint="group by what people share, or aggregate these groups once more: SELECT COUNT(*) FROM (...)",
            span=span_of(found.grouped),
        )
    return error(
        301, "the result would be rows of people", hint="aggregate, such as SELECT COUNT(*)", span=span_of(_shown(node))
    )


def _shown(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Subquery | exp.SetOperation | exp.Exists):
        node = node.this
    return node.expressions[0] if isinstance(node, exp.Select) and node.expressions else node


def bare_columns(node: exp.Column, column: Scalar, shown: Sequence[exp.Expression], scope: Scope) -> Error:
    """305: columns that are shown for each row.

    column  that of the node, the first of them
    shown   what stands beside it, in which others may be
    """
    found = {node.name: column}
    for other in map(unaliased, shown):
        beside = scope.column(other) if isinstance(other, exp.Column) and other.name else None
        if beside is not None and not beside.is_literal:
            found.setdefault(other.name, beside)
    if len(found) == 1:
        what = f"{node.name} is neither grouped nor aggregated, so it would show rows of people"
        return error(305, what, hint=_instead(found), span=span_of(node))
    rest = [counted(len(found) - MOST_NAMED, "more column")] if len(found) > MOST_NAMED else []
    names = listed([*list(found)[:MOST_NAMED], *rest])
    what = f"{names} are neither grouped nor aggregated, so they would show rows of people"
    return error(305, what, hint=_instead(found), span=span_of(node))


MOST_NAMED = 5
"""Of columns that are shown for each row."""


def _instead(found: Mapping[str, Scalar]) -> str:
    others = {name: column for name, column in found.items() if column.role != "identifier"}
    if not others:
        return f"leave {'it' if len(found) == 1 else 'them'} out, or write COUNT(*)"
    what = "it" if len(found) == 1 else "them" if len(others) == len(found) else listed(list(others)[:MOST_NAMED])
    written = [f"{'AVG' if _is_amount(column) else 'COUNT'}({advised(name)})" for name, column in others.items()]
    out = [advised(name) for name in found if name not in others]
    left = f"leave {listed(out[:MOST_NAMED])} out, " if out else ""
    return f"{left}add {what} to GROUP BY, or write {listed(written[:MOST_NAMED])}"


def _is_amount(column: Scalar) -> bool:
    """True if a column's average says something: years and codes are listed, or integers much further from 0 than from one another."""
    bounds = finite_hull(column) if column.sqltype.is_number and column.role != "dimension" else None
    return bounds is not None and not (column.integral and 4 * (bounds.upper - bounds.lower) < abs(bounds.lower))


def shown_row_by_row(select: exp.Select, source: Relation, scope: Scope) -> Error:
    """Refusal to show rows; for a column, with the aggregate to write."""
    first = select.expressions[0]
    node = first.this if isinstance(first, exp.Alias) else first
    found = scope.column(node) if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star) else None
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star) and found is None:
        return scope.unknown(node)
    if found is None:
        return rows_of_people(Private(source, select), select)
    assert isinstance(node, exp.Column)
    return bare_columns(node, found, select.expressions, scope)
