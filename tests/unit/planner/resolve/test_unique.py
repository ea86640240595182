"""Unique columns of a public query; the columns that a star shows: all as they are, or not known."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from dpsql.planner.resolve import unique


@pytest.mark.parametrize(
    ("star", "whole"),
    [("*", True), ("t.*", True), ("* EXCLUDE (a)", False), ("* REPLACE (1 AS a)", False), ("t.* EXCLUDE (a)", False)],
)
def test_a_star_that_leaves_out_or_replaces_is_not_the_whole_row(star: str, whole: bool) -> None:
    select = parse_one(f"SELECT {star} FROM t", dialect="duckdb")
    assert isinstance(select, exp.Select)
    assert unique._is_whole(select.expressions[0]) == whole


ONE, TWO = (unique.Shown(name, ("a", "b"), frozenset({frozenset({0})})) for name in ("t", "u"))


@pytest.mark.parametrize(
    ("sql", "sources", "found"),
    [
        ("SELECT * FROM t", [ONE], [{0}]),
        ("SELECT b + 1 AS x, * FROM t", [ONE], [{1}]),
        ("SELECT b AS x, t.*, b AS y FROM t", [ONE], [{1}]),
        ("SELECT *, a AS again FROM t", [ONE], [{0}]),
        ("SELECT b + 1 AS x, * EXCLUDE (a) FROM t", [ONE], []),
        ("SELECT b + 1 AS x, u.* FROM t", [ONE], []),
        ("SELECT 1 AS x, * FROM t, u", [ONE, TWO], []),
        ("SELECT 1 AS x, t.* FROM t, u", [ONE, TWO], []),
        ("SELECT *, COUNT(*) AS n FROM t GROUP BY 2", [ONE], []),
        ("SELECT DISTINCT b, * FROM t", [ONE], [{0, 1, 2}]),
    ],
)
def test_columns_of_a_star_count_one_by_one(sql: str, sources: list[unique.Shown], found: list[set[int]]) -> None:
    select = parse_one(sql, dialect="duckdb")
    assert isinstance(select, exp.Select)
    assert unique.of_select(select, sources) == frozenset(map(frozenset, found))
