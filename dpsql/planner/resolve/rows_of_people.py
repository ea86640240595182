"""Refusals of queries that would show rows of people."""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
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


def bare_column(node: exp.Column, column: Scalar) -> Error:
    """305: a column that is shown for each row."""
    return error(
        305,
        f"{node.name} is neither grouped nor aggregated, so it would show rows of people",
        hint=_instead(node.name, column),
        span=span_of(node),
    )


def _instead(name: str, column: Scalar) -> str:
    if column.role == "identifier":
        return "leave it out, or write COUNT(*)"
    averaged = column.sqltype.is_number and finite_hull(column) is not None
    return f"add it to GROUP BY, or write {'AVG' if averaged else 'COUNT'}({advised(name)})"


def shown_row_by_row(select: exp.Select, source: Relation, scope: Scope) -> Error:
    """Refusal to show rows; for a column, with the aggregate to write."""
    first = select.expressions[0]
    node = first.this if isinstance(first, exp.Alias) else first
    found = scope.column(node) if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star) else None
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star) and found is None:
        return scope.unknown(node)
    return bare_column(node, found) if found is not None else rows_of_people(Private(source, select), select)
