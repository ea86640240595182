from __future__ import annotations

import time
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.mechanisms.conversions import pure
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.rounding import drawn_scale
from tests.unit.mechanisms.series import both_sides_of_sum, tail, weights

LEVELS = [Fraction(0), Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(99, 100), Fraction(999, 1000)]
SCALES = [Fraction(3, 10), Fraction(1), Fraction(7, 2), Fraction(10), Fraction(100, 3)]


def test_the_scale_is_exactly_what_the_loss_needs() -> None:
    noise = DiscreteLaplace.for_loss(7, Fraction(3, 10))
    assert noise.scale == Fraction(70, 3)
    assert noise.epsilon(7) == Fraction(3, 10)


@pytest.mark.parametrize(("l1", "epsilon"), [(0, 1), (-1, 1), (1, 0), (1, -1)])
def test_without_sensitivity_or_epsilon_there_is_no_noise(l1: int, epsilon: int) -> None:
    with pytest.raises(ValueError, match="above zero"):
        DiscreteLaplace.for_loss(l1, Fraction(epsilon))


def test_a_scale_is_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        DiscreteLaplace(Fraction(0))


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_tail_is_the_series_and_never_below_it(scale: Fraction) -> None:
    points = weights("laplace", drawn_scale(scale), int(110 * scale) + 10)
    for m in (1, 2, 3, 7, int(5 * scale) + 1):
        exact = tail(points, m)
        assert 1 - Fraction(1, 10**44) <= DiscreteLaplace(scale).tail(m) / exact <= 1 + Fraction(1, 10**40)


@given(st.fractions(Fraction(1, 10), 10**6), st.integers(-(10**7), 10**7))
def test_tail_falls_and_the_two_sides_add_up(scale: Fraction, m: int) -> None:
    noise = DiscreteLaplace(scale)
    assert noise.tail(m) >= noise.tail(m + 1)
    assert 1 <= noise.tail(m) + noise.tail(1 - m) <= 1 + Fraction(1, 10**40)


def test_extreme_tails_are_still_upper_bounds() -> None:
    assert 0 < DiscreteLaplace(Fraction(1)).tail(10**12) < Fraction(1, 10**999)
    assert 0 < DiscreteLaplace(Fraction(1, 10**30)).tail(1) < Fraction(1, 10**999)
    assert DiscreteLaplace(Fraction(1)).tail(-(10**12)) == 1


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_half_width_of_a_sum_against_convolution(scale: Fraction, copies: int) -> None:
    outside = both_sides_of_sum(weights("laplace", scale, int(45 * scale) + 10), copies)
    for level in LEVELS:
        exact = int(np.argmax(outside <= float(1 - level) + 1e-14))
        assert DiscreteLaplace(scale).half_width_of_sum(copies, level) == exact
    assert DiscreteLaplace(scale).half_width(LEVELS[3]) == DiscreteLaplace(scale).half_width_of_sum(1, LEVELS[3])


@pytest.mark.parametrize(("copies", "factor"), [(1, 2.995732274), (2, 4.113003281), (3, 4.968596000)])
def test_half_width_of_a_large_scale_is_the_continuous_one(copies: int, factor: float) -> None:
    """The factors solve exp(-x) (1, 1 + x/2, 1 + 5x/8 + x^2/8) = 1/20."""
    width = DiscreteLaplace(Fraction(10**9)).half_width_of_sum(copies, Fraction(95, 100))
    assert abs(width / 10**9 - factor) < 2e-9


def test_half_width_is_quick() -> None:
    started = time.perf_counter()
    for scale in range(10**9, 10**9 + 100):
        DiscreteLaplace(Fraction(scale)).half_width_of_sum(2, Fraction(95, 100))
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    ("copies", "level"), [(0, Fraction(1, 2)), (4, Fraction(1, 2)), (1, Fraction(1)), (1, Fraction(-1))]
)
def test_half_width_needs_a_sensible_question(copies: int, level: Fraction) -> None:
    with pytest.raises(ValueError):
        DiscreteLaplace(Fraction(1)).half_width_of_sum(copies, level)


def test_noise_covers_its_own_loss_and_nothing_less() -> None:
    noise = DiscreteLaplace.for_loss(7, Fraction(3, 10))
    loss = pure(Fraction(3, 10))
    assert noise.covers(7, 49, loss)
    assert not noise.covers(8, 49, loss)
    assert not noise.covers(7, 49, replace(loss, epsilon=Fraction(3, 10) - Fraction(1, 10**30), delta=Fraction(1, 2)))
    for measure in ("squares", "rho", "mu_squared"):
        assert not noise.covers(7, 49, replace(loss, **{measure: getattr(loss, measure) * Fraction(999, 1000)}))
    assert noise.covers(7, 49, replace(loss, epsilon=None, squares=None))


def test_description() -> None:
    assert DiscreteLaplace(Fraction(300)).describe() == "discrete Laplace, scale 300"
    assert DiscreteLaplace(Fraction(10, 3)).describe() == "discrete Laplace, scale 10/3"
    assert DiscreteLaplace(Fraction(Decimal("0.123456789"))).describe() == "discrete Laplace, scale 0.123457"
