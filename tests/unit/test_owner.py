"""The owner's verbs: a draft from names and types, a check with exact facts, and the budget."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql import owner
from dpsql.accounting.ledger import Ledger
from dpsql.errors import Error
from dpsql.loss import EpsilonDelta
from dpsql.opening import open_dataset
from dpsql.plan import Budget, ChargeRequest
from dpsql.schema.model import Schema

sys.path.insert(0, str(Path(__file__).parent / "engines"))
from clinic_files import HEAD, ROWS, TABLES, clinic, declare

KINDS = ("parquet", "csv", "duckdb")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(tmp_path / "clinic.ledger", "clinic")
    yield opened
    opened.close()


# --- init ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_reads_back_and_opens(tmp_path: Path, ledger: Ledger, kind: str) -> None:
    rows = {"visit": f"SELECT person_id::BIGINT AS person_id, cost FROM ({ROWS['visit']})"}
    clinic(tmp_path, kind, rows)
    text = owner.init(str(tmp_path / "clinic.duckdb" if kind == "duckdb" else tmp_path))
    draft = tmp_path / "draft.toml"
    assert "[tables.person]" in text and "person_id = { type =" in text
    assert not any(value in text for value in ("Ann", "north", "10.5", "99.99", "1950"))
    draft.write_text(
        text.replace("[tables.ward]", '[tables.ward]\nkey = ["ward"]\npublic = true').split("[tables.ward.columns]")[0]
    )
    try:
        schema = Schema.from_toml(draft)
    except Error as problem:
        pytest.fail(str(problem))
    open_dataset(schema, ledger, approve=True).engine.close()


def test_a_draft_tells_nothing_of_the_rows(tmp_path: Path) -> None:
    for folder, rows in (
        ("a", "SELECT 1 AS id, 'x'::ENUM('x', 'y') AS e"),
        ("b", "SELECT 2 AS id, 'z'::ENUM('z') AS e FROM range(9)"),
    ):
        (tmp_path / folder).mkdir()
        duckdb.connect(str(tmp_path / folder / "d.duckdb")).execute(f"CREATE TABLE t AS {rows}").close()
    one, two = (owner.init(tmp_path / folder / "d.duckdb").replace(f"/{folder}/", "/") for folder in ("a", "b"))
    assert one == two and 'e = { type = "VARCHAR" }' in one


@pytest.mark.parametrize("path", ["nowhere", "file.txt"])
def test_a_source_that_cannot_be_drafted(tmp_path: Path, path: str) -> None:
    (tmp_path / "file.txt").write_text("secret")
    with pytest.raises(Error) as raised:
        owner.init(str(tmp_path / path))
    assert raised.value.code == "DPSQL-707" and "secret" not in str(raised.value)


# --- check --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_check_shows_exact_facts(tmp_path: Path, ledger: Ledger, kind: str) -> None:
    report = owner.check(clinic(tmp_path, kind), ledger)
    person, visit = report.tables
    assert (person.rows, visit.rows) == (4, 6)
    assert person.unit is not None and (person.unit.units, person.unit.most, person.unit.mean) == (4, 1, 1)
    assert visit.unit is not None and visit.unit.mean == Fraction(5, 3)
    assert (visit.unit.units, visit.unit.most, visit.unit.ownerless, visit.unit.over, visit.unit.cut) == (3, 3, 1, 1, 1)
    facts = {c.column.name: (c.nulls, c.nans, c.outside) for c in person.columns}
    assert facts == {
        "person_id": (0, 0, None),
        "ward": (0, 0, 1),
        "income": (1, 1, 1),
        "born": (1, 0, 1),
        "name": (1, 0, None),
    }
    assert [(c.nulls, c.outside) for c in visit.columns] == [(1, None), (0, 2)]
    assert [(r.column, count) for r, count in visit.dangling] == [("person_id", 1)]


def test_check_in_words(tmp_path: Path, ledger: Ledger) -> None:
    text = str(owner.check(clinic(tmp_path), ledger))
    for line in (
        "clinic: the data has the declared structure and is approved.",
        "table person: 4 rows",
        "4 units with 1 to 1 rows, 1 on average; the key allows one",
        "income     DOUBLE, 1 NULL (not declared nullable), 1 NaN, treated as NULL in sums, 1 clamped to the bounds",
        "ward       INTEGER, 1 outside the domain",
        "name       VARCHAR, 1 NULL, no bounds or domain",
        "3 units with 1 to 3 rows, 1.667 on average; the declared limit is 2",
        "the limit cuts 1 rows of 1 units",
        "1 rows belong to no unit and are left out of every answer",
        "1 rows refer by person_id to no row of person.person_id",
        "public: ward",
        "outside the promise",
    ):
        assert line in text, line
    assert not any(value in text for value in ("Ann", "99.99", "500"))


def test_check_approves(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(tmp_path)
    report = owner.check(schema, ledger)
    dataset = open_dataset(schema, ledger, approve=False)
    dataset.engine.close()
    assert dataset.version == report.version == owner.check(schema, ledger).version


def test_check_approves_nothing_that_is_not_as_declared(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(tmp_path, rows={"person": f"{ROWS['person']} UNION ALL {ROWS['person']}"})
    with pytest.raises(Error) as raised:
        owner.check(schema, ledger)
    assert raised.value.code == "DPSQL-804"
    with pytest.raises(Error) as raised:
        open_dataset(schema, ledger, approve=False)
    assert raised.value.code == "DPSQL-708"


def test_rows_per_unit_along_a_longer_path(tmp_path: Path, ledger: Ledger) -> None:
    rows = {
        "visit": "SELECT * FROM (VALUES (1::BIGINT, 1::BIGINT), (2, 1), (3, 2), (4, NULL)) t(visit_id, person_id)",
        "item": "SELECT * FROM (VALUES (1::BIGINT), (1), (2), (3), (4), (99), (NULL)) t(visit_id)",
    }
    clinic(tmp_path, rows=rows)
    tables = TABLES.format(suffix=".parquet").split("[tables.visit]")
    visit = """[tables.visit]
source = "visit.parquet"
key = ["visit_id"]
references = { person_id = "person.person_id" }
[tables.visit.columns]
visit_id = { type = "BIGINT" }
[tables.item]
source = "item.parquet"
references = { visit_id = "visit.visit_id" }
"""
    ward = tables[1][tables[1].index("[tables.ward]") :]
    schema = declare(tmp_path, HEAD.format(source=".") + tables[0] + visit + ward)
    item = owner.check(schema, ledger).tables[2]
    assert item.unit is not None
    assert (item.unit.units, item.unit.most, item.unit.ownerless) == (2, 3, 3)
    assert [count for _, count in item.dangling] == [1]


def test_row_level_privacy_has_no_units_to_count(tmp_path: Path, ledger: Ledger) -> None:
    clinic(tmp_path)
    text = HEAD.format(source=".").replace("person.person_id", "row") + TABLES.format(suffix=".parquet")
    start, stop = text.index("[tables.visit]"), text.index("[tables.ward]")
    report = owner.check(declare(tmp_path, text[:start] + text[stop:]), ledger)
    assert report.tables[0].unit is None and "units" not in str(report)


# --- budget -------------------------------------------------------------------------------------------------------


def charge(ledger: Ledger, analyst: str, statement: str = "SELECT 1") -> None:
    loss = EpsilonDelta(Fraction(1, 10), Fraction(1, 10**9))
    total = Budget(EpsilonDelta(Fraction(4), Fraction(1, 10**6)))
    ledger.charge(ChargeRequest(analyst, "v", statement, ("f",), ("laplace",), loss), total)


def test_the_budget_reads_no_data(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(tmp_path)
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    report = owner.budget(schema, ledger)
    assert report.spent == EpsilonDelta(Fraction(0), Fraction(0)) and report.remaining == report.total
    assert str(report).splitlines() == [
        "clinic: budget",
        "  total      epsilon 4, delta 1e-06",
        "  spent      epsilon 0, delta 0",
        "  remaining  epsilon 4, delta 1e-06",
    ]


def test_the_budget_names_spenders_and_the_last_charges(tmp_path: Path, ledger: Ledger) -> None:
    clinic(tmp_path)
    text = HEAD.format(source=".") + "[analysts.alice]\nepsilon = 1.0\n" + TABLES.format(suffix=".parquet")
    schema = declare(tmp_path, text)
    for i in range(12):
        charge(ledger, "bob" if i % 4 == 0 else "alice", f"SELECT\n  {i}" + " + 0" * 50)
    report = owner.budget(schema, ledger)
    assert report.spent.epsilon == Fraction(12, 10) and report.remaining.epsilon == Fraction(28, 10)
    assert [(a.name, a.spent.epsilon, a.epsilon) for a in report.analysts] == [
        ("alice", Fraction(9, 10), Fraction(1)),
        ("bob", Fraction(3, 10), None),
    ]
    assert [entry.id for entry in report.latest] == list(range(12, 2, -1))
    text = str(report)
    assert "alice: epsilon 0.9, delta 9e-09 (cap: epsilon 1)" in text
    assert "last 10 of 12 charges, newest first" in text and "SELECT 11 + 0" in text
    assert max(map(len, text.splitlines())) < 220
