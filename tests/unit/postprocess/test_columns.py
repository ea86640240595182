"""Columns that are known of a text with other numbers in WHERE are those that it is described with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.postprocess import sandbox
from dpsql.postprocess.declared import DeclaredTables
from dpsql.postprocess.sandbox import alike
from tests.support.opened import data_of
from tests.support.statements import read

SCHEMA = data_of(Path(__file__).parents[3] / "examples" / "randhie" / "schema.toml").schema
NUMBERS = (
    "SELECT site + {0}, ROUND(income, 2) FROM person WHERE site > 1",
    "SELECT site FROM person WHERE site > {0} AND income BETWEEN {1} AND {2}.5",
    "SELECT site FROM person WHERE site IN (SELECT site + {0} FROM person WHERE site < {1}) GROUP BY {2}",
    "SELECT a.x, * FROM (SELECT site * {0} AS x, site % {1} FROM person WHERE site < {2}) AS a WHERE x > {2}",
    "SELECT CAST(SUM(income) AS DECIMAL({0}, {1})) FROM person WHERE site > {2} GROUP BY site HAVING COUNT(*) > {1}",
    "SELECT site FROM person WHERE site > {0} UNION SELECT {1} UNION ALL SELECT {1} + site FROM person WHERE site = {2}",
    "SELECT 'WHERE' || {0}, site AS \"WHERE\", {1} AS x FROM person",
    "SELECT site, {0} IS DISTINCT FROM {1} FROM person WHERE site IS DISTINCT FROM {2} ORDER BY site LIMIT {1}",
    "WITH w AS (SELECT {0} AS x FROM person WHERE site > {1}) SELECT x, x + {1} FROM w WHERE x = {2}",
    "SELECT CASE WHEN site > {0} THEN {1} END, DATE '2020-01-{2}' FROM person WHERE DATE '2020-01-{0}' < DATE '2020-02-{1}'",
)
VALUES = (("18", "10", "12"), ("19", "11", "13"), ("18", "12", "28"))
"""Each of them is a day, a width and a place in no list."""


@pytest.fixture
def tables() -> Iterator[DeclaredTables]:
    with closing(DeclaredTables(SCHEMA)) as found:
        yield found


def texts() -> list[str]:
    accepted = [
        one.sql.rstrip(";") for one in read("accept.sql") if one.schema == "randhie" and one.sql.startswith("SELECT")
    ]
    again = [re.sub(r"\b[0-9]+\b", lambda number: str(int(number[0]) + 1), sql) for sql in accepted]
    return [*(text.format(*values) for text in NUMBERS for values in VALUES), *accepted, *again]


def differing(tables: DeclaredTables) -> list[str]:
    found = []
    for text in texts():
        try:
            expected = tables.describe(text)
        except Error:
            continue
        if tables.columns(text) != expected:
            found.append(text)
    return found


def test_columns_are_those_of_the_text(tables: DeclaredTables) -> None:
    assert differing(tables) == []


def test_a_text_with_other_numbers_in_where_is_not_asked_again(
    tables: DeclaredTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    describe = tables.describe
    monkeypatch.setattr(tables, "describe", lambda sql: (asked.append(sql), describe(sql))[1])
    for number in range(5):
        tables.columns(
            f"SELECT site, COUNT(*) FROM person WHERE income > {number}.{number} AND plan = {number} GROUP BY site"
        )
    assert len(asked) == 1


@pytest.mark.parametrize(
    "sql", ["SELECT 1 -- 2", "SELECT /* 1 */ a FROM t WHERE b = 1", "SELECT $$1$$", "SELECT e'\\' || 1"]
)
def test_what_may_hide_a_word_is_asked_as_it_is(sql: str) -> None:
    assert alike(sql) is None


def test_a_planted_hole_outside_of_where_is_found(tables: DeclaredTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "alike", lambda sql: re.sub("[0-9]+", "?", sql))
    assert len(differing(tables)) > 5
