"""Versions of the tables inside one DuckDB or SQLite file: one that did not change keeps its version when another one did."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.engines.duckdb import contents
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.sources import Shape
from dpsql.schema.model import Table
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise
from tests.unit.engines.clinic_files import HEAD, TABLES, declare
from tests.unit.session.test_refreshing import ledger

PEOPLE, VISITS = "SELECT COUNT(*) FROM person", "SELECT COUNT(*) FROM visit"
MADE = [
    "CREATE TABLE person (person_id BIGINT, ward INTEGER, income DOUBLE, born DATE, name VARCHAR, kept VARCHAR)",
    "INSERT INTO person VALUES (1, 1, 10.5, '1950-01-01', 'Ann', 'x'), (2, 2, 20, NULL, '1', 'y'), (3, 2, 30, NULL, NULL, 'z')",
    "CREATE TABLE visit (person_id BIGINT, cost DECIMAL(10,2))",
    "INSERT INTO visit VALUES (1, 1.25), (2, 0.10)",
    "CREATE TABLE ward (ward INTEGER, label VARCHAR)",
    "INSERT INTO ward VALUES (1, 'north'), (2, 'south')",
]


class Place:
    """A clinic in one file of some kind, which analysts ask."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.file = folder / f"clinic.{kind}"
        declare(folder, HEAD.format(source=self.file.name) + TABLES.format(suffix="") + "[analysts.ann]\n")
        self.run(*MADE)
        with ledger(folder) as held:
            owner.check(read_schema(folder / "schema.toml"), held)

    def run(self, *statements: str) -> None:
        with closing(duckdb.connect(self.file) if self.kind == "duckdb" else sqlite3.connect(self.file)) as connection:
            for sql in statements:
                connection.execute(sql)
            if isinstance(connection, sqlite3.Connection):
                connection.commit()

    def refresh(self) -> tuple[str, ...]:
        with ledger(self.folder) as held:
            return owner.refresh(read_schema(self.folder / "schema.toml"), held).changed

    def opened(self) -> closing[Session]:
        return closing(open_session(self.folder / "schema.toml", "ann", self.folder / "ledger", noise=ZeroNoise()))

    def is_stored(self, sql: str) -> bool:
        with self.opened() as session:
            return session.execute(sql).cached


@pytest.fixture(params=["duckdb", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    yield Place(tmp_path, request.param)


def test_a_table_that_did_not_change_keeps_its_version(place: Place) -> None:
    assert not place.is_stored(PEOPLE) and not place.is_stored(VISITS)
    place.run("INSERT INTO visit VALUES (3, 7)", "UPDATE person SET kept = 'w'")
    with place.opened() as session:
        assert session.execute(PEOPLE).cached and session.execute(PEOPLE).notes == ()
        old = session.execute(VISITS)
        assert old.cached and any("visit changed since" in note for note in old.notes)
        with pytest.raises(Error) as raised:
            session.execute("SELECT SUM(cost) FROM visit")
        assert raised.value.code == "DPSQL-708"
        assert session.execute("SELECT COUNT(*) FROM person WHERE ward = 2").rows == [(2,)], (
            "a new question about the others"
        )
    assert place.refresh() == ("visit",)
    assert place.is_stored(PEOPLE) and not place.is_stored(VISITS)
    with place.opened() as session:
        assert session.execute("SELECT SUM(cost) FROM visit").rows == [(Decimal("8.35"),)]


CHANGES = {
    "a row more": "INSERT INTO person VALUES (4, 1, 1, NULL, NULL, 'x')",
    "a row fewer": "DELETE FROM person WHERE person_id = 2",
    "another value": "UPDATE person SET income = 10.25 WHERE person_id = 1",
    "a NULL": "UPDATE person SET name = NULL WHERE person_id = 1",
    "a text in place of NULL": "UPDATE person SET name = '-' WHERE person_id = 3",
    "an empty text in place of NULL": "UPDATE person SET name = '' WHERE person_id = 3",
    "values of two columns taken together": "UPDATE person SET born = NULL, name = '1950-01-013:Ann' WHERE person_id = 1",
    "values of two rows": "UPDATE person SET income = 50 - income WHERE person_id > 1",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.few(10)
def test_any_other_value_is_another_version(place: Place, change: str) -> None:
    place.run(CHANGES[change])
    assert place.refresh() == ("person",)


def test_a_public_table_counts_with_all_its_columns(place: Place) -> None:
    place.run("UPDATE ward SET label = 'east' WHERE ward = 1")
    assert place.refresh() == ("ward",)


def test_another_stored_type_is_another_version(tmp_path: Path) -> None:
    """Its texts are the same, and may be read otherwise."""
    place = Place(tmp_path, "duckdb")
    place.run("ALTER TABLE visit ALTER cost TYPE VARCHAR")
    assert place.refresh() == ("visit",)


def test_a_table_of_lists_changes_with_the_file(tmp_path: Path) -> None:
    """The text of a list does not say where one of its texts ends."""
    place = Place(tmp_path, "duckdb")
    place.run("ALTER TABLE visit ADD COLUMN tags VARCHAR[]")
    text = (tmp_path / "schema.toml").read_text()
    cost = 'cost = { type = "DECIMAL(10,2)", bounds = [0, 50] }\n'
    declare(tmp_path, text.replace(cost, cost + 'tags = { type = "VARCHAR[]", length = 3 }\n'))
    assert place.refresh() == ("visit",)
    place.run("CREATE TABLE other (x INTEGER)")
    assert place.refresh() == ("visit",)


def test_many_rows_are_hashed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path, "duckdb")
    monkeypatch.setattr(contents, "STEP", 2)
    place.run("INSERT INTO visit VALUES (3, 7)")
    assert place.refresh() == ("visit",), "three people in two parts have the hash that they had in one"


def first(ask: contents.Rows, table: Table, shape: Shape) -> bytes | None:
    """A hash of the first part of the rows."""
    return repr(ask(f'SELECT * FROM main."{table.name}" LIMIT 2')).encode()


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a NULL is left out": lambda m: m.setattr(
        contents, "_written", lambda column: f"coalesce(CAST(\"{column}\" AS VARCHAR), '-')"
    ),
    "only some rows are read": lambda m: m.setattr(contents, "digest", first),
}


@pytest.mark.parametrize("fault", PLANTED)
@pytest.mark.few(1)
def test_planted_faults_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    PLANTED[fault](monkeypatch)
    missed = []
    for i, (change, sql) in enumerate(CHANGES.items()):
        (tmp_path / f"{i}").mkdir()
        place = Place(tmp_path / f"{i}", "duckdb")
        place.run(sql)
        missed += [change] if place.refresh() != ("person",) else []
    assert missed


def test_the_identity_of_files_is_that_of_their_bytes(tmp_path: Path) -> None:
    place = Place(tmp_path, "duckdb")
    with closing(DuckDBEngine.open(read_schema(tmp_path / "schema.toml"))) as engine:
        found = engine.signature.digests(b"key")
        assert set(found.tables) == {"person", "visit", "ward"} and len(set(found.tables.values())) == 3
        assert found.whole not in found.tables.values()
    assert place.refresh() == ()
