"""Whom the parts of a statement decide about: a first look at some sample units leaves every decision as all of them make it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import pytest

from dpsql.core.errors import Error
from dpsql.guard import evaluating, units
from dpsql.session.session import Session
from tests.support.opened import Data
from tests.support.tracking import declared

FEW = "(age = 41 AND sex = 'male' AND marital = 4)"
STATEMENTS = [
    "SELECT COUNT(*) FROM patients WHERE age >= 30 AND sex = 'male'",
    "SELECT COUNT(*) FROM patients WHERE age >= 26 AND weight_1971_kg <> 79.04",
    "SELECT COUNT(*) FROM patients WHERE height_cm > 150 AND age >= 25",
    f"SELECT COUNT(*) FROM patients WHERE NOT {FEW}",
    f"SELECT education, SUM(CASE WHEN {FEW} THEN 0 ELSE age END) FROM patients GROUP BY education",
    f"SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT 1 FROM patients q WHERE q.patient_id = p.patient_id AND NOT {FEW})",
    "SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT 1 FROM patients q WHERE q.patient_id = p.patient_id AND q.age > 40)",
    "SELECT SUM(2 + 1 // (1 + ABS(age - 41) + ABS(school_years - 17))), SUM(age // 10) FROM patients",
    "SELECT SUM(age // 10), AVG(LEAST(weight_1971_kg, 100)) FROM patients",
]


@pytest.fixture(scope="module")
def data() -> Iterator[Data]:
    found = Data(declared("nhefs"))
    yield found
    found.close()


def decision(session: Session, sql: str) -> str:
    try:
        session.execute(sql)
    except Error as problem:
        return str(problem)
    return ""


def decisions(data: Data) -> list[str]:
    found = []
    for sql in STATEMENTS:
        with data.without_noise() as session:
            found.append(decision(session, sql))
    return found


def test_a_first_look_decides_as_all_do(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = decisions(data)
    assert {text[:9] for text in whole} == {"", "DPSQL-602"}
    for some in (10, 2_000):
        monkeypatch.setattr(evaluating, "LOOKED_AT", some)
        assert decisions(data) == whole


def test_the_first_look_must_be_followed(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were what few units say taken for all, a part of many would be one of few."""
    monkeypatch.setattr(evaluating, "LOOKED_AT", 10)
    monkeypatch.setattr(evaluating.Evaluating, "exactly", lambda self, block, changes: list(changes))
    with data.without_noise() as session:
        assert decision(session, STATEMENTS[0]).startswith("DPSQL-602")


def drawn(data: Data, sql: str) -> set[str]:
    """The columns that a statement about invented people reads."""
    with data.without_noise() as session:
        decision(session, sql)
        return set(session._world.sample._stored["patients"])


def test_a_star_in_a_constant_draws_no_other_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "SELECT COUNT(*) FROM patients WHERE 2 * marital = 4 OR CAST(marital AS VARCHAR) SIMILAR TO '[1-3].*'"
    with closing(Data(declared("nhefs"))) as data:
        assert drawn(data, asked) == {"marital", "patient_id"}
    monkeypatch.setattr(units, "_TOLD", re.compile(r"\Z(?!)"))
    with closing(Data(declared("nhefs"))) as data:
        assert len(drawn(data, asked)) > 4
