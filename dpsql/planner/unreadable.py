"""Text that is no question, or cannot be read: our own words for it, since the parser's carry colour codes and speak of tokens."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dpsql.core.errors import Error, error
from dpsql.core.spans import Span

_FIRST = ("SELECT", "WITH", "FROM", "VALUES", "EXPLAIN", "DESCRIBE", "SHOW", "SET", "RESET")
_INSIDE = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "UNION", "BETWEEN", "SELECT")
_TRANSACTION = "leave it out: dpsql has no transactions"
_INSTEAD = {
    "BEGIN": _TRANSACTION,
    "COMMIT": _TRANSACTION,
    "CREATE": "write WITH name AS (SELECT ...) SELECT ...",
    "ROLLBACK": _TRANSACTION,
    "START": _TRANSACTION,
    "SUMMARIZE": "write DESCRIBE and the name of a table",
    "\\": "open a session for commands: dpsql SCHEMA",
}
_QUOTES = {"`": "`", "[": "]"}
"""The quotes of names in other dialects: the mark that opens them, and the one that closes them."""
_BEFORE = "check the words just before it"
_ENDS = "the statement ends too early: write what is missing"


def not_a_question(token: Token) -> Error:
    """103: a statement that asks nothing, by its first word."""
    word = token.text.split()[0].upper()[:30] if token.text.split() else token.text
    near = difflib.get_close_matches(word, _FIRST, 1, 0.7)
    hint = _INSTEAD.get(word) or (f"did you mean {near[0]}?" if near else "write SELECT ...")
    return error(103, f"{word} is not a question about the data", hint=hint, span=Span(token.start, token.end + 1))


def unreadable(tokens: Sequence[Token], problem: ParseError) -> Error:
    """101: what the parser stopped at, and what is likely to be wrong there."""
    place = problem.errors[0] if problem.errors else {}
    near = str(place.get("highlight") or "").strip()[:40]
    at = next((i for i, t in enumerate(tokens) if (t.line, t.col) == (place.get("line"), place.get("col"))), None)
    if at is None or not near:
        return error(101, f"the text is not readable SQL{f' near {near}' if near else ''}", hint=_BEFORE)
    span = Span(tokens[at].start, tokens[at].end + 1)
    return error(101, f"the text is not readable SQL near {near}", hint=_likely(tokens, at), span=span)


def _likely(tokens: Sequence[Token], at: int) -> str:
    """Suggest a change, by the words around the place where the parser stopped."""
    words = [t.text.upper() for t in tokens[max(0, at - 4) : at + 1]]
    before, here = words[-2] if at else "", words[-1]
    after = tokens[at + 1].text.upper() if at + 1 < len(tokens) else ""
    if (here == "S" and "%" in words) or (here == "%" and after in ("S", "(")):
        if "IN" in words:
            return "write IN (?, ?), with one ? for each value, and give the values beside the statement"
        return "write ? for a parameter, and give its value beside the statement"
    if mark := next((word for word in (before, here) if word in _QUOTES), ""):
        return f'write names as they are, or in double quotes: "{_quoted(tokens, mark)}"'
    if before in ("GROUP", "ORDER", "PARTITION") and here != "BY":
        return f"write {before} BY"
    for word in (before, here):
        meant = difflib.get_close_matches(word, _INSIDE, 1, 0.7)
        if meant and word not in _INSIDE:
            return f"did you mean {meant[0]} in place of {word}?"
    opened = [t.text for t in tokens[: at + 1] if t.token_type in (TokenType.L_PAREN, TokenType.R_PAREN)]
    if opened.count(")") > opened.count("("):
        return "leave it out: it closes what is not open"
    if at == len(tokens) - 1 and here != "%":
        return _ENDS
    if here == "(" and len(words) > 2 and _is_name(tokens[at - 1]) and (_is_name(tokens[at - 2]) or words[-3] == ")"):
        return f"a comma may be missing before {tokens[at - 1].text[:40]}"
    return _BEFORE


def _quoted(tokens: Sequence[Token], mark: str) -> str:
    """The first name that stands between the quotes of another dialect."""
    texts = [t.text for t in tokens]
    begin = texts.index(mark) + 1
    name = " ".join(texts[begin : texts.index(_QUOTES[mark], begin)] if _QUOTES[mark] in texts[begin:] else [])
    return name[:40] or "site"


def _is_name(token: Token) -> bool:
    return token.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
