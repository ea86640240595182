"""Rule R1: COUNT and COUNT(DISTINCT) of an identifier, and nothing else of it, whatever stands around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.planner.parse import Query, parse
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise

ALLOWED = [
    "SELECT COUNT(DISTINCT CASE WHEN cost > 10 THEN patient_id END) FROM visit",
    "SELECT COUNT(*) FROM patient p LEFT JOIN visit v ON p.patient_id = v.patient_id WHERE v.patient_id IS NOT NULL",
    "SELECT COUNT(patient_id) FROM patient",
    "SELECT COUNT(DISTINCT patient_id) FROM patient",
    "SELECT COUNT(DISTINCT patient_id) FROM visit WHERE cost > 10",
    "SELECT site, COUNT(patient_id), COUNT(DISTINCT patient_id) FROM patient GROUP BY site",
    "SELECT COUNT(DISTINCT patient_id) FILTER (WHERE cost > 10) FROM visit",
    "SELECT COUNT(*) FROM patient",
    "SELECT COUNT(*) FROM patient WHERE patient_id IS NOT NULL",
    # pairs of somebody's rows, of which no constant says which
    "SELECT COUNT(*) FROM visit a JOIN visit b ON a.patient_id = b.patient_id AND a.visit_id < b.visit_id",
    "SELECT COUNT(DISTINCT a.patient_id) FROM visit a JOIN visit b USING (patient_id) WHERE a.visit_id <> b.visit_id",
]
GUARDED = [
    "SELECT COUNT(DISTINCT CASE WHEN patient_id = 1 THEN patient_id END) FROM visit",
    "SELECT COUNT(*) FROM patient WHERE patient_id = 1000",
    "SELECT COUNT(*) FROM patient WHERE patient_id <> 1000",
    "SELECT COUNT(*) FROM patient WHERE 1000 < patient_id",
    "SELECT COUNT(*) FROM patient WHERE patient_id IN (1000, 1001)",
    "SELECT COUNT(*) FROM patient WHERE patient_id BETWEEN 1 AND 1000",
    "SELECT COUNT(*) FROM patient WHERE CAST(patient_id AS VARCHAR) LIKE '%7'",
    "SELECT COUNT(*) FROM patient WHERE patient_id % 2 = 0",
    "SELECT COUNT(*) FROM patient WHERE age > 30 OR (female AND NOT patient_id = 1000)",
    "SELECT COUNT(*) FROM patient WHERE CASE WHEN patient_id = 1000 THEN FALSE ELSE TRUE END",
    "SELECT COUNT(*) FROM patient WHERE NULLIF(patient_id, 1000) IS NOT NULL",
    "SELECT COUNT(*) FROM patient WHERE (patient_id = 1000) IS NULL",
    "SELECT COUNT(*) FROM patient WHERE COALESCE(NULLIF(patient_id, 1000), 0) = 0",
    "SELECT COUNT(NULLIF(patient_id, 1000)) FROM patient",
    "SELECT COUNT(CASE WHEN patient_id = 1000 THEN 1 END) FROM patient",
    "SELECT COUNT(patient_id + 0) FROM patient",
    "SELECT COUNT(*) FILTER (WHERE patient_id = 1000) FROM patient",
    "SELECT COUNT(patient_id) FILTER (WHERE patient_id = 1000) FROM patient",
    "SELECT COUNT_IF(patient_id = 1000) FROM patient",
    "SELECT SUM(CASE WHEN patient_id = 1000 THEN age ELSE 0 END) FROM patient",
    "SELECT AVG(LEAST(GREATEST(patient_id, 0), 10)) FROM patient",
    "SELECT dp_sum(patient_id, lower := 0, upper := 1) FROM patient",
    "SELECT COUNT(*) FROM visit WHERE visit_id = 3",
    "SELECT COUNT(*) FROM item WHERE visit_id = 3",
    "SELECT COUNT(*) FROM visit a JOIN visit b USING (patient_id) WHERE a.visit_id < b.visit_id + 1",
    "SELECT COUNT(*) FROM visit a JOIN visit b USING (patient_id) WHERE a.visit_id < b.visit_id AND b.visit_id < 9",
    "SELECT site, COUNT(*) FROM patient GROUP BY site HAVING COUNT(*) FILTER (WHERE patient_id = 1000) > 0",
    "SELECT site FROM patient GROUP BY site ORDER BY SUM(IF(patient_id = 1000, 1, 0))",
]
NEVER = [
    "SELECT patient_id, COUNT(*) FROM patient GROUP BY patient_id",
    "SELECT patient_id % 10, COUNT(*) FROM visit GROUP BY 1",
    "SELECT patient_id > 1000, COUNT(*) FROM visit GROUP BY 1",
    "SELECT COUNT(DISTINCT patient_id + 0) FROM visit",
    "SELECT MIN(patient_id) FROM patient",
    "SELECT patient_id FROM patient",
]


def opened(folder: Path, mode: str) -> Session:
    clinic.schema(folder)
    path = folder / "patient.toml"
    path.write_text(path.read_text().replace('mode = "off"', f'mode = "{mode}"\nk = 20'))
    clinic.write(folder, {name: [] for name in clinic.DDL})
    return open_session(path, None, ":memory:", noise=ZeroNoise())


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Session]:
    return {mode: opened(tmp_path_factory.mktemp(mode), mode) for mode in ("off", "warn", "block")}


@pytest.mark.few(3)
@pytest.mark.parametrize("sql", ALLOWED)
def test_counting_people_is_allowed(sql: str, sessions: dict[str, Session]) -> None:
    for session in sessions.values():
        assert session.execute(f"/* dpsql: fresh */ {sql}").notes == ()


@pytest.mark.few(7)
@pytest.mark.parametrize("sql", GUARDED)
def test_anything_else_follows_the_mode(sql: str, sessions: dict[str, Session]) -> None:
    block = sessions["block"]
    before = block.execute("SELECT 1").receipt.remaining
    with pytest.raises(Error) as refused:
        block.execute(sql)
    assert refused.value.code == "DPSQL-601"
    assert "rule R1" in str(refused.value)
    assert block.execute("SELECT 1").receipt.remaining == before
    notes = sessions["warn"].execute(sql).notes
    assert any("rule R1" in note for note in notes)
    assert sessions["off"].execute(sql).notes == ()


@pytest.mark.parametrize("sql", NEVER)
def test_groups_and_values_of_people_are_refused_in_every_mode(sql: str, sessions: dict[str, Session]) -> None:
    for session in sessions.values():
        with pytest.raises(Error) as refused:
            session.execute(sql)
        assert int(refused.value.code.removeprefix("DPSQL-")) < 500


def test_the_decision_does_not_need_the_data(sessions: dict[str, Session], monkeypatch: pytest.MonkeyPatch) -> None:
    session = sessions["block"]

    def reached(*_: object) -> None:
        raise AssertionError("the engine was reached")

    monkeypatch.setattr(type(session._world.dataset.engine), "exact", reached)
    for sql in GUARDED:
        assert isinstance(parse(sql), Query)
        with pytest.raises(Error):
            session.execute(sql)
