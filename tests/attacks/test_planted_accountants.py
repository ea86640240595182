"""Faults planted into accountants, events and totals, each of which one of these checks catches; without a fault all of them pass.

What is admitted is compared with the exact delta of Gaussian noise, what an event adds with the distributions of its noise, and what a
ledger keeps with its own rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import exp, log, sqrt, tanh
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from dpsql.accountants import filters, rdp
from dpsql.accounting import Ledger, ran
from dpsql.accounting import ledger as ledgers
from dpsql.core.errors import BudgetError, Error
from dpsql.core.events import Event
from dpsql.core.loss import Amount, EpsilonDelta, Sums, total
from dpsql.mechanisms import laplace, renyi
from dpsql.mechanisms.conversions import GAUSSIAN, PURE
from dpsql.mechanisms.events import threshold
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.plan.charges import Budget, ChargeRequest, Portion
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from tests.support import clinic, staging
from tests.support.planning import compile_statement

TOTAL = EpsilonDelta(Fraction(1), Fraction(1, 10**6))
WHOLE = Budget(TOTAL, "rdp")
ORDER = Fraction(23)
MADE = (
    laplace.EVENT.event(2, 60),
    GAUSSIAN.event(Fraction(1, 10**4), 0, Fraction(2, 10**4)),
    PURE.event(Fraction(1, 50)),
)


def request(*ran: Event) -> ChargeRequest:
    return ChargeRequest("ann", "v", "s", (), (), (Portion(total(event.loss for event in ran), None, ran),))


def charged(ledger: Ledger, budget: Budget, *ran: Event, most: int = 2000) -> int:
    """Charge the same events so many times."""
    count = 0
    with contextlib.suppress(BudgetError):
        while count < most:
            ledger.charge(request(*ran), budget)
            count += 1
    return count


# --- checks -----------------------------------------------------------------------------------------------------------


def within_the_total(folder: Path) -> None:
    """The Gaussian noise that is admitted has, exactly, no more than its share of delta at this epsilon."""
    ledger, rho = Ledger.open(":memory:", "example"), Fraction(1, 1000)
    count = charged(ledger, WHOLE, GAUSSIAN.event(rho, 0, 2 * rho))
    ledger.close()
    mu, epsilon = sqrt(2 * float(rho) * count), float(TOTAL.epsilon)
    delta = norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert count > 10 and delta <= float(TOTAL.delta) / 2


def within_the_delta(folder: Path) -> None:
    """Thresholds have half of delta, together."""
    ledger = Ledger.open(":memory:", "example")
    count = charged(ledger, WHOLE, *threshold(Fraction(1, 10**8)))
    ledger.close()
    assert count == 50


def as_the_noise(folder: Path) -> None:
    """The divergence of what is drawn is at most what an event adds."""
    noise, l1 = DiscreteLaplace(Fraction(10)), 2
    event = noise.event(l1, PURE.event(Fraction(l1, 10)).loss)
    at = np.arange(-4000, 4001)
    q = log(tanh(1 / 20)) - np.abs(at) / 10
    p = log(tanh(1 / 20)) - np.abs(at - l1) / 10
    true = logsumexp(float(ORDER) * p + (1 - float(ORDER)) * q) / (float(ORDER) - 1)
    assert float(renyi.of_event(ORDER, event)) >= true * (1 - 1e-9) and event.loss == PURE.event(Fraction(l1, 10)).loss


def as_the_rows(folder: Path) -> None:
    """A ledger opens, and is what its rows add up to."""
    path = folder / "ledger"
    ledger = Ledger.open(path, "example")
    for _ in range(3):
        ledger.charge(request(*MADE), WHOLE)
    ledger.close()
    ledger = Ledger.open(path, "example")
    try:
        assert ledger.verify() == 3
        spent, names = ledger.scope("dataset", "").ever, filters.Promise.under(TOTAL, "rdp").more
        for name in names:
            order = Fraction(name.split()[1])
            assert spent[name] == 3 * sum(renyi.of_event(order, event) for event in MADE)
    finally:
        ledger.close()


def by_one_order(folder: Path) -> None:
    """Whatever total is declared later."""
    ledger = Ledger.open(folder / "ledger", "example")
    ledger.charge(request(*MADE), WHOLE)
    raised = Budget(EpsilonDelta(Fraction(5), Fraction(1, 10**6)), "rdp")
    ledger.charge(request(*MADE), raised)
    (limit,) = ledger.limits(raised, "ann")
    ledger.close()
    assert limit.keeps.accounts[0].measure.name == filters.Promise.under(TOTAL, "rdp").more[0]


def as_planned(folder: Path) -> None:
    """A plan's own loss is its price, and the ledger charges that alone."""
    declared = clinic.schema(folder, accounting="rdp")
    sql = "SELECT COUNT(*), SUM(age) FROM patient"
    (part,) = compile_statement(parse(sql), Options(), declared, staging.Types()).releases
    ledger = Ledger.open(":memory:", "example")
    portion = Portion(part.release.loss, None, part.release.events)
    with contextlib.suppress(BudgetError):
        ledger.charge(ChargeRequest("a", "v", "s", (), (), (portion,)), Budget(declared.privacy.budget, "rdp"))
    ledger.close()
    for less in (portion.events[:1] if len(portion.events) > 1 else (), (laplace.EVENT.event(1, 10**9),)):
        if less:
            assert ran.charged([replace(portion, events=less)], (), filters.Promise.under(TOTAL, "rdp")) is None


CHECKS: tuple[Callable[[Path], None], ...] = (
    within_the_total,
    within_the_delta,
    as_the_noise,
    as_the_rows,
    by_one_order,
    as_planned,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_without_a_fault(check: Callable[[Path], None], tmp_path: Path) -> None:
    check(tmp_path)


# --- faults -----------------------------------------------------------------------------------------------------------


def forgets_its_delta(patch: pytest.MonkeyPatch) -> None:
    """The conversion without ln(delta alpha) / (alpha - 1)."""
    patch.setattr(rdp, "largest_renyi", lambda total, order: total.epsilon)


def takes_all_of_delta(patch: pytest.MonkeyPatch) -> None:
    """As if it had no share of it to give to anybody."""
    patch.setattr(filters.Filter, "delta_left", lambda self, spent: TOTAL.delta)
    patch.setattr(filters.Filter, "admits", lambda self, spent: spent.delta <= TOTAL.delta and bool(self.alive(spent)))


def adds_rho_in_place_of_the_order_times_it(patch: pytest.MonkeyPatch) -> None:
    of_event = renyi.of_event
    patch.setattr(renyi, "of_event", lambda order, event: min(event.loss.rho, of_event(order, event)))


def one_amount_is_not_added(patch: pytest.MonkeyPatch) -> None:
    """The sums of all accountants but one grow."""
    add = Sums.__add__

    def less(self: Sums, other: Sums) -> Sums:
        found, last = add(self, other), self.amounts[-1]
        amounts: tuple[Amount, ...] = (*found.amounts[:-1], last) if len(self.names) > 5 else found.amounts
        return Sums(found.names, amounts)

    patch.setattr(Sums, "__add__", less)


def a_charge_adds_only_its_first_event(patch: pytest.MonkeyPatch) -> None:
    sums = filters.Promise.sums
    patch.setattr(filters.Promise, "sums", lambda self, loss, ran: sums(self, loss, tuple(ran)[:1]))


def an_event_of_wider_noise(patch: pytest.MonkeyPatch) -> None:
    """Than is drawn: it says a smaller loss."""
    patch.setattr(DiscreteLaplace, "event", lambda self, l1, loss: laplace.EVENT.event(l1, 2 * self.scale))


def a_smaller_divergence_of_the_same_event(patch: pytest.MonkeyPatch) -> None:
    """The loss is right; what rdp reads off it is that of half the sensitivity."""
    less = replace(laplace.EVENT, renyi=lambda order, l1, scale: renyi.of_discrete_laplace(order, l1 / 2, scale))
    patch.setattr(laplace, "EVENT", less)


def the_promise_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    """Each total that is declared chooses its own order."""
    patch.setattr(ledgers, "promise_for_good", lambda connection, store, promise: None)


def what_runs_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    def charged(portions: tuple[Portion, ...], words: object, promise: filters.Promise) -> object:
        return [ran.Charged(promise.sums(each.loss, each.events), each.entries) for each in portions]

    patch.setattr(ran, "charged", charged)


FAULTS: tuple[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[Path], None]], ...] = (
    (forgets_its_delta, within_the_total),
    (takes_all_of_delta, within_the_delta),
    (adds_rho_in_place_of_the_order_times_it, within_the_total),
    (one_amount_is_not_added, as_the_rows),
    (a_charge_adds_only_its_first_event, as_the_rows),
    (an_event_of_wider_noise, as_the_noise),
    (an_event_of_wider_noise, as_planned),
    (a_smaller_divergence_of_the_same_event, as_the_noise),
    (the_promise_is_not_kept, by_one_order),
    (what_runs_is_not_compared, as_planned),
)


@pytest.mark.parametrize(("fault", "check"), FAULTS, ids=lambda each: each.__name__)
def test_a_fault_is_caught(
    fault: Callable[[pytest.MonkeyPatch], None], check: Callable[[Path], None], tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        _forget()
        try:
            with pytest.raises((AssertionError, Error, ValueError)):
                check(tmp_path)
        finally:
            patch.undo()
            _forget()


def _forget() -> None:
    """Measures and filters that were made with or without the fault."""
    from dpsql.accountants import registry

    for made in (registry.measure, filters._keeps, filters._caps, filters.Promise.under):
        made.cache_clear()  # type: ignore[attr-defined]
