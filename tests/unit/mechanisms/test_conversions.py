from __future__ import annotations

import time
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import log10, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.mechanisms import bounds, reach
from dpsql.mechanisms.conversions import (
    NO_PROMISE,
    approximate,
    choice,
    epsilon_at_least_rho,
    epsilon_at_most_mu,
    epsilon_at_most_rho,
    gaussian,
    pure,
    rho_at_most,
    together,
)
from dpsql.mechanisms.reach import largest_mu_squared, largest_rho, largest_squares

EPSILONS = [Fraction(text) for text in ("1e-13", "1e-9", "0.001", "0.1", "0.7", "1", "3", "12", "40", "300", "599.9")]
DELTAS = [Fraction(1, 10**300), Fraction(1, 10**50), Fraction(1, 10**9), Fraction(1, 10**6), Fraction(1, 100)]
TOTALS = [EpsilonDelta(Fraction(e), Fraction(1, 10**d)) for e, d in ((1, 6), (1, 9), (2, 6), (4, 6), (8, 6))]
TOTALS.append(EpsilonDelta(Fraction(1, 2), Fraction(1, 10**6)))

MODEST = settings(max_examples=100, deadline=None, derandomize=True, database=None)

prices = st.decimals(Decimal("0.000001"), Decimal("50"), places=6).map(Fraction)
amounts = st.fractions(Fraction(1, 10**9), Fraction(4000), max_denominator=10**12)
losses = st.builds(
    PrivacyLoss,
    prices,
    st.fractions(0, Fraction(1, 1000), max_denominator=10**12),
    prices,
    prices,
    prices,
)


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 200, -(10**6), 10**6
        yield


@lru_cache
def pi() -> Decimal:
    """Machin's formula."""
    with localcontext() as context:
        context.prec = 1100
        return 4 * (4 * arc_tangent(5) - arc_tangent(239))


def arc_tangent(cotangent: int) -> Decimal:
    terms = int(1100 / log10(cotangent**2)) + 1
    return sum(
        (Decimal((-1) ** k) / (2 * k + 1) / Decimal(cotangent) ** (2 * k + 1) for k in range(terms)),
        Decimal(0),
    )


def decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / number.denominator


def below(x: Decimal) -> Decimal:
    """Phi(x) for |x| <= 40, by its series at zero, with digits enough to subtract."""
    with localcontext() as context:
        context.prec = 200 + int(x * x / 2)
        term, found, odd = x, x, 1
        while abs(term) > Decimal(10) ** -(190 + int(x * x / 4)):
            odd += 2
            term *= x * x / odd
            found += term
        return Decimal("0.5") + (-x * x / 2).exp() / (2 * pi()).sqrt() * found


def price_of(epsilon: Fraction) -> Decimal:
    """epsilon tanh(epsilon / 2)."""
    e = decimal(epsilon)
    return e * (e.exp() - 1) / (e.exp() + 1)


def odds_of(z: Decimal) -> Decimal:
    """The epsilon of g(epsilon) = z."""
    return (below(z) / below(-z)).ln()


def gdp_delta(epsilon: Fraction, mu: Decimal) -> Decimal:
    e = decimal(epsilon)
    return below(-e / mu + mu / 2) - e.exp() * below(-e / mu - mu / 2)


def zcdp_log_delta(epsilon: Fraction, rho: Decimal, beyond: Decimal) -> Decimal:
    alpha = 1 + beyond
    return beyond * (alpha * rho - decimal(epsilon)) - beyond.ln() - alpha * (alpha / beyond).ln()


# Losses


@pytest.mark.parametrize("epsilon", EPSILONS, ids=float)
def test_rule_26_a_pure_loss_is_rounded_up_and_little(epsilon: Fraction) -> None:
    loss = pure(epsilon, Fraction(1, 10**7))
    assert (loss.epsilon, loss.delta, loss.squares) == (epsilon, Fraction(1, 10**7), epsilon**2)
    assert 0 <= decimal(loss.rho) / price_of(epsilon) - 1 < Decimal(2) ** -62
    z = decimal(loss.mu_squared).sqrt() / 2
    if z < 18:
        assert odds_of(z * (1 - Decimal(10) ** -18)) < decimal(epsilon) <= odds_of(z)
    for part in (loss.rho, loss.mu_squared):
        assert part.numerator.bit_length() <= 64 or part.denominator == 1
        assert part.denominator & (part.denominator - 1) == 0


@pytest.mark.parametrize("epsilon", EPSILONS, ids=float)
def test_rule_26_a_choice_costs_less_than_what_is_only_pure(epsilon: Fraction) -> None:
    loss = choice(epsilon)
    assert (loss.epsilon, loss.delta, loss.squares) == (epsilon, Fraction(0), epsilon**2)
    assert epsilon**2 / 8 <= loss.rho <= epsilon**2 / 8 * (1 + Fraction(1, 2**62))
    assert loss.mu_squared == pure(epsilon / 2).mu_squared < pure(epsilon).mu_squared
    assert loss.rho < loss.mu_squared / 2 or epsilon > 3


def test_rule_26_no_constant_of_the_continuous_laplace_is_charged() -> None:
    assert float(pure(Fraction(1)).rho) == pytest.approx(0.46211715726)
    assert float(pure(Fraction(1)).rho) > 1 + np.exp(-1) - 1
    assert float(choice(Fraction(1)).mu_squared) ** 0.5 == pytest.approx(0.624, abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 15.0])
def test_rule_26_randomised_response_is_within_the_pure_loss(epsilon: float) -> None:
    """Renyi divergences of the worst epsilon-DP mechanism, and its trade-off at every error."""
    loss, p = pure(Fraction(epsilon)), 1 / (1 + np.exp(-epsilon))
    alpha = 1 + np.logspace(-3, 4, 2000)
    log_mean = np.logaddexp(
        alpha * np.log(p) + (1 - alpha) * np.log(1 - p), alpha * np.log(1 - p) + (1 - alpha) * np.log(p)
    )
    assert np.all(log_mean / (alpha - 1) <= alpha * float(loss.rho) * (1 + 1e-6))
    a = np.linspace(1e-9, 1 - 1e-9, 5001)
    corner = np.maximum(1 - np.exp(epsilon) * a, np.exp(-epsilon) * (1 - a))
    assert np.all(norm.cdf(norm.isf(a) - sqrt(loss.mu_squared)) <= corner + 1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 15.0])
def test_rule_26_every_mechanism_of_bounded_range_is_within_the_loss_of_a_choice(epsilon: float) -> None:
    """Log-likelihood ratios t and t - epsilon, for all t in between."""
    loss = choice(Fraction(epsilon))
    t = np.linspace(0, epsilon, 20001)[1:-1]
    a, b = np.expm1(t) / np.expm1(epsilon), np.expm1(epsilon - t) / np.expm1(epsilon)
    needed = norm.isf(a) + norm.isf(b)
    assert np.max(needed) == pytest.approx(sqrt(loss.mu_squared), rel=1e-9)
    assert np.all(needed <= sqrt(loss.mu_squared) * (1 + 1e-9))
    p = 1 - a
    for alpha in (1.0001, 1.1, 2.0, 5.0, 50.0):
        log_mean = np.logaddexp(np.log(a) + alpha * (epsilon - t), np.log(p) - alpha * t)
        assert np.max(log_mean / (alpha - 1)) <= alpha * float(loss.rho) * (1 + 1e-6) + 1e-9


def test_rule_26_a_gaussian_has_no_epsilon_unless_it_is_charged_by_one() -> None:
    rho, delta = Fraction(1, 7), Fraction(1, 10**12)
    assert gaussian(rho, delta) == PrivacyLoss(None, delta, None, rho, 2 * rho)
    loss = EpsilonDelta(Fraction(1, 3), Fraction(1, 10**6))
    assert approximate(loss, rho) == PrivacyLoss(loss.epsilon, loss.delta, Fraction(1, 9), rho, 2 * rho)


def test_nothing_is_lost_at_epsilon_zero() -> None:
    assert pure(Fraction(0)) == choice(Fraction(0)) == PrivacyLoss(*[Fraction(0)] * 5)


@pytest.mark.parametrize("loss", [pure, choice])
def test_a_negative_epsilon_is_none(loss: object) -> None:
    assert callable(loss)
    with pytest.raises(ValueError, match="at least 0"):
        loss(Fraction(-1))


@pytest.mark.parametrize("epsilon", [601, 10**4, 10**30])
def test_losses_of_a_large_epsilon_are_bounds_too(epsilon: int) -> None:
    loss = pure(Fraction(epsilon))
    assert epsilon <= loss.rho <= epsilon * (1 + Fraction(1, 2**62))
    assert pure(Fraction(599)).mu_squared < loss.mu_squared <= 8 * epsilon * (1 + Fraction(1, 2**62))


@MODEST
@given(prices, prices)
def test_losses_grow_with_epsilon(one: Fraction, other: Fraction) -> None:
    small, large = sorted((one, other))
    for loss in (pure, choice):
        assert loss(small).rho <= loss(large).rho
        assert loss(small).mu_squared <= loss(large).mu_squared
    assert rho_at_most(small) <= rho_at_most(large)


@pytest.mark.parametrize("x", ["-8", "-3", "-1e-20", "0", "1e-60", "1e-9", "0.5", "2.9", "4.99", "5", "7", "20", "35"])
def test_bounds_of_mills_ratio(x: str) -> None:
    exact = below(-Decimal(x)) * (2 * pi()).sqrt() * (Decimal(x) ** 2 / 2).exp()
    with localcontext(bounds.DIGITS):
        low, high = bounds.mills(Decimal(x))
        assert high / low < 1 + Decimal("1e-35")
    assert low <= exact <= high


@MODEST
@given(st.fractions(-(10**9), 10**9, max_denominator=10**30), st.integers(-200, 200))
def test_rounding_is_directed_and_short(number: Fraction, power: int) -> None:
    value = number * Fraction(2) ** power
    low, high = bounds.down(value), bounds.up(value)
    assert low <= value <= high
    assert high - low <= abs(value) / 2**62
    assert low == bounds.down(low) == bounds.up(low)


# Groups


def test_rule_30_a_group_of_k_loses_k_epsilon_and_k_squared_rho() -> None:
    loss = pure(Fraction(1, 2), Fraction(1, 10**9))
    group = together(loss, 3)
    assert group.epsilon == Fraction(3, 2)
    assert (group.squares, group.rho, group.mu_squared) == (Fraction(9, 4), 9 * loss.rho, 9 * loss.mu_squared)
    half = decimal(Fraction(1, 2)).exp()
    exact = (1 + half + half**2) / 10**9
    assert exact <= decimal(group.delta) <= exact * (1 + Decimal(2) ** -60)


@MODEST
@given(losses, st.integers(1, 30))
def test_rule_30_the_delta_of_a_group_is_the_sum_of_what_each_step_adds(loss: PrivacyLoss, people: int) -> None:
    assert loss.epsilon is not None
    group, step = together(loss, people), decimal(loss.epsilon).exp()
    exact = sum(decimal(loss.delta) * step**i for i in range(people))
    assert group.delta == NO_PROMISE or exact <= decimal(group.delta) <= exact * (1 + Decimal(2) ** -50)
    assert group.delta < NO_PROMISE or exact >= Decimal("0.5")


@pytest.mark.few(9)
@pytest.mark.parametrize("rho", [Fraction(1, 10**12), Fraction(1, 100), Fraction(1, 2), Fraction(4)])
@pytest.mark.parametrize("people", [2, 3, 10, 10**6])
def test_rule_30_without_an_epsilon_delta_grows_as_events_do_under_rho(rho: Fraction, people: int) -> None:
    """Step by step, an event of probability a has at most Phi(Phi^-1(a) + mu), and delta is added."""
    delta = together(gaussian(rho, Fraction(1, 10**9)), people).delta
    needed = 1e-9
    for _ in range(min(people, 1000) - 1):
        needed = min(1 - 1e-12, 1e-9 + norm.cdf(norm.ppf(needed) + sqrt(2 * rho)))
    assert float(delta) >= needed * (1 - 1e-9)
    left = max(0.0, sqrt(9 * np.log(10)) - (people - 1) * sqrt(rho))
    assert float(delta) == pytest.approx(min(1.0, people * np.exp(-(left**2))), rel=1e-9)
    assert delta <= NO_PROMISE
    assert together(gaussian(rho, Fraction(0)), people).delta == 0


def test_rule_30_one_person_is_no_group_and_nobody_an_error() -> None:
    loss = gaussian(Fraction(1), Fraction(1, 10**6))
    assert together(loss, 1) == loss
    with pytest.raises(ValueError, match="at least one"):
        together(loss, 0)


def test_rule_30_nothing_is_promised_where_delta_would_reach_one() -> None:
    assert together(pure(Fraction(1), Fraction(1, 10**6)), 20).delta == NO_PROMISE
    assert together(gaussian(Fraction(9), Fraction(1, 10**6)), 5).delta == NO_PROMISE
    assert together(pure(Fraction(1000), Fraction(1, 10**6)), 10**9).delta == NO_PROMISE
    assert together(pure(Fraction(0), Fraction(1, 10)), 3).delta == pytest.approx(Fraction(3, 10), rel=1e-15)


# Prices


@MODEST
@given(prices)
def test_a_gaussian_of_a_price_costs_no_more_than_the_worst_of_that_epsilon(epsilon: Fraction) -> None:
    rho = rho_at_most(epsilon)
    assert 0 <= 1 - decimal(rho) / price_of(epsilon) < Decimal(2) ** -48
    assert rho <= pure(epsilon).rho
    assert rho.numerator.bit_length() <= 50


@MODEST
@given(prices)
def test_prices_come_back(epsilon: Fraction) -> None:
    assert epsilon_at_most_rho(pure(epsilon).rho) == epsilon
    assert epsilon_at_most_mu(pure(epsilon).mu_squared) == epsilon
    assert epsilon_at_most_rho(rho_at_most(epsilon)) <= epsilon


@MODEST
@given(st.integers(1, 9999), st.integers(-9, 2))
def test_what_a_gaussian_costs_is_shown_as_it_was_written(digits: int, power: int) -> None:
    epsilon = digits * Fraction(10) ** power
    assert epsilon_at_least_rho(rho_at_most(epsilon)) == epsilon


@MODEST
@given(amounts)
def test_the_largest_epsilon_of_a_rho(rho: Fraction) -> None:
    epsilon = epsilon_at_most_rho(rho)
    assert rho_at_most(epsilon) <= rho
    assert price_of(epsilon) <= decimal(rho) < price_of(epsilon + last_digit(epsilon, 12))


@MODEST
@given(amounts)
def test_the_largest_epsilon_of_a_mu(mu_squared: Fraction) -> None:
    epsilon = epsilon_at_most_mu(mu_squared)
    assert pure(epsilon).mu_squared <= mu_squared < pure(epsilon + last_digit(epsilon, 12)).mu_squared


@MODEST
@given(amounts)
def test_the_smallest_epsilon_of_a_rho(rho: Fraction) -> None:
    epsilon, slack = epsilon_at_least_rho(rho), 1 - Decimal(2) ** -40
    step = last_digit(epsilon, 6)
    assert price_of(epsilon) >= decimal(rho) * slack
    assert price_of(epsilon - step) < decimal(rho) * slack


def last_digit(number: Fraction, digits: int) -> Fraction:
    return Fraction(10) ** (Decimal(decimal(number)).adjusted() - digits + 1)


@pytest.mark.parametrize("convert", [epsilon_at_most_rho, epsilon_at_most_mu, epsilon_at_least_rho, rho_at_most])
def test_nothing_costs_nothing(convert: object) -> None:
    assert callable(convert)
    assert convert(Fraction(0)) == convert(Fraction(-1)) == 0


@pytest.mark.parametrize("power", [-400, -300, -100, -40, -24, -20, -12, 3, 5, 20, 400])
def test_prices_of_any_size(power: int) -> None:
    amount = Fraction(10) ** power * Fraction(7, 3)
    for epsilon in (epsilon_at_most_rho(amount), epsilon_at_least_rho(amount)):
        assert epsilon > 0
    assert rho_at_most(epsilon_at_most_rho(amount)) <= amount <= pure(epsilon_at_least_rho(amount)).rho
    epsilon = epsilon_at_most_mu(amount)
    assert pure(epsilon).mu_squared <= amount < pure(epsilon * (1 + Fraction(1, 10**9))).mu_squared


@pytest.mark.parametrize("mu_squared", [4750, 4760, 4770, 4790, 4799, 4800, 4801, 5000])
def test_prices_where_the_bound_of_a_large_epsilon_begins(mu_squared: int) -> None:
    epsilon = epsilon_at_most_mu(Fraction(mu_squared))
    assert 590 < epsilon <= 625
    assert pure(epsilon).mu_squared <= mu_squared < pure(epsilon + Fraction(1, 1000)).mu_squared


# Totals


@pytest.mark.parametrize(
    ("total", "rho", "mu"),
    [
        (TOTALS[0], 0.024356, 0.23670),
        (TOTALS[1], 0.014973, 0.18197),
        (TOTALS[2], 0.088153, 0.44833),
        (TOTALS[3], 0.311065, 0.83786),
        (TOTALS[4], 1.052, 1.532),
        (TOTALS[5], 0.006642, 0.12411),
    ],
)
def test_known_totals(total: EpsilonDelta, rho: float, mu: float) -> None:
    """They are known to 4 to 6 digits."""
    assert abs(float(largest_rho(total)) - rho) < (1e-6 if rho < 1 else 1e-3)
    assert abs(sqrt(largest_mu_squared(total)) - mu) < (1e-5 if mu < 1 else 1e-3)


@pytest.mark.few(9)
@pytest.mark.parametrize("delta", DELTAS, ids=float)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1, 100), Fraction(1), Fraction(9), Fraction(300)])
def test_the_mu_of_a_total_keeps_it_and_is_the_largest(epsilon: Fraction, delta: Fraction) -> None:
    mu = decimal(largest_mu_squared(EpsilonDelta(epsilon, delta))).sqrt()
    assert gdp_delta(epsilon, mu) <= decimal(delta) < gdp_delta(epsilon, mu * (1 + Decimal("1e-15")))


@pytest.mark.parametrize("delta", DELTAS, ids=float)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1, 100), Fraction(1), Fraction(9), Fraction(1000)])
def test_the_rho_of_a_total_keeps_it_and_is_the_largest(epsilon: Fraction, delta: Fraction) -> None:
    """It is allowed at one order alpha; a little more is at none of those near it."""
    rho, log_delta = decimal(largest_rho(EpsilonDelta(epsilon, delta))), decimal(delta).ln()
    best = reach._best_order(float(epsilon), float(log_delta))
    assert zcdp_log_delta(epsilon, rho, Decimal(best)) <= log_delta
    for factor in np.logspace(-1, 1, 41):
        assert zcdp_log_delta(epsilon, rho * (1 + Decimal("1e-13")), Decimal(best * factor)) > log_delta


@MODEST
@given(st.floats(-9, 3), st.integers(-300, -1), st.fractions(1, 5, max_denominator=100))
def test_a_gaussian_may_spend_no_less_by_its_exact_conversion(e: float, power: int, first: Fraction) -> None:
    total = EpsilonDelta(Fraction(10**e), first * Fraction(10) ** power)
    rho, mu_squared, squares = largest_rho(total), largest_mu_squared(total), largest_squares(total)
    assert 0 < 2 * rho <= mu_squared
    assert squares > 0
    for part in (rho, mu_squared, squares):
        assert part.numerator.bit_length() <= 64 or part.denominator == 1


@MODEST
@given(st.floats(-4, 2), st.floats(-12, -0.31))
def test_totals_agree_with_floats(e: float, d: float) -> None:
    epsilon, delta = 10**e, 10**d
    total = EpsilonDelta(Fraction(epsilon), Fraction(delta))

    def excess(log_mu: float) -> float:
        mu = np.exp(log_mu)
        left, right = norm.logcdf(-epsilon / mu + mu / 2), epsilon + norm.logcdf(-epsilon / mu - mu / 2)
        return float(left + np.log(-np.expm1(right - left)) - np.log(delta))

    around = np.log(float(largest_mu_squared(total))) / 2
    mu = np.exp(brentq(excess, around - 0.5, around + 0.5))
    assert sqrt(largest_mu_squared(total)) == pytest.approx(mu, rel=1e-6)
    x = np.linspace(-8, np.log(-4 * np.log(delta) / epsilon) + 6, 20001)
    beyond = np.exp(x)
    rho = (epsilon + (np.log(delta) + x + (1 + beyond) * np.log1p(1 / beyond)) / beyond) / (1 + beyond)
    assert float(largest_rho(total)) == pytest.approx(np.max(rho), rel=1e-5)


def test_totals_agree_with_another_library() -> None:
    accounting = pytest.importorskip("dp_accounting")
    for total in TOTALS:
        sigma = accounting.get_sigma_gaussian(float(total.epsilon), float(total.delta), tol=1e-9)
        assert sqrt(largest_mu_squared(total)) == pytest.approx(1 / sigma, rel=1e-6)


@pytest.mark.parametrize("total", [*TOTALS, EpsilonDelta(Fraction(1000), Fraction(1, 2))], ids=str)
def test_the_squares_of_a_total(total: EpsilonDelta) -> None:
    squares, missing = decimal(largest_squares(total)), -decimal(total.delta).ln()

    def reached(amount: Decimal) -> Decimal:
        return (2 * missing * amount).sqrt() + amount / 2

    assert reached(squares) <= decimal(total.epsilon) < reached(squares * (1 + Decimal(2) ** -60))


@MODEST
@given(prices, prices, st.integers(1, 40), st.integers(1, 40))
def test_a_larger_total_allows_more(one: Fraction, other: Fraction, d: int, f: int) -> None:
    small, large = sorted((one, other))
    less, more = EpsilonDelta(small, Fraction(1, 10 ** max(d, f))), EpsilonDelta(large, Fraction(1, 10 ** min(d, f)))
    for largest in (largest_rho, largest_mu_squared, largest_squares):
        assert largest(less) <= largest(more) * (1 + Fraction(1, 10**13))


@pytest.mark.parametrize("total", [EpsilonDelta(Fraction(1), Fraction(0)), EpsilonDelta(Fraction(0), Fraction(1, 10))])
def test_nothing_is_had_without_epsilon_or_delta(total: EpsilonDelta) -> None:
    assert largest_rho(total) == largest_mu_squared(total) == largest_squares(total) == 0


@pytest.mark.parametrize("epsilon", ["1e-40", "1e-29", "1e-15", "1e-9", "1000", "1e12"])
@pytest.mark.parametrize("delta", ["1e-3000", "1e-300", "0.5", "0.999999999999999999"])
def test_extreme_totals_are_sound_and_quick(epsilon: str, delta: str) -> None:
    total, start = EpsilonDelta(Fraction(epsilon), Fraction(delta)), time.perf_counter()
    rho, mu_squared, squares = largest_rho(total), largest_mu_squared(total), largest_squares(total)
    assert time.perf_counter() - start < 1
    assert 2 * rho <= mu_squared
    assert (rho > 0) == (squares > 0) == (total.epsilon > Fraction(1, 10**30))
    if total.delta < Fraction(1, 10**300):
        assert squares / 2 <= total.epsilon


@pytest.mark.parametrize("mu", ["0.3", "5"])
def test_a_wrong_guess_of_mu_is_noticed(monkeypatch: pytest.MonkeyPatch, mu: str) -> None:
    """Then GDP may reach what zCDP may."""
    monkeypatch.setattr(reach, "_mu_by_newton", lambda epsilon, delta, start: Decimal(mu))
    total = EpsilonDelta(Fraction(123, 100), Fraction(1, 10**7))
    assert largest_mu_squared.__wrapped__(total) == 2 * largest_rho(total)
