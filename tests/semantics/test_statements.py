"""Without noise, and inside every limit, a statement means what it means to plain DuckDB: rows, order, names and types."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.semantics.plain import Beside, beside
from tests.support import clinic


def crowded(seed: int) -> clinic.Database:
    """A database inside its declarations in which every declared key has people."""
    chance = random.Random(seed)
    patients: list[clinic.Row] = []
    for number in range(60):
        row = list(clinic._patient(chance, number, wild=False))
        row[1] = 1 + number % 3
        row[2] = (True, False, None)[number // 3 % 3]
        row[7] = ("a", "b", "c", None)[number // 9 % 4]
        patients.append(tuple(row))
    visits: list[clinic.Row] = []
    for patient in patients:
        for year in range(1, chance.randint(1, 5)):
            visit = list(clinic._visit(chance, len(visits), patient[0], wild=False))
            visit[2] = year
            visits.append(tuple(visit))
    items = [clinic._item(chance, visit[0], wild=False) for visit in visits for _ in range(chance.choice([0, 1, 2]))]
    return {"patient": patients, "visit": visits, "item": items, "drug": [(1, "x"), (2, "y"), (5, None)]}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    opened = beside(tmp_path_factory.mktemp("crowded"), crowded(7))
    yield opened
    opened.close()


STATEMENTS = [
    # aggregates
    "SELECT COUNT(*) FROM patient",
    "SELECT COUNT(*), COUNT(income), COUNT(weight), COUNT(city), COUNT(note) FROM patient",
    "SELECT COUNT(1), COUNT(NULL), COUNT(female) FROM patient",
    "SELECT COUNT(DISTINCT patient_id) FROM patient",
    "SELECT COUNT(DISTINCT patient_id) FROM visit WHERE cost > 20",
    "SELECT SUM(age), AVG(age), COUNT(age) FROM patient",
    "SELECT SUM(income) FROM patient",
    "SELECT AVG(income) FROM patient",
    "SELECT SUM(score) FROM patient",
    "SELECT SUM(score), AVG(score), COUNT(score), COUNT(*) FROM patient",
    "SELECT SUM(days), AVG(days), COUNT(*) FROM visit",
    "SELECT SUM(cost), COUNT(*) FROM visit WHERE tag LIKE 't%'",
    "SELECT SUM(amount), AVG(amount) FROM item",
    "SELECT SUM(female), AVG(CAST(female AS INTEGER)) FROM patient",
    "SELECT SUM(age + 1), SUM(age * 2), SUM(-age), SUM(age - site), SUM(ABS(age - 50)) FROM patient",
    "SELECT SUM(score * 2), SUM(score + 0.5), SUM(score * 0.01), SUM(score * 0), SUM(score % 7) FROM patient",
    "SELECT SUM(score / 4), SUM(age / 4), SUM(age // 4), SUM(age % 4), SUM(income % 7) FROM patient",
    "SELECT SUM(CAST(age AS DOUBLE) * income), SUM(income * 0.5), SUM(income - weight) FROM patient",
    "SELECT SUM(FLOOR(income)), SUM(CEIL(income)), SUM(ROUND(income)), SUM(TRUNC(income)), SUM(ROUND(income, 1)) FROM patient",
    "SELECT SUM(ROUND(score, 1)), SUM(ROUND(score)), SUM(FLOOR(score)), SUM(ROUND(age, -1)), SUM(ROUND(score, -1)) FROM patient",
    "SELECT SUM(SQRT(age)), SUM(LN(age)), SUM(POW(age, 2)), SUM(SIGN(income)) FROM patient",
    "SELECT SUM(CASE WHEN female THEN age ELSE 0 END), SUM(CASE site WHEN 1 THEN 10 WHEN 2 THEN 20 END) FROM patient",
    "SELECT SUM(COALESCE(weight, 50)), SUM(NULLIF(site, 2)), SUM(LEAST(age, 40)), SUM(GREATEST(age, site)) FROM patient",
    "SELECT SUM(LEAST(GREATEST(code, 0), 100)) FROM patient",
    "SELECT SUM(CAST(income AS INTEGER)), SUM(CAST(score AS BIGINT)), SUM(CAST(age AS DOUBLE)) FROM patient",
    "SELECT SUM(EXTRACT(YEAR FROM born)), AVG(MONTH(born)), SUM(DATE_DIFF('day', born, DATE '2000-01-01')) FROM patient",
    "SELECT SUM(DATE '2000-01-01' - born), SUM(DATE_DIFF('month', born, DATE '2000-01-01')) FROM patient",
    "SELECT COUNT_IF(age > 40), COUNT_IF(female) FROM patient",
    # keys of any type, and lists of values
    "SELECT site * 0.5 AS half, COUNT(*) FROM patient GROUP BY half ORDER BY half",
    "SELECT site / 3 AS part, female, COUNT(*), AVG(age) FROM patient GROUP BY ALL ORDER BY ALL",
    "SELECT CAST(site AS FLOAT) / 3 AS part, COUNT(*) FROM patient GROUP BY part ORDER BY part",
    "SELECT CASE WHEN site = 1 THEN 0.0 ELSE -0.0 END * 1e0 AS zero, COUNT(*) FROM patient GROUP BY 1",
    "SELECT isnan(odd), n FROM (SELECT (site - 2) / 0.0 AS odd, COUNT(*) AS n FROM patient GROUP BY odd) ORDER BY ALL",
    "SELECT isinf(odd), odd > 0, n FROM (SELECT (site - 2) / 0.0 AS odd, COUNT(*) AS n FROM patient GROUP BY odd) ORDER BY ALL",
    "SELECT CASE WHEN site = 1 THEN 0.1e0 ELSE 2.5e17 END AS listed, COUNT(*) FROM patient GROUP BY listed ORDER BY listed",
    "SELECT CAST(CASE WHEN site = 1 THEN 0.1 ELSE 2449429.8 END AS FLOAT) AS f, COUNT(*) FROM patient GROUP BY f ORDER BY f",
    "SELECT DATE_TRUNC('year', born) + INTERVAL 1 HOUR AS m, COUNT(*) FROM patient WHERE born < DATE '1960-01-01' GROUP BY m",
    "SELECT CAST(EXTRACT(YEAR FROM born) // 20 * 0.01 AS DECIMAL(9, 3)) AS d, COUNT(*) FROM patient GROUP BY d ORDER BY d",
    "SELECT DISTINCT note FROM patient ORDER BY note",
    "SELECT note FROM patient GROUP BY note ORDER BY note",
    "SELECT DISTINCT site > 1 AS high, note IS NULL FROM patient ORDER BY ALL",
    "SELECT COUNT(*) FROM (SELECT DISTINCT note FROM patient)",
    "SELECT COUNT(*) FROM patient WHERE note IN (SELECT DISTINCT note FROM patient)",
    # FILTER
    "SELECT COUNT(*) FILTER (WHERE female), SUM(age) FILTER (WHERE site = 2), AVG(income) FILTER (WHERE age < 50) FROM patient",
    "SELECT COUNT(*) FILTER (WHERE female), COUNT(*) FILTER (WHERE NOT female), COUNT(*) FROM patient",
    "SELECT COUNT(DISTINCT patient_id) FILTER (WHERE cost > 30), COUNT(*) FROM visit",
    # conditions
    *(
        f"SELECT COUNT(*) FROM patient WHERE {condition}"
        for condition in [
            "site = 2 OR income > 50 AND NOT female",
            "age BETWEEN 20 AND 60",
            "age NOT BETWEEN 20 AND 60",
            "site IN (1, 3)",
            "site NOT IN (1, 3)",
            "city IS NULL",
            "city IS NOT NULL",
            "city = 'a'",
            "city <> 'a'",
            "city IN ('a', 'c')",
            "city LIKE '%a%'",
            "note LIKE 'n_'",
            "note NOT LIKE 'x!%y' ESCAPE '!'",
            "note ILIKE 'N%'",
            "female IS TRUE",
            "female IS NOT TRUE",
            "(female AND age > 30) IS NULL",
            "weight IS DISTINCT FROM 40",
            "city IS NOT DISTINCT FROM NULL",
            "LENGTH(note) = 2",
            "UPPER(city) = 'A'",
            "city || note = 'an1'",
            "SUBSTRING(note, 1, 1) = 'n'",
            "LEFT(note, 1) = 'n'",
            "RIGHT(note, 1) = '1'",
            "TRIM(note) = '12'",
            "STARTS_WITH(note, 'n')",
            "note ^@ 'n'",
            "CONTAINS(note, '%')",
            "SUFFIX(note, '2')",
            "CAST(note AS INTEGER) > 3",
            "CAST(note AS INTEGER) IS NULL",
            "TRY_CAST(note AS DOUBLE) = 12",
            "10 // (age - 30) > 0",
            "age % site = 1",
            "income / (age - 30) > 1",
            "SQRT(income) > 3",
            "LN(income) < 2",
            "born < DATE '1995-06-01'",
            "born < '1995-06-01'",
            "YEAR(born) = 1994",
            "MONTH(born) IN (1, 2)",
            "QUARTER(born) = 1",
            "DATE_TRUNC('month', born) = DATE '1994-03-01'",
            "born + INTERVAL 1 YEAR > DATE '1996-01-01'",
            "born + 10 > DATE '1995-01-01'",
            "DAYOFWEEK(born) = 0",
            "ISODOW(born) = 7",
            "WEEK(born) < 10",
            "isnan(income)",
            "isfinite(income)",
            "score >= 50.5",
            "score = 10",
            "age > 45.5",
            "age > 4.5e1",
            "code IS NULL",
            "code % 2 = 0",
            "code > 2147483646",
            "COALESCE(city, 'none') = 'none'",
            "TRUE",
            "FALSE",
            "NULL",
            "NOT (site = 1 OR site = 2)",
            "CASE WHEN female THEN age > 30 ELSE age > 60 END",
            "CAST(age AS VARCHAR) LIKE '4%'",
            "CAST(female AS INTEGER) = 1",
            "CAST(site AS BOOLEAN)",
            "ROUND(score, 1) = 10.0",
            "female = (age > 30)",
            "age > site",
            "IF(female, site, age) > 2",
        ]
    ),
    "SELECT COUNT(*) FROM visit WHERE days IS NULL OR cost / days > 1",
    "SELECT COUNT(*) FROM item WHERE batch > 0 AND amount < 0",
    # grouping
    "SELECT site, COUNT(*) FROM patient GROUP BY site",
    "SELECT site, female, COUNT(*) AS n, AVG(income) AS m FROM patient GROUP BY site, female",
    "SELECT city, SUM(score) FROM patient GROUP BY 1",
    "SELECT COUNT(*) FROM patient GROUP BY site",
    "SELECT city AS c, COUNT(*) FROM patient GROUP BY c",
    "SELECT city, site, COUNT(*) FROM patient GROUP BY ALL",
    "SELECT age > 40 AS old, COUNT(*) FROM patient GROUP BY old",
    "SELECT CASE WHEN age < 30 THEN 'young' ELSE 'old' END AS band, AVG(income) FROM patient GROUP BY band",
    "SELECT site % 2, COUNT(*) FROM patient GROUP BY site % 2",
    "SELECT site + 1 AS next, SUM(age) FROM patient GROUP BY site",
    "SELECT COALESCE(city, 'none') AS city, COUNT(*) FROM patient GROUP BY COALESCE(city, 'none')",
    "SELECT year, COUNT(*), SUM(cost), COUNT(DISTINCT patient_id) FROM visit GROUP BY year",
    "SELECT drug, SUM(amount), COUNT(*) FROM item GROUP BY drug",
    "SELECT site, site, COUNT(*) FROM patient GROUP BY site",
    "SELECT site, COUNT(*) + 1, SUM(age) / COUNT(*), ROUND(AVG(age)) FROM patient GROUP BY site",
    "SELECT DISTINCT site, COUNT(*) FROM patient GROUP BY site",
    "SELECT DISTINCT city FROM patient",
    "SELECT site FROM patient GROUP BY site",
    "SELECT 'all' AS what, COUNT(*) FROM patient",
    # aliases, quotes, case
    'SELECT SITE AS "Site", Count(*) AS "COUNT(*)" FROM MAIN."Patient" GROUP BY Site',
    "SELECT p.site, COUNT(*) FROM patient AS p GROUP BY p.site",
    "SELECT patient.site, COUNT(*) FROM patient GROUP BY patient.site",
    "SELECT site AS city, COUNT(*) FROM patient GROUP BY site",
    "SELECT city AS site, COUNT(*) FROM patient GROUP BY city",
    "SELECT COUNT(*) AS age FROM patient WHERE age > 40",
    "SELECT age + 1 AS next, COUNT(*) FROM patient WHERE next > 50 GROUP BY ALL HAVING COUNT(DISTINCT patient_id) >= 2",
    "FROM patient SELECT site, COUNT(*) GROUP BY ALL",
    "SELECT COUNT(*) FROM patient; -- done",
    "SELECT /* how many */ COUNT(*) FROM patient",
]

ORDERED = [
    "SELECT site, COUNT(*) AS n FROM patient GROUP BY site ORDER BY site",
    "SELECT site, SUM(age) AS s FROM patient GROUP BY site ORDER BY s DESC",
    "SELECT site, SUM(age) FROM patient GROUP BY site ORDER BY 2",
    "SELECT site, SUM(age) FROM patient GROUP BY site ORDER BY SUM(age)",
    "SELECT site, SUM(age) FROM patient GROUP BY site ORDER BY SUM(age) / COUNT(*) DESC",
    "SELECT site FROM patient GROUP BY site ORDER BY AVG(age)",
    "SELECT city, COUNT(*) FROM patient GROUP BY city ORDER BY city",
    "SELECT city, COUNT(*) FROM patient GROUP BY city ORDER BY city DESC",
    "SELECT city, COUNT(*) FROM patient GROUP BY city ORDER BY city NULLS FIRST",
    "SELECT city, COUNT(*) FROM patient GROUP BY city ORDER BY city DESC NULLS LAST",
    "SELECT city, female, SUM(age) FROM patient GROUP BY ALL ORDER BY ALL",
    "SELECT city, female, SUM(age) FROM patient GROUP BY ALL ORDER BY 2 DESC, 1",
    "SELECT site, SUM(age) AS s FROM patient GROUP BY site ORDER BY s LIMIT 2",
    "SELECT site, SUM(age) AS s FROM patient GROUP BY site ORDER BY s LIMIT 1 OFFSET 1",
    "SELECT site, SUM(age) AS s FROM patient GROUP BY site ORDER BY s OFFSET 2",
    "SELECT site, SUM(age) AS s FROM patient GROUP BY site ORDER BY s LIMIT 0",
    "SELECT site, COUNT(*) FROM patient GROUP BY site HAVING SUM(age) > 500 ORDER BY site",
    "SELECT site FROM patient GROUP BY site HAVING AVG(age) > 40 AND COUNT(*) > 1 ORDER BY 1",
    "SELECT site, SUM(age) AS s FROM patient GROUP BY site HAVING s > 500 ORDER BY s",
    "SELECT site AS k, COUNT(*) AS n FROM patient GROUP BY k HAVING k > 1 ORDER BY k",
    "SELECT site, SUM(age) AS s, SUM(SUM(age)) OVER (ORDER BY site) AS running FROM patient GROUP BY site ORDER BY site",
    "SELECT site, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM patient GROUP BY site ORDER BY site",
    "SELECT year, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM visit GROUP BY year ORDER BY r, year",
    "SELECT year, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY year) AS change FROM visit GROUP BY year ORDER BY year",
    "SELECT city, site, SUM(age) OVER_ FROM patient GROUP BY city, site ORDER BY city, site",
    "SELECT city, site, SUM(age) AS s, MAX(SUM(age)) OVER (PARTITION BY city) FROM patient GROUP BY city, site ORDER BY city, site",
    "SELECT year, SUM(COUNT(*)) OVER w FROM visit GROUP BY year WINDOW w AS (ORDER BY year) ORDER BY year",
    "SELECT city, site, SUM(age) AS s FROM patient GROUP BY 1, 2 "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY city ORDER BY s DESC) = 1 ORDER BY city",
    "SELECT DISTINCT COUNT(*) AS n FROM patient GROUP BY site ORDER BY n",
    "SELECT CASE WHEN SUM(age) > 700 THEN 'many' ELSE 'few' END AS size, site FROM patient GROUP BY site ORDER BY site",
    "SELECT site, COALESCE(NULLIF(COUNT(*), 20), -1) FROM patient GROUP BY site ORDER BY site",
    "SELECT site, CAST(AVG(age) AS INTEGER), CAST(COUNT(*) AS VARCHAR) || ' people' FROM patient GROUP BY site ORDER BY site",
    "SELECT year, DATE '2000-01-01' + CAST(year AS INTEGER), COUNT(*) FROM visit GROUP BY year ORDER BY year",
    # public tables
    "SELECT * FROM drug ORDER BY drug",
    "SELECT label, COUNT(*) FROM drug GROUP BY label ORDER BY label",
    "SELECT a.drug, b.label FROM drug a JOIN drug b ON a.drug < b.drug ORDER BY ALL",
    "WITH d AS (SELECT drug FROM drug WHERE label IS NOT NULL) SELECT COUNT(*), MAX(drug) FROM d",
    "SELECT drug FROM drug UNION ALL SELECT 7 ORDER BY 1",
    "SELECT 1",
    "SELECT 1 + 1 AS two, 'x'",
]

PARAMETERS: list[tuple[str, tuple[object, ...] | dict[str, object]]] = [
    ("SELECT COUNT(*) FROM patient WHERE age BETWEEN ? AND ?", (20, 50)),
    ("SELECT site, COUNT(*) FROM patient WHERE income > ? GROUP BY site LIMIT ?", (0.5, 10)),
    ("SELECT COUNT(*) FROM patient WHERE age BETWEEN $2 AND $1", (50, 20)),
    ("SELECT COUNT(*) FROM patient WHERE city = $1 OR note = $1", ("a",)),
    ("SELECT COUNT(*) FROM patient WHERE city = $city AND female = $yes", {"city": "a", "yes": True}),
    ("SELECT COUNT(*) FROM patient WHERE city IS NOT DISTINCT FROM ?", (None,)),
    ("SELECT SUM(age) FROM patient WHERE income > ? OR site = ?", (-1.5, 2)),
]


@pytest.mark.few(12)
@pytest.mark.parametrize("sql", STATEMENTS)
def test_rows(sql: str, both: Beside) -> None:
    both.check(sql)


@pytest.mark.few(17)
@pytest.mark.parametrize("sql", ORDERED)
def test_rows_in_their_order(sql: str, both: Beside) -> None:
    both.check(sql, ordered=True)


@pytest.mark.parametrize(("sql", "parameters"), PARAMETERS)
def test_parameters(sql: str, parameters: tuple[object, ...] | dict[str, object], both: Beside) -> None:
    both.check(sql, parameters)
