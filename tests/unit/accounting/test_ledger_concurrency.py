"""Many threads, many processes, forks and sudden ends."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting import Ledger, reckoning, store
from dpsql.accounting.chain import Head
from dpsql.core.errors import BudgetError, InterfaceError, OperationalError
from dpsql.core.loss import EpsilonDelta
from dpsql.plan.charges import Budget, ChargeRequest

Asks = Callable[..., ChargeRequest]
Script = Callable[[str], list[str]]


def budget(epsilon: str) -> Budget:
    return Budget(EpsilonDelta(Fraction(epsilon), Fraction(0)))


@pytest.mark.slow
def test_processes_share_one_budget(path: Path, script: Script) -> None:
    """8 processes x 40 charges against a budget for 71, each opening (one of them making) the ledger itself."""
    body = f"""
granted = 0
sys.stdin.readline()
ledger = Ledger.open({str(path)!r}, "example")
for _ in range(40):
    try:
        ledger.charge(REQUEST, budget(71))
        granted += 1
    except Error as caught:
        assert caught.code == "DPSQL-501", caught
print(granted)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    workers = [subprocess.Popen(script(body), text=True, **pipes) for _ in range(8)]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    said = [worker.communicate(timeout=120) for worker in workers]
    assert [errors for _, errors in said] == [""] * 8
    assert sum(int(granted) for granted, _ in said) == 71
    ledger = Ledger.open(path, "example")
    assert ledger.spent().epsilon == Fraction(71, 100)
    assert [entry.id for entry in ledger.history()] == list(range(1, 72))
    assert [file.name for file in path.parent.iterdir() if file.name.startswith(".ledger-")] == []


def test_a_ledger_is_read_at_one_moment_when_it_is_opened(
    ledger: Ledger, asks: Asks, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process charges between any two statements of opening: nobody is told of damage that is none."""
    ledger.charge(asks("0.1"), budget("1000"))
    monkeypatch.setattr(store, "TIMEOUT_SECONDS", 0.05)
    connect, charges = store._new_connection, 0

    def charging(text: str) -> None:
        nonlocal charges
        if text.startswith("SELECT"):
            with contextlib.suppress(OperationalError):  # where opening holds the lock, it fails here
                charges += ledger.charge(asks("0.1"), budget("1000")) is not None

    def traced(file: Path | None) -> sqlite3.Connection:
        connection = connect(file)
        connection.set_trace_callback(charging)
        return connection

    monkeypatch.setattr(store, "_new_connection", traced)
    again = Ledger.open(path, "example")
    again.store.read(lambda connection: connection.set_trace_callback(None))
    assert again.verify() == charges + 1 == len(again.history())
    again.close()


def test_a_charge_while_a_ledger_is_opened_is_no_newer_head_than_it_has(
    ledger: Ledger, asks: Asks, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the head is looked at, somebody may just have charged."""
    head, charging = reckoning.remembered, list[bool]()

    def remembered(file: Path | None) -> Head:
        if not charging:
            charging.append(True)
            ledger.charge(asks("0.01"), budget("1"))
            charging.clear()
        return head(file)

    ledger.charge(asks("0.01"), budget("1"))
    monkeypatch.setattr(reckoning, "remembered", remembered)
    with contextlib.closing(Ledger.open(path, "example")) as opened:
        assert len(opened.history()) == 2


def test_threads_share_one_connection(ledger: Ledger, asks: Asks) -> None:
    outcomes: Counter[str] = Counter()
    lock = threading.Lock()

    def work(name: str) -> None:
        for _ in range(20):
            try:
                ledger.charge(asks("1/10", analyst=name), budget("7.1"))
                outcome = "granted"
            except BudgetError:
                outcome = "refused"
            with lock:
                outcomes[outcome] += 1

    threads = [threading.Thread(target=work, args=(f"analyst {number % 3}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {"granted": 71, "refused": 89}
    assert (
        sum((ledger.spent(f"analyst {n}").epsilon for n in range(3)), Fraction(0))
        == ledger.spent().epsilon
        == Fraction("7.1")
    )


def test_two_ledgers_on_one_file_in_one_process(ledger: Ledger, asks: Asks, path: Path) -> None:
    other = Ledger.open(path, "example")
    ledger.charge(asks("0.6"), budget("1"))
    with pytest.raises(BudgetError):
        other.charge(asks("0.6"), budget("1"))
    other.charge(asks("0.4"), budget("1"))
    other.close()
    assert ledger.spent().epsilon == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_shares_the_budget(ledger: Ledger, asks: Asks) -> None:
    """Parent and child go on with the same object; the child ends first, then the parent reads what it charged."""
    ledger.charge(asks("0.1"), budget("1"))
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if ledger.charge(asks("0.2"), budget("1")).id == 2 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ledger.spent().epsilon == Fraction("0.3")
    assert ledger.charge(asks("0.7"), budget("1")).id == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_the_log_outlives_the_parent(ledger: Ledger, asks: Asks, path: Path) -> None:
    """With inherited locks that it does not hold, a child would lose its charges when the parent closes."""
    ledger.charge(asks("0.1"), budget("1"))
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(asks("0.2"), budget("1"))
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            ledger.charge(asks("0.3"), budget("1"))
        finally:
            os._exit(0)
    os.read(ready[0], 1)
    ledger.charge(asks("0.1"), budget("1"))
    ledger.close()
    os.write(go[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for end in (*ready, *go):
        os.close(end)
    again = Ledger.open(path, "example")
    assert [entry.loss.epsilon for entry in again.history()] == [Fraction(n, 10) for n in (1, 2, 1, 3)]
    again.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_while_threads_charge(ledger: Ledger, asks: Asks) -> None:
    """The log must outlive whichever process closes first: children and threads charge at once, and nothing is lost."""
    done = threading.Event()
    granted = []

    def work() -> None:
        while not done.is_set():
            granted.append(ledger.charge(asks("1/1000"), budget("1000")).id)

    thread = threading.Thread(target=work)
    thread.start()
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            try:
                for _ in range(10):
                    ledger.charge(asks("1/1000"), budget("1000"))
                os._exit(0)
            except BaseException:
                os._exit(1)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    done.set()
    thread.join()
    assert codes == [0] * 8
    assert len(ledger.history()) == len(granted) + 80
    assert ledger.spent().epsilon == Fraction(len(granted) + 80, 1000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_ledger_in_memory_does_not_follow_a_fork(asks: Asks) -> None:
    """Two copies of it would each allow the whole budget."""
    ledger = Ledger.open(":memory:", "example")
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(asks("0.1"), budget("1"))
        except InterfaceError as caught:
            os._exit(0 if caught.code == "DPSQL-802" else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ledger.charge(asks("0.1"), budget("1")).id == 1


@pytest.mark.slow
def test_what_was_reported_survives_a_kill(path: Path, script: Script) -> None:
    """12 kills at random moments of charging and storing: what was reported is charged, and the file opens again."""
    body = f"""
from dpsql.accounting import Answers
from dpsql.plan.tables import NoisyTable
ledger = Ledger.open({str(path)!r}, "example")
answers = Answers(ledger)
while True:
    receipt = ledger.charge(REQUEST, budget(10**9))
    answers.put(receipt.id, str(receipt.id), NoisyTable((["a", "b"] * 500,), ([receipt.id] * 1000,), 1000))
    print(receipt.id, flush=True)
"""
    moments = random.Random(7)
    for _ in range(12):
        worker = subprocess.Popen(script(body), stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        reported = int(worker.stdout.readline())
        time.sleep(moments.uniform(0, 0.05))
        worker.send_signal(signal.SIGKILL)
        rest = worker.stdout.read().split()
        reported = max([reported, *map(int, rest[:-1])])
        worker.wait()
        worker.stdout.close()
        ledger = Ledger.open(path, "example")
        charges = len(ledger.history())
        assert charges >= reported
        assert ledger.spent().epsilon == Fraction(charges, 100)
        ledger.close()
