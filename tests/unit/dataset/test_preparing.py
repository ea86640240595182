"""The prepared snapshot: the same rows from another file, private, whole or not there, and never a reason to fail."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error, OperationalError
from dpsql.dataset import owner
from dpsql.dataset.opening import Dataset, open_dataset
from dpsql.engines.base import Kept
from dpsql.engines.duckdb import prepared
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.schema.model import Schema, Table
from dpsql.session.opening import ledger_identity, open_session
from tests.support.noise import ZeroNoise
from tests.unit.engines.clinic_files import (
    FAR_ROWS,
    FAR_UNITS,
    HEAD,
    TABLES,
    clinic,
    declare,
    far_clinic,
    write_parquet,
)

KINDS = ("parquet", "csv", "duckdb")
ITEMS = """SELECT amount::VARCHAR, visit, value, day::VARCHAR, "dpsql unit" FROM "lab item with unit"
    WHERE "dpsql unit" IS NOT NULL ORDER BY ALL"""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    (tmp_path / "kept").mkdir()
    opened = Ledger.open(tmp_path / "kept" / "clinic.ledger", "clinic")
    yield opened
    opened.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "clinic.ledger.prepared"


def opened(schema: Schema, ledger: Ledger) -> tuple[Dataset, bool]:
    """The dataset, and whether it reads the snapshot."""
    dataset = open_dataset(schema, ledger, approve=False)
    return dataset, any(".prepared" in str(view) for view in sql_of_views(dataset.engine))


def sql_of_views(engine: DuckDBEngine) -> list[object]:
    return [row[0] for row in engine.owner_rows("SELECT sql FROM duckdb_views() WHERE NOT internal")]


def reads_snapshot(schema: Schema, ledger: Ledger) -> bool:
    dataset, used = opened(schema, ledger)
    dataset.engine.close()
    return used


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_in_other_files(tmp_path: Path, ledger: Ledger, root: Path, kind: str) -> None:
    schema = far_clinic(tmp_path, kind)
    owner.check(schema, ledger)
    before, used = opened(schema, ledger)
    assert not used
    report = owner.check(schema, ledger, prepare=True)
    after, used = opened(schema, ledger)
    assert used and before.version == after.version == report.version and after.facts > before.facts == set()
    assert after.engine.owner_rows(ITEMS) == before.engine.owner_rows(ITEMS)
    assert len(after.engine.owner_rows(ITEMS)) == len(FAR_UNITS)
    for table in ("person", "visit", "ward"):
        asked = f"SELECT * FROM {table} WHERE {'true' if table == 'ward' else 'person_id IS NOT NULL'} ORDER BY ALL"
        assert after.engine.owner_rows(asked.replace("*", "COLUMNS(*)::VARCHAR")) == before.engine.owner_rows(
            asked.replace("*", "COLUMNS(*)::VARCHAR")
        )
    types = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
    assert after.engine.owner_rows(types) == before.engine.owner_rows(types)
    before.engine.close()
    after.engine.close()


def test_the_files_hold_the_unit_sorted_and_nothing_that_is_not_declared(
    tmp_path: Path, ledger: Ledger, root: Path
) -> None:
    rows = {"visit": FAR_ROWS["visit"].replace("SELECT *", "SELECT *, 'secret' AS undeclared")}
    report = owner.check(far_clinic(tmp_path, rows=rows), ledger, prepare=True)
    folder = root / report.version
    assert sorted(p.name for p in folder.iterdir()) == ["person.parquet", "table 2.parquet", "visit.parquet"]
    assert report.snapshot is not None and f"prepared: {folder}, " in str(report)
    assert report.snapshot.size == sum(p.stat().st_size for p in folder.iterdir())
    for place, mode in ((root, 0o700), (folder, 0o700), *((p, 0o600) for p in folder.iterdir())):
        assert stat.S_IMODE(place.stat().st_mode) == mode
    read = duckdb.connect()
    found = read.execute(f"SELECT * FROM '{folder}/table 2.parquet'")
    assert [c[0] for c in found.description or []] == ["amount", "value", "day", "visit", "dpsql unit"]
    assert [row[-1] for row in found.fetchall()] == [1, 1, 1, 2]
    visit = read.execute(f"SELECT * FROM '{folder}/visit.parquet'").fetchall()
    assert sorted(visit) == [("a", 1, 1), ("b", 1, 1), ("c", 2, 2), ("d", 2, 2)]
    assert [row[-1] for row in read.execute(f"SELECT * FROM '{folder}/person.parquet'").fetchall()] == [1, 2, 3]


def test_large_tables_stay_sorted(tmp_path: Path, ledger: Ledger, root: Path) -> None:
    rows = {
        "visit": "SELECT ((range * 7919) % 100003)::BIGINT AS person_id, 1::DECIMAL(10,2) AS cost FROM range(600000)"
    }
    report = owner.check(clinic(tmp_path, rows=rows), ledger, prepare=True)
    read = duckdb.connect()
    sql = f"""SELECT count(*) FILTER (u < before), count(*) FROM (SELECT "dpsql unit" AS u, lag(u) OVER (ORDER BY
        file_row_number) AS before FROM read_parquet('{root / report.version}/visit.parquet', file_row_number = true))"""
    assert read.execute(sql).fetchone() == (0, 600_000)


# --- what is not the snapshot of this version ---------------------------------------------------------------------

DAMAGE: dict[str, Callable[[Path], object]] = {
    "a file is gone": lambda f: (f / "visit.parquet").unlink(),
    "all is gone": shutil.rmtree,
    "truncated": lambda f: os.truncate(f / "visit.parquet", 100),
    "empty": lambda f: os.truncate(f / "visit.parquet", 0),
    "other bytes": lambda f: (f / "visit.parquet").write_bytes(b"x" * (f / "visit.parquet").stat().st_size),
    "rows of another": lambda f: write_parquet(f / "visit.parquet", "SELECT 1 AS visit_id, 2 AS person_id, 3 AS u"),
    "replaced": lambda f: (shutil.copy(f / "visit.parquet", f / "n"), os.replace(f / "n", f / "visit.parquet")),
    "a folder": lambda f: ((f / "visit.parquet").unlink(), (f / "visit.parquet").mkdir()),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_snapshot_is_not_used_and_can_be_made_again(
    tmp_path: Path, ledger: Ledger, root: Path, damage: Callable[[Path], object]
) -> None:
    schema = far_clinic(tmp_path)
    report = owner.check(schema, ledger, prepare=True)
    assert reads_snapshot(schema, ledger)
    damage(root / report.version)
    dataset, used = opened(schema, ledger)
    assert not used and len(dataset.engine.owner_rows(ITEMS)) == len(FAR_UNITS)
    dataset.engine.close()
    assert owner.check(schema, ledger, prepare=True).version == report.version
    assert reads_snapshot(schema, ledger)


def test_a_snapshot_that_does_not_have_the_columns_is_not_used(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = far_clinic(tmp_path)
    monkeypatch.setattr(prepared, "rows", lambda *_: "SELECT 1 AS x")
    owner.check(schema, ledger, prepare=True)
    monkeypatch.undo()
    assert not reads_snapshot(schema, ledger)


@pytest.mark.slow
def test_a_snapshot_is_of_one_version(tmp_path: Path, ledger: Ledger, root: Path) -> None:
    schema = far_clinic(tmp_path)
    first = owner.check(schema, ledger, prepare=True).version
    far_clinic(tmp_path, rows={"visit": f"SELECT * FROM ({FAR_ROWS['visit']}) LIMIT 2"})
    second = owner.check(schema, ledger).version
    assert first != second and not reads_snapshot(schema, ledger)
    owner.check(schema, ledger, prepare=True)
    assert reads_snapshot(schema, ledger) and [p.name for p in root.iterdir()] == [second]


def test_a_snapshot_is_for_one_declaration(tmp_path: Path, ledger: Ledger) -> None:
    schema = far_clinic(tmp_path)
    owner.check(schema, ledger, prepare=True)
    person, visit, item, ward = schema.tables
    other = replace(schema, tables=(person, replace(visit, max_rows_per_unit=1), item, ward))
    assert not reads_snapshot(other, ledger) and reads_snapshot(schema, ledger)


def test_a_check_alone_keeps_the_snapshot(tmp_path: Path, ledger: Ledger) -> None:
    schema = far_clinic(tmp_path)
    owner.check(schema, ledger, prepare=True)
    owner.check(schema, ledger)
    assert reads_snapshot(schema, ledger)


def test_preparing_again_disturbs_no_connection(tmp_path: Path, ledger: Ledger) -> None:
    schema = far_clinic(tmp_path)
    owner.check(schema, ledger, prepare=True)
    dataset, _ = opened(schema, ledger)
    owner.check(schema, ledger, prepare=True)
    assert dataset.engine.unchanged()
    dataset.engine.close()


def test_a_snapshot_that_changes_is_not_read_on(tmp_path: Path, ledger: Ledger, root: Path) -> None:
    schema = far_clinic(tmp_path)
    report = owner.check(schema, ledger, prepare=True)
    dataset, _ = opened(schema, ledger)
    os.utime(root / report.version / "visit.parquet", ns=(1, 1))
    assert not dataset.engine.unchanged()
    with pytest.raises(OperationalError) as raised:
        dataset.engine.exact("SELECT count(*) FROM visit", 0, 1)
    assert raised.value.code == "DPSQL-702"
    dataset.engine.close()


def test_of_the_declared_files_the_public_ones_are_watched(tmp_path: Path, ledger: Ledger) -> None:
    schema = far_clinic(tmp_path)
    owner.check(schema, ledger, prepare=True)
    dataset, used = opened(schema, ledger)
    (tmp_path / "visit.parquet").unlink()
    assert used and dataset.engine.unchanged() and not dataset.engine.signature.holds()
    write_parquet(tmp_path / "ward.parquet", f"{FAR_ROWS['ward']} LIMIT 1")
    assert not dataset.engine.unchanged()
    dataset.engine.close()


# --- writing ------------------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_nothing_half(
    tmp_path: Path, ledger: Ledger, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = far_clinic(tmp_path)
    rows = prepared.rows

    def full(schema: Schema, table: Table, kept: Kept | None) -> str:
        sql = rows(schema, table, kept)
        return sql if "visit" not in table.name else f"SELECT error('No space left') FROM ({sql})"

    monkeypatch.setattr(prepared, "rows", full)
    with pytest.raises(OperationalError) as raised:
        owner.check(schema, ledger, prepare=True)
    assert raised.value.code == "DPSQL-704" and "room" in str(raised.value) and raised.value.__context__ is None
    assert list(root.iterdir()) == []
    monkeypatch.undo()
    assert not reads_snapshot(schema, ledger)


NO_ROOM = """
import resource, signal, sys
from dpsql.dataset import owner
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.schema.toml import read_schema
schema, ledger = read_schema(sys.argv[1]), Ledger.open(sys.argv[2], "clinic")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    owner.check(schema, ledger, prepare=True)
except Error as problem:
    print(problem.code)
"""


@pytest.mark.slow
def test_files_that_the_system_cuts_short(tmp_path: Path, ledger: Ledger, root: Path) -> None:
    rows = {"visit": "SELECT hash(range)::VARCHAR AS visit_id, 1::BIGINT AS person_id FROM range(50000)"}
    schema = far_clinic(tmp_path, rows=rows)
    command = [sys.executable, "-c", NO_ROOM, str(tmp_path / "schema.toml"), str(root.with_suffix(""))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], check=False)
    assert done.stdout == "DPSQL-704\n", done.stderr
    assert list(root.iterdir()) == [] and not reads_snapshot(schema, ledger)
    owner.check(schema, ledger, prepare=True)
    assert reads_snapshot(schema, ledger)


@pytest.mark.parametrize("broken", ["rename", "chmod", "mkdir"])
def test_a_place_that_cannot_be_written(
    tmp_path: Path, ledger: Ledger, root: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    schema = far_clinic(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, broken, fail)
    with pytest.raises(OperationalError) as raised:
        owner.check(schema, ledger, prepare=True)
    assert raised.value.code == "DPSQL-704" and raised.value.__context__ is None
    monkeypatch.undo()
    assert not root.exists() or list(root.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_left_alone(tmp_path: Path, ledger: Ledger, root: Path) -> None:
    root.write_text("mine")
    with pytest.raises(OperationalError) as raised:
        owner.check(far_clinic(tmp_path), ledger, prepare=True)
    assert raised.value.code == "DPSQL-704" and root.read_text() == "mine"


def test_what_a_crash_left_is_removed(tmp_path: Path, ledger: Ledger, root: Path) -> None:
    schema = far_clinic(tmp_path)
    (root / ".draft-1").mkdir(parents=True)
    (root / ".draft-1" / "visit.parquet").write_text("half")
    version = owner.check(schema, ledger, prepare=True).version
    assert [p.name for p in root.iterdir()] == [version]


def test_data_that_changes_meanwhile_is_not_prepared(
    tmp_path: Path, ledger: Ledger, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = far_clinic(tmp_path)
    copy = DuckDBEngine.copy

    def late(self: DuckDBEngine, schema: Schema, table: Table, file: Path, kept: Kept | None) -> None:
        copy(self, schema, table, file, kept)
        far_clinic(tmp_path, rows={"person": f"SELECT * FROM ({FAR_ROWS['person']}) LIMIT 2"})

    monkeypatch.setattr(DuckDBEngine, "copy", late)
    with pytest.raises(Error) as raised:
        owner.check(schema, ledger, prepare=True)
    assert raised.value.code in ("DPSQL-702", "DPSQL-708") and list(root.iterdir()) == []


def test_a_ledger_in_memory_has_no_place(tmp_path: Path) -> None:
    ledger = Ledger.open(":memory:", "clinic")
    with pytest.raises(Error, match="in memory has no place for a prepared snapshot") as raised:
        owner.check(far_clinic(tmp_path), ledger, prepare=True)
    assert raised.value.code == "DPSQL-802"
    ledger.close()


# --- rows that are their own units --------------------------------------------------------------------------------


def by_row(folder: Path, kind: str = "parquet", rows: dict[str, str] | None = None) -> Schema:
    """The clinic, each person's row its own unit; without visits."""
    clinic(folder, kind, rows)
    suffix, source = ("", "clinic.duckdb") if kind == "duckdb" else (f".{kind}", ".")
    text = HEAD.format(source=source).replace("person.person_id", "row") + TABLES.format(suffix=suffix)
    start, stop = text.index("[tables.visit]"), text.index("[tables.ward]")
    return declare(folder, text[:start] + text[stop:])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_their_own_units_are_prepared_as_they_are(
    tmp_path: Path, ledger: Ledger, root: Path, kind: str
) -> None:
    schema = by_row(tmp_path, kind)
    owner.check(schema, ledger)
    before, used = opened(schema, ledger)
    assert not used
    report = owner.check(schema, ledger, prepare=True)
    assert [p.name for p in (root / report.version).iterdir()] == ["person.parquet"]
    after, used = opened(schema, ledger)
    assert used and before.version == after.version == report.version
    asked = "SELECT COLUMNS(*)::VARCHAR FROM person ORDER BY ALL"
    assert after.engine.owner_rows(asked) == before.engine.owner_rows(asked) != []
    types = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
    assert after.engine.owner_rows(types) == before.engine.owner_rows(types)
    before.engine.close()
    after.engine.close()


INSIDE = {
    "person": """SELECT range::BIGINT AS person_id, 1::INTEGER AS ward, 10.0::DOUBLE AS income, DATE '1950-01-01' AS born,
        'x' AS name, (range % 51)::INTEGER AS age FROM range(100)"""
}
OUTSIDE = {"person": INSIDE["person"].replace("range % 51", "range * 10")}


@pytest.mark.parametrize("rows, facts, total", [(INSIDE, True, 2_451), (OUTSIDE, False, 4_850)])
def test_a_clamp_is_left_out_where_every_row_was_verified_to_be_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: dict[str, str], facts: bool, total: int
) -> None:
    """The answer is the clamped one either way, whether the snapshot is read or the file."""
    by_row(tmp_path, rows=rows)
    text = (tmp_path / "schema.toml").read_text()
    schema = declare(
        tmp_path, text.replace("\nincome =", '\nage = { type = "INTEGER", bounds = [0, 50] }\nincome =', 1)
    )
    ran: list[str] = []
    exact = DuckDBEngine.exact
    monkeypatch.setattr(DuckDBEngine, "exact", lambda *given: (ran.append(given[1]), exact(*given))[1])
    for prepare in (False, True):
        ledger = Ledger.open(tmp_path / "rows.ledger", ledger_identity(schema))
        owner.check(schema, ledger, prepare=prepare)
        ledger.close()
        session = open_session(schema, None, tmp_path / "rows.ledger", ZeroNoise())
        price = "/* dpsql: epsilon=0.2 */" if prepare else "/* dpsql: epsilon=0.1 */"
        found = session.execute(f"{price} SELECT SUM(age) FROM person")
        assert int(str(found.rows[0][0])) == total and ("BETWEEN" not in ran[-1]) == (facts and prepare)
        session.close()
