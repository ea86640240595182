"""The noise of two released cells that were bought apart, for what is made of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, hypot
from statistics import NormalDist

import numpy as np

from dpsql.mechanisms.additive import AdditiveNoise, Floats

_DRAWS = 4096


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Independent noise of two kinds: the first cell's and the second's [quanta of each]."""

    first: AdditiveNoise
    second: AdditiveNoise

    def half_width_of_sum(self, copies: int, level: Fraction) -> int:
        """Of both cells together, `copies` being 2."""
        return ceil(self.half_width_of_weights((1.0,) * copies, level))

    def half_width_of_weights(self, weights: Sequence[float], level: Fraction) -> float:
        """h with P(|w1 * Z1 + w2 * Z2| > h) <= 1 - level, on a grid of both distributions; half a quantum of each for rounding.

        Why  one weight is worked out exactly. With two, each quantile of one distribution meets all of a grid of the other: the
             probability is added up over 4,096 pairs that fill the square evenly, and the next pair outside is taken. Where both are
             Gaussians that were rounded, so is their sum
        """
        one, other = (abs(w) for w in weights)
        if not one or not other:
            noise, weight = (self.first, one) if one else (self.second, other)
            return weight * noise.half_width(level)
        if self.first.deviation is not None and self.second.deviation is not None:
            of_sum = hypot(one * self.first.deviation, other * self.second.deviation)
            return NormalDist().inv_cdf((1 + float(level)) / 2) * of_sum + (one + other) / 2
        sizes = np.sort(np.abs(one * _even(self.first, 0) + other * _even(self.second, 1)))
        place = min(ceil(float(level) * _DRAWS), _DRAWS - 1)
        return float(sizes[place]) + (one + other) / 2

    def at(self, points: Floats) -> Floats:
        """Quantiles, the first row or column of two being the first cell's."""
        return np.stack([self.first.at(points[0]), self.second.at(points[1])])


@lru_cache(maxsize=64)
def _even(noise: AdditiveNoise, dimension: int) -> Floats:
    """Quantiles at one coordinate of points that fill the square evenly: multiples of the golden ratio."""
    ranks = np.arange(_DRAWS, dtype=np.float64)
    at = (ranks + 0.5) / _DRAWS if dimension == 0 else (ranks * 0.6180339887498949 + 0.5) % 1.0
    return noise.at(np.clip(at, 1e-9, 1 - 1e-9))
