"""Data that grows: new questions of the approved version, connections that go on, and a refresh that is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.versions import Versions
from dpsql.clients.terminal.show import status
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.engines import signature
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise
from tests.unit.engines.clinic_files import HEAD, ROWS, TABLES, clinic, declare, write_csv

DECLARED = HEAD.format(source=".") + '[guard]\nmode = "off"\n' + TABLES.format(suffix=".csv") + "\n[analysts.ann]\n"
VISIT, COSTLY, PERSON = (
    "SELECT SUM(cost) FROM visit",
    "SELECT COUNT(*) FROM visit WHERE cost > 1",
    "SELECT COUNT(*) FROM person",
)
MORE = f"{ROWS['visit']} UNION ALL SELECT 3, 7.00"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A clinic that was checked and prepared."""
    clinic(tmp_path, "csv")
    declare(tmp_path, DECLARED)
    with ledger(tmp_path) as held:
        owner.check(read_schema(tmp_path / "schema.toml"), held, prepare=True)
    yield tmp_path


def ledger(folder: Path) -> closing[Ledger]:
    return closing(Ledger.open(folder / "ledger", ledger_identity(read_schema(folder / "schema.toml"))))


def refresh(folder: Path) -> owner.RefreshReport:
    with ledger(folder) as held:
        return owner.refresh(read_schema(folder / "schema.toml"), held)


def opened(folder: Path) -> Session:
    return open_session(folder / "schema.toml", "ann", folder / "ledger")


def held(session: Session, table: str = "visit") -> int:
    """Rows that statements read, without those that reach no unit."""
    sql = f"SELECT count(*) FROM {table} WHERE {'true' if table == 'ward' else 'person_id IS NOT NULL'}"
    ((rows,),) = session._world.dataset.engine.owner_rows(sql)
    return int(str(rows))


def versions(folder: Path) -> list[str]:
    """Folders of prepared snapshots."""
    return sorted(path.name for path in (folder / "ledger.prepared").iterdir())


def append(folder: Path) -> None:
    is_new = not (folder / "visit.csv").exists()
    with open(folder / "visit.csv", "a") as file:
        file.write("person_id,cost\n3,7.00\n" if is_new else "3,7.00\n")


def replaced(folder: Path) -> None:
    """Another file moved into place, as a pipeline that writes whole files does."""
    write_csv(folder / "new.csv", MORE)
    os.replace(folder / "new.csv", folder / "visit.csv")


def same_length(folder: Path) -> None:
    """One digit of one value, and the time set back."""
    found = os.stat(folder / "visit.csv")
    text = (folder / "visit.csv").read_text()
    (folder / "visit.csv").write_text(text.replace("99.99", "49.99"))
    os.utime(folder / "visit.csv", ns=(found.st_atime_ns, found.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], None]] = {
    "append": append,
    "overwrite": lambda folder: write_csv(folder / "visit.csv", MORE),
    "new file": replaced,
    "same path, size and time": same_length,
    "deleted": lambda folder: (folder / "visit.csv").unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.few(4)
def test_new_questions_are_of_the_approved_version(folder: Path, change: Callable[[Path], None]) -> None:
    with closing(opened(folder)) as session:
        stored, rows, version = session.execute(VISIT), held(session), session._world.dataset.version
    change(folder)
    with closing(opened(folder)) as session:
        assert session.execute(VISIT).rows == stored.rows
        new = session.execute(COSTLY)
        assert new.receipt.loss.rho and held(session) == rows and session._world.dataset.version == version
        (note,) = new.notes
        assert note.startswith("as of 20") and "visit changed since" in note and note in session.explain(COSTLY)
        assert session.execute(PERSON).notes == ()
    if not (folder / "visit.csv").exists():
        with pytest.raises(Error, match="there is no such file"):
            refresh(folder)
        append(folder)
    assert refresh(folder).changed == ("visit",)
    with closing(opened(folder)) as session:
        assert session.execute(COSTLY).receipt.loss.rho and session.execute(COSTLY).notes == ()
        assert not session.execute(PERSON).receipt.loss.rho
        assert session._world.dataset.engine.is_pinned, "the next snapshot took the place of the first"
        assert versions(folder) == [session._world.dataset.version] != [version]


def test_units_that_changed_are_those_of_the_approved_version_too(folder: Path) -> None:
    with open(folder / "person.csv", "a") as file:
        file.write("5,2,20.0,1970-01-01,Eve\n")
    with closing(opened(folder)) as session:
        assert "person changed since" in session.execute(VISIT).notes[0] and held(session, "person") == 4


@pytest.mark.parametrize("case", ["public", "deleted", "public deleted", "declared", "damaged"])
@pytest.mark.few(5)
def test_what_the_snapshot_does_not_hold_is_refused(folder: Path, case: str) -> None:
    (root,) = (folder / "ledger.prepared").iterdir()
    match case:
        case "public":
            append(folder)
            write_csv(folder / "ward.csv", f"{ROWS['ward']} UNION ALL SELECT 3, 'west', 3.5, NULL")
        case "deleted":
            (folder / "visit.csv").unlink()
            shutil.rmtree(root)
        case "public deleted":
            (folder / "ward.csv").unlink()
        case "declared":
            declare(folder, DECLARED.replace("DECIMAL(10,2)", "DECIMAL(12,2)"))
        case _:
            same_length(folder)
            os.utime(root / "person.parquet", ns=(1, 1))
    with pytest.raises(Error) as raised, closing(opened(folder)) as session:
        assert session.execute(PERSON).receipt.loss.rho, "a table that did not change is answered"
        session.execute(VISIT)
    assert raised.value.code == ("DPSQL-707" if "deleted" in case else "DPSQL-708")


def test_a_connection_and_its_cursor_go_on_across_a_refresh(folder: Path) -> None:
    with closing(dpsql.connect(folder / "schema.toml", analyst="ann", ledger=folder / "ledger")) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT ward, COUNT(*) FROM person GROUP BY ward")
        first = cursor.fetchone()
        append(folder)
        refresh(folder)
        connection.execute(COSTLY)
        assert first is not None and len(cursor.fetchall()) == 1
        old = set(connection.execute("SELECT version FROM dpsql.versions WHERE table_name = 'visit'").fetchall())
        with closing(opened(folder)) as after:
            assert after.execute(COSTLY).receipt.loss.rho, "what the older one bought is of its own version"
            assert held(after) == 6 and len(versions(folder)) == 2
            assert {(dict(r[:2] for r in after.execute("SHOW VERSIONS").rows)["visit"],)} != old
        assert connection.execute(COSTLY).privacy.cached
    append(folder)
    with closing(dpsql.connect(folder / "schema.toml", analyst="ann", ledger=folder / "ledger")) as connection:
        cursor = connection.execute(COSTLY)
        assert cursor.privacy.as_of.endswith(" UTC") and f"free; as of {cursor.privacy.as_of};" in status(cursor, 1)
        assert not connection.execute(PERSON).privacy.as_of
    refresh(folder)
    assert len(versions(folder)) == 1, "nobody reads the older ones any more"


OTHER = """
import sys
from dpsql.session.opening import open_session
session = open_session(sys.argv[1], "ann", sys.argv[2])
for line in sys.stdin:
    print(len(session.execute(line.strip()).rows), flush=True)
"""


def test_another_process_goes_on_across_a_refresh(folder: Path) -> None:
    command = [sys.executable, "-c", OTHER, str(folder / "schema.toml"), str(folder / "ledger")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(sql: str) -> str:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{sql}\n")
        process.stdin.flush()
        return process.stdout.readline()

    with process:
        assert ask(VISIT) == "1\n"
        append(folder)
        refresh(folder)
        assert ask(COSTLY) == "1\n" and len(versions(folder)) == 2
        process.communicate()
    append(folder)
    refresh(folder)
    assert len(versions(folder)) == 1


# --- killed -----------------------------------------------------------------------------------------------------------


KILLED = """
import importlib, os, sys
from dpsql.accounting.ledger import Ledger
from dpsql.dataset import owner
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity
schema = read_schema(sys.argv[1])
ledger = Ledger.open(sys.argv[2], ledger_identity(schema))
place, name, when = sys.argv[3:]
module, _, inner = place.partition(":")
place = importlib.import_module(module)
place = getattr(place, inner) if inner else place
original = getattr(place, name)
def killed(*arguments, **named):
    if when == "after":
        original(*arguments, **named)
    os._exit(9)
setattr(place, name, killed)
owner.refresh(schema, ledger)
"""
STEPS = [
    ("dpsql.dataset.owner", "moved_since", "after", False),
    ("dpsql.dataset.opening", "verify", "after", False),
    ("dpsql.accounting.versions:Versions", "approve", "before", False),
    ("dpsql.accounting.versions:Versions", "approve", "after", True),
    ("dpsql.dataset.owner", "_facts_anew", "after", True),
    ("dpsql.dataset.owner", "write_record", "after", True),
    ("dpsql.engines.snapshot", "publish", "before", True),
    ("dpsql.engines.snapshot", "publish", "after", True),
    ("dpsql.dataset.preparing", "write_record", "after", True),
]


@pytest.mark.few(2)
@pytest.mark.parametrize("place, name, when, approved", STEPS)
def test_a_refresh_that_is_killed_loses_nothing_and_approves_nothing_by_half(
    folder: Path, place: str, name: str, when: str, approved: bool
) -> None:
    with closing(opened(folder)) as session:
        session.execute(VISIT)
        session.execute(PERSON)
        left, first = session.execute("SELECT 1").receipt.remaining, session._world.dataset.version
    append(folder)
    command = [sys.executable, "-c", KILLED, str(folder / "schema.toml"), str(folder / "ledger"), place, name, when]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 9, done.stderr
    with ledger(folder) as kept:
        kept.verify()
        latest = Versions(kept).latest()
        assert latest is not None and (latest[0] != first) == approved
        tables = Versions(kept).of_tables(latest[0])
        assert tables["person"] == first and (tables["visit"] != first) == approved
    with closing(opened(folder)) as session:
        assert session.execute("SELECT 1").receipt.remaining == left
        assert not session.execute(PERSON).receipt.loss.rho
        assert bool(session.execute(VISIT).receipt.loss.rho) == approved
        assert held(session) in ((6, 7) if approved else (5,))
    again = refresh(folder)
    assert again.changed == (() if approved else ("visit",))
    assert versions(folder) == [again.version]
    with closing(opened(folder)) as session:
        assert session._world.dataset.engine.is_pinned and not session.execute(PERSON).receipt.loss.rho


# --- rule 63 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pinned", [False, True], ids=["as it is", "planted"])
def test_rule_63_a_file_that_looks_the_same_has_every_rewrite(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    """A file system that keeps neither change times nor inodes: another file looks like the one that was verified, and its values are
    clamped all the same. Where such a file passed as known by its bytes, one value of 90,000 would come through."""
    shutil.rmtree(folder / "ledger.prepared")
    look = signature._look
    monkeypatch.setattr(signature, "_look", lambda path: (*look(path)[:3], 0, 0))
    monkeypatch.setattr(DuckDBEngine, "is_pinned", property(lambda _: pinned))
    (folder / "visit.csv").write_text("person_id,cost\n1,00050\n")
    (folder / "person.csv").write_text("person_id,ward,income,born,name\n1,1,10.5,1950-01-01,Ann\n")
    with ledger(folder) as kept:
        owner.check(read_schema(folder / "schema.toml"), kept)
    found = os.stat(folder / "visit.csv")
    (folder / "visit.csv").write_text("person_id,cost\n1,90000\n")
    os.utime(folder / "visit.csv", ns=(found.st_atime_ns, found.st_mtime_ns))
    with closing(open_session(folder / "schema.toml", "ann", folder / "ledger", noise=ZeroNoise())) as session:
        assert not session._world.dataset.moved
        ((total,),) = session.execute(VISIT).rows
        assert total == (90_000 if pinned else 50)
