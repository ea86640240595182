"""Expressions of a checked statement in PostgreSQL's words: each node by the rule of its kind, in the types of words.stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dpsql.core.sqltypes import BOOLEAN, DOUBLE, VARCHAR, SqlType, parse_type
from dpsql.engines.postgres import casts, numbers, words
from dpsql.engines.postgres.casts import coerced
from dpsql.engines.postgres.functions import FUNCTIONS
from dpsql.engines.postgres.numbers import Side
from dpsql.engines.postgres.words import refused
from dpsql.expressions.known import NULL, Known, common, integer

SECRET = '(SELECT "cut" FROM pg_temp."dpsql secret")'
"""Stands for the parameter `$cut`: the secret is in no text and no log (rule 49)."""
_COMPARISONS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_DISTINCT = {"NullSafeEQ": "IS NOT DISTINCT FROM", "NullSafeNEQ": "IS DISTINCT FROM"}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}


@dataclass(frozen=True, slots=True)
class Writing:
    """One statement that is being written.

    known  by the `id` of a node, what its value can be
    query  writes a query inside an expression
    rules  by the parser's name of a node
    """

    known: Mapping[int, Known]
    query: Callable[[exp.Expression], str]
    rules: Mapping[str, Callable[[Writing, exp.Expression], str]]

    def value(self, node: exp.Expression) -> str:
        """An expression. Raises 102."""
        rule = self.rules.get(type(node).__name__)
        if rule is None:
            raise refused(_named(node))
        return rule(self, node)

    def of(self, node: exp.Expression) -> Known:
        """Everything that an expression can be."""
        found = self.known.get(id(node))
        if found is None:
            raise refused(_named(node))
        return found

    def coerced(self, node: exp.Expression, target: SqlType) -> str:
        """An expression as DuckDB makes a value of another type of it by itself."""
        return coerced(self.value(node), self.of(node), target)

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
            raise refused("a comparison of these types")
        return [f"({self.value(nodes[0])})::int", *(self.value(node) for node in nodes[1:])]


def _named(node: exp.Expression) -> str:
    """Name of a node in a refusal."""
    called = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
    return f"{called.upper()}"


# --- what has no parts ------------------------------------------------------------------------------------------------


def _column(writing: Writing, node: exp.Expression) -> str:
    relation = node.text("table")
    return f"{words.name(relation)}.{words.name(node.name)}" if relation else words.name(node.name)


def _literal(writing: Writing, node: exp.Expression) -> str:
    if node.args.get("is_string"):
        return words.text(node.name)
    if node.name.isdigit():
        return f"{node.name}::{words.stored(integer(int(node.name)).sqltype)}"
    if "e" in node.name.lower():
        return f"'{float(node.name)!r}'::float8"
    return f"{node.name}::numeric"


def _placeholder(writing: Writing, node: exp.Expression) -> str:
    if node.name.lower() != "cut":
        raise refused("a parameter")
    return SECRET


# --- casts ------------------------------------------------------------------------------------------------------------


def type_of(node: exp.Expression) -> SqlType:
    """The type that a cast names."""
    written = node.sql("duckdb")
    found = parse_type("HUGEINT" if written == "INT128" else written)
    if found is None:
        raise refused(f"a cast to {written}")
    return found


def _cast(writing: Writing, node: exp.Expression) -> str:
    target, inner = type_of(node.args["to"]), node.this
    constant = constant_of(node)
    if constant is not None:
        return f"'{float(constant)!r}'::float8"
    if isinstance(inner, exp.Literal) and inner.args.get("is_string") and not target.is_text:
        return _typed_constant(inner.name, target)
    return casts.cast(writing.value(inner), writing.of(inner), target, isinstance(node, exp.TryCast))


def _typed_constant(word: str, target: SqlType) -> str:
    if target == DOUBLE and word.lower() == "nan":
        return "'NaN'::float8"
    if not target.is_counted:
        raise refused(f"a constant of type {target}")
    if target.is_temporal and not "0001-01-01" <= word < "9999-12-31 23:59:59.9999995":
        raise refused("a date outside of the years 1 to 9999")
    return f"'{word}'::{words.stored(target)}"


def constant_of(node: exp.Expression) -> Fraction | None:
    """The value of a constant DOUBLE; None of anything else, and where its digits are too many for one rounding."""
    if isinstance(node, exp.Paren):
        return constant_of(node.this)
    if not isinstance(node, exp.Cast) or type_of(node.args["to"]) != DOUBLE:
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
        return numbers.floating(operator, _side(writing, left), _side(writing, right), known)
    if writing.of(left).sqltype.is_temporal and operator in "+":
        return _shifted(writing, node, known)
    if not (known.sqltype.is_integer or known.sqltype.is_decimal):
        raise refused(f"{operator} of {known.sqltype}")
    return numbers.exact(operator, writing.value(left), writing.value(right), known)


def _shifted(writing: Writing, node: exp.Expression, known: Known) -> str:
    """A date and a constant period: only where the sum was proved to be within the years 1 to 9999."""
    span, start = node.expression, writing.of(node.this)
    called = span.name.lower() if isinstance(span, exp.Anonymous) else ""
    parts = {"to_months": "months", "to_days": "days"}
    if called not in parts or start.limits is None or known.limits is None or not words.within_years(known):
        raise refused("a date and a period", "write the date itself")
    (amount,) = span.expressions
    part = f"make_interval({parts[called]} => ({writing.value(amount)})::int)"
    return words.cast(f"{writing.value(node.this)} + {part}", known.sqltype)


def _side(writing: Writing, node: exp.Expression) -> Side:
    """An operand of DOUBLE."""
    text = writing.coerced(node, DOUBLE)
    return Side(text, writing.of(node), _least(writing, node), constant_of(node))


def _least(writing: Writing, node: exp.Expression) -> Fraction:
    """The least that a number can be, either way, if it is not zero."""
    point, known = constant_of(node), writing.of(node)
    if point:
        return abs(point)
    if isinstance(node, exp.Paren | exp.Neg):
        return _least(writing, node.this)
    if not known.sqltype.is_float:
        return numbers.grid(known.sqltype)
    if isinstance(node, exp.Cast) and not writing.of(node.this).sqltype.is_float:
        # one rounding moves nothing by half of it
        return numbers.grid(writing.of(node.this).sqltype) / 2
    if known.limits is not None and (known.limits.lower > 0 or known.limits.upper < 0):
        return max(min(abs(known.limits.lower), abs(known.limits.upper)), numbers.LEAST)
    return numbers.LEAST


def _division(writing: Writing, node: exp.Expression) -> str:
    known = writing.of(node)
    if not known.sqltype.is_integer:
        raise refused(f"% of {known.sqltype}", "cast it to an integer before")
    operator = "//" if isinstance(node, exp.IntDiv) else "%"
    return numbers.divided(operator, writing.value(node.this), writing.value(node.expression), known)


def _right_shift(writing: Writing, node: exp.Expression) -> str:
    return f"(({writing.value(node.this)})::bigint >> ({writing.value(node.expression)})::int)"


def _negative(writing: Writing, node: exp.Expression) -> str:
    known = writing.of(node)
    if not known.sqltype.is_number:
        raise refused(f"- of {known.sqltype}")
    if words.is_narrow(known.sqltype) and not words.fits_bigint(known):
        raise refused(f"- of {known.sqltype}")
    return f"(- ({writing.value(node.this)})::{words.stored(known.sqltype)})"


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
    return f"({value} IN ({', '.join(listed)}))"


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
    return "NULL::boolean" if isinstance(node, exp.Null) else writing.value(node)


def _tested(writing: Writing, node: exp.Expression) -> str:
    if writing.of(node.this).sqltype == NULL:
        return "true"
    word = "NULL" if isinstance(node.expression, exp.Null) else "TRUE" if node.expression.this else "FALSE"
    return f"({writing.value(node.this)} IS {word})"


def _like(writing: Writing, node: exp.Expression) -> str:
    """LIKE of a constant. Without ESCAPE nothing escapes: to PostgreSQL the backslash would."""
    inner = node.this if isinstance(node, exp.Escape) else node
    if not isinstance(inner, exp.Like):
        raise refused(_named(inner), "use LIKE")
    escape = words.text(node.expression.name) if isinstance(node, exp.Escape) else "''"
    return f"({writing.coerced(inner.this, VARCHAR)} LIKE {writing.value(inner.expression)} ESCAPE {escape})"


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
    values = ", ".join(_chosen(writing, part, sqltype) for part in (node.this, *node.expressions))
    return f"{type(node).__name__.upper()}({values})"


def _nullif(writing: Writing, node: exp.Expression) -> str:
    left, right = writing.beside([node.this, node.expression])
    return f"(CASE WHEN {left} = {right} THEN NULL ELSE {writing.value(node.this)} END)"


# --- calls ------------------------------------------------------------------------------------------------------------


def _called(writing: Writing, node: exp.Expression) -> str:
    rule = FUNCTIONS.get(node.name.lower())
    if rule is None:
        raise refused(f"{node.name.upper()}()")
    args = list(node.expressions)
    return rule([writing.value(arg) for arg in args], [writing.of(arg) for arg in args], writing.of(node))


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
