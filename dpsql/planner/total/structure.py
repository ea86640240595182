"""Rules for what has no failure of its own, or only the casts': columns, constants, CASE, comparisons, conditions, queries inside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpsql.core.domains import Interval
from dpsql.core.sqltypes import BOOLEAN, DOUBLE, FLOAT, VARCHAR, SqlType, decimal
from dpsql.expressions.known import NULL, Known, common, either, integer, of_type
from dpsql.planner.total import casts
from dpsql.planner.total.casts import boolean, constant, try_cast
from dpsql.planner.total.walk import KnownColumns, Rule, Walk, learnt, type_of, unknown


def column(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    found = scope.find(node.text("table").lower(), node.name.lower())
    if found is None:
        raise unknown(node)
    return found


def literal(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    assumed = walk.assumed.get(id(node))
    if assumed is not None:
        return assumed
    found = Known(VARCHAR, None, null=False, word=node.name) if node.args.get("is_string") else number(node.name)
    if found is None:
        raise unknown(node)
    return found


def number(text: str) -> Known | None:
    """A bare number; None where the engine might not read it."""
    if text.isdigit():
        return integer(int(text))
    digits, _, after = text.partition(".")
    if digits.isdigit() and after.isdigit() and len(digits) + len(after) <= 38:
        point = Fraction(text)
        return Known(decimal(len(digits) + len(after), len(after)), Interval(point, point), null=False)
    if "e" in text.lower():
        double = float(text)
        return Known(
            DOUBLE, Interval(Fraction(double), Fraction(double)) if math.isfinite(double) else None, null=False
        )
    return None


def cast(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    target = type_of(node.args["to"])
    inner = node.this
    if isinstance(inner, exp.Literal) and inner.args.get("is_string") and not target.is_text:
        found = walk.assumed.get(id(inner)) or constant(inner.name, target)
        if found is None:
            raise unknown(node)
        return found
    value = walk.value(inner, scope)
    if target.is_decimal and not _is_read_exactly(walk, node, inner, target):
        raise unknown(node)
    return walk.ruled(node, try_cast(value, target) if isinstance(node, exp.TryCast) else casts.cast(value, target))


def _is_read_exactly(walk: Walk, node: exp.Expression, inner: exp.Expression, target: SqlType) -> bool:
    """True if a cast to a decimal gives nothing beyond its digits (decimal_of in expressions/conversion.py): text is of that very type,
    or what is read is printed again.

    inner  the operand as it was written: guards and casts of the walk may stand around it by now
    """
    sqltype = walk.known[id(node.this)].sqltype
    if sqltype == FLOAT:
        return False
    if not sqltype.is_text:
        return True
    if isinstance(inner, exp.Cast) and walk.known[id(inner.this)].sqltype == target:
        return True
    around = node.parent
    return isinstance(around, exp.Cast) and type_of(around.args["to"]).is_text


def case(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """Branches know their condition; that a branch is worked out for its rows alone is the engine's own promise."""
    if node.this is not None:
        raise unknown(node)
    found = []
    for branch in list(node.args["ifs"]):
        walk.condition(branch.this, scope)
        walk.facts.append(learnt(branch.this, lambda node: walk.known[id(node)]))
        found.append(walk.value(branch.args["true"], scope))
        walk.facts.pop()
    default = node.args.get("default")
    found.append(walk.value(default, scope) if default is not None else Known(NULL))
    return _one(node, found)


def _one(node: exp.Expression, values: list[Known]) -> Known:
    found = either(values)
    if found is None:
        raise unknown(node)
    return found


def coalesce(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    values = [walk.value(n, scope) for n in (node.this, *list(node.expressions))]
    return replace(_one(node, values), null=all(v.null for v in values))


def nullif(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    values = [walk.value(n, scope) for n in (node.this, node.expression)]
    if common(*values) is None:
        raise unknown(node)
    # compared in the common type, given in the first's
    return replace(values[0], null=True, literal=False)


def extreme(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """LEAST and GREATEST skip NULL, so only what cannot be NULL narrows the result."""
    values = [walk.value(n, scope) for n in (node.this, *list(node.expressions))]
    found = _one(node, values)
    if found.limits is None or found.sqltype.is_float:
        return found
    sure = [v.limits for v in values if not v.null and v.limits is not None]
    low, high = found.limits.lower, found.limits.upper
    if sure and isinstance(node, exp.Least):
        high = min(limits.upper for limits in sure)
    elif sure:
        low = max(limits.lower for limits in sure)
    return replace(found, limits=Interval(min(low, high), max(low, high)), null=all(v.null for v in values))


def compared(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    return _compared(walk, node, [node.this, node.expression], scope)


def between(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    return _compared(walk, node, [node.this, node.args["low"], node.args["high"]], scope)


def _compared(walk: Walk, node: exp.Expression, sides: Sequence[exp.Expression], scope: KnownColumns) -> Known:
    values = [walk.value(side, scope) for side in sides]
    if values[0].sqltype == BOOLEAN and all(v.sqltype.is_integer for v in values[1:]):
        # the engine makes 0 or 1 of it
        return of_type(BOOLEAN)
    if any(common(values[0], other) is None for other in values[1:]):
        raise unknown(node)
    return of_type(BOOLEAN)


def among(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    if node.args.get("query") is None:
        return _compared(walk, node, [node.this, *list(node.expressions)], scope)
    value = walk.value(node.this, scope)
    (listed,) = walk.query(node.args["query"], scope)
    if common(value, listed) is None:
        raise unknown(node)
    return of_type(BOOLEAN)


def connected(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """AND and OR, without recursion along a chain."""
    waiting, parts = [node], []
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            waiting += [part.expression, part.this]
        else:
            parts.append(part)
    for part in parts:
        walk.condition(part, scope)
    return of_type(BOOLEAN)


def negated(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    walk.condition(node.this, scope)
    return of_type(BOOLEAN)


def tested(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """IS NULL, IS TRUE, IS FALSE."""
    value = walk.value(node.this, scope)
    if not (isinstance(node.expression, exp.Null) or (isinstance(node.expression, exp.Boolean) and boolean(value))):
        raise unknown(node)
    return of_type(BOOLEAN, null=False)


def like(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """[I]LIKE and GLOB of a constant; ESCAPE of one ASCII character that the pattern uses well."""
    inner = node.this if isinstance(node, exp.Escape) else node
    if isinstance(node, exp.Escape) and not _escapes(inner.expression, node.expression):
        raise unknown(node)
    if not (walk.value(inner.this, scope).sqltype in (VARCHAR, NULL) and _is_text(inner.expression)):
        raise unknown(node)
    return of_type(BOOLEAN)


def exists(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    walk.query(node.this, scope)
    return of_type(BOOLEAN, null=False)


def scalar_query(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    """A query as a value: of an input table, which has one row."""
    found = walk.query(node.this, scope)
    if len(found) != 1:
        raise unknown(node)
    return replace(found[0], null=True)


def tried(walk: Walk, node: exp.Expression, scope: KnownColumns) -> Known:
    return replace(walk.value(node.this, scope), null=True)


def _is_text(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and bool(node.args.get("is_string"))


def _escapes(pattern: exp.Expression, escape: exp.Expression) -> bool:
    """True if no escape character stands last, with nothing to escape."""
    if not (_is_text(pattern) and _is_text(escape) and len(escape.name) == 1 and escape.name.isascii()):
        return False
    place, text = 0, pattern.name
    while place < len(text):
        place += 2 if text[place] == escape.name else 1
    return place == len(text)


def _of(sqltype: SqlType) -> Rule:
    """Rule of a leaf: a value of a type."""
    return lambda walk, node, scope: of_type(sqltype, null=sqltype == NULL)


STRUCTURE: Mapping[str, Rule] = {
    "Column": column,
    "Literal": literal,
    "Null": _of(NULL),
    "Boolean": _of(BOOLEAN),
    "Placeholder": _of(VARCHAR),
    "Parameter": _of(VARCHAR),
    "Paren": lambda walk, node, scope: walk.value(node.this, scope),
    "Cast": cast,
    "TryCast": cast,
    "Try": tried,
    "Case": case,
    "Coalesce": coalesce,
    "Nullif": nullif,
    "Least": extreme,
    "Greatest": extreme,
    **dict.fromkeys(("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ", "NullSafeNEQ"), compared),
    "Between": between,
    "In": among,
    "And": connected,
    "Or": connected,
    "Not": negated,
    "Is": tested,
    "Like": like,
    "ILike": like,
    "Glob": like,
    "Escape": like,
    "Exists": exists,
    "Subquery": scalar_query,
}
