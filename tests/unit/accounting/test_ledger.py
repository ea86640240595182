"""Charges: decided exactly, written or refused without a trace."""

from __future__ import annotations

import contextlib
import dataclasses
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

from dpsql.accounting import Ledger, chain
from dpsql.accounting.totals import spent_of, texts
from dpsql.core.errors import BudgetError, IntegrityError, InterfaceError, InternalError
from dpsql.core.loss import NO_LOSS, EpsilonDelta, PrivacyLoss, Sums, total
from dpsql.mechanisms.conversions import choice, gaussian, pure, rho_at_most
from dpsql.plan.charges import Budget, Cap, ChargeRequest, Portion
from tests.support.accounts import Adding

Asks = Callable[..., ChargeRequest]
ZERO = Fraction(0)
PRICES = st.sampled_from([Fraction(n, d) for d in (1, 2, 3, 7, 10, 100, 10**9) for n in (1, 2, 5)])


NOTHING = EpsilonDelta(Fraction(0), Fraction(0))
ACCOUNTINGS = ["sequential", "advanced", "zcdp", "gdp", "rdp", "auto"]


LOSSES = st.one_of(
    PRICES.map(pure),
    st.sampled_from([pure(Fraction(1, 10), Fraction(1, 10**7)), pure(Fraction(2), Fraction(1, 10**6))]),
    PRICES.map(choice),
    PRICES.map(lambda price: gaussian(price / 100, Fraction(1, 10**12))),
)
"""Of every kind of mechanism."""


def budget(
    epsilon: str | Fraction,
    delta: str = "0",
    analyst: str | None = None,
    analyst_delta: str | None = None,
    name: str = "default",
    accounting: str = "sequential",
) -> Budget:
    """A total, and a cap of one analyst where a part of it is given."""
    whole = amount(epsilon, delta)
    cap = Cap("analyst", name, amount(analyst or epsilon, analyst_delta or delta))
    return Budget(whole, accounting, (cap,) if analyst or analyst_delta else ())


def amount(epsilon: str | Fraction, delta: str = "0") -> EpsilonDelta:
    return EpsilonDelta(Fraction(epsilon), Fraction(delta))


def loss(epsilon: str | Fraction, delta: str = "0") -> PrivacyLoss:
    return pure(Fraction(epsilon), Fraction(delta))


def plenty(accounting: str) -> Budget:
    return budget("1e12", "0.9", accounting=accounting)


def asking(loss: PrivacyLoss, analyst: str = "a") -> ChargeRequest:
    return ChargeRequest(analyst, "v", "s", (), (), (Portion(loss),))


@pytest.mark.parametrize("accounting", ["sequential", "auto"])
@pytest.mark.parametrize(
    ("price", "times", "allowed"),
    [("0.1", 10, "1"), ("1/3", 3, "1"), ("1/7", 7, "1"), ("0.7", 10, "7"), ("1/1000000007", 5, "5/1000000007")],
)
def test_prices_add_up_exactly(
    ledger: Ledger, asks: Asks, price: str, times: int, allowed: str, accounting: str
) -> None:
    of = budget(allowed, "1e-30", accounting=accounting)
    receipts = [ledger.charge(asks(price), of) for _ in range(times)]
    assert receipts[-1] is not None and receipts[-1].id == times and receipts[-1].loss == loss(price)
    assert receipts[-1].remaining.epsilon == 0
    with pytest.raises(BudgetError):
        ledger.charge(asks("1/1000000000000000000"), of)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(LOSSES, st.sampled_from(["ann", "bob"])), max_size=10), st.sampled_from(ACCOUNTINGS))
def test_order_does_not_matter(charges: list[tuple[PrivacyLoss, str]], accounting: str) -> None:
    """The amounts spent and left, by any accounting, depend on what was charged alone."""
    found = []
    if accounting in ("sequential", "advanced"):
        charges = [(one, analyst) for one, analyst in charges if one.epsilon is not None]
    for order in (charges, sorted(charges, key=repr), charges[::-1]):
        ledger = Ledger.open(":memory:", "example")
        for one, analyst in order:
            ledger.charge(asking(one, analyst), plenty(accounting))
        left = ledger.remaining(budget("9", "1e-6", accounting=accounting), "ann")
        found.append((ledger.spent(), ledger.spent("ann"), ledger.spent("bob"), left))
        ledger.close()
    assert found[0] == found[1] == found[2]
    assert found[0][0] == total(one for one, _ in charges)
    assert found[0][1] + found[0][2] == found[0][0]


@settings(max_examples=20, deadline=None)
@given(PRICES, st.integers(1, 15), st.fractions(0, 5, max_denominator=1000))
def test_n_charges_cost_n_times_one(price: Fraction, count: int, allowed: Fraction) -> None:
    ledger = Ledger.open(":memory:", "example")
    granted = 0
    for _ in range(count):
        with contextlib.suppress(BudgetError):
            ledger.charge(asking(pure(price)), budget(allowed))
            granted += 1
    assert granted == min(count, allowed // price)
    assert ledger.spent().epsilon == granted * price <= max(allowed, Fraction(0))
    ledger.close()


@settings(max_examples=40, deadline=None)
@given(LOSSES, st.integers(1, 12), st.fractions("1/10", 5, max_denominator=100), st.sampled_from(ACCOUNTINGS))
def test_n_charges_cost_n_times_one_by_every_accounting(
    one: PrivacyLoss, count: int, allowed: Fraction, accounting: str
) -> None:
    ledger, of = Ledger.open(":memory:", "example"), budget(allowed, "1e-5", accounting=accounting)
    adding, granted = Adding(of.total, accounting), 0
    for _ in range(count):
        with contextlib.suppress(BudgetError):
            ledger.charge(asking(one), of)
            granted += 1
    assert granted == next(n for n in range(count, -1, -1) if adding.keeps.admits(adding.all([one] * n)))
    assert ledger.spent() == total([one] * granted)
    assert ledger.remaining(of, "a").epsilon >= 0 and ledger.remaining(of, "a").delta >= 0
    ledger.close()


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_a_refused_charge_leaves_no_trace(ledger: Ledger, asks: Asks, loses: Asks, path: Path, accounting: str) -> None:
    of = budget("1", "1e-6", accounting=accounting)
    ledger.charge(asks("0.1"), of)
    before, head = dump(path), chain.head_file(path).read_bytes()
    for request in (
        asks("0.95"),
        asks("0.95", analyst="other"),
        asks("0.01", "1e-5"),
        loses(gaussian(Fraction(1), ZERO)),
    ):
        with pytest.raises(BudgetError):
            ledger.charge(request, of, "1 1 holder")
    assert dump(path) == before and chain.head_file(path).read_bytes() == head
    assert {file.name for file in path.parent.iterdir()} <= {
        f"{path.name}{end}" for end in ("", ".head", "-wal", "-shm")
    }
    receipt = ledger.charge(asks("0.01"), of)
    assert receipt is not None and receipt.id == 2 and ledger.verify() == 2


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
            budget("1", "1e-6", analyst="0.9", name="other"),
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


@settings(max_examples=60, deadline=None)
@given(
    st.fractions(0, 1, max_denominator=10**9),
    st.fractions(0, 1, max_denominator=10**9),
    st.sampled_from(ACCOUNTINGS),
)
def test_what_a_refusal_suggests_fits(first: Fraction, allowed: Fraction, accounting: str) -> None:
    ledger = Ledger.open(":memory:", "example")
    of = budget(max(first, allowed), "1e-6", accounting=accounting)
    with contextlib.suppress(BudgetError, InternalError):
        ledger.charge(asking(pure(first)), of)
    with pytest.raises(BudgetError) as caught:
        ledger.charge(asking(pure(Fraction(2))), of)
    hint = caught.value.hint or ""
    if hint.startswith("epsilon="):
        suggested = hint.removeprefix("epsilon=").removesuffix(" would fit")
        assert caught.value.fits == Fraction(suggested)
        ledger.charge(asking(loss(suggested)), of)
    else:
        assert ledger.remaining(of, "a").epsilon == 0 and caught.value.fits is None
    ledger.close()


@pytest.mark.parametrize("accounting", ["zcdp", "gdp", "rdp", "auto"])
def test_what_a_refusal_suggests_for_gaussian_noise_fits(ledger: Ledger, loses: Asks, accounting: str) -> None:
    """Its price is the epsilon that its rho stands for."""
    of = budget("1", "1e-6", accounting=accounting)
    with pytest.raises(BudgetError, match=r"this costs epsilon 1, 0\.2\d+ is left") as caught:
        ledger.charge(loses(gaussian(rho_at_most(Fraction(1)), ZERO)), of)
    assert caught.value.fits is not None
    ledger.charge(loses(gaussian(rho_at_most(caught.value.fits), ZERO)), of)
    with pytest.raises(BudgetError):
        ledger.charge(loses(gaussian(rho_at_most(caught.value.fits) / 100, ZERO)), of)


def test_gaussian_noise_has_no_epsilon_to_add_up(ledger: Ledger, loses: Asks) -> None:
    for accounting in ("sequential", "advanced"):
        with pytest.raises(BudgetError, match=r"0 is left of the dataset's total 1; nothing more fits"):
            ledger.charge(loses(gaussian(Fraction(1, 10**6), ZERO)), budget("1", "1e-6", accounting=accounting))
    assert ledger.spent() == NO_LOSS


def test_an_analysts_cap_and_the_total_both_bind(ledger: Ledger, asks: Asks) -> None:
    ann, bob = (budget("1", "1e-6", analyst="0.6", analyst_delta="1e-7", name=name) for name in ("ann", "bob"))
    receipt = ledger.charge(asks("0.6", "1e-7", "ann"), ann)
    assert receipt is not None and receipt.remaining == NOTHING
    assert ledger.remaining(bob, "bob") == amount("0.4", "1e-7")
    receipt = ledger.charge(asks("0.4", analyst="bob"), bob)
    assert receipt is not None and receipt.remaining == amount("0", "1e-7")
    assert (ledger.spent("ann"), ledger.spent("bob")) == (loss("0.6", "1e-7"), loss("0.4"))
    assert ledger.spent() == loss("0.6", "1e-7") + loss("0.4")
    assert ledger.spent("nobody") == NO_LOSS


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_remaining_is_never_below_zero(ledger: Ledger, asks: Asks, loses: Asks, accounting: str) -> None:
    ledger.charge(asks("1", "1e-6"), plenty(accounting))
    left = ledger.remaining(budget("0.5", "1e-9", accounting=accounting), "default")
    assert left == NOTHING
    if accounting == "sequential":
        assert ledger.remaining(budget("2", "1e-3", analyst="0.5"), "default") == amount("0", "0.000999")
    with pytest.raises(BudgetError):
        ledger.charge(asks("0.1"), budget("2", "1e-9", accounting=accounting))
    if accounting not in ("sequential", "advanced"):
        ledger.charge(loses(gaussian(Fraction(10), ZERO)), plenty(accounting))
    assert ledger.remaining(budget("1", "1e-5", accounting=accounting), "default").epsilon == 0


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "make", [pure, choice, lambda number: gaussian(number, ZERO), lambda number: EpsilonDelta(number, ZERO)]
)
def test_numbers_that_are_none_cannot_become_a_loss(value: str, make: Callable[[Fraction], object]) -> None:
    with pytest.raises((ValueError, OverflowError)):
        make(Fraction(float(value)))


def test_negative_losses_cannot_be_made() -> None:
    for epsilon, delta in (("-0.1", "0"), ("0.1", "-1e-9")):
        with pytest.raises(ValueError):
            loss(epsilon, delta)
        with pytest.raises(ValueError):
            amount(epsilon, delta)
    for make in (choice, lambda rho: gaussian(rho, ZERO)):
        with pytest.raises(ValueError):
            make(Fraction(-1, 10))
    with pytest.raises(ValueError):
        amount("0.1", "1")


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_huge_prices_are_refused_like_any(ledger: Ledger, asks: Asks, loses: Asks, accounting: str) -> None:
    of = budget("1", "0.5", accounting=accounting)
    for price in ("1e308", "1e5000"):
        with pytest.raises(BudgetError, match=rf"epsilon {price.replace('e', 'e.')}, [01]\.?\d* is left"):
            ledger.charge(asks(price), of)
        with pytest.raises(BudgetError):
            ledger.charge(loses(gaussian(Fraction(price), ZERO)), of)
        with pytest.raises(BudgetError):
            ledger.charge(loses(choice(Fraction(price))), of)
    with pytest.raises(BudgetError, match=r"delta 0\.9, 0\.\d+ is left"):
        ledger.charge(asks("0.1", "0.9"), of)
    assert ledger.spent() == NO_LOSS and ledger.history() == []


def test_endless_decimals_are_charged_rounded_up(ledger: Ledger, asks: Asks) -> None:
    ledger.charge(asks(Fraction(1, 10) + Fraction(1, 10**6000)), budget("1"))
    assert Fraction(1, 10) < ledger.spent().epsilon < Fraction(1, 10) + Fraction(1, 10**100)
    assert len(ledger.history()) == 1


def test_a_charge_of_nothing_is_a_fault(ledger: Ledger, asks: Asks) -> None:
    with pytest.raises(InternalError) as caught:
        ledger.charge(asks("0"), budget("1"))
    assert str(caught.value) == "DPSQL-901: a charge of nothing reached the ledger"
    assert charged(ledger, asks("0", "1e-9"), budget("1", "1e-6")) == 1


def test_history_lists_every_charge(ledger: Ledger, asks: Asks) -> None:
    ledger.charge(asks("0.1", "1e-9", "ann", "SELECT 1"), budget("1", "1e-6"))
    ledger.charge(asks("1/3", "0", "bob", "SELECT 'naïve'"), budget("1", "1e-6"))
    first, second = ledger.history()
    assert (first.id, first.analyst, first.loss, first.releases) == (1, "ann", loss("0.1", "1e-9"), 1)
    assert (second.id, second.statement, second.loss) == (2, "SELECT 'naïve'", loss("1/3"))
    assert first.time <= second.time and first.time.endswith("+00:00")
    assert ledger.history("bob") == [second]
    assert ledger.history("nobody") == []


def test_a_charge_row_keeps_what_later_accounting_needs(ledger: Ledger, asks: Asks, path: Path) -> None:
    ledger.charge(asks("0.1"), budget("1"))
    connection = sqlite3.connect(path)
    (found,) = connection.execute("SELECT version, fingerprints, mechanisms, portions, certificates FROM charge")
    connection.close()
    kept = [[["1/10", "0", "1/100", *texts(Sums.of(loss("0.1")))[3:]], None]]
    assert found[0] == "version"
    assert list(map(json.loads, found[1:])) == [
        ["fingerprint"],
        ["laplace scale=10"],
        kept,
        ['{"release": "fingerprint"}'],
    ]
    (certificate,) = ledger.certificates(1)
    assert certificate["release"] == "fingerprint" and certificate["ledger"]["charge"] == 1
    assert ledger.certificates(2) == []


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
    ledger.charge(asks("0.1"), budget("1"))
    ledger.store.read(lambda connection: connection.set_trace_callback(seen.append))
    ledger.charge(asks("0.1"), budget("1"))
    ledger.store.read(lambda connection: connection.set_trace_callback(None))
    words = [statement.split()[0] for statement in seen]
    assert seen[:2] == ["PRAGMA synchronous = FULL", "BEGIN IMMEDIATE"]
    assert words[-1] == "COMMIT" and words.count("BEGIN") == words.count("COMMIT") == 1
    assert words.count("INSERT") == 3 and set(words) == {"PRAGMA", "BEGIN", "SELECT", "INSERT", "COMMIT"}


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
    assert charged(ledger, asks("0.1"), budget("1")) == 1


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
    ledger.store.write(lambda connection: lengthen(connection, ledger.secret))
    assert steps() <= short + 2
    assert statistics.median(timed(lambda: ledger.charge(asks("0.1"), allowed)) for _ in range(20)) < 1


def lengthen(connection: sqlite3.Connection, secret: bytes) -> None:
    """20,000 charges, whose totals are as if they had been made."""
    connection.execute(
        """WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        INSERT INTO charge SELECT i, 't', 'default', NULL, 'v', 's', '[]', '[]', '[]', '[]', '', '[]', 4, x'00' FROM n"""
    )
    for scope, name, text in connection.execute("SELECT scope, name, spent FROM total").fetchall():
        spent = spent_of(text)
        assert spent is not None
        longer = dataclasses.replace(spent, charges=20_000).text
        seal = chain.sealed(secret, scope, name, longer)
        row = (20_000, longer, seal, scope, name)
        connection.execute("UPDATE total SET charges = ?, spent = ?, seal = ? WHERE scope = ? AND name = ?", row)


def charged(ledger: Ledger, request: ChargeRequest, of: Budget) -> int | None:
    """The number of the charge."""
    receipt = ledger.charge(request, of)
    assert receipt is not None
    return receipt.id


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
