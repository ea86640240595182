"""Names in a statement: text -> text. The calls of models (predicting.py), and randomized.name in FROM, as the SQL that they stand for.

A question is known by this SQL: by what is released under a name, not by the name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.errors import TokenError
from sqlglot.parser import Parser
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dpsql.accounting.randomized import RandomizedTable
from dpsql.answers.recent import calls_names
from dpsql.core.sqltypes import VARCHAR
from dpsql.planner.parse import DUCKDB
from dpsql.session import models, predicting, randomized
from dpsql.session.world import World
from dpsql.sql.duckdb import literal_sql, quoted

SCHEMA = "randomized"
"""The SQL schema that randomized tables are read in."""
_EXPLAIN = re.compile(r"(?>\s|--[^\n]*\n|/\*.*?\*/)*+EXPLAIN\b", re.IGNORECASE | re.DOTALL)
"""The word, and comments before it: a tokenizer would swallow what it is about."""
_BEFORE = ("FROM", "JOIN", "PIVOT", ",")
_SHORT = 9  # digits and a sign, of any INTEGER
_DESCRIBE = ("DESCRIBE", "DESC")


def expanded(text: str, world: World) -> str:
    """The text with SQL in place of each name. Raises 104, 105 (no such model or table), 107."""
    if not calls_names(text):
        return text
    word = _EXPLAIN.match(text)
    start = word.end() if word is not None else 0
    made = predicting.expanded(_with_tables(text[start:], world), lambda name: models.KIND.known(name, world))
    return text[:start] + made


def _with_tables(text: str, world: World) -> str:
    try:
        tokens = list(DUCKDB.tokenize(text))
    except TokenError:
        return text
    for i in range(len(tokens) - 3, -1, -1):
        if i == 0 or tokens[i].text.lower() != SCHEMA or tokens[i + 1].token_type != TokenType.DOT:
            continue
        end, before = tokens[i + 2].end + 1, tokens[i - 1].text.upper()
        if [token.token_type for token in tokens[i + 3 : i + 4]] == [TokenType.DOT]:
            # randomized.t.x: the table is read under its own name
            text = text[: tokens[i].start] + text[tokens[i + 2].start :]
        elif i == 1 and before in _DESCRIBE:
            text = _described(randomized.KIND.known(tokens[i + 2].text, world)) + text[end:]
        elif before in _BEFORE:
            one = _named(tokens, i, world)
            if one is not None:
                has_own = before == "PIVOT" or _is_aliased(tokens, i + 3)
                text = (
                    text[: tokens[i].start] + _rows(one) + ("" if has_own else f" AS {quoted(one.name)}") + text[end:]
                )
    return text


def _named(tokens: Sequence[Token], i: int, world: World) -> RandomizedTable | None:
    """The table of a name; None where it may be the column of a table that is called so."""
    kind, name = randomized.KIND, tokens[i + 2].text
    return kind.names(world).get(name) if tokens[i - 1].text == "," else kind.known(name, world)


def _is_aliased(tokens: Sequence[Token], i: int) -> bool:
    """True if a name of its own follows."""
    return i < len(tokens) and tokens[i].token_type in (
        TokenType.ALIAS,
        TokenType.IDENTIFIER,
        *Parser.TABLE_ALIAS_TOKENS,
    )


def _rows(one: RandomizedTable) -> str:
    """Its values, each with its reports, its debiased count and the half-width of that."""
    found = zip(one.values, randomized.numbers(one), strict=True)
    rows = (
        f"({value}, {reports}::BIGINT, {estimate!r}::DOUBLE, {width!r}::DOUBLE)"
        for value, (reports, estimate, width) in found
    )
    columns = f"{quoted(one.column)}, reports, estimate, half_width"
    return f"(SELECT * FROM (VALUES {', '.join(rows)}) AS reported({columns}))"


def _described(one: RandomizedTable) -> str:
    """Its columns, as DESCRIBE shows those of any table; values are whole numbers, texts, or true and false."""
    first = one.values[0]
    small = "INTEGER" if all(len(value) <= _SHORT for value in one.values) else "BIGINT"
    own = "VARCHAR" if first.startswith("'") else "BOOLEAN" if first.upper() in ("TRUE", "FALSE") else small
    columns = [(one.column, own), ("reports", "BIGINT"), ("estimate", "DOUBLE"), ("half_width", "DOUBLE")]
    nothing = "CAST(NULL AS VARCHAR)"
    rows = (
        f"({literal_sql(name, VARCHAR)}, '{kind}', 'NO', {nothing}, {nothing}, {nothing})" for name, kind in columns
    )
    named = 'column_name, column_type, "null", "key", "default", extra'
    return f"SELECT * FROM (VALUES {', '.join(rows)}) AS described({named})"
