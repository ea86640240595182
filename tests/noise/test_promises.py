"""The promised loss against a lower bound from 10^5 outputs on each of two neighbouring inputs.

Each bound is wrong with a probability of at most 6 * 10^-9, a rate with 10^-8: false alarms below 10^-7 in all. A
planted fault is missed with a probability below 10^-6.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.lower_bound import eps_lower, rate_above
from dpsql.mechanisms.source import SystemNoise
from dpsql.mechanisms.threshold import release, threshold

ALPHA = 1e-9
RUNS = 100_000
ONE = Fraction(1)
NARROW = Fraction(13, 10)


def bound(noise: AdditiveNoise, change: int, delta: float = 0.0) -> float:
    with_unit = np.array(noise.sample(SystemNoise(), RUNS)) + change
    return eps_lower([np.array(noise.sample(SystemNoise(), RUNS))], [with_unit], delta, ALPHA)


def narrower(noise: DiscreteLaplace) -> DiscreteLaplace:
    return DiscreteLaplace(noise.scale / NARROW)


@pytest.mark.parametrize("l1", [1, 5, 1000])
def test_laplace_keeps_its_epsilon(l1: int) -> None:
    assert 0.5 < bound(DiscreteLaplace.for_loss(l1, ONE), l1) <= 1


@pytest.mark.parametrize("l1", [1, 5, 1000])
def test_laplace_with_less_noise_is_noticed(l1: int) -> None:
    assert bound(narrower(DiscreteLaplace.for_loss(l1, ONE)), l1) > 1


def test_a_sum_that_moves_more_than_declared_is_noticed() -> None:
    assert bound(DiscreteLaplace.for_loss(5, ONE), 7) > 1


@pytest.mark.parametrize("l2", [1, 30])
def test_gaussian_keeps_its_epsilon_and_delta(l2: int) -> None:
    loss = EpsilonDelta(ONE, Fraction(1, 100))
    assert bound(DiscreteGaussian.for_loss(l2 * l2, loss), l2, 0.01) <= 1


@pytest.mark.parametrize("l2", [1, 30])
def test_gaussian_with_a_third_of_the_noise_is_noticed(l2: int) -> None:
    """The conversion from rho is loose at delta = 1/100: a smaller fault may still keep the promise."""
    loss = EpsilonDelta(ONE, Fraction(1, 100))
    faulty = DiscreteGaussian(DiscreteGaussian.for_loss(l2 * l2, loss).sigma_squared / 9)
    assert bound(faulty, l2, 0.01) > 1


def shown_alone(noise: AdditiveNoise, tau: int) -> float:
    """A lower bound of the rate at which a group with one unit is shown."""
    return rate_above(sum(release(1 + z, tau) for z in noise.sample(SystemNoise(), RUNS)), RUNS, 1e-8)


NOISES = [DiscreteLaplace(Fraction(1)), DiscreteLaplace(Fraction(3, 2)), DiscreteGaussian(Fraction(4))]


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.describe())
def test_a_group_of_one_is_shown_at_most_at_the_rate_delta(noise: AdditiveNoise) -> None:
    delta = tight_delta(noise)
    tau = threshold(noise, 1, delta)
    assert 0.5 * float(delta) < shown_alone(noise, tau) <= delta


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.describe())
def test_a_threshold_that_is_one_too_small_is_noticed(noise: AdditiveNoise) -> None:
    delta = tight_delta(noise)
    assert shown_alone(noise, threshold(noise, 1, delta) - 1) > delta


def test_a_threshold_for_narrower_noise_is_noticed() -> None:
    noise = DiscreteLaplace(Fraction(3))
    delta = tight_delta(noise)
    assert shown_alone(noise, threshold(narrower(noise), 1, delta)) > delta


def tight_delta(noise: AdditiveNoise) -> Fraction:
    """A delta that the discrete tail just meets, between 1/1000 and 1/100, so that one step less is a clear fault."""
    m = next(m for m in range(1, 1000) if noise.tail(m) < Fraction(1, 100))
    return noise.tail(m) * (1 + Fraction(1, 10**6))


def test_counts_through_a_threshold_keep_their_epsilon() -> None:
    """Groups with 6 and with 5 units; hidden ones all look alike."""
    noise = DiscreteLaplace.for_loss(1, ONE)
    tau = threshold(noise, 1, Fraction(1, 1000))

    def outputs(n: int) -> np.ndarray:
        noisy = np.array(noise.sample(SystemNoise(), RUNS)) + n
        return np.where(noisy >= tau, noisy, -1)

    assert 0.1 < eps_lower([outputs(6)], [outputs(5)], 0.0, ALPHA) <= 1
