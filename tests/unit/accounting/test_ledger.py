"""Charges: decided exactly, written or refused without a trace."""

from __future__ import annotations

import json
import sqlite3
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting import Ledger
from dpsql.errors import BudgetError, IntegrityError, InterfaceError, InternalError
from dpsql.loss import NO_LOSS, PrivacyLoss, total
from dpsql.plan import Budget, ChargeRequest, Receipt

Asks = Callable[..., ChargeRequest]
PRICES = st.sampled_from([Fraction(n, d) for d in (1, 2, 3, 7, 10, 100, 10**9) for n in (1, 2, 5)])


def budget(epsilon: str, delta: str = "0", analyst: str | None = None, analyst_delta: str | None = None) -> Budget:
    return Budget(
        PrivacyLoss(Fraction(epsilon), Fraction(delta)),
        None if analyst is None else Fraction(analyst),
        None if analyst_delta is None else Fraction(analyst_delta),
    )


def loss(epsilon: str, delta: str = "0") -> PrivacyLoss:
    return PrivacyLoss(Fraction(epsilon), Fraction(delta))


@pytest.mark.parametrize(
    ("price", "times", "allowed"),
    [("0.1", 10, "1"), ("1/3", 3, "1"), ("1/7", 7, "1"), ("0.7", 10, "7"), ("1/1000000007", 5, "5/1000000007")],
)
def test_prices_add_up_exactly(ledger: Ledger, asks: Asks, price: str, times: int, allowed: str) -> None:
    receipts = [ledger.charge(asks(price), budget(allowed)) for _ in range(times)]
    assert receipts[-1] == Receipt(times, loss(price), NO_LOSS)
    with pytest.raises(BudgetError):
        ledger.charge(asks("1/1000000000000000000"), budget(allowed))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(PRICES, st.sampled_from(["ann", "bob"])), max_size=12))
def test_order_does_not_matter(charges: list[tuple[Fraction, str]]) -> None:
    spent = []
    for order in (charges, sorted(charges), charges[::-1]):
        ledger = Ledger.open(":memory:", "example")
        for price, analyst in order:
            ledger.charge(ChargeRequest(analyst, "v", "s", (), (), PrivacyLoss(price, Fraction(0))), budget("1000"))
        spent.append((ledger.spent(), ledger.spent("ann"), ledger.spent("bob")))
        ledger.close()
    assert spent[0] == spent[1] == spent[2]
    assert spent[0][0] == total(PrivacyLoss(price, Fraction(0)) for price, _ in charges)
    assert spent[0][1] + spent[0][2] == spent[0][0]


@settings(max_examples=30, deadline=None)
@given(PRICES, st.integers(1, 15), st.fractions(0, 5, max_denominator=1000))
def test_n_charges_cost_n_times_one(price: Fraction, count: int, allowed: Fraction) -> None:
    ledger = Ledger.open(":memory:", "example")
    granted = 0
    for _ in range(count):
        try:
            ledger.charge(
                ChargeRequest("a", "v", "s", (), (), PrivacyLoss(price, Fraction(0))),
                Budget(PrivacyLoss(allowed, Fraction(0))),
            )
            granted += 1
        except BudgetError:
            pass
    assert granted == min(count, allowed // price)
    assert ledger.spent().epsilon == granted * price <= max(allowed, Fraction(0))
    ledger.close()


def test_a_refused_charge_leaves_no_trace(ledger: Ledger, asks: Asks, path: Path) -> None:
    ledger.charge(asks("0.7"), budget("1"))
    before = dump(path)
    for request in (asks("0.5"), asks("0.5", analyst="other"), asks("0.1", "1e-9")):
        with pytest.raises(BudgetError):
            ledger.charge(request, budget("1"))
    assert dump(path) == before
    assert ledger.charge(asks("0.3"), budget("1")).id == 2


def dump(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    lines = list(connection.iterdump())
    connection.close()
    return lines


@pytest.mark.parametrize(
    ("allowed", "request_", "message"),
    [
        (
            budget("1", "1e-6"),
            ("0.5",),
            "DPSQL-501: this costs epsilon 0.5, 0.3 is left of the dataset's total 1; epsilon=0.3 would fit",
        ),
        (
            budget("3", "1e-6", analyst="0.9"),
            ("0.5",),
            "DPSQL-501: this costs epsilon 0.5, 0.2 is left of the cap of analyst 'default' 0.9; epsilon=0.2 would fit",
        ),
        (
            budget("1", "1e-6", analyst="0.9"),
            ("0.4", "0", "other"),
            "DPSQL-501: this costs epsilon 0.4, 0.3 is left of the dataset's total 1; epsilon=0.3 would fit",
        ),
        (
            budget("0.7", "1e-6"),
            ("1/3",),
            "DPSQL-501: this costs epsilon 0.333334, 0 is left of the dataset's total 0.7; "
            "nothing more fits until the owner raises it",
        ),
        (
            budget("0.1", "1e-6"),
            ("0.5",),
            "DPSQL-501: this costs epsilon 0.5, 0 is left of the dataset's total 0.1; "
            "nothing more fits until the owner raises it",
        ),
        (
            budget("1", "3e-9"),
            ("0.1", "5e-9"),
            "DPSQL-501: this costs delta 5e-9, 2e-9 is left of the dataset's total 3e-9; delta=2e-9 would fit",
        ),
        (
            budget("1", "1e-9"),
            ("0.1", "5e-9"),
            "DPSQL-501: this costs delta 5e-9, 0 is left of the dataset's total 1e-9; "
            "a statement whose delta is 0 would fit",
        ),
        (
            budget("1", "3e-9"),
            ("0.5", "5e-9"),
            "DPSQL-501: this costs epsilon 0.5, 0.3 is left of the dataset's total 1 "
            "and delta 5e-9, 2e-9 is left of the dataset's total 3e-9; epsilon=0.3, delta=2e-9 would fit",
        ),
        (
            budget("1", "1e-6", analyst_delta="1e-9"),
            ("0.1", "5e-9"),
            "DPSQL-501: this costs delta 5e-9, 0 is left of the cap of analyst 'default' 1e-9; "
            "a statement whose delta is 0 would fit",
        ),
    ],
)
def test_a_refusal_says_what_is_left_and_what_fits(
    ledger: Ledger, asks: Asks, allowed: Budget, request_: tuple[str, ...], message: str
) -> None:
    ledger.charge(asks("0.7", "1e-9"), budget("1", "1e-6"))
    with pytest.raises(BudgetError) as caught:
        ledger.charge(asks(*request_), allowed)
    assert str(caught.value) == message
    assert caught.value.__context__ is None and caught.value.__cause__ is None


@settings(max_examples=50, deadline=None)
@given(st.fractions(0, 1, max_denominator=10**9), st.fractions(0, 1, max_denominator=10**9))
def test_what_a_refusal_suggests_fits(first: Fraction, allowed: Fraction) -> None:
    ledger = Ledger.open(":memory:", "example")
    total_of = Budget(PrivacyLoss(max(first, allowed), Fraction(0)))
    if first:
        ledger.charge(ChargeRequest("a", "v", "s", (), (), PrivacyLoss(first, Fraction(0))), total_of)
    with pytest.raises(BudgetError) as caught:
        ledger.charge(ChargeRequest("a", "v", "s", (), (), loss("2")), total_of)
    hint = caught.value.hint or ""
    if hint.startswith("epsilon="):
        suggested = hint.removeprefix("epsilon=").removesuffix(" would fit")
        ledger.charge(ChargeRequest("a", "v", "s", (), (), loss(suggested)), total_of)
    else:
        assert ledger.remaining(total_of, "a").epsilon == 0
    ledger.close()


def test_an_analysts_cap_and_the_total_both_bind(ledger: Ledger, asks: Asks) -> None:
    allowed = budget("1", "1e-6", analyst="0.6", analyst_delta="1e-7")
    assert ledger.charge(asks("0.6", "1e-7", "ann"), allowed).remaining == NO_LOSS
    assert ledger.remaining(allowed, "bob") == loss("0.4", "1e-7")
    assert ledger.charge(asks("0.4", analyst="bob"), allowed).remaining == loss("0", "1e-7")
    assert (ledger.spent("ann"), ledger.spent("bob")) == (loss("0.6", "1e-7"), loss("0.4"))
    assert ledger.spent() == loss("1", "1e-7")
    assert ledger.spent("nobody") == NO_LOSS


def test_remaining_is_never_below_zero(ledger: Ledger, asks: Asks) -> None:
    ledger.charge(asks("1", "1e-6"), budget("1", "1e-6"))
    assert ledger.remaining(budget("0.5", "1e-9"), "default") == NO_LOSS
    assert ledger.remaining(budget("2", "1e-3", analyst="0.5"), "default") == loss("0", "0.000999")
    with pytest.raises(BudgetError):
        ledger.charge(asks("0.1"), budget("2", "1e-9"))


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_that_are_none_cannot_become_a_loss(value: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        PrivacyLoss(Fraction(float(value)), Fraction(0))


def test_negative_losses_cannot_be_made() -> None:
    for epsilon, delta in (("-0.1", "0"), ("0.1", "-1e-9"), ("0.1", "1")):
        with pytest.raises(ValueError):
            loss(epsilon, delta)


def test_huge_prices_are_refused_like_any(ledger: Ledger, asks: Asks) -> None:
    with pytest.raises(BudgetError, match=r"epsilon 1e\+308, 1 is left"):
        ledger.charge(asks("1e308"), budget("1"))
    with pytest.raises(BudgetError, match=r"epsilon 1e\+5000, 1 is left"):
        ledger.charge(asks("1e5000"), budget("1"))
    with pytest.raises(BudgetError, match=r"delta 0\.9, 0\.5 is left"):
        ledger.charge(asks("0.1", "0.9"), budget("1", "0.5"))
    assert ledger.spent() == NO_LOSS


def test_endless_decimals_are_charged_rounded_up(ledger: Ledger, asks: Asks) -> None:
    ledger.charge(asks(Fraction(1, 10) + Fraction(1, 10**6000)), budget("1"))
    assert Fraction(1, 10) < ledger.spent().epsilon < Fraction(1, 10) + Fraction(1, 10**100)
    assert len(ledger.history()) == 1


def test_a_charge_of_nothing_is_a_fault(ledger: Ledger, asks: Asks) -> None:
    with pytest.raises(InternalError) as caught:
        ledger.charge(asks("0"), budget("1"))
    assert str(caught.value) == "DPSQL-901: a charge of nothing reached the ledger"
    assert ledger.charge(asks("0", "1e-9"), budget("1", "1e-6")).id == 1


def test_history_lists_every_charge(ledger: Ledger, asks: Asks) -> None:
    ledger.charge(asks("0.1", "1e-9", "ann", "SELECT 1"), budget("1", "1e-6"))
    ledger.charge(asks("1/3", "0", "bob", "SELECT 'naïve'"), budget("1", "1e-6"))
    first, second = ledger.history()
    assert (first.id, first.analyst, first.epsilon, first.delta) == (1, "ann", Fraction(1, 10), Fraction(1, 10**9))
    assert (second.id, second.statement, second.epsilon) == (2, "SELECT 'naïve'", Fraction(1, 3))
    assert first.time <= second.time and first.time.endswith("+00:00")
    assert ledger.history("bob") == [second]
    assert ledger.history("nobody") == []


def test_a_charge_row_keeps_what_later_accounting_needs(ledger: Ledger, asks: Asks, path: Path) -> None:
    ledger.charge(asks("0.1"), budget("1"))
    connection = sqlite3.connect(path)
    ((version, fingerprints, mechanisms),) = connection.execute("SELECT version, fingerprints, mechanisms FROM charge")
    connection.close()
    assert version == "version"
    assert (json.loads(fingerprints), json.loads(mechanisms)) == (["fingerprint"], ["laplace scale=10"])


@pytest.mark.parametrize("text", ["a\x00b", "half \ud800", "😀", "'; DROP TABLE charge --", ""])
def test_any_text_can_be_charged(ledger: Ledger, asks: Asks, text: str) -> None:
    ledger.charge(asks("0.1", "0", text, text), budget("1"))
    assert ledger.spent(text) == loss("0.1")
    assert [entry.analyst for entry in ledger.history(text)] == [text.encode("utf-8", "backslashreplace").decode()]


def test_the_ledger_outlives_its_connection(ledger: Ledger, asks: Asks, path: Path) -> None:
    ledger.charge(asks("0.7"), budget("1"))
    secret = ledger.secret
    ledger.close()
    again = Ledger.open(str(path), "example")
    assert again.spent() == loss("0.7") and again.secret == secret and len(secret) == 32
    again.close()


def test_secrets_differ() -> None:
    assert Ledger.open(":memory:", "a").secret != Ledger.open(":memory:", "a").secret


def test_a_closed_ledger_is_refused(ledger: Ledger, asks: Asks) -> None:
    ledger.close()
    ledger.close()
    with pytest.raises(InterfaceError, match="DPSQL-802: the ledger is closed"):
        ledger.charge(asks("0.1"), budget("1"))


def test_a_charge_is_one_transaction_that_locks_first(ledger: Ledger, asks: Asks) -> None:
    seen: list[str] = []
    ledger.store.read(lambda connection: connection.set_trace_callback(seen.append))
    ledger.charge(asks("0.1"), budget("1"))
    ledger.store.read(lambda connection: connection.set_trace_callback(None))
    words = [statement.split()[0] for statement in seen]
    assert seen[0] == "BEGIN IMMEDIATE"
    assert words == ["BEGIN", "SELECT", "INSERT", "INSERT", "INSERT", "COMMIT"]


def test_a_ledger_that_changes_under_a_connection_is_noticed(ledger: Ledger, asks: Asks, path: Path) -> None:
    ledger.charge(asks("0.1"), budget("1"))
    ledger.store.write(lambda connection: connection.execute("UPDATE total SET charges = 0"))
    with pytest.raises(IntegrityError) as caught:
        ledger.charge(asks("0.1"), budget("1"))
    assert str(caught.value) == f"DPSQL-705: the ledger {path} is damaged; restore its newest backup"
    assert len(ledger.history()) == 1


def test_an_interrupted_charge_is_rolled_back(ledger: Ledger, asks: Asks, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "_append", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ledger.charge(asks("0.1"), budget("1"))
    assert ledger.spent() == NO_LOSS
    assert ledger.charge(asks("0.1"), budget("1")).id == 1


def test_a_charge_takes_as_long_in_a_long_ledger(ledger: Ledger, asks: Asks) -> None:
    """Counts SQLite's own steps, so that it does not depend on the machine."""
    allowed = budget("1000000")

    def steps() -> int:
        counted = 0

        def count() -> int:
            nonlocal counted
            counted += 1
            return 0

        ledger.store.read(lambda connection: connection.set_progress_handler(count, 1))
        ledger.charge(asks("0.1"), allowed)
        ledger.store.read(lambda connection: connection.set_progress_handler(None, 1))
        return counted

    ledger.charge(asks("0.1"), allowed)
    short = steps()
    ledger.store.write(
        lambda connection: connection.executescript(
            """BEGIN;
            WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
            INSERT INTO charge SELECT i, 't', 'default', 'v', 's', '[]', '[]', '1/10', '0' FROM n;
            UPDATE total SET charges = 20000;"""
        )
    )
    assert steps() <= short + 2
    assert statistics.median(timed(lambda: ledger.charge(asks("0.1"), allowed)) for _ in range(20)) < 1


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
