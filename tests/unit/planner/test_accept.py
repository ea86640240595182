"""Every statement of accept.sql is answered, with as many releases as it says, at its price."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.planner.parse import Query, parse
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.opened import data_of
from tests.support.statements import Statement, read

EXAMPLES = Path(__file__).parents[3] / "examples"
STATEMENTS = read("accept.sql")

FREE = (
    "SELECT 1;",
    "SET ",
    "SELECT DISTINCT site",
    "FROM plan GROUP BY",
    "EXPLAIN",
    "SELECT * FROM person WHERE 1 = 0",
    "SELECT 1 FROM person LIMIT 1",
    "WHERE income IS NULL LIMIT 1",
    "WHERE site > 6 GROUP BY",
    "SELECT MIN(income), MAX(income) FROM person;",
    "SHOW TABLES",
    "DESCRIBE",
    "information_schema",
)
"""Parts of the statements that need no release."""


def is_free(statement: Statement) -> bool:
    return any(word in statement.sql for word in FREE)


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[list[Session]]:
    opened: list[Session] = []
    yield opened
    for session in opened:
        session.close()


def fresh(statement: Statement, sessions: list[Session]) -> Session:
    session = data_of(EXAMPLES / statement.schema / "schema.toml").session()
    sessions.append(session)
    return session


@pytest.mark.few(6)
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.sql[:70])
def test_answered(statement: Statement, sessions: list[Session]) -> None:
    session = fresh(statement, sessions)
    free = is_free(statement)
    answer = session.execute(statement.sql, statement.parameters)
    assert answer.releases == (0 if free else statement.releases or 1)
    assert (answer.receipt.loss.epsilon == 0) == free
    assert answer.receipt.loss.epsilon <= Fraction(1, 2)
    assert answer.columns or statement.sql.startswith("SET")
    assert all(len(row) == len(answer.columns) for row in answer.rows)
    assert [len(row) for row in answer.accuracy] == [len(row) for row in answer.rows]
    again = session.execute(statement.sql, statement.parameters)
    assert again.receipt.loss.epsilon == 0
    assert again.rows == answer.rows
    assert again.cached != free


@pytest.mark.slow
def test_the_whole_file_in_one_session(tmp_path: Path, sessions: list[Session]) -> None:
    folder = EXAMPLES / "randhie"
    text = (folder / "schema.toml").read_text()
    for old, new in (
        ('source = "."', f'source = "{folder}"'),
        ("epsilon = 4.0 ", "epsilon = 100.0 "),
        ("delta   = 1e-6", "delta   = 1e-5\nbuy_again = true"),
        # some of them differ by a few people
        ('mode = "block"', 'mode = "off"'),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "schema.toml").write_text(text)
    session = open_session(tmp_path / "schema.toml", None, tmp_path / "ledger")
    sessions.append(session)
    spent, price = Fraction(0), Fraction(1, 10)
    for statement in STATEMENTS:
        if statement.schema != "randhie":
            continue
        answer = session.execute(statement.sql, statement.parameters)
        price = Fraction(1, 5) if statement.sql.startswith("SET dp_epsilon") else price
        assert (answer.receipt.loss.epsilon == 0) == (is_free(statement) or answer.cached), statement.sql
        assert answer.releases <= (statement.releases or 1)
        if "epsilon=" not in statement.sql:
            assert answer.receipt.loss.epsilon <= price
        spent += answer.receipt.loss.epsilon
    left = session.execute("SELECT 1").receipt.remaining.epsilon
    assert left == 100 - spent
    assert 2 < spent < 10


@pytest.mark.few(6)
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.sql[:70])
def test_explained_for_free(statement: Statement, sessions: list[Session]) -> None:
    if not isinstance(parse(statement.sql, statement.parameters), Query):
        return
    session = fresh(statement, sessions)
    before = session.execute("SELECT 1").receipt.remaining
    assert session.explain(statement.sql, statement.parameters)
    assert session.execute("EXPLAIN " + statement.sql, statement.parameters).columns == (("plan", "VARCHAR"),)
    assert session.execute("SELECT 1").receipt.remaining == before
