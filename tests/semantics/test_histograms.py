"""width_bucket means what the SQL standard says, over people's rows, released rows and public tables, beside plain DuckDB, which does
not have it: there it is written out with CASE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.session.opening import open_session
from tests.semantics.plain import UNLIMITED, Beside, beside
from tests.semantics.test_statements import crowded
from tests.support import clinic
from tests.support.noise import ZeroNoise

_CALL = re.compile(r"width_bucket\((\w+|COUNT\(\*\)), (\S+), (\S+), (\d+)\)", re.IGNORECASE)


def written_out(sql: str) -> str:
    """The statement with CASE in place of width_bucket."""

    def case(found: re.Match[str]) -> str:
        x, low, high, count = found.groups()
        return (
            f"CASE WHEN isnan({x}) THEN NULL WHEN {x} < {low} THEN 0 WHEN {x} >= {high} THEN {int(count) + 1} "
            f"WHEN {x} IS NOT NULL THEN CAST(floor(({x} - {low}) * {count} / ({high} - {low})) AS INTEGER) + 1 END"
        )

    return _CALL.sub(case, sql)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    opened = beside(tmp_path_factory.mktemp("histograms"), crowded(5))
    yield opened
    opened.close()


STATEMENTS = [
    "SELECT width_bucket(income, -50, 100.5, 3) AS k, COUNT(*) FROM patient GROUP BY k",
    "SELECT width_bucket(income, 0, 100, 10) AS k, COUNT(*), AVG(age) FROM patient GROUP BY 1 HAVING COUNT(*) > 0",
    "SELECT width_bucket(age, 0, 100, 10) AS k, COUNT(*) FROM patient GROUP BY ALL HAVING COUNT(*) > 0",
    "SELECT width_bucket(age, 10, 91, 81) AS k, COUNT(*) FROM patient GROUP BY ALL HAVING COUNT(*) > 0",
    "SELECT width_bucket(score, 20.5, 60.25, 7) AS k, COUNT(*) FROM patient GROUP BY k HAVING COUNT(*) > 0",
    "SELECT width_bucket(weight, 40, 200, 2) AS k, COUNT(*) FROM patient GROUP BY k HAVING COUNT(*) > 0",
    "SELECT width_bucket(code, -5, 5, 4) AS k, COUNT(*) FROM patient GROUP BY k HAVING COUNT(*) > 0",
    "SELECT site, width_bucket(age, 0, 90, 2) AS k, COUNT(*) FROM patient GROUP BY ALL HAVING COUNT(*) > 0",
    "SELECT DISTINCT width_bucket(site, 1, 3, 2) AS k, COUNT(*) OVER () FROM patient GROUP BY k",
    "SELECT COUNT(*) FROM patient WHERE width_bucket(income, -50, 100, 4) IN (1, 3) AND width_bucket(age, 0, 50, 5) > 2",
    "SELECT COUNT(*) FROM patient WHERE width_bucket(weight, 40, 120, 4) IS NULL",
    "SELECT COUNT(*) FROM patient WHERE width_bucket(weight, 40, 120, 4) <> 5",
    "SELECT SUM(width_bucket(score, 0, 100, 20)) AS s, AVG(width_bucket(code, 0, 9, 3)) AS a FROM patient",
    "SELECT MAX(k) AS m FROM (SELECT site, width_bucket(COUNT(*), 0, 40, 8) AS k FROM patient GROUP BY site)",
    "SELECT site FROM patient GROUP BY site HAVING width_bucket(COUNT(*), 0, 40, 8) BETWEEN 1 AND 5",
    "SELECT city, COUNT(*) FROM patient GROUP BY city ORDER BY width_bucket(COUNT(*), 0, 60, 4) DESC, city NULLS FIRST",
    "SELECT width_bucket(drug, 1, 5, 2) AS k, label FROM drug",
    "SELECT k, COUNT(*) FROM item JOIN (SELECT drug, width_bucket(drug, 1, 5, 2) AS k FROM drug) d USING (drug) GROUP BY k",
    "SELECT width_bucket(drug, 1, 5, 2) AS k, COUNT(*) FROM drug GROUP BY k",
    "SELECT k, COUNT(*) FROM (SELECT patient_id, width_bucket(s, 0, 100, 5) AS k FROM (SELECT patient_id, SUM(cost) AS s "
    "FROM visit GROUP BY patient_id) t) u GROUP BY k HAVING COUNT(*) > 0",
    "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id AND "
    "width_bucket(cost, 0, 60, 3) = 2)",
    "SELECT k, COUNT(*) FROM (SELECT patient_id, width_bucket(days, -3, 30, 11) AS k FROM visit) t GROUP BY k HAVING COUNT(*) > 0",
]


@pytest.mark.few(9)
@pytest.mark.parametrize("sql", STATEMENTS)
def test_it_is_what_case_says(sql: str, both: Beside) -> None:
    assert written_out(sql) != sql
    both.check(sql, plain=written_out(sql), ordered="ORDER BY" in sql)


@pytest.mark.parametrize(
    ("where", "shown"),
    [("", range(12)), ("WHERE income BETWEEN 0 AND 50", range(1, 7)), ("WHERE income >= 95", range(10, 12))],
)
def test_every_bucket_of_the_declared_values_is_shown_and_no_other(where: str, shown: range, both: Beside) -> None:
    answer = both.ask(f"SELECT width_bucket(income, 0, 100, 10), COUNT(*) FROM patient {where} GROUP BY 1")
    assert [row[0] for row in answer.rows] == list(shown)
    assert answer.columns == (("width_bucket(income, 0, 100, 10)", "INTEGER"), ("count_star()", "BIGINT"))
    assert answer.releases == 1


def test_an_empty_table_has_a_histogram_of_zeros(tmp_path: Path) -> None:
    nobody = beside(tmp_path, {name: [] for name in clinic.DDL})
    for column, buckets in (("age", range(2, 11)), ("code", [*range(12), None])):
        found = nobody.ask(f"SELECT width_bucket({column}, 0, 100, 10) AS k, COUNT(*) FROM patient GROUP BY k").rows
        assert found == [(k, 0) for k in buckets]
    nobody.close()


def test_a_row_moves_one_bucket_under_row_level_privacy(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(
        clinic.ROW + clinic.PATIENT.replace('role = "identifier"', 'role = "measure"') + clinic.PUBLIC
    )
    data = crowded(5)
    clinic.write(tmp_path, data)
    session = open_session(tmp_path / "schema.toml", None, ":memory:", noise=ZeroNoise())
    sql = "SELECT width_bucket(age, 0, 100, 10) AS k, COUNT(*) FROM patient GROUP BY k"
    assert "one row changes l0 1, linf 1, l1 1, l2^2 1" in session.explain(sql)
    assert sum(row[1] for row in session.execute(sql).rows) == len(data["patient"])
    session.close()


def test_nan_and_null_are_in_no_bucket(tmp_path: Path) -> None:
    """A declared NULL is a group of its own, with NaN in it; else such rows are in no group at all."""
    data = crowded(5)
    people = [list(row) for row in data["patient"]]
    for i, (income, weight) in enumerate([(float("nan"), float("nan")), (None, None), (float("inf"), float("inf"))]):
        people[i][3], people[i][4] = income, weight
    for person in people[3:]:
        person[3], person[4] = 0.0, 40.0
    opened = beside(tmp_path, {**data, "patient": [tuple(p) for p in people]}, text=UNLIMITED)
    assert opened.ask("SELECT width_bucket(income, 0, 100, 1) AS k, COUNT(*) FROM patient GROUP BY k").rows == [
        (0, 0), (1, 57), (2, 1),
    ]  # fmt: skip
    assert opened.ask("SELECT width_bucket(weight, 0, 100, 1) AS k, COUNT(*) FROM patient GROUP BY k").rows == [
        (1, 57), (2, 1), (None, 2),
    ]  # fmt: skip
    opened.close()


def test_columns_are_named_as_duckdb_names_a_function(both: Beside) -> None:
    answer = both.ask(
        "SELECT WIDTH_BUCKET(age,0,100 ,10), Width_Bucket(COUNT(*), 0, ?, ?) FROM patient GROUP BY 1", [9, 3]
    )
    assert [name for name, _ in answer.columns] == [
        "width_bucket(age, 0, 100, 10)",
        "width_bucket(count_star(), 0, 9, 3)",
    ]
    inner = "SELECT width_bucket(age, 0, 100, 10), COUNT(*) AS n FROM patient GROUP BY ALL"
    named = both.ask(f'SELECT SUM(n), MAX("width_bucket(age, 0, 100, 10)") FROM ({inner})')
    assert named.rows == [(60, 10)]


@pytest.mark.parametrize(
    ("sql", "code", "what"),
    [
        ("SELECT width_bucket(born, 0, 9, 3), COUNT(*) FROM patient GROUP BY 1", 106, "DATE_DIFF"),
        ("SELECT width_bucket(city, 0, 9, 3), COUNT(*) FROM patient GROUP BY 1", 106, "CAST"),
        ("SELECT width_bucket(age, 9, 0, 3), COUNT(*) FROM patient GROUP BY 1", 106, "less than its upper bound"),
        ("SELECT width_bucket(age, site, 9, 3), COUNT(*) FROM patient GROUP BY 1", 106, "constant numbers"),
        ("SELECT width_bucket(age, 0, (SELECT 9), 3), COUNT(*) FROM patient GROUP BY 1", 106, "constant numbers"),
        ("SELECT width_bucket(age, 0, 9), COUNT(*) FROM patient GROUP BY 1", 106, "4 arguments"),
        (
            "SELECT width_bucket(age, 0, 9, 3, 4), COUNT(*) FROM patient GROUP BY 1",
            102,
            "an argument of WIDTH_BUCKET()",
        ),
        ("SELECT width_bucket(age, 0, 9, n), COUNT(*) FROM patient GROUP BY 1", 106, "whole number"),
        ("SELECT width_bucket(COUNT(*), 9, 0, 3) FROM patient", 106, "less than its upper bound"),
        ("SELECT width_bucket(COUNT(*), 0, COUNT(*), 3) FROM patient", 106, "constant numbers"),
        ("SELECT width_bucket(COUNT(*), 0, 9, 0) FROM patient", 106, "from 1 to 99,998"),
        ("SELECT COUNT(*) FROM patient HAVING width_bucket(COUNT(*), x := 1)", 106, "4 arguments"),
        ("SELECT width_bucket(label, 0, 9, 3) FROM drug", 106, "does not take"),
        ("SELECT width_bucket(patient_id, 0, 9, 3), COUNT(*) FROM patient GROUP BY 1", 302, "identifier"),
        ("SELECT HISTOGRAM(income) FROM patient", 102, "GROUP BY width_bucket(x, 0, 100, 10)"),
    ],
)
def test_what_has_no_buckets_is_refused_before_the_charge(sql: str, code: int, what: str, both: Beside) -> None:
    before = both.ask("SELECT 1").receipt.remaining
    with pytest.raises(Error) as raised:
        both.ask(sql)
    assert raised.value.code == f"DPSQL-{code}" and what in str(raised.value)
    assert both.ask("SELECT 1").receipt.remaining == before
