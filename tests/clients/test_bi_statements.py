"""Dashboards' statements are answered, for nothing where they are public, and for one price however often they are repeated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsql
from dpsql.clients.dbapi.connection import Connection
from dpsql.core.errors import Error
from tests.support import bi
from tests.support.opened import data_of
from tests.support.statements import Statement, read, useful

STATEMENTS = read("bi.sql")
ANSWERED = [s for s in STATEMENTS if "refused" not in s.comment]
GROUPED = "SELECT site, COUNT(*) AS n FROM person GROUP BY site"


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bi.write(tmp_path_factory.mktemp("visits"))


@pytest.fixture
def connection(schema: Path) -> Iterator[Connection]:
    with data_of(schema).connection() as opened:
        yield opened


def outcome(connection: Connection, sql: str) -> str:
    try:
        cursor = connection.execute(sql)
    except Error as problem:
        assert useful(problem), problem
        return f"refused {problem.code.removeprefix('DPSQL-')}"
    cursor.fetchall()
    releases = cursor.privacy.releases
    return f"charged {releases}" if releases else "free"


@pytest.mark.few(7)
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.comment.partition(":")[0])
def test_what_becomes_of_a_statement(connection: Connection, statement: Statement) -> None:
    assert outcome(connection, statement.sql) == statement.comment.rpartition(": ")[2]


@pytest.mark.slow
def test_a_day_of_all_of_them(connection: Connection) -> None:
    """In one connection, with the guard: none stands in the way of another, and the second time round all of it is free."""
    connection.execute("SET dp_buy = on")
    first = [connection.execute(s.sql).fetchall() for s in ANSWERED]
    spent = connection.execute("SHOW BUDGET").fetchall()
    again = [connection.execute(s.sql) for s in ANSWERED]
    assert [cursor.fetchall() for cursor in again] == first
    assert all(cursor.privacy.epsilon == 0 for cursor in again)
    assert connection.execute("SHOW BUDGET").fetchall() == spent


def test_pages_are_those_of_one_answer(connection: Connection) -> None:
    sql = (
        "SELECT kind, DATE_TRUNC('month', at) AS month, COUNT(*) AS n FROM visit GROUP BY kind, 2 ORDER BY n DESC, 1, 2"
    )
    cursor = connection.execute(sql)
    counted = [bars[2] for bars in cursor.accuracy]
    whole = cursor.fetchall()
    # LIMIT counts the groups that are there
    there = [row for row, bar in zip(whole, counted, strict=True) if bar is not None and bar.low > 0]
    pages = [connection.execute(f"{sql} LIMIT 10 OFFSET {start}") for start in range(0, 80, 10)]
    found = [row for page in pages for row in page.fetchall()]
    assert found == [row for row in whole if row in found] and set(there) <= set(found)
    assert all(page.privacy.cached for page in pages)


@pytest.mark.parametrize(
    "wrapped",
    [
        f"SELECT COUNT(*) AS rowcount FROM ({GROUPED}) AS rowcount_qry",
        f"SELECT * FROM ({GROUPED}) AS virtual_table LIMIT 1",
        f"SELECT site, SUM(n) AS n FROM ({GROUPED}) AS virtual_table GROUP BY site ORDER BY n DESC LIMIT 100",
        f"SELECT SUM(n) FROM ({GROUPED}) AS source",
        "SELECT COUNT(*) AS rowcount FROM (SELECT * FROM person) AS virtual_table",
        f"{GROUPED} HAVING COUNT(1) > 0 ORDER BY n FETCH NEXT 500 ROWS ONLY",
    ],
)
def test_what_is_wrapped_around_an_answer_is_read_off_it(connection: Connection, wrapped: str) -> None:
    connection.execute(GROUPED)
    assert connection.execute(wrapped).privacy.epsilon == 0


CHARTS = [s.sql for s in ANSWERED if s.comment.startswith(("superset", "metabase"))][:10]


@pytest.mark.slow
def test_three_viewers_of_ten_charts_cost_one_opening(schema: Path, tmp_path: Path) -> None:
    """Each has a connection and a name, and opens the dashboard ten times."""
    connections = [dpsql.connect(schema, analyst=name, ledger=tmp_path / "x.ledger") for name in ("ann", "bob", "cyd")]
    shown = [connections[0].execute(sql).fetchall() for sql in CHARTS]
    once = connections[0].execute("SHOW BUDGET").fetchall()
    for _ in range(10):
        for connection in connections:
            assert [connection.execute(sql).fetchall() for sql in CHARTS] == shown
    assert connections[0].execute("SHOW BUDGET").fetchall() == once
    for connection in connections:
        connection.close()
