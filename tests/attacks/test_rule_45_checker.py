"""Rule 45 (a), (b): printed SQL is read once more before it runs, and what is not proved there is guarded in place or refused."""

from __future__ import annotations

import pytest

from dpsql.core.errors import Error
from dpsql.core.sqltypes import parse_type
from dpsql.planner.total import input_table, total

TYPES = {
    "h": "HUGEINT",
    "i": "INTEGER",
    "b": "BIGINT",
    "d": "DECIMAL(18,3)",
    "w": "DECIMAL(38,10)",
    "f": "DOUBLE",
    "t": "VARCHAR",
}
TYPES |= {"day": "DATE", "at": "TIMESTAMP", "ok": "BOOLEAN", "u": "BIGINT"}
TABLES = {
    "person": input_table([(name, found) for name, text in TYPES.items() if (found := parse_type(text)) is not None])
}


def checked(expression: str, *, everywhere: bool = False) -> str:
    return total(f"SELECT {expression} AS x FROM person", TABLES, everywhere=everywhere)


@pytest.mark.parametrize(
    "expression",
    [
        "CAST(i AS BIGINT) + CAST(i AS BIGINT)",
        "CAST(b AS HUGEINT) * 5",
        "TRY_CAST(t AS DATE)",
        "CAST(d AS DECIMAL(38,3)) * 1000",
        "CASE WHEN f >= 0 THEN sqrt(f) END",
        "CASE WHEN f BETWEEN -5e0 AND 5e0 THEN CAST(f * 2 AS BIGINT) END",
        "CASE WHEN day BETWEEN DATE '0001-01-02' AND DATE '9999-12-30' THEN date_part('year', day) END",
        "CASE WHEN day BETWEEN DATE '0001-01-02' AND DATE '9999-12-30' THEN (day + to_days(CAST(3 AS INTEGER))) END",
        "GREATEST(0, LEAST(CAST(b AS HUGEINT), 7))",
        "count(*)", "sum(b)", "sum(d)", "median(f)", "max(t)",
        "GREATEST(h, (-170141183460469231731687303715884105728))", "NULLIF(-1, b)", "NULLIF(b, 0)", "NULLIF(b, f)",
        "row_number() OVER (PARTITION BY u ORDER BY md5(concat_ws('|', $cut, CAST(u AS VARCHAR))))",
    ],
)  # fmt: skip
def test_what_is_total_stays_as_it_is_printed(expression: str) -> None:
    assert checked(expression) == f"SELECT {expression} AS x FROM person"


@pytest.mark.parametrize(
    "expression",
    [
        "CAST(h AS DECIMAL(38,0)) * CAST(0.0 AS DECIMAL(2,1))",
        "CAST(f AS BIGINT)", "CAST(b AS INTEGER)", "CAST(w AS DECIMAL(38,20))", "CAST(day AS TIMESTAMP)", "CAST(t AS BIGINT)",
        "i + 1", "b * 2", "h + 1", "h * 1", "b // -1", "-b", "abs(b)", "b % -1",
        "sqrt(f)", "ln(f)", "CASE WHEN f >= 0 THEN ln(f) END",
        "date_part('year', day)", "day + to_days(CAST(3 AS INTEGER))", "date_diff('day', day, day)",
        "round(CAST(d AS DECIMAL(18,3)), 1)",
        "CASE WHEN f < 5e0 THEN CAST(f AS BIGINT) END",
        "CASE WHEN i > 3 THEN CAST(f AS BIGINT) END",
    ],
)  # fmt: skip
def test_a_missing_operand_proof_is_guarded_in_place(expression: str) -> None:
    found = checked(expression)
    assert "TRY(" in found
    assert total(found, TABLES) == found or "TRY(" in total(found, TABLES)


@pytest.mark.parametrize(
    "expression",
    [
        "sum(h)", "sum(f)", "sum(w)", "sum(b) OVER (PARTITION BY u) * sum(b) OVER (PARTITION BY u)", "sum(b) * sum(b)",
        "CAST(sum(b) AS BIGINT)", "avg(i)", "string_agg(t)", "error('x')", "random()", "t = 5", "i = t", "day = at", "nosuch(i)",
        "regexp_matches(t, t)", "(SELECT i FROM nosuch)", "t LIKE t", "t LIKE 'a!' ESCAPE '!'", "nosuch", "CAST(i AS BLOB)",
    ],
)  # fmt: skip
def test_what_can_have_no_guard_or_is_not_known_is_refused(expression: str) -> None:
    with pytest.raises(Error, match="not known to be total") as caught:
        checked(expression)
    assert caught.value.code == "DPSQL-902"


def test_a_guard_moves_nothing() -> None:
    """It stays inside the rows that it was printed in: below a join, and on its own side of the cut."""
    rows = "SELECT person.u AS u, CAST(f AS BIGINT) AS x FROM person LEFT JOIN (SELECT u AS v FROM person) AS p ON u = v WHERE i > 0"
    text = f"SELECT count(x) AS s FROM (SELECT u, x FROM ({rows}) AS r) AS cut WHERE u <= 3"
    assert total(text, TABLES).upper() == text.replace("CAST(f AS BIGINT)", "TRY(CAST(f AS BIGINT))").upper()


def test_everywhere_means_every_operator_that_could_fail() -> None:
    found = checked("CASE WHEN f >= 0 THEN sqrt(f) + CAST(i AS BIGINT) END", everywhere=True)
    assert found.count("TRY(") == 1
    assert checked("CAST(i AS BIGINT) + 1", everywhere=True).count("TRY(") == 1
    assert "TRY(" not in checked("count(*)", everywhere=True)


def test_an_overflow_that_the_engine_would_elide_is_guarded_all_the_same() -> None:
    """COUNT(b * b) never multiplies, beside SUM it does: a text whose failures depend on what is left out is no function."""
    assert "TRY(b * b)" in checked("count(b * b)")


def test_deep_text_is_read() -> None:
    deep = "CAST(i AS HUGEINT)"
    for _ in range(200):
        deep = f"LEAST({deep}, 5)"
    assert "TRY" not in checked(deep)
