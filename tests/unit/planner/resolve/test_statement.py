"""The SQL of what is computed from released values: nothing in it fails, and a ratio over zero is NULL, wherever it stands."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.planner.parse import Query, parse
from dpsql.planner.resolve.statement import total_text

ZERO = "FROM (SELECT 0 AS n, 'no number' AS s) AS r"


@pytest.mark.parametrize(
    "value",
    [
        "1 / n",
        "CAST(s AS INTEGER)",
        "CAST(1 / n AS DOUBLE)",
        "CAST(CAST(s AS INTEGER) / n AS DOUBLE)",
        "CAST(CAST(CAST(s AS INTEGER) AS BIGINT) // n AS VARCHAR)",
        "SUM(CAST(CAST(s AS INTEGER) AS DOUBLE)) / MAX(n)",
        "STDDEV_POP(CAST(1 % n AS DOUBLE))",
        "STRPTIME(CAST(CAST(s AS DATE) AS VARCHAR), '%Y')",
    ],
)
def test_whatever_is_released_it_is_null(value: str) -> None:
    asked = parse(f"SELECT {value} {ZERO}")
    assert isinstance(asked, Query)
    assert duckdb.sql(total_text(asked.tree)).fetchall() == [(None,)]


def test_a_statement_is_left_as_it_is() -> None:
    asked = parse(f"SELECT CAST(1 / n AS DOUBLE) {ZERO}")
    assert isinstance(asked, Query)
    before = asked.tree.sql()
    total_text(asked.tree)
    assert asked.tree.sql() == before
