"""Rule 50: an interrupt is never lost. At whatever stage it comes, the statement ends with 703, which says whether it was charged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dpsql.engines.duckdb.engine
import dpsql.postprocess.sandbox
import dpsql.release.buying
import dpsql.session.answer
from dpsql.accounting.answers import Answers
from dpsql.accounting.ledger import Ledger
from dpsql.answers.look_up import Stored
from dpsql.core.cancellation import Cancellation
from dpsql.core.errors import Error
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.guard.guarding import Guarding
from dpsql.postprocess.sandbox import Sandbox
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.attacks.observing import ordinary
from tests.support import clinic
from tests.support.noise import ZeroNoise

ROOT = Path(__file__).parents[2]
STAYS, FREE = "DPSQL-703: interrupted; the charge stands", "DPSQL-703: interrupted; nothing was charged"
SLOW = "SELECT count(*) FROM range(1000000000) a, range(100000) b WHERE (a.range * b.range) % 7 = 1"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    clinic.write(tmp_path, ordinary())
    text = clinic.UNIT.replace('"off"', '"warn"') + clinic.PATIENT + clinic.VISIT + clinic.PUBLIC
    (tmp_path / "schema.toml").write_text(text)
    (tmp_path / "unguarded.toml").write_text(text.replace('"warn"', '"off"'))
    opened = open_session(tmp_path / "schema.toml", None, tmp_path / "x.ledger", noise=ZeroNoise())
    yield opened
    opened.close()


def asked(number: int) -> str:
    """Another question each time: a release with declared keys, one with listed keys, a scalar one, and a shell over them."""
    return (
        "/* dpsql: fresh */ WITH a AS "
        f"(SELECT site, COUNT(*) AS n, AVG(income) AS m FROM patient WHERE age > {20 + number % 60} GROUP BY site), "
        f"b AS (SELECT d.drug, COUNT(*) AS k FROM item i JOIN (SELECT drug FROM drug WHERE drug > 0) d ON i.drug = d.drug "
        f"WHERE i.amount > {-(number // 60)} GROUP BY d.drug) "
        "SELECT site, n * 2, (SELECT MAX(k) FROM b) FROM a WHERE n > (SELECT COUNT(*) FROM visit) / 100 ORDER BY n DESC LIMIT 2"
    )


def few(number: int) -> str:
    return f"SELECT site, COUNT(*) * 2 FROM patient WHERE income > {number} / 100 GROUP BY site ORDER BY 2"


def charges(session: Session) -> int:
    return len(session._world.ledger.history())


def ended(session: Session, sql: str) -> bool:
    """Tell whether a statement was interrupted; then it was charged iff it says so, and nobody waits for it."""
    before = charges(session)
    try:
        session.execute(sql)
    except Error as problem:
        assert str(problem) in (STAYS, FREE), problem
        assert (str(problem) == STAYS) == (charges(session) > before), problem
        assert problem.__context__ is None and problem.__cause__ is None
        assert session._world.ledger.store.read(lambda c: c.execute("SELECT * FROM claim").fetchall()) == []
        return True
    return False


@pytest.mark.slow
def test_rule_50_an_interrupt_at_every_look(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The n-th look at the cancellation value is the first that sees it, for every n."""
    original, looks, at = Cancellation.check, 0, 0

    def counted(statement: Cancellation) -> None:
        nonlocal looks
        looks += 1
        if looks == at:
            statement.cancel()
        original(statement)

    # a statement that is charged looks more often than those after it, which know its plan
    session.execute(asked(10_000))
    monkeypatch.setattr(Cancellation, "check", counted)
    interrupted = True
    while interrupted:
        looks, at = 0, at + 1
        interrupted = ended(session, asked(at))
    assert looks < at, f"lost at look {at} of {looks}"
    before = at - 1

    def charged(*given: object, **more: object) -> object:
        """From here on, whatever was known before: what one charge leaves spares the next statement some looks."""
        nonlocal looks, at
        receipt = original_charge(*given, **more)  # type: ignore[arg-type]
        looks, at = 0, stays + 1
        return receipt

    original_charge, stays, interrupted = Ledger.charge, 0, True
    monkeypatch.setattr(Ledger, "charge", charged)
    while interrupted:
        at, known = 0, charges(session)
        interrupted = ended(session, asked(10_001 + stays))
        assert charges(session) > known
        stays += interrupted
    print(f"{before} looks at the cancellation value, {stays} of them after the charge")  # noqa: T201
    assert 5 < stays < before - 5


Stage = tuple[object, str]
STAGES: list[Stage] = [
    (dpsql.session.answer, "parse"),
    (dpsql.session.answer, "resolve"),
    (dpsql.session.answer, "bound"),
    (Guarding, "judge"),
    (dpsql.session.answer, "calibrate"),
    (Sandbox, "describe"),
    (Stored, "look_up"),
    (Guarding, "compare"),
    (Sandbox, "table"),
    (Ledger, "charge"),
    (DuckDBEngine, "exact"),
    (dpsql.engines.duckdb.engine, "ask"),
    (dpsql.engines.duckdb.engine, "load_beside"),
    (dpsql.release.buying, "release"),
    (Answers, "put"),
    (Sandbox, "load"),
    (Sandbox, "run"),
    (dpsql.postprocess.sandbox, "one_select"),
]


@pytest.mark.few(1)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stage", STAGES, ids=lambda s: f"{getattr(s[0], '__name__', s[0]).split('.')[-1]}.{s[1]}")
def test_rule_50_an_interrupt_at_every_stage(
    session: Session, monkeypatch: pytest.MonkeyPatch, stage: Stage, when: str
) -> None:
    place, name = stage
    original: Callable[..., object] = getattr(place, name)

    def interrupting(*args: object, **named: object) -> object:
        if when == "before":
            session.interrupt()
        try:
            return original(*args, **named)
        finally:
            session.interrupt()

    with monkeypatch.context() as patched:
        patched.setattr(place, name, interrupting)
        assert ended(session, asked(1))
    assert not ended(session, asked(2))


@pytest.mark.few(1)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "stage",
    [s for s in STAGES if s[1] not in ("put", "load", "load_beside", "one_select", "ask", "table")],
    ids=lambda s: s[1],
)
def test_rule_50_a_program_whose_own_handler_raises(
    session: Session, monkeypatch: pytest.MonkeyPatch, stage: Stage, when: str
) -> None:
    """KeyboardInterrupt from inside any stage is 703 all the same, and says the truth about the charge."""
    place, name = stage
    original: Callable[..., object] = getattr(place, name)

    def raising(*args: object, **named: object) -> object:
        if when == "after":
            original(*args, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(place, name, raising)
        assert ended(session, asked(1))
    assert not ended(session, asked(2))


@pytest.mark.slow
def test_rule_50_an_interrupt_that_comes_before_the_engine_runs(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB forgets it: it has to be sent again while the statement runs."""
    original = dpsql.engines.duckdb.engine.ask

    def slow(connection: object, sql: str, *rest: object) -> object:
        session.interrupt()
        return original(connection, SLOW, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(dpsql.engines.duckdb.engine, "ask", slow)
    begun = time.monotonic()
    for number in range(7):
        assert ended(session, asked(number))
    assert time.monotonic() - begun < 30
    assert charges(session) == 7


def test_rule_50_an_interrupt_between_statements_ends_none(session: Session) -> None:
    session.interrupt()
    assert not ended(session, asked(1))
    session.interrupt()
    assert not ended(session, asked(2))


def test_rule_50_a_waiter_is_interrupted_and_pays_nothing(session: Session) -> None:
    """Planned: see also the tests of rule 40."""
    done = threading.Event()

    def interrupting() -> None:
        while not done.wait(0.05):
            session.interrupt()

    thread = threading.Thread(target=interrupting)
    thread.start()
    try:
        free = "SELECT COUNT(*) FROM (VALUES " + ", ".join(f"({i})" for i in range(100)) + ") AS t0(x)"
        free += "".join(
            f", (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)) AS t{i + 1}(x)" for i in range(12)
        )
        assert ended(session, free)
    finally:
        done.set()
        thread.join()


def test_rule_50_a_planted_value_that_nobody_looks_at_is_caught(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cancellation, "problem", lambda statement: None)
    original = DuckDBEngine.exact

    def interrupting(*args: object, **named: object) -> object:
        session.interrupt()
        return original(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(DuckDBEngine, "exact", interrupting)
    assert not ended(session, asked(1))


SIGNALS = """
import json, os, random, signal, sys, threading, time, traceback
from pathlib import Path
from dpsql.session.opening import open_session
from dpsql.core.errors import Error
from tests.attacks.test_rule_50_interrupts import charges, few
session = open_session(Path(sys.argv[1]), None, Path(sys.argv[2]))
drawn = random.Random(int(sys.argv[3]))
found = {"answered": 0, "stays": 0, "free": 0, "bare": 0, "wrong": []}
begun = time.perf_counter()
for number in (1000, 1001, 1002):
    session.execute(few(number))
took = (time.perf_counter() - begun) / 3
for number in range(1, int(sys.argv[4]) + 1):
    before, sent = charges(session), threading.Event()

    def later(pause):
        time.sleep(pause)
        os.kill(os.getpid(), signal.SIGINT)
        sent.set()

    inside = None
    thread = threading.Thread(target=later, args=(drawn.uniform(0, took),))
    try:
        thread.start()
        try:
            session.execute(few(number))
            inside = "answered"
        except Error as problem:
            inside = {"DPSQL-703: interrupted; the charge stands": "stays", "DPSQL-703: interrupted; nothing was charged": "free"}.get(
                str(problem), str(problem)
            )
        sent.wait()
        time.sleep(0.002)
    except KeyboardInterrupt as problem:
        if inside is None:
            places = [f.filename for f in traceback.extract_tb(problem.__traceback__)]
            inside = "bare" if any("dpsql" + os.sep in place for place in places) else "answered"
            if inside == "answered":
                continue
    thread.join()
    if inside not in found:
        found["wrong"].append(inside)
        continue
    found[inside] += 1
    if inside in ("stays", "free") and (inside == "stays") != (charges(session) > before):
        found["wrong"].append(f"{inside}, but {charges(session) - before} charges")
found["charges"] = session._world.ledger.verify()
print(json.dumps(found))
session.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_rule_50_real_signals_at_random_moments(session: Session, tmp_path: Path) -> None:
    """200 times Ctrl-C in a statement: answered because it came too late, or 703 that tells the truth. Nothing else."""
    session.close()
    command = [sys.executable, "-c", SIGNALS, str(tmp_path / "unguarded.toml"), str(tmp_path / "x.ledger"), "7", "200"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    found = json.loads(process.stdout)
    print(found)  # noqa: T201
    assert found["wrong"] == []
    assert found["bare"] <= 2, "only between the last line of a statement and its caller"
    assert found["stays"] > 0 and found["free"] > 0, "both happen; how often depends on the load of the machine"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
