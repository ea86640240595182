"""A22, A23, A24 and files that are no good: nothing is released that was not charged, whatever happens to processes and files."""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.accounting import Ledger
from dpsql.accounting.ledger import TAIL
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.conversions import pure
from dpsql.plan.charges import Budget, ChargeRequest, Portion

SCHEMA = """
[dataset]
name = "people"
source = "."

[guard]
mode = "off"

[privacy]
unit = "person.person_id"
epsilon = {epsilon}
delta = 1e-6
accounting = "{accounting}"
query = {{ epsilon = 0.1 }}

[tables.person]
source = "person.csv"
key = ["person_id"]
[tables.person.columns]
person_id = {{ type = "BIGINT", role = "identifier" }}
age = {{ type = "INTEGER", bounds = [0, 1000] }}
"""
IDENTITY = "people (person.person_id)"
PRICE = Fraction(1, 10)
COUNT = "SELECT COUNT(*) FROM person"
OLDER_THAN = COUNT + " WHERE age >= {}"
REQUEST = ChargeRequest("a", "v", "s", ("f",), ("m",), (Portion(pure(PRICE)),))
PLENTY = Budget(EpsilonDelta(Fraction(1000), Fraction(0)))
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def dataset(folder: Path, epsilon: str = "1000.0", accounting: str = "sequential") -> Path:
    """A table of 300 people in a file, and its schema."""
    people = "\n".join(f"{number},{number}" for number in range(300))
    (folder / "person.csv").write_text(f"person_id,age\n{people}\n")
    path = folder / "schema.toml"
    path.write_text(SCHEMA.format(epsilon=epsilon, accounting=accounting))
    return path


def ledger_of(folder: Path) -> Path:
    return folder / "people.ledger"


@contextmanager
def running(folder: Path, body: str, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that run some lines in a folder; those that are left at the end are killed."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", body, str(folder)]
    workers = [subprocess.Popen(command, text=True, **pipes) for _ in range(count)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


def told(workers: list[subprocess.Popen[str]], text: str = "\n") -> list[str]:
    """The processes' answers after a line that starts all of them at once."""
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(text)
        worker.stdin.flush()
    said = [worker.communicate(timeout=120) for worker in workers]
    assert [errors for _, errors in said] == [""] * len(workers)
    return [output for output, _ in said]


# --- A23: races -----------------------------------------------------------------------------------------------------------

CHARGING = """
import sys
from fractions import Fraction
from dpsql.accounting import Ledger
from dpsql.core.errors import BudgetError
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.conversions import pure
from dpsql.plan.charges import Budget, ChargeRequest, Portion
REQUEST = ChargeRequest("a", "v", "s", ("f",), ("m",), (Portion(pure(Fraction(1, 10))),))
granted = 0
sys.stdin.readline()
ledger = Ledger.open(sys.argv[1] + "/people.ledger", "people (person.person_id)")
for _ in range(200):
    try:
        granted += ledger.charge(REQUEST, Budget(EpsilonDelta(Fraction(142, 10), Fraction(0)))) is not None
    except BudgetError:
        pass
print(granted)
"""


@pytest.mark.slow
def test_a23_eight_processes_and_a_budget_for_142(tmp_path: Path) -> None:
    """1,600 charges at once, each process opening (one of them making) the ledger: exactly 142 are granted."""
    with running(tmp_path, CHARGING, 8) as workers:
        assert sum(map(int, told(workers))) == 142
    ledger = Ledger.open(ledger_of(tmp_path), IDENTITY)
    assert ledger.verify() == 142 and ledger.spent().epsilon == 142 * PRICE
    ledger.close()


ASKING = """
import sys
import dpsql
from dpsql.clients.dbapi import connection as dbapi
first = int(sys.stdin.readline())
connection = dpsql.connect(sys.argv[1] + "/schema.toml")
granted = 0
for number in range(first, first + 10):
    try:
        connection.execute(f"SELECT COUNT(*) FROM person WHERE age >= {number}")
        granted += 1
    except dpsql.BudgetError as caught:
        assert "\\n" not in caught.args[0]
print(granted)
"""


@pytest.mark.slow
def test_a23_connections_of_several_processes(tmp_path: Path) -> None:
    """Different statements, so that none is a stored answer: 17 of 30."""
    dataset(tmp_path, "1.7")
    dpsql.connect(tmp_path / "schema.toml").close()
    with running(tmp_path, ASKING, 3) as workers:
        for number, worker in enumerate(workers):
            assert worker.stdin is not None
            worker.stdin.write(f"{number * 10}\n")
        assert sum(map(int, told(workers, ""))) == 17
    ledger = Ledger.open(ledger_of(tmp_path), IDENTITY)
    assert ledger.verify() == 17 and ledger.spent().epsilon == 17 * PRICE
    ledger.close()


ASKING_SLOWLY = """
import sys, time
import dpsql
from dpsql.engines.duckdb.engine import DuckDBEngine
exact = DuckDBEngine.exact
def slow(*arguments, **more):
    time.sleep(0.5)
    return exact(*arguments, **more)
connection = dpsql.connect(sys.argv[1] + "/schema.toml")
DuckDBEngine.exact = slow
print("open", flush=True)
sys.stdin.readline()
answer = connection.execute("SELECT COUNT(*) FROM person")
print(answer.fetchone()[0], answer.privacy.epsilon)
"""


@pytest.mark.slow
def test_two_who_ask_first_at_one_moment_are_charged_once(tmp_path: Path) -> None:
    """The second waits for the first one's answer, and gets it for nothing."""
    dataset(tmp_path)
    with running(tmp_path, ASKING_SLOWLY, 2) as workers:
        for worker in workers:
            assert worker.stdout is not None and worker.stdout.readline() == "open\n"
        (one, price), (other, second) = (said.split() for said in told(workers))
    assert one == other and {price, second} == {"1/10", "0"}
    ledger = Ledger.open(ledger_of(tmp_path), IDENTITY)
    assert ledger.verify() == 1
    ledger.close()


# --- A24: sudden ends -----------------------------------------------------------------------------------------------------

NURSERY = """
import os, random, sys, time
from fractions import Fraction
import dpsql, dpsql.clients.dbapi.connection
from dpsql.accounting.answers import Answers
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.mechanisms.source import SystemNoise

SystemNoise().laplace(Fraction(10), 1)

def paused(work):
    def slower(*arguments, **more):
        time.sleep(random.uniform(0, 0.004))
        return work(*arguments, **more)
    return slower

DuckDBEngine.exact, Answers.put = paused(DuckDBEngine.exact), paused(Answers.put)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        random.seed(int(line))
        connection = dpsql.connect(sys.argv[1] + "/schema.toml")
        os.write(1, b"%d open\\n" % os.getpid())
        while True:
            number = random.randrange(300)
            answer = connection.execute(f"SELECT COUNT(*) FROM person WHERE age >= {number}")
            os.write(1, b"%d %d\\n" % (number, answer.fetchone()[0]))
    os.waitpid(child, 0)
    os.write(1, b"dead\\n")
"""
"""Forks, of a process that has opened nothing, children that ask until they are killed; each says what it got."""


@pytest.mark.slow
@needs_fork
def test_a24_fifty_kills(tmp_path: Path) -> None:
    """Whatever was shown was charged before and is stored; what was charged and not stored was not shown."""
    schema, shown = dataset(tmp_path), defaultdict(set)
    moments = random.Random(24)
    with running(tmp_path, NURSERY, 1) as (nursery,):
        assert nursery.stdin is not None and nursery.stdout is not None
        for number in range(50):
            nursery.stdin.write(f"{number}\n")
            nursery.stdin.flush()
            child, said = nursery.stdout.readline().split()
            assert said == "open"
            if number % 2:
                where, value = nursery.stdout.readline().split()
                shown[int(where)].add(int(value))
            time.sleep(moments.uniform(0, 0.1))
            os.kill(int(child), signal.SIGKILL)
            while (line := nursery.stdout.readline()) != "dead\n":
                where, value = line.split()
                shown[int(where)].add(int(value))
    assert len(shown) >= 20 and all(len(values) == 1 for values in shown.values())
    ledger = Ledger.open(ledger_of(tmp_path), IDENTITY)
    charges = ledger.verify()
    history = ledger.history()
    asked = [int(entry.statement.rpartition(" ")[2]) for entry in history]
    assert set(shown) <= set(asked) and ledger.spent().epsilon == charges * PRICE
    ledger.close()
    connection = dpsql.connect(schema)
    for number in sorted(set(asked)):
        answer = connection.execute(OLDER_THAN.format(number))
        value = answer.fetchone()[0]  # type: ignore[index]
        cost = answer.privacy.epsilon
        assert cost == 0 and {value} == shown[number] if number in shown else cost in (0, PRICE), number
    connection.close()


@pytest.mark.slow
@needs_fork
def test_a24_a_kill_between_charge_and_answer(tmp_path: Path) -> None:
    """The charge stays; the same statement is charged anew, since no answer was stored or shown."""
    schema = dataset(tmp_path)
    body = ASKING_SLOWLY.replace("time.sleep(0.5)", "print('charged', flush=True); time.sleep(60)")
    with running(tmp_path, body, 1) as (worker,):
        assert worker.stdin is not None and worker.stdout is not None
        assert worker.stdout.readline() == "open\n"
        worker.stdin.write("\n")
        worker.stdin.flush()
        assert worker.stdout.readline() == "charged\n"
        worker.kill()
        assert worker.wait() == -signal.SIGKILL
        assert worker.stdout.read() == ""
    connection = dpsql.connect(schema)
    answer = connection.execute(COUNT)
    assert answer.privacy.epsilon == PRICE and answer.privacy.remaining == 1000 - 2 * PRICE
    connection.close()
    ledger = Ledger.open(ledger_of(tmp_path), IDENTITY)
    assert ledger.verify() == 2
    ledger.close()


# --- A22: averaging -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a22_the_same_statement_a_thousand_times(tmp_path: Path) -> None:
    """Reconnecting every 100, as ten analysts: one value, one charge."""
    schema, seen, spent = dataset(tmp_path, accounting="auto"), set(), []
    for reconnect in range(10):
        connection = dpsql.connect(schema, analyst=f"analyst {reconnect}")
        for _ in range(100):
            answer = connection.execute(COUNT)
            seen.add(answer.fetchone())
            spent.append(answer.privacy.epsilon)
        connection.close()
    assert len(seen) == 1 and spent == [PRICE] + [0] * 999
    ledger = Ledger.open(ledger_of(tmp_path), IDENTITY)
    assert ledger.verify() == 1
    ledger.close()


def test_a22_asking_anew_is_charged_until_nothing_is_left(tmp_path: Path) -> None:
    """Fresh noise is bought each time."""
    connection = dpsql.connect(dataset(tmp_path, "1.05"))
    for number in range(1, 11):
        assert (
            connection.execute(f"/* dpsql: fresh */ {COUNT}").privacy.remaining == Fraction(105, 100) - number * PRICE
        )
    with pytest.raises(dpsql.BudgetError, match=r"epsilon 0\.1, 0\.05 is left"):
        connection.execute(f"/* dpsql: fresh */ {COUNT}")
    assert connection.execute(COUNT).privacy.epsilon == 0
    connection.close()


# --- files ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a dataset after TAIL + 20 charges, and after the first of them, as `old` ones."""
    folder = tmp_path_factory.mktemp("answered")
    connection = dpsql.connect(dataset(folder))
    connection.execute(OLDER_THAN.format(0))
    connection.close()
    old = {f"old {file.name}": file.read_bytes() for file in folder.glob("people.ledger*") if file.is_file()}
    connection = dpsql.connect(folder / "schema.toml")
    for number in range(1, 8):
        connection.execute(OLDER_THAN.format(number))
    connection.close()
    ledger = Ledger.open(ledger_of(folder), IDENTITY)
    for _ in range(8, TAIL + 20):
        ledger.charge(REQUEST, PLENTY)
    ledger.close()
    return old | {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.fixture
def copy(answered: dict[str, bytes], tmp_path: Path) -> Path:
    """The folder of their copy."""
    for name, content in answered.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def refused(work: Callable[[], object], code: str, text: str) -> None:
    """One clear line, with nothing of other errors behind it."""
    with pytest.raises(dpsql.Error) as caught:
        work()
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{code}: ") and text in line, line
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def connecting(folder: Path) -> Callable[[], object]:
    return lambda: dpsql.connect(folder / "schema.toml")


def edit(folder: Path, text: str) -> None:
    connection = sqlite3.connect(ledger_of(folder))
    connection.execute(text)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("part", [0, 0.01, 0.3, 0.6, 0.9])
def test_a_truncated_ledger(copy: Path, part: float) -> None:
    content = ledger_of(copy).read_bytes()
    ledger_of(copy).write_bytes(content[: int(part * len(content))])
    refused(connecting(copy), "DPSQL-705", "people.ledger")


@pytest.mark.parametrize("missing", [1, 500, 2000, 4000])
def test_a_ledger_without_its_last_bytes(copy: Path, missing: int) -> None:
    """A part of a page is nothing to SQLite: what is gone is noticed by what reads it, in one line."""
    ledger_of(copy).write_bytes(ledger_of(copy).read_bytes()[:-missing])
    try:
        connection = dpsql.connect(copy / "schema.toml")
        try:
            for number in (3, 7, 250):
                assert connection.execute(OLDER_THAN.format(number)).privacy.remaining <= 1000 - (TAIL + 20) * PRICE
        finally:
            connection.close()
    except dpsql.Error as caught:
        assert caught.code == "DPSQL-705" and len(str(caught).splitlines()) == 1
        assert caught.__context__ is None and caught.__cause__ is None


@pytest.mark.parametrize(
    "change",
    [
        """portions = replace(portions, '"1/10"', '"1/100"')""",
        "statement = 'SELECT 1'",
        "analyst = 'somebody else'",
        "time = '2020-01-01T00:00:00.000+00:00'",
        "certificates = '[1]'",
        "link = x'00'",
    ],
)
def test_a_ledger_whose_end_was_edited(copy: Path, change: str) -> None:
    edit(copy, f"UPDATE charge SET {change} WHERE id = (SELECT max(id) - 3 FROM charge)")
    refused(connecting(copy), "DPSQL-705", "was edited, at or before charge")


def test_a_ledger_whose_last_charges_were_removed(copy: Path) -> None:
    edit(copy, "DELETE FROM answer")
    edit(copy, "DELETE FROM charge WHERE id > 5")
    refused(connecting(copy), "DPSQL-705", "people.ledger")


def test_a_ledger_whose_middle_was_edited(copy: Path) -> None:
    """Opening reads the end alone, whatever the length; the owner's verification reads all."""
    edit(copy, """UPDATE charge SET portions = replace(portions, '"1/10"', '"1/100"') WHERE id = 5""")
    dpsql.connect(copy / "schema.toml").close()
    ledger = Ledger.open(ledger_of(copy), IDENTITY)
    refused(ledger.verify, "DPSQL-705", "was edited, at or before charge 5;")
    ledger.close()


def test_a_ledger_that_was_deleted(copy: Path) -> None:
    """A new one would start from nothing."""
    ledger_of(copy).unlink()
    refused(connecting(copy), "DPSQL-705", "people.ledger was removed; put the file back where it was")
    assert not ledger_of(copy).exists()


def test_a_ledger_that_is_deleted_while_open(copy: Path) -> None:
    connection = dpsql.connect(copy / "schema.toml")
    for file in copy.glob("people.ledger*"):
        if file.is_file():
            file.unlink()
    refused(lambda: connection.execute(OLDER_THAN.format(200)), "DPSQL-705", "was removed or replaced")
    refused(lambda: connection.execute(OLDER_THAN.format(0)), "DPSQL-705", "was removed or replaced")
    connection.close()


def test_an_older_copy_beside_the_newest_head(copy: Path) -> None:
    ledger_of(copy).write_bytes((copy / "old people.ledger").read_bytes())
    refused(connecting(copy), "DPSQL-705", f"is older than it was: charge {TAIL + 20} is known and not in it")


def test_an_older_copy_with_its_own_head(copy: Path) -> None:
    """A whole older state is a whole ledger: a new process cannot tell. One that has it open can, and so can a certificate."""
    connection = dpsql.connect(copy / "schema.toml")
    connection.execute(OLDER_THAN.format(200))
    older = {name: (copy / f"old {name}").read_bytes() for name in ("people.ledger", "people.ledger.head")}
    # written over: the file keeps its place
    for name, content in older.items():
        (copy / name).write_bytes(content)
    for suffix in ("-wal", "-shm"):
        (copy / f"people.ledger{suffix}").unlink(missing_ok=True)
    refused(lambda: connection.execute(OLDER_THAN.format(201)), "DPSQL-705", "people.ledger")
    connection.close()
    for name, content in older.items():
        (copy / name).write_bytes(content)
    for suffix in ("-wal", "-shm"):
        (copy / f"people.ledger{suffix}").unlink(missing_ok=True)
    again = dpsql.connect(copy / "schema.toml")
    assert again.execute("SELECT 1").privacy.remaining == 1000 - PRICE
    again.close()


def test_an_older_copy_is_noticed_by_who_charged_since(copy: Path) -> None:
    """The head in memory is enough, where the file of it is old too and the connection was made anew."""
    ledger = Ledger.open(ledger_of(copy), IDENTITY)
    ledger.charge(REQUEST, PLENTY)
    ledger.store._disconnect()
    for name in ("people.ledger", "people.ledger.head"):
        (copy / name).write_bytes((copy / f"old {name}").read_bytes())
    refused(lambda: ledger.charge(REQUEST, PLENTY), "DPSQL-705", "is older than it was")
    refused(ledger.verify, "DPSQL-705", "is older than it was")
    ledger.close()


def test_a_head_that_is_no_head(copy: Path) -> None:
    (copy / "people.ledger.head").write_text("12 abc\n")
    refused(connecting(copy), "DPSQL-705", "does not say how far the ledger went")


def test_an_answer_that_was_edited(copy: Path) -> None:
    edit(copy, "UPDATE answer SET payload = x'6a5b312c5b5d2c5b5b395d5d5d'")
    connection = dpsql.connect(copy / "schema.toml")
    refused(lambda: connection.execute(OLDER_THAN.format(3)), "DPSQL-705", "is damaged")
    connection.close()


def test_some_other_file_for_a_ledger(copy: Path) -> None:
    ledger_of(copy).write_bytes((copy / "person.csv").read_bytes())
    refused(connecting(copy), "DPSQL-705", "is not a ledger of dpsql")


def test_a_read_only_ledger(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A charge that cannot be written is no charge, and then nothing is released."""

    def read_only(file: Path) -> sqlite3.Connection:
        return sqlite3.connect(file.as_uri() + "?mode=ro", uri=True, isolation_level=None, check_same_thread=False)

    monkeypatch.setattr("dpsql.accounting.store._new_connection", read_only)
    refused(connecting(copy), "DPSQL-704", "cannot be written; allow this user to write the file and its folder")


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs another user to whom files are read-only"
)
def test_another_users_ledger(copy: Path) -> None:
    body = """
import os, sys
import dpsql, dpsql.clients.dbapi.connection
os.chdir(sys.argv[1])
schema = dpsql.read_schema("schema.toml")
os.setgid(65534)
os.setuid(65534)
sys.stdin.readline()
try:
    dpsql.connect(schema, ledger="people.ledger")
except dpsql.Error as caught:
    print(caught, caught.__context__)
"""
    ledger_of(copy).chmod(0o644)
    with running(copy, body, 1) as workers:
        (said,) = told(workers)
    (line,) = said.splitlines()
    assert line.startswith("DPSQL-704: the ledger people.ledger cannot be ") and line.endswith(" None"), line


def test_a_full_disk(copy: Path) -> None:
    """Files may not grow: statements are refused in one line each, none of them releases anything, and none is charged twice."""
    connection = dpsql.connect(copy / "schema.toml")
    before = connection.execute("SELECT 1").privacy.remaining
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        for number in range(200, 203):
            refused(lambda n=number: connection.execute(OLDER_THAN.format(n)), "DPSQL-704", "people.ledger")
        assert connection.execute(OLDER_THAN.format(3)).privacy.epsilon == 0  # what is stored can be read
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert connection.execute("SELECT 1").privacy.remaining == before
    assert connection.execute(OLDER_THAN.format(200)).privacy.remaining == before - PRICE
    connection.close()
    ledger = Ledger.open(ledger_of(copy), IDENTITY)
    assert ledger.verify() == TAIL + 21
    ledger.close()
