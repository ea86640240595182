"""Names, places and totals mean what they mean in DuckDB: repeated columns, short lists of names, the order of `*`, merged columns,
named windows, NULLs among the values of IN, and names that dpsql could have given itself.

Each statement here was once answered with another meaning, or stands beside one that was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.core.errors import Error, SchemaError
from dpsql.schema.toml import read_schema
from tests.attacks.observing import patient, visit
from tests.semantics.plain import UNLIMITED, Beside, beside
from tests.semantics.test_statements import crowded
from tests.support import clinic


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    opened = beside(tmp_path_factory.mktemp("names"), crowded(7))
    yield opened
    opened.close()


FOLLOWING = "SELECT * FROM visit v JOIN visit w ON v.patient_id = w.patient_id AND w.year = v.year + 1"
TWICE = "SELECT site AS a, age AS a FROM patient"
REPEATED = [
    f"SELECT SUM(year) FROM ({FOLLOWING}) t",
    f"SELECT SUM(year_1) FROM ({FOLLOWING}) t",
    f"SELECT SUM(t.year_1 - t.year), SUM(days), SUM(days_1) FROM ({FOLLOWING}) t",
    f"SELECT COUNT(*) FROM ({TWICE}) t WHERE a > 5",
    f"SELECT COUNT(*) FROM ({TWICE}) t WHERE a_1 > 50",
    f"SELECT SUM(a), SUM(a_1), SUM(t.a_1) FROM ({TWICE}) t",
    f"SELECT a, SUM(a_1) FROM ({TWICE}) t GROUP BY a",
    f"SELECT SUM(x) FROM (SELECT a_1 AS x FROM ({TWICE}) t) u",
    f"WITH t AS ({TWICE}) SELECT SUM(a), SUM(a_1) FROM t",
    "SELECT SUM(a_1_1) FROM (SELECT site AS a, age AS a, site AS a_1 FROM patient) t",
    "SELECT SUM(a_2) FROM (SELECT site AS a, age AS a, score AS a FROM patient) t",
    'SELECT SUM("A_1") FROM (SELECT site AS a, age AS "A" FROM patient) t',
    "SELECT COUNT(*) FROM patient p JOIN (SELECT drug AS x, label AS x FROM drug) d ON p.site = d.x",
    "SELECT COUNT(*) FROM patient p JOIN (SELECT drug AS x, label AS x FROM drug) d ON p.site = d.x WHERE d.x_1 = 'x'",
]
LISTED = [
    "SELECT SUM(age) FROM patient AS r(patient_id, age)",
    "SELECT SUM(age_1) FROM patient AS r(patient_id, age)",
    "SELECT SUM(age) FROM patient AS r(a, b, c)",
    "SELECT SUM(b), SUM(r.age) FROM patient AS r(a, b)",
    "SELECT SUM(age), SUM(b) FROM (SELECT * FROM patient) AS r(a, b)",
    "SELECT SUM(age), SUM(age_1) FROM (SELECT * FROM patient) AS r(a, age)",
    "SELECT COUNT(*) FROM drug AS d(x) JOIN item i ON i.drug = d.x WHERE d.label = 'x'",
    "WITH r(a, b) AS (SELECT * FROM patient) SELECT SUM(age), SUM(b) FROM r",
    "SELECT SUM(b) FROM patient JOIN (SELECT * FROM visit) AS r(a, patient_id, b) USING (patient_id)",
]
STARS = [
    "SELECT SUM(f) FROM (SELECT * FROM drug r JOIN patient p ON r.drug = p.site) AS q(a, b, c, d, e, f)",
    "SELECT SUM(d) FROM (SELECT * FROM drug r JOIN item i USING (drug)) AS q(a, b, c, d, e)",
    "SELECT SUM(c) FROM (SELECT * FROM item i JOIN drug r USING (drug)) AS q(a, b, c, d, e)",
    "SELECT SUM(d) FROM (SELECT * FROM drug r, patient p WHERE r.drug = p.site) AS q(a, b, c, d)",
    "SELECT SUM(f) FROM (SELECT * FROM drug r RIGHT JOIN patient p ON r.drug = p.site) AS q(a, b, c, d, e, f)",
    "SELECT SUM(d) FROM (SELECT * FROM drug r RIGHT JOIN item i USING (drug)) AS q(a, b, c, d, e)",
    "SELECT SUM(d), COUNT(b) FROM (SELECT * FROM visit v RIGHT JOIN patient p USING (patient_id)) AS q(a, b, c, d, e, f, g)",
    "SELECT SUM(d), SUM(h) FROM (SELECT * FROM visit v RIGHT JOIN patient p ON v.patient_id = p.patient_id) AS "
    "q(a, b, c, d, e, f, g, h)",
    "SELECT SUM(d) FROM (SELECT * FROM drug r JOIN patient p ON r.drug = p.site UNION ALL SELECT * FROM drug r JOIN patient p "
    "ON r.drug = p.site WHERE p.age > 50) AS q(a, b, c, d)",
    "SELECT SUM(c) FROM (SELECT * FROM drug r, item i WHERE r.drug = i.drug UNION ALL SELECT i.drug, label, i.* FROM item i "
    "JOIN drug r ON r.drug = i.drug) AS q(a, b, z, c, d)",
    "SELECT SUM(x) FROM (SELECT patient_id, site AS x FROM patient UNION ALL SELECT patient_id, CAST(year AS "
    "INTEGER) AS y FROM visit) t",
]

DEAR, LONG = "(SELECT * FROM visit WHERE cost > 20)", "(SELECT * FROM visit WHERE days > 5)"
EITHER = (
    "(SELECT patient_id, site AS drug FROM patient) p FULL JOIN (SELECT patient_id, CAST(year AS INTEGER) AS drug FROM visit) v "
    "USING (patient_id, drug)"
)
MERGED = [
    f"SELECT COUNT(*) FROM {EITHER} JOIN drug d USING (drug)",
    f"SELECT COUNT(*), COUNT(label) FROM {EITHER} LEFT JOIN drug d USING (drug)",
    f"SELECT label, COUNT(*) FROM {EITHER} JOIN drug d USING (drug) GROUP BY label HAVING COUNT(*) > 0",
    f"SELECT COUNT(*) FROM {EITHER} JOIN drug d ON d.drug = p.drug",
    f"SELECT SUM(drug), COUNT(p.drug), COUNT(v.drug) FROM {EITHER}",
    f"SELECT COUNT(*), COUNT(year), COUNT(v.year) FROM {DEAR} v FULL JOIN {LONG} w USING (patient_id, year)",
    f"SELECT year, COUNT(*) FROM {DEAR} v FULL JOIN {LONG} w USING (patient_id, year) GROUP BY year HAVING COUNT(*) > 0",
    f"SELECT COUNT(*) FROM {DEAR} v FULL JOIN {LONG} w USING (patient_id, year) WHERE year = 2",
    "SELECT COUNT(*) FROM patient p LEFT JOIN visit v USING (patient_id) JOIN visit w USING (patient_id)",
    "SELECT COUNT(*) FROM visit v RIGHT JOIN patient p USING (patient_id) JOIN visit w USING (patient_id)",
    "SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) OVER (PARTITION BY patient_id) AS n FROM patient FULL JOIN visit "
    "USING (patient_id)) WHERE n > 2",
    "SELECT COUNT(*) FROM (SELECT patient_id, year, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY year, age) AS n "
    "FROM patient FULL JOIN visit USING (patient_id)) WHERE n = 2",
    "SELECT SUM(d) FROM (SELECT days - LAG(days) OVER (PARTITION BY patient_id ORDER BY year) AS d FROM patient FULL JOIN visit "
    "USING (patient_id))",
    "SELECT SUM(m) FROM (SELECT MAX(days) OVER (PARTITION BY patient_id) AS m FROM visit FULL JOIN patient USING (patient_id) "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY year) = 1)",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id, year ORDER BY a.cost, b.cost) AS n FROM visit a "
    "FULL JOIN visit b USING (patient_id, year)) WHERE n = 1",
]

BY = "WINDOW w AS (PARTITION BY patient_id)"
NAMED_WINDOWS = [
    f"SELECT SUM(d) FROM (SELECT patient_id, days - LAG(days) OVER (w ORDER BY year DESC) AS d FROM visit {BY})",
    f"SELECT SUM(f) FROM (SELECT patient_id, FIRST_VALUE(days) OVER (w ORDER BY cost DESC, year) AS f FROM visit {BY})",
    f"SELECT year, COUNT(*) FROM (SELECT patient_id, year FROM visit {BY} QUALIFY ROW_NUMBER() OVER (w ORDER BY year DESC) = 2) "
    "GROUP BY year HAVING COUNT(*) > 0",
    "SELECT SUM(s) FROM (SELECT patient_id, SUM(days) OVER (w ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS s FROM visit "
    "WINDOW w AS (PARTITION BY patient_id ORDER BY year))",
    "SELECT SUM(s) FROM (SELECT patient_id, SUM(days) OVER (w ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS s FROM visit "
    "WINDOW w AS (PARTITION BY patient_id ORDER BY year))",
    f"SELECT SUM(d) FROM (SELECT patient_id, days - LAG(days) OVER w2 AS d FROM visit {BY}, w2 AS (w ORDER BY visit_id DESC))",
    f"SELECT SUM(d) FROM (SELECT patient_id, days - LAG(days) OVER W2 AS d FROM visit {BY}, w2 AS (w ORDER BY cost DESC, year))",
    f"SELECT SUM(s) FROM (SELECT patient_id, SUM(days) OVER w2 AS s FROM visit {BY}, "
    "w2 AS (w ORDER BY visit_id DESC ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING))",
]
DISTINCT = [
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, COUNT(*) FROM visit GROUP BY patient_id, year)",
    "SELECT COUNT(*), SUM(n) FROM (SELECT DISTINCT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id, tag)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id, year HAVING COUNT(*) = 1)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, MAX(days) OVER (PARTITION BY patient_id) AS m FROM visit)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, year // 2, MAX(days) OVER (PARTITION BY patient_id) FROM visit)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, COUNT(*) OVER (PARTITION BY patient_id, tag) AS n FROM visit) WHERE n < 3",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, tag, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY cost) AS n FROM visit)",
]

LATER = "FROM visit w WHERE w.patient_id = v.patient_id AND w.year > v.year"
MEMBERSHIP = [
    f"SELECT COUNT(*) FROM visit v WHERE v.days IN (SELECT w.days {LATER})",
    f"SELECT COUNT(*) FROM visit v WHERE v.tag IN (SELECT w.tag {LATER}) OR v.cost > 40",
    f"SELECT COUNT(*) FROM visit v WHERE CASE WHEN v.days IN (SELECT w.days {LATER}) THEN 1 ELSE 0 END = 1",
    f"SELECT COUNT(*) FROM visit v WHERE NOT EXISTS (SELECT 1 {LATER} AND w.days = v.days)",
    f"SELECT COUNT(*) FROM visit v WHERE NOT EXISTS (SELECT 1 {LATER} AND w.tag = v.tag)",
    "SELECT COUNT(*) FROM patient WHERE patient_id NOT IN (SELECT patient_id FROM visit WHERE year > 2)",
    "SELECT COUNT(*) FROM patient p WHERE (p.patient_id IN (SELECT w.patient_id FROM visit w WHERE w.year > 2)) IS NULL",
]
OUTPUT = [
    'SELECT "count_star()" FROM (SELECT COUNT(*) FROM patient)',
    'SELECT n.site, n."count_star()" + 1 AS more FROM (SELECT site, COUNT(*) FROM patient GROUP BY site) n',
    'SELECT "sum(age)" FROM (SELECT SUM(age) FROM patient)',
]
CONSTANTS = [
    "SELECT x, COUNT(*) FROM (SELECT 1 AS x, patient_id FROM visit) GROUP BY x",
    "SELECT x, COUNT(*) FROM (SELECT 'a' AS x, patient_id FROM visit) t GROUP BY ALL",
    "SELECT x, year, COUNT(*) FROM (SELECT 'all' AS x, year, patient_id FROM visit) GROUP BY x, year",
    "SELECT x, SUM(days) FROM (SELECT 2.5 AS x, days FROM visit) GROUP BY x",
    "SELECT 7 AS x, COUNT(*) FROM visit GROUP BY x",
    "SELECT x, COUNT(*) FROM (SELECT CAST(NULL AS INTEGER) AS x, days FROM visit) GROUP BY x",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, 7 AS c FROM visit)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, 9 + 0 AS c FROM visit)",
    "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM (SELECT DISTINCT patient_id, 7 AS c FROM visit) v "
    "WHERE v.patient_id = p.patient_id)",
    "SELECT COUNT(*) FROM (SELECT patient_id, c, COUNT(*) FROM (SELECT patient_id, 7 AS c FROM visit) s GROUP BY patient_id, c)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id FROM patient FULL JOIN visit USING (patient_id))",
]
SCALARS = [
    "SELECT (SELECT COUNT(*) FROM patient)",
    "SELECT (SELECT COUNT(*) FROM patient) + 1",
    "SELECT (SELECT COUNT(*) FROM patient), (SELECT COUNT(*) FROM visit)",
    "SELECT label, (SELECT COUNT(*) FROM patient WHERE site = drug.drug) FROM drug",
    "SELECT COUNT(*), (SELECT COUNT(*) FROM visit) FROM patient",
    "SELECT site, (SELECT COUNT(*) FROM visit) FROM patient GROUP BY site",
]
UNNAMED = [
    "SELECT * FROM (SELECT COUNT(*) AS n FROM patient), (SELECT COUNT(*) AS m FROM visit)",
    "SELECT * FROM (SELECT COUNT(*) FROM patient), (SELECT SUM(days) FROM visit)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM patient), (SELECT COUNT(*) AS n FROM visit)",
    "SELECT COUNT(*) FROM (SELECT patient_id AS a, age FROM patient), (SELECT patient_id AS b, cost FROM visit) "
    "WHERE a = b AND age > cost",
    "SELECT COUNT(*) FROM (SELECT patient_id AS a FROM patient) JOIN (SELECT patient_id AS b FROM visit) ON a = b "
    "JOIN (SELECT patient_id AS c FROM visit) ON a = c",
    "SELECT COUNT(*) FROM (SELECT site FROM patient), (SELECT drug FROM drug) WHERE site = drug",
    "SELECT COUNT(*) FROM (SELECT drug FROM drug), (SELECT label FROM drug)",
    "SELECT COUNT(*), COUNT(k) FROM (SELECT patient_id, site AS k FROM patient) FULL JOIN (SELECT patient_id, "
    "CAST(year AS INTEGER) AS k FROM visit) USING (patient_id, k)",
    "SELECT SUM(k) FROM (SELECT patient_id, site AS k FROM patient WHERE site > 1) FULL JOIN (SELECT patient_id, "
    "CAST(year AS INTEGER) AS k FROM visit WHERE year < 3) USING (patient_id, k)",
    "SELECT SUM(n), SUM(n_1) FROM (SELECT * FROM (SELECT patient_id AS a, age AS n FROM patient) "
    "JOIN (SELECT patient_id AS b, days AS n FROM visit) ON a = b) q",
    "SELECT SUM(m) FROM (SELECT n_1 AS m FROM (SELECT * FROM (SELECT patient_id AS a, age AS n FROM patient), "
    "(SELECT patient_id AS b, days AS n FROM visit) WHERE a = b))",
    "SELECT SUM(x) FROM (SELECT * FROM (SELECT patient_id AS a, age AS n FROM patient) "
    "JOIN (SELECT patient_id AS b, days AS n FROM visit) ON a = b) q(a, m, b, x)",
]
INTERNAL = [
    "SELECT COUNT(*) FROM (SELECT patient_id AS k0, site AS k1 FROM patient) a0 WHERE k1 = 2",
    "SELECT k0, COUNT(*) AS a0, SUM(v0) AS c0 FROM (SELECT site AS k0, age AS v0, patient_id AS u FROM patient) counted GROUP BY k0",
    "SELECT heavy, SUM(u) AS listed FROM (SELECT site AS heavy, age AS u, patient_id FROM patient) by_unit GROUP BY heavy",
    'SELECT COUNT(*) AS "u", SUM(c0) AS "c0", SUM(v0) AS "v0" FROM (SELECT age AS c0, site AS v0, patient_id AS '
    "k0 FROM patient) AS listed",
    "SELECT listed.site AS k0, COUNT(*) AS counted FROM patient AS listed JOIN visit AS counted "
    "ON listed.patient_id = counted.patient_id GROUP BY listed.site",
    "SELECT by_unit.year, SUM(by_unit.days) FROM visit AS by_unit GROUP BY by_unit.year",
    "SELECT site AS s0, SUM(age) AS n0, AVG(age) AS t0 FROM patient GROUP BY site",
    "SELECT n0.c0, COUNT(*) FROM (SELECT site AS c0, age AS r0 FROM patient) AS n0 GROUP BY n0.c0 HAVING SUM(n0.r0) > 0",
    "SELECT COUNT(*) FROM patient AS unit_groups JOIN (SELECT patient_id, COUNT(*) AS k0 FROM visit AS "
    "unit_windows GROUP BY patient_id) "
    "AS grouped ON grouped.patient_id = unit_groups.patient_id WHERE grouped.k0 > 1",
    "SELECT SUM(k0) FROM (SELECT patient_id AS u, MAX(days) AS k0, MIN(days) AS a0 FROM visit GROUP BY patient_id) AS unit_groups",
    "SELECT SUM(a0 - k0) FROM (SELECT u, MAX(w0) AS a0, MIN(w0) AS k0 FROM (SELECT patient_id AS u, days AS w0 FROM visit) unit_groups "
    "GROUP BY u) AS unit_groups",
    "SELECT SUM(w0) FROM (SELECT patient_id AS c0, MAX(c1) OVER (PARTITION BY patient_id) AS w0 FROM (SELECT patient_id, days AS c1 "
    "FROM visit) AS unit_windows) AS unit_windows",
    "SELECT COUNT(*) FROM (SELECT patient_id AS united, site AS distinct_rows FROM patient UNION SELECT patient_id, "
    "CAST(year AS INTEGER) FROM visit) AS distinct_rows",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id AS distinct_rows, tag AS k1 FROM visit) AS distinct_rows",
    "SELECT COUNT(*) FROM patient AS side FULL JOIN (SELECT patient_id, year FROM visit WHERE year = 2) AS side_2 "
    "ON side.patient_id = side_2.patient_id",
    "SELECT COUNT(*) FROM patient AS release_0 WHERE release_0.age > (SELECT AVG(age) FROM patient AS release_1)",
    "SELECT release_0.c0 FROM (SELECT COUNT(*) AS c0 FROM patient) AS release_0",
    "SELECT release_1.n, release_0.n FROM (SELECT COUNT(*) AS n FROM patient) AS release_1, (SELECT COUNT(*) AS "
    "n FROM visit) AS release_0",
    "SELECT release_row, COUNT(*) AS release_0 FROM (SELECT site AS release_row FROM patient) GROUP BY release_row",
    "WITH release_0 AS (SELECT site, COUNT(*) AS release_row FROM patient GROUP BY site) SELECT site, release_row FROM release_0",
    "WITH release_0 AS (SELECT drug FROM drug) SELECT COUNT(*) FROM patient JOIN release_0 ON release_0.drug = patient.site",
    'SELECT site AS "#0", COUNT(*) AS "#1" FROM patient GROUP BY site',
    'SELECT "#0", COUNT(*) FROM (SELECT site AS "#0", patient_id FROM patient) GROUP BY "#0"',
    "WITH dpsql_0 AS (SELECT site AS dpsql_1, COUNT(*) AS c0 FROM patient GROUP BY site) "
    "SELECT d.label, (SELECT c0 FROM dpsql_0 WHERE dpsql_1 = d.drug) FROM drug d",
    "SELECT drug AS c0, (SELECT COUNT(*) FROM item v0 WHERE v0.drug = dpsql_0.drug) AS n FROM drug dpsql_0",
    "SELECT COUNT(*) FROM patient dpsql_0 WHERE dpsql_0.age > (SELECT AVG(age) AS c0 FROM patient dpsql_1 WHERE "
    "dpsql_1.site = dpsql_0.site)",
    "SELECT COUNT(*) FROM patient dpsql_0 WHERE 1 < (SELECT COUNT(*) FROM visit dpsql_1 WHERE dpsql_1.patient_id = dpsql_0.patient_id)",
    "SELECT COUNT(*) FROM (SELECT patient_id, site AS c0, age AS c1 FROM patient) p "
    "WHERE c1 > (SELECT AVG(c1) FROM (SELECT site AS c0, age AS c1 FROM patient) q WHERE q.c0 = p.c0)",
    "SELECT c0, (SELECT COUNT(*) FROM item WHERE item.drug = c0) AS n FROM (SELECT drug AS c0 FROM drug) d",
    "SELECT v0, (SELECT COUNT(*) FROM item WHERE item.drug = v0) AS n FROM (SELECT drug AS v0 FROM drug) d",
    "SELECT d.c0, (SELECT COUNT(*) FROM item WHERE item.drug = d.c0) AS n FROM (SELECT drug AS c0 FROM drug) d",
    "SELECT COUNT(*) FROM (SELECT site AS c0, age FROM patient) p WHERE age > (SELECT AVG(age) FROM patient q WHERE q.site = c0)",
    "SELECT COUNT(*) FROM (SELECT site AS v0, age FROM patient) p WHERE age > (SELECT AVG(age) FROM patient q WHERE q.site = v0)",
    "SELECT COUNT(*) FROM patient p JOIN (SELECT site AS c0, COUNT(*) AS v0 FROM patient GROUP BY site) dpsql_0 "
    "ON dpsql_0.c0 = p.site WHERE p.age > (SELECT AVG(age) FROM patient q WHERE q.site = p.site)",
    "SELECT 'release_0' AS x, COUNT(*) FROM patient",
    "SELECT grouped.site, COUNT(*) AS pivoted FROM patient AS grouped GROUP BY ROLLUP (grouped.site)",
    "SELECT * FROM (PIVOT (SELECT city AS pivoted, site AS grouped, age AS k0 FROM patient) ON grouped IN (1, 2) USING SUM(k0) "
    "GROUP BY pivoted)",
    "SELECT bound.x FROM (SELECT site AS x, COUNT(*) AS n FROM patient GROUP BY site) AS bound WHERE bound.n > 5",
    "SELECT COUNT(*) FROM patient JOIN (SELECT drug AS c1, label AS c0 FROM drug WHERE drug > 0) AS bound ON bound.c1 = patient.site "
    "WHERE bound.c0 = 'x'",
]
EVERYTHING = [
    *REPEATED, *LISTED, *STARS, *MERGED, *NAMED_WINDOWS, *DISTINCT, *MEMBERSHIP, *CONSTANTS, *OUTPUT, *SCALARS, *UNNAMED, *INTERNAL,
]  # fmt: skip


def test_no_statement_stands_here_twice() -> None:
    assert len(EVERYTHING) == len(set(EVERYTHING)) >= 120


@pytest.mark.few(8)
@pytest.mark.parametrize("sql", EVERYTHING)
def test_it_means_what_duckdb_says(sql: str, both: Beside) -> None:
    both.check(sql)


# --- what a NULL would decide -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) FROM visit v WHERE v.days NOT IN (SELECT w.days {LATER})",
        f"SELECT COUNT(*) FROM visit v WHERE NOT (v.days IN (SELECT w.days {LATER}))",
        f"SELECT COUNT(*) FROM visit v WHERE (v.days IN (SELECT w.days {LATER})) IS NULL",
        f"SELECT COUNT(*) FROM visit v WHERE (v.days NOT IN (SELECT w.days {LATER})) IS NOT TRUE",
        f"SELECT COUNT(*) FROM visit v WHERE COALESCE(v.days IN (SELECT w.days {LATER}), TRUE)",
        f"SELECT COUNT(v.days IN (SELECT w.days {LATER})) FROM visit v",
        f"SELECT COUNT(*) FROM visit v WHERE v.days IN (SELECT w.days {LATER}) OR v.days NOT IN (SELECT w.days {LATER})",
        f"SELECT v.days IN (SELECT w.days {LATER}) AS found, COUNT(*) FROM visit v GROUP BY found",
    ],
)
def test_what_nulls_among_the_values_would_decide_is_refused(sql: str, both: Beside) -> None:
    """EXISTS, which is what reaches the engine, knows no third answer."""
    assert refusal(both, sql) == "DPSQL-402"


# --- totals of a unit -------------------------------------------------------------------------------------------------

DECLARED = "bounds = [-3, 30], nullable = true"
WITH_TOTALS = UNLIMITED.replace(DECLARED, "bounds = [-3, 30], unit_bounds = [4, 12], nullable = true")
DAYS: list[list[int | None]] = [
    [-3, 7, 8],
    [0, 4],
    [10, -2, -1],
    [12],
    [4, None],
    [5, 5],
    [6, -3, 9, -3],
    [],
    [1, 1, 1, 1],
]
"""The days of each patient's visits: whoever has any has between 4 and 12 together, as it is declared."""


@pytest.fixture(scope="module")
def totals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    visits: list[clinic.Row] = []
    for person, listed in enumerate(DAYS):
        for year, days in enumerate(listed, start=1):
            visits.append(visit(len(visits), 1000 + person, year=year, days=days))
    items: list[clinic.Row] = [(row[0], (1, 2, 5)[i], "1.000", i) for row in visits for i in range(2)]
    data: clinic.Database = {
        "patient": [patient(i) for i in range(len(DAYS))], "visit": visits, "item": items, "drug": [(1, "x"), (2, "y"), (5, None)],
    }  # fmt: skip
    opened = beside(tmp_path_factory.mktemp("totals"), data, text=WITH_TOTALS)
    yield opened
    opened.close()


OVER = "OVER (PARTITION BY patient_id ORDER BY year)"
TOTALS = [
    "SELECT SUM(days) FROM visit",
    "SELECT COUNT(*), SUM(days), AVG(days) FROM visit",
    "SELECT SUM(days) FROM patient JOIN visit USING (patient_id)",
    "SELECT p.site, SUM(v.days) FROM patient p JOIN visit v USING (patient_id) GROUP BY p.site",
    "SELECT SUM(m) FROM (SELECT patient_id, SUM(days) AS m FROM visit GROUP BY patient_id)",
    "SELECT SUM(ABS(days)) FROM visit",
    "SELECT SUM(-days) FROM visit",
    "SELECT SUM(days * 2), SUM(GREATEST(days, 0)), SUM(COALESCE(days, 0)) FROM visit",
    "SELECT SUM(CASE WHEN days > 5 THEN days END) FROM visit",
    f"SELECT SUM(l) FROM (SELECT patient_id, LAG(days) {OVER} AS l FROM visit)",
    f"SELECT SUM(l) FROM (SELECT patient_id, LEAD(days) {OVER} AS l FROM visit)",
    f"SELECT SUM(l) FROM (SELECT patient_id, FIRST_VALUE(days) {OVER} AS l FROM visit)",
    "SELECT SUM(m) FROM (SELECT patient_id, MAX(days) OVER (PARTITION BY patient_id) AS m FROM visit)",
    "SELECT SUM(m) FROM (SELECT patient_id, MIN(days) OVER (PARTITION BY patient_id) AS m FROM visit)",
    "SELECT SUM(m) FROM (SELECT patient_id, SUM(days) OVER (PARTITION BY patient_id) AS m FROM visit)",
    "SELECT SUM(m) FROM (SELECT patient_id, MIN(days) AS m FROM visit GROUP BY patient_id)",
    "SELECT SUM(m) FROM (SELECT patient_id, MAX(days) AS m FROM visit GROUP BY patient_id)",
    "SELECT SUM(days) FROM (SELECT DISTINCT patient_id, days FROM visit)",
    "SELECT SUM(days) FROM (SELECT patient_id, days FROM visit GROUP BY patient_id, days)",
    "SELECT SUM(days) FROM (SELECT patient_id, days FROM visit UNION ALL SELECT patient_id, days FROM visit)",
    "SELECT SUM(a.days) FROM visit a JOIN visit b USING (patient_id)",
    "SELECT SUM(b.days) FROM visit a JOIN visit b ON a.patient_id = b.patient_id AND b.year > a.year",
    "SELECT SUM(b.days) FROM visit a LEFT JOIN visit b ON a.patient_id = b.patient_id",
    "SELECT SUM(days) FROM visit JOIN item USING (visit_id)",
    "SELECT SUM(days) FROM item JOIN visit USING (visit_id)",
    "SELECT SUM(days) FROM visit LEFT JOIN item USING (visit_id)",
    "SELECT SUM(days) FROM patient LEFT JOIN visit ON patient.patient_id = visit.patient_id AND year = 1",
]


@pytest.mark.few(9)
@pytest.mark.parametrize("sql", TOTALS)
def test_a_declared_total_bounds_what_it_was_declared_for(sql: str, totals: Beside) -> None:
    """Another value per row, or the same rows several times, has other totals: to clamp it to the declared ones would falsify it."""
    assert WITH_TOTALS != UNLIMITED
    totals.check(sql)


# --- names that dpsql keeps for itself --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT COUNT(*) AS "dpsql n" FROM patient',
        'SELECT COUNT(*) AS "DpSQL unit" FROM patient',
        'SELECT COUNT(*) FROM patient AS "dpsql table 0"',
        'SELECT COUNT(*) FROM "dpsql table 0"',
        'SELECT COUNT("dpsql unit") FROM visit',
        'SELECT COUNT(*) FROM item WHERE "dpsql unit" = 1003',
        'SELECT COUNT(*) FROM item i WHERE i."dpsql unit" = 1003',
        'SELECT COUNT(*) FROM patient AS r("dpsql c0")',
        'SELECT SUM("dpsql c0") FROM (SELECT age AS "dpsql c0" FROM patient) t',
        'WITH "dpsql subquery 0" AS (SELECT * FROM patient) SELECT COUNT(*) FROM "dpsql subquery 0"',
        'SELECT COUNT(*) FROM visit JOIN item USING ("dpsql unit")',
        'SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER "dpsql w" AS r FROM visit WINDOW "dpsql w" AS (PARTITION '
        "BY patient_id)) WHERE r = 1",
        'SELECT "dpsql subquery 0".label FROM drug AS "dpsql subquery 0"',
        'SELECT (SELECT COUNT(*) FROM patient) AS "dpsql v0"',
        'SELECT SUM("é") FROM (SELECT age AS "É", site AS "é" FROM patient) t',
        'WITH "É" AS (SELECT site FROM patient WHERE site = 1), "é" AS (SELECT site FROM patient) SELECT COUNT(*) FROM "É"',
    ],
)
def test_a_name_of_dpsqls_own_or_of_two_meanings_is_refused(sql: str, both: Beside) -> None:
    assert refusal(both, sql) == "DPSQL-105"


@pytest.mark.parametrize("name", ["dpsql", "dpsql_unit", "dpsqlunit", " dpsql unit", "my dpsql unit"])
def test_names_that_only_look_alike_are_names(name: str, both: Beside) -> None:
    both.check(f'SELECT SUM("{name}") AS "{name}" FROM (SELECT age AS "{name}" FROM patient) AS "{name}"')


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        ("table patient, column dpsql note", "note = {", '"dpsql note" = {'),
        ("table patient, column DPSQL Unit", "note = {", '"DPSQL Unit" = {'),
        ("table dpsql visits", "tables.visit", 'tables."dpsql visits"'),
        ("table dpsql drug", "tables.drug", 'tables."dpsql drug"'),
    ],
)
def test_a_schema_may_not_declare_such_names(place: str, old: str, new: str, tmp_path: Path) -> None:
    text = (clinic.UNIT + clinic.PATIENT + clinic.VISIT + clinic.PUBLIC).replace(old, new)
    text = text.replace('"visit.visit_id"', '"dpsql visits.visit_id"') if "visit" in new else text
    (tmp_path / "schema.toml").write_text(text)
    with pytest.raises(SchemaError) as raised:
        read_schema(tmp_path / "schema.toml")
    assert f"{place}: has a name that dpsql keeps for itself" in str(raised.value)


def refusal(opened: Beside, sql: str) -> str:
    """The code with which a statement is refused; it must cost nothing."""
    before = opened.ask("SELECT 1").receipt.remaining
    with pytest.raises(Error) as raised:
        opened.ask(sql)
    assert opened.ask("SELECT 1").receipt.remaining == before
    return str(raised.value.code)
