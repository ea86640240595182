"""Cells that the declarations decide are not sold: the answer is that of plain SQL on no rows, free, and says why."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.core.loss import NO_LOSS
from tests.semantics.plain import Beside, beside
from tests.support import clinic

SITE = "declared: site is 1 to 3, so nobody is counted; rows with other values are left out"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    data = clinic.database(random.Random(7), wild=False)
    assert data["patient"] and data["visit"]
    opened = beside(tmp_path_factory.mktemp("nobody"), data)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("sql", "note"),
    [
        ("SELECT COUNT(*) FROM patient WHERE site = 99", SITE),
        (
            "SELECT COUNT(*), COUNT(age), SUM(age), AVG(income), MAX(age), MEDIAN(age) FROM patient WHERE site = 99",
            SITE,
        ),
        (
            "SELECT COUNT(DISTINCT patient_id) AS n, COUNT(DISTINCT city) AS m FROM patient WHERE site > 3 OR site < 1",
            SITE,
        ),
        ("SELECT SUM(age) / COUNT(*) AS mean, COUNT(*) + 1 AS more FROM patient WHERE site IN (7, 8)", SITE),
        ("SELECT BOOL_OR(female) AS b, VAR_SAMP(age) AS v, MODE(city) AS c FROM patient WHERE site * 2 = 7", SITE),
        ("SELECT quantile_cont(age, [0.1, 0.9]) AS q FROM patient WHERE site = 99", SITE),
        ("SELECT COUNT(*) FROM patient WHERE site = 1 AND site = 2", SITE),
        ("SELECT COUNT(*) FROM (SELECT * FROM patient WHERE age > 20) AS t WHERE site = 0", SITE),
        ("SELECT COUNT(*) FROM visit JOIN patient USING (patient_id) WHERE site = 99", SITE),
        ("SELECT COUNT(*) AS n FROM patient WHERE site = 99 HAVING COUNT(*) > 0", SITE),
        ("SELECT city, COUNT(*) FROM patient WHERE site = 99 GROUP BY city", SITE),
        ("SELECT code, COUNT(*) FROM patient WHERE site = 99 GROUP BY code", SITE),
        ("SELECT (SELECT COUNT(*) FROM patient WHERE site = 99) AS n", SITE),
        (
            "SELECT COUNT(*) FROM patient WHERE age IS NULL",
            "declared: age is never NULL, so nobody is counted; rows with other",
        ),
        ("SELECT COUNT(*) FROM patient WHERE city = 'z'", "declared: city is a, b or c, so nobody is counted"),
        (
            "SELECT COUNT(*) FROM patient WHERE site = 1 AND female AND female IS NULL",
            "declared: female is true or false, so",
        ),
        (
            "SELECT site, COUNT(*) FROM patient WHERE site = 99 GROUP BY site",
            "declared: no group that is listed meets the conditions",
        ),
        (
            "SELECT label, COUNT(*) FROM item JOIN drug USING (drug) WHERE label = 'z' GROUP BY 1",
            "declared: no group that is listed",
        ),
        (
            "SELECT age, COUNT(*) FROM patient WHERE age = 95 GROUP BY age",
            "declared: no group that is listed meets the conditions",
        ),
        ("SELECT 1 FROM patient WHERE age IS NULL LIMIT 1", "declared: age is never NULL"),
        ("SELECT patient_id FROM patient WHERE patient_id IS NULL LIMIT 1", "declared: patient_id is never NULL"),
        ("SELECT site, age AS a, born, income FROM patient WHERE site = 99 ORDER BY a", SITE),
        ("SELECT * FROM (SELECT * FROM visit WHERE year IS NULL) AS v LIMIT 1", "declared: year is "),
        ("SELECT v.cost, p.site FROM visit AS v JOIN patient AS p USING (patient_id) WHERE p.site = 99 LIMIT 1", SITE),
        ("SELECT site, COUNT(*) FROM patient WHERE site = 99 GROUP BY GROUPING SETS ((site))", "declared: no group"),
        ("SELECT site, COUNT(*), SUM(age) FROM patient WHERE site = 99 GROUP BY CUBE (site)", "declared: no group"),
        ("SELECT site, AVG(age) FROM patient WHERE site = 99 GROUP BY ROLLUP (site)", "declared: no group"),
    ],
)
def test_what_no_declared_value_meets_is_free(sql: str, note: str, both: Beside) -> None:
    answer = both.check(sql)
    assert answer.receipt.loss == NO_LOSS and answer.releases == 0 and not answer.cached
    assert len(answer.remarks) == 1 and answer.remarks[0].startswith(note)
    assert both.session.explain(sql).startswith(f"free: {note}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM patient WHERE age = 95",
        "SELECT COUNT(*) FROM patient WHERE age > 90 OR site = 99",
        "SELECT COUNT(*) FROM patient WHERE weight IS NULL",
        "SELECT COUNT(*) FROM patient WHERE site = 1 OR income > 5",
        "SELECT COUNT(*) FROM patient WHERE code = 77",
        "SELECT COUNT(*) FROM patient WHERE female IS NULL",
        "SELECT COUNT(*) FROM visit LEFT JOIN patient USING (patient_id) WHERE site IS NULL",
        "SELECT COUNT(*) FROM patient LEFT JOIN visit USING (patient_id) WHERE year IS NULL",
        "SELECT COUNT(*) FROM (SELECT age FROM patient WHERE age IN (50, 95)) AS t WHERE age > 60",
    ],
)
def test_bounds_and_joins_decide_nothing(sql: str, both: Beside) -> None:
    assert both.check(sql).receipt.loss != NO_LOSS


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT weight FROM patient WHERE weight IS NULL LIMIT 2",
        "SELECT weight FROM patient WHERE weight IS NULL LIMIT 1 OFFSET 1",
        "SELECT weight, age FROM patient WHERE weight IS NULL LIMIT 1",
        "SELECT weight FROM patient WHERE weight IS NULL OR site = 1 LIMIT 1",
        "SELECT age FROM patient WHERE age = 95 LIMIT 1",
        "SELECT age FROM patient WHERE age IS NULL OR site = 1 LIMIT 1",
        "SELECT age FROM patient WHERE patient_id = 3 AND site = 99",
    ],
)
def test_rows_that_may_be_there_are_not_shown(sql: str, both: Beside) -> None:
    with pytest.raises(Error) as refused:
        both.session.execute(sql)
    assert refused.value.code in ("DPSQL-301", "DPSQL-305")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT weight FROM patient WHERE weight IS NULL LIMIT 1",
        "SELECT p.weight AS w FROM patient AS p WHERE p.weight IS NULL AND site = 2 ORDER BY w LIMIT 1",
        "SELECT days FROM visit WHERE days IS NULL LIMIT 1",
        "SELECT weight, note FROM patient WHERE weight IS NULL AND note IS NULL LIMIT 1",
    ],
)
def test_whether_a_row_is_null_is_a_list_of_values(sql: str, both: Beside) -> None:
    """One of equal rows is there where the list of the different ones is not empty, at its price and with its threshold."""
    both.check(sql)
    story = both.session.explain(sql)
    assert story == both.session.explain(sql.replace("SELECT", "SELECT DISTINCT", 1))
    assert "is shown if its noisy number of people" in story or "free: the keys are public" in story


def test_what_is_declared_has_no_interval_and_none_is_sold(both: Beside) -> None:
    answer = both.session.execute(
        "SELECT COUNT(*) AS n, dp_low(COUNT(*)) AS l, dp_high(SUM(age) + 1) AS h FROM patient WHERE site = 99"
    )
    assert (list(answer.rows), answer.receipt.loss) == ([(0, None, None)], NO_LOSS)


IN = "declared: site is 1 to 3, so nobody is counted in {}; rows with other values are left out"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("COUNT(*) FILTER(WHERE site = 99)", 0),
        ("COUNT_IF(site = 99)", 0),
        ("SUM(age) FILTER(WHERE site > 3 AND age > 20)", None),
        ("SUM(CASE WHEN site = 99 THEN age END)", None),
        ("SUM(CASE WHEN site = 99 THEN age ELSE 0 END)", 0),
        ("SUM(CASE WHEN site = 1 THEN 0 WHEN site = 99 THEN 1 ELSE 0 END)", 0),
        ("COUNT(CASE WHEN site IN (7, 8) THEN 1 END)", 0),
        ("COUNT(DISTINCT CASE WHEN site = 99 THEN patient_id END)", 0),
        ("COUNT(DISTINCT CASE WHEN site = 99 THEN city END)", 0),
        ("AVG(CASE WHEN site = 99 THEN income END)", None),
        ("QUANTILE_CONT(age, [0.1, 0.9]) FILTER(WHERE site = 99)", None),
        ("CORR(age, CASE WHEN site = 99 THEN income END)", None),
    ],
)
def test_an_aggregate_whose_condition_no_declared_value_meets_is_free(value: str, shown: object, both: Beside) -> None:
    alone = both.check(f"SELECT {value} AS v FROM patient")
    assert (list(alone.rows), alone.receipt.loss, alone.remarks) == ([(shown,)], NO_LOSS, (IN.format(value),))
    plain = both.check("SELECT COUNT(*) AS n FROM patient")
    beside = both.check(f"SELECT COUNT(*) AS n, {value} AS v FROM patient")
    assert beside.remarks == (IN.format(value),)
    assert beside.cached and plain.receipt.remaining == beside.receipt.remaining


@pytest.mark.parametrize(
    ("sql", "releases"),
    [
        ("SELECT COUNT(*) FILTER (WHERE site = 2) AS n FROM patient WHERE site = 1", 0),
        ("SELECT SUM(CASE WHEN site = 99 THEN 1 ELSE 0 END) / 2 AS s FROM patient HAVING COUNT_IF(site = 99) < 1", 0),
        ("SELECT female, SUM(CASE WHEN site = 99 THEN 1 ELSE 0 END) AS s FROM patient GROUP BY 1", 0),
        ("SELECT COUNT_IF(site = 99) AS a, COUNT(*) AS b FROM visit JOIN patient USING (patient_id)", 1),
        ("SELECT a, COUNT(*) AS n FROM (SELECT COUNT_IF(site = 99) AS a FROM patient) AS t GROUP BY a", 0),
    ],
)
def test_only_the_other_aggregates_are_bought(sql: str, releases: int, both: Beside) -> None:
    answer = both.ask(sql)
    assert set(answer.rows) >= set(both.expect(sql)) and answer.releases == releases


@pytest.mark.parametrize(
    "value",
    [
        "SUM(CASE WHEN site = 99 THEN 1 ELSE 2 END)",
        "AVG(CASE WHEN site = 99 THEN 1 ELSE 0 END)",
        "COUNT(CASE WHEN site = 99 THEN 1 ELSE 0 END)",
        "COUNT(*) FILTER (WHERE site = 99 OR age > 90)",
        "COUNT(*) FILTER (WHERE female IS NULL)",
        "SUM(CASE WHEN age > 90 THEN 1 ELSE 0 END)",
        "BOOL_OR(site = 99)",
    ],
)
def test_what_other_rows_could_change_is_bought(value: str, both: Beside) -> None:
    assert both.ask(f"SELECT {value} AS v FROM patient").receipt.loss != NO_LOSS


def test_ends_of_what_is_declared_beside_others(both: Beside) -> None:
    sql = (
        "SELECT dp_low(COUNT_IF(site = 99)) AS l, dp_high(COUNT_IF(site = 99) + COUNT(*)) >= COUNT(*) AS h FROM patient"
    )
    assert list(both.session.execute(sql).rows) == [(None, True)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM patient WHERE site = 99 AND age > (SELECT AVG(age) FROM patient)",
        "SELECT COUNT(*) FROM patient WHERE site = 99 AND city IN (SELECT city FROM patient GROUP BY city HAVING COUNT(*) > 3)",
        "SELECT COUNT(*) FILTER (WHERE site = 99 AND age > (SELECT AVG(age) FROM patient)) AS n FROM patient",
        "SELECT COUNT(*) FROM patient WHERE site = 9 AND age > (SELECT AVG(age) FROM patient WHERE 1 < (SELECT AVG(days) FROM visit))",
    ],
)
def test_what_only_a_part_reads_that_nobody_is_in_is_not_bought(sql: str, both: Beside) -> None:
    answer = both.check(sql)
    assert answer.receipt.loss == NO_LOSS and answer.releases == 0
    assert both.session.explain(sql).startswith("free: declared: site is 1 to 3")


def test_what_another_part_reads_too_is_bought(both: Beside) -> None:
    mean = "(SELECT AVG(age) FROM patient)"
    none = f"SELECT COUNT(*) AS n FROM patient WHERE site = 99 AND age > {mean}"
    answer = both.check(
        f"{none} UNION ALL SELECT COUNT(*) FROM visit JOIN patient USING (patient_id) WHERE age > {mean}"
    )
    assert answer.releases == 2


def test_half_a_statement(both: Beside) -> None:
    """Only what is not decided is bought."""
    one, other = "SELECT COUNT(*) AS n FROM patient WHERE site = 99", "SELECT COUNT(*) AS n FROM visit"
    sql = f"SELECT a.n AS none, b.n AS some FROM ({one}) AS a, ({other}) AS b"
    answer = both.check(sql)
    assert answer.releases == 1 and answer.remarks == (SITE,)
    assert f"note: {SITE}" in both.session.explain(sql)


def test_the_answer_is_free_whatever_the_data_holds(tmp_path: Path) -> None:
    """A row beyond the declarations shows in no answer, and in no price."""
    row = list(clinic.database(random.Random(7), wild=False)["patient"][0])
    row[1] = 99
    data: clinic.Database = {name: [tuple(row)] if name == "patient" else [] for name in clinic.DDL}
    opened = beside(tmp_path, data)
    answer = opened.ask("SELECT COUNT(*) FROM patient WHERE site = 99")
    assert (answer.rows, answer.receipt.loss, answer.remarks) == ([(0,)], NO_LOSS, (SITE,))
    answer = opened.ask("SELECT COUNT_IF(site = 99) AS n, SUM(CASE WHEN site = 99 THEN age END) AS s FROM patient")
    assert (answer.rows, answer.receipt.loss) == ([(0, None)], NO_LOSS)
    opened.close()
