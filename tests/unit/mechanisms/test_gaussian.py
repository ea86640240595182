from __future__ import annotations

import time
from decimal import Decimal, localcontext
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from series import DIGITS, both_sides_of_sum, tail, weights

from dpsql.loss import PrivacyLoss
from dpsql.mechanisms.gaussian import DiscreteGaussian, largest_rho
from dpsql.mechanisms.gaussian_tail import upper_tail
from dpsql.mechanisms.rounding import drawn_sigma

LEVELS = [Fraction(0), Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(99, 100), Fraction(999, 1000)]
LOSSES = [
    (Fraction(e), Fraction(1, d)) for e in (Fraction(1, 1000), Fraction(1), Fraction(50)) for d in (20, 10**6, 10**40)
]


@pytest.mark.parametrize(("epsilon", "delta"), LOSSES, ids=str)
def test_rho_is_the_largest_that_the_conversion_allows(epsilon: Fraction, delta: Fraction) -> None:
    def converted(rho: Fraction) -> Decimal:
        exact = Decimal(rho.numerator) / rho.denominator
        return exact + 2 * (exact * -(Decimal(delta.numerator) / delta.denominator).ln()).sqrt()

    rho = largest_rho(PrivacyLoss(epsilon, delta))
    with localcontext(DIGITS):
        assert (
            converted(rho)
            <= Decimal(epsilon.numerator) / epsilon.denominator
            < converted(rho * (1 + Fraction(1, 2**48)))
        )
    assert rho.numerator.bit_length() <= 52


@pytest.mark.parametrize("l2_squared", [1, 3, 10**12])
def test_sigma_is_exactly_what_rho_needs(l2_squared: int) -> None:
    loss = PrivacyLoss(Fraction(1), Fraction(1, 10**6))
    assert DiscreteGaussian.for_loss(l2_squared, loss).rho(l2_squared) == largest_rho(loss)


@pytest.mark.parametrize(("l2_squared", "epsilon", "delta"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_without_sensitivity_epsilon_or_delta_there_is_no_noise(l2_squared: int, epsilon: int, delta: int) -> None:
    with pytest.raises(ValueError, match="above zero"):
        DiscreteGaussian.for_loss(l2_squared, PrivacyLoss(Fraction(epsilon), Fraction(delta, 100)))


@pytest.mark.parametrize(
    "sigma",
    [Fraction(3, 10), Fraction(1), Fraction(2), Fraction(7, 2), Fraction(31), Fraction(35), Fraction(200)],
    ids=str,
)
def test_tail_is_the_series_and_never_below_it(sigma: Fraction) -> None:
    points = weights("gaussian", drawn_sigma(sigma**2), int(27 * sigma) + 20)
    near_the_switch = (int(sigma**2 / 10), int(sigma**2 / 10) + 1)
    for m in {1, 2, 5, int(sigma) + 1, int(3 * sigma) + 1, int(8 * sigma) + 1, *near_the_switch} - {0}:
        ratio = DiscreteGaussian(sigma**2).tail(m) / tail(points, m)
        assert 1 - Fraction(1, 10**40) <= ratio <= 1 + Fraction(1, 10**12)


def test_the_two_ways_to_sum_a_tail_agree_where_they_meet() -> None:
    for m in (1, 30, 60, 100):
        assert (
            abs(float(upper_tail(Fraction(32**2), m) / upper_tail(Fraction(32**2) - Fraction(1, 10**20), m)) - 1)
            < 1e-12
        )


@pytest.mark.parametrize("sigma", [10**5, 10**9, 2**52])
def test_tail_of_a_wide_one_is_the_continuous_tail(sigma: int) -> None:
    for x in (0.1, 1.0, 2.9, 3.1, 8.0, 30.0):
        m = int(x * sigma)
        assert float(upper_tail(Fraction(sigma) ** 2, m)) == pytest.approx(norm.sf((m - 0.5) / sigma), rel=1e-8, abs=0)


@settings(max_examples=50, deadline=None)
@given(st.fractions(Fraction(1, 10), 10**9), st.integers(-(10**6), 10**6))
def test_tail_falls_and_the_two_sides_add_up(variance: Fraction, m: int) -> None:
    noise = DiscreteGaussian(variance)
    assert noise.tail(m) * (1 + Fraction(1, 10**12)) >= noise.tail(m + 1)
    assert 1 <= noise.tail(m) + noise.tail(1 - m) <= 1 + Fraction(3, 10**12)


def test_extreme_tails_are_still_upper_bounds() -> None:
    assert 0 < DiscreteGaussian(Fraction(1)).tail(10**12) < Fraction(1, 10**999)
    assert 0 < DiscreteGaussian(Fraction(1, 10**60)).tail(1) < Fraction(1, 10**999)
    assert DiscreteGaussian(Fraction(1)).tail(-(10**12)) == 1


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize(
    "sigma", [Fraction(3, 10), Fraction(1), Fraction(19, 10), Fraction(2), Fraction(7, 2), Fraction(100, 3)], ids=str
)
def test_half_width_of_a_sum_against_convolution(sigma: Fraction, copies: int) -> None:
    outside = both_sides_of_sum(weights("gaussian", sigma, int(12 * sigma) + 20), copies)
    for level in LEVELS:
        exact = int(np.argmax(outside <= float(1 - level) + 1e-14))
        assert DiscreteGaussian(sigma**2).half_width_of_sum(copies, level) == exact


def test_half_width_of_a_large_scale_is_the_continuous_one() -> None:
    for copies in (1, 2, 3):
        width = DiscreteGaussian(Fraction(10**18)).half_width_of_sum(copies, Fraction(95, 100))
        assert width / 1e9 == pytest.approx(norm.ppf(0.975) * sqrt(copies), abs=2e-9)


def test_half_width_is_quick() -> None:
    started = time.perf_counter()
    for sigma in range(10**9, 10**9 + 100):
        DiscreteGaussian(Fraction(sigma**2)).half_width_of_sum(2, Fraction(95, 100))
    assert time.perf_counter() - started < 1


def test_noise_covers_its_own_loss_and_nothing_less() -> None:
    loss = PrivacyLoss(Fraction(1), Fraction(1, 10**6))
    noise = DiscreteGaussian.for_loss(9, loss)
    assert noise.covers(5, 9, loss)
    assert not noise.covers(5, 10, loss)
    assert not noise.covers(5, 9, PrivacyLoss(Fraction(99, 100), loss.delta))
    assert not noise.covers(5, 9, PrivacyLoss(Fraction(1), loss.delta / 2))
    assert not noise.covers(5, 9, PrivacyLoss(Fraction(1), Fraction(0)))


def test_description() -> None:
    assert DiscreteGaussian(Fraction(144)).describe() == "discrete Gaussian, sigma 12"
