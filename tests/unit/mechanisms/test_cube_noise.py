"""Noise in what is read off a cube, beside the normal distribution; and what a cube's statistic loses."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from dpsql.core.columns import Column
from dpsql.core.errors import Error
from dpsql.core.loss import PrivacyLoss
from dpsql.mechanisms.cube_noise import ResidualGaussian, RoundedGaussian
from dpsql.mechanisms.residual import residual, subsets
from tests.support.noise import ZeroNoise

LEVEL = Fraction(95, 100)
RHO = Fraction(1, 200)


@pytest.mark.parametrize("sigma", [0.4, 1, 7.3, 1e6])
def test_half_widths_are_the_smallest_that_cover(sigma: float) -> None:
    noise = RoundedGaussian(Fraction(sigma**2))
    h = noise.half_width(LEVEL)
    assert 2 * norm.sf((h + 0.5) / sigma) <= 0.05 + 1e-12
    assert h == 0 or 2 * norm.sf((h - 0.5) / sigma) > 0.05
    assert noise.half_width_of_weights((3.0, 4.0), LEVEL) == pytest.approx(5 * 1.959963985 * sigma + 3.5)
    assert noise.half_width_of_sum(1, LEVEL) >= h
    for m in (-2, 1, 2, int(2 * sigma) + 1):
        assert norm.sf((m - 0.5) / sigma) <= float(noise.tail(m)) <= norm.sf((m - 0.5) / sigma) * (1 + 1e-8)
    assert np.allclose(noise.at(np.array([0.025, 0.5, 0.975])), sigma * norm.ppf([0.025, 0.5, 0.975]))


def test_noise_that_is_read_off_is_no_mechanism() -> None:
    noise = RoundedGaussian(Fraction(9))
    loss = PrivacyLoss(None, Fraction(0), None, Fraction(10**6), Fraction(10**9))
    assert not noise.covers(1, 1, loss) and noise.kept is None and noise.at_rho(1, RHO) is None
    with pytest.raises(Error, match="DPSQL-901"):
        noise.event(1, loss)
    with pytest.raises(Error, match="DPSQL-901"):
        noise.sample(ZeroNoise(), 3)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("width", [1, 1000])
def test_a_statistic_is_covered_at_its_own_loss_alone(rows: int, width: int) -> None:
    # what is charged is rounded up
    noise = ResidualGaussian(residual((3, 4), 2, RHO * (1 - Fraction(1, 2**50)), rows), (width, 1))
    sensitivity = (rows * width) ** 2
    loss = noise.loss(sensitivity, Fraction(4))
    assert RHO * (1 - Fraction(1, 10**9)) < loss.rho <= RHO and loss.mu_squared == 2 * loss.rho
    assert 0 < loss.delta < Fraction(1, 10**15)
    assert noise.covers(rows * width, sensitivity, loss)
    # one more row, or a value that is wider than told
    assert not noise.covers((rows + 1) * width, ((rows + 1) * width) ** 2, loss)
    assert noise.event(rows * width, loss).loss == loss
    with pytest.raises(Error, match="DPSQL-901"):
        noise.sample(ZeroNoise(), 3)


def test_it_is_as_exact_as_its_best_marginal() -> None:
    made = residual((3, 4), 2, RHO, 1)
    noise = ResidualGaussian(made, (10, 1))
    best = min(made.of_marginal(axes) for axes in subsets(2, 2))
    assert noise.half_width(LEVEL) == RoundedGaussian(best * 100).half_width(LEVEL)
    assert noise.of(best, 1) == RoundedGaussian(best)
    assert "residual discrete Gaussian" in noise.describe()


def test_each_cell_has_noise_of_its_own_weight() -> None:
    noise = ResidualGaussian(residual((2, 2), 1, RHO, 1), (50, 1))
    # of all groups, then by one key, then by the other: what tells both apart together is not there
    first, second = noise.added((Column.of([10, 4, 6, 3, 7]), Column.of([1, 1, 0, 0, 1])), ZeroNoise())
    assert first.tolist() == [10, -2, -4] and second.tolist() == [1, 1, -1]
