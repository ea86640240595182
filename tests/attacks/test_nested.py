"""A9, A18: joins, subqueries, set operations and windows over people's rows are refused for nothing; never a free look."""

from __future__ import annotations

from pathlib import Path

from tests.attacks.observing import everywhere, opened, ordinary, see

JOINS = [
    "SELECT COUNT(*) FROM patient JOIN visit USING (patient_id)",
    "SELECT COUNT(*) FROM patient JOIN visit ON true",
    "SELECT COUNT(*) FROM patient, visit",
    "SELECT COUNT(*) FROM visit a JOIN visit b USING (patient_id)",
    "SELECT COUNT(*) FROM visit a JOIN visit b ON a.year = b.year",
    "SELECT COUNT(*) FROM patient LEFT JOIN visit USING (patient_id)",
    "SELECT COUNT(*) FROM patient SEMI JOIN visit USING (patient_id)",
    "SELECT COUNT(*) FROM patient NATURAL JOIN visit",
    "SELECT COUNT(*) FROM patient ASOF JOIN visit ON patient.age >= visit.year",
    "SELECT COUNT(*) FROM patient JOIN drug ON patient.code = drug.drug",
    "SELECT COUNT(*) FROM drug JOIN patient ON patient.code = drug.drug",
    "SELECT COUNT(*) FROM drug, patient",
    "SELECT drug.label, COUNT(*) FROM drug LEFT JOIN patient ON true GROUP BY 1",
    "SELECT COUNT(*) FROM patient CROSS JOIN drug",
]
NESTED = [
    "SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient)",
    "SELECT COUNT(*) FROM patient WHERE age > (SELECT MAX(age) FROM patient)",
    "SELECT COUNT(*) FROM patient WHERE age IN (SELECT age FROM patient LIMIT 1)",
    "SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT patient_id FROM visit)",
    "SELECT COUNT(*) FROM patient WHERE EXISTS (SELECT 1 FROM visit WHERE visit.patient_id = patient.patient_id)",
    "SELECT COUNT(*) FROM patient WHERE NOT EXISTS (SELECT 1 FROM visit)",
    "SELECT COUNT(*) FROM patient WHERE age = ANY (SELECT age FROM patient)",
    "SELECT COUNT(*) FROM patient WHERE age > ALL (SELECT age FROM patient)",
    "SELECT COUNT(*) FROM patient p WHERE age > (SELECT AVG(age) FROM patient q WHERE q.site = p.site)",
    "SELECT label FROM drug WHERE EXISTS (SELECT 1 FROM patient WHERE age = 77)",
    "SELECT label FROM drug WHERE drug IN (SELECT code FROM patient)",
    "SELECT label FROM drug WHERE drug NOT IN (SELECT code FROM patient)",
    "SELECT label FROM drug WHERE drug = (SELECT COUNT(*) FROM patient)",
    "SELECT (SELECT COUNT(*) FROM patient)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM patient WHERE age = 77)",
    "SELECT 1 WHERE 77 IN (SELECT age FROM patient)",
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM patient WHERE age = 77) THEN 1 ELSE 0 END",
    "SELECT label FROM drug ORDER BY (SELECT COUNT(*) FROM patient)",
    "SELECT label FROM drug LIMIT (SELECT COUNT(*) FROM patient)",
    "SELECT COUNT(*) FROM drug HAVING EXISTS (SELECT 1 FROM patient)",
    "SELECT COUNT(*) FROM patient HAVING COUNT(*) > (SELECT COUNT(*) FROM visit)",
    "SELECT COUNT(*) FROM patient ORDER BY (SELECT MAX(age) FROM patient)",
    "SELECT COUNT(*) FROM patient LIMIT (SELECT MAX(age) FROM patient)",
    "SELECT site, COUNT(*) FROM patient GROUP BY site, (SELECT MAX(age) FROM patient)",
    "SELECT COUNT(*) FILTER (WHERE age > (SELECT AVG(age) FROM patient)) FROM patient",
    "SELECT SUM((SELECT MAX(cost) FROM visit)) FROM patient",
    "SELECT * FROM (SELECT COUNT(*) FROM patient) t",
    "SELECT COUNT(*) FROM (SELECT * FROM patient LIMIT 1) t",
    "SELECT COUNT(*) FROM (SELECT DISTINCT age FROM patient) t",
    "SELECT COUNT(*) FROM patient, LATERAL (SELECT patient.age) t",
    "SELECT * FROM drug, LATERAL (SELECT age FROM patient WHERE code = drug.drug) t",
    "WITH p AS (SELECT * FROM patient) SELECT COUNT(*) FROM p",
    "WITH p AS (SELECT age FROM patient ORDER BY age LIMIT 1) SELECT age FROM p",
    "WITH drug AS (SELECT age AS drug FROM patient) SELECT * FROM drug",
    "WITH RECURSIVE p AS (SELECT 1 AS x UNION ALL SELECT age FROM patient) SELECT * FROM p",
    "SELECT COUNT(*) FROM patient UNION ALL SELECT COUNT(*) FROM visit",
    "SELECT age FROM patient UNION SELECT drug FROM drug",
    "SELECT drug FROM drug EXCEPT SELECT code FROM patient",
    "SELECT drug FROM drug INTERSECT SELECT code FROM patient",
    "SELECT COUNT(*) OVER () FROM patient",
    "SELECT SUM(age) OVER (PARTITION BY site) FROM patient",
    "SELECT RANK() OVER (ORDER BY income) FROM patient",
    "SELECT site, COUNT(*), LAG(age) OVER (ORDER BY site) FROM patient GROUP BY site",
    "SELECT site, COUNT(*), SUM(COUNT(*)) OVER (ORDER BY MAX(age)) FROM patient GROUP BY site",
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
    "SELECT DISTINCT age, note FROM patient",
    "SELECT 1 FROM patient",
    "SELECT NULL FROM patient WHERE age = 77",
    "SELECT COUNT(*) FROM patient GROUP BY ROLLUP (site, note)",
    "SELECT DISTINCT ON (site) age FROM patient",
    "SELECT site, age FROM patient GROUP BY site",
    "SELECT site, COUNT(*) FROM patient GROUP BY site HAVING age > 3",
    "SELECT site, COUNT(*) FROM patient GROUP BY site ORDER BY age",
    "VALUES ((SELECT MAX(age) FROM patient))",
    "SELECT COUNT(patient.*) FROM patient",
]


def test_a9_a18_refused_at_no_price_and_alike_everywhere(tmp_path: Path) -> None:
    """An exact look through a join, a subquery, a window or a bare row."""
    for sql, found in everywhere(tmp_path, [*JOINS, *NESTED]).items():
        first = found[0]
        assert first.error is not None, (sql, first.answer)
        assert first.error[1][6] in "1234", (sql, first.error)
        assert first.epsilon == first.delta == 0
        assert all(one == first for one in found), sql


def test_a18_windows_over_released_rows_see_noisy_values_only(tmp_path: Path) -> None:
    """What a window adds up are the numbers that were returned."""
    with opened(tmp_path, ordinary()) as connection:
        rows = connection.execute(
            "SELECT site, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS s FROM patient GROUP BY site"
        ).fetchall()
        assert all(row[2] == sum(int(r[1]) for r in rows) for row in rows)  # type: ignore[call-overload]
        assert see(connection, "SELECT site, COUNT(*) / SUM(COUNT(*)) OVER () FROM patient GROUP BY site").epsilon == 0
