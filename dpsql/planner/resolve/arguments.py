"""What stands inside an aggregate over people: plain values, and the constants beside them."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dpsql.aggregates.distinct_values import combination
from dpsql.aggregates.record import Constant, Given, Record
from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.expressions.conditional import case
from dpsql.expressions.literals import boolean_literal
from dpsql.expressions.logic import disjunction, is_null, negation
from dpsql.expressions.scalar import Scalar
from dpsql.planner.grammar import is_aggregate, name_of, named_arguments
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.syntax import parts_of

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


def unit_there(value: Scalar) -> Scalar | None:
    """When a value that is its row's own unit or NULL is the unit; None for a value that can be anything else.

    Why  a join that equates units puts beside a row its own unit, or NULL where nothing is met; CASE and COALESCE choose among these.
         So the different values that are not NULL are the units with a row for which this is true
    """
    if value.is_unit:
        return boolean_literal(True)
    if value.is_null:
        return boolean_literal(False)
    if any(key.is_unit for key in value.held_or_null):
        return negation(is_null(value))
    if value.function not in ("case", "coalesce"):
        return None
    chosen = value.function == "case"
    conditions = value.args[: len(value.args) // 2 * 2 : 2] if chosen else ()
    there = [unit_there(part) for part in (value.args[1::2] if chosen else value.args)]
    default = unit_there(value.args[-1]) if chosen and len(value.args) % 2 else boolean_literal(False)
    known = [part for part in there if part is not None]
    if default is None or len(known) < len(there):
        return None
    if not chosen:
        always = any(part.value is True for part in known)
        return boolean_literal(True) if always else disjunction(known)
    if all(part.value is True for part in known) and default.value is False:
        return disjunction(list(conditions))
    return case(list(zip(conditions, known, strict=True)), default)


def _respelt_list(node: exp.Expression) -> list[exp.Expression]:
    """What a tool had written as DISTINCT a, b and sends as CASE WHEN a IS NULL THEN NULL WHEN b IS NULL THEN NULL ELSE (a, b) END; []
    for anything else."""
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
        argument.sql(dialect="duckdb"),
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
        return Fraction(node.name) if len(node.name) < _LONGEST else None
    try:
        value = scalar(node, scope)
    except Error:
        return None
    if not value.is_literal:
        return None
    return value.value if isinstance(value.value, str) else value.limits.lower if value.limits is not None else None
