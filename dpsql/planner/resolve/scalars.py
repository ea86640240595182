"""Syntax nodes of a private block -> total scalars: names here, operators and functions by their tables (functions.py).
What may stand inside an aggregate, and the constants beside it."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from sqlglot import exp

from dpsql.aggregates.distinct_values import combination
from dpsql.aggregates.record import Constant, Given, Record
from dpsql.core.cancellation import check
from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.expressions.scalar import Scalar, no_value
from dpsql.planner.calls import function_of, is_unnest
from dpsql.planner.grammar import SHELL_ONLY, is_aggregate, name_of, named_arguments
from dpsql.planner.resolve.functions import builder_of
from dpsql.planner.resolve.intervals import Build
from dpsql.planner.resolve.scope import Scope, text_of
from dpsql.planner.resolve.syntax import parts_of, unaliased
from dpsql.sql.duckdb import advised


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


NO_KEYS = (exp.Literal, exp.Null, exp.Boolean, exp.Identifier, exp.DataType, exp.Var)


def _group_key(node: exp.Expression, scope: Scope) -> Scalar | None:
    """Inside GROUP BY: the key column that a node is another spelling of."""
    if scope.grouped is None or isinstance(node, NO_KEYS):
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
        if found.sqltype.element is not None and not _takes_list(node):
            raise no_value()
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
            305,
            f"{node.name} is neither grouped nor aggregated",
            hint=f"add it to GROUP BY, or write MAX({advised(node.name)})",
        )
    raise scope.unknown(node)


def _takes_list(node: exp.Expression) -> bool:
    """True if a column may be a list where it stands: in a function or IS NULL, which look at it for themselves, counted, or shown by a
    query in FROM, row by row."""
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if isinstance(around, exp.Alias):
        around = around.parent
    if isinstance(around, exp.Select):
        inside = isinstance(around.parent, exp.CTE | exp.Subquery)
        kept = around.args.get("distinct") is None and around.args.get("group") is None
        return inside and kept and any(node is unaliased(shown) for shown in around.expressions)
    called = isinstance(around, exp.Anonymous) and (function_of(around) is not None or is_unnest(around))
    return called or isinstance(around, exp.Is | exp.Count)


_LONGEST = 50
"""[characters] A number in the text."""


def check_plain(argument: exp.Expression | None, words: str, example: str = "") -> None:
    """Refuse what cannot stand inside an aggregate over people, such as in `example`."""
    if argument is None:
        raise error(106, f"{words} needs a value", hint=f"write {example or f'{words}(x)'}")
    if isinstance(argument, exp.Distinct):
        raise error(102, f"{words}(DISTINCT ...) is not supported", hint=f"write {words}(x)")
    if isinstance(argument, exp.Order):
        raise error(102, f"ORDER BY inside {words} changes nothing", hint=f"write {words}(x)")
    nested = next((n for n in parts_of(argument) if is_aggregate(n) or isinstance(n, exp.Window)), None)
    if nested is not None:
        raise error(109, f"{name_of(nested)} stands inside {words}", hint="aggregate once")


def distinct_value(node: exp.Distinct, scope: Scope) -> Scalar:
    """The value of COUNT(DISTINCT a), (DISTINCT a, b) or (DISTINCT (a, b)). Raises 101, 109."""
    values, whole = list(node.expressions), len(node.expressions) == 1
    if whole and (listed := _respelt_list(values[0])):
        values, whole = listed, False
    while len(values) == 1 and isinstance(values[0], exp.Tuple | exp.Paren):
        inner = values[0]
        values = list(inner.expressions) if isinstance(inner, exp.Tuple) else [inner.this]
    if not values or any(isinstance(value, exp.Star) for value in values):
        what, hint = "COUNT(DISTINCT ...) needs columns", "write COUNT(*) for rows, COUNT(DISTINCT column) for values"
        raise error(101, what, hint=hint, span=span_of(node))
    for value in values:
        check_plain(value, "COUNT(DISTINCT)")
    found = [scalar(value, scope) for value in values]
    return found[0] if len(found) == 1 else combination(found, whole)


def _respelt_list(node: exp.Expression) -> list[exp.Expression]:
    """List that a tool had written as DISTINCT a, b and sends as CASE WHEN a IS NULL THEN NULL WHEN b IS NULL THEN NULL
    ELSE (a, b) END; [] for anything else."""
    if not isinstance(node, exp.Case) or node.this is not None:
        return []
    listed = node.args.get("default")
    values = list(listed.expressions) if isinstance(listed, exp.Tuple) else []
    nulls = [exp.If(this=exp.Is(this=value.copy(), expression=exp.Null()), true=exp.Null()) for value in values]
    return values if values and node.args["ifs"] == nulls else []


def given(record: Record, node: exp.Expression, scope: Scope) -> Given:
    """A call of an aggregate of one value and constants. Raises 102, 106, 109 for a value that cannot stand inside one."""
    named = named_arguments(node) if isinstance(node, exp.Anonymous) else {}
    argument, *rest = arguments(node) or (None,)
    word = name_of(node).removesuffix("()")
    check_plain(argument, word)
    assert argument is not None
    constants = tuple(_constant(part, scope) for part in rest)
    return Given(
        record,
        word,
        partial(argument.sql, dialect="duckdb"),
        scalar(argument, scope),
        constants,
        {name: _constant(part, scope) for name, part in named.items()},
    )


def arguments(node: exp.Expression) -> list[exp.Expression]:
    """The arguments without a name, wherever the parser keeps them."""
    if isinstance(node, exp.Anonymous):
        return [part for part in node.expressions if not isinstance(part, exp.PropertyEQ)]
    kept = (value if isinstance(value, list) else [value] for value in node.args.values())
    return [part for parts in kept for part in parts if isinstance(part, exp.Expression)]


def _constant(node: exp.Expression, scope: Scope) -> Constant:
    if isinstance(node, exp.Array):
        return tuple(_constant(part, scope) for part in node.expressions)
    if isinstance(node, exp.Literal) and not node.is_string:
        # as it is written: a parameter that is a float has an exponent
        if len(node.name) >= _LONGEST:
            return None
        return int(node.name) if node.name.isdigit() else Fraction(node.name)
    try:
        value = scalar(node, scope)
    except Error:
        return None
    if not value.is_literal:
        return None
    return value.value if isinstance(value.value, str) else value.limits.lower if value.limits is not None else None
