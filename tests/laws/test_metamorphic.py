"""Equalities that hold whatever the data: a whole and its parts, a WITH query and its text, two spellings of one plan."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from dpsql.plan.compiled import Compiled
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema
from tests.semantics.plain import Beside, beside
from tests.support import clinic
from tests.support.planning import compile_statement

SOURCES = [
    "visit",
    "patient p JOIN visit v USING (patient_id)",
    "patient p LEFT JOIN visit v ON v.patient_id = p.patient_id AND v.year > 2",
    "patient p FULL JOIN visit v USING (patient_id)",
    "visit v JOIN item i USING (visit_id) LEFT JOIN drug d USING (drug)",
    "visit a JOIN visit b ON a.patient_id = b.patient_id AND a.year < b.year",
    "(SELECT patient_id, SUM(days) AS days, MAX(year) AS year FROM visit GROUP BY patient_id) t",
    "(SELECT patient_id, days, year, LAG(days) OVER (PARTITION BY patient_id ORDER BY visit_id) AS before FROM visit) t",
    "(SELECT patient_id, days, year FROM visit UNION ALL SELECT patient_id, age, site FROM patient) t",
    "(SELECT DISTINCT patient_id, days, year FROM visit) t",
    "visit v SEMI JOIN patient p ON p.patient_id = v.patient_id AND p.female",
]


def _column(source: str, name: str) -> str:
    return f"a.{name}" if source.startswith("visit a") else name


CONDITIONS = [
    "{days} > 3",
    "{days} BETWEEN 2 AND 9 OR {year} = 3",
    "{days} IN (1, 2, 3) OR {year} = 2",
    "NOT ({days} < 0 AND {year} > 1)",
    "CASE WHEN {days} > 10 THEN NULL ELSE {days} > 1 END",
    "{days} > (SELECT AVG(age) FROM patient) - 40",
]
VALUES = ["COUNT(*)", "COUNT({days})", "SUM({days})", "COUNT(*) FILTER (WHERE {year} = 1)"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    chance = random.Random(11)
    data = next(d for d in (clinic.database(chance, wild=False) for _ in range(100)) if len(d["patient"]) == 9)
    opened = beside(tmp_path_factory.mktemp("parts"), data)
    yield opened
    opened.close()


def _value(opened: Beside, sql: str) -> float:
    ((found,),) = opened.ask(sql).rows
    return float(str(found)) if found is not None else 0.0


@pytest.mark.few(1)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_whole_is_what_fulfils_a_condition_what_does_not_and_what_it_does_not_decide(
    source: str, condition: str, both: Beside
) -> None:
    names = {name: _column(source, name) for name in ("days", "year")}
    p = condition.format(**names)
    for value in VALUES:
        asked = f"SELECT {value.format(**names)} FROM {source}"
        parts = [f"({p})", f"NOT ({p})", f"({p}) IS NULL"]
        assert sum(_value(both, f"{asked} WHERE {part}") for part in parts) == pytest.approx(_value(both, asked)), asked


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    return clinic.schema(tmp_path_factory.mktemp("clinic"))


def _plan(sql: str, schema: Schema) -> tuple[object, ...]:
    """Everything that decides a plan but the names in it: what is stored, what is paid and what can be moved."""
    compiled: Compiled = compile_statement(parse(sql), Options(), schema)
    releases = [part.release for part in compiled.releases]
    return (
        [release.fingerprint for release in releases],
        compiled.plan.loss,
        [measure.sensitivity for release in releases for measure in release.measures],
        [release.limited.limits for release in releases],
    )


INLINED = [
    ("SELECT * FROM visit WHERE cost > 10", "SELECT COUNT(*) FROM {} t WHERE year = 1"),
    ("SELECT patient_id, cost FROM visit", "SELECT SUM(cost), COUNT(*) FROM {} t"),
    ("SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id", "SELECT n, COUNT(*) FROM {} t GROUP BY n"),
    ("SELECT patient_id, SUM(days) AS s FROM visit GROUP BY patient_id HAVING COUNT(*) > 1", "SELECT AVG(s) FROM {} t"),
    ("SELECT * FROM patient JOIN visit USING (patient_id)", "SELECT site, SUM(days) FROM {} t GROUP BY site"),
    ("SELECT patient_id, year FROM visit UNION ALL SELECT patient_id, site FROM patient", "SELECT COUNT(*) FROM {} t WHERE year > 1"),
    ("SELECT DISTINCT patient_id, year FROM visit", "SELECT year, COUNT(*) FROM {} t GROUP BY year"),
    (
        "SELECT patient_id, year, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_id) AS r FROM visit",
        "SELECT COUNT(*) FROM {} t WHERE r = 1",
    ),
    ("SELECT patient_id FROM visit WHERE cost > 20", "SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT patient_id FROM {} t)"),
    ("SELECT patient_id, year FROM visit", "SELECT COUNT(*) FROM {} a JOIN {} b ON a.patient_id = b.patient_id AND a.year < b.year"),
    (
        "SELECT * FROM (SELECT patient_id, cost FROM visit WHERE year = 1) x",
        "SELECT COUNT(*) FROM patient p LEFT JOIN {} t USING (patient_id)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "around"), INLINED)
def test_a_with_query_is_its_text(body: str, around: str, schema: Schema) -> None:
    written = around.replace("{}", f"({body})")
    assert _plan(f"WITH w AS ({body}) {around.replace('{}', 'w')}", schema) == _plan(written, schema)
    assert _plan(f"WITH v AS ({body}), w AS (SELECT * FROM v) {around.replace('{}', 'w')}", schema) == _plan(
        written, schema
    )


SPELLINGS = [
    [
        "SELECT COUNT(*) FROM patient p JOIN visit v ON p.patient_id = v.patient_id",
        "SELECT COUNT(*) FROM patient JOIN visit ON visit.patient_id = patient.patient_id",
        "SELECT COUNT(*) FROM patient, visit WHERE patient.patient_id = visit.patient_id",
        "SELECT COUNT(*) FROM patient AS a JOIN visit AS b USING (patient_id)",
        "SELECT COUNT(*) AS n FROM patient NATURAL JOIN visit",
        "SELECT COUNT(*) FROM patient x JOIN visit y USING (patient_id) ORDER BY 1 LIMIT 5",
    ],
    [
        "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id AND v.cost > 20)",
        "SELECT COUNT(*) FROM patient WHERE EXISTS (SELECT * FROM visit WHERE cost > 20 AND visit.patient_id = patient.patient_id)",
        "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT v.year FROM visit v WHERE v.patient_id = p.patient_id AND v.cost > 20)",
    ],
    [
        "SELECT site, SUM(age) FROM patient GROUP BY site",
        "SELECT p.site AS s, SUM(p.age) FROM patient AS p GROUP BY s",
        "SELECT SUM(age), site FROM (SELECT site, age, income FROM patient) GROUP BY 2 ORDER BY 1",
        "SELECT site, SUM(age) AS a FROM patient GROUP BY ALL HAVING a > 10",
    ],
    [
        "SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id) WHERE n > 1",
        "SELECT COUNT(*) FROM (SELECT patient_id FROM visit GROUP BY patient_id HAVING COUNT(*) > 1)",
        "WITH w AS (SELECT v.patient_id, COUNT(*) AS n FROM visit v GROUP BY 1) SELECT COUNT(*) FROM w WHERE n > 1",
    ],
]


@pytest.mark.parametrize("spellings", SPELLINGS, ids=lambda s: s[0][:40])
def test_equal_plans_have_equal_fingerprints_and_prices(spellings: list[str], schema: Schema) -> None:
    first, *others = [_plan(sql, schema) for sql in spellings]
    for sql, other in zip(spellings[1:], others, strict=True):
        assert other == first, sql
