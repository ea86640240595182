"""NTILE over people without noise: where no two values are equal and the parts are equally large, it is plain DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.semantics.plain import Beside, beside
from tests.support import clinic

PEOPLE = 12


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """Twelve patients of different ages, six of a site; one visit of each, whose costs fall as the ages rise."""
    ages = [41, 17, 66, 23, 35, 58, 19, 72, 50, 29, 84, 61]
    data: clinic.Database = {
        "patient": [
            (i, 1 + i % 2, i % 3 == 0, float(i), None, age, None, "a", None, f"199{i % 10}-01-01", None)
            for i, age in enumerate(ages)
        ],
        "visit": [(i, i, 1 + i % 4, 50.0 - age / 2, i, None) for i, age in enumerate(ages)],
        "item": [],
        "drug": [],
    }
    opened = beside(tmp_path_factory.mktemp("tiles"), data)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT part, COUNT(*), SUM(age) FROM (SELECT age, NTILE(4) OVER (ORDER BY age) AS part FROM patient) GROUP BY part",
        "SELECT part, SUM(age) FROM (SELECT age, NTILE(3) OVER (ORDER BY age DESC) AS part FROM patient) GROUP BY part",
        "SELECT part, SUM(age) FROM (SELECT age, NTILE(12) OVER (ORDER BY age) AS part FROM patient) GROUP BY part",
        "SELECT part, SUM(age) FROM (SELECT age, NTILE(2) OVER (ORDER BY age) AS part FROM patient WHERE site = 2) GROUP BY part",
        "SELECT SUM(age) FROM (SELECT age FROM patient QUALIFY NTILE(6) OVER (ORDER BY age) IN (1, 6))",
        "SELECT half, SUM(age) FROM (SELECT age, NTILE(2) OVER w AS half FROM patient JOIN visit USING (patient_id) "
        "WINDOW w AS (ORDER BY cost)) GROUP BY half",
        "WITH t AS (SELECT age, NTILE(3) OVER (ORDER BY cost) AS part FROM visit v, LATERAL "
        "(SELECT age FROM patient p WHERE p.patient_id = v.patient_id) l) SELECT part, SUM(age) FROM t GROUP BY part",
        "SELECT a, b, COUNT(*) FROM (SELECT NTILE(2) OVER (ORDER BY age) AS a, NTILE(2) OVER (ORDER BY income) AS b FROM patient) "
        "GROUP BY a, b HAVING COUNT(*) > 0",
        "SELECT site, part, SUM(age) FROM (SELECT site, age, NTILE(3) OVER (PARTITION BY site ORDER BY age) AS part FROM patient) "
        "GROUP BY site, part HAVING SUM(age) > 0",
        "SELECT part, SUM(age) FROM (SELECT age, NTILE(2) OVER (PARTITION BY site ORDER BY age DESC) AS part FROM patient) "
        "GROUP BY part HAVING SUM(age) > 0",
        "SELECT part, SUM(age) FROM (SELECT age, NTILE(3) OVER (PARTITION BY 1, NULL ORDER BY age) AS part FROM patient) GROUP BY part",
        "SELECT part, SUM(age) FROM (SELECT age, NTILE(3) OVER (ORDER BY age) AS part FROM patient QUALIFY part > 1) GROUP BY part "
        "HAVING SUM(age) > 0",
        "SELECT part, SUM(age) FROM (SELECT age, NTILE(3) OVER (PARTITION BY site, 1 ORDER BY age) AS part FROM patient p, visit v "
        "WHERE p.patient_id = v.patient_id QUALIFY part > 1) GROUP BY part HAVING SUM(age) > 0",
        "SELECT a, b, COUNT(*) FROM (SELECT NTILE(2) OVER (PARTITION BY site ORDER BY age) AS a, NTILE(3) OVER (PARTITION BY site "
        "ORDER BY cost) AS b FROM patient p, visit v WHERE p.patient_id = v.patient_id AND age > (SELECT MIN(year) FROM visit o "
        "WHERE o.patient_id = p.patient_id)) GROUP BY a, b HAVING COUNT(*) > 0",
        "SELECT part, SUM(n) FROM (SELECT n, NTILE(2) OVER (ORDER BY m) AS part FROM "
        "(SELECT patient_id, COUNT(*) AS n, MAX(cost) AS m FROM visit GROUP BY patient_id)) GROUP BY part",
    ],
)
def test_parts_are_those_of_plain_sql(sql: str, both: Beside) -> None:
    answer = both.check(sql)
    assert any(note.startswith("NTILE(") for note in answer.remarks)


def test_all_cuts_of_a_window_are_one_release(both: Beside) -> None:
    sql = "SELECT part, COUNT(*) AS n FROM (SELECT NTILE(10) OVER (ORDER BY age) AS part FROM patient) GROUP BY part"
    assert both.session.execute(sql).releases == 2


def test_null_is_in_no_part(both: Beside) -> None:
    sql = "SELECT part, COUNT(*) FROM (SELECT NTILE(2) OVER (ORDER BY weight) AS part FROM patient) GROUP BY part"
    assert both.session.execute(sql).rows == [(1, 0), (2, 0), (None, PEOPLE)]
    left_out = sql.replace("FROM patient", "FROM patient WHERE site > 0 AND weight IS NOT NULL")
    assert both.session.execute(left_out).rows == [(1, 0), (2, 0)]
