"""Expressions of a checked statement in a dialect's words: each node by the rule of its kind, in the types of DialectWords.stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dpsql.core.sqltypes import BOOLEAN, DOUBLE, VARCHAR, SqlType, parse_type
from dpsql.engines.dialects import casts
from dpsql.engines.dialects.functions import FUNCTIONS
from dpsql.engines.dialects.words import LEAST, DialectWords, Side, fits_bigint, is_narrow, within_years
from dpsql.expressions.known import NULL, Known, common, integer

_COMPARISONS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_DISTINCT = {"NullSafeEQ": "IS NOT DISTINCT FROM", "NullSafeNEQ": "IS DISTINCT FROM"}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}


@dataclass(frozen=True, slots=True)
class Writing:
    """One statement that is being written.

    words  of the dialect
    known  by the `id` of a node, what its value can be
    query  writes a query inside an expression
    rules  by the parser's name of a node
    """

    words: DialectWords
    known: Mapping[int, Known]
    query: Callable[[exp.Expression], str]
    rules: Mapping[str, Callable[[Writing, exp.Expression], str]]

    def value(self, node: exp.Expression) -> str:
        """An expression. Raises 102."""
        rule = self.rules.get(type(node).__name__)
        if rule is None:
            raise self.words.refused(_named(node))
        return rule(self, node)

    def of(self, node: exp.Expression) -> Known:
        """Everything that an expression can be."""
        found = self.known.get(id(node))
        if found is None:
            raise self.words.refused(_named(node))
        return found

    def coerced(self, node: exp.Expression, target: SqlType) -> str:
        """An expression as DuckDB makes a value of another type of it by itself."""
        return casts.coerced(self.words, self.value(node), self.of(node), target)

    def beside(self, nodes: Sequence[exp.Expression]) -> list[str]:
        """Expressions in the type in which DuckDB compares them."""
        found = self.of(nodes[0])
        for node in nodes[1:]:
            sqltype = common(found, self.of(node))
            if sqltype is None:
                return self._as_numbers(nodes)
            found = Known(sqltype, None) if sqltype != found.sqltype else found
        return [self.coerced(node, found.sqltype) for node in nodes]

    def _as_numbers(self, nodes: Sequence[exp.Expression]) -> list[str]:
        """A boolean beside whole numbers is 0 or 1."""
        if self.of(nodes[0]).sqltype != BOOLEAN or not all(self.of(node).sqltype.is_integer for node in nodes[1:]):
            raise self.words.refused("a comparison of these types")
        return [self.words.small(self.value(nodes[0])), *(self.value(node) for node in nodes[1:])]


def _named(node: exp.Expression) -> str:
    """Name of a node in a refusal."""
    called = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
    return f"{called.upper()}"


# --- what has no parts ------------------------------------------------------------------------------------------------


def _column(writing: Writing, node: exp.Expression) -> str:
    relation = node.text("table")
    called = writing.words.name(node.name)
    return f"{writing.words.name(relation)}.{called}" if relation else called


def _literal(writing: Writing, node: exp.Expression) -> str:
    if node.args.get("is_string"):
        return writing.words.text(node.name)
    if "e" in node.name.lower():
        return writing.words.double(float(node.name))
    sqltype = integer(int(node.name)).sqltype if node.name.isdigit() else writing.of(node).sqltype
    return writing.words.number(node.name, sqltype)


def _placeholder(writing: Writing, node: exp.Expression) -> str:
    if node.name.lower() != "cut":
        raise writing.words.refused("a parameter")
    return writing.words.secret


# --- casts ------------------------------------------------------------------------------------------------------------


def type_of(words: DialectWords, node: exp.Expression) -> SqlType:
    """The type that a cast names."""
    written = node.sql("duckdb")
    found = parse_type("HUGEINT" if written == "INT128" else written)
    if found is None:
        raise words.refused(f"a cast to {written}")
    return found


def _cast(writing: Writing, node: exp.Expression) -> str:
    words, inner = writing.words, node.this
    target, constant = type_of(words, node.args["to"]), constant_of(words, node)
    if constant is not None:
        return words.double(float(constant))
    if isinstance(inner, exp.Literal) and inner.args.get("is_string") and not target.is_text:
        return _typed_constant(words, inner.name, target)
    return casts.cast(words, writing.value(inner), writing.of(inner), target, isinstance(node, exp.TryCast))


def _typed_constant(words: DialectWords, word: str, target: SqlType) -> str:
    if target == DOUBLE and word.lower() == "nan":
        return words.double(math.nan)
    if not target.is_counted:
        raise words.refused(f"a constant of type {target}")
    if target.is_temporal and not "0001-01-01" <= word < "9999-12-31 23:59:59.9999995":
        raise words.refused("a date outside of the years 1 to 9999")
    return words.cast(f"'{word}'", target)


def constant_of(words: DialectWords, node: exp.Expression) -> Fraction | None:
    """The value of a constant DOUBLE; None of anything else, and where its digits are too many for one rounding."""
    if isinstance(node, exp.Paren):
        return constant_of(words, node.this)
    if not isinstance(node, exp.Cast) or type_of(words, node.args["to"]) != DOUBLE:
        return None
    inner, sign = node.this, 1
    if isinstance(inner, exp.Neg):
        inner, sign = inner.this, -1
    if not isinstance(inner, exp.Literal) or inner.args.get("is_string"):
        return None
    if "e" not in inner.name.lower() and int(inner.name.replace(".", "")) > casts.EXACT_DOUBLE:
        return None
    return sign * Fraction(float(inner.name))


# --- operators --------------------------------------------------------------------------------------------------------


def _arithmetic(writing: Writing, node: exp.Expression) -> str:
    operator, known = _ARITHMETIC[type(node).__name__], writing.of(node)
    left, right = node.this, node.expression
    if known.sqltype == DOUBLE:
        return writing.words.floating(operator, _side(writing, left), _side(writing, right), known)
    if writing.of(left).sqltype.is_temporal and operator in "+":
        return _shifted(writing, node, known)
    if not (known.sqltype.is_integer or known.sqltype.is_decimal):
        raise writing.words.refused(f"{operator} of {known.sqltype}")
    return writing.words.exact(operator, _operand(writing, left), _operand(writing, right), known)


def _shifted(writing: Writing, node: exp.Expression, known: Known) -> str:
    """A date and a constant period: only where the sum was proved to be within the years 1 to 9999."""
    span, start = node.expression, writing.of(node.this)
    called = span.name.lower() if isinstance(span, exp.Anonymous) else ""
    parts = {"to_months": "months", "to_days": "days"}
    if called not in parts or start.limits is None or known.limits is None or not within_years(known):
        raise writing.words.refused("a date and a period", "write the date itself")
    (amount,) = span.expressions
    return writing.words.later(writing.value(node.this), parts[called], writing.value(amount), known.sqltype)


def _operand(writing: Writing, node: exp.Expression) -> Side:
    """An operand of an exact type."""
    return Side(writing.value(node), writing.of(node))


def _side(writing: Writing, node: exp.Expression) -> Side:
    """An operand of DOUBLE."""
    text = writing.coerced(node, DOUBLE)
    return Side(text, writing.of(node), _least(writing, node), constant_of(writing.words, node))


def _least(writing: Writing, node: exp.Expression) -> Fraction:
    """The least that a number can be, either way, if it is not zero."""
    point, known = constant_of(writing.words, node), writing.of(node)
    if point:
        return abs(point)
    if isinstance(node, exp.Paren | exp.Neg):
        return _least(writing, node.this)
    if not known.sqltype.is_float:
        return _grid(known.sqltype)
    if isinstance(node, exp.Cast) and not writing.of(node.this).sqltype.is_float:
        # one rounding moves nothing by half of it
        return _grid(writing.of(node.this).sqltype) / 2
    if known.limits is not None and (known.limits.lower > 0 or known.limits.upper < 0):
        return max(min(abs(known.limits.lower), abs(known.limits.upper)), LEAST)
    return LEAST


def _grid(sqltype: SqlType) -> Fraction:
    """The least step of an exact type."""
    return Fraction(1, 10**sqltype.scale) if sqltype.is_decimal else Fraction(1)


def _division(writing: Writing, node: exp.Expression) -> str:
    known = writing.of(node)
    if not known.sqltype.is_integer:
        raise writing.words.refused(f"% of {known.sqltype}", "cast it to an integer before")
    operator = "//" if isinstance(node, exp.IntDiv) else "%"
    return writing.words.divided(operator, _operand(writing, node.this), _operand(writing, node.expression), known)


def _right_shift(writing: Writing, node: exp.Expression) -> str:
    return writing.words.shifted(writing.value(node.this), writing.value(node.expression))


def _negative(writing: Writing, node: exp.Expression) -> str:
    known = writing.of(node)
    if not known.sqltype.is_number or (is_narrow(known.sqltype) and not fits_bigint(known)):
        raise writing.words.refused(f"- of {known.sqltype}")
    return writing.words.negated(writing.value(node.this), known.sqltype)


def _joined(writing: Writing, node: exp.Expression) -> str:
    return f"({writing.coerced(node.this, VARCHAR)} || {writing.coerced(node.expression, VARCHAR)})"


# --- conditions -------------------------------------------------------------------------------------------------------


def _compared(writing: Writing, node: exp.Expression) -> str:
    kind = type(node).__name__
    left, right = writing.beside([node.this, node.expression])
    return f"({left} {_COMPARISONS.get(kind) or _DISTINCT[kind]} {right})"


def _between(writing: Writing, node: exp.Expression) -> str:
    value, low, high = writing.beside([node.this, node.args["low"], node.args["high"]])
    return f"({value} BETWEEN {low} AND {high})"


def _among(writing: Writing, node: exp.Expression) -> str:
    if node.args.get("query") is not None:
        return f"({writing.value(node.this)} IN ({writing.query(node.args['query'].this)}))"
    value, *listed = writing.beside([node.this, *node.expressions])
    return writing.words.among(value, listed, writing.of(node.this).sqltype)


def _connected(writing: Writing, node: exp.Expression) -> str:
    """AND and OR, without recursion along a chain."""
    waiting, parts = [node], []
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            waiting += [part.expression, part.this]
        else:
            parts.append(_condition(writing, part))
    return "(" + (" AND " if isinstance(node, exp.And) else " OR ").join(parts) + ")"


def _condition(writing: Writing, node: exp.Expression) -> str:
    return writing.words.cast("NULL", BOOLEAN) if isinstance(node, exp.Null) else writing.value(node)


def _tested(writing: Writing, node: exp.Expression) -> str:
    if writing.of(node.this).sqltype == NULL:
        return "true"
    word = "NULL" if isinstance(node.expression, exp.Null) else "TRUE" if node.expression.this else "FALSE"
    return f"({writing.value(node.this)} IS {word})"


def _like(writing: Writing, node: exp.Expression) -> str:
    """LIKE of a constant; without ESCAPE nothing escapes."""
    inner = node.this if isinstance(node, exp.Escape) else node
    if not isinstance(inner, exp.Like):
        raise writing.words.refused(_named(inner), "use LIKE")
    if not isinstance(inner.expression, exp.Literal):
        raise writing.words.refused("LIKE of what is no constant")
    escape = node.expression.name if isinstance(node, exp.Escape) else ""
    return writing.words.like(writing.coerced(inner.this, VARCHAR), inner.expression.name, escape)


# --- choices ----------------------------------------------------------------------------------------------------------


def _case(writing: Writing, node: exp.Expression) -> str:
    sqltype = writing.of(node).sqltype
    parts = []
    for branch in node.args["ifs"]:
        parts.append(f"WHEN {_condition(writing, branch.this)} THEN {_chosen(writing, branch.args['true'], sqltype)}")
    default = node.args.get("default")
    last = "" if default is None else f" ELSE {_chosen(writing, default, sqltype)}"
    return f"(CASE {' '.join(parts)}{last} END)"


def _chosen(writing: Writing, node: exp.Expression, sqltype: SqlType) -> str:
    return "NULL" if sqltype == NULL else writing.coerced(node, sqltype)


def _first(writing: Writing, node: exp.Expression) -> str:
    """COALESCE, LEAST, GREATEST: both skip NULL here and there."""
    sqltype = writing.of(node).sqltype
    values = [_chosen(writing, part, sqltype) for part in (node.this, *node.expressions)]
    return f"{type(node).__name__.upper()}({', '.join(values)})" if len(values) > 1 else values[0]


def _nullif(writing: Writing, node: exp.Expression) -> str:
    left, right = writing.beside([node.this, node.expression])
    return f"(CASE WHEN {left} = {right} THEN NULL ELSE {writing.value(node.this)} END)"


# --- calls ------------------------------------------------------------------------------------------------------------


def _called(writing: Writing, node: exp.Expression) -> str:
    rule = FUNCTIONS.get(node.name.lower())
    if rule is None:
        raise writing.words.refused(f"{node.name.upper()}()")
    args = list(node.expressions)
    return rule(
        writing.words, [writing.value(arg) for arg in args], [writing.of(arg) for arg in args], writing.of(node)
    )


RULES: Mapping[str, Callable[[Writing, exp.Expression], str]] = {
    "Column": _column,
    "Literal": _literal,
    "Null": lambda writing, node: "NULL",
    "Boolean": lambda writing, node: "true" if node.this else "false",
    "Placeholder": _placeholder,
    "Parameter": _placeholder,
    "Paren": lambda writing, node: f"({writing.value(node.this)})",
    "Cast": _cast,
    "TryCast": _cast,
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    "IntDiv": _division,
    "Mod": _division,
    "BitwiseRightShift": _right_shift,
    "Neg": _negative,
    "DPipe": _joined,
    **dict.fromkeys((*_COMPARISONS, *_DISTINCT), _compared),
    "Between": _between,
    "In": _among,
    "And": _connected,
    "Or": _connected,
    "Not": lambda writing, node: f"(NOT {_condition(writing, node.this)})",
    "Is": _tested,
    "Like": _like,
    "ILike": _like,
    "Escape": _like,
    "Case": _case,
    "Coalesce": _first,
    "Least": _first,
    "Greatest": _first,
    "Nullif": _nullif,
    "Exists": lambda writing, node: f"EXISTS ({writing.query(node.this)})",
    "Subquery": lambda writing, node: f"({writing.query(node.this)})",
    "Anonymous": _called,
}
