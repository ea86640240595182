"""CREATE SYNTHETIC TABLE name OPTIONS (...) AS SELECT keys FROM cube, and DROP SYNTHETIC TABLE, by their words alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dpsql.core.errors import error
from dpsql.core.spans import Span
from dpsql.planner.cube_terms import CreateSynthetic, DropSynthetic, misshapen, name_at

SHAPE = "write CREATE SYNTHETIC TABLE name OPTIONS (rows = 1000) AS SELECT * FROM cube"
NOUN = "synthetic table"
MOST_ROWS = 1_000_000
_NAMES = {"rows": (1, MOST_ROWS), "seed": (0, 2**62)}
"""The options, and the least and the most that each may be."""


def read_drop_synthetic(tokens: Sequence[Token]) -> DropSynthetic:
    """Read DROP SYNTHETIC TABLE and a name. Raises 101."""
    name, end = name_at(tokens, 3, NOUN, SHAPE)
    _nothing_behind(tokens, end, "DROP SYNTHETIC TABLE and a name")
    return DropSynthetic(name, _span(tokens[3]))


def read_synthetic(sql: str, tokens: Sequence[Token]) -> CreateSynthetic:
    """Read CREATE SYNTHETIC TABLE. Raises 101, 104."""
    name, at = name_at(tokens, 3, NOUN, SHAPE)
    words = [token.text.upper() for token in tokens]
    options: dict[str, int] = {}
    if words[at : at + 2] == ["OPTIONS", "("]:
        close = next((i for i in range(at, len(words)) if words[i] == ")"), None)
        if close is None:
            raise error(101, "OPTIONS( is never closed", hint="write OPTIONS (rows = 1000)")
        for is_comma, piece in groupby(tokens[at + 2 : close], lambda token: token.token_type == TokenType.COMMA):
            if not is_comma:
                options |= _option([token.text for token in piece])
        at = close + 1
    last = tokens[min(at, len(tokens) - 1)]
    if words[at : at + 2] != ["AS", "SELECT"] or "FROM" not in words[at:]:
        raise misshapen(last, "AS SELECT keys FROM a cube is missing", SHAPE)
    end = at + words[at:].index("FROM")
    columns = tuple(_columns(tokens[at + 2 : end], tokens[end]))
    cube, behind = name_at(tokens, end + 1, "cube", SHAPE)
    _nothing_behind(tokens, behind, "the name of the cube")
    return CreateSynthetic(name, sql, cube, _span(tokens[end + 1]), columns, options.get("rows"), options.get("seed"))


def _option(piece: Sequence[str]) -> dict[str, int]:
    name, value = piece[0].lower(), "".join(piece[2:]).replace("_", "")
    if name not in _NAMES:
        raise error(104, f"a {NOUN} has no option {name[:40]!r}", hint="its options are rows and seed")
    least, most = _NAMES[name]
    if list(piece[1:2]) != ["="] or not value.isdecimal() or not least <= int(value) <= most:
        raise error(104, f"{name} must be a whole number from {least} to {most:,}", hint=f"write {name} = 1000")
    return {name: int(value)}


def _columns(tokens: Sequence[Token], after: Token) -> list[str]:
    """The keys that are named; none for *."""
    if [token.text for token in tokens] == ["*"]:
        return []
    found = []
    for is_comma, piece in groupby(tokens, lambda token: token.token_type == TokenType.COMMA):
        if not is_comma:
            parts = list(piece)
            if len(parts) != 1:
                raise misshapen(parts[0], "the columns are keys of the cube, each by its name", SHAPE)
            found.append(parts[0].text)
    if not found:
        raise misshapen(after, "the columns are missing", SHAPE)
    return found


def _nothing_behind(tokens: Sequence[Token], end: int, what: str) -> None:
    if end < len(tokens):
        raise error(101, f"nothing stands behind {what}", hint="leave it out", span=_span(tokens[end]))


def _span(token: Token) -> Span:
    return Span(token.start, token.end + 1)
