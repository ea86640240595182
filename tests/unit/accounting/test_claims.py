"""Two who ask for the same: the second waits for the first one's answer, and pays where the first one is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting import Answers, Ledger, claims, layout
from dpsql.core.errors import BudgetError
from dpsql.core.loss import EpsilonDelta
from dpsql.plan.charges import Budget, ChargeRequest
from dpsql.plan.tables import NoisyTable

Asks = Callable[..., ChargeRequest]
Script = Callable[[str], list[str]]
BUDGET = Budget(EpsilonDelta(Fraction(100), Fraction(0)))
TABLE = NoisyTable((), ([1],), 1)


def test_the_second_waits_until_the_first_lets_go(ledger: Ledger, asks: Asks) -> None:
    first, second = claims.new_holder(), claims.new_holder()
    with claims.released(first):
        assert ledger.charge(asks("0.1"), BUDGET, first) is not None
        assert ledger.charge(asks("0.1"), BUDGET, second) is None
        assert ledger.charge(asks("0.1", fingerprint="another"), BUDGET, second) is not None
    assert len(ledger.history()) == 2
    receipt = ledger.charge(asks("0.1"), BUDGET, second)  # the first one failed: nothing is stored
    assert receipt is not None and receipt.id == 3


def test_a_claim_is_let_go_whatever_happens(ledger: Ledger, asks: Asks) -> None:
    first = claims.new_holder()
    with pytest.raises(ZeroDivisionError), claims.released(first):
        ledger.charge(asks("0.1"), BUDGET, first)
        raise ZeroDivisionError
    assert ledger.charge(asks("0.1"), BUDGET, claims.new_holder()) is not None


def test_a_claim_that_is_dropped_in_the_ledger(ledger: Ledger, asks: Asks) -> None:
    first, second = claims.new_holder(), claims.new_holder()
    ledger.charge(asks("0.1"), BUDGET, first)
    ledger.drop(second)
    assert ledger.charge(asks("0.1"), BUDGET, second) is None
    ledger.drop(first)
    assert ledger.charge(asks("0.1"), BUDGET, second) is not None


def test_a_stored_answer_is_not_charged_again(ledger: Ledger, asks: Asks) -> None:
    first, second = claims.new_holder(), claims.new_holder()
    with claims.released(first):
        ledger.charge(asks("0.1"), BUDGET, first)
        Answers(ledger).put(1, "fingerprint", TABLE)
        assert ledger.charge(asks("0.1"), BUDGET, second) is None  # it is stored, and given for nothing
        fresh = ledger.charge(asks("0.1", fresh=True), BUDGET, second)
        assert fresh is not None and fresh.id == 2
        assert ledger.charge(asks("0.1", fresh=True), BUDGET, first) is None  # two who ask anew take turns too
    # without a holder nobody waits
    receipt = ledger.charge(asks("0.1"), BUDGET)
    assert receipt is not None and receipt.id == 3


def test_a_refused_charge_claims_nothing(ledger: Ledger, asks: Asks) -> None:
    with pytest.raises(BudgetError):
        ledger.charge(asks("101"), BUDGET, claims.new_holder())
    assert ledger.charge(asks("0.1"), BUDGET, claims.new_holder()) is not None


def test_nobody_holds_a_claim_for_ever(ledger: Ledger, asks: Asks) -> None:
    """Not a process that was stopped, nor a thread of this one that hangs."""
    first = claims.new_holder()
    assert ledger.charge(asks("0.1"), BUDGET, first, seconds=0.2) is not None and ledger.holds(first)
    second = claims.new_holder()
    assert ledger.charge(asks("0.1"), BUDGET, second) is None and ledger.is_claimed(["fingerprint"])
    assert not ledger.holds(second)
    time.sleep(0.3)
    assert not ledger.is_claimed(["fingerprint"])
    assert ledger.charge(asks("0.1"), BUDGET, second, seconds=1e300) is not None
    assert ledger.holds(second) and not ledger.holds(first)


def test_holders_differ() -> None:
    assert len({claims.new_holder() for _ in range(100)}) == 100


@pytest.mark.parametrize("holder", ["", "x", "1", "-1 - x", "99999999999999999999 5 x", "{pid} 0 x"])
def test_a_holder_that_nobody_is_holds_nothing(ledger: Ledger, asks: Asks, holder: str) -> None:
    named = holder.format(pid=os.getpid())
    ledger.store.write(lambda connection: claims.take(connection, ["fingerprint"], named, layout.now()))
    assert ledger.charge(asks("0.1"), BUDGET, claims.new_holder()) is not None


HOLDING = """
from dpsql.accounting import claims
ledger = Ledger.open(sys.argv[1], "example")
ledger.charge(REQUEST, budget(1000), claims.new_holder())
print("charged", flush=True)
sys.stdin.readline()
"""


def test_a_claim_ends_with_its_process(path: Path, asks: Asks, script: Script) -> None:
    """While another process lives, its answer is waited for; killed, it holds nothing, and its charge stays."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    worker = subprocess.Popen([*script(HOLDING), str(path)], text=True, **pipes)
    assert worker.stdin is not None and worker.stdout is not None
    assert worker.stdout.readline() == "charged\n"
    ledger = Ledger.open(path, "example")
    for _ in range(3):
        assert ledger.charge(asks("0.01", fingerprint="f"), BUDGET, claims.new_holder()) is None
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdin.close()
    worker.stdout.close()
    receipt = ledger.charge(asks("0.01", fingerprint="f"), BUDGET, claims.new_holder())
    assert receipt is not None and receipt.id == 2
    assert ledger.verify() == 2 and ledger.spent().epsilon == Fraction(2, 100)
    ledger.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_that_was_killed_and_not_waited_for_holds_nothing(ledger: Ledger, asks: Asks) -> None:
    """Its number stays taken until its parent asks for it, who may be the one that waits here."""
    ready = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(asks("0.1"), BUDGET, claims.new_holder())
            os.write(ready[1], b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.read(ready[0], 1)
    assert ledger.charge(asks("0.1"), BUDGET, claims.new_holder()) is None
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        assert ledger.charge(asks("0.1"), BUDGET, claims.new_holder()) is not None
    finally:
        os.waitpid(child, 0)
        for end in ready:
            os.close(end)


def test_threads_that_ask_for_the_same_make_one_charge(ledger: Ledger, asks: Asks) -> None:
    """Each asks until it is charged or finds the answer: one pays, all get what it stored."""
    answers, found, charged = Answers(ledger), [], []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        holder = claims.new_holder()
        start.wait()
        with claims.released(holder):
            while (stored := answers.get("fingerprint")) is None:
                receipt = ledger.charge(asks("0.1"), BUDGET, holder)
                if receipt is not None and receipt.id is not None:
                    charged.append(receipt.id)
                    stored = answers.put(receipt.id, "fingerprint", NoisyTable((), ([number],), 1))
                    break
        found.append(stored)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert charged == [1] and len(ledger.history()) == 1
    assert len(found) == 8 and all(one == found[0] for one in found)
