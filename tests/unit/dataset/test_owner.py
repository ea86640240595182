"""The owner's verbs: a draft from names and types, a check with exact facts, and the budget."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.core.loss import NO_LOSS, EpsilonDelta
from dpsql.dataset import owner
from dpsql.dataset.opening import open_dataset
from dpsql.mechanisms.conversions import pure
from dpsql.plan.charges import Budget, ChargeRequest, Portion
from dpsql.schema.toml import read_schema
from tests.unit.engines.clinic_files import HEAD, ROWS, TABLES, clinic, declare

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
        schema = read_schema(draft)
    except Error as problem:
        pytest.fail(str(problem))
    open_dataset(schema, ledger, approve=True).engine.close()


def test_a_draft_has_the_keys_that_a_duckdb_file_declares(tmp_path: Path) -> None:
    connection = duckdb.connect(str(tmp_path / "shop.duckdb"))
    connection.execute("""CREATE SCHEMA sales;
        CREATE TABLE people (id INTEGER PRIMARY KEY, nick VARCHAR UNIQUE, city VARCHAR NOT NULL);
        CREATE TABLE visits (visit BIGINT PRIMARY KEY, who INTEGER NOT NULL REFERENCES people(id), cost DOUBLE);
        CREATE TABLE sales.regions (code VARCHAR PRIMARY KEY);
        CREATE TABLE sales.shops (shop INTEGER, region VARCHAR REFERENCES sales.regions(code), PRIMARY KEY (shop));
        CREATE TABLE heap AS SELECT 1 AS id""")
    connection.close()
    text = owner.init(tmp_path / "shop.duckdb")
    assert 'key = ["visit"]\nreferences = { who = "people.id" }\n' in text
    assert 'unit = "people.id"  # CHECK' in text
    assert 'nick = { type = "VARCHAR", nullable = true }' in text and 'city = { type = "VARCHAR" }' in text
    assert 'references = { region = "sales.regions.code" }' in text
    assert "nullable" not in text[text.index("[tables.heap]") : text.index("[tables.people]")]


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
    assert [(r.name, count) for r, count in visit.dangling] == [("person_id", 1)]


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


# --- the ledger and the promise in a check ------------------------------------------------------------------------


def test_check_verifies_the_ledger_first(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(tmp_path)
    assert str(owner.check(schema, ledger)).startswith("ledger: 0 charges, whole\n")
    charge(ledger, "alice")
    assert str(owner.check(schema, ledger)).startswith("ledger: 1 charge, whole\n")
    with closing(sqlite3.connect(tmp_path / "clinic.ledger")) as edited:
        edited.execute("UPDATE charge SET analyst = 'bob'")
        edited.commit()
    with pytest.raises(Error) as raised:
        owner.check(schema, ledger)
    assert raised.value.code == "DPSQL-705"


def test_check_says_what_the_promise_means(tmp_path: Path, ledger: Ledger) -> None:
    clinic(tmp_path)
    doubts = owner.check(clinic(tmp_path), ledger).warnings
    assert doubts and all(
        note.startswith(("the bounds of ", "the list of ", "1 value of ", "max_rows")) for note in doubts
    )
    more = """window = "month"
partition = "person.ward"
[analysts.bi]
[reservations.board]
analyst = "bi"
refreshes = 12
epsilon = 0.1
"""
    tables = TABLES.format(suffix=".parquet").replace('{ from = "ward.ward" }', "[1, 2]")
    report = owner.check(declare(tmp_path, HEAD.format(source=".") + more + tables), ledger)
    month, partition, reserved = (warning for warning in report.warnings if warning not in doubts)
    assert "n months lose n times as much" in month and "12 times epsilon 4, delta 1e-6" in month
    assert "the owner promises that person.ward never changes for a person" in partition
    assert reserved.startswith("reserved for bi (board): 12 refreshes of epsilon 0.1, delta 0")
    assert all(f"note: {warning}" in str(report) for warning in report.warnings)


# --- budget -------------------------------------------------------------------------------------------------------


def charge(ledger: Ledger, analyst: str, statement: str = "SELECT 1", entries: tuple[str, ...] | None = None) -> None:
    portion = Portion(pure(Fraction(1, 10), Fraction(1, 10**9)), entries)
    total = Budget(EpsilonDelta(Fraction(4), Fraction(1, 10**6)))
    ledger.charge(ChargeRequest(analyst, "v", statement, ("f",), ("laplace",), (portion,), None, ("{}",)), total)


def test_the_budget_reads_no_data(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(tmp_path)
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    report = owner.budget(schema, ledger)
    assert report.totals[0].spent.loss == NO_LOSS and not report.charges and not report.spenders
    assert str(report).splitlines() == [
        "clinic: budget",
        "  total      epsilon 4, delta 1e-06",
        "  spent      epsilon 0, delta 0",
        "  remaining  epsilon 4, delta 5e-07 for one more statement; 56 more of epsilon 0.1 fit",
        "  promise    auto accounting, kept by pure, zcdp, gdp",
        "  a guess    whether a person is in the data can be guessed right at most 98.3 % of the time; a coin is right 50 %",
    ]


def test_the_budget_names_spenders_and_the_last_charges(tmp_path: Path, ledger: Ledger) -> None:
    clinic(tmp_path)
    text = HEAD.format(source=".") + "[analysts.alice]\nepsilon = 1.0\n" + TABLES.format(suffix=".parquet")
    schema = declare(tmp_path, text)
    for i in range(12):
        charge(ledger, "bob" if i % 4 == 0 else "alice", f"SELECT\n  {i}" + " + 0" * 50)
    report = owner.budget(schema, ledger)
    assert report.totals[0].spent.loss.epsilon == Fraction(12, 10)
    assert report.totals[0].remaining.epsilon == Fraction(28, 10)
    assert [(a.name, a.spent.loss.epsilon, a.epsilon, a.charges) for a in report.spenders] == [
        ("alice", Fraction(9, 10), Fraction(1), 9),
        ("bob", Fraction(3, 10), None, 3),
    ]
    text = str(report)
    assert "  alice: epsilon 0.9, delta 9e-09 (cap: epsilon 1); 9 charges; remaining epsilon 0.1\n" in text
    assert "last 10 of 12 charges, newest first\n  12  " in text and "SELECT 11 + 0" in text
    assert "SELECT 1 + 0" not in text
    assert max(map(len, text.splitlines())) < 220


def test_the_budget_names_roles_reservations_and_values(tmp_path: Path, ledger: Ledger) -> None:
    clinic(tmp_path)
    more = """accounting = "sequential"
partition = "person.ward"
window = "week"
[roles.interns]
epsilon = 1.0
[analysts.bi]
[reservations.board]
analyst = "bi"
refreshes = 12
epsilon = 0.1
"""
    tables = TABLES.format(suffix=".parquet").replace('{ from = "ward.ward" }', "[1, 2]")
    schema = declare(tmp_path, HEAD.format(source=".") + more + tables)
    charge(ledger, "bi", entries=('["person.ward 00", "2"]',))
    lines = [line.strip() for line in str(owner.budget(schema, ledger)).splitlines()]
    assert lines[1] == "total      epsilon 4, delta 1e-06 for each week"
    assert lines[2] == "spent      epsilon 0.1, delta 1e-09 in this week"
    assert lines[4] == "promise    sequential accounting, kept by pure"
    for line in (
        "person.ward = 2: spent epsilon 0.1, delta 1e-09 of epsilon 4, delta 1e-06; remaining epsilon 2.8, delta 9.99e-07",
        "interns: spent epsilon 0, delta 0 of epsilon 1, delta 1e-06; remaining epsilon 1, delta 1e-06",
        "board: 11 refreshes left; spent epsilon 0.1, delta 0 of epsilon 1.2, delta 0; remaining epsilon 1.1, delta 0",
        "bi: epsilon 0.1, delta 1e-09; 1 charge; remaining epsilon 3.9",
    ):
        assert line in lines, line


def test_the_budget_as_json_is_exact(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(tmp_path)
    charge(ledger, "bob", "SELECT 'é'")
    found = json.loads(owner.budget(schema, ledger).json)
    assert (found["dataset"], found["accounting"], found["accountants"]) == ("clinic", "auto", ["pure", "zcdp", "gdp"])
    [whole] = found["budget"]
    assert whole["holder"] == "dataset" and whole["spent_epsilon"] == 0.1
    assert whole["exact"]["spent"]["epsilon"] == "1/10" and whole["exact"]["remaining_epsilon"] == "39/10"
    [entry] = found["ledger"]
    assert entry["exact"]["delta"] == "1/1000000000" and entry["statement"] == "SELECT 'é'"
    assert entry["time"].endswith("+00:00")
    assert found["analysts"][0]["analyst"] == "bob"
