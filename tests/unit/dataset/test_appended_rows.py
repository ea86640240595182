"""Rows that are appended to the one file of a table: who is answered of what, and what a refresh verifies.

Approved first bytes and the rest are treated as two files of a folder: histories of appended rows are held against `check` as those of
added files are.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import ApprovedFile, ApprovedFiles, approved_files, read_record, write_record
from dpsql.accounting.versions import Versions
from dpsql.core.errors import Error
from dpsql.dataset import growing, opening, owner
from dpsql.engines import structure
from dpsql.engines.duckdb import appended
from dpsql.engines.duckdb import engine as duckdb_engine
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.signature import FileStart
from dpsql.engines.structure import declared
from dpsql.schema.model import Schema, Table
from dpsql.schema.toml import read_schema
from tests.support import by_period
from tests.unit.dataset import test_determines
from tests.unit.dataset.test_added_files import DECLARED, HEADERS, VISITS, count, lived, opened, opened_ledger, refresh
from tests.unit.engines.clinic_files import ROWS, declare, write_csv

ONE_FILE = DECLARED.replace("/*.csv", ".csv")
_OF_UNITS = ("references", "max_rows")
BY_ROW = "\n".join(
    line for line in ONE_FILE.replace("person.person_id", "row", 1).splitlines() if not line.startswith(_OF_UNITS)
)
FIRST = {"person": "1,1\n2,2\n3,1\n", "visit": "10,1,5\n11,2,7\n", "item": "10,1\n10,2\n11,3\n"}


def clinic(folder: Path, text: str = ONE_FILE) -> Schema:
    write_csv(folder / "ward.csv", ROWS["ward"])
    for table, rows in FIRST.items():
        (folder / f"{table}.csv").write_text(f"{HEADERS[table]}\n{rows}")
    return declare(folder, text)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A clinic of three tables of one file each, checked."""
    schema = clinic(tmp_path)
    checked(tmp_path, schema)
    yield tmp_path


def checked(folder: Path, schema: Schema) -> None:
    with opened_ledger(folder, schema) as ledger:
        owner.check(schema, ledger)


def append(folder: Path, text: str, name: str = "visit.csv") -> None:
    with open(folder / name, "a") as file:
        file.write(text)


def code_of(folder: Path, sql: str = VISITS) -> str:
    with pytest.raises(Error) as raised, closing(opened(folder)) as session:
        session.execute(sql)
    return raised.value.code


# --- who is answered of what ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["12,3,9\n", "12,3,9", "\n12,3,9\n", '12,"3",9\n', ",9\n13", "no row at all"])
def test_until_the_refresh_new_questions_are_of_the_rows_that_were_approved(folder: Path, text: str) -> None:
    append(folder, text)
    with closing(opened(folder)) as session:
        answer = session.execute(VISITS)
        assert answer.rows == [(2,)] and answer.receipt.loss.rho
        assert answer.notes[0].startswith("as of 20") and "visit changed since" in answer.notes[0]
        assert session.execute("SELECT COUNT(*) FROM person").notes == ()
        assert not session._world.dataset.engine.is_pinned and not session._world.dataset.facts
        append(folder, "13,1,1\n")
        assert count(session, "SELECT SUM(cost) FROM visit") == 12, "nothing that is appended later ends it"


def test_after_the_refresh_all_rows_are_asked(folder: Path) -> None:
    append(folder, "12,3,9\n")
    assert refresh(folder).changed == ("visit",)
    with closing(opened(folder)) as session:
        assert count(session) == 3 and session.execute(VISITS).notes == ()
    append(folder, "13,3,9\n")
    with closing(opened(folder)) as session:
        assert count(session) == 3


def test_a_last_row_without_a_line_break_goes_on_in_what_is_appended(tmp_path: Path) -> None:
    """Of the version that was approved it is what it was; of the next one it is another row."""
    schema = clinic(tmp_path)
    (tmp_path / "visit.csv").write_text(f"{HEADERS['visit']}\n10,1,5\n11,2,7")
    checked(tmp_path, schema)
    append(tmp_path, "7\n12,3,9\n")
    with closing(opened(tmp_path)) as session:
        assert count(session, "SELECT SUM(cost) FROM visit") == 12
    assert refresh(tmp_path).changed == ("visit",)
    with closing(opened(tmp_path)) as session:
        assert count(session, "SELECT SUM(cost) FROM visit") == 5 + 50 + 9


def test_of_a_header_alone_there_are_no_rows(tmp_path: Path) -> None:
    schema = clinic(tmp_path)
    (tmp_path / "visit.csv").write_text(f"{HEADERS['visit']}\n")
    checked(tmp_path, schema)
    append(tmp_path, "10,1,5\n")
    with closing(opened(tmp_path)) as session:
        assert count(session) == 0
    refresh(tmp_path)
    with closing(opened(tmp_path)) as session:
        assert count(session) == 1


def test_a_quoted_line_break_ends_no_row(tmp_path: Path) -> None:
    """Approved bytes that end inside quotes are answered as they were, and the next version is verified whole."""
    schema = clinic(tmp_path)
    (tmp_path / "visit.csv").write_text(f'{HEADERS["visit"]}\n10,1,5\n11,2,"7\n')
    checked(tmp_path, schema)
    with closing(opened(tmp_path)) as session:
        before = count(session)
    append(tmp_path, '"\n10,3,9\n')
    with closing(opened(tmp_path)) as session:
        assert count(session, "SELECT COUNT(*) FROM visit WHERE cost < 60 OR cost IS NULL") == before
    with pytest.raises(Error, match="table visit: rows repeat"):
        refresh(tmp_path)


@pytest.mark.parametrize(
    "name, write", [("visit.jsonl", str.encode), ("visit.csv.gz", lambda t: gzip.compress(t.encode()))]
)
def test_other_forms_of_text(tmp_path: Path, name: str, write: Callable[[str], bytes]) -> None:
    """Compressed text is answered of the bytes that were approved too, and is verified whole."""
    lines = {
        "visit.jsonl": (
            '{"visit_id": 10, "person_id": 1, "cost": 5}\n',
            '{"visit_id": 11, "person_id": 2, "cost": 7}\n',
        ),
        "visit.csv.gz": (f"{HEADERS['visit']}\n10,1,5\n", "11,2,7\n"),
    }[name]
    schema = clinic(tmp_path, ONE_FILE.replace("visit.csv", name))
    (tmp_path / name).write_bytes(write(lines[0]))
    checked(tmp_path, schema)
    with open(tmp_path / name, "ab") as file:
        file.write(write(lines[1]))
    with closing(opened(tmp_path)) as session:
        assert count(session) == 1
    refresh(tmp_path)
    with closing(opened(tmp_path)) as session:
        assert count(session) == 2


def rewritten(folder: Path) -> None:
    """In place, with the same length and times."""
    path = folder / "visit.csv"
    found = os.stat(path)
    path.write_text(path.read_text().replace("11,2,7", "11,2,8"))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def rewritten_and_appended(folder: Path) -> None:
    rewritten(folder)
    append(folder, "12,3,9\n")


def shrunk(folder: Path) -> None:
    path = folder / "visit.csv"
    os.truncate(path, path.stat().st_size - 7)


def emptied(folder: Path) -> None:
    (folder / "visit.csv").write_text(f"{HEADERS['visit']}\n")


def sorted_anew(folder: Path) -> None:
    (folder / "visit.csv").write_text(f"{HEADERS['visit']}\n9,1,3\n10,1,5\n11,2,7\n")


def redeclared(folder: Path) -> None:
    append(folder, "12,3,9\n")
    declare(folder, ONE_FILE.replace('cost = { type = "DOUBLE"', 'cost = { type = "FLOAT"'))


CHANGES = [rewritten, rewritten_and_appended, shrunk, emptied, sorted_anew, redeclared]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_does_not_begin_as_it_was_approved_is_not_read(
    folder: Path, change: Callable[[Path], None]
) -> None:
    with closing(opened(folder)) as session:
        stored = session.execute("SELECT COUNT(*) FROM person").receipt.loss.rho
    change(folder)
    assert code_of(folder) == "DPSQL-708"
    with closing(opened(folder)) as session:
        assert stored and not session.execute("SELECT COUNT(*) FROM person").receipt.loss.rho, (
            "other tables are answered"
        )


def test_rows_that_lead_to_a_table_that_changed_are_not_answered(folder: Path) -> None:
    append(folder, "12,3,9\n")
    (folder / "person.csv").write_text(f"{HEADERS['person']}\n1,1\n")
    assert code_of(folder) == "DPSQL-708"


def test_an_appended_public_table_is_another_version(folder: Path) -> None:
    append(folder, "7,other,1.5,\n", "ward.csv")
    with pytest.raises(Error) as raised:
        opened(folder)
    assert raised.value.code == "DPSQL-708"
    assert refresh(folder).changed == ("ward",)


def test_bytes_that_change_while_they_are_copied_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(folder, "12,3,9\n")
    found = growing.only_added_to

    def meanwhile(*rest: object) -> object:
        parts = found(*rest)  # type: ignore[arg-type]
        rewritten_and_appended(folder)
        return parts

    monkeypatch.setattr(opening, "only_added_to", meanwhile)
    with pytest.raises(Error, match="changed while it was opened"):
        opened(folder)


def test_a_version_of_before_lengths_were_kept_is_verified_whole(folder: Path) -> None:
    schema = read_schema(folder / "schema.toml")
    with opened_ledger(folder, schema) as ledger:
        latest = Versions(ledger).latest()
        assert latest is not None
        files = approved_files(ledger, latest[0])
        assert files["visit"]["visit.csv"].length == (folder / "visit.csv").stat().st_size
        older = {t: {name: ApprovedFile(one.content) for name, one in each.items()} for t, each in files.items()}
        found = read_record(ledger, latest[0], declared(schema))
        write_record(
            ledger, latest[0], opening.VersionRecord(found.structure, found.declared, found.facts, None, older)
        )
    append(folder, "12,3,9\n")
    assert code_of(folder) == "DPSQL-708" and refresh(folder).changed == ("visit",)
    append(folder, "13,3,9\n")
    with closing(opened(folder)) as session:
        assert count(session) == 3


# --- a refresh beside a check -----------------------------------------------------------------------------------------


def test_only_added_rows_are_read_through(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    through = structure._read_through
    monkeypatch.setattr(structure, "_read_through", lambda e, table: (read.append(table.name), through(e, table)))
    append(folder, "12,3,9\n")
    refresh(folder)
    assert len(read) == 2 and read[0].endswith("added visit") and read[1] == "ward"


def test_older_text_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For keys and for units there is one copy of the columns that group its rows."""
    asked: list[str] = []
    rows = DuckDBEngine.owner_rows
    monkeypatch.setattr(DuckDBEngine, "owner_rows", lambda engine, sql: (asked.append(sql), rows(engine, sql))[1])
    append(folder, "12,3,9\n")
    refresh(folder)
    assert sum('main."dpsql grouped visit"' in sql for sql in asked) == 2
    assert not any('main."visit"' in sql for sql in asked)


@pytest.mark.parametrize(
    "text, table, columns",
    [
        (ONE_FILE, "person", {"person_id"}),
        (ONE_FILE, "visit", {"visit_id", "person_id"}),
        (ONE_FILE, "item", {"visit_id"}),
        (BY_ROW, "visit", {"visit_id"}),
        (BY_ROW, "item", set()),
        (by_period.TEXT, "visit", {"person_id", "seen"}),
        (test_determines.SCHEMA, "sale", {"order_no", "customer_id"}),
    ],
)
def test_columns_that_rows_are_grouped_by(tmp_path: Path, text: str, table: str, columns: set[str]) -> None:
    schema = declare(tmp_path, text)
    (found,) = (t for t in schema.tables if t.name == table)
    assert set(structure.grouping(schema, found)) == columns


def test_files_may_be_added_and_appended_to_at_once(tmp_path: Path) -> None:
    schema = clinic(tmp_path, ONE_FILE.replace('"visit.csv"', '"visit*.csv"'))
    checked(tmp_path, schema)
    append(tmp_path, "12,3,9\n")
    (tmp_path / "visit2.csv").write_text(f"{HEADERS['visit']}\n13,3,9\n")
    with closing(opened(tmp_path)) as session:
        assert count(session) == 2
    refresh(tmp_path)
    with closing(opened(tmp_path)) as session:
        assert count(session) == 4
    append(tmp_path, "14,3,9\n", "visit2.csv")
    append(tmp_path, "10,3,9\n")
    with pytest.raises(Error, match="table visit: rows repeat"):
        refresh(tmp_path)


def appended_to(folder: Path, table: str, day: str, rows: list[str]) -> None:
    append(folder, "\n".join([*rows, ""]), f"{table}/1.csv")


def test_a_refresh_finds_what_a_check_finds(tmp_path: Path) -> None:
    found = []
    for seed in range(3):
        (tmp_path / f"{seed}").mkdir()
        found.append(lived(tmp_path / f"{seed}", seed, appended_to))
    refused, same, less = map(sum, zip(*found, strict=True))
    assert refused > 3 and same > 8 and not less


def _none_of_them(path: Path, length: int, folder: Path) -> Path | None:
    return _ADDED(path, path.stat().st_size, folder)


_ADDED = appended.added_rows


def _of_added_alone(connection: DuckDBPyConnection, table: Table, *_: object) -> None:
    connection.execute(f'CREATE VIEW main."dpsql grouped {table.name}" AS FROM main."dpsql added {table.name}"')


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "added rows are not shown": lambda m: m.setattr(appended, "added_rows", _none_of_them),
    "the copy of all rows has no older ones": lambda m: m.setattr(duckdb_engine, "show_grouped", _of_added_alone),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    PLANTED[fault](monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(3):
            (tmp_path / f"{seed}").mkdir()
            lived(tmp_path / f"{seed}", seed, appended_to)


@pytest.mark.parametrize(
    "begin, rest", [("11,2,7\n1", "0,3,9\n"), ('11,2,"7\n', '"\n10,3,9\n')], ids=["in a row", "in quotes"]
)
def test_a_rest_that_begins_in_the_middle_of_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: str, rest: str
) -> None:
    """It makes a row whose key is another one's. A planted fault approves it: it does not ask where rows end."""
    schema = clinic(tmp_path)
    (tmp_path / "visit.csv").write_text(f"{HEADERS['visit']}\n10,1,5\n{begin}")
    checked(tmp_path, schema)
    append(tmp_path, rest)
    with pytest.raises(Error, match="table visit: rows repeat"):
        refresh(tmp_path)
    monkeypatch.setattr(appended, "is_plain", lambda *_: True)
    assert refresh(tmp_path).changed == ("visit",)


def _by_length(schema: Schema, ledger: Ledger, files: dict[str, dict[str, FileStart]]) -> ApprovedFiles:
    return {
        t.name: {n: ApprovedFile("", f.length) for n, f in files[t.name].items()} for t in schema.tables if not t.public
    }


def _approved_by_length(ledger: Ledger, version: str) -> ApprovedFiles:
    found = approved_files(ledger, version)
    return {
        table: {name: ApprovedFile("", file.length) for name, file in each.items()} for table, each in found.items()
    }


@pytest.mark.parametrize("is_planted", [False, True], ids=["as it is", "planted"])
def test_first_bytes_are_known_by_their_contents(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_planted: bool
) -> None:
    """Known by their length they would be answered as approved, with another value in them."""
    if is_planted:
        monkeypatch.setattr(growing, "_approved", _by_length)
        monkeypatch.setattr(growing, "approved_files", _approved_by_length)
    rewritten_and_appended(folder)
    if not is_planted:
        assert code_of(folder) == "DPSQL-708"
        return
    with closing(opened(folder)) as session:
        assert count(session, "SELECT SUM(cost) FROM visit") == 13
