from __future__ import annotations

from fractions import Fraction
from math import expm1, log1p

import pytest
from scipy.stats import norm

from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.rounding import drawn_scale
from dpsql.mechanisms.threshold import delta_per_group, release, threshold
from tests.unit.mechanisms.series import tail, weights

CASES = [
    (kind, Fraction(scale)) for kind in ("laplace", "gaussian") for scale in (Fraction(1, 2), 1, Fraction(10, 3), 10)
]
DELTAS = [Fraction(1, 1000), Fraction(1, 10**6), Fraction(1, 10**9)]


def noise_of(kind: str, scale: Fraction) -> AdditiveNoise:
    return DiscreteLaplace(scale) if kind == "laplace" else DiscreteGaussian(scale**2)


def above(kind: str, scale: Fraction, m: int) -> Fraction:
    """P(Z >= m): by the series, or of the continuous Gaussian, rounded."""
    if kind == "gaussian":
        return Fraction(float(norm.sf((m - 0.5) / float(scale))))
    return tail(weights(kind, drawn_scale(scale), int(100 * scale) + 20), m)


@pytest.mark.few(21)
@pytest.mark.parametrize("l0", [1, 2, 3, 17])
@pytest.mark.parametrize(("kind", "scale"), CASES, ids=str)
def test_the_threshold_is_the_smallest_that_keeps_delta(kind: str, scale: Fraction, l0: int) -> None:
    """With q = P(1 + Z >= tau): one of l0 groups of one unit is shown with probability 1 - (1 - q)^l0, exactly."""
    for delta in DELTAS:
        tau = threshold(noise_of(kind, scale), l0, delta)
        assert 1 - (1 - above(kind, scale, tau - 1)) ** l0 <= delta
        assert 1 - (1 - above(kind, scale, tau - 2)) ** l0 > delta


def test_equality_with_the_threshold_counts_as_shown() -> None:
    """A delta that is exactly the tail at m allows tau = m + 1, one that is a little smaller does not."""
    noise = DiscreteLaplace(Fraction(2))
    delta = noise.tail(9)
    assert threshold(noise, 1, delta) == 10
    assert threshold(noise, 1, delta - Fraction(1, 10**60)) == 11
    assert release(10, 10) and not release(9, 10)


def test_the_closed_form_of_the_laplace_threshold() -> None:
    """tau = 1 + ceil(scale * ln(1 / ((1 + a) delta))): 15 and 133 for epsilon 1 and 1/10 at delta 10^-6."""
    assert threshold(DiscreteLaplace(Fraction(1)), 1, Fraction(1, 10**6)) == 15
    assert threshold(DiscreteLaplace(Fraction(10)), 1, Fraction(1, 10**6)) == 133


@pytest.mark.parametrize("l0", [1, 2, 10, 1000])
@pytest.mark.parametrize("delta", [*DELTAS, Fraction(1, 10**30), Fraction(1, 10**120), Fraction(9, 10)], ids=float)
def test_the_share_of_a_group(l0: int, delta: Fraction) -> None:
    share = delta_per_group(l0, delta)
    assert delta / l0 <= share <= delta
    assert float(share) == pytest.approx(-expm1(log1p(-float(delta)) / l0), rel=1e-12)
    if share.denominator < 10**400:
        assert 1 - (1 - share) ** min(l0, 10) <= delta


@pytest.mark.parametrize("delta", [Fraction(1, 2), Fraction(9, 10), Fraction(999, 1000)], ids=str)
def test_a_large_delta_still_has_a_smallest_threshold(delta: Fraction) -> None:
    noise = DiscreteLaplace(Fraction(3))
    tau = threshold(noise, 1, delta)
    assert noise.tail(tau - 1) <= delta < noise.tail(tau - 2)


def test_thresholds_of_wide_noise() -> None:
    tau = threshold(DiscreteLaplace(Fraction(10**9)), 1, Fraction(1, 10**6))
    assert tau == pytest.approx(13.122363377e9, abs=10)


@pytest.mark.parametrize(
    ("l0", "delta"), [(0, Fraction(1, 2)), (1, Fraction(0)), (1, Fraction(1)), (-1, Fraction(1, 2))]
)
def test_a_threshold_needs_a_delta_and_a_group(l0: int, delta: Fraction) -> None:
    with pytest.raises(ValueError, match="threshold"):
        threshold(DiscreteLaplace(Fraction(1)), l0, delta)
