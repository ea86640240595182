"""Every statement of refuse.sql: refused before any data is read, at loss 0, in one line that says what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.core.domains import interval
from dpsql.core.errors import Error
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.statements import Statement, read, useful

EXAMPLES = Path(__file__).parents[3] / "examples"
STATEMENTS = read("refuse.sql")
MORE = read("suggested.sql")


@pytest.fixture(scope="module")
def sessions() -> Iterator[dict[str, Session]]:
    opened = {
        name: open_session(EXAMPLES / name / "schema.toml", None, ":memory:")
        for name in sorted({s.schema for s in STATEMENTS})
    }
    yield opened
    for session in opened.values():
        session.close()


@pytest.mark.few(28)
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.sql[:70])
def test_refused(statement: Statement, sessions: dict[str, Session], monkeypatch: pytest.MonkeyPatch) -> None:
    session = sessions[statement.schema]
    before = session.execute("SELECT 1").receipt.remaining

    def reached(*_: object) -> None:
        raise AssertionError("the engine was reached")

    monkeypatch.setattr(type(session._world.dataset.engine), "exact", reached)
    monkeypatch.setattr(type(session._world.dataset.engine), "public_table", reached)
    with pytest.raises(Error) as refused:
        session.execute(statement.sql, statement.parameters)
    assert useful(refused.value), str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
    assert session.execute("SELECT 1").receipt.remaining == before
    budget = session._world.dataset.schema.privacy.budget
    assert before.epsilon == budget.epsilon and before.delta <= budget.delta


def refusal(session: Session, sql: str) -> str:
    with pytest.raises(Error) as refused:
        session.execute(sql)
    return str(refused.value).split("\n")[0]


@pytest.mark.parametrize(
    ("schema", "column", "suggested"),
    [
        ("randhie", "income", "AVG(income)"),
        ("randhie", "person_id", "COUNT(*)"),
        ("randhie", "site", "COUNT(site)"),
        ("nhefs", "sex", "COUNT(sex)"),
    ],
)
def test_what_a_bare_column_is_told_to_write_is_accepted(
    schema: str, column: str, suggested: str, sessions: dict[str, Session]
) -> None:
    table = {"randhie": "person", "nhefs": "patients"}[schema]
    assert f"write {suggested}" in refusal(sessions[schema], f"SELECT {column} FROM {table}")
    assert sessions[schema].explain(f"SELECT {suggested} FROM {table}")


def test_an_average_of_years_is_not_suggested() -> None:
    declared = read_schema(EXAMPLES / "nhefs" / "schema.toml")
    patients = declared.tables[0]
    for bounds, suggested in ((interval(1971, 1992), "COUNT(age)"), (interval(25, 74), "AVG(age)")):
        columns = tuple(replace(c, domain=bounds) if c.name == "age" else c for c in patients.columns)
        schema = replace(declared, tables=(replace(patients, columns=columns), *declared.tables[1:]))
        with closing(open_session(schema, None, ":memory:")) as session:
            assert f"write {suggested}" in refusal(session, "SELECT age FROM patients")


def test_every_refusal_has_its_suggestion() -> None:
    assert all(one.says and one.followed for one in [*STATEMENTS, *MORE])
    assert len(MORE) >= 40


@pytest.mark.few(22)
@pytest.mark.parametrize("one", [*STATEMENTS, *MORE], ids=lambda one: one.sql[:70])
def test_what_a_refusal_suggests_is_accepted(one: Statement, sessions: dict[str, Session]) -> None:
    """The statement that one writes after reading the message gets a plan, and costs nothing until it is run."""
    session = sessions[one.schema]
    before = session.execute("SELECT 1").receipt.remaining
    with pytest.raises(Error) as refused:
        session.execute(one.sql)
    first = str(refused.value).split("\n")[0]
    assert useful(refused.value), first
    assert any(part in first.partition("; ")[2] for part in one.says), first
    if one.followed.startswith("SET "):
        session.execute(one.followed)
        session.execute(f"RESET {one.followed.split()[1]}")
    else:
        session.explain(one.followed)
    assert session.execute("SELECT 1").receipt.remaining == before
