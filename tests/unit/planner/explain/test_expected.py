"""Expectations of a release from the declared number of people stand in EXPLAIN and beside the answer; they refuse nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise

RANDHIE = Path(__file__).parents[4] / "examples/randhie/schema.toml"
MANY = "SELECT CAST(FLOOR(age) AS INTEGER) AS years, family_size, COUNT(*) FROM person_year GROUP BY ALL"
FEW = "few people may be asked about: a value of fewer than 20, by their noisy number, is not shown"
LONG = "SELECT CAST(FLOOR(income / 10) AS INTEGER) AS band, COUNT(*) FROM person GROUP BY ALL"


def opened(schema: Schema) -> Session:
    return open_session(schema, None, ":memory:", noise=ZeroNoise())


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    found = opened(read_schema(RANDHIE))
    yield found
    found.close()


def test_more_groups_than_people_are_told(session: Session) -> None:
    note, *_ = session.execute(LONG).remarks
    assert note.startswith(
        "3,001 groups and 6,000 declared people leave at most 2 for one, and values of fewer than 20 are not shown"
    )
    assert f"note: {note}" in session.explain(LONG)


def test_a_threshold_beyond_everybody_is_told(session: Session) -> None:
    sql = "/* dpsql: epsilon=0.002 */ SELECT family_size, COUNT(*) FROM person_year GROUP BY 1"
    (note,) = (line for line in session.explain(sql).splitlines() if line.startswith("note: "))
    assert "6,000 are declared: none can be expected" in note
    assert session.execute(sql).remarks[:1] == (note.removeprefix("note: "),)


def test_a_deciding_number_that_is_mostly_noise_is_told(session: Session) -> None:
    sql = "/* dpsql: epsilon=0.001 */ SELECT year, AVG(age) FROM person_year GROUP BY 1 ORDER BY 2 LIMIT 2"
    (note,) = (line for line in session.explain(sql).splitlines() if line.startswith("note: "))
    assert note.startswith("note: a number of people decides what is shown, and it is off by up to ")
    assert "where 6,000 are declared" in note
    answer = session.execute(sql)
    assert answer.remarks[:1] == (note.removeprefix("note: "),)
    assert "note: " not in session.explain(sql.replace("0.001", "0.1"))


@pytest.mark.parametrize("sql", ["SELECT site, COUNT(*) FROM person GROUP BY 1", "SELECT COUNT(*) FROM person"])
def test_nothing_is_told_where_groups_can_be_expected(sql: str, session: Session) -> None:
    assert "note: " not in session.explain(sql)


def test_where_no_number_is_declared_only_the_least_is_told() -> None:
    schema = read_schema(RANDHIE)
    with_none = replace(schema, privacy=replace(schema.privacy, units=None))
    session = opened(with_none)
    assert [line for line in session.explain(LONG).splitlines() if line.startswith("note: ")] == [f"note: {FEW}"]
    session.close()


@pytest.mark.parametrize(
    "sql", ["SELECT COUNT(*) FROM person WHERE site = 1 AND income < 10 AND education_years > 24", MANY]
)
def test_a_statement_that_may_be_about_few_is_told_what_is_not_shown(sql: str, session: Session) -> None:
    """Before it is charged, and beside its answer, whether it has a value or not: by the text alone."""
    assert f"note: {FEW}" in session.explain(sql).splitlines()
    answer = session.execute(sql)
    assert {row[-1] for row in answer.rows} <= {None} and answer.remarks[:1] == (FEW,)
