"""Places in a statement, and the carets under them."""

from __future__ import annotations

import pytest

from dpsql.core.spans import Span, caret, span_of
from dpsql.planner.parse import DUCKDB


def shown(sql: str, part: str) -> list[str]:
    start = sql.index(part)
    return caret(sql, Span(start, start + len(part))).split("\n")


def test_the_hull_of_two_spans() -> None:
    assert Span(3, 5) | Span(1, 4) == Span(1, 5)


@pytest.mark.parametrize(
    ("sql", "part", "heading", "column"),
    [
        ("SELECT x FROM t", "x", "  line 1, column 8", 7),
        ("SELECT a,\n  bad\nFROM t", "bad", "  line 2, column 3", 2),
        ("x", "x", "  line 1, column 1", 0),
    ],
)
def test_carets_stand_under_the_span(sql: str, part: str, heading: str, column: int) -> None:
    lines = shown(sql, part)
    assert lines[0] == heading
    assert lines[2] == "    " + " " * column + "^" * len(part)
    assert lines[1][4 + column :].startswith(part)


def test_a_long_line_is_cut_around_the_span() -> None:
    lines = shown("SELECT " + "a, " * 200 + "bad FROM t", "bad")
    assert len(lines[1]) <= 120
    at = lines[2].index("^")
    assert lines[1][at : at + 3] == "bad"


def test_a_call_is_marked_to_its_closing_parenthesis() -> None:
    lines = shown("SELECT SUM((a) + 1) FROM t", "SUM")
    assert lines[2].count("^") == len("SUM((a) + 1)")


def test_a_span_beyond_the_text_does_not_fail() -> None:
    assert caret("SELECT 1", Span(90, 95)).count("^") == 1
    assert caret("", Span(0, 0)).count("^") == 1


def test_the_span_of_a_tree_covers_its_operands() -> None:
    sql = "SELECT abc + def FROM t"
    tree = DUCKDB.parse(sql)[0]
    assert tree is not None
    span = span_of(tree.expressions[0])
    assert span is not None
    assert sql[span.start : span.end] == "abc + def"
