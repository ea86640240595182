"""Syntax nodes of a private block -> total scalars: names here, operators and functions by their tables (functions.py)."""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.cancellation import check
from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.expressions.scalar import Scalar
from dpsql.planner.grammar import SHELL_ONLY, is_aggregate, name_of
from dpsql.planner.resolve.functions import Build, builder_of
from dpsql.planner.resolve.scope import Scope, text_of


def scalar(node: exp.Expression, scope: Scope) -> Scalar:
    """The scalar of a node over the columns of a scope.

    Raises 102 (not in the grammar), 105 (unknown column), 106 (types), 109 (an aggregate where there can be none), 202 (overflow).
    """

    def build(part: exp.Expression) -> Scalar:
        known = scope.built.get(id(part))
        if known is not None:
            return known[1]
        check()
        problem: Error
        try:
            found_here = scope.adjusted(_build(part, scope, build))
            # While an alias is being replaced, a name can stand for less than elsewhere.
            if not scope.open_aliases:
                scope.built[id(part)] = (part, found_here)
            return found_here
        except Error as found:
            problem = found
        if problem.span is None:
            problem.span = span_of(part)
        raise problem

    return build(node)


def _build(node: exp.Expression, scope: Scope, build: Build) -> Scalar:
    found = scope.known.get(id(node)) or _group_key(node, scope)
    if found is not None:
        return found
    if isinstance(node, exp.Column):
        return _column(node, scope, build)
    if isinstance(node, exp.Select | exp.Subquery | exp.SetOperation | exp.Exists) or node.args.get("query"):
        if scope.nested is None:
            raise error(402, "a subquery cannot stand here", hint="ask the subquery by itself first")
        text = text_of(node)
        if text not in scope.answered:
            scope.answered[text] = scope.nested.nested(node, scope)
        return scope.answered[text]
    if is_aggregate(node) or type(node) in SHELL_ONLY:
        raise error(109, f"{name_of(node)} cannot stand here", hint="aggregate in the SELECT list, HAVING or ORDER BY")
    if isinstance(node, exp.Window):
        raise error(
            102,
            "a window over people's rows cannot stand here",
            hint="aggregate first, or write PARTITION BY the privacy unit in a subquery of its own",
        )
    return builder_of(node)(node, build)


_NO_KEYS = (exp.Literal, exp.Null, exp.Boolean, exp.Identifier, exp.DataType, exp.Var)


def _group_key(node: exp.Expression, scope: Scope) -> Scalar | None:
    """Inside GROUP BY: the key column that a node is another spelling of."""
    if scope.grouped is None or isinstance(node, _NO_KEYS):
        return None
    inner, keys = scope.grouped
    try:
        found = scalar(node, inner)
        return found if found.is_literal else keys.get(found.tree)
    except Error:
        return None


def _column(node: exp.Column, scope: Scope, build: Build) -> Scalar:
    if isinstance(node.this, exp.Star):
        raise error(102, "* cannot stand here", hint="name a column")
    found = scope.column(node)
    if found is not None:
        return found
    alias = scope.alias(node)
    if alias is not None:
        scope.open_aliases.add(node.name.lower())
        try:
            return build(alias)
        finally:
            scope.open_aliases.discard(node.name.lower())
    if scope.grouped is not None and scope.grouped[0].column(node) is not None:
        raise error(
            305, f"{node.name} is neither grouped nor aggregated", hint=f"add it to GROUP BY, or write MAX({node.name})"
        )
    raise scope.unknown(node)
