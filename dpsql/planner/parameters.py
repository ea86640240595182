"""Parameters and the current time become constants of the tree before anything is analysed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dpsql.core.domains import LARGEST_DOUBLE
from dpsql.core.errors import error
from dpsql.planner.walks import every

Parameters = Sequence[object] | Mapping[str, object]


def bind(tree: exp.Expression, parameters: Parameters, now: datetime) -> exp.Expression:
    """The tree with every placeholder and every name of the current time replaced by a constant.

    Raises 108 where placeholders and values do not match, or a value has no SQL constant.
    """
    used: set[str] = set()
    named = every(tree, exp.Placeholder, exp.Parameter, *_MOMENTS)

    def replaced(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Placeholder | exp.Parameter):
            name = node.name or str(node.this)
            used.add(name)
            return constant(_value(name, parameters), name)
        if _is_today(node):
            return _typed(now.date().isoformat(), "DATE")
        if _is_now(node):
            return _typed(now.isoformat(sep=" "), "TIMESTAMP")
        return node

    bound = tree.transform(replaced, copy=False) if named else tree
    given = {str(i + 1) for i in range(len(parameters))} if not isinstance(parameters, Mapping) else set(parameters)
    if given - used:
        raise error(
            108, f"parameters: {len(given)} given, {len(used)} used", hint="give one value for each placeholder"
        )
    return bound


def names_the_moment(tree: exp.Expression) -> bool:
    """True if a tree names the current date or time."""
    return any(_is_today(node) or _is_now(node) for node in every(tree, *_MOMENTS))


_MOMENTS = exp.CurrentDate, exp.CurrentTimestamp, exp.Anonymous
"""Nodes that may name the moment."""


def _is_today(node: object) -> bool:
    return isinstance(node, exp.CurrentDate) or (isinstance(node, exp.Expression) and _is_call(node, "today"))


def _is_now(node: object) -> bool:
    return isinstance(node, exp.CurrentTimestamp) or (isinstance(node, exp.Expression) and _is_call(node, "now"))


def _is_call(node: exp.Expression, name: str) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == name and not node.expressions


def _value(name: str, parameters: Parameters) -> object:
    if isinstance(parameters, Mapping):
        if name in parameters:
            return parameters[name]
    elif name.isascii() and name.isdigit() and len(name) < 6 and 1 <= int(name) <= len(parameters):
        return parameters[int(name) - 1]
    raise error(108, f"the placeholder {name!r} has no value", hint=_of_kind(name, parameters))


def _of_kind(name: str, parameters: Parameters) -> str:
    """Say which parameters go with a placeholder, where those that are given are of the other kind."""
    if isinstance(parameters, Mapping) and name.isdigit():
        return "? and $1 take a list: give [value]; with a dictionary write :name"
    if not isinstance(parameters, Mapping) and len(parameters) and not name.isdigit():
        return f'a name takes a dictionary: give {{"{name[:40]}": value}}; with a list write ?'
    return "give one value for each placeholder"


def _typed(text: str, sqltype: str) -> exp.Expression:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(sqltype, dialect="duckdb"))


_NUMBERS = tuple("biuf")
"""The kinds of numpy's types that are booleans and numbers."""


def constant(value: object, name: str) -> exp.Expression:
    """A Python value, or a number of numpy's, as a constant of the tree."""
    if type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in _NUMBERS:
        value = value.item() if getattr(value, "shape", None) == () else value  # type: ignore[attr-defined]
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int() | Decimal() | Fraction() | float():
            return _number(value, name)
        case str() if is_text(value):
            return exp.Literal.string(value)
        case str():
            raise error(
                108, f"parameter {name} holds a character that is no text", hint="remove NUL and lone surrogates"
            )
        case datetime():
            return _typed(value.replace(tzinfo=None).isoformat(sep=" "), "TIMESTAMP")
        case date():
            return _typed(value.isoformat(), "DATE")
        case time() if value.tzinfo is None:
            return _typed(value.isoformat(), "TIME")
    hint = "give a number, text, date, boolean or None"
    if isinstance(value, list | tuple | set | frozenset):
        hint = "write IN (?, ?), with one ? for each value"
    raise error(108, f"parameter {name} is of the type {type(value).__name__}", hint=hint)


def _is_writable(value: int | float | Decimal | Fraction) -> bool:
    """True if a number is finite and has a constant of reasonable length."""
    if isinstance(value, Decimal):
        return value.is_finite() and -400 < value.adjusted() < 309 and len(value.as_tuple().digits) < 400
    return math.isfinite(value) if isinstance(value, float) else abs(Fraction(value)) <= LARGEST_DOUBLE


def is_text(value: str) -> bool:
    """True if the engine can hold a text: not every version takes NUL, and half a surrogate pair has no UTF-8."""
    return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def _number(value: int | float | Decimal | Fraction, name: str) -> exp.Expression:
    if not _is_writable(value):
        raise error(108, f"parameter {name} is not a finite number of DOUBLE's range", hint="give a smaller number")
    if isinstance(value, Fraction):
        value = float(value)
    size = abs(value)
    text = f"{size!r}" if isinstance(size, float) else f"{size:f}" if isinstance(size, Decimal) else str(size)
    if isinstance(size, float) and "e" not in text:
        text += "e0"
    found: exp.Expression = exp.Literal.number(text)
    return exp.Neg(this=found) if value < 0 else found


_CLOSE_PARAMETERS = re.compile(r"\$\d+[^\s$]*\$")
_PIECE = re.compile(
    r"""(?:\b[eE]'(?:[^'\\]|\\.|'')*'|'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\$(?:[^\W\d]\w*)?\$.*?\$(?:[^\W\d]\w*)?\$)|\$(\d+)""",
    re.DOTALL,
)
"""Text that may hold a dollar which is none of a parameter's, or a parameter with its number."""


def _has_number(tokens: list[Token], position: int) -> bool:
    """True if a number follows a `?` at once."""
    after = tokens[position + 1] if position + 1 < len(tokens) else None
    return after is not None and after.token_type == TokenType.NUMBER and after.start == tokens[position].end + 1


def _names_parameter(tokens: list[Token], position: int) -> bool:
    """True if a colon stands before a parameter's name; in `SELECT n: COUNT(*)` it stands behind an alias."""
    if tokens[position].token_type != TokenType.COLON or position + 1 == len(tokens):
        return False
    before, after = tokens[position - 1], tokens[position + 1]
    named = before.token_type in (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER)
    return not named and after.token_type == TokenType.VAR and after.start == tokens[position].end + 1


def apart(sql: str) -> str:
    """The same text, as long, where `$1,$2` is not read as the beginning of a text in dollars: with `?` for each `$` before a number.

    >>> apart("SELECT 'a$1,$2' WHERE x IN ($1,$2)")
    "SELECT 'a$1,$2' WHERE x IN (?1,?2)"
    """
    if not _CLOSE_PARAMETERS.search(sql):
        return sql
    return _PIECE.sub(lambda found: f"?{found[1]}" if found[1] else found[0], sql)


def numbered(tokens: list[Token]) -> list[Token]:
    """Each `?` as `$1`, `$2`, ... in the order of the text, which the tree does not keep; `?1` as `$1`."""
    found: list[Token] = []
    count = 0
    for position, token in enumerate(tokens):
        if _names_parameter(tokens, position) or (
            token.token_type == TokenType.PLACEHOLDER and _has_number(tokens, position)
        ):
            found.append(Token(TokenType.PARAMETER, "$", token.line, token.col, token.start, token.end))
        elif token.token_type == TokenType.PLACEHOLDER:
            count += 1
            at = (token.line, token.col, token.start, token.end)
            found.append(Token(TokenType.PARAMETER, "$", *at))
            found.append(Token(TokenType.NUMBER, str(count), *at))
        else:
            found.append(token)
    return found
