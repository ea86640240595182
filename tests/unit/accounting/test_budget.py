"""Caps, reservations and windows: what a charge is checked against beside the dataset's total."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpsql.accountants.filters import Promise
from dpsql.accounting import Ledger, layout
from dpsql.accounting.budget import kept_for_others, refreshes_left, reserved, times, unspent
from dpsql.core.errors import BudgetError
from dpsql.core.loss import NO_LOSS, EpsilonDelta, PrivacyLoss, Sums, total
from dpsql.mechanisms.conversions import gaussian, pure
from dpsql.plan.charges import Budget, Cap, ChargeRequest, ReservedBudget
from tests.support.accounts import sums

Asks = Callable[..., ChargeRequest]
ZERO = Fraction(0)
SEQUENTIAL = Promise("sequential")
RDP = Promise.under(EpsilonDelta(Fraction(1), Fraction(1, 10**6)), "rdp")
NOTHING_LEFT = "nothing more fits until the owner raises it"


def of(epsilon: str, delta: str = "0") -> EpsilonDelta:
    return EpsilonDelta(Fraction(epsilon), Fraction(delta))


def held(analyst: str = "bi", refreshes: int = 3, epsilon: str = "0.1", delta: str = "0") -> ReservedBudget:
    return ReservedBudget(f"for {analyst}", analyst, refreshes, pure(Fraction(epsilon), Fraction(delta)))


def granted(ledger: Ledger, request: ChargeRequest, budget: Budget) -> bool:
    try:
        return ledger.charge(request, budget) is not None
    except BudgetError:
        return False


# --- caps -----------------------------------------------------------------------------------------------------------------


def test_a_role_is_capped_for_all_its_analysts_together(ledger: Ledger, asks: Asks) -> None:
    staff = Budget(of("3"), caps=(Cap("role", "staff", of("1")),))
    assert granted(ledger, asks("0.6", analyst="ann", role="staff"), staff)
    with pytest.raises(BudgetError) as caught:
        ledger.charge(asks("0.5", analyst="bob", role="staff"), staff)
    assert str(caught.value) == (
        "DPSQL-501: this costs epsilon 0.5, 0.4 is left of the cap of role 'staff' 1; epsilon=0.4 would fit"
    )
    assert caught.value.fits == Fraction(2, 5)
    assert granted(ledger, asks("0.4", analyst="bob", role="staff"), staff)
    assert granted(ledger, asks("2", analyst="cy"), Budget(of("3")))
    assert ledger.scope("role", "staff").ever.loss == pure(Fraction(3, 5)) + pure(Fraction(2, 5))
    assert ledger.scope("role", "nobody").ever.loss == NO_LOSS


@pytest.mark.parametrize(
    ("analyst", "role", "whole", "tightest"),
    [("0.3", "0.5", "1", "analyst 'ann'"), ("0.5", "0.3", "1", "role 'staff'"), ("0.5", "0.6", "0.3", "total")],
)
def test_the_tightest_of_three_totals_decides(
    ledger: Ledger, asks: Asks, analyst: str, role: str, whole: str, tightest: str
) -> None:
    caps = (Cap("analyst", "ann", of(analyst)), Cap("role", "staff", of(role)))
    with pytest.raises(BudgetError, match=rf"0\.3 is left of .*{tightest}.*epsilon=0\.3 would fit"):
        ledger.charge(asks("0.7", analyst="ann", role="staff"), Budget(of(whole), caps=caps))
    assert ledger.remaining(Budget(of(whole), caps=caps), "ann") == of("0.3")


def test_an_analyst_and_a_role_of_one_name_are_two(ledger: Ledger, asks: Asks) -> None:
    caps = (Cap("analyst", "x", of("0.1")), Cap("role", "x", of("0.3")))
    ledger.charge(asks("0.1", analyst="x", role="x"), Budget(of("1"), caps=caps))
    ledger.charge(asks("0.2", analyst="y", role="x"), Budget(of("1"), caps=caps[1:]))
    assert (ledger.spent("x").epsilon, ledger.scope("role", "x").ever.loss.epsilon) == (
        Fraction("0.1"),
        Fraction("0.3"),
    )


@pytest.mark.parametrize("accounting", ["zcdp", "gdp", "auto"])
def test_a_cap_is_kept_by_the_same_accounting(ledger: Ledger, asks: Asks, accounting: str) -> None:
    """Ten releases of 0.01 are within a cap of 0.1 where epsilons add up, and here fewer are."""
    cap = Cap("analyst", "ann", of("0.1", "1e-9"))
    budget = Budget(of("10", "1e-5"), accounting, (cap,))
    count = sum(granted(ledger, asks("0.01", analyst="ann"), budget) for _ in range(15))
    alone = Ledger.open(":memory:", "example")
    assert count == sum(granted(alone, asks("0.01"), Budget(cap.total, accounting)) for _ in range(15))
    assert count == 10 if accounting == "auto" else 0 < count < 10
    assert granted(ledger, asks("0.1", analyst="bob"), Budget(of("10", "1e-5"), accounting))


def test_a_share_of_delta_is_said(ledger: Ledger, asks: Asks) -> None:
    with pytest.raises(BudgetError) as caught:
        ledger.charge(asks("0.01", "6e-7"), Budget(of("1", "1e-6"), "auto"))
    assert str(caught.value) == (
        "DPSQL-501: this costs delta 6e-7, 5e-7 is left of the dataset's total 1e-6 (5e-7 of it for this); "
        "delta=5e-7 would fit"
    )
    assert caught.value.fits is None


# --- reservations ---------------------------------------------------------------------------------------------------------


def test_what_is_held_is_for_its_analyst_alone(ledger: Ledger, asks: Asks) -> None:
    budget = Budget(of("1", "1e-6"), held=(held(delta="1e-8"),))
    assert ledger.remaining(budget, "ann") == of("0.7", "97e-8")
    assert ledger.remaining(budget, "bi") == of("1", "1e-6")
    with pytest.raises(BudgetError, match=r"0\.7 is left of the dataset's total 1; epsilon=0\.7 would fit"):
        ledger.charge(asks("0.8", analyst="ann"), budget)
    assert granted(ledger, asks("0.7", analyst="ann"), budget)
    assert not granted(ledger, asks("1/1000000", analyst="ann"), budget)
    for number in range(1, 4):
        assert granted(ledger, asks("0.1", "1e-8", analyst="bi"), budget)
        assert refreshes_left(budget.held[0], SEQUENTIAL, Sums.of(ledger.spent("bi"))) == 3 - number
    assert not granted(ledger, asks("0.1", "1e-8", analyst="bi"), budget)
    assert ledger.spent().epsilon == 1


def test_the_holder_may_go_on_with_what_is_left(ledger: Ledger, asks: Asks) -> None:
    """A reservation is what others leave, not all that its analyst gets; what they spend beyond it is no longer kept."""
    budget = Budget(of("1"), held=(held(),))
    assert granted(ledger, asks("0.9", analyst="bi"), budget)
    assert ledger.remaining(budget, "ann") == of("0.1") == ledger.remaining(budget, "bi")
    assert refreshes_left(budget.held[0], SEQUENTIAL, Sums.of(ledger.spent("bi"))) == 0


def test_several_reservations_are_kept_together(ledger: Ledger, asks: Asks) -> None:
    budget = Budget(of("1"), held=(held("bi", 3), held("web", 5)))
    assert [ledger.remaining(budget, name).epsilon for name in ("bi", "web", "ann")] == [
        Fraction(1, 2),
        Fraction(7, 10),
        Fraction(1, 5),
    ]
    assert granted(ledger, asks("0.1", analyst="bi"), budget)
    assert ledger.remaining(budget, "ann").epsilon == Fraction(1, 5)
    assert ledger.remaining(budget, "web").epsilon == Fraction(7, 10)


def test_more_held_than_there_is_leaves_nothing_to_others(ledger: Ledger, asks: Asks) -> None:
    budget = Budget(of("0.2"), held=(held(),))
    assert ledger.remaining(budget, "ann") == of("0")
    with pytest.raises(BudgetError, match=f"0 is left of the dataset's total 0.2; {NOTHING_LEFT}"):
        ledger.charge(asks("0.1", analyst="ann"), budget)
    assert [granted(ledger, asks("0.1", analyst="bi"), budget) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("accounting", ["sequential", "advanced", "zcdp", "gdp", "rdp", "auto"])
@pytest.mark.few(4)
def test_what_is_held_can_be_spent_whatever_others_spend(ledger: Ledger, asks: Asks, accounting: str) -> None:
    """Others take all that they can; each refresh still fits."""
    kept = held("bi", 4, "0.02", "1e-9")
    budget = Budget(of("1", "1e-6"), accounting, held=(kept,))
    promise = Promise.under(budget.total, accounting)
    for price in ("0.2", "0.1", "0.05", "0.02", "0.01", "0.005"):
        while granted(ledger, asks(price, analyst="ann"), budget):
            pass
    left = [4]
    for _ in range(4):
        assert granted(ledger, asks("0.02", "1e-9", analyst="bi"), budget)
        left.append(refreshes_left(kept, promise, ledger.scope("analyst", "bi").ever))
    assert left == [4, 3, 2, 1, 0]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 20),
    st.fractions(Fraction(1, 100), 1, max_denominator=1000),
    st.lists(st.sampled_from([pure(Fraction(1, 10)), pure(Fraction(1)), gaussian(Fraction(1, 100), ZERO)]), max_size=5),
)
@example(2, Fraction(9, 40), [pure(Fraction(1, 10))] * 3 + [gaussian(Fraction(1, 100), ZERO)])
def test_what_is_kept_never_grows(refreshes: int, price: Fraction, losses: list[PrivacyLoss]) -> None:
    """Nor does the number of refreshes, but where the sum of epsilons ends: then what is kept in rho alone counts them."""
    kept = ReservedBudget("r", "bi", refreshes, pure(price))
    spent, before, count = RDP.nothing, reserved(kept, RDP), refreshes
    for loss in losses:
        ended = spent["epsilon"] is not None and loss.epsilon is None
        spent = spent + sums(loss, RDP)
        rest, now = unspent(kept, RDP, spent), refreshes_left(kept, RDP, spent)
        assert all(more is None or one <= more for one, more in zip(rest.amounts, before.amounts, strict=True))
        assert 0 <= now <= (rest.loss.rho / kept.refresh.rho if ended else count)
        before, count = rest, now
    assert unspent(kept, RDP, reserved(kept, RDP)) == RDP.nothing
    assert kept_for_others(Budget(of("1"), held=(kept,)), "bi", RDP, lambda _: spent) == RDP.nothing
    assert kept_for_others(Budget(of("1"), held=(kept,)), "ann", RDP, lambda _: spent) == unspent(kept, RDP, spent)


@given(st.integers(1, 30), st.sampled_from([pure(Fraction(1, 7), Fraction(1, 10**9)), gaussian(Fraction(1, 9), ZERO)]))
def test_times_is_a_sum_of_equal_losses(count: int, loss: PrivacyLoss) -> None:
    assert times(sums(loss, RDP), count) == sum([sums(loss, RDP)] * count, RDP.nothing)
    assert times(sums(loss, RDP), count).loss == total([loss] * count)


# --- windows --------------------------------------------------------------------------------------------------------------


class Clock:
    """The time that the ledger writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(layout, "now", lambda: self.now)
        self.now = "2026-11-21T12:00:00.000+00:00"  # a Saturday

    def set(self, day: str) -> None:
        self.now = f"{day}T00:00:00.000+00:00"


@pytest.mark.parametrize(
    ("window", "within", "beyond"),
    [
        ("day", "2026-11-21", "2026-11-22"),
        ("week", "2026-11-22", "2026-11-23"),
        ("month", "2026-11-30", "2026-12-01"),
        (None, "2026-12-01", None),
    ],
)
def test_a_window_refills_totals_caps_and_reservations(
    ledger: Ledger, asks: Asks, monkeypatch: pytest.MonkeyPatch, window: str | None, within: str, beyond: str | None
) -> None:
    clock = Clock(monkeypatch)
    budget = Budget(of("1"), caps=(Cap("analyst", "ann", of("0.5")),), held=(held(),), window=window)
    assert granted(ledger, asks("0.5", analyst="ann"), budget)
    assert granted(ledger, asks("0.3", analyst="bi"), Budget(of("1"), held=(held(),), window=window))
    clock.set(within)
    each = f" of this {window}" if window else ""
    with pytest.raises(BudgetError, match=f"0 is left of the cap of analyst 'ann'{each} 0.5; {NOTHING_LEFT}"):
        ledger.charge(asks("0.1", analyst="ann"), budget)
    with pytest.raises(BudgetError, match=f"0.2 is left of the dataset's total{each} 1; epsilon=0.2 would fit"):
        ledger.charge(asks("0.3", analyst="cy"), Budget(of("1"), held=(held(),), window=window))
    if beyond is None:
        return
    clock.set(beyond)
    assert ledger.remaining(budget, "ann") == of("0.5")
    assert ledger.remaining(Budget(of("1"), held=(held(),), window=window), "cy") == of("0.7")
    assert granted(ledger, asks("0.5", analyst="ann"), budget)
    assert ledger.spent().epsilon == Fraction("1.3")
    clock.set("2026-11-21")  # the clock goes back: the window is the later one
    assert not granted(ledger, asks("0.1", analyst="ann"), budget)
    assert ledger.remaining(Budget(of("1"), window=window), "cy") == of("0.5")
    assert ledger.verify() == 3


def test_windows_of_every_length_are_kept_whichever_is_asked(
    ledger: Ledger, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner may change the window: what was spent counts in the new one."""
    clock = Clock(monkeypatch)
    for day in ("2026-11-02", "2026-11-16", "2026-11-21"):
        clock.set(day)
        ledger.charge(asks("0.1"), Budget(of("1"), window="day"))
    left = [ledger.remaining(Budget(of("1"), window=window), "default") for window in ("day", "week", "month", None)]
    assert left == [of("0.9"), of("0.8"), of("0.7"), of("0.7")]
