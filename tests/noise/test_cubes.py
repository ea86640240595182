"""The promise of a cube against a lower bound from 10^5 outputs on each of two neighbouring inputs, and how its error is spread.

Each bound is wrong with a probability of at most 6 * 10^-9; the planted fault is missed with one below 10^-6.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chi2

from dpsql.core.columns import Column, whole
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.reach import largest_rho
from dpsql.mechanisms.residual import Residual, read_off, residual, subsets
from dpsql.mechanisms.source import SystemNoise
from tests.noise.eps_lower import eps_lower

SHAPE = (3, 2)
RUNS = 100_000
ALPHA = 1e-9
DELTA = 0.01
PROMISED = EpsilonDelta(Fraction(1), Fraction(1, 100))


class ManyTimes(SystemNoise):
    """The same cube's noise so many times in one call: the draws are independent anyway."""

    def __init__(self, times: int) -> None:
        self.times = times

    def all_of(self, made: Residual, cells: list[int], rows: int) -> npt.NDArray[np.float64]:
        """Released coefficients, a run a row."""
        sigmas, places = made.scales(1)
        drawn = whole(self.gaussians(Column(np.tile(sigmas.values, self.times))))
        shift = np.tile(whole(places), self.times)
        noise = ((drawn + (np.int64(1) << (shift - 1))) >> shift).reshape(self.times, -1)
        exact = made.noisy(cells, 1, _Nothing())
        return np.asarray(noise + np.array(exact.tolist()), dtype=np.float64)


class _Nothing(SystemNoise):
    def gaussians(self, sigmas: Column[int]) -> list[int]:
        return [0] * len(sigmas)


def bound(made: Residual, rows: int) -> float:
    """Of the most telling number: what one row's coefficients are, each over its variance, added up; rounded to a fine grid."""
    many = ManyTimes(RUNS)
    cells = [rows] + [0] * 5
    direction = np.array(made.noisy(cells, 1, _Nothing()).tolist(), dtype=float)
    sigmas, places = made.scales(1)
    variances = (np.asarray(sigmas.values, dtype=float) / 2.0 ** np.asarray(places.values, dtype=float)) ** 2
    found = [many.all_of(made, one, rows) @ (direction / variances) for one in (cells, [0] * 6)]
    first, second = (np.rint(outputs * 40).astype(np.int64) for outputs in found)
    return eps_lower(first, second, DELTA, ALPHA)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_cube_keeps_its_epsilon_and_delta(rows: int) -> None:
    made = residual(SHAPE, 2, largest_rho(PROMISED), rows)
    assert 0.2 < bound(made, rows) <= 1


def test_a_cube_that_ignores_a_persons_rows_is_noticed() -> None:
    assert bound(residual(SHAPE, 2, largest_rho(PROMISED), 1), 3) > 1


def test_variances_are_those_told() -> None:
    """Of 20,000 draws: the ends are where a chi-square variable of so many degrees is beyond them with a probability of 10^-10 each,
    and that is within 7 % for each of the marginals."""
    made = residual(SHAPE, 2, largest_rho(PROMISED), 1)
    runs = ManyTimes(20_000).all_of(made, [0] * 6, 1)
    low, high = chi2.ppf([1e-10, 1 - 1e-10], len(runs)) / len(runs)
    assert 0.93 < low < high < 1.07
    for axes in subsets(2, 2):
        weights = [[1.0] + [0.0] * (n - 1) if axis in axes else None for axis, n in enumerate(SHAPE)]
        cells = np.array([read_off(run.reshape(SHAPE), weights, [])[0] for run in runs])
        assert low < float(np.mean(cells**2)) / float(made.of_marginal(axes)) < high
        assert abs(float(np.mean(cells))) < 7 * sqrt(made.of_marginal(axes) / len(runs))
