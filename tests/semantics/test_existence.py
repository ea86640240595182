"""BOOL_AND and BOOL_OR: never more than is known, and no more often wrong than their interval may be."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.aggregates.count import CountOf
from dpsql.aggregates.existence import BOOL_AND, BOOL_OR, Surely
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.source import SystemNoise
from tests.semantics.plain import Beside, beside
from tests.semantics.test_statements import crowded
from tests.support import clinic
from tests.support.opened import clinic_data

CONDITIONS = (
    "female",
    "age > 20",
    "age > 1000",
    "age < 1000",
    "weight > 60",
    "city = 'b'",
    "note IS NULL",
    "TRUE",
    "FALSE",
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    opened = beside(tmp_path_factory.mktemp("both"), crowded(7))
    yield opened
    opened.close()


@pytest.mark.parametrize("kept", ["", " FILTER (WHERE site = 2)", " FILTER (WHERE age > 1000)"])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.few(10)
def test_without_noise_they_are_known_where_a_row_decides(condition: str, kept: str, both: Beside) -> None:
    """TRUE of BOOL_OR and FALSE of BOOL_AND as DuckDB; the others would say that nobody decides otherwise."""
    for name, shown in (("BOOL_OR", True), ("LOGICAL_OR", True), ("BOOL_AND", False), ("LOGICAL_AND", False)):
        plain = f"{name.replace('LOGICAL', 'BOOL')}({condition}){kept}"
        for keys, by in (("", ""), ("site, ", " GROUP BY site ORDER BY site")):
            answer = both.ask(f"SELECT {keys}{name}({condition}){kept} AS decided FROM patient{by}")
            expected = both.expect(
                f"SELECT {keys}{plain} FROM patient WHERE site <= 3{by}" if keys else f"SELECT {plain} FROM patient"
            )
            assert answer.rows == [(*key, value if value is shown else None) for *key, value in expected]
            assert answer.columns[-1] == ("decided", "BOOLEAN") and not any(row[-1] for row in answer.accuracy)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM (SELECT patient_id, BOOL_OR(days > 5) AS b FROM visit GROUP BY patient_id) WHERE b",
        "SELECT COUNT(*) FROM (SELECT patient_id, BOOL_AND(days > 5) AS b FROM visit GROUP BY patient_id) WHERE NOT b",
        "SELECT COUNT(*) FROM (SELECT patient_id, BOOL_AND(days > 5) AS b FROM visit GROUP BY patient_id) WHERE b IS NULL",
        "SELECT COUNT(*) FROM (SELECT patient_id, BOOL_OR(cost > 9) FILTER (WHERE year = 2) AS b FROM visit GROUP BY 1) WHERE b",
        "SELECT COUNT(*) FROM patient WHERE (SELECT BOOL_AND(cost > 9) FROM visit WHERE visit.patient_id = patient.patient_id)",
        "SELECT BOOL_OR(n > 3), BOOL_AND(n > 3) FROM (SELECT site, COUNT(*) AS n FROM patient GROUP BY site)",
    ],
)
def test_within_one_persons_rows_and_over_released_ones_they_are_duckdbs(sql: str, both: Beside) -> None:
    known = (
        sql.replace("FROM visit ", "FROM visit WHERE patient_id IS NOT NULL ", 1)
        if "GROUP BY 1" in sql or "patient_id, " in sql
        else sql
    )
    assert both.ask(sql).rows == both.expect(known.replace("FROM patient GROUP", "FROM patient WHERE site <= 3 GROUP"))


@pytest.mark.parametrize("record", [BOOL_AND, BOOL_OR])
def test_where_nobody_decides_it_is_seldom_said(record: object, tmp_path: Path) -> None:
    """Of 20,000 draws around 0 at most 2.5 % are above the half-width; measured where rounding leaves the most: 2.4 %."""
    noise = DiscreteLaplace(Fraction(10))
    draws = noise.sample(SystemNoise(), 20_000)
    found = Surely(CountOf(1), record is BOOL_OR).column([list(draws)], noise, Fraction(95, 100)).values
    said = sum(value is not None for value in found)
    assert said <= 0.025 * len(found) + 4 * (0.025 * len(found)) ** 0.5
    assert {value for value in found if value is not None} <= {record is BOOL_OR}


def test_they_are_read_off_a_stored_number_of_rows_and_it_off_them() -> None:
    with clinic_data(clinic.schema_text(), crowded(7)).without_noise() as session:
        session.execute("SELECT COUNT_IF(age > 20) FROM patient")
        session.execute("SELECT COUNT(*) FILTER (WHERE NOT female) FROM patient")
        for sql in ("SELECT BOOL_OR(age > 20) FROM patient", "SELECT BOOL_AND(female) FROM patient"):
            assert session.execute(sql).receipt.id is None, sql
        assert session.execute("SELECT site, BOOL_OR(age > 30) FROM patient GROUP BY site").receipt.id is not None
        assert session.execute("SELECT site, COUNT_IF(age > 30) FROM patient GROUP BY site").receipt.id is None
        assert session.execute("SELECT BOOL_OR(age > 30) FROM patient").receipt.id is None
