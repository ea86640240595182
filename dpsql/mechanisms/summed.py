"""The noise of a sum of released cells: what is read off stored answers was never drawn as one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, hypot, log, log2, prod, sqrt
from statistics import NormalDist

import numpy as np

from dpsql.mechanisms.additive import AdditiveNoise, Floats, NoiseReadOff, check_copies
from dpsql.mechanisms.cube_noise import RoundedGaussian
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.weighted import gaussian_quantiles

_MANY = 200
"""From this many Laplace draws on their sum is taken for Gaussian when quantiles are read."""
_FEW = 8
"""Up to this many draws their sum is worked out as a continuous one, with half a quantum for each."""
_SMALL = 2**16
"""Up to this many quanta the distribution of a sum is convolved."""


def summed(noise: AdditiveNoise, count: int) -> AdditiveNoise | None:
    """The noise of the sum of `count` independent draws; None where it is not known.

    Why  Gaussian variances add up; rounding a draw to an integer adds 1/12 to its variance, and one rounding is in the result already
    """
    if count == 1:
        return noise
    if isinstance(noise, DiscreteGaussian):
        return DiscreteGaussian(count * noise.sigma_squared + Fraction(count - 1, 12))
    return SummedLaplace(noise.scale, count) if isinstance(noise, DiscreteLaplace) else None


def of_total(noise: AdditiveNoise, count: int, values: Sequence[int]) -> AdditiveNoise | None:
    """The noise of the sum of `count` released groups; None where it is not known.

    noise   of one of them
    values  of each key, how many values they have

    Why  what is bought for groups has independent noise in each. Of what is read off a cube the noise of groups goes together; where
         they have all combinations of some values, their sum is a sum of the cube's cells like any other, rounded once for each
    """
    if isinstance(noise, RoundedGaussian) and count > 1:
        if noise.groups is None or prod(values) != count:
            return None
        variance = noise.groups.variance(values) + Fraction(count - 1, 12)
        return RoundedGaussian(variance, noise.groups, tuple(values))
    if isinstance(noise, SummedLaplace):
        return replace(noise, count=count * noise.count)
    return summed(noise, count)


@dataclass(frozen=True, slots=True)
class SummedLaplace(NoiseReadOff):
    """The sum of independent discrete Laplace draws of one scale [quanta]: for half-widths, never drawn itself."""

    scale: Fraction
    count: int

    def tail(self, m: int) -> Fraction:
        """Chernoff's bound of P(Z >= m), for continuous draws that round to these.

        Why  E exp(t X) = 1 / (1 - t^2 scale^2), and at the best t it is x / (2 n t)
        """
        x = (m - self.count / 2) / float(self.scale)
        if x <= 0:
            return Fraction(1)
        t = (hypot(self.count, x) - self.count) / x
        return Fraction(min(1.0, exp(min(0.0, self.count * log(x / (2 * self.count * t)) - t * x)) * (1 + 1e-9)))

    def half_width_of_sum(self, copies: int, level: Fraction) -> int:
        """h with P(|Z1 + ... + Zn| > h) <= 1 - level [quanta]: exact where the scale is small."""
        check_copies(copies)
        draws = copies * self.count
        reach = ceil(float(self.scale) * (30 + 10 * sqrt(draws)) + draws)
        if reach <= _SMALL:
            return _convolved(float(self.scale), draws, reach, float(level))
        return ceil(self.half_width_of_weights((1.0,) * copies, level))

    def half_width_of_weights(self, weights: Sequence[float], level: Fraction) -> float:
        """h with P(|w1 * Z1 + w2 * Z2 + ...| > h) <= 1 - level [quanta].

        Why  with few draws they are worked out (weighted.py). The sum of many is near to Gaussian: its quantile with the next term of
             Cornish and Fisher's expansion, for the fourth moment, which is 6 for one draw
        """
        each = [abs(w) for w in weights if w]
        if len(each) * self.count <= _FEW:
            return DiscreteLaplace(self.scale).half_width_of_weights(
                [w for w in each for _ in range(self.count)], level
            )
        squares = [w * w for w in each]
        sigma = sqrt(self.count * sum(squares) * _variance(float(self.scale)))
        excess = 3 * sum(w * w for w in squares) / (self.count * sum(squares) ** 2)
        z = NormalDist().inv_cdf(1 - max(float(1 - level), 1e-300) / 2)
        return sigma * (z + excess * (z**3 - 3 * z) / 24) + max(each)

    def at(self, points: Floats) -> Floats:
        """Quantiles of the sum of continuous draws."""
        if self.count > _MANY:
            return gaussian_quantiles(sqrt(2 * self.count) * float(self.scale), points)
        grid, below = _distribution(self.count)
        found: Floats = np.interp(points, below, grid) * float(self.scale)
        return found

    @property
    def squared_scale(self) -> Fraction:
        return self.count * self.scale**2

    def describe(self) -> str:
        return f"the sum of {self.count:,} draws of {DiscreteLaplace(self.scale).describe()}"


def _variance(scale: float) -> float:
    """Of one discrete Laplace draw."""
    ratio = exp(-1 / scale)
    return 2 * ratio / (1 - ratio) ** 2 if scale < 1e6 else 2 * scale * scale


@lru_cache(maxsize=256)
def _convolved(scale: float, draws: int, reach: int, level: float) -> int:
    """The smallest h with P(|Z1 + ... + Zn| > h) <= 1 - level, by the discrete Fourier transform of one draw; good to 10^-10."""
    places = np.arange(-reach, reach + 1)
    one = np.exp(-np.abs(places) / scale)
    size = 2 ** ceil(log2(2 * reach + 2))
    centred = np.zeros(size)
    centred[places % size] = one / one.sum()
    whole = np.fft.irfft(np.fft.rfft(centred) ** draws, size)
    inside = whole[0] + 2 * np.concatenate([[0.0], np.cumsum(np.clip(whole[1 : size // 2], 0, None))])
    return int(np.searchsorted(inside, level + 1e-10))


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
