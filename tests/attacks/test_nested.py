"""A9, A18: joins, subqueries, set operations and windows are charged releases within their sensitivity, or refused for nothing."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from tests.attacks.observing import (
    everywhere,
    everywhere_alone,
    heavy,
    missing,
    opened,
    ordinary,
    see,
    sharp,
)
from tests.support import clinic
from tests.support.noise import RecordedNoise
from tests.support.opened import clinic_data
from tests.support.planning import compile_statement, compiled_by

FAN_OUT = [
    "SELECT COUNT(*) FROM patient JOIN visit USING (patient_id)",
    "SELECT COUNT(*) FROM visit a JOIN visit b USING (patient_id)",
    "SELECT COUNT(*) FROM visit a JOIN visit b USING (patient_id) JOIN visit c USING (patient_id)",
    "SELECT COUNT(*) FROM visit a, visit b WHERE a.patient_id = b.patient_id AND a.cost <= b.cost",
    "SELECT COUNT(*) FROM patient LEFT JOIN visit USING (patient_id)",
    "SELECT COUNT(*) FROM visit RIGHT JOIN patient USING (patient_id)",
    "SELECT COUNT(*) FROM patient FULL JOIN visit USING (patient_id)",
    "SELECT COUNT(*) FROM visit a FULL JOIN visit b ON a.patient_id = b.patient_id AND a.year = b.year",
    "SELECT COUNT(*) FROM patient NATURAL JOIN visit",
    "SELECT COUNT(*) FROM patient SEMI JOIN visit ON patient.patient_id = visit.patient_id",
    "SELECT COUNT(*) FROM visit WHERE patient_id IN (SELECT patient_id FROM visit WHERE cost > 12)",
    "SELECT COUNT(*) FROM visit v WHERE NOT EXISTS (SELECT 1 FROM visit w WHERE w.patient_id = v.patient_id AND w.cost > 15)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM visit UNION ALL SELECT patient_id FROM visit UNION ALL SELECT "
    "patient_id FROM patient)",
    "SELECT COUNT(*) FROM (SELECT patient_id, year FROM visit UNION SELECT patient_id, year FROM visit)",
    "SELECT SUM(cost) FROM patient JOIN visit USING (patient_id)",
    "SELECT SUM(a.cost) FROM visit a JOIN visit b USING (patient_id)",
    "SELECT year, COUNT(*) FROM patient JOIN visit USING (patient_id) GROUP BY year",
    "SELECT a.year, b.year, COUNT(*) FROM visit a JOIN visit b USING (patient_id) GROUP BY 1, 2",
    "SELECT site, SUM(cost) FROM patient JOIN visit USING (patient_id) GROUP BY site",
    "SELECT SUM(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id)",
    "SELECT SUM(s) FROM (SELECT patient_id, SUM(cost) AS s FROM visit GROUP BY patient_id)",
    "SELECT n, COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id) GROUP BY n",
    "SELECT SUM(s) FROM (SELECT patient_id, year, SUM(cost) AS s FROM visit GROUP BY patient_id, year)",
    "SELECT COUNT(*) FROM (SELECT patient_id, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY cost) AS r FROM visit) WHERE r > 1",
    "SELECT SUM(d) FROM (SELECT patient_id, cost - LAG(cost) OVER (PARTITION BY patient_id ORDER BY year) AS d FROM visit)",
    "SELECT dp_sum(cost, unit_lower := 0, unit_upper := 60) FROM visit",
    "SELECT SUM((SELECT COUNT(*) FROM visit v WHERE v.patient_id = p.patient_id)) FROM patient p",
    "WITH v AS (SELECT * FROM visit) SELECT COUNT(*) FROM v a JOIN v b USING (patient_id)",
]


def sensitivity(folder: Path, sql: str) -> Fraction:
    """The most that one person moves all the values of a statement with one measure, together, in their own unit."""
    (part,) = compile_statement(parse(sql), Options(), clinic.schema(folder)).releases
    (measure,) = part.release.measures
    term = getattr(measure.statistic, "term", None)
    return Fraction(measure.sensitivity.l1) * (term.quantum if term is not None else 1)


@pytest.mark.few(2)
@pytest.mark.parametrize("sql", FAN_OUT)
def test_a9_a_fan_out_moves_no_more_than_was_derived(tmp_path: Path, sql: str) -> None:
    """One person, or one with a thousand rows, changes a join by at most what its noise was made for."""
    most = sensitivity(tmp_path, sql)
    databases = (ordinary(), missing(), heavy())
    found = [{row[:-1]: float(row[-1]) for row in sharp(data, sql)} for data in databases]  # type: ignore[arg-type]
    for other in found[1:]:
        assert set(other) == set(found[0])
        assert sum(abs(found[0][key] - other[key]) for key in other) <= most + Fraction(1, 100)


def test_a9_a_heavy_person_fills_the_limit(tmp_path: Path) -> None:
    """The test above is not empty: a thousand rows joined to themselves move a count by exactly the derived nine."""
    sql = "SELECT COUNT(*) FROM visit a JOIN visit b USING (patient_id)"
    (with_heavy,), (without,) = (sharp(data, sql) for data in (heavy(), ordinary()))
    assert int(with_heavy[0]) - int(without[0]) == sensitivity(tmp_path, sql) == 9  # type: ignore[call-overload]


CHARGED = [
    *FAN_OUT,
    "SELECT COUNT(*) FROM patient JOIN drug ON patient.code = drug.drug",
    "SELECT COUNT(*) FROM drug JOIN patient ON patient.code = drug.drug",
    "SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient)",
    "SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT patient_id FROM visit)",
    "SELECT COUNT(*) FROM patient WHERE EXISTS (SELECT 1 FROM visit WHERE visit.patient_id = patient.patient_id)",
    "SELECT COUNT(*) FROM patient p WHERE age > (SELECT AVG(age) FROM patient q WHERE q.site = p.site)",
    "SELECT label FROM drug WHERE drug = (SELECT COUNT(*) FROM patient)",
    "SELECT label FROM drug WHERE (SELECT COUNT(*) FROM patient WHERE patient.site = drug.drug) > 3",
    "SELECT (SELECT COUNT(*) FROM patient) AS n",
    "SELECT (SELECT COUNT(*) FROM patient WHERE age = 77) + 1 AS n",
    "SELECT label FROM drug ORDER BY (SELECT COUNT(*) FROM patient)",
    "SELECT COUNT(*) FROM patient HAVING COUNT(*) > (SELECT COUNT(*) FROM visit)",
    "SELECT COUNT(*) FILTER (WHERE age > (SELECT AVG(age) FROM patient)) FROM patient",
    "SELECT * FROM (SELECT COUNT(*) FROM patient) t",
    "WITH p AS (SELECT * FROM patient) SELECT COUNT(*) FROM p",
    "SELECT COUNT(*) FROM patient UNION ALL SELECT COUNT(*) FROM visit",
    "SELECT site FROM patient GROUP BY site HAVING COUNT(*) > 3 INTERSECT SELECT drug FROM drug",
    "SELECT COUNT(*) FROM patient WHERE site IN (SELECT site FROM patient GROUP BY site ORDER BY COUNT(*) DESC LIMIT 1)",
    "SELECT COUNT(*) FROM patient GROUP BY ROLLUP (site, city)",
    "PIVOT patient ON site USING COUNT(*) GROUP BY female",
]


@pytest.mark.slow
def test_a18_what_is_answered_is_charged_alike_everywhere() -> None:
    """The price, the columns and the declared keys of a nested statement do not depend on anybody."""
    for sql, found in everywhere_alone(CHARGED).items():
        assert all(one.error is None and one.epsilon == 1 for one in found), (sql, found[0])
        assert len({(one.delta, repr(one.columns)) for one in found}) == 1, sql


@pytest.mark.slow
def test_a18_the_engine_is_asked_once_for_each_release_and_each_is_noised(monkeypatch: pytest.MonkeyPatch) -> None:
    """No second way to the rows: every exact table that leaves the engine becomes a release with draws of its own."""
    calls: list[str] = []
    original = DuckDBEngine.exact

    def spy(engine: DuckDBEngine, sql: str, *rest: object) -> object:
        calls.append(sql)
        return original(engine, sql, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(DuckDBEngine, "exact", spy)
    data = clinic_data(clinic.schema_text(), ordinary())
    for sql in CHARGED:
        noise = RecordedNoise()
        session = data.session(noise)
        calls.clear()
        answer = session.execute(sql)
        measures = sum(len(part.release.measures) for part in compiled_by(session, parse(sql)).releases)
        session.close()
        assert len(calls) == answer.releases >= 1, sql
        assert len(noise.drawn) >= measures >= answer.releases, sql


@pytest.mark.slow
def test_a18_a_release_inside_a_condition_is_the_noisy_one() -> None:
    """At next to no price the inner average is noise, and what it selects follows the noise, not the people."""
    sql = "SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient)"
    data = clinic_data(clinic.schema_text(), ordinary())
    answers: set[str] = set()
    for _ in range(200):
        if len(answers) > 1:
            break
        session = data.session()
        inner = "/* dpsql: epsilon=0.0001 */ SELECT site FROM patient GROUP BY site HAVING AVG(age) > (SELECT AVG(age) FROM patient)"
        answers.add(repr(session.execute(inner).rows))
        assert session.execute(sql).releases == 2
        session.close()
    assert len(answers) > 1


REFUSED = [
    "SELECT COUNT(*) FROM patient JOIN visit ON true",
    "SELECT COUNT(*) FROM patient, visit",
    "SELECT COUNT(*) FROM visit a JOIN visit b ON a.year = b.year",
    "SELECT COUNT(*) FROM patient ASOF JOIN visit ON patient.age >= visit.year",
    "SELECT COUNT(*) FROM patient ASOF JOIN visit ON patient.patient_id = visit.patient_id AND patient.age >= visit.year",
    "SELECT COUNT(*) FROM drug, patient",
    "SELECT drug.label, COUNT(*) FROM drug LEFT JOIN patient ON true GROUP BY 1",
    "SELECT COUNT(*) FROM patient CROSS JOIN drug",
    "SELECT COUNT(*) FROM patient JOIN drug ON patient.age > drug.drug",
    "SELECT COUNT(*) FROM patient FULL JOIN drug ON patient.code = drug.drug",
    "SELECT COUNT(*) FROM patient WHERE age > (SELECT MAX(code) FROM patient)",
    "SELECT COUNT(*) FROM patient WHERE age IN (SELECT age FROM patient LIMIT 1)",
    "SELECT COUNT(*) FROM patient WHERE NOT EXISTS (SELECT 1 FROM visit)",
    "SELECT COUNT(*) FROM patient WHERE age = ANY (SELECT age FROM patient)",
    "SELECT COUNT(*) FROM patient WHERE age > ALL (SELECT age FROM patient)",
    "SELECT label FROM drug WHERE EXISTS (SELECT 1 FROM patient WHERE age = 77)",
    "SELECT label FROM drug WHERE drug IN (SELECT code FROM patient)",
    "SELECT label FROM drug WHERE drug NOT IN (SELECT code FROM patient)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM patient WHERE age = 77)",
    "SELECT 1 WHERE 77 IN (SELECT age FROM patient)",
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM patient WHERE age = 77) THEN 1 ELSE 0 END",
    "SELECT label FROM drug LIMIT (SELECT COUNT(*) FROM patient)",
    "SELECT COUNT(*) FROM drug HAVING EXISTS (SELECT 1 FROM patient)",
    "SELECT COUNT(*) FROM patient ORDER BY (SELECT MAX(code) FROM patient)",
    "SELECT COUNT(*) FROM patient LIMIT (SELECT MAX(code) FROM patient)",
    "SELECT site, COUNT(*) FROM patient GROUP BY site, (SELECT MAX(code) FROM patient)",
    "SELECT SUM((SELECT MAX(visit_id) FROM visit)) FROM patient",
    "SELECT COUNT(*) FROM (SELECT * FROM patient LIMIT 1) t",
    "SELECT COUNT(*) FROM patient, LATERAL (SELECT patient.age) t",
    "SELECT * FROM drug, LATERAL (SELECT age FROM patient WHERE code = drug.drug) t",
    "WITH p AS (SELECT age FROM patient ORDER BY age LIMIT 1) SELECT age FROM p",
    "WITH drug AS (SELECT age AS drug FROM patient) SELECT * FROM drug",
    "WITH RECURSIVE p AS (SELECT 1 AS x UNION ALL SELECT age FROM patient) SELECT * FROM p",
    "SELECT age FROM patient UNION SELECT drug FROM drug",
    "SELECT drug FROM drug EXCEPT SELECT code FROM patient",
    "SELECT drug FROM drug INTERSECT SELECT code FROM patient",
    "SELECT COUNT(*) OVER () FROM patient",
    "SELECT SUM(age) OVER (PARTITION BY site) FROM patient",
    "SELECT RANK() OVER (ORDER BY income) FROM patient",
    "SELECT site, COUNT(*), LAG(age) OVER (ORDER BY site) FROM patient GROUP BY site",
    "SELECT site, COUNT(*), SUM(COUNT(*)) OVER (ORDER BY MAX(code)) FROM patient GROUP BY site",
    "SELECT site, COUNT(*), COUNT(*) FILTER (WHERE age > 3) OVER () FROM patient GROUP BY site",
    "SELECT COUNT(*) FROM patient QUALIFY ROW_NUMBER() OVER (ORDER BY age) = 1",
    "SELECT SUM(COUNT(*)) FROM patient",
    "SELECT SUM(AVG(age)) FROM patient GROUP BY site",
    "SELECT * FROM patient",
    "SELECT age FROM patient",
    "SELECT patient FROM patient",
    "SELECT p.* FROM patient p",
    "FROM patient",
    "TABLE patient",
    "SELECT * EXCLUDE (age) FROM patient",
    "SELECT COUNT(*), * FROM patient",
    "SELECT age, COUNT(*) FROM patient",
    "SELECT 1 FROM patient",
    "SELECT NULL FROM patient WHERE age = 77",
    "SELECT COUNT(*) FROM patient GROUP BY ROLLUP (site, note)",
    "SELECT DISTINCT ON (site) age FROM patient",
    "SELECT site, age FROM patient GROUP BY site",
    "SELECT site, COUNT(*) FROM patient GROUP BY site HAVING age > 3",
    "SELECT site, COUNT(*) FROM patient GROUP BY site ORDER BY age",
    "VALUES ((SELECT MAX(code) FROM patient))",
    "SELECT COUNT(patient.*) FROM patient",
    "SELECT SUM((SELECT cost FROM visit LIMIT 1)) FROM patient",
    "SELECT COUNT(*) FROM (SELECT * FROM patient ORDER BY age LIMIT 1 OFFSET 1) t",
    "SELECT COUNT(*) FROM patient p WHERE age > (SELECT MAX(code) FROM patient q WHERE q.site = p.site)",
    "SELECT COUNT(*) FROM patient p WHERE age > (SELECT age FROM patient q WHERE q.patient_id = p.patient_id)",
    "SELECT COUNT(*) FROM patient p WHERE age > (SELECT AVG(age) FROM patient q WHERE q.patient_id <> p.patient_id)",
    "SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) OVER (PARTITION BY site) AS n FROM patient) WHERE n = 1",
    "SELECT COUNT(*) FROM (SELECT patient_id, age FROM patient QUALIFY ROW_NUMBER() OVER (ORDER BY age) = 1)",
    "SELECT COUNT(*) FROM (SELECT age FROM patient INTERSECT SELECT days FROM visit)",
    "SELECT COUNT(*) FROM (SELECT patient_id, age FROM patient EXCEPT SELECT visit_id, days FROM visit)",
    "SELECT COUNT(*) FROM (SELECT site, patient_id FROM patient EXCEPT SELECT patient_id, year FROM visit)",
    "SELECT COUNT(DISTINCT CASE WHEN age > 30 THEN patient_id ELSE 0 END) FROM patient",
    "SELECT COUNT(DISTINCT COALESCE(v.patient_id, 0)) FROM patient p LEFT JOIN visit v ON p.patient_id = v.patient_id",
    "SELECT COUNT(*) FROM (SELECT age FROM patient UNION SELECT days FROM visit)",
    "SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id ORDER BY n LIMIT 1)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM patient UNION SELECT patient_id FROM visit LIMIT 1)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM patient EXCEPT SELECT patient_id FROM visit WHERE cost > 12 ORDER BY 1 LIMIT 1)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM patient INTERSECT SELECT patient_id FROM visit OFFSET 1)",
    "SELECT patient_id, n FROM (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id)",
    "WITH v AS (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id) SELECT * FROM v",
    "WITH v AS (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id) SELECT patient_id, COUNT(*) FROM v "
    "GROUP BY patient_id",
    "SELECT MAX(patient_id) FROM (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id)",
    "SELECT income, COUNT(*) FROM patient GROUP BY ROLLUP (income)",
    "PIVOT patient ON site USING COUNT(*)",
    "PIVOT patient ON note USING COUNT(*) GROUP BY site",
    "PIVOT patient ON site USING MAX(code) GROUP BY female",
    "SELECT COUNT(*) FROM patient LIMIT (SELECT COUNT(*) FROM patient)",
]


@pytest.mark.slow
def test_a9_a18_refused_at_no_price_and_alike_everywhere() -> None:
    """An exact look through a join, a subquery, a window or a bare row."""
    for sql, found in everywhere(REFUSED).items():
        first = found[0]
        assert first.error is not None, (sql, first.answer)
        assert first.error[1][6] in "1234", (sql, first.error)
        assert first.epsilon == first.delta == 0
        assert all(one == first for one in found), sql


@pytest.mark.parametrize("operation", ["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
@pytest.mark.parametrize("end", ["LIMIT 1", "ORDER BY 1 LIMIT 1", "OFFSET 1"])
def test_a18_a_limit_on_rows_of_people_is_refused_behind_a_set_operation(operation: str, end: str) -> None:
    """A limit that is left out is another answer than the one that was paid for."""
    rows = f"SELECT patient_id FROM patient {operation} SELECT patient_id FROM visit WHERE cost > 12 {end}"
    with opened(ordinary()) as connection:
        error = see(connection, f"SELECT COUNT(*) FROM ({rows})").error
        assert error is not None and error[1].startswith("DPSQL-402")


def test_a18_windows_over_released_rows_see_noisy_values_only() -> None:
    """The numbers that a window adds up are those that were returned."""
    with opened(ordinary()) as connection:
        rows = connection.execute(
            "SELECT site, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS s FROM patient GROUP BY site"
        ).fetchall()
        assert all(row[2] == sum(int(r[1]) for r in rows) for row in rows)  # type: ignore[call-overload]
        assert see(connection, "SELECT site, COUNT(*) / SUM(COUNT(*)) OVER () FROM patient GROUP BY site").epsilon == 0
