"""SQLite files as a source: values of any type in any column, logs beside the file, writers, and what a first schema says."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.dataset.opening import open_dataset
from dpsql.engines.duckdb.copied import CopiedEngine
from dpsql.engines.registry import kind_for, kind_of
from dpsql.engines.signature import Signature
from dpsql.engines.sqlite import reading
from dpsql.engines.sqlite.kind import KIND
from dpsql.schema import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from tests.support.noise import ZeroNoise
from tests.unit.engines.clinic_files import HEAD, TABLES, declare
from tests.unit.schema.schema_files import read

ROWS = """
CREATE TABLE ward (ward INTEGER PRIMARY KEY, label TEXT, size NUMERIC, opened DATE, plan BLOB);
CREATE TABLE person (person_id INTEGER PRIMARY KEY, ward INT NOT NULL, income REAL, born, name TEXT);
CREATE TABLE visit (person_id INT REFERENCES person, cost DECIMAL(10, 2));
CREATE VIEW seen AS SELECT * FROM visit;
INSERT INTO ward VALUES (1, 'north', 1.5, '2000-01-01', x'00'), (2, 'south', 2, NULL, NULL);
INSERT INTO person VALUES (1, 1, 10.5, '1950-01-01', 'Ann'), (2, 2, NULL, NULL, 'ANN'), (3, 7, 500, 1890, 'bob');
INSERT INTO person VALUES (4, 1, 'much', x'01', 5);
INSERT INTO visit VALUES (1, 1.25), (1, -0.05), (1, 99.99), (2, 0.1), (9, 1), (NULL, 2);
"""
VALUES = (
    None, 0, 1, 2, -1, 2**63 - 1, -(2**63), 0.0, -0.0, 0.5, 2.5, 1e16, 1e300, 5e-324, float("inf"), "", "1", "01", " 1 ", "1.5", "true",
    "nan", "-inf", "1e400", "2020-02-29",
    "2020-02-30", "2020-01-01 10:00:00+02", "10:00", "[a, b]", "x\0y", "ß", b"", b"\xff", "9" * 60,
)  # fmt: skip
TYPES = ("BOOLEAN", "TINYINT", "BIGINT", "HUGEINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,0)", "VARCHAR", "DATE",
    "TIMESTAMP", "TIME", "VARCHAR[]", "INTEGER[]")  # fmt: skip


def execute(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)


def clinic(folder: Path, source: str = "clinic.sqlite", begin: str = "") -> Schema:
    execute(folder / "clinic.sqlite", begin + ROWS)
    return declare(folder, HEAD.format(source=source) + TABLES.format(suffix=""))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    (tmp_path / "kept").mkdir()
    with closing(Ledger.open(tmp_path / "kept" / "clinic.ledger", "clinic")) as opened:
        yield opened


def rows(schema: Schema, sql: str) -> list[tuple[object, ...]]:
    with closing(kind_for(schema).begin(schema, lambda _: None)) as engine:
        return engine.owner_rows(sql)


def beside(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if "sqlite" in path.name and not path.name.endswith(".dpsql")}


@pytest.mark.parametrize("source", ["clinic.sqlite", "sqlite:///clinic.sqlite", "sqlite:clinic.sqlite"])
def test_a_source_is_a_file_that_begins_as_one_or_names_the_scheme(tmp_path: Path, source: str) -> None:
    schema = clinic(tmp_path, source)
    assert kind_for(schema) is KIND and kind_of(str(tmp_path / "clinic.sqlite")) is KIND
    assert rows(schema, "SELECT count(*), count(DISTINCT ward) FROM main.person") == [(4, 3)]
    assert beside(tmp_path) == {"clinic.sqlite"}


def test_an_absolute_path_has_four_strokes(tmp_path: Path) -> None:
    schema = clinic(tmp_path, f"sqlite:///{tmp_path}/clinic.sqlite")
    assert rows(schema, "SELECT sum(cost)::VARCHAR FROM main.visit") == [("104.29",)]


def test_values_have_their_declared_types_or_are_null(tmp_path: Path) -> None:
    schema = clinic(tmp_path)
    found = rows(schema, "SELECT income, born::VARCHAR, name FROM main.person ORDER BY person_id")
    assert found == [(10.5, "1950-01-01", "Ann"), (None, None, "ANN"), (500.0, None, "bob"), (None, None, "5")]
    ward = rows(schema, "SELECT * FROM main.ward ORDER BY ward")
    assert [row[:3] for row in ward] == [(1, "north", 1.5), (2, "south", 2.0)] and len(ward[0]) == 4


def test_the_check_names_what_does_not_fit(tmp_path: Path, ledger: Ledger) -> None:
    report = str(owner.check(clinic(tmp_path), ledger))
    assert "income     DOUBLE, 2 NULL (not declared nullable), 1 of them no DOUBLE, 1 clamped to the bounds" in report
    assert "born       DATE, 3 NULL, 2 of them no DATE" in report
    assert "name       VARCHAR, no bounds or domain" in report


def columns(folder: Path, sqltype: str, *columns: list[object]) -> list[list[object]]:
    """Private columns, each of a table of its own, as they are shown, by rowid."""
    path = folder / "one.sqlite"
    path.unlink(missing_ok=True)
    length = ", length = 5" if sqltype.endswith("[]") else ""
    text = HEAD.format(source="one.sqlite").replace("person.person_id", "t0.id")
    with closing(sqlite3.connect(path)) as connection:
        for place, cells in enumerate(columns):
            connection.execute(f"CREATE TABLE t{place} (id INTEGER PRIMARY KEY, v)")
            connection.executemany(f"INSERT INTO t{place} (v) VALUES (?)", [(cell,) for cell in cells])
            text += f"[tables.t{place}]\n" + ('key = ["id"]\n' if place == 0 else 'references = { id = "t0.id" }\n')
            text += f'columns = {{ id = {{ type = "BIGINT" }}, v = {{ type = "{sqltype}"{length} }} }}\n'
        connection.commit()
    schema = declare(folder, text)
    with closing(kind_for(schema).begin(schema, lambda _: None)) as engine:
        shown = [
            engine.owner_rows(f"SELECT v::VARCHAR FROM main.t{place} ORDER BY id") for place in range(len(columns))
        ]
    return [[v for (v,) in rows] for rows in shown]


def one_column(folder: Path, sqltype: str, cells: list[object]) -> list[object]:
    return columns(folder, sqltype, cells)[0]


@pytest.mark.parametrize("sqltype", TYPES)
@pytest.mark.few(3)
def test_a_value_is_read_alike_whatever_stands_beside_it(tmp_path: Path, sqltype: str) -> None:
    """One person's value may not decide how another's is read (rule 10), and none may fail (rule 45)."""
    together, *alone = columns(tmp_path, sqltype, list(VALUES), *([value] for value in VALUES))
    assert [[value] for value in together] == alone
    assert together[0] is None and any(value is not None for value in together)


def test_numbers_keep_every_digit(tmp_path: Path) -> None:
    assert one_column(tmp_path, "BIGINT", [2**63 - 1, -(2**63)]) == [str(2**63 - 1), str(-(2**63))]
    wild = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 2.0**53 + 1]
    assert [float(str(v)) for v in one_column(tmp_path, "DOUBLE", wild)] == wild


def test_many_rows_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ROWS", 3)
    assert one_column(tmp_path, "INTEGER", [*range(7), "x"]) == [*map(str, range(7)), None]


def test_a_log_of_changes_is_read_and_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    schema = clinic(tmp_path, begin="PRAGMA journal_mode = WAL;")
    assert beside(tmp_path) == {"clinic.sqlite"}
    count = "SELECT count(*) FROM main.visit"
    assert rows(schema, count) == [(6,)] and beside(tmp_path) == {"clinic.sqlite"}
    with closing(sqlite3.connect(tmp_path / "clinic.sqlite", isolation_level=None)) as writer:
        writer.execute("INSERT INTO visit VALUES (3, 7)")
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert (tmp_path / "clinic.sqlite-wal").stat().st_size > 0
        assert rows(schema, count) == [(7,)]
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_of_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    schema = clinic(tmp_path)
    (tmp_path / "clinic.sqlite").chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert rows(schema, "SELECT count(*) FROM main.visit") == [(6,)]
    finally:
        tmp_path.chmod(0o700)


def test_what_changes_while_it_is_open_is_not_answered(tmp_path: Path) -> None:
    schema = clinic(tmp_path, begin="PRAGMA journal_mode = WAL;")
    with closing(open_session(schema, None, tmp_path / "a.ledger", ZeroNoise())) as session:
        assert session.execute("SELECT COUNT(*) FROM person").rows == [(4,)]
        with closing(sqlite3.connect(tmp_path / "clinic.sqlite", isolation_level=None)) as writer:
            writer.execute("INSERT INTO person VALUES (5, 1, 1, NULL, 'eve')")
            with pytest.raises(Error, match=r"DPSQL-70[28]"):
                session.execute("SELECT COUNT(*) FROM person WHERE ward = 1")


def test_a_write_while_it_is_read_is_noticed(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, real = clinic(tmp_path, begin="PRAGMA journal_mode = WAL;"), reading.OpenFile.rows

    def slow(held: reading.OpenFile, table: str, columns: list[str]) -> object:
        execute(tmp_path / "clinic.sqlite", "INSERT INTO visit VALUES (3, 7)")
        return real(held, table, columns)

    monkeypatch.setattr(reading.OpenFile, "rows", slow)
    with pytest.raises(Error, match=r"DPSQL-70[28]"):
        open_dataset(schema, ledger, approve=True)


def test_a_writer_that_has_locked_the_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, real = clinic(tmp_path), sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, **{**k, "timeout": 0.1}))
    with closing(real(tmp_path / "clinic.sqlite", isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Error, match=r"DPSQL-707: .*a program is writing to it"):
            rows(schema, "SELECT 1")


def test_a_change_that_was_left_half_done_is_named(tmp_path: Path) -> None:
    schema = clinic(tmp_path)
    source, copy = tmp_path / "clinic.sqlite", tmp_path / "half.sqlite"
    with closing(sqlite3.connect(source, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 2")
        writer.execute(
            "CREATE TABLE large AS SELECT hex(randomblob(900)) AS x FROM ward a, ward b, person c, person d, visit e"
        )
        writer.execute("BEGIN")
        writer.execute("UPDATE large SET x = x || 'y'")
        shutil.copy(source, copy)
        shutil.copy(f"{source}-journal", f"{copy}-journal")
        writer.execute("ROLLBACK")
    os.replace(copy, source)
    os.replace(f"{copy}-journal", f"{source}-journal")
    before = Signature.take(reading.files(source))
    with pytest.raises(Error, match=r"DPSQL-707: .*holds a change that is under way, or was left half done"):
        rows(schema, "SELECT 1")
    assert before.holds()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no SQLite file, or an encrypted one"),
        (b"PAR1" * 100, "is no SQLite file, or an encrypted one"),
        (reading.HEADER + b"\0" * 400, "is no SQLite file, or an encrypted one"),
    ],
)
def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    schema = clinic(tmp_path, "sqlite:///clinic.sqlite")
    (tmp_path / "clinic.sqlite").write_bytes(content)
    with pytest.raises(Error, match=f"DPSQL-707: .*{message}"):
        rows(schema, "SELECT 1")
    with pytest.raises(Error, match=f"DPSQL-707: .*{message}"):
        owner.init(f"sqlite:///{tmp_path}/clinic.sqlite")


def test_a_damaged_file_is_refused_with_constant_text(tmp_path: Path) -> None:
    schema = clinic(tmp_path)
    data = bytearray((tmp_path / "clinic.sqlite").read_bytes())
    data[5000:] = b"\xee" * (len(data) - 5000)
    (tmp_path / "clinic.sqlite").write_bytes(data)
    with pytest.raises(Error, match=r"DPSQL-707: .*is a damaged SQLite file") as raised:
        rows(schema, "SELECT 1")
    assert raised.value.__context__ is None and raised.value.__cause__ is None


def test_a_missing_file_table_or_column_is_named(tmp_path: Path) -> None:
    schema = clinic(tmp_path)
    execute(tmp_path / "clinic.sqlite", "ALTER TABLE person RENAME COLUMN income TO wage")
    with pytest.raises(Error, match=r"DPSQL-804: .*clinic.sqlite, table person: has no column income"):
        rows(schema, "SELECT 1")
    execute(tmp_path / "clinic.sqlite", "DROP TABLE visit")
    with pytest.raises(Error, match=r"DPSQL-707: .*table visit: holds no table visit"):
        rows(schema, "SELECT 1")
    (tmp_path / "clinic.sqlite").unlink()
    with pytest.raises(Error, match="DPSQL-707"):
        rows(schema, "SELECT 1")


def test_a_prepared_snapshot_is_read_in_place_of_the_private_tables(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, read, real = clinic(tmp_path), [], reading.OpenFile.rows
    before = owner.check(schema, ledger)
    report = owner.check(schema, ledger, prepare=True)
    assert report.version == before.version and report.snapshot is not None and report.tables == before.tables

    def listening(held: reading.OpenFile, table: str, columns: list[str]) -> object:
        read.append(table)
        return real(held, table, columns)

    monkeypatch.setattr(reading.OpenFile, "rows", listening)
    with closing(open_dataset(schema, ledger, approve=False)) as opened:
        assert isinstance(opened.engine, CopiedEngine) and read == ["ward"] and opened.version == report.version
        assert opened.engine.owner_rows("SELECT count(*), sum(person_id) FROM main.visit") == [(5, 14)]
    (report.snapshot.folder / "visit.parquet").unlink()
    read.clear()
    with closing(open_dataset(schema, ledger, approve=False)) as opened:
        assert sorted(read) == ["person", "visit", "ward"]
        assert opened.engine.owner_rows("SELECT count(*) FROM main.visit") == [(6,)]


def test_the_copy_goes_with_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = clinic(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    engine = kind_for(schema).begin(schema, lambda _: None)
    (copy,) = (tmp_path / "temporary").glob("dpsql-copy-*")
    assert copy.stat().st_mode & 0o077 == 0
    engine.close()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_first_schema_has_the_keys_of_the_file(tmp_path: Path) -> None:
    execute(
        tmp_path / "shop.db",
        """CREATE TABLE a_product (code TEXT PRIMARY KEY, price NUMERIC NOT NULL, size INTEGER GENERATED ALWAYS AS (1));
        CREATE TABLE buyer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, joined DATETIME, photo BLOB, odd);
        CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer INT NOT NULL REFERENCES buyer);
        CREATE TABLE line (order_id INT REFERENCES orders(id), code TEXT REFERENCES A_Product, n INT, PRIMARY KEY (order_id, code));
        CREATE VIEW v AS SELECT * FROM line;""",
    )
    text = owner.init(str(tmp_path / "shop.db"))
    assert 'unit = "buyer.id"  # CHECK' in text and f'source = "{tmp_path}/shop.db"' in text
    line = text[text.index("[tables.line]") :]
    assert 'key = ["order_id", "code"]\nreferences = { code = "a_product.code", order_id = "orders.id" }\n' in line
    assert 'n = { type = "BIGINT", nullable = true }' in line and 'code = { type = "VARCHAR" }' in line
    assert 'joined = { type = "TIMESTAMP", nullable = true }' in text and 'name = { type = "VARCHAR" }' in text
    assert "# left out, dpsql does not compute with them: photo (BLOB), odd (no type)" in text
    assert "size =" not in text and "tables.v]" not in text
    public = '[tables.a_product]\nsource = "a_product"\npublic = true\nkey = ["code"]\n'
    begin, end = text.index("[tables.a_product]"), text.index("[tables.buyer]")
    found = read(tmp_path, text[:begin] + public + text[end:])
    assert [r.columns for r in found.path_to_unit(found.tables[2])] == [("order_id",), ("buyer",)]


def test_a_virtual_table_is_none(tmp_path: Path) -> None:
    execute(tmp_path / "one.db", "CREATE VIRTUAL TABLE found USING fts5(x)")
    assert "tables.found]" not in owner.init(str(tmp_path / "one.db"))


def test_a_draft_opens_and_answers(tmp_path: Path) -> None:
    execute(
        tmp_path / "one.db", "CREATE TABLE person (id INTEGER PRIMARY KEY, age INT); INSERT INTO person VALUES (1, 30)"
    )
    (tmp_path / "schema.toml").write_text(owner.init(str(tmp_path / "one.db")))
    with closing(open_session(read_schema(tmp_path / "schema.toml"), None, ":memory:", ZeroNoise())) as session:
        assert session.execute("SELECT COUNT(*) FROM person").rows == [(1,)]
