"""Pairs whose difference no sample unit makes: thresholds beside each other, and lists that are selected privately."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise
from tests.support.opened import Data

TOTAL = "SELECT COUNT(*) FROM patient"
LIGHT = f"{TOTAL} WHERE weight < 81.4"
LIST = "(SELECT code FROM patient GROUP BY code)"
JOINED = "(SELECT code AS k, COUNT(*) AS n FROM patient GROUP BY code) AS t"
CODED = f"{TOTAL} WHERE code IS NOT NULL"
SITES = "SELECT site, COUNT(*) FROM patient"

BANDS = (
    "SELECT CASE WHEN weight < 81.4 THEN 'low' WHEN weight < {} THEN 'middle' ELSE 'high' END AS band, COUNT(*) FROM patient "
    "GROUP BY 1"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Data]:
    folder = tmp_path_factory.mktemp("nobody")
    clinic.write(folder, {name: [] for name in clinic.DDL})
    found = Data(clinic.schema(folder, guard="block"))
    yield found
    found.close()


@pytest.fixture
def session(data: Data) -> Iterator[Session]:
    with data.without_noise() as found:
        yield found


def decided(session: Session, *statements: str, price: str = "10") -> list[str]:
    found = []
    for sql in statements:
        try:
            session.execute(f"/* dpsql: epsilon={price} */ {sql}")
            found.append("answered")
        except Error as refused:
            found.append(refused.code)
    return found


@pytest.mark.parametrize(
    "one, other",
    [
        (LIGHT, f"{TOTAL} WHERE weight <= 81.4"),
        (LIGHT, f"{TOTAL} WHERE NOT weight > 81.4"),
        (LIGHT, f"{TOTAL} WHERE weight < 81.41"),
        (LIGHT, f"{TOTAL} WHERE weight < 81.4 AND weight <= 81.4 AND weight < 81.41"),
        (LIGHT, f"{TOTAL} WHERE weight * 2 <= 162.8"),
        (LIGHT, f"{TOTAL} WHERE 100 - weight >= 18.6"),
        (LIGHT, f"{TOTAL} WHERE -weight / 2 + 3 >= -37.7"),
        (LIGHT, f"{TOTAL} WHERE CAST(weight AS DOUBLE) BETWEEN 0 AND 81.4"),
        (LIGHT, "SELECT COUNT(*) FILTER (WHERE weight <= 81.4) FROM patient"),
        (LIGHT, "SELECT SUM(CASE WHEN 81.4 >= weight THEN 1 ELSE 0 END) FROM patient"),
        (LIGHT, "SELECT COUNT(*) FROM (SELECT weight + 1 AS w FROM patient) AS t WHERE w <= 82.4"),
        ("SELECT weight < 81.4, COUNT(*) FROM patient GROUP BY 1", "SELECT weight <= 81.4, COUNT(*) FROM patient GROUP BY 1"),
        (f"{SITES} WHERE weight < 81.4 GROUP BY site", f"{SITES} WHERE weight <= 81.4 GROUP BY site"),
        ("SELECT AVG(income) FROM patient WHERE weight < 81.4", "SELECT AVG(income) FROM patient WHERE weight <= 81.4"),
        (f"{TOTAL} WHERE ABS(weight - 100) < 20.3", f"{TOTAL} WHERE ABS(weight - 100) <= 20.3"),
        (CODED, f"{TOTAL} WHERE code IN {LIST}"),
        (f"{TOTAL} WHERE code IN {LIST}", CODED),
        ("SELECT COUNT(code) FROM patient", f"SELECT COUNT(*) FROM patient JOIN {JOINED} ON code = k"),
        (CODED, f"{TOTAL} WHERE EXISTS (SELECT 1 FROM {JOINED} WHERE k = code)"),
        ("SELECT AVG(income) FROM patient WHERE code IS NOT NULL", f"SELECT AVG(income) FROM patient WHERE code IN {LIST}"),
        (f"{SITES} GROUP BY site", f"{SITES} WHERE code IN {LIST} OR code IS NULL GROUP BY site"),
    ],
)  # fmt: skip
@pytest.mark.few(15)
def test_nobody_of_the_sample_makes_the_difference(session: Session, one: str, other: str) -> None:
    assert decided(session, one, other) == ["answered", "DPSQL-602"]


def test_two_parts_of_one_statement(session: Session) -> None:
    sql = "SELECT COUNT(*) FILTER (WHERE weight <= 81.4), COUNT(*) FILTER (WHERE weight < 81.4) FROM patient"
    assert decided(session, sql) == ["DPSQL-602"]


@pytest.mark.parametrize(
    "one, other",
    [
        (LIGHT, f"{TOTAL} WHERE NOT weight >= 81.40"),
        (LIGHT, f"{TOTAL} WHERE weight BETWEEN 40 AND 200 AND weight < 81.4"),
        (LIGHT, f"{TOTAL} WHERE weight < 95"),
        (BANDS.format(120), BANDS.format(150)),
        (TOTAL, f"{TOTAL} WHERE weight >= 40 OR weight IS NULL"),
        (f"{TOTAL} WHERE age <= 30", f"{TOTAL} WHERE age < 31"),
        (f"{TOTAL} WHERE age <= 30", f"{TOTAL} WHERE 2 * age < 61.5"),
        (f"{TOTAL} WHERE age >= 40", f"{TOTAL} WHERE age > 40"),
        (f"{TOTAL} WHERE born >= DATE '1995-01-01'", f"{TOTAL} WHERE born > DATE '1994-12-31'"),
        (f"{TOTAL} WHERE born >= DATE '1995-01-01'", f"{TOTAL} WHERE EXTRACT(YEAR FROM born) >= 1995"),
        ("SELECT code, COUNT(*) FROM patient GROUP BY code", f"SELECT code, COUNT(*) FROM patient WHERE code IN {LIST} GROUP BY code"),
        (f"{TOTAL} WHERE city IS NOT NULL", f"{TOTAL} WHERE city IN (SELECT city FROM patient GROUP BY city)"),
    ],
)  # fmt: skip
@pytest.mark.few(10)
def test_the_same_people_or_many_others_are_answered(session: Session, one: str, other: str) -> None:
    """Other words for one threshold; ages that many have; lists that are declared, or that the answer is grouped by."""
    assert decided(session, one, other) == ["answered", "answered"]


def test_noise_decides(session: Session) -> None:
    assert decided(session, LIGHT, f"{TOTAL} WHERE weight <= 81.4", price="0.1") == ["answered", "answered"]


def test_a_time_of_day_lies_in_a_day_without_bounds(tmp_path: Path) -> None:
    text = clinic.schema_text(guard="block").replace("code = {", 'woke = { type = "TIME" }\ncode = {')
    (tmp_path / "schema.toml").write_text(text)
    ddl = clinic.DDL | {"patient": clinic.DDL["patient"].replace("code INTEGER", "woke TIME, code INTEGER")}
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        for name, columns in ddl.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
    session = open_session(tmp_path / "schema.toml", None, ":memory:", noise=ZeroNoise())
    early = [f"{TOTAL} WHERE woke {operator} TIME '07:13:22'" for operator in ("<", ">=", "<=")]
    try:
        assert decided(session, *early) == ["answered", "answered", "DPSQL-602"]
    finally:
        session.close()
