"""Comparisons, IN, LIKE, IS, AND, OR, NOT: three-valued, typed on both sides, in one canonical form.

`x BETWEEN a AND b` is `x >= a AND x <= b`, `5 < x` is `x > 5`, AND and OR are flat, sorted and without repeats: other spellings of
one condition have one text.
"""

from __future__ import annotations

from dpsql.core.domains import Categories
from dpsql.core.errors import error
from dpsql.core.sqltypes import BOOLEAN, VARCHAR
from dpsql.expressions.conversion import unify
from dpsql.expressions.literals import boolean_literal, literal
from dpsql.expressions.scalar import NULL_TYPE, Scalar
from dpsql.sql.nodes import Binary, Chain, In, Is, Like, Node, Not
from dpsql.sql.trees import in_order

BOTH = Categories((False, True))
MOST_CONDITIONS = 1_000
"""The engine's time grows with the square of their number."""
_MIRROR = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _condition(function: str, args: tuple[Scalar, ...], tree: Node, nullable: bool) -> Scalar:
    return Scalar(function, args, tree, BOOLEAN, BOTH, None, nullable)


def compare(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """left <operator> right, a constant on the right."""
    if left.is_literal and not right.is_literal:
        left, right, operator = right, left, _MIRROR[operator]
    (left, right), _ = unify([left, right], f"the comparison {operator}")
    return _condition(operator, (left, right), Binary(operator, left.tree, right.tree), left.nullable or right.nullable)


def distinct_from(left: Scalar, right: Scalar, negated: bool) -> Scalar:
    """left IS [NOT] DISTINCT FROM right: never NULL."""
    (left, right), _ = unify([left, right], "IS DISTINCT FROM")
    function = "is not distinct from" if negated else "is distinct from"
    return _condition(function, (left, right), Binary(function.upper(), left.tree, right.tree), False)


def between(value: Scalar, low: Scalar, high: Scalar) -> Scalar:
    return conjunction([compare(">=", value, low), compare("<=", value, high)])


def in_list(value: Scalar, options: list[Scalar]) -> Scalar:
    """value IN (constants)."""
    if not all(option.is_literal for option in options):
        return disjunction([compare("=", value, option) for option in options])
    typed, _ = unify([value, *options], "IN")
    ordered = in_order(typed[1:])
    tree = In(typed[0].tree, tuple(o.tree for o in ordered))
    return _condition("in", (typed[0], *ordered), tree, value.nullable or any(o.is_null for o in ordered))


def like(value: Scalar, pattern: Scalar, escape: Scalar | None, ignore_case: bool) -> Scalar:
    """value [I]LIKE 'constant' [ESCAPE 'c']."""
    word = "ILIKE" if ignore_case else "LIKE"
    written = _pattern(word, value, pattern)
    if escape is not None:
        if not (isinstance(escape.value, str) and len(escape.value) == 1 and escape.value.isascii()):
            # The engine takes one byte, and raises on more.
            raise error(106, "ESCAPE needs one ASCII character", hint="write ESCAPE '!'")
        if not _escapes_well(written, escape.value):
            raise error(106, "the pattern ends in the middle of an escape", hint="double the escape character")
    args = (value, pattern) if escape is None else (value, pattern, escape)
    tree = Like(value.tree, pattern.tree, ignore_case, escape.tree if escape is not None else None)
    return _condition(word.lower(), args, tree, value.nullable)


def glob(value: Scalar, pattern: Scalar) -> Scalar:
    """value GLOB 'constant': * for any text, ? for one character, [a-c] and [!a] for one of some. What is no pattern is met by none."""
    _pattern("GLOB", value, pattern)
    return _condition("glob", (value, pattern), Binary("GLOB", value.tree, pattern.tree), value.nullable)


def _pattern(word: str, value: Scalar, pattern: Scalar) -> str:
    """The text of a constant pattern."""
    if value.sqltype not in (VARCHAR, NULL_TYPE):
        raise error(106, f"{word} needs text, not {value.sqltype}", hint="write CAST(... AS VARCHAR) around it")
    if not (pattern.is_literal and isinstance(pattern.value, str)):
        raise error(102, f"the pattern of {word} must be a constant text", hint=f"write {word} '...'")
    return pattern.value


def _escapes_well(pattern: str, escape: str) -> bool:
    """True if no escape character stands last and unpaired, which the engine would raise on."""
    position = 0
    while position < len(pattern):
        position += 2 if pattern[position] == escape else 1
    return position == len(pattern)


def truth(scalar: Scalar) -> Scalar:
    """A condition: booleans as they are; anything else is a type error rather than DuckDB's silent cast."""
    if scalar.sqltype == NULL_TYPE:
        return literal(None, BOOLEAN)
    if not scalar.sqltype.is_boolean:
        raise error(
            106, f"a condition must be true or false, not {scalar.sqltype}", hint="write a comparison, such as ... <> 0"
        )
    return scalar


def negation(scalar: Scalar) -> Scalar:
    scalar = truth(scalar)
    if scalar.is_literal and isinstance(scalar.value, bool):
        return boolean_literal(not scalar.value)
    return _condition("not", (scalar,), Not(scalar.tree), scalar.nullable)


def conjunction(parts: list[Scalar]) -> Scalar:
    return _flat("and", parts)


def disjunction(parts: list[Scalar]) -> Scalar:
    return _flat("or", parts)


def _flat(function: str, parts: list[Scalar]) -> Scalar:
    flat: dict[Node, Scalar] = {}
    for part in parts:
        part = truth(part)
        for piece in part.args if part.function == function else (part,):
            flat.setdefault(piece.tree, piece)
    if len(flat) > MOST_CONDITIONS:
        raise error(
            107,
            f"{len(flat):,} conditions are joined by {function.upper()}; at most {MOST_CONDITIONS:,} are taken",
            hint="write x IN (1, 2, 3) for many values of one column",
        )
    ordered = in_order(flat.values())
    if len(ordered) == 1:
        return ordered[0]
    tree = Chain(function.upper(), tuple(piece.tree for piece in ordered))
    return _condition(function, ordered, tree, any(piece.nullable for piece in ordered))


def is_null(scalar: Scalar) -> Scalar:
    return _condition("is null", (scalar,), Is(scalar.tree, "NULL"), False)


def is_truth(scalar: Scalar, value: bool) -> Scalar:
    scalar = truth(scalar)
    word = "TRUE" if value else "FALSE"
    return _condition(f"is {word.lower()}", (scalar,), Is(scalar.tree, word), False)


def conjuncts(condition: Scalar) -> tuple[Scalar, ...]:
    """The top-level AND parts of a condition, without those that are always true."""
    parts = condition.args if condition.function == "and" else (condition,)
    return tuple(part for part in parts if part.value is not True)
