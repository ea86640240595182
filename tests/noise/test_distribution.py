"""Both samplers, and the noise that is made of one of them, against the exact probabilities.

Forty-two p-values, each refused below 10^-9: false alarms below 4 * 10^-7 in all, with what goodness.py says of small
cells.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import sqrt

import pytest

from dpsql.core.errors import InternalError
from dpsql.mechanisms import exact_sampler
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.rounding import drawn_scale, drawn_sigma
from dpsql.mechanisms.source import MOST_BY_OPENDP, SystemNoise
from tests.noise.goodness import dependence, gaussian_above, laplace_above, p_value, rounded_above

ALARM = 1e-9
SCALES = [Fraction(3, 10), Fraction(1), Fraction(7, 2), Fraction(10), Fraction(1000, 3), Fraction(2**51)]
NOISE = SystemNoise()


def from_short_vectors(draw: Callable[[Fraction, int], list[int]], parameter: Fraction) -> list[int]:
    """Twenty vectors that are short enough for OpenDP's path."""
    return [z for _ in range(20) for z in draw(parameter, MOST_BY_OPENDP)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_long_laplace_vectors(scale: Fraction) -> None:
    assert p_value(NOISE.laplace(scale, 100_000), laplace_above(float(scale)), float(scale)) > ALARM


@pytest.mark.few(1)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_short_laplace_vectors(scale: Fraction) -> None:
    samples = from_short_vectors(NOISE.laplace, scale)
    assert p_value(samples, laplace_above(float(scale)), float(scale)) > ALARM


@pytest.mark.parametrize("sigma", SCALES, ids=str)
def test_long_gaussian_vectors(sigma: Fraction) -> None:
    assert p_value(NOISE.gaussian(sigma**2, 100_000), gaussian_above(float(sigma)), float(sigma)) > ALARM


@pytest.mark.few(1)
@pytest.mark.parametrize("sigma", SCALES, ids=str)
def test_short_gaussian_vectors(sigma: Fraction) -> None:
    samples = from_short_vectors(NOISE.gaussian, sigma**2)
    assert p_value(samples, gaussian_above(float(sigma)), float(sigma)) > ALARM


def test_a_root_that_is_not_rational() -> None:
    assert p_value(NOISE.gaussian(Fraction(50), 100_000), gaussian_above(sqrt(50)), sqrt(50)) > ALARM


@pytest.mark.parametrize("sigma", SCALES, ids=str)
def test_long_vectors_of_rounded_gaussian_noise(sigma: Fraction) -> None:
    samples = DiscreteGaussian(sigma**2).sample(NOISE, 100_000)
    assert p_value(samples, rounded_above(float(sigma)), float(sigma)) > ALARM


@pytest.mark.few(1)
@pytest.mark.parametrize("sigma", SCALES, ids=str)
def test_short_vectors_of_rounded_gaussian_noise(sigma: Fraction) -> None:
    noise = DiscreteGaussian(sigma**2)
    samples = [z for _ in range(20) for z in noise.sample(NOISE, MOST_BY_OPENDP)]
    assert p_value(samples, rounded_above(float(sigma)), float(sigma)) > ALARM


def test_the_fit_notices_noise_that_is_drawn_on_whole_quanta() -> None:
    """P(0) is 0.786 instead of 0.683, which 10^5 draws miss with a probability below 10^-100."""
    assert p_value(NOISE.gaussian(Fraction(1, 4), 100_000), rounded_above(0.5), 0.5) < ALARM


@pytest.mark.few(2)
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10), Fraction(1000, 3), Fraction(2**51)], ids=str)
def test_the_fit_notices_a_scale_that_is_a_tenth_too_small(scale: Fraction) -> None:
    """Misses with a probability below 10^-6, each."""
    laplace = exact_sampler.laplace(drawn_scale(scale / Fraction(11, 10)), 100_000)
    gaussian = exact_sampler.gaussian(drawn_sigma((scale / Fraction(11, 10)) ** 2), 100_000)
    assert p_value(laplace, laplace_above(float(scale)), float(scale)) < ALARM
    assert p_value(gaussian, gaussian_above(float(scale)), float(scale)) < ALARM


@pytest.mark.parametrize("size", [MOST_BY_OPENDP, 100_000])
def test_neighbours_in_a_vector_are_independent(size: int) -> None:
    assert dependence(NOISE.laplace(Fraction(1000), size)) > ALARM
    assert dependence(NOISE.gaussian(Fraction(10**6), size)) > ALARM


@pytest.mark.parametrize("below", [1, 2, 3, 255, 256, 257, 2**16 + 1, 10**12])
def test_uniform_integers_stay_in_range(below: int) -> None:
    """10^5 draws miss the upper or lower tenth with a probability below 10^-2000."""
    values = exact_sampler.uniform(below, 100_000)
    assert 0 <= values.min() <= below // 10
    assert below - 1 - below // 10 <= values.max() < below


def test_the_largest_scale_is_drawn_and_a_larger_one_refused() -> None:
    for size in (3, 2000):
        assert len(NOISE.laplace(Fraction(2**52), size)) == size == len(NOISE.gaussian(Fraction(2**104), size))
        for bad in (Fraction(2**52) + Fraction(1, 3), Fraction(10**30), Fraction(0), Fraction(-1)):
            with pytest.raises(InternalError, match="DPSQL-901"):
                NOISE.laplace(bad, size)
            with pytest.raises(InternalError, match="DPSQL-901"):
                NOISE.gaussian(bad * abs(bad), size)


@pytest.mark.parametrize("size", [0, 1, 2, MOST_BY_OPENDP, MOST_BY_OPENDP + 1, 300_000])
def test_sizes_and_types(size: int) -> None:
    for drawn in (NOISE.laplace(Fraction(5), size), NOISE.gaussian(Fraction(5), size)):
        assert len(drawn) == size
        assert all(type(z) is int for z in drawn)


@pytest.mark.parametrize(
    "tiny", [Fraction(1, 10**6), Fraction(1, 10**30), Fraction(1, 10**400)], ids=["6", "30", "400"]
)
def test_a_tiny_scale_is_no_noise(tiny: Fraction) -> None:
    """Not zero with a probability below exp(-10^5)."""
    for size in (5, 2000):
        assert not any(NOISE.laplace(tiny, size)) and not any(NOISE.gaussian(tiny**2, size))
