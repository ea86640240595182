"""How wide a weighted sum of independent noise draws is: for what is read off several cells of one vector."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_SMALL = 1e-3
"""Weights below this share of the largest are added to the width instead of being worked out."""


@lru_cache(maxsize=4096)
def laplace_half_width(scale: float, weights: tuple[float, ...], level: Fraction) -> float:
    """h with P(|w1 * Z1 + w2 * Z2 + ...| > h) <= 1 - level for discrete Laplace Z of that scale.

    Why     for continuous noise the probability is known: in closed form for two draws, as an integral over the characteristic
            function for more. Rounding a continuous draw to an integer moves it by at most 1/2, which half the sum of the
            weights covers, and discrete Laplace is no wider than that rounding
    Source  Gil-Pelaez 1951, Note on the Inversion Theorem
    """
    sizes = sorted((abs(w) for w in weights), reverse=True)
    largest = sizes[0] if sizes else 0.0
    if largest == 0:
        return 0.0
    kept = [size / largest for size in sizes if size >= _SMALL * largest]
    rest = sum(size for size in sizes if size < _SMALL * largest)
    outside = float(1 - level)
    low, high = 0.0, 60.0 * len(kept)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _outside(middle, kept) > outside else (low, middle)
    return scale * (largest * high + rest * -math.log(outside)) + sum(sizes) / 2


def _outside(h: float, sizes: list[float]) -> float:
    """P(|X| > h) for a sum of continuous Laplace variables of these scales, the largest of them 1."""
    if len(sizes) > 2:
        return _integrated(h, sizes)
    small = sizes[1] if len(sizes) == 2 else 0.0
    if small == 0:
        return math.exp(-h)
    if 1 - small < 1e-6:
        return (1 + h / 2) * math.exp(-h)
    return (math.exp(-h) - small**2 * math.exp(-h / small)) / (1 - small**2)


_FREQUENCIES = np.linspace(0.0, 200.0, 20_001)[1:]


def _integrated(h: float, sizes: list[float]) -> float:
    """1 - 2 / pi * the integral of sin(th) / t * phi(t), phi the product of 1 / (1 + b^2 t^2): below 10^-9 beyond t = 200."""
    t = _FREQUENCIES
    phi = np.prod([1 / (1 + (size * t) ** 2) for size in sizes], axis=0)
    values = np.sin(h * t) / t * phi
    step = float(t[1] - t[0])
    # the trapezoid rule, the integrand at 0 being h
    return 1 - 2 / math.pi * step * (float(values.sum()) + h / 2)


def gaussian_half_width(half_width: int, weights: Sequence[float]) -> float:
    """The same for discrete Gaussian draws with a known half-width: variances add, and a quantum of each for the grid."""
    return math.hypot(*weights) * half_width + sum(abs(w) for w in weights)


def laplace_quantiles(scale: float, points: Floats) -> Floats:
    """The values below which continuous Laplace noise is with these probabilities, each in (0, 1)."""
    return np.where(points < 0.5, np.log(2 * points), -np.log(2 * (1 - points))) * scale


def gaussian_quantiles(sigma: float, points: Floats) -> Floats:
    """The same for Gaussian noise."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse(p) for p in points.ravel().tolist()]).reshape(points.shape) * sigma
