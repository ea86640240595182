"""Spellings of other engines, and short forms of something longer, without noise: plain DuckDB's rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.semantics.plain import Beside, beside
from tests.support import clinic

BORN = "CAST(born AS TIMESTAMP)"
GROUPS = "(SELECT site, female, COUNT(*) AS n, SUM(age) AS years FROM patient GROUP BY ALL)"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """Thirty patients, of each a visit in each of three years, dearer or cheaper from year to year; of a tenth no birthday."""
    data: clinic.Database = {
        "patient": [
            (
                i,
                1 + i % 3,
                i % 5 < 2,
                float(i),
                None,
                20 + i,
                None,
                "abc"[i % 3],
                None,
                f"199{i % 9}-0{1 + i % 9}-1{i % 7}" if i % 10 else None,
                None,
            )
            for i in range(30)
        ],
        "visit": [
            (3 * i + y, i, 1 + (y + i) % 3, float(5 + (7 * i + 11 * y) % 45), y, "xyz"[(i + y) % 3])
            for i in range(30)
            for y in range(3)
        ],
        "item": [],
        "drug": [],
    }
    opened = beside(tmp_path_factory.mktemp("spellings"), data)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(cost) FROM (SELECT DISTINCT ON (patient_id) patient_id, cost FROM visit ORDER BY patient_id, year DESC, cost)",
        'SELECT SUM(c) FROM (SELECT DISTINCT ON (p) patient_id AS p, cost AS c, "year" AS y FROM visit ORDER BY 1, y) WHERE y = 1',
        "SELECT SUM(cost) FROM (SELECT DISTINCT ON (patient_id, days > 0) cost FROM visit ORDER BY patient_id, days > 0, cost)",
        "SELECT site, SUM(cost) FROM (SELECT DISTINCT ON (v.patient_id) site, cost FROM visit v JOIN patient USING (patient_id) "
        "WHERE days > 0 ORDER BY v.patient_id, cost DESC) GROUP BY site",
        f"SELECT DISTINCT ON (site) site, n FROM {GROUPS} ORDER BY site, n DESC",
        f"SELECT site, ARG_MAX(female, n), ARG_MIN(years, n), MAX_BY(n, years) FROM {GROUPS} GROUP BY site",
        f"SELECT STRING_AGG(CAST(site AS VARCHAR), '-' ORDER BY n DESC, site) FROM {GROUPS} WHERE female",
        f"SELECT SUM(EXTRACT(epoch FROM {BORN} - TIMESTAMP '1990-01-01') / 86400) FROM patient",
        f"SELECT SUM(DATE_PART('day', {BORN} - TIMESTAMP '1994-01-01 12:00:00')) FROM patient",
        f"SELECT COUNT(*) FROM patient WHERE EPOCH({BORN} - TIMESTAMP '1994-01-01') > 0",
        "SELECT SUM(EXTRACT(YEAR FROM AGE(DATE '2020-04-13', born))), SUM(YEAR(AGE(born, DATE '2020-04-13'))) FROM patient",
        "SELECT SUM(DATESUB('month', born, DATE '2020-04-13')), SUM(DATE_SUB('year', DATE '2020-04-13', born)) FROM patient",
        "SELECT COUNT(*) FROM patient WHERE born > DATE_TRUNC('year', DATE '1994-05-05') AND born < DATE '1996-03-31' + INTERVAL 1 DAY",
        "SELECT * FROM (SELECT site, female, age FROM patient) PIVOT (SUM(age) FOR female IN (true, false))",
        "WITH p AS (SELECT city, site FROM patient) SELECT * FROM p PIVOT (COUNT(*) FOR site IN (1, 2, 3))",
        "SELECT * FROM (SELECT site FROM patient) PIVOT (COUNT(*) FOR site IN (1, 3))",
        "PIVOT (SELECT city, site FROM patient) ON site IN (1, 2) USING COUNT(*) ORDER BY city DESC LIMIT 2",
        "SELECT COUNT(*) FROM visit a JOIN visit b ON a.patient_id = b.patient_id AND a.visit_id < b.visit_id WHERE a.cost < b.cost",
    ],
)
def test_it_is_what_plain_sql_gives(sql: str, both: Beside) -> None:
    both.check(sql)


@pytest.mark.parametrize(
    ("sql", "plain"),
    [
        (
            "SELECT COUNT_IF(SAFE_DIVIDE(age, site - 1) > 20) FROM patient",
            "SELECT COUNT_IF(age / NULLIF(site - 1, 0) > 20) FROM patient",
        ),
        (
            "SELECT COUNT_IF(DIV0(age, site - 1) > 20) FROM patient",
            "SELECT COUNT_IF(CASE WHEN site = 1 THEN 0 ELSE age / (site - 1) END > 20) FROM patient",
        ),
        (
            "SELECT COUNT_IF(TO_CHAR(born, 'DD.MM.YYYY') = '11.02.1991') FROM patient",
            "SELECT COUNT_IF(born = '1991-02-11') FROM patient",
        ),
        (
            "SELECT COUNT_IF(DATENAME(month, born) = 'May') FROM patient",
            "SELECT COUNT_IF(monthname(born) = 'May') FROM patient",
        ),
        (
            "SELECT COUNT_IF(EOMONTH(born) = '1991-02-28') FROM patient",
            "SELECT COUNT_IF(last_day(born) = '1991-02-28') FROM patient",
        ),
        (
            "SELECT COUNT_IF(DATEADD(month, 2, born) > '1994-01-01') FROM patient",
            "SELECT COUNT_IF(born + INTERVAL 2 MONTH > '1994-01-01') FROM patient",
        ),
    ],
)
def test_it_is_what_it_stands_for(sql: str, plain: str, both: Beside) -> None:
    assert both.session.execute(sql).rows == both.expect(plain)
