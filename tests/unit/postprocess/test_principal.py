"""Intervals of correlations hold; what does not stand out of its noise has none; and components are in order, of length 1."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from dpsql.postprocess.principal import NoisyMoments, components, correlations, noise_alone

INTERCEPT, ROWS = 0.5, 2000
DRAWS = 3000


def second_moments() -> npt.NDArray[np.float64]:
    """Of the intercept and three columns; of the last two the first is nearly twice the other, and the first beside them."""
    chance = np.random.default_rng(3)
    first, second = chance.normal(0.1, 0.3, ROWS), chance.normal(-0.05, 0.4, ROWS)
    x = np.column_stack([np.full(ROWS, INTERCEPT), first, second, 0.5 * second + chance.normal(0, 0.1, ROWS)])
    return np.asarray(x.T @ x)


MATRIX = second_moments()
UPPER = MATRIX[np.triu_indices(4)]


def test_an_interval_holds_as_often_as_it_says() -> None:
    """Misses are counted, and chance alone is ruled out to 1e-9 by Hoeffding."""
    sigma, chance = 4.0, np.random.default_rng(5)
    true = [one.value for one in correlations(NoisyMoments(tuple(UPPER), INTERCEPT, 0.0))]
    missed, widths = [0] * 3, list[float]()
    for _ in range(DRAWS):
        drawn = NoisyMoments(tuple(UPPER + chance.normal(0, sigma, len(UPPER))), INTERCEPT, sigma)
        for i, one in enumerate(correlations(drawn)):
            value = true[i]
            assert value is not None and one.value is not None and one.low <= one.value <= one.high
            missed[i] += not one.low <= value <= one.high
            widths.append(one.high - one.low)
    assert max(missed) <= 0.05 * DRAWS + math.sqrt(DRAWS * math.log(1e9) / 2)
    assert max(widths) < 0.6, "and it says something"


def test_what_does_not_stand_out_of_its_noise_is_no_number() -> None:
    moments = NoisyMoments(tuple(UPPER), INTERCEPT, 200.0)
    assert [(one.value, one.low, one.high) for one in correlations(moments)] == [(None, -1.0, 1.0)] * 3
    nobody = NoisyMoments((-1.0, *[0.0] * 9), INTERCEPT, 2.0)
    assert [one.value for one in correlations(nobody)] == [None] * 3
    assert all(math.isfinite(one.eigenvalue + one.share) for one in components(nobody))


def test_components_are_in_order_of_length_one_and_explain_all() -> None:
    found = components(NoisyMoments(tuple(UPPER), INTERCEPT, 0.0))
    assert [one.eigenvalue for one in found] == sorted((one.eigenvalue for one in found), reverse=True)
    assert found[-1].so_far == pytest.approx(1) and sum(one.share for one in found) == pytest.approx(1)
    assert all(sum(entry**2 for entry in one.entries) == pytest.approx(1) for one in found)
    assert all(max(one.entries, key=abs) > 0 for one in found)


def test_noise_alone_shows_no_larger_eigenvalue_than_is_said() -> None:
    """But by a fluctuation, which is small beside the largest of many."""
    chance, size, sigma = np.random.default_rng(9), 40, 3.0
    drawn = chance.normal(0, sigma, size * (size + 1) // 2)
    drawn[0] = ROWS * INTERCEPT**2
    moments = NoisyMoments(tuple(drawn), INTERCEPT, sigma)
    assert components(moments)[0].eigenvalue == pytest.approx(noise_alone(moments), rel=0.25)
