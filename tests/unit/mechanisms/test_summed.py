"""The noise of added up cells: half-widths, tails and quantiles against an exact convolution and against the Gaussian."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from dpsql.core.errors import Error
from dpsql.core.loss import NO_LOSS
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.side_by_side import SideBySide
from dpsql.mechanisms.source import SystemNoise
from dpsql.mechanisms.summed import SummedLaplace, summed
from dpsql.mechanisms.truncated import TruncatedLaplace

LEVEL = Fraction(95, 100)
LEVELS = (Fraction(1, 2), Fraction(9, 10), LEVEL, Fraction(999, 1000))


def above(scale: float, count: int) -> np.ndarray:  # type: ignore[type-arg]
    """P(|Z1 + ... + Zn| > h) for h = 0, 1, ..., by convolving the probabilities of one draw."""
    reach = int(40 * scale * math.sqrt(count) + 60 * scale + 20)
    z = np.arange(-reach, reach + 1)
    a = math.exp(-1 / scale)
    size = 1 << (2 * reach + 1).bit_length()
    single = np.zeros(size)
    single[z % size] = (1 - a) / (1 + a) * a ** np.abs(z)
    found = np.fft.ifft(np.fft.fft(single) ** count).real
    inside = found[0] + np.concatenate([[0.0], np.cumsum(found[1:reach] + found[-1:-reach:-1])])
    return 1 - inside  # type: ignore[no-any-return]


def exact(scale: float, count: int, level: Fraction) -> int:
    return int(np.argmax(above(scale, count) <= float(1 - level)))


@pytest.mark.parametrize("count", [2, 3, 6, 50, 200, 201, 300])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(7, 2), Fraction(40)])
def test_a_half_width_covers_what_the_convolution_says(scale: Fraction, count: int) -> None:
    noise = SummedLaplace(scale, count)
    outside = above(float(scale), count)
    for level in LEVELS:
        assert outside[min(noise.half_width(level), len(outside) - 1)] <= float(1 - level) + 1e-9
        weighted = math.floor(noise.half_width_of_weights((1.0,), level))
        assert outside[min(weighted, len(outside) - 1)] <= float(1 - level) + 1e-9


@pytest.mark.parametrize("count", [2, 6, 50, 200])
def test_wide_noise_has_little_more_than_the_exact_half_width(count: int) -> None:
    assert SummedLaplace(Fraction(100), count).half_width(LEVEL) <= 1.03 * exact(100.0, count, LEVEL) + 1


@pytest.mark.parametrize(("scale", "count"), [(1, 12), (1, 50), (3, 50), (100, 300)])
def test_no_half_width_is_far_too_large(scale: int, count: int) -> None:
    assert SummedLaplace(Fraction(scale), count).half_width(LEVEL) <= 1.2 * exact(float(scale), count, LEVEL) + 2


@pytest.mark.parametrize(("count", "allowed"), [(6, 1.16), (50, 1.02), (500, 1.02)])
def test_many_draws_are_nearly_gaussian(count: int, allowed: float) -> None:
    """At scales so large that rounding is nothing."""
    scale = Fraction(10**7)
    sigma = math.sqrt(2 * count) * float(scale)
    width = SummedLaplace(scale, count).half_width_of_weights((1.0,), LEVEL)
    assert 0.98 <= width / (stats.norm.ppf(0.975) * sigma) <= allowed


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [2, 7, 60, 199])
def test_quantiles_are_those_of_the_continuous_sum(count: int) -> None:
    """Of the difference of two gamma variables, by quadrature in scipy."""
    points = np.array([0.01, 0.025, 0.3, 0.5, 0.7, 0.975, 0.99])
    found = SummedLaplace(Fraction(10), count).at(points) / 10

    def below(x: float) -> float:
        grid = np.linspace(1e-12, stats.gamma.ppf(1 - 1e-13, count), 20_001)
        return float(trapezoid(stats.gamma.cdf(grid + x, count) * stats.gamma.pdf(grid, count), grid))

    for x, point in zip(found.tolist(), points.tolist(), strict=True):
        assert below(x) == pytest.approx(point, abs=2e-3)


@pytest.mark.parametrize("count", [2, 5, 200, 201, 10_000])
def test_quantiles_rise_and_are_symmetric(count: int) -> None:
    points = np.linspace(0.001, 0.999, 101)
    found = SummedLaplace(Fraction(3), count).at(points)
    assert np.all(np.diff(found) > 0)
    assert np.allclose(found, -found[::-1], atol=1e-6 * math.sqrt(count) * 10)


@pytest.mark.parametrize("count", [2, 6, 50, 300])
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(25)])
def test_tails_are_upper_bounds(scale: Fraction, count: int) -> None:
    noise, outside = SummedLaplace(scale, count), above(float(scale), count)
    for m in range(1, len(outside) // 2, 1 + len(outside) // 200):
        assert float(noise.tail(m)) >= outside[m - 1] / 2 - 1e-12


@pytest.mark.parametrize(("count", "m"), [(2, 10**18), (300, 10**4)])
def test_a_tail_far_out(count: int, m: int) -> None:
    assert SummedLaplace(Fraction(1), count).tail(m) < Fraction(1, 10**6)


def test_what_is_summed() -> None:
    laplace, gaussian = DiscreteLaplace(Fraction(5)), DiscreteGaussian(Fraction(9))
    assert summed(laplace, 1) is laplace and summed(gaussian, 1) is gaussian
    assert summed(laplace, 4) == SummedLaplace(Fraction(5), 4)
    assert summed(gaussian, 4) == DiscreteGaussian(36 + Fraction(3, 12))
    assert summed(TruncatedLaplace(Fraction(2), 10), 2) is None
    assert "4 draws of discrete Laplace" in SummedLaplace(Fraction(5), 4).describe()


def test_a_sum_is_no_mechanism() -> None:
    noise = SummedLaplace(Fraction(5), 4)
    assert not noise.covers(1, 1, NO_LOSS)
    with pytest.raises(Error, match="DPSQL-901"):
        noise.sample(SystemNoise(), 1)


@pytest.mark.parametrize("sigma_squared", [Fraction(1, 4), Fraction(9), Fraction(10**6)])
def test_a_sum_of_gaussian_draws_is_as_wide_as_it_is_said(sigma_squared: Fraction) -> None:
    noise = summed(DiscreteGaussian(sigma_squared), 12)
    assert noise is not None
    sigma = math.sqrt(12 * (float(sigma_squared) + 1 / 12))
    assert noise.half_width(LEVEL) == pytest.approx(stats.norm.ppf(0.975) * sigma, abs=1.5, rel=0.01)


# --- two kinds side by side ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (DiscreteLaplace(Fraction(1000)), DiscreteLaplace(Fraction(10))),
        (DiscreteGaussian(Fraction(10**6)), DiscreteLaplace(Fraction(10))),
        (DiscreteLaplace(Fraction(1000)), DiscreteGaussian(Fraction(100))),
        (SummedLaplace(Fraction(400), 6), DiscreteGaussian(Fraction(100))),
    ],
    ids=["two Laplace", "Gaussian and Laplace", "Laplace and Gaussian", "a sum and Gaussian"],
)
@pytest.mark.parametrize("weight", [0.0, 1.0, -30.0, 100.0, 5000.0])
def test_side_by_side_is_as_wide_as_independent_draws(
    first: DiscreteLaplace | DiscreteGaussian, second: DiscreteLaplace | DiscreteGaussian, weight: float
) -> None:
    chance = np.random.default_rng(17)
    one, other = (noise.at(chance.uniform(1e-9, 1 - 1e-9, 60_000)) for noise in (first, second))
    sizes = np.sort(np.abs(one + weight * other))
    for level in (Fraction(1, 2), LEVEL):
        width = SideBySide(first, second).half_width_of_weights((1.0, weight), level)
        exact_width = float(sizes[int(float(level) * len(sizes))])
        assert 0.96 * exact_width <= width <= 1.04 * exact_width + (1 + abs(weight)) / 2 + 1


def test_one_weight_is_one_noise() -> None:
    first, second = DiscreteLaplace(Fraction(7)), DiscreteGaussian(Fraction(50))
    both = SideBySide(first, second)
    assert both.half_width_of_weights((2.0, 0.0), LEVEL) == 2 * first.half_width(LEVEL)
    assert both.half_width_of_weights((0.0, -3.0), LEVEL) == 3 * second.half_width(LEVEL)
