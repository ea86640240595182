"""The promise of a cube against a lower bound from 10^5 outputs on each of two neighbouring inputs, and how its error is spread.

Each bound is wrong with a probability of at most 6 * 10^-9; the planted fault is missed with one below 10^-6.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod, sqrt

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, chi2

from dpsql.aggregates.base import Estimate
from dpsql.aggregates.forms import AvgOfForms, Form, SumOfForm, off_cube
from dpsql.core.columns import Column, whole
from dpsql.core.loss import EpsilonDelta
from dpsql.core.sqltypes import DOUBLE
from dpsql.mechanisms import helmert
from dpsql.mechanisms.cube_noise import GroupsOff, RoundedGaussian
from dpsql.mechanisms.lower_bound import eps_lower
from dpsql.mechanisms.reach import largest_rho
from dpsql.mechanisms.residual import Residual, Weights, read_off, residual, subsets
from dpsql.mechanisms.side_by_side import SideBySide
from dpsql.mechanisms.source import SystemNoise
from dpsql.mechanisms.summed import SummedLaplace, of_total
from tests.noise.test_reused_error_bars import term

SHAPE = (3, 2)
RUNS = 100_000
ALPHA = 1e-9
DELTA = 0.01
PROMISED = EpsilonDelta(Fraction(1), Fraction(1, 100))


class ManyTimes(SystemNoise):
    """The same cube's noise so many times in one call: the draws are independent anyway."""

    def __init__(self, times: int) -> None:
        self.times = times

    def all_of(self, made: Residual, cells: list[int], weight: int = 1) -> npt.NDArray[np.float64]:
        """Released coefficients, a run a row."""
        sigmas, places = made.scales(weight)
        drawn = whole(self.gaussians(Column(np.tile(sigmas.values, self.times))))
        shift = np.tile(whole(places), self.times)
        noise = ((drawn + (np.int64(1) << (shift - 1))) >> shift).reshape(self.times, -1)
        exact = made.noisy(cells, weight, _Nothing())
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
    found = [many.all_of(made, one) @ (direction / variances) for one in (cells, [0] * 6)]
    first, second = (np.rint(outputs * 40).astype(np.int64) for outputs in found)
    return eps_lower([first], [second], DELTA, ALPHA)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.few(1)
def test_a_cube_keeps_its_epsilon_and_delta(rows: int) -> None:
    made = residual(SHAPE, 2, largest_rho(PROMISED), rows)
    assert 0.2 < bound(made, rows) <= 1


def test_a_cube_that_ignores_a_persons_rows_is_noticed() -> None:
    assert bound(residual(SHAPE, 2, largest_rho(PROMISED), 1), 3) > 1


def test_variances_are_those_told() -> None:
    """Of 20,000 draws: the ends are where a chi-square variable of so many degrees is beyond them with a probability of 10^-10 each,
    and that is within 7 % for each of the marginals."""
    made = residual(SHAPE, 2, largest_rho(PROMISED), 1)
    runs = ManyTimes(20_000).all_of(made, [0] * 6)
    low, high = chi2.ppf([1e-10, 1 - 1e-10], len(runs)) / len(runs)
    assert 0.93 < low < high < 1.07
    for axes in subsets(2, 2):
        weights = [[1.0] + [0.0] * (n - 1) if axis in axes else None for axis, n in enumerate(SHAPE)]
        cells = runs @ _reading(weights, [])[:, 0]
        assert low < float(np.mean(cells**2)) / float(made.of_marginal(axes)) < high
        assert abs(float(np.mean(cells))) < 7 * sqrt(made.of_marginal(axes) / len(runs))


DRAWS = 40_000
BELOW, ABOVE = binom.ppf([1e-10, 1 - 1e-10], DRAWS, 0.95) / DRAWS
"""Shares of intervals of 95 % that hold are beyond these with a probability of 10^-10 each: within 94.3 and 95.7 %."""
LEVEL = Fraction(95, 100)
TERM = term(-20, 80)
SUM, AVG = SumOfForm(off_cube(TERM)[0], Fraction(1), DOUBLE), AvgOfForms(*off_cube(TERM), TERM)
QUESTIONS: dict[str, Weights] = {
    "a cell": [[0.0, 1.0, 0.0], [1.0, 0.0]],
    "a filter": [[1.0, 1.0, 0.0], [0.0, 1.0]],
    "a total": [None, None],
}


@pytest.mark.few(1)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("mean", [-10, 30, 70])
def test_bars_of_numbers_and_ratios_cover_as_often_as_they_say(question: str, mean: int) -> None:
    """COUNT(*), SUM and AVG as they are read off a cube, each beside what is true."""
    made, weights = residual(SHAPE, 2, Fraction(1, 5000), 1), QUESTIONS[question]
    rows = [900, 1100, 1000, 4000, 1500, 2500]
    centred = [(2 * mean - TERM.lower - TERM.upper) * n for n in rows]
    n, t = (_read(ManyTimes(DRAWS).all_of(made, cells, w), weights) for cells, w in ((rows, 1), (centred, TERM.width)))
    variance = made.variance(weights)
    noise = SideBySide(RoundedGaussian(variance * TERM.width**2), RoundedGaussian(variance))
    true = float(
        read_off(np.array(helmert.coefficients(rows, SHAPE).tolist(), dtype=float).reshape(SHAPE), weights, [])[0]
    )
    low, high = true - noise.second.half_width(LEVEL), true + noise.second.half_width(LEVEL)
    assert BELOW < np.mean((n >= low) & (n <= high)) < ABOVE
    columns: tuple[tuple[Estimate, float], ...] = ((SUM, mean * true), (AVG, float(mean)))
    for estimate, wanted in columns:
        ends = estimate.column((t.astype(int).tolist(), n.astype(int).tolist()), noise, LEVEL).intervals
        found = [one is not None and one[0] <= wanted <= one[1] for one in ends]
        assert BELOW < np.mean(found) < ABOVE


@pytest.mark.few(1)
@pytest.mark.parametrize("values", [(3, 2), (2, 1), (3, 1), (2, 2)])
def test_bars_of_totals_cover_as_often_as_they_say(values: tuple[int, int]) -> None:
    """Of groups that are read off and rounded each by itself, and added up then."""
    made, rows = residual(SHAPE, 2, Fraction(1, 20_000), 1), [900, 1100, 1000, 4000, 1500, 2500]
    groups = GroupsOff(((made, Fraction(1)),), (None, None), (0, 1))
    noise = of_total(RoundedGaussian(groups.variance([1, 1]), groups), values[0] * values[1], values)
    assert noise is not None
    runs = ManyTimes(DRAWS).all_of(made, rows)
    found = np.rint(runs @ _reading([None, None], [0, 1])).reshape(-1, *SHAPE)
    off = (
        found[:, : values[0], : values[1]].sum(axis=(1, 2))
        - np.array(rows).reshape(SHAPE)[: values[0], : values[1]].sum()
    )
    assert BELOW < np.mean(np.abs(off) <= noise.half_width(LEVEL)) < ABOVE


@pytest.mark.parametrize("values", [(3, 2), (2, 1)])
def test_totals_of_groups_as_if_they_were_independent_are_noticed(
    monkeypatch: pytest.MonkeyPatch, values: tuple[int, int]
) -> None:
    monkeypatch.setattr(GroupsOff, "variance", lambda self, values: prod(values) * self.parts[0][0].of_marginal({0, 1}))
    with pytest.raises(AssertionError):
        test_bars_of_totals_cover_as_often_as_they_say(values)


def test_groups_that_are_no_combination_of_values_have_no_noise_that_is_known() -> None:
    groups = GroupsOff(((residual(SHAPE, 2, Fraction(1, 200), 1), Fraction(1)),), (None, None), (0, 1))
    noise = RoundedGaussian(groups.variance([1, 1]), groups)
    assert of_total(noise, 3, (2, 2)) is None and of_total(noise, 1, (1, 1)) == noise
    assert of_total(RoundedGaussian(Fraction(9)), 2, (2, 1)) is None
    assert of_total(SummedLaplace(Fraction(5), 3), 2, (1, 2)) == SummedLaplace(Fraction(5), 6)


@pytest.mark.slow
def test_bars_that_forget_the_count_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.noise.test_cubes.AVG", AvgOfForms(off_cube(TERM)[0], Form((0.0, 0.0)), TERM))
    with pytest.raises(AssertionError):
        test_bars_of_numbers_and_ratios_cover_as_often_as_they_say("a cell", 70)


def _read(runs: npt.NDArray[np.float64], weights: Weights) -> npt.NDArray[np.float64]:
    """A question read off each run, rounded."""
    return np.rint(runs @ _reading(weights, [])[:, 0])


def _reading(weights: Weights, kept: list[int]) -> npt.NDArray[np.float64]:
    """A question read off each coefficient by itself, a row each: off all of them it is their sum, each as often as it is large."""
    return np.array([read_off(one.reshape(SHAPE), weights, kept) for one in np.eye(prod(SHAPE))])
