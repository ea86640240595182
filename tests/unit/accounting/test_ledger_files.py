"""Files that are no good: each one clear line, and nothing of SQLite's or the system's in it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting import Answers, Ledger, store
from dpsql.accounting.chain import head_file
from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.plan.charges import Budget, ChargeRequest
from dpsql.plan.tables import NoisyTable

Asks = Callable[..., ChargeRequest]
Script = Callable[[str], list[str]]
BUDGET = Budget(EpsilonDelta(Fraction(100), Fraction(1, 10)))


@contextlib.contextmanager
def refused(line: str) -> Iterator[None]:
    """The block raises exactly this line, with no other error behind it."""
    with pytest.raises(Error) as caught:
        yield
    assert str(caught.value) == line
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def opening(path: Path | str, line: str) -> None:
    with refused(line):
        Ledger.open(path, "example")


def charged(ledger: Ledger, asks: Asks) -> int | None:
    receipt = ledger.charge(asks("0.1"), BUDGET)
    assert receipt is not None
    return receipt.id


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_every_file_of_a_ledger_is_the_owners_alone(tmp_path: Path, asks: Asks, mask: int) -> None:
    before = os.umask(mask)
    try:
        ledger = Ledger.open(tmp_path / "example.ledger", "example")
        ledger.charge(asks("0.1"), BUDGET)
    finally:
        os.umask(before)
    assert {file.name: mode(file) for file in tmp_path.iterdir()} == {
        "example.ledger": 0o600,
        "example.ledger-wal": 0o600,
        "example.ledger-shm": 0o600,
        "example.ledger.head": 0o600,
    }
    ledger.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["example.ledger", "example.ledger.head"]


def test_the_files_are_never_wider_than_the_owner(path: Path, asks: Asks, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    system_open = os.open

    def watched(name: str, flags: int, *rest: int) -> int:
        descriptor = system_open(name, flags, *rest)
        if flags & os.O_CREAT:
            made.append(os.fstat(descriptor).st_mode & 0o777)
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    ledger = Ledger.open(path, "example")
    ledger.charge(asks("0.1"), BUDGET)
    ledger.close()
    assert made == [0o600, 0o600]


def test_charges_are_synchronous_and_logged_ahead(ledger: Ledger) -> None:
    pragmas = ("PRAGMA journal_mode", "PRAGMA synchronous", "PRAGMA foreign_keys")
    found = [ledger.store.read(lambda connection, p=pragma: connection.execute(p).fetchone()[0]) for pragma in pragmas]
    assert found == ["wal", 2, 1]


def test_a_charge_is_synchronous_whatever_went_before(ledger: Ledger, asks: Asks) -> None:
    def synchronous(connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA synchronous").fetchone()[0])

    def failing(connection: sqlite3.Connection) -> None:
        seen.append(synchronous(connection))
        raise ZeroDivisionError

    seen: list[int] = []
    ledger.charge(asks("0.1"), BUDGET)
    Answers(ledger).put(1, "f", NoisyTable((), ([1],), 1))
    with pytest.raises(ZeroDivisionError):
        ledger.store.keep(failing)
    ledger.charge(asks("0.1"), BUDGET, decide=lambda: seen.append(ledger.store.read(synchronous)))
    assert seen == [1, 2]


def test_another_datasets_ledger(ledger: Ledger, path: Path) -> None:
    with refused(
        f"DPSQL-705: the ledger {path} belongs to the dataset 'example', not to 'census'; "
        "give every dataset a ledger of its own"
    ):
        Ledger.open(path, "census")


@pytest.mark.parametrize("content", [b"person,income\n1,20\n" * 100, b"x", b"PAR1" + bytes(5000)])
def test_some_other_file(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    opening(path, f"DPSQL-705: the file {path} is not a ledger of dpsql; name another file for the ledger")
    assert path.read_bytes() == content


@pytest.mark.parametrize("table", ["CREATE TABLE person (id INTEGER)", "CREATE TABLE charge (id INTEGER)"])
def test_some_other_database(path: Path, table: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(table)
    connection.close()
    content = path.read_bytes()
    opening(path, f"DPSQL-705: the file {path} is not a ledger of dpsql; name another file for the ledger")
    assert path.read_bytes() == content


def test_an_empty_file_is_not_taken_for_a_new_ledger(path: Path) -> None:
    path.touch()
    opening(path, f"DPSQL-705: the ledger {path} is damaged; restore its newest backup")
    assert path.stat().st_size == 0


def test_a_truncated_ledger(path: Path, asks: Asks) -> None:
    ledger = Ledger.open(path, "example")
    for number in range(200):
        ledger.charge(asks("0.1", statement=f"SELECT {number}" * 20), BUDGET)
    ledger.close()
    whole = path.read_bytes()
    for size in [0, 1, 15, 16, 50, 99, 100, 101, 511, 512, 1000, 4095, 4096, 4097, *range(8192, len(whole), 4096)]:
        path.write_bytes(whole[:size])
        with pytest.raises(Error) as caught:
            Ledger.open(path, "example")
        assert str(caught.value) in (
            f"DPSQL-705: the ledger {path} is damaged; restore its newest backup",
            f"DPSQL-705: the file {path} is not a ledger of dpsql; name another file for the ledger",
        ), size
        assert caught.value.__context__ is None


@pytest.mark.parametrize("layout", [0, 7, -1, "'x\ny'"])
def test_an_unknown_layout(ledger: Ledger, path: Path, layout: object) -> None:
    change(ledger, path, f"UPDATE meta SET layout = {layout}")
    printed = layout if isinstance(layout, int) else "'x\\ny'"
    opening(
        path,
        f"DPSQL-705: the ledger {path} has layout {printed}, which this version of dpsql does not know; "
        "open it with the version that wrote it",
    )


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM meta",
        "DELETE FROM total",
        "UPDATE meta SET secret = 'short'",
        "UPDATE meta SET secret = x'00'",
        "UPDATE total SET charges = 0 WHERE scope = 'dataset'",
        "UPDATE total SET charges = 'many' WHERE scope = 'dataset'",
        "DROP TABLE charge",
        "DROP TABLE total",
        "ALTER TABLE meta RENAME COLUMN secret TO secrets",
        "ALTER TABLE meta RENAME COLUMN layout TO layouts",
    ],
)
def test_an_edited_ledger_is_noticed_at_opening(ledger: Ledger, asks: Asks, path: Path, edit: str) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    ledger.charge(asks("0.1"), BUDGET)
    change(ledger, path, edit)
    opening(path, f"DPSQL-705: the ledger {path} is damaged; restore its newest backup")


@pytest.mark.parametrize(
    "edit",
    [
        """UPDATE total SET spent = replace(spent, '"1/10"', '"1/100"')""",
        """UPDATE total SET spent = replace(spent, '"1/10"', '"-1"')""",
        """UPDATE total SET spent = replace(spent, '"1/10"', '"nan"')""",
        """UPDATE total SET spent = replace(spent, '"1/10"', 'NaN')""",
        """UPDATE total SET spent = replace(spent, '"1/10"', '"inf"')""",
        "UPDATE total SET spent = '[1,[],[]]'",
        "UPDATE total SET spent = '[]'",
        "UPDATE total SET spent = CAST('[' || spent || ']' AS BLOB)",
        "UPDATE total SET spent = 7",
        "UPDATE total SET seal = x'00'",
        "UPDATE total SET seal = 7",
        "UPDATE total SET name = 'other' WHERE scope = 'analyst'; UPDATE total SET name = 'default' WHERE scope = 'role'; "
        "UPDATE total SET scope = 'analyst' WHERE scope = 'role'",
    ],
)
def test_an_edited_total_is_noticed_at_opening(ledger: Ledger, asks: Asks, path: Path, edit: str) -> None:
    ledger.charge(asks("0.1", role="staff"), BUDGET)
    change(ledger, path, edit)
    opening(path, f"DPSQL-705: the ledger {path} is damaged; restore its newest backup")


@pytest.mark.parametrize("number", ["'12/12'", "12.5", "-1", "x'ff'", "CAST(x'ff' AS TEXT)"])
def test_an_edited_count_of_charges_is_noticed_at_opening(ledger: Ledger, asks: Asks, path: Path, number: str) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    change(ledger, path, f"UPDATE total SET charges = {number}")
    opening(path, f"DPSQL-705: the ledger {path} is damaged; restore its newest backup")


def change(ledger: Ledger, path: Path, edit: str) -> None:
    ledger.close()
    connection = sqlite3.connect(path)
    connection.executescript(edit)
    connection.commit()
    connection.close()


def test_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "none" / "example.ledger"
    opening(
        path,
        f"DPSQL-704: the ledger {path} cannot be created: its folder does not exist; create the folder first",
    )


def test_a_file_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "example.ledger"
    opening(
        path,
        f"DPSQL-704: the ledger {path} cannot be created: its folder does not exist; create the folder first",
    )


def test_a_folder(tmp_path: Path) -> None:
    opening(tmp_path, f"DPSQL-704: the ledger {tmp_path} is a folder or a device; name a file")


@pytest.mark.parametrize("device", ["/dev/full", "/dev/null"])
def test_a_device(device: str) -> None:
    opening(device, f"DPSQL-704: the ledger {device} is a folder or a device; name a file")


def test_paths_that_cannot_be(tmp_path: Path) -> None:
    fix = "check the path, its permissions and its disk"
    opening("a\x00b", f"DPSQL-704: the ledger 'a\\x00b' cannot be read or written; {fix}")
    long = tmp_path / ("x" * 300)
    opening(long, f"DPSQL-704: the ledger {long} cannot be read or written; {fix}")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    opening(loop, f"DPSQL-704: the ledger {loop} cannot be read or written; {fix}")


def test_a_path_cannot_break_the_line(tmp_path: Path) -> None:
    folder = tmp_path / "two\nlines"
    folder.mkdir()
    opening(folder, f"DPSQL-704: the ledger {str(folder)!a} is a folder or a device; name a file")


@pytest.mark.parametrize("name", ["with space", "per%20cent", "a?mode=ro", "a#b", "ünï", "🔒", "x" * 240])
def test_any_name_will_do(tmp_path: Path, asks: Asks, name: str) -> None:
    for _ in range(2):
        ledger = Ledger.open(tmp_path / name, "example")
        ledger.charge(asks("0.1"), BUDGET)
        ledger.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == [name, f"{name}.head"]


def test_a_link_to_a_ledger(tmp_path: Path, asks: Asks) -> None:
    link, target = tmp_path / "link", tmp_path / "target.ledger"
    link.symlink_to(target)
    first, second = Ledger.open(link, "example"), Ledger.open(target, "example")
    first.charge(asks("0.1"), BUDGET)
    assert second.spent() == first.spent() == asks("0.1").loss
    assert link.is_symlink()


def test_a_relative_path_stays_where_it_was(tmp_path: Path, asks: Asks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.open("example.ledger", "example")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert charged(ledger, asks) == 1


READ_ONLY = "cannot be written; allow this user to write the file and its folder"


def test_a_read_only_ledger(ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(file: Path) -> sqlite3.Connection:
        return sqlite3.connect(file.as_uri() + "?mode=ro", uri=True, isolation_level=None, check_same_thread=False)

    monkeypatch.setattr(store, "_new_connection", read_only)
    opening(path, f"DPSQL-704: the ledger {path} {READ_ONLY}")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to whom files are read-only")
@pytest.mark.parametrize(("folder", "file"), [(0o755, 0o644), (0o777, 0o444), (0o755, 0o666), (0o755, None)])
def test_another_users_ledger(tmp_path: Path, folder: int, file: int | None) -> None:
    """A child that has given up root finds the file, its folder, or both, closed to writing."""
    place = tmp_path / "place"
    place.mkdir()
    path = place / "example.ledger"
    if file is not None:
        Ledger.open(path, "example").close()
        path.chmod(file)
    place.chmod(folder)
    child = os.fork()
    if child == 0:
        os._exit(_opening_as_nobody(path))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _opening_as_nobody(path: Path) -> int:
    os.chdir(path.parent)  # while still allowed to pass the folders above
    os.setuid(65534)
    try:
        Ledger.open(path.name, "example")
    except Error as caught:
        closed = str(caught) == f"DPSQL-704: the ledger {path.name} {READ_ONLY}"
        unreadable = str(caught).startswith(f"DPSQL-704: the ledger {path.name} cannot be read or written")
        return 0 if (closed or unreadable) and caught.__context__ is None else 2
    return 1


def test_a_locked_ledger(ledger: Ledger, asks: Asks, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "TIMEOUT_SECONDS", 0.05)
    ledger.close()
    waiting = Ledger.open(path, "example")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    line = f"DPSQL-704: the ledger {path} is locked by another process; wait for it and ask again"
    with refused(line):
        waiting.charge(asks("0.1"), BUDGET)
    opening(path, line)
    holder.execute("ROLLBACK")
    assert charged(waiting, asks) == 1
    holder.close()
    waiting.close()


def test_a_disk_that_fills_up(ledger: Ledger, asks: Asks, path: Path) -> None:
    receipt = ledger.charge(asks("0.1"), BUDGET)
    pages = ledger.store.read(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])
    ledger.store.read(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}"))
    line = f"DPSQL-704: the ledger {path} has no room on its disk; make room and ask again"
    with refused(line):
        ledger.charge(asks("0.1", statement="x" * 100_000), BUDGET)
    with refused(line):
        Answers(ledger).put(1, "f", NoisyTable(([os.urandom(100_000).hex()],), (), 1))
    assert receipt is not None and ledger.spent() == receipt.loss and len(ledger.history()) == 1


def test_a_disk_without_room_for_a_new_ledger(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", full)
        opening(path, f"DPSQL-704: the ledger {path} has no room on its disk; make room and ask again")
    assert not list(path.parent.iterdir())


def test_a_limit_on_the_size_of_files(path: Path, script: Script) -> None:
    """The system refuses to let files grow: creating leaves nothing behind, a charge is refused and none is lost."""
    done = subprocess.run(
        script(
            f"""
import resource
def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
def attempt(work):
    try:
        work()
    except Error as caught:
        print(caught, caught.__context__)
limit(2000)
attempt(lambda: Ledger.open({str(path)!r}, "example"))
limit(-1)
ledger = Ledger.open({str(path)!r}, "example")
ledger.charge(REQUEST, budget(10))
limit(30000)
attempt(lambda: [ledger.charge(REQUEST, budget(1000)) for _ in range(100)])
limit(-1)
print(len(ledger.history()), ledger.spent().epsilon)
"""
        ),
        capture_output=True,
        text=True,
    )
    created, charged, summary = done.stdout.splitlines()
    expected = (
        f"DPSQL-704: the ledger {path} cannot be read or written; check the path, its permissions and its disk None"
    )
    assert (created, charged, done.stderr) == (expected, expected, "")
    count, spent = summary.split()
    assert Fraction(spent) == Fraction(int(count), 100) and 1 <= int(count) < 100


def test_a_ledger_that_is_removed_while_open(ledger: Ledger, asks: Asks, path: Path) -> None:
    """Charges to a file without a name would be forgotten, and a new file would start from nothing."""
    line = f"DPSQL-705: the ledger {path} was removed or replaced; put the file back where it was"
    aside = path.with_name("aside")
    path.rename(aside)
    with refused(line):
        ledger.charge(asks("0.1"), BUDGET)
    opening(path, line)  # its -wal still stands there
    aside.rename(path)
    assert charged(ledger, asks) == 1
    path.rename(aside)
    path.write_bytes(aside.read_bytes())
    with refused(line):
        ledger.spent()


def test_a_ledger_that_was_deleted(ledger: Ledger, asks: Asks, path: Path) -> None:
    """A new one would start from nothing: the head beside it says that there was one."""
    ledger.charge(asks("0.1"), BUDGET)
    ledger.close()
    path.unlink()
    opening(
        path,
        f"DPSQL-705: the ledger {path} was removed; put the file back where it was; "
        f"to begin with nothing spent, remove {head_file(path)} too",
    )
    assert not path.exists()
    head_file(path).unlink()
    Ledger.open(path, "example").close()


def test_a_ledger_without_charges_leaves_nothing_to_remember(ledger: Ledger, path: Path) -> None:
    ledger.close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_failed_creation_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise sqlite3.OperationalError

    monkeypatch.setattr("dpsql.accounting.layout.fill", broken)
    with pytest.raises(Error):
        Ledger.open(path, "example")
    assert not list(path.parent.iterdir())
