"""Failures that the owner has to look at, and the switch to guarded printing: durable, shared by processes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting import Ledger
from dpsql.accounting.failures import KINDS
from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.plan.charges import Budget, ChargeRequest

Asks = Callable[..., ChargeRequest]
BUDGET = Budget(EpsilonDelta(Fraction(100), Fraction(1, 1000)))


def test_a_switch_is_thrown_once_and_for_good(ledger: Ledger, path: Path) -> None:
    other = Ledger.open(path, "example")
    assert not ledger.guarded and not other.guarded
    ledger.guard()
    assert ledger.guarded and other.guarded
    times = ledger.store.read(lambda connection: connection.execute("SELECT * FROM switch").fetchall())
    other.guard()
    ledger.close()
    other.close()
    again = Ledger.open(path, "example")
    assert again.guarded and again.verify() == 0
    assert again.store.read(lambda connection: connection.execute("SELECT * FROM switch").fetchall()) == times
    again.close()


def test_failures_are_kept_with_their_statement(ledger: Ledger, asks: Asks, path: Path) -> None:
    for analyst in ("alice", "bob", "alice"):
        receipt = ledger.charge(asks("0.1", analyst=analyst, statement=f"SELECT {analyst}"), BUDGET)
        assert receipt is not None and receipt.id is not None
        ledger.failed(receipt.id, analyst, "engine")
    ledger.close()
    again = Ledger.open(path, "example")
    found = again.failures()
    assert [(each.charge, each.analyst, each.kind, each.statement, each.cleared) for each in found] == [
        (1, "alice", "engine", "SELECT alice", None),
        (2, "bob", "engine", "SELECT bob", None),
        (3, "alice", "engine", "SELECT alice", None),
    ]
    assert [each.charge for each in again.failures("alice")] == [1, 3] and not again.failures("carol")
    again.close()


def test_what_was_seen_is_cleared_and_nothing_that_came_after(ledger: Ledger, asks: Asks) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    for kind in KINDS:
        ledger.failed(1, "default", kind)
    seen = ledger.failures()
    ledger.failed(1, "default", "engine")
    ledger.clear_failures(seen[-1].id)
    assert [each.cleared is None for each in ledger.failures()] == [False] * len(KINDS) + [True]
    first = ledger.failures()[0].cleared
    ledger.clear_failures(99)
    assert ledger.failures()[0].cleared == first and ledger.failures()[-1].cleared is not None


@pytest.mark.parametrize("charge", [0, 2, -1])
def test_a_failure_belongs_to_a_charge(ledger: Ledger, asks: Asks, charge: int) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    with pytest.raises(Error, match="DPSQL-901"):
        ledger.failed(charge, "default", "engine")


def test_a_failure_is_of_a_known_kind(ledger: Ledger, asks: Asks) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    with pytest.raises(Error, match="DPSQL-901"):
        ledger.failed(1, "default", "value 17 is too large")
    assert not ledger.failures()
