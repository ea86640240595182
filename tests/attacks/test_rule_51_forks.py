"""Rule 51: a process that forks has no engine, and nobody waits for a claim without a deadline."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dpsql
from dpsql.accounting import claims
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.attacks.observing import ordinary
from tests.support import clinic
from tests.support.noise import ZeroNoise

ROOT = Path(__file__).parents[2]
COUNTED = "SELECT site, COUNT(*) FROM patient GROUP BY site"
PATIENCE = 60

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    clinic.write(tmp_path, ordinary())
    text = clinic.UNIT + clinic.PATIENT + clinic.VISIT + clinic.PUBLIC
    (tmp_path / "schema.toml").write_text(text.replace("[guard]", "[limits]\nseconds = 1\n\n[guard]", 1))
    return tmp_path / "schema.toml"


@pytest.fixture
def connection(schema: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(schema, ledger=schema.with_name("x.ledger")) as opened:
        opened.execute("SELECT COUNT(*) FROM visit")
        yield opened


def in_child(work: Callable[[], str], leave: Callable[[], object] = lambda: os._exit(0)) -> str:
    """Do some work in a forked process, which must end by itself, and return what it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            said = work()
        except BaseException as problem:
            said = str(problem)
        os.write(writing, said.encode())
        leave()
        os._exit(0)
    os.close(writing)
    end = time.monotonic() + PATIENCE
    status = None
    while status is None and time.monotonic() < end:
        found, how = os.waitpid(child, os.WNOHANG)
        status = how if found else None
        time.sleep(0.01)
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    assert status == 0, f"the child ended with {status} after {said!r}"
    return said


REFUSED = "DPSQL-802: the connection belongs to the process that opened it; open one in this process"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "use",
    [
        lambda c: c.execute(COUNTED),
        lambda c: c.execute("SELECT 1"),
        lambda c: c.execute("SHOW BUDGET"),
        lambda c: c.execute("SELECT COUNT(*) FROM visit"),
        lambda c: c.cursor().execute(COUNTED),
        lambda c: c.explain(COUNTED),
        lambda c: c.price(COUNTED),
        lambda c: c.execute("SET dp_epsilon = 0.2"),
    ],
)
def test_rule_51_a_child_is_refused_before_the_charge(
    connection: dpsql.Connection, use: Callable[[dpsql.Connection], object]
) -> None:
    before = len(connection._open()._world.ledger.history())
    assert in_child(lambda: str(use(connection))) == REFUSED
    assert len(connection._open()._world.ledger.history()) == before
    assert connection.execute(COUNTED).fetchall()


def test_rule_51_what_was_answered_before_is_read_without_an_engine(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT site, COUNT(*) * 2 AS n FROM patient GROUP BY site ORDER BY site")
    assert in_child(lambda: str(cursor.fetchone())) == str(cursor.fetchone())
    assert in_child(lambda: str(cursor.accuracy[0])) == REFUSED


def test_rule_51_a_child_opens_a_connection_of_its_own(connection: dpsql.Connection, schema: Path) -> None:
    def work() -> str:
        with dpsql.connect(schema, ledger=schema.with_name("x.ledger")) as own:
            return str(own.execute(COUNTED).fetchall())

    said = in_child(work)
    assert said == str(connection.execute(COUNTED).fetchall()), "it is the stored answer"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exit", "close", "delete"])
def test_rule_51_a_child_ends_by_itself(schema: Path, how: str) -> None:
    """DuckDB's threads are the parent's: to close its connections in the child would abort or hang."""
    leaving = {
        "exit": "sys.exit(0)",
        "close": "connection.close(); sys.exit(0)",
        "delete": "connection = None; gc.collect(); sys.exit(0)",
    }[how]
    script = f"""
import gc, os, sys, dpsql
connection = dpsql.connect({str(schema)!r}, ledger={str(schema.with_name("x.ledger"))!r})
connection.execute({COUNTED!r})
child = os.fork()
if child == 0:
    {leaving}
print(os.waitpid(child, 0)[1], connection.execute({COUNTED!r}).rowcount)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout == "0 3\n", done.stderr[-2000:]


def _ask(connection: dpsql.Connection, found: multiprocessing.Queue[str]) -> None:
    try:
        connection.execute(COUNTED)
        found.put("answered")
    except dpsql.Error as problem:
        found.put(str(problem))


def test_rule_51_multiprocessing(connection: dpsql.Connection) -> None:
    context = multiprocessing.get_context("fork")
    found: multiprocessing.Queue[str] = context.Queue()
    workers = [context.Process(target=_ask, args=(connection, found)) for _ in range(3)]
    for worker in workers:
        worker.start()
    assert [found.get(timeout=PATIENCE) for _ in workers] == [REFUSED] * 3
    for worker in workers:
        worker.join(PATIENCE)
        assert worker.exitcode == 0
    assert len(connection._open()._world.ledger.history()) == 1


PRELOADED = """
import dpsql
connection = dpsql.connect({schema!r}, ledger={ledger!r})
connection.execute("SELECT COUNT(*) FROM visit")

def app(environ, start_response):
    try:
        said = str(connection.execute({asked!r}).fetchall())
    except dpsql.Error as problem:
        said = str(problem)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(said)))])
    return [said.encode()]
"""


def test_rule_51_gunicorn_preload(schema: Path) -> None:
    pytest.importorskip("gunicorn")
    import socket
    import urllib.request

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    text = PRELOADED.format(schema=str(schema), ledger=str(schema.with_name("x.ledger")), asked=COUNTED)
    schema.with_name("preloaded.py").write_text(text)
    command = [sys.executable, "-m", "gunicorn", "--preload", "-w", "2", "-b", f"127.0.0.1:{port}", "preloaded:app"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(schema.parent)])}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end, said = time.monotonic() + PATIENCE, ""
        while not said and time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as page:
                    said = page.read().decode()
            except OSError:
                time.sleep(0.1)
        assert said == REFUSED
    finally:
        server.terminate()
        server.wait(PATIENCE)


# --- claims -----------------------------------------------------------------------------------------------------------

HOLDING = """
import sys, time
from pathlib import Path
from dpsql.accounting import claims
from dpsql.session.opening import open_session
from tests.support.noise import ZeroNoise
claims.MARGIN_SECONDS = 1.0

class Standing(ZeroNoise):
    def laplace(self, scale, size):
        print("charged", flush=True)
        time.sleep(600)

open_session(Path(sys.argv[1]), None, Path(sys.argv[2]), noise=Standing()).execute(sys.argv[3])
"""


def held(schema: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDING, str(schema), str(schema.with_name("x.ledger")), COUNTED]
    holder = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "charged\n"
    return holder


@pytest.fixture
def waiting(schema: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Session, subprocess.Popen[str]]]:
    """A session, and another process that was stopped while it works out COUNTED."""
    monkeypatch.setattr(claims, "MARGIN_SECONDS", 1.0)
    session = open_session(schema, None, schema.with_name("x.ledger"), noise=ZeroNoise())
    holder = held(schema)
    holder.send_signal(signal.SIGSTOP)
    yield session, holder
    holder.kill()
    holder.wait()
    if holder.stdout is not None:
        holder.stdout.close()
    session.close()


@pytest.mark.slow
def test_rule_51_who_waits_for_a_stopped_holder_pays_in_the_end(
    waiting: tuple[Session, subprocess.Popen[str]],
) -> None:
    session, _ = waiting
    begun = time.monotonic()
    answer = session.execute(COUNTED)
    took = time.monotonic() - begun
    print(f"waited {took:.2f} s for a stopped holder whose limits are 1 + 1 s")  # noqa: T201
    assert not answer.cached and len(session._world.ledger.history()) == 2 == session._world.ledger.verify()
    assert took < 30


@pytest.mark.slow
def test_rule_51_who_waits_is_told_where_others_stop_too(
    waiting: tuple[Session, subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another claim each time that one passed: the waiter has a deadline of its own."""
    session, _ = waiting
    monkeypatch.setattr(session._world.ledger, "is_claimed", lambda names: True)
    begun = time.monotonic()
    with pytest.raises(dpsql.OperationalError) as raised:
        session.execute(COUNTED)
    assert time.monotonic() - begun < 30
    told = (
        "DPSQL-713: somebody else works out the same answer, and takes too long; nothing was charged; ask again later"
    )
    assert str(raised.value) == told
    assert len(session._world.ledger.history()) == 1


@pytest.mark.slow
def test_rule_51_a_holder_that_goes_on_finds_the_answer_that_was_paid_for_meanwhile(
    waiting: tuple[Session, subprocess.Popen[str]],
) -> None:
    session, holder = waiting
    first = session.execute(COUNTED).rows
    holder.send_signal(signal.SIGCONT)
    assert session.execute(COUNTED).rows == first


def test_rule_51_a_planted_fault_is_caught(connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look at the process, a child is charged."""
    monkeypatch.setattr("dpsql.session.session.require_process", lambda opener: None)
    before = len(connection._open()._world.ledger.history())
    assert in_child(lambda: str(connection.execute(COUNTED))).startswith("DPSQL-802"), "the engine refuses as well"
    charged = len(connection._open()._world.ledger.history()) - before
    assert charged == 0, "the sandbox refuses while the statement is planned"
