"""The noise of a sum of released cells: what is read off stored answers was never drawn as one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, floor, sqrt
from statistics import NormalDist

import numpy as np

from dpsql.errors import error
from dpsql.loss import PrivacyLoss
from dpsql.mechanisms.additive import AdditiveNoise, Floats, check_copies, half_width_of
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.source import NoiseSource
from dpsql.mechanisms.weighted import gaussian_quantiles

_MANY = 200
"""From this many Laplace draws on their sum is taken for Gaussian when quantiles are read."""


def summed(noise: AdditiveNoise, count: int) -> AdditiveNoise | None:
    """The noise of the sum of `count` independent draws; None where it is not known.

    Why  Gaussian variances add up; rounding a draw to an integer adds 1/12 to its variance, and one rounding is in the result already
    """
    if count == 1:
        return noise
    if isinstance(noise, DiscreteGaussian):
        return DiscreteGaussian(count * noise.sigma_squared + Fraction(count - 1, 12))
    return SummedLaplace(noise.scale, count) if isinstance(noise, DiscreteLaplace) else None


@dataclass(frozen=True, slots=True)
class SummedLaplace:
    """The sum of independent discrete Laplace draws of one scale [quanta]: for half-widths, never drawn itself."""

    scale: Fraction
    count: int

    def tail(self, m: int) -> Fraction:
        """Chernoff's bound of P(Z >= m), for continuous draws that round to these: at least as wide.

        Why  E exp(t X) = 1 / (1 - t^2 scale^2), and the best t is where the bound's derivative is 0
        """
        x = (m - self.count / 2) / float(self.scale)
        if x <= 0:
            return Fraction(1)
        t = (sqrt(self.count**2 + x * x) - self.count) / x
        return Fraction(min(1.0, exp(-t * x) / (1 - t * t) ** self.count * (1 + 1e-9)))

    def half_width(self, level: Fraction) -> int:
        return self.half_width_of_sum(1, level)

    def half_width_of_sum(self, copies: int, level: Fraction) -> int:
        """h with P(|Z1 + ... + Zn| > h) <= 1 - level [quanta]."""
        check_copies(copies)
        if copies * self.count > _MANY:
            several = SummedLaplace(self.scale, copies * self.count)
            guess = floor(2 * sqrt(2 * copies * self.count) * float(self.scale))
            return half_width_of(several.tail, level, guess)
        return ceil(self.half_width_of_weights((1.0,) * copies, level))

    def half_width_of_weights(self, weights: Sequence[float], level: Fraction) -> float:
        """h with P(|w1 * Z1 + w2 * Z2 + ...| > h) <= 1 - level [quanta]."""
        each = [w for w in weights for _ in range(self.count)]
        if len(each) > _MANY:
            spread = sqrt(2 * sum(w * w for w in each)) * float(self.scale)
            return NormalDist().inv_cdf(1 - float(1 - level) / 2) * spread * 1.01 + sum(map(abs, each)) / 2
        return DiscreteLaplace(self.scale).half_width_of_weights(each, level)

    def at(self, points: Floats) -> Floats:
        """Quantiles of the sum of continuous draws."""
        if self.count > _MANY:
            return gaussian_quantiles(sqrt(2 * self.count) * float(self.scale), points)
        grid, below = _distribution(self.count)
        found: Floats = np.interp(points, below, grid) * float(self.scale)
        return found

    def covers(self, l1: int, l2_squared: int, loss: PrivacyLoss) -> bool:
        """Never: it is no mechanism."""
        return False

    def sample(self, source: NoiseSource, size: int) -> list[int]:
        raise error(901, "a sum of stored noise was to be drawn")

    def describe(self) -> str:
        return f"the sum of {self.count:,} draws of {DiscreteLaplace(self.scale).describe()}"


@lru_cache(maxsize=64)
def _distribution(count: int) -> tuple[Floats, Floats]:
    """A grid of values and the probability that the sum of `count` continuous Laplace draws of scale 1 is below each.

    Why  the characteristic function is (1 + t^2)^-count, and the inversion integral of Gil-Pelaez is added up by the trapezoid rule
    """
    t = np.linspace(0.0, 60.0 if count > 2 else 400.0, 24_001)[1:]
    weights = (1 + t * t) ** -float(count) / t
    edge = 8.0 * sqrt(2 * count) + 8.0
    grid = np.linspace(-edge, edge, 2001)
    step = float(t[0])
    above = np.array([step * (float((np.sin(t * x) * weights).sum()) + x / 2) for x in grid[1000:].tolist()]) / np.pi
    below = np.concatenate([0.5 - above[:0:-1], 0.5 + above])
    return grid, np.maximum.accumulate(np.clip(below, 0.0, 1.0))
