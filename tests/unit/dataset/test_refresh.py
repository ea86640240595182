"""refresh: what changed is approved, only that is verified anew, and what is found of it is what `check` finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import VersionRecord, read_record
from dpsql.accounting.versions import Versions
from dpsql.clients.cli.main import main
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.engines import structure
from dpsql.engines.structure import declared
from dpsql.schema.model import Schema, rows_fact
from dpsql.session.opening import ledger_identity
from tests.unit.engines.clinic_files import ROWS, clinic, write_csv

PERSON = ROWS["person"].replace(
    "(3, 7, 500, DATE '1890-01-01', 'bob'), (4, 1, NULL, DATE '1990-01-01', NULL)", "(3, 2, 50, NULL, 'bob')"
)
VISIT = "SELECT * FROM (VALUES (1::BIGINT, 1.25::DECIMAL(10,2)), (1, 0.05), (2, 0.10)) t(person_id, cost)"
FEW = {"person": PERSON.replace("'nan'", "7"), "visit": VISIT, "ward": ROWS["ward"]}
"""Within all that is declared."""
MORE = {
    "person": f"{FEW['person']} UNION ALL SELECT 5, 2, 20.0, DATE '1970-01-01', 'Eve'",
    "visit": f"{VISIT} UNION ALL SELECT 1, 7.00",
    "ward": f"{ROWS['ward']} UNION ALL SELECT 3, 'west', 3.5, NULL",
}


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    return clinic(tmp_path, "csv", FEW)


@pytest.fixture
def ledger(tmp_path: Path, schema: Schema) -> Iterator[Ledger]:
    opened = Ledger.open(tmp_path / "ledger", ledger_identity(schema))
    yield opened
    opened.close()


def record(schema: Schema, ledger: Ledger) -> VersionRecord:
    latest = Versions(ledger).latest()
    assert latest is not None
    return read_record(ledger, latest[0], declared(schema))


def test_before_the_first_check_there_is_nothing_to_refresh(schema: Schema, ledger: Ledger) -> None:
    with pytest.raises(Error) as raised:
        owner.refresh(schema, ledger)
    assert raised.value.code == "DPSQL-708" and "dpsql check" in (raised.value.hint or "")


def test_nothing_new_is_nothing_said(schema: Schema, ledger: Ledger) -> None:
    checked = owner.check(schema, ledger)
    report = owner.refresh(schema, ledger)
    assert str(report) == "" and report.version == checked.version and report.unchanged == ("person", "visit", "ward")


@pytest.mark.parametrize("table", MORE)
@pytest.mark.few(3)
def test_what_is_found_is_what_check_finds(tmp_path: Path, schema: Schema, ledger: Ledger, table: str) -> None:
    owner.check(schema, ledger)
    before = record(schema, ledger)
    write_csv(tmp_path / f"{table}.csv", MORE[table])
    report = owner.refresh(schema, ledger)
    assert report.changed == (table,) and f"changed: {table};" in str(report)
    refreshed = record(schema, ledger)
    assert owner.check(schema, ledger).version == report.version
    assert refreshed == record(schema, ledger)
    assert (rows_fact("visit") in refreshed.facts) == (table != "visit") and rows_fact("visit") in before.facts


def test_only_what_changed_is_read_again(
    tmp_path: Path, schema: Schema, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.check(schema, ledger)
    write_csv(tmp_path / "visit.csv", f"{MORE['visit']} ORDER BY cost DESC")
    read: list[str] = []
    through = structure._read_through
    monkeypatch.setattr(
        structure, "_read_through", lambda engine, table: (read.append(table.name), through(engine, table))
    )
    owner.refresh(schema, ledger)
    assert read == ["visit", "ward"], "public tables are small, and always verified"


def test_a_key_that_repeats_is_not_approved(tmp_path: Path, schema: Schema, ledger: Ledger) -> None:
    checked = owner.check(schema, ledger)
    write_csv(tmp_path / "person.csv", f"{FEW['person']} UNION ALL SELECT 2, 2, 20.0, NULL, 'Eve'")
    with pytest.raises(Error) as raised:
        owner.refresh(schema, ledger)
    assert raised.value.code == "DPSQL-804"
    latest = Versions(ledger).latest()
    assert latest is not None and latest[0] == checked.version


def test_the_command_line_says_what_changed_and_nothing_else(
    tmp_path: Path, schema: Schema, capsys: pytest.CaptureFixture[str]
) -> None:
    target, place = str(tmp_path / "schema.toml"), ["--ledger", str(tmp_path / "other")]
    assert main(["check", target, *place]) == 0
    capsys.readouterr()
    assert main(["refresh", target, *place]) == 0
    assert capsys.readouterr().out == ""
    write_csv(tmp_path / "visit.csv", MORE["visit"])
    assert main(["refresh", target, *place, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["changed"] == ["visit"] and found["unchanged"] == ["person", "ward"]
    assert main(["refresh", target, *place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] == []
