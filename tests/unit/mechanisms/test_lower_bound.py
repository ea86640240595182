"""Exact bounds of rates, and bounds of what vectors of outputs lose."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta

from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.lower_bound import Outputs, eps_lower, rate_above, rate_below
from dpsql.mechanisms.source import SystemNoise

ALPHA, RUNS = 1e-9, 50_000


@pytest.mark.parametrize("alpha", [1e-9, 0.01, 0.3])
@pytest.mark.parametrize(
    ("hits", "trials"), [(0, 10), (1, 1), (10, 10), (3, 10), (1, 50_000), (500, 50_000), (49_999, 50_000)]
)
def test_rates_are_those_of_clopper_and_pearson(hits: int, trials: int, alpha: float) -> None:
    """And on the safe side of them."""
    low = float(beta.ppf(alpha, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - alpha, hits + 1, trials - hits)) if hits < trials else 1.0
    assert low * (1 - 1e-5) <= rate_above(hits, trials, alpha) <= low * (1 + 1e-9)
    assert (1 - high) * (1 - 1e-5) <= 1 - rate_below(hits, trials, alpha) <= (1 - high) * (1 + 1e-6) + 1e-12


def laplace(scale: Fraction, value: int) -> Outputs:
    return np.asarray(DiscreteLaplace(scale).sample(SystemNoise(), RUNS)) + value


def test_cells_lose_together_what_they_lose_apart() -> None:
    """Four cells that each lose a quarter of 2."""
    first = [laplace(Fraction(200), 100) for _ in range(4)]
    second = [laplace(Fraction(200), 0) for _ in range(4)]
    assert 0.7 < eps_lower(first, second, 0.0, ALPHA) <= 2
    assert eps_lower(first[:1], second[:1], 0.0, ALPHA) <= 0.5


def hidden(values: Outputs, most: int) -> Outputs:
    found = values.astype(object)
    found[values < most] = None
    return found


@pytest.mark.parametrize(("delta", "seen"), [(0.0, True), (0.1, False)])
def test_what_is_shown_of_one_input_alone_needs_a_delta(delta: float, seen: bool) -> None:
    shown, never = hidden(laplace(Fraction(10), 0), 20), np.full(RUNS, None, dtype=object)
    assert (eps_lower([shown], [never], delta, ALPHA) > 2) == seen


def test_noise_that_two_cells_share_cancels() -> None:
    noise, other = laplace(Fraction(100), 0), laplace(Fraction(100), 0)
    assert eps_lower([noise + 100, noise], [other, other], 0.0, ALPHA) > 2


def test_noise_that_is_coarser_than_a_value_shows_its_last_digits() -> None:
    coarse = [laplace(Fraction(2**30), 0) >> 8 << 8 for _ in range(2)]
    assert eps_lower([coarse[0] + 3], [coarse[1]], 0.0, ALPHA) > 5


def test_equal_inputs_lose_nothing() -> None:
    first = [laplace(Fraction(5), 0)]
    assert eps_lower(first, [laplace(Fraction(5), 0)], 0.0, ALPHA) == 0
