from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import exp, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms import conversions, gaussian
from dpsql.mechanisms.gaussian import TOTAL_VARIATION, DiscreteGaussian, rho_of_loss
from dpsql.mechanisms.gaussian_tail import upper_tail
from dpsql.mechanisms.rounding import drawn_sigma
from dpsql.mechanisms.threshold import delta_per_group, threshold
from tests.support.noise import RecordedNoise, SeededNoise, ZeroNoise
from tests.unit.mechanisms.series import DIGITS, both_sides_of_sum, tail, weights

LEVELS = [Fraction(0), Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(99, 100), Fraction(999, 1000)]
LOSSES = [
    (Fraction(e), Fraction(1, d)) for e in (Fraction(1, 1000), Fraction(1), Fraction(50)) for d in (20, 10**6, 10**40)
]
SMALL = [Fraction(3, 10), Fraction(1), Fraction(19, 10), Fraction(2), Fraction(7, 2)]


def rounded(sigma: float, reach: int) -> list[Decimal]:
    """P(Z = z) for z from 0 to reach: what a continuous Gaussian gives after rounding."""
    above = norm.sf((np.arange(reach + 2) - 0.5) / sigma)
    return [Decimal(low - high) for low, high in zip(above[:-1].tolist(), above[1:].tolist(), strict=True)]


class Coarse:
    """The exact distribution of noise whose grid has only three or four binary places, so that ties are likely."""

    def __init__(self, sigma: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gaussian, "_LEAST_SIGMA", 2**3)
        self.noise = DiscreteGaussian(sigma**2)
        self.places = next(k for k in range(100) if sigma * 2**k >= 8)
        points = weights("gaussian", sigma * 2**self.places, 400)
        whole = 2 * sum(map(Fraction, points)) - Fraction(points[0])
        self.likely: dict[int, Fraction] = {}
        for z in range(-400, 401):
            found = (z + 2 ** (self.places - 1)) // 2**self.places
            self.likely[found] = self.likely.get(found, Fraction(0)) + Fraction(points[abs(z)]) / whole

    def above(self, m: int) -> Fraction:
        """P(Z >= m)."""
        return sum((p for z, p in self.likely.items() if z >= m), Fraction(0))

    def below(self, m: int) -> Fraction:
        """P(Z <= m)."""
        return sum((p for z, p in self.likely.items() if z <= m), Fraction(0))


class Given(ZeroNoise):
    """A source that gives these draws."""

    def __init__(self, draws: Iterable[int]) -> None:
        self.draws = list(draws)

    def gaussian(self, sigma_squared: Fraction, size: int) -> list[int]:
        return self.draws[:size]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.fractions(Fraction(1, 10**30), 2**104, max_denominator=10**40))
def test_the_grid_is_as_fine_as_it_must_be_and_no_finer(sigma_squared: Fraction) -> None:
    recorded = RecordedNoise()
    assert DiscreteGaussian(sigma_squared).sample(recorded, 2) == [0, 0]
    ((_, drawn, size),) = recorded.drawn
    assert size == 2 and drawn >= 2**64
    assert drawn == sigma_squared or drawn < 2**66
    assert 1 <= drawn_sigma(drawn) ** 2 / drawn <= (1 + Fraction(1, 2**50)) ** 2
    assert drawn_sigma(drawn) <= 2**52 and (drawn / sigma_squared).denominator == 1


def test_a_wide_noise_is_drawn_on_whole_quanta() -> None:
    noise = DiscreteGaussian(Fraction(2**64))
    assert noise.sample(Given([5, -7, 0]), 3) == [5, -7, 0]
    assert noise.tail(1) == upper_tail(Fraction(2**64), 1)


@pytest.mark.parametrize(("sigma", "places"), [(Fraction(2**31), 1), (Fraction(14), 29), (Fraction(1, 3), 34)])
def test_draws_are_rounded_to_the_nearest_and_ties_up(sigma: Fraction, places: int) -> None:
    one, half = 2**places, 2 ** (places - 1)
    given_ = Given([0, half - 1, half, one, -half, -half - 1, -one, 7 * one + half - 1, -7 * one - half])
    assert DiscreteGaussian(sigma**2).sample(given_, 9) == [0, 0, 1, 1, 0, -1, -1, 7, -7]


def test_repeatable_noise_still_has_about_the_right_size() -> None:
    for sigma in (0.5, 3.0, 1e6):
        drawn = DiscreteGaussian(Fraction(sigma) ** 2).sample(SeededNoise(1), 20_000)
        assert np.std(drawn) == pytest.approx(sqrt(sigma**2 + 1 / 12), rel=0.05)


@pytest.mark.parametrize("sigma", [4, 5, 8, 16, 32, 64])
def test_the_distance_from_the_rounded_continuous_noise(sigma: int) -> None:
    """The bound is proved of all sigma, where it is large enough to be computed; and it is not far from the truth."""
    j = np.arange(-20 * sigma, 20 * sigma + 1)
    discrete = np.exp(-((j / sigma) ** 2) / 2)
    continuous = norm.cdf((j + 0.5) / sigma) - norm.cdf((j - 0.5) / sigma)
    found = np.abs(discrete / discrete.sum() - continuous).sum() / 2
    assert found <= (4 * norm.pdf(1) + 2 / sigma) / sigma**2 / 48
    assert 0.0198 / sigma**2 < found < 0.0202 / sigma**2 * (1 + 1 / sigma**2)
    assert float(TOTAL_VARIATION) * 2**64 > found * sigma**2


def test_the_stated_distance_at_the_least_sigma() -> None:
    with localcontext(DIGITS):
        root = (2 * Decimal(pi)).sqrt() * (1 - Decimal("1e-15"))
        heights = [(-Decimal(square) / 2).exp() / root for square in (0, 1, 3)]
        assert 4 * heights[1] < Decimal("0.968") and 2 * heights[0] + 8 * heights[2] < 2
        sigma = Decimal(2**32)
        proved = (Decimal("0.968") / sigma**2 + 2 / sigma**3) / 48 + Decimal("1e-1000")
        assert proved < 1 / (48 * sigma**2) < 1 / Decimal(2**69)
    assert Fraction(1, 2**69) == TOTAL_VARIATION


def over(likely: Callable[[int], float], epsilon: float) -> float:
    """The delta that noise with these probabilities has at epsilon when an integer moves by one."""
    return sum(max(0.0, likely(z) - exp(epsilon) * likely(z - 1)) for z in range(-60, 61))


@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0, 3.0])
def test_rounding_keeps_the_loss_of_the_continuous_noise(sigma: float) -> None:
    points = [float(p) for p in rounded(sigma, 70)]
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0):
        a, b = sigma * epsilon - 1 / (2 * sigma), sigma * epsilon + 1 / (2 * sigma)
        gdp = norm.sf(a) - exp(epsilon) * norm.sf(b)
        assert over(lambda z: points[abs(z)], epsilon) <= gdp + 1e-12


def test_noise_on_whole_quanta_would_not_have_that_loss() -> None:
    points = weights("gaussian", Fraction(1, 2), 70)
    whole = float(2 * sum(points) - points[0])
    gdp = norm.sf(0.5 - 1) - exp(1) * norm.sf(0.5 + 1)
    assert over(lambda z: float(points[abs(z)]) / whole, 1.0) > gdp + 0.05


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(20), Fraction(45)])
def test_what_the_approximation_adds_to_delta(epsilon: Fraction) -> None:
    with localcontext(DIGITS):
        exact = (1 + (Decimal(epsilon.numerator) / epsilon.denominator).exp()) / Decimal(2**69)
    for coordinates in (0, 1, 7):
        found = DiscreteGaussian.approximation_delta(coordinates, epsilon)
        assert coordinates * Fraction(exact) <= found <= coordinates * Fraction(exact) * (1 + Fraction(1, 2**29))


def test_the_approximation_says_nothing_at_a_large_epsilon() -> None:
    assert DiscreteGaussian.approximation_delta(1, Fraction(49)) == 1
    assert DiscreteGaussian.approximation_delta(1, Fraction(10**9)) == 1
    assert DiscreteGaussian.approximation_delta(0, Fraction(10**9)) == 0
    for coordinates, epsilon in ((-1, Fraction(1)), (1, Fraction(-1))):
        with pytest.raises(ValueError, match="at least 0"):
            DiscreteGaussian.approximation_delta(coordinates, epsilon)


@pytest.mark.parametrize("l2_squared", [1, 3, 10**12])
def test_noise_for_a_rho_has_exactly_that_rho(l2_squared: int) -> None:
    noise = DiscreteGaussian.for_rho(l2_squared, Fraction(3, 1000))
    assert noise.rho(l2_squared) == Fraction(3, 1000)
    for wrong in ((0, Fraction(1)), (-1, Fraction(1)), (1, Fraction(0))):
        with pytest.raises(ValueError, match="above zero"):
            DiscreteGaussian.for_rho(*wrong)


@pytest.mark.parametrize(("epsilon", "delta"), LOSSES, ids=str)
def test_rho_is_the_largest_that_the_conversion_allows(epsilon: Fraction, delta: Fraction) -> None:
    def converted(rho: Fraction) -> Decimal:
        exact = Decimal(rho.numerator) / rho.denominator
        return exact + 2 * (exact * -(Decimal(delta.numerator) / delta.denominator).ln()).sqrt()

    rho = rho_of_loss(EpsilonDelta(epsilon, delta))
    with localcontext(DIGITS):
        assert (
            converted(rho)
            <= Decimal(epsilon.numerator) / epsilon.denominator
            < converted(rho * (1 + Fraction(1, 2**48)))
        )
    assert rho.numerator.bit_length() <= 52


@pytest.mark.parametrize("l2_squared", [1, 3, 10**12])
def test_sigma_is_exactly_what_rho_needs(l2_squared: int) -> None:
    loss = EpsilonDelta(Fraction(1), Fraction(1, 10**6))
    assert DiscreteGaussian.for_loss(l2_squared, loss).rho(l2_squared) == rho_of_loss(loss)


@pytest.mark.parametrize(("l2_squared", "epsilon", "delta"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_without_sensitivity_epsilon_or_delta_there_is_no_noise(l2_squared: int, epsilon: int, delta: int) -> None:
    with pytest.raises(ValueError, match="above zero"):
        DiscreteGaussian.for_loss(l2_squared, EpsilonDelta(Fraction(epsilon), Fraction(delta, 100)))


@pytest.mark.parametrize(
    "sigma",
    [Fraction(3, 10), Fraction(1), Fraction(2), Fraction(7, 2), Fraction(31), Fraction(35), Fraction(200)],
    ids=str,
)
def test_tail_is_the_series_and_never_below_it(sigma: Fraction) -> None:
    points = weights("gaussian", drawn_sigma(sigma**2), int(27 * sigma) + 20)
    near_the_switch = (int(sigma**2 / 10), int(sigma**2 / 10) + 1)
    for m in {1, 2, 5, int(sigma) + 1, int(3 * sigma) + 1, int(8 * sigma) + 1, *near_the_switch} - {0}:
        ratio = upper_tail(drawn_sigma(sigma**2) ** 2, m) / tail(points, m)
        assert 1 - Fraction(1, 10**40) <= ratio <= 1 + Fraction(1, 10**12)


@pytest.mark.parametrize("sigma", [*SMALL, Fraction(200), Fraction(10**6)], ids=str)
def test_tail_of_the_noise_is_that_of_the_rounded_continuous_one(sigma: Fraction) -> None:
    noise = DiscreteGaussian(sigma**2)
    for m in {1, 2, 5, int(sigma) + 1, int(3 * sigma) + 1, int(8 * sigma) + 1}:
        exact = float(norm.sf((m - 0.5) / float(sigma)))
        assert exact * (1 - 1e-12) <= float(noise.tail(m)) <= exact * (1 + 2e-8)
        assert float(noise.tail(-m)) == pytest.approx(float(norm.sf((-m - 0.5) / float(sigma))), rel=1e-9)


@pytest.mark.parametrize("sigma", [Fraction(5, 16), Fraction(1), Fraction(7, 4), Fraction(4)], ids=str)
def test_tails_and_half_widths_with_ties(sigma: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = Coarse(sigma, monkeypatch)
    noise = exact.noise
    for m in range(1, 12):
        upper = exact.above(m)
        assert exact.below(-m) < upper
        if upper > Fraction(1, 10**20):
            assert 1 - Fraction(1, 10**40) <= noise.tail(m) / upper <= 1 + Fraction(1, 10**12)
    for level in LEVELS:
        h = noise.half_width(level)
        assert exact.above(h + 1) + exact.below(-h - 1) <= 1 - level
        assert h == 0 or 2 * exact.above(h) > 1 - level


@pytest.mark.parametrize("l0", [1, 2, 17])
@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(4)], ids=str)
def test_thresholds_with_ties(sigma: Fraction, l0: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of l0 groups of one unit is shown with probability 1 - (1 - P(1 + Z >= tau))^l0, equality included."""
    exact = Coarse(sigma, monkeypatch)
    for delta in (Fraction(1, 1000), Fraction(1, 10**6), Fraction(1, 10**9)):
        tau = threshold(exact.noise, l0, delta)
        assert 1 - (1 - exact.above(tau - 1)) ** l0 <= delta
        assert exact.above(tau - 2) > delta_per_group(l0, delta)


def test_a_threshold_at_equality() -> None:
    noise = DiscreteGaussian(Fraction(9))
    delta = noise.tail(9)
    assert threshold(noise, 1, delta) == 10
    assert threshold(noise, 1, delta * (1 - Fraction(1, 10**20))) == 11


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
    a_tie = Fraction(1, 10**10)
    assert 1 <= noise.tail(m) + noise.tail(1 - m) <= 1 + Fraction(3, 10**12) + a_tie


def test_extreme_tails_are_still_upper_bounds() -> None:
    assert 0 < DiscreteGaussian(Fraction(1)).tail(10**12) < Fraction(1, 10**999)
    assert 0 < DiscreteGaussian(Fraction(1, 10**60)).tail(1) < Fraction(1, 10**999)
    assert DiscreteGaussian(Fraction(1)).tail(-(10**12)) == 1


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("sigma", [*SMALL, Fraction(100, 3)], ids=str)
def test_half_width_of_a_sum_against_convolution(sigma: Fraction, copies: int) -> None:
    outside = both_sides_of_sum(rounded(float(sigma), int(12 * sigma) + 20), copies)
    for level in LEVELS:
        exact = int(np.argmax(outside <= float(1 - level) + 1e-14))
        assert DiscreteGaussian(sigma**2).half_width_of_sum(copies, level) == exact


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("sigma", [*SMALL, Fraction(39, 20), Fraction(21, 10), Fraction(3), Fraction(5)], ids=str)
def test_tail_of_a_sum_is_never_below_and_hardly_above(sigma: Fraction, copies: int) -> None:
    outside = both_sides_of_sum(rounded(float(sigma), int(30 * sigma) + 20), copies)
    above = DiscreteGaussian(sigma**2)._tail_of_sum(copies)
    for m in range(1, int(20 * sigma)):
        assert float(2 * above(m)) >= outside[m - 1] * (1 - 1e-12)
        if m < 5 * sigma:
            assert float(2 * above(m)) <= outside[m - 1] * 1.002


@pytest.mark.parametrize(
    "sigma", [Fraction(1, 10**400), Fraction(1, 10**6), Fraction(1, 5), Fraction(3, 2), Fraction(9)]
)
def test_a_half_width_at_an_extreme_level_is_an_upper_bound(sigma: Fraction) -> None:
    for copies in (1, 2, 3):
        width = DiscreteGaussian(sigma**2).half_width_of_sum(copies, 1 - Fraction(1, 10**100))
        assert 21 * sqrt(copies) * sigma - copies / 2 <= width <= 22 * sqrt(copies) * sigma + copies


@pytest.mark.parametrize("weights_", [(1.0,), (1.0, 1.0), (0.5, 2.0), (1.0, -1.0, 3.0), (0.1, 0.1, 0.1)], ids=str)
@pytest.mark.parametrize("sigma", [Fraction(1, 5), Fraction(3, 10), Fraction(1), Fraction(2)], ids=str)
def test_half_width_of_weights_against_enumeration(sigma: Fraction, weights_: tuple[float, ...]) -> None:
    reach = int(5 * sigma) + 2
    right = [float(p) for p in rounded(float(sigma), reach)]
    found = [
        (abs(sum(w * z for w, z in zip(weights_, draws, strict=True))), np.prod([right[abs(z)] for z in draws]))
        for draws in product(range(-reach, reach + 1), repeat=len(weights_))
    ]
    for level in LEVELS:
        width = DiscreteGaussian(sigma**2).half_width_of_weights(weights_, level)
        assert sum(p for size, p in found if size <= width + 1e-9) >= float(level) * (1 - 1e-5)


def test_quantiles_are_those_of_the_noise_when_rounded() -> None:
    points = (np.arange(1000) + 0.5) / 1000
    for sigma in (0.3, 2.0):
        found = np.rint(DiscreteGaussian(Fraction(sigma) ** 2).at(points))
        assert np.mean(found == 0) == pytest.approx(float(rounded(sigma, 0)[0]), abs=0.002)


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
    """By its rho and its mu; and by an epsilon with a delta, where it is charged that too."""
    price = EpsilonDelta(Fraction(1), Fraction(1, 10**6))
    noise = DiscreteGaussian.for_loss(9, price)
    for loss in (conversions.gaussian(noise.rho(9), Fraction(0)), conversions.approximate(price, noise.rho(9))):
        assert noise.covers(5, 9, loss)
        assert not noise.covers(5, 10, loss)
        assert not noise.covers(5, 9, replace(loss, rho=loss.rho * Fraction(999, 1000)))
        assert not noise.covers(5, 9, replace(loss, mu_squared=loss.mu_squared * Fraction(999, 1000)))
    assert not noise.covers(5, 9, replace(loss, epsilon=Fraction(99, 100)))
    assert not noise.covers(5, 9, replace(loss, delta=price.delta / 2))
    assert not noise.covers(5, 9, replace(loss, delta=Fraction(0)))


def test_description() -> None:
    assert DiscreteGaussian(Fraction(144)).describe() == "discrete Gaussian, sigma 12"
