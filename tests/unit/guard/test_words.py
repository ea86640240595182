"""Regions in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsql
from dpsql.core.errors import Error
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.opened import clinic_data

TOTAL = "SELECT COUNT(*) FROM patient"


@pytest.fixture
def session() -> Iterator[Session]:
    with clinic_data(clinic.schema_text(guard="block"), {name: [] for name in clinic.DDL}).without_noise() as found:
        yield found


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("born > DATE '1995-06-01'", "born >= '1995-06-02'"),
        ("born > DATE '9999-12-31'", "born >= 'infinity'"),
        ("CAST(born AS TIMESTAMP) < TIMESTAMP '1995-06-01 12:30:00'", "born <= '1995-06-01'"),
        ("born >= DATE_TRUNC('month', DATE '1995-06-11' - INTERVAL 3 DAY)", "born >= '1995-06-01'"),
        ("age < 20 + 10 * 2", "age <= 39"),
        ("age BETWEEN 20 AND 29", "age >= 20 and age <= 29"),
        ("city IN ('a', 'b') AND NOT female", "female <> true and city in ('a', 'b')"),
        ("weight * income > 1000", "((patient.weight * patient.income) > 1000.0)"),
        ("income > (SELECT AVG(income) FROM patient)", "(patient.income > a released value)"),
    ],
)
def test_a_condition(session: Session, condition: str, words: str) -> None:
    lines = session.explain(f"{TOTAL} WHERE {condition}").splitlines()
    assert any(f" asks about {words}: " in line for line in lines), lines[-3:]


def test_beyond_the_calendar(session: Session) -> None:
    """What was asked about a day that Python has no date for can be shown, and refused."""
    session.execute(f"{TOTAL} WHERE born > DATE '9999-12-31'")
    (row,) = session.execute("SHOW GUARD").rows
    assert row[2] == "born >= 'infinity'"
    session.execute(TOTAL)
    assert "602" not in session.explain(f"{TOTAL} WHERE born <= DATE '9999-12-31'")


@pytest.mark.parametrize("constant", ["1e308 * 10", "exp(1000.0)", "1 / 0"])
def test_a_constant_that_is_no_number(session: Session, constant: str) -> None:
    assert "asks about" in session.explain(f"{TOTAL} WHERE income > {constant}")


def test_of_how_many_people_nobody_can_say(session: Session) -> None:
    session.execute(f"{TOTAL} WHERE weight * income > 1000")
    session.execute(f"{TOTAL} WHERE age < 50")
    assert [row[1] for row in session.execute("SELECT id, people FROM dpsql.guard").rows] == [None, 988]


def test_explain_warns_where_the_statement_would(tmp_path: Path) -> None:
    clinic.write(tmp_path, {name: [] for name in clinic.DDL})
    schema = clinic.schema(tmp_path, guard="warn")
    with dpsql.connect(schema, ledger=":memory:") as connection:
        sql = f"{TOTAL} WHERE patient_id <> 3"
        (note,) = connection.execute(sql).notes
        assert f"guard: warns of {note.removeprefix('DPSQL-601: ').partition(';')[0]}" in connection.explain(sql)
    blocked = dpsql.connect(clinic.schema(tmp_path, guard="block"), ledger=":memory:")
    with blocked, pytest.raises(Error, match="DPSQL-601"):
        blocked.explain(sql)
