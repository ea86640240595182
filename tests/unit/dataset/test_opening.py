"""Opening: what is read of public tables, and which contents may be asked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import read_record
from dpsql.accounting.versions import Versions
from dpsql.core.domains import Categories, Interval, interval
from dpsql.core.errors import Error
from dpsql.dataset import opening, owner
from dpsql.dataset.opening import open_dataset
from dpsql.engines.structure import declared
from dpsql.schema.model import Column, Schema, bounds_fact, rows_fact, unit_fact
from tests.unit.engines.clinic_files import HEAD, ROWS, TABLES, clinic, declare, far_clinic, write_csv, write_parquet

KINDS = ("parquet", "csv", "duckdb")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(tmp_path / "clinic.ledger", "clinic")
    yield opened
    opened.close()


def version(schema: Schema, ledger: Ledger, approve: bool = True) -> str:
    dataset = open_dataset(schema, ledger, approve=approve)
    dataset.engine.close()
    return dataset.version


def moved(schema: Schema, ledger: Ledger) -> set[str]:
    """Tables that nothing is bought of until they are approved."""
    dataset = open_dataset(schema, ledger, approve=False)
    dataset.engine.close()
    return set(dataset.moved)


def refused(schema: Schema, ledger: Ledger, code: int, approve: bool = True) -> str:
    with pytest.raises(Error) as raised:
        open_dataset(schema, ledger, approve=approve)
    assert raised.value.code == f"DPSQL-{code}"
    assert raised.value.__cause__ is None
    return str(raised.value)


def rewrite(folder: Path, kind: str, table: str, sql: str) -> None:
    """Give a table of the clinic other rows."""
    if kind == "duckdb":
        duckdb.connect(str(folder / "clinic.duckdb")).execute(f"CREATE OR REPLACE TABLE {table} AS {sql}").close()
    else:
        (write_csv if kind == "csv" else write_parquet)(folder / f"{table}.{kind}", sql)


# --- versions -----------------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_equal_contents_are_one_version(tmp_path: Path, ledger: Ledger, kind: str) -> None:
    schema = clinic(tmp_path, kind)
    first = version(schema, ledger)
    assert version(schema, ledger, approve=False) == first
    for file in tmp_path.glob("*.*"):
        if file.suffix in (".parquet", ".csv", ".duckdb"):
            copy = tmp_path / "copy"
            copy.write_bytes(file.read_bytes())
            os.replace(copy, file)
    assert version(schema, ledger, approve=False) == first


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", ["visit", "ward"])
def test_other_contents_are_another_version(tmp_path: Path, ledger: Ledger, kind: str, table: str) -> None:
    schema = clinic(tmp_path, kind)
    first = version(schema, ledger)
    rewrite(tmp_path, kind, table, f"SELECT * FROM ({ROWS[table]}) LIMIT 1")
    if table == "visit":
        assert moved(schema, ledger) == {"visit"}, "the others are answered, and what is stored"
    else:
        assert "dpsql check" in refused(schema, ledger, 708, approve=False)
    second = version(schema, ledger)
    assert second != first and len(second) == 32


def test_old_contents_keep_their_version_when_they_come_back(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(tmp_path)
    first = version(schema, ledger)
    kept = (tmp_path / "visit.parquet").read_bytes()
    rewrite(tmp_path, "parquet", "visit", f"{ROWS['visit']} LIMIT 1")
    assert version(schema, ledger) != first
    (tmp_path / "visit.parquet").write_bytes(kept)
    assert version(schema, ledger, approve=False) == first


def test_data_that_was_never_approved_is_not_opened(tmp_path: Path, ledger: Ledger) -> None:
    assert refused(clinic(tmp_path), ledger, 708, approve=False) == (
        "DPSQL-708: the data, or the structure declared for it, is not approved; "
        "its owner must run `dpsql check` with this schema"
    )


def test_the_approval_is_for_the_declared_structure_too(tmp_path: Path, ledger: Ledger) -> None:
    """Else a key that was declared after the check would pass as verified."""
    schema = clinic(tmp_path)
    version(schema, ledger)
    person, visit, ward = schema.tables
    keyed = replace(schema, tables=(person, replace(visit, key=("person_id",)), ward))
    assert moved(keyed, ledger) == {"visit"}
    assert "visit: rows repeat in (person_id)" in refused(keyed, ledger, 804)


def test_limits_and_bounds_need_no_new_approval(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(tmp_path)
    first = version(schema, ledger)
    person, visit, ward = schema.tables
    columns = (visit.columns[0], replace(visit.columns[1], domain=interval(0, 10)))
    wider = replace(schema, tables=(person, replace(visit, max_rows_per_unit=7, columns=columns), ward))
    assert version(wider, ledger, approve=False) == first


def test_a_version_says_nothing_of_the_contents(tmp_path: Path) -> None:
    schema = clinic(tmp_path)
    versions = set()
    for i in range(2):
        ledger = Ledger.open(tmp_path / f"{i}.ledger", "clinic")
        versions.add(version(schema, ledger))
        ledger.close()
        for mark in tmp_path.rglob(".*.dpsql"):  # else the data keeps to its first ledger
            mark.unlink()
    assert len(versions) == 2


def test_threads_that_open_at_once_agree(tmp_path: Path) -> None:
    schema, path = clinic(tmp_path), tmp_path / "clinic.ledger"
    Ledger.open(path, "clinic").close()
    found: list[str] = []

    def work() -> None:
        ledger = Ledger.open(path, "clinic")
        found.append(version(schema, ledger))
        ledger.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1


OPEN = """
import sys
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import read_record
from dpsql.dataset.opening import open_dataset
from dpsql.schema.toml import read_schema
schema, ledger = read_schema(sys.argv[1]), Ledger.open(sys.argv[2], "clinic")
print(open_dataset(schema, ledger, approve=True).version)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_processes_that_open_at_once_agree(tmp_path: Path, kind: str) -> None:
    clinic(tmp_path, kind)
    path = tmp_path / "clinic.ledger"
    Ledger.open(path, "clinic").close()
    command = [sys.executable, "-c", OPEN, str(tmp_path / "schema.toml"), str(path)]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) for _ in range(3)
    ]
    assert len({process.communicate()[0] for process in started}) == 1
    assert all(process.returncode == 0 for process in started)


def test_data_that_changes_while_it_is_opened_is_not_opened(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = clinic(tmp_path)
    approve = Versions.approve

    def late(self: Versions, content: str, signature: str, facts: str, tables: Mapping[str, str]) -> str:
        rewrite(tmp_path, "parquet", "visit", f"{ROWS['visit']} LIMIT 2")
        return approve(self, content, signature, facts, tables)

    monkeypatch.setattr(Versions, "approve", late)
    assert "changed while it was opened" in refused(schema, ledger, 708)
    monkeypatch.undo()
    assert moved(schema, ledger) == {"visit"}, "approved is what was there before"


# --- structure ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_rule_36_every_key_that_repeats_is_named_without_values(tmp_path: Path, ledger: Ledger, kind: str) -> None:
    rows = {
        "person": f"{ROWS['person']} UNION ALL ({ROWS['person']} LIMIT 1)",
        "ward": f"{ROWS['ward']} UNION ALL SELECT 1::INTEGER, 'west', 9.5, NULL",
    }
    message = refused(clinic(tmp_path, kind, rows), ledger, 804)
    assert "table person: rows repeat in (person_id)" in message
    assert "table ward: rows repeat in (ward)" in message
    assert "visit" not in message and "west" not in message and "9.5" not in message
    refused(clinic_schema(tmp_path, kind), ledger, 708, approve=False)


def clinic_schema(folder: Path, kind: str) -> Schema:
    source, suffix = ("clinic.duckdb", "") if kind == "duckdb" else (".", f".{kind}")
    return declare(folder, HEAD.format(source=source) + TABLES.format(suffix=suffix))


def test_rule_36_null_counts_as_a_value(tmp_path: Path, ledger: Ledger) -> None:
    null = "SELECT NULL::BIGINT, 1::INTEGER, 1.0::DOUBLE, NULL::DATE, NULL::VARCHAR"
    once = clinic(tmp_path, rows={"person": f"{ROWS['person']} UNION ALL {null}"})
    version(once, ledger)
    twice = clinic(tmp_path, rows={"person": f"{ROWS['person']} UNION ALL {null} UNION ALL {null}"})
    assert "person: rows repeat" in refused(twice, ledger, 804)


def test_a_key_is_unique_as_it_is_declared_not_as_it_is_stored(tmp_path: Path, ledger: Ledger) -> None:
    stored = ROWS["person"].replace("1::BIGINT", "1.2::DOUBLE").replace("(2, 2", "(1.4, 2")
    assert "person: rows repeat" in refused(clinic(tmp_path, rows={"person": stored}), ledger, 804)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "again", ["SELECT 1, 'west', 9.5, NULL", "SELECT NULL, 'a', 1, NULL UNION ALL SELECT NULL, 'b', 1, NULL"]
)
def test_rule_9_public_keys_are_checked_at_each_opening(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    """Also where an approval is there: it may come from a program that did not look."""
    schema = clinic(tmp_path, rows={"ward": f"{ROWS['ward']} UNION ALL {again}"})
    with monkeypatch.context() as blind:
        blind.setattr(opening, "verify", lambda *_: ())
        version(schema, ledger)
    for _ in range(2):
        message = refused(schema, ledger, 804, approve=False)
        assert message.startswith("DPSQL-804: table ward: rows repeat in (ward)") and "west" not in message


def test_a_damaged_file_is_found_at_the_check(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(
        tmp_path, rows={"visit": "SELECT range AS person_id, (range % 7)::DECIMAL(10,2) AS cost FROM range(9999)"}
    )
    file = tmp_path / "visit.parquet"
    content = bytearray(file.read_bytes())
    content[100 : len(content) // 2] = b"\xff" * (len(content) // 2 - 100)
    file.write_bytes(bytes(content))
    message = refused(schema, ledger, 707)
    assert message == "DPSQL-707: a data source cannot be read"


def test_values_never_keep_data_from_being_opened(tmp_path: Path, ledger: Ledger) -> None:
    rows = {
        "visit": "SELECT 77::BIGINT AS person_id, 9999999.99::DECIMAL(10,2) AS cost FROM range(50)",
        "person": ROWS["person"].replace("10.5", "'-inf'").replace("'Ann'", "NULL"),
    }
    version(clinic(tmp_path, rows=rows), ledger)


def test_empty_tables_open(tmp_path: Path, ledger: Ledger) -> None:
    version(clinic(tmp_path, rows={t: f"SELECT * FROM ({ROWS[t]}) LIMIT 0" for t in ("person", "visit")}), ledger)


# --- verified facts -----------------------------------------------------------------------------------------------


def facts(schema: Schema, ledger: Ledger, approve: bool = False) -> frozenset[str]:
    """The ledger's knowledge of the version that is opened."""
    dataset = open_dataset(schema, ledger, approve=approve)
    dataset.engine.close()
    return read_record(ledger, dataset.version, declared(schema)).facts


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_rule_35_the_check_records_what_holds(tmp_path: Path, ledger: Ledger, kind: str) -> None:
    schema = clinic(tmp_path, kind)
    owner.check(schema, ledger)
    assert facts(schema, ledger) == {
        unit_fact("person"),
        bounds_fact("person", "person_id"),
        bounds_fact("person", "name"),
    }


def test_rule_35_clean_data_has_every_fact(tmp_path: Path, ledger: Ledger) -> None:
    rows = {
        "person": f"SELECT * FROM ({ROWS['person']}) WHERE person_id = 1",
        "visit": "SELECT 1::BIGINT AS person_id, 50.00::DECIMAL(10,2) AS cost FROM range(2)",
    }
    schema = clinic(tmp_path, rows=rows)
    owner.check(schema, ledger)
    columns = {bounds_fact(t.name, c.name) for t in schema.tables for c in t.columns}
    assert facts(schema, ledger) == {unit_fact("person"), unit_fact("visit"), rows_fact("visit"), *columns}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("value", "day", "holds"),
    [
        ("'1.5'", "'2020-01-01'", ("value", "day")),
        ("'10.1'", "'2020-01-01'", ("day",)),
        ("'nan'", "NULL", ()),
        ("'inf'", "'infinity'", ()),
        ("NULL", "'1999-12-31'", ()),
    ],
)
def test_values_outside_their_declaration_are_no_fact(
    tmp_path: Path, ledger: Ledger, value: str, day: str, holds: tuple[str, ...]
) -> None:
    item = f"SELECT 1 AS amount, 'a' AS visit, {value}::DOUBLE AS value, {day}::DATE AS day"
    schema = far_clinic(tmp_path, rows={"item": item})
    owner.check(schema, ledger)
    found = facts(schema, ledger)
    assert {c for c in ("value", "day") if bounds_fact("lab item", c) in found} == set(holds)
    assert {rows_fact("lab item"), unit_fact("lab item")} <= found and unit_fact("visit") not in found


def test_a_dangling_reference_anywhere_on_the_path_is_no_unit(tmp_path: Path, ledger: Ledger) -> None:
    rows = {
        "visit": "SELECT * FROM (VALUES ('a', 1::BIGINT), ('b', 77)) t(visit_id, person_id)",
        "item": "SELECT 1 AS amount, 'a' AS visit, 1.0::DOUBLE AS value, DATE '2020-01-01' AS day",
    }
    schema = far_clinic(tmp_path, rows=rows)
    owner.check(schema, ledger)
    assert {t for t in ("person", "visit", "lab item") if unit_fact(t) in facts(schema, ledger)} == {"person"}


def test_opening_alone_verifies_no_facts(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(tmp_path)
    assert facts(schema, ledger, approve=True) == frozenset()
    owner.check(schema, ledger)
    assert facts(schema, ledger, approve=True) != frozenset()


def test_facts_are_about_what_was_declared(tmp_path: Path, ledger: Ledger) -> None:
    """Else a bound that was written after the check would pass as verified."""
    schema = clinic(tmp_path)
    owner.check(schema, ledger)
    person, visit, ward = schema.tables
    for other in (
        replace(schema, tables=(person, replace(visit, max_rows_per_unit=1), ward)),
        replace(schema, tables=(person, replace(visit, columns=(visit.columns[0], narrow(visit.columns[1]))), ward)),
    ):
        assert facts(other, ledger) == frozenset()
    assert facts(schema, ledger) != frozenset()


def narrow(column: Column) -> Column:
    return replace(column, domain=interval(0, 1))


def test_facts_are_about_one_version(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(tmp_path)
    owner.check(schema, ledger)
    rewrite(tmp_path, "parquet", "visit", f"{ROWS['visit']} LIMIT 2")
    assert facts(schema, ledger, approve=True) == frozenset()


def test_facts_that_another_program_wrote_are_none(tmp_path: Path, ledger: Ledger) -> None:
    schema = clinic(tmp_path)
    approved = owner.check(schema, ledger).version
    for text in ("", "{}", "[1]", '{"verified": 5, "declared": "", "facts": null, "snapshot": [1]}', "null"):
        Versions(ledger).record_facts(approved, text)
        assert facts(schema, ledger) == frozenset()


# --- public facts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_public_columns_and_domains_are_filled_in(tmp_path: Path, ledger: Ledger, kind: str) -> None:
    dataset = open_dataset(clinic(tmp_path, kind), ledger, approve=True)
    dataset.engine.close()
    ward, person = dataset.schema.table("ward"), dataset.schema.table("person")
    assert ward is not None and person is not None
    facts = {c.name: (c.domain, c.nullable, c.role) for c in ward.columns}
    assert facts == {
        "ward": (Categories((1, 2)), False, "dimension"),
        "label": (Categories(("north", "south")), False, "dimension"),
        "size": (Interval(Fraction(3, 2), Fraction(5, 2)), False, "measure"),
        "opened": (Interval(Fraction(10957), Fraction(10957)), True, "measure"),
    }
    listed = person.column("ward")
    assert listed is not None and listed.domain == Categories((1, 2))


def test_long_and_empty_public_columns(tmp_path: Path, ledger: Ledger) -> None:
    ward = """SELECT range::INTEGER AS ward, 'w' || range AS label, NULL::DOUBLE AS x, 'nan'::DOUBLE AS y,
        TIMESTAMP '1970-01-01 00:00:01' AS at, range % 2 = 0 AS b FROM range(2000)"""
    dataset = open_dataset(clinic(tmp_path, rows={"ward": ward}), ledger, approve=True)
    dataset.engine.close()
    table = dataset.schema.table("ward")
    assert table is not None
    assert [str(c.domain) for c in table.columns] == [
        str(interval(0, 1999)),
        "Unbounded()",
        "Unbounded()",
        "Unbounded()",
        str(interval(1_000_000, 1_000_000)),
        "Categories(values=(False, True))",
    ]
    person = dataset.schema.table("person")
    assert person is not None and len(getattr(person.columns[1].domain, "values", ())) == 2000


@pytest.mark.parametrize(
    ("ward", "message"),
    [
        ("SELECT 'a' AS ward", "is of type VARCHAR, not INTEGER"),
        ("SELECT NULL::INTEGER AS ward", "has no values"),
        ("SELECT range AS ward FROM range(100001)", "has more than 100,000 values"),
    ],
)
def test_a_domain_that_cannot_be_taken(tmp_path: Path, ledger: Ledger, ward: str, message: str) -> None:
    found = refused(clinic(tmp_path, rows={"ward": ward}), ledger, 804)
    assert "table person, column ward: domain from ward.ward" in found and message in found


def test_a_domain_from_a_column_that_is_not_there(tmp_path: Path, ledger: Ledger) -> None:
    clinic(tmp_path)
    text = (HEAD.format(source=".") + TABLES.format(suffix=".parquet")).replace('"ward.ward"', '"ward.wrad"')
    assert "ward.wrad is not a column of that table; write ward" in refused(declare(tmp_path, text), ledger, 804)
