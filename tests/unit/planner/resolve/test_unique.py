"""The columns that a star shows: all as they are, or not known."""

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
