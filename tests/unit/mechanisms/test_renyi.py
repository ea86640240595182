"""Renyi divergences: bounds that hold, by the distributions themselves, by long decimals and by another library; and how close."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from math import exp, inf, log, tanh

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from dpsql.core.events import Event, Kind
from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.mechanisms import conversions, gaussian, laplace, renyi, truncated
from dpsql.mechanisms.events import KINDS, WITH_EPSILON, of_loss, threshold
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.reach import best_order, largest_renyi, largest_rho
from dpsql.mechanisms.truncated import TruncatedLaplace

ORDERS = [Fraction(text) for text in ("1.01", "1.5", "2", "7.125", "32", "1057")]
EPSILONS = [Fraction(text) for text in ("1e-30", "1e-12", "0.001", "0.1", "1", "3", "40", "900", "1e7")]
PRECISE = Context(prec=700, Emin=MIN_EMIN, Emax=MAX_EMAX)
SOME = settings(max_examples=100, deadline=None, derandomize=True, database=None)
orders = st.fractions(Fraction(101, 100), Fraction(2000), max_denominator=1000)


def decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / number.denominator


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    """Of two distributions, from the logarithms of their probabilities."""
    both = np.isfinite(p) | np.isfinite(q)
    return float(logsumexp(order * p[both] + (1 - order) * q[both]) / (order - 1))


def of_bit(order: Fraction, epsilon: Fraction) -> Fraction:
    """Of a bit that is turned round with probability 1 / (1 + e^epsilon), with 700 digits."""
    with localcontext(PRECISE):
        grown, alpha = decimal(epsilon).exp(), decimal(order)
        p, q = grown / (1 + grown), 1 / (1 + grown)
        inside = p**alpha * q ** (1 - alpha) + q**alpha * p ** (1 - alpha)
        return Fraction(inside.ln() / (alpha - 1))


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_a_pure_loss_is_that_of_a_bit(order: Fraction, epsilon: Fraction) -> None:
    found = renyi.of_pure(order, epsilon)
    assert found <= min(epsilon, order * epsilon**2 / 2 * (1 + Fraction(1, 2**60)))
    if epsilon <= 1000:
        true = of_bit(order, epsilon)
        assert true <= found and (found <= true * (1 + Fraction(1, 2**60)) or epsilon < Fraction(1, 10**9))


@SOME
@given(orders, st.fractions(0, 20, max_denominator=10**6), st.fractions(0, 20, max_denominator=10**6))
def test_a_pure_loss_grows_and_covers_its_parts(order: Fraction, one: Fraction, other: Fraction) -> None:
    """A release in parts of one epsilon and of another adds up to no more than a release of both."""
    apart, together = renyi.of_pure(order, one) + renyi.of_pure(order, other), renyi.of_pure(order, one + other)
    assert apart <= together * (1 + Fraction(1, 2**60)) + Fraction(1, 10**15)
    assert renyi.of_pure(order, one) <= together * (1 + Fraction(1, 2**60)) + Fraction(1, 10**15)
    assert renyi.about_pure(float(order), float(one)) == pytest.approx(
        float(renyi.of_pure(order, one)), rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(
    ("l1", "scale"), [(1, "1"), (1, "10"), (3, "1/2"), (7, "10"), (50, "7"), (300, "1000"), (40, "10")]
)
@pytest.mark.few(3)
def test_discrete_laplace_is_that_of_the_distributions(order: Fraction, l1: int, scale: str) -> None:
    """One number that differs by l1, summed over its values; the formula of the probabilities is scipy's."""
    found, wide = float(renyi.of_discrete_laplace(order, Fraction(l1), Fraction(scale))), float(Fraction(scale))
    reach = int(1000 * wide) + 2 * l1
    at = np.arange(-reach, reach + l1 + 1)
    rate = 1 / wide
    p, q = log(tanh(rate / 2)) - rate * np.abs(at - l1), log(tanh(rate / 2)) - rate * np.abs(at)
    assert np.allclose(np.exp(p), stats.dlaplace.pmf(at, rate, loc=l1))
    for one, other in ((p, q), (q, p)):
        assert found == pytest.approx(divergence(one, other, float(order)), rel=1e-6, abs=1e-12)
    assert found <= float(min(Fraction(l1) / Fraction(scale), renyi.of_pure(order, Fraction(l1) / Fraction(scale)))) * (
        1 + 1e-12
    )


@SOME
@given(
    orders, st.lists(st.integers(1, 40), min_size=2, max_size=4), st.fractions(Fraction(1, 2), 100, max_denominator=50)
)
def test_a_vector_loses_at_most_what_one_number_does(order: Fraction, shifts: list[int], scale: Fraction) -> None:
    parts = sum(renyi.of_discrete_laplace(order, Fraction(shift), scale) for shift in shifts)
    whole = renyi.of_discrete_laplace(order, Fraction(sum(shifts)), scale)
    assert parts <= whole * (1 + Fraction(1, 2**55)) + Fraction(1, 10**20)
    # and noise of a larger scale loses less
    assert renyi.of_discrete_laplace(order, Fraction(sum(shifts)), scale * 2) <= whole


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(
    ("l1", "scale"),
    [("1", "1e15"), ("1e14", "1e15"), ("30000", "300000"), ("1", "1e17"), ("1e-30", "1"), ("3", "1e-9")],
)
def test_discrete_laplace_of_extreme_scales(order: Fraction, l1: str, scale: str) -> None:
    """With 700 digits, by the three geometric sums themselves."""
    shift, wide = Fraction(l1), Fraction(scale)
    found = renyi.of_discrete_laplace(order, shift, wide)
    assert found <= shift / wide
    if shift < 1 or wide < 1:
        return
    with localcontext(PRECISE):
        a, alpha, s = (-1 / decimal(wide)).exp(), decimal(order), decimal(shift)
        ratio = (-(1 - 2 * alpha) / decimal(wide)).exp()
        below, above = a ** (alpha * s) / (1 - a), a ** (s - alpha * s) / (1 - a)
        between = a ** (alpha * s) * (ratio**s - ratio) / (ratio - 1)
        true = Fraction(((1 - a) / (1 + a) * (below + above + between)).ln() / (alpha - 1))
    assert true <= found
    assert found <= true * (1 + Fraction(1, 2**50)) or wide > 10**16


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(("l0", "epsilon"), [(1, "1"), (3, "1"), (10, "2")])
def test_truncated_laplace_beside_its_delta(order: Fraction, l0: int, epsilon: str) -> None:
    """Outputs that both of two neighbours can give are, for each count, at most that far apart; the rest is the delta."""
    noise = TruncatedLaplace.for_loss(l0, EpsilonDelta(Fraction(epsilon), Fraction(1, 10**6)))
    event = noise.event(l0, conversions.pure(Fraction(epsilon), Fraction(1, 10**6)))
    at = np.arange(-noise.most, noise.most + 2)
    likely = np.exp(-np.abs(at) / float(noise.scale))
    p, q = (
        np.where(at <= noise.most, likely, 0),
        np.where(at > -noise.most, np.exp(-np.abs(at - 1) / float(noise.scale)), 0),
    )
    total = p.sum()
    inside = (p > 0) & (q > 0)
    outside = p[~inside].sum() / total
    assert 1 - (1 - outside) ** l0 <= 1e-6 * (1 + 1e-9)
    # of the part that both can give, as distributions of their own
    one, other = (np.log(each[inside] / each[inside].sum()) for each in (p, q))
    assert l0 * divergence(one, other, float(order)) <= float(renyi.of_event(order, event)) * (1 + 1e-9)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
@pytest.mark.few(6)
def test_the_exponential_mechanism(order: Fraction, epsilon: str) -> None:
    """The worst pair of two candidates whose log-likelihood ratio ranges over epsilon, and ones of many candidates."""
    wide, bound = float(Fraction(epsilon)), float(renyi.of_event(order, conversions.CHOICE.event(Fraction(epsilon))))
    worst = 0.0
    for t in np.linspace(wide / 400, wide * 399 / 400, 399):
        q = (1 - exp(t - wide)) / (exp(t) - exp(t - wide))
        p, other = np.log([q * exp(t), 1 - q * exp(t)]), np.log([q, 1 - q])
        worst = max(worst, divergence(p, other, float(order)), divergence(other, p, float(order)))
    assert worst <= bound * (1 + 1e-9)
    random = np.random.default_rng(5)
    for _ in range(50):
        scores = random.normal(size=7) * 3
        moved = scores + random.uniform(0, wide, size=7)
        p, q = (each - logsumexp(each) for each in (scores, moved))
        assert divergence(p, q, float(order)) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("order", ORDERS[:4], ids=str)
@pytest.mark.parametrize("sigma", [0.8, 3.0])
def test_gaussian_noise_is_alpha_rho(order: Fraction, sigma: float) -> None:
    rho = Fraction(1 / (2 * sigma**2))
    found = renyi.of_event(order, gaussian.event_of(conversions.gaussian(rho, Fraction(0))))
    assert order * rho <= found <= order * rho * (1 + Fraction(1, 2**60))
    at = np.arange(-400, 401)
    q = -(at**2) / (2 * sigma**2)
    p = -((at - 1) ** 2) / (2 * sigma**2)
    assert divergence(p - logsumexp(p), q - logsumexp(q), float(order)) <= float(found) * (1 + 1e-9)


def test_what_only_has_a_delta_adds_nothing() -> None:
    (event,) = threshold(Fraction(1, 10**9))
    assert [renyi.of_event(order, event) for order in ORDERS] == [0] * len(ORDERS)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_of_an_earlier_charge_the_least_that_its_numbers_say(order: Fraction) -> None:
    both = conversions.pure(Fraction(1)) + conversions.choice(Fraction(1, 2))
    found = renyi.of_event(order, of_loss(both))
    assert found <= min(order * both.rho, renyi.of_pure(order, Fraction(3, 2))) * (1 + Fraction(1, 2**60))
    apart = renyi.of_pure(order, Fraction(1)) + renyi.of_event(order, conversions.CHOICE.event(Fraction(1, 2)))
    assert found >= apart * (1 - Fraction(1, 2**50)) or found >= order * both.rho
    noise = conversions.gaussian(Fraction(1, 9), Fraction(0))
    assert renyi.of_event(order, of_loss(both + noise)) >= order * (both.rho + noise.rho)


@SOME
@given(
    orders, st.sampled_from(sorted(KINDS)), st.integers(1, 20), st.fractions(Fraction(1, 10), 50, max_denominator=20)
)
def test_no_kind_adds_more_than_its_loss_says(order: Fraction, name: str, l1: int, scale: Fraction) -> None:
    """Knowledge of a kind only makes its loss less; and it is never nothing where a loss is."""
    kind = KINDS[name]
    values = {"l1": Fraction(l1), "scale": scale, "most": Fraction(9), "delta": Fraction(1, 10**9)}
    rho = conversions.pure(l1 / scale).rho
    losses = {"epsilon": l1 / scale, "epsilon_squared": (l1 / scale) ** 2, "rho": rho, "mu_squared": 5 * rho}
    event = kind.event(*(({**values, **losses})[number] for number in kind.numbers))
    found, plain = (
        renyi.of_event(order, event),
        renyi.of_event(order, Event(Kind("plain", kind.numbers, kind.loss), event.values)),
    )
    assert found <= plain
    assert (found > 0) == (event.loss.rho > 0)


# --- the total ----------------------------------------------------------------------------------------------------


def epsilon_of(order: float, divergence: float, delta: float) -> float:
    return divergence + log(1 - 1 / order) - log(delta * order) / (order - 1)


@pytest.mark.parametrize("delta", ["1e-12", "1e-6", "0.01"])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "8", "300"])
def test_what_a_total_admits_is_what_converts_to_it(epsilon: str, delta: str) -> None:
    total = EpsilonDelta(Fraction(epsilon), Fraction(delta))
    order = best_order(total)
    assert order > 1
    most = float(largest_renyi(total, order))
    assert epsilon_of(float(order), most, float(delta)) == pytest.approx(float(epsilon), rel=1e-9)
    # at its best order it admits as much Gaussian noise as zcdp does at its own, but for the order's digits
    assert float(largest_rho(total)) * 0.99 <= most / float(order) <= float(largest_rho(total)) * (1 + 1e-9)
    for other in ORDERS:
        found = float(largest_renyi(total, other))
        assert found == pytest.approx(
            max(0.0, float(epsilon) - epsilon_of(float(other), 0, float(delta))), rel=1e-9, abs=1e-12
        )


@pytest.mark.parametrize("total", [EpsilonDelta(Fraction(1), Fraction(0)), EpsilonDelta(Fraction(0), Fraction(1, 9))])
def test_a_total_of_nothing_admits_nothing(total: EpsilonDelta) -> None:
    assert largest_renyi(total, best_order(total)) == 0


@pytest.mark.parametrize("order", [2.0, 7.125, 32.0])
def test_another_library_agrees(order: float) -> None:
    """dp_accounting: Gaussian noise exactly, and what converts; of its continuous Laplace noise ours is near, and above."""
    pytest.importorskip("dp_accounting")
    import dp_accounting
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant([order])
    accountant.compose(dp_accounting.GaussianDpEvent(2.0), 3)
    spent = 3 * float(
        renyi.of_event(Fraction(order), gaussian.event_of(conversions.gaussian(Fraction(1, 8), Fraction(0))))
    )
    assert accountant.get_epsilon(1e-6) == pytest.approx(epsilon_of(order, spent, 1e-6), rel=1e-9)
    continuous = rdp.RdpAccountant([order])
    continuous.compose(dp_accounting.LaplaceDpEvent(10.0))
    ours = float(renyi.of_discrete_laplace(Fraction(order), Fraction(10**6), Fraction(10**7)))
    theirs = continuous.get_epsilon(1e-6) - epsilon_of(order, 0, 1e-6)
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert float(renyi.of_discrete_laplace(Fraction(order), Fraction(1), Fraction(10))) > theirs


def test_a_loss_without_an_epsilon_is_infinite_nowhere() -> None:
    event = WITH_EPSILON.event(1, 0, 1, Fraction(1, 2), 2)
    assert renyi.of_event(Fraction(2), event) < inf and isinstance(event.loss, PrivacyLoss)
    assert laplace.EVENT.renyi is renyi.of_discrete_laplace and truncated.EVENT.renyi is not None
    assert DiscreteLaplace(Fraction(10)).event(1, event.loss).kind is laplace.EVENT
