"""A text is divided where its semicolons end statements, and errors say where in the whole text they are."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from dpsql.clients.terminal.statements import split
from dpsql.core.errors import error
from dpsql.core.spans import Span


def divided(text: str) -> list[str]:
    return [one.sql for one in split(text)]


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT 1;", ["SELECT 1"]),
        (";;SELECT 1;;\n;", ["SELECT 1"]),
        ("SELECT ';' || 'it''s;'; SELECT 2", ["SELECT ';' || 'it''s;'", "SELECT 2"]),
        ('SELECT 1 AS "a;""b;"; SELECT 2', ['SELECT 1 AS "a;""b;"', "SELECT 2"]),
        ("SELECT 1 -- one; 'two\n; SELECT 2", ["SELECT 1 -- one; 'two", "SELECT 2"]),
        ("/* dpsql: epsilon=0.2; */ SELECT 1; SELECT 2", ["/* dpsql: epsilon=0.2; */ SELECT 1", "SELECT 2"]),
        ("SELECT /* a /* b; */ c; */ 1; SELECT 2", ["SELECT /* a /* b; */ c; */ 1", "SELECT 2"]),
        (
            "SELECT $$a;'b$$; SELECT $x$ $$;$y$; $x$; SELECT 3",
            ["SELECT $$a;'b$$", "SELECT $x$ $$;$y$; $x$", "SELECT 3"],
        ),
        ("SELECT $1; SELECT $name; SELECT 3", ["SELECT $1", "SELECT $name", "SELECT 3"]),
        (r"SELECT E'a\';'''; SELECT e'\\'; SELECT name'", [r"SELECT E'a\';'''", r"SELECT e'\\'", "SELECT name'"]),
        ("SELECT 1; -- the end; really\n /* nothing; */", ["SELECT 1"]),
        ("SELECT 'open; SELECT 2", ["SELECT 'open; SELECT 2"]),
        ("SELECT 1; /* open; SELECT 2", ["SELECT 1", "/* open; SELECT 2"]),
        ("", [""]),
        (" -- nothing\n", [" -- nothing\n"]),
    ],
)
def test_semicolons(text: str, statements: list[str]) -> None:
    assert divided(text) == statements
    assert all(one.text[one.start :].startswith(one.sql) for one in split(text))


PARTS = [
    "'",
    '"',
    ";",
    "--",
    "\n",
    "/*",
    "*/",
    "$$",
    "$a$",
    "e'",
    "E'",
    "\\",
    "a",
    "1",
    " ",
    "''",
    '""',
    "; ",
    "x'",
    "/",
    "->",
]


def words(text: str) -> list[Token] | None:
    try:
        return list(Dialect.get_or_raise("duckdb").tokenize(text))
    except TokenError:
        return None


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join))
def test_the_same_semicolons_as_the_parser_sees(text: str) -> None:
    """But for three: a comment that is never closed is a statement here, which is refused; `/*/` is read in several ways by the parser;
    and so is a dollar quote whose mark is no name."""
    tokens = words(text)
    if tokens is None or "/*/" in text or re.search(r"\$[^\s$]*[^\w\s$][^\s$]*\$|\$\d|\d\w*\$", text):
        return
    seen = [token.start for token in tokens if token.token_type == TokenType.SEMICOLON]
    pieces = []
    for begin, end in zip([0, *(at + 1 for at in seen)], [*seen, len(text)], strict=True):
        if any(begin <= token.start < end for token in tokens):
            pieces.append(text[begin:end].strip())
    found = [sql for sql in divided(text) if words(sql) != []]
    assert found == pieces if pieces else len(divided(text)) == 1


def test_the_first_word() -> None:
    assert [one.explains for one in split("/* a */ explain SELECT 1; -- b\nEXPLAINED; SELECT 'EXPLAIN'")] == [
        True,
        False,
        False,
    ]


def test_a_place_is_one_of_the_whole_text() -> None:
    first, second = split("SELECT 1;\n\n  SELECT\n wrong; ", "q.sql")
    problem = error(105, "no wrong", hint="write right", span=Span(8, 13)).located(second.sql)
    assert second.message(problem) == (
        "DPSQL-105: no wrong; write right\n  q.sql, line 4, column 2\n     wrong; \n     ^^^^^"
    )
    assert first.message(error(501, "nothing is left")) == "DPSQL-501: nothing is left\n  q.sql, line 1"
    assert second.message(error(501, "nothing is left")) == "DPSQL-501: nothing is left\n  q.sql, line 3"
    (alone,) = split("SELECT wrong")
    problem = error(105, "no wrong", span=Span(7, 12)).located(alone.sql)
    assert alone.message(problem) == str(problem)
    assert alone.message(error(501, "nothing is left")) == "DPSQL-501: nothing is left"


@pytest.mark.few(1)
@pytest.mark.parametrize("part", ["'a' || ", "/* ", "$a$ ", "(1), ", "e'\\'' ", '""', ";", "-- \n"])
def test_long_texts_take_no_long_time(part: str) -> None:
    started = time.monotonic()
    split("SELECT " + part * 200_000)
    assert time.monotonic() - started < 10
