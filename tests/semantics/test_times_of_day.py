"""Columns of times of day: declared, compared, in groups, and their extremes and middle."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import time

import duckdb
import pytest

from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise

SCHEMA = """
[dataset]
name = "shifts"
source = "."
[privacy]
unit = "shift.person"
epsilon = 1e9
delta = 1e-3
units = 500
caps = { epsilon = 1e6, delta = 1e-4 }
query = { epsilon = 1e5, delta = 1e-6 }
[guard]
mode = "off"
[tables.shift]
source = "shift.parquet"
key = ["person"]
[tables.shift.columns]
person = { type = "BIGINT" }
begins = { type = "TIME", bounds = [05:00:00, 21:59:59], nullable = true }
listed = { type = "TIME", domain = [08:00:00, 12:30:00.5] }
wrong  = { type = "TIME", bounds = [05:00:00, 06:00:00] }
"""
ROWS = """SELECT i AS person, CASE WHEN i % 10 > 0 THEN TIME '05:00:00' + to_seconds((i * 7919) % 61200) END AS begins,
    CASE WHEN i % 3 = 0 THEN TIME '08:00:00' ELSE TIME '12:30:00.5' END AS listed, TIME '24:00:00' AS wrong FROM range(500) AS r(i)"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, duckdb.DuckDBPyConnection]]:
    folder = tmp_path_factory.mktemp("shifts")
    (folder / "schema.toml").write_text(SCHEMA)
    plain = duckdb.connect()
    plain.execute(f"CREATE TABLE shift AS {ROWS}")
    plain.execute(f"COPY shift TO '{folder / 'shift.parquet'}' (FORMAT parquet)")
    session = open_session(folder / "schema.toml", None, ":memory:", noise=ZeroNoise())
    yield session, plain
    session.close()
    plain.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*), COUNT(begins) FROM shift WHERE begins > '12:00' OR begins IS NULL",
        "SELECT COUNT(*) FROM shift WHERE begins BETWEEN TIME '08:00:00' AND TIME '09:15:00.25'",
        "SELECT HOUR(begins) AS h, COUNT(*) FROM shift WHERE begins IS NOT NULL GROUP BY 1 HAVING COUNT(*) > 0",
        "SELECT listed, COUNT(*) AS n FROM shift GROUP BY listed",
        "SELECT EXTRACT(minute FROM begins) // 20 AS m, COUNT(*) FROM shift GROUP BY 1",
        "SELECT HOUR(wrong) AS h, COUNT(*) FROM shift WHERE wrong > TIME '23:00:00' GROUP BY 1 HAVING COUNT(*) > 0",
        "SELECT COUNT(*) FROM shift WHERE CAST(begins AS VARCHAR) LIKE '1%' AND COALESCE(begins, listed) <> listed",
        "SELECT SUM(HOUR(begins) * 60 + MINUTE(begins)) FROM shift",
        "SELECT COUNT(*) FROM shift WHERE LEAST(begins, TIME '10:00:00') = TIME '10:00:00'",
        "SELECT COUNT(*) FROM shift WHERE begins = CAST('05:00:00' AS TIME)",
    ],
)
def test_as_plain_duckdb(sql: str, opened: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    session, plain = opened
    found = session.execute(sql)
    cursor = plain.execute(sql)
    assert found.columns == tuple((str(c[0]), str(c[1])) for c in cursor.description or [])
    expected = cursor.fetchall()
    if "HOUR(wrong)" in sql:
        # 24:00:00 is beyond the declared bounds, so no listed hour is its own
        expected = []
    assert sorted(map(repr, found.rows)) == sorted(map(repr, expected))


def test_the_middle_and_the_ends_are_times_of_day(opened: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    session, plain = opened
    found = session.execute(
        "SELECT MIN(begins) AS a, MEDIAN(begins) AS b, MAX(begins) AS c FROM shift WHERE listed >= '00:00'"
    )
    assert [kind for _, kind in found.columns] == ["TIME", "TIME", "TIME"]
    ((low, middle, high),) = found.rows
    (exact,) = plain.execute("SELECT median(begins) FROM shift").fetchall()[0]
    assert isinstance(low, time) and isinstance(middle, time) and isinstance(high, time)
    assert time(5) <= low < time(6) and time(21) <= high < time(22)
    assert abs(middle.hour * 60 + middle.minute - exact.hour * 60 - exact.minute) <= 5


def test_parameters_and_what_is_declared(opened: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    session, plain = opened
    sql = "SELECT COUNT(*) FROM shift WHERE begins < $1"
    assert session.execute(sql, [time(9, 30)]).rows == plain.execute(sql, [time(9, 30)]).fetchall()
    assert session.execute("SELECT MAX(wrong) FROM shift").rows == [(time(6),)]
    # a value beyond its bounds counts as the bound
    assert session.execute("SELECT MEDIAN(wrong) FROM shift").rows == [(time(6),)]
