"""Laws of the accountants: what a filter admits costs no more than it says, by an independent computation; and rule 28."""

from __future__ import annotations

import contextlib
import math
import random
from collections import Counter
from fractions import Fraction
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting import Ledger
from dpsql.core.errors import BudgetError
from dpsql.core.loss import EpsilonDelta, PrivacyLoss, added, only_delta, total
from dpsql.mechanisms.conversions import choice, gaussian, pure
from dpsql.plan.charges import Budget, ChargeRequest, Portion
from tests.support.accounts import Adding

ZERO = Fraction(0)
ACCOUNTINGS = ["sequential", "advanced", "zcdp", "gdp", "rdp", "auto"]
Release = tuple[str, Fraction]
"""("laplace" or "response", epsilon) or ("gaussian", sigma), of sensitivity 1."""


def loss_of(release: Release) -> PrivacyLoss:
    kind, amount = release
    return gaussian(1 / (2 * amount**2), ZERO) if kind == "gaussian" else pure(amount)


def admitted(whole: EpsilonDelta, accounting: str, kinds: tuple[str, ...], seed: int) -> Counter[Release]:
    """Releases of random prices, as many as fit: the filter is then at its boundary."""
    chance, adding = random.Random(f"{accounting} {kinds} {seed}"), Adding(whole, accounting)
    keeps, spent = adding.keeps, adding.nothing
    size = Fraction(chance.choice([2, 10, 60]))
    prices: dict[str, list[Fraction]] = {
        "gaussian": [size * part / whole.epsilon for part in (5, 8, 50)],
        "laplace": [whole.epsilon / size / part for part in (1, 3, 50)],
        "response": [whole.epsilon / size / part for part in (1, 3, 50)],
    }
    found: Counter[Release] = Counter()
    refused = 0
    while refused < 15:
        kind = chance.choice(kinds)
        release = kind, chance.choice(prices[kind])
        after = added(spent, adding(loss_of(release)))
        if keeps.admits(after):
            spent = after
            found[release] += 1
        else:
            refused += 1
    return found


KINDS = [
    (accounting, kinds)
    for accounting in ACCOUNTINGS
    for kinds in (("laplace",), ("response",), ("gaussian",), ("laplace", "response", "gaussian"))
    if accounting in ("zcdp", "gdp", "rdp", "auto") or "gaussian" not in kinds
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("accounting", "kinds"), KINDS)
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1/5", "1e-9"), ("4", "1e-5")])
def test_rule_28_what_is_admitted_costs_no_more_by_privacy_loss_distributions(
    accounting: str, kinds: tuple[str, ...], epsilon: str, delta: str
) -> None:
    """The distributions are rounded towards less privacy loss: what they say is never above the truth."""
    distributions = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    whole = EpsilonDelta(Fraction(epsilon), Fraction(delta))
    # what each accountant has: nothing of it may be in doubt
    share = float(whole.delta) / (4 if accounting == "auto" else 2)
    for seed in range(2):
        found = admitted(whole, accounting, kinds, seed)
        assert found
        step = float(whole.epsilon) * 1e-4
        parts = [_distribution(distributions, release, step).self_compose(count) for release, count in _apart(found)]
        composed = parts[0]
        for part in parts[1:]:
            composed = composed.compose(part)
        oracle = composed.get_epsilon_for_delta(share)
        assert oracle <= float(whole.epsilon) + 1e-9, (oracle, found)
        if accounting == "gdp" and kinds == ("gaussian",):
            assert oracle > 0.95 * float(whole.epsilon)  # nearly all was used: the comparison would see a fault


def _apart(found: Counter[Release]) -> list[tuple[Release, int]]:
    """The releases, those with Gaussian noise as the one that they are together."""
    squares = sum(count / amount**2 for (kind, amount), count in found.items() if kind == "gaussian")
    together = [(("gaussian", Fraction(1 / math.sqrt(squares))), 1)] if squares else []
    return together + [(release, count) for release, count in found.items() if release[0] != "gaussian"]


def _distribution(distributions: ModuleType, release: Release, step: float) -> Any:
    kind, amount = release
    less = {"pessimistic_estimate": False, "value_discretization_interval": step}
    if kind == "gaussian":
        return distributions.from_gaussian_mechanism(float(amount), use_connect_dots=False, **less)
    if kind == "laplace":
        return distributions.from_laplace_mechanism(1 / float(amount), use_connect_dots=False, **less)
    return distributions.from_randomized_response(2 / (1 + math.exp(amount)), 2, **less)


@pytest.mark.few(3)
@pytest.mark.parametrize("kinds", [("laplace",), ("gaussian",), ("laplace", "gaussian")])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1/5", "1e-9"), ("4", "1e-5")])
def test_rule_28_what_zcdp_admits_costs_no_more_by_renyi_divergences(
    kinds: tuple[str, ...], epsilon: str, delta: str
) -> None:
    """Of Gaussian noise both are the same formula, at the best of many orders there and of all orders here."""
    accounting = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    whole = EpsilonDelta(Fraction(epsilon), Fraction(delta))
    orders = [1 + math.exp(step / 400) for step in range(-400, 4000)]
    for seed in range(4):
        found = admitted(whole, "zcdp", kinds, seed)
        oracle = rdp.RdpAccountant(orders)
        for (kind, amount), count in found.items():
            noise = accounting.GaussianDpEvent if kind == "gaussian" else accounting.LaplaceDpEvent
            oracle.compose(noise(float(amount if kind == "gaussian" else 1 / amount)), count)
        bound = oracle.get_epsilon(float(whole.delta) / 2)
        assert bound <= float(whole.epsilon) * (1 + 1e-6) + 1e-9, (bound, found)


LOSSES = st.one_of(
    st.fractions(Fraction(1, 100), 1, max_denominator=1000).map(pure),
    st.fractions(Fraction(1, 100), 1, max_denominator=1000).map(choice),
    st.fractions(Fraction(1, 10**5), Fraction(1, 100), max_denominator=10**6).map(lambda rho: gaussian(rho, ZERO)),
    st.sampled_from([Fraction(1, 10**8), Fraction(1, 10**7)]).map(only_delta),
    st.builds(pure, st.just(Fraction(1, 20)), st.just(Fraction(1, 10**7))),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(LOSSES, min_size=1, max_size=25), st.sampled_from(ACCOUNTINGS), st.sampled_from(["1/2", "2", "10"]))
def test_rule_28_admitted_iff_an_accountant_that_is_alive_still_fits(
    losses: list[PrivacyLoss], accounting: str, epsilon: str
) -> None:
    """The rule as it is written, with a set of those that are alive; the ledger keeps sums alone, and decides the same."""
    whole = EpsilonDelta(Fraction(epsilon), Fraction(1, 10**6))
    ledger, adding = Ledger.open(":memory:", "example"), Adding(whole, accounting)
    keeps, spent = adding.keeps, adding.nothing
    alive = {each.accountant: each for each in keeps.accounts}
    for loss in losses:
        after = spent + adding(loss)
        fits = {name: each for name, each in alive.items() if _at_most(after[each.measure.name], each.most)}
        granted = False
        with contextlib.suppress(BudgetError):
            granted = ledger.charge(_request(loss), Budget(whole, accounting)) is not None
        assert granted == (bool(fits) and after.delta <= keeps.delta)
        if granted:
            alive, spent = fits, after
    assert ledger.spent() == spent.loss and set(keeps.alive(spent)) == set(alive)
    ledger.close()


def _at_most(amount: Fraction | None, most: Fraction) -> bool:
    return amount is not None and amount <= most


def _request(loss: PrivacyLoss) -> ChargeRequest:
    return ChargeRequest("a", "v", "s", (), (), (Portion(loss),))


@pytest.mark.parametrize(("accounting", "count"), [("sequential", 100), *((name, 50) for name in ACCOUNTINGS[1:])])
def test_rule_28_a_delta_is_added_once(accounting: str, count: int) -> None:
    """However many accountants there are, a threshold takes its delta from one share of all."""
    whole, ledger = EpsilonDelta(Fraction(1), Fraction(1, 10**6)), Ledger.open(":memory:", "example")
    threshold = pure(Fraction(1, 10**6), Fraction(1, 10**8))
    for _ in range(count):
        ledger.charge(_request(threshold), Budget(whole, accounting))
    with pytest.raises(BudgetError, match="this costs delta 1e-8, 0 is left"):
        ledger.charge(_request(threshold), Budget(whole, accounting))
    assert ledger.spent() == total([threshold] * count)
    ledger.charge(_request(pure(Fraction(1, 10**6))), Budget(whole, accounting))  # without delta there is room
    ledger.close()


def test_rule_28_a_refused_price_ends_no_accountant() -> None:
    """Gaussian noise that is refused adds nothing: epsilons go on."""
    whole, ledger = EpsilonDelta(Fraction(1), Fraction(1, 10**6)), Ledger.open(":memory:", "example")
    with pytest.raises(BudgetError):
        ledger.charge(_request(gaussian(Fraction(1), ZERO)), Budget(whole, "auto"))
    receipt = ledger.charge(_request(pure(Fraction(1))), Budget(whole, "auto"))
    assert receipt is not None and receipt.remaining.epsilon == 0
    ledger.close()
