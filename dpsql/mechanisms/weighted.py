"""Width of a weighted sum of independent noise draws: for what is read off several cells of one vector."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from dpsql.mechanisms.additive import Floats

_SMALL = 1e-3
"""Weights below this share of the largest are added to the width instead of being worked out."""


@lru_cache(maxsize=4096)
def laplace_half_width(sizes: tuple[float, ...], level: Fraction) -> float:
    """h with P(|w1 * X1 + w2 * X2 + ...| > h) <= 1 - level for continuous Laplace X of scale 1.

    Why     that probability is known: in closed form for two draws, as an integral over the characteristic function for more. Of scale
            1, because that is what statements of one kind share
    Source  Gil-Pelaez 1951, Note on the Inversion Theorem

    sizes  of the weights, the largest first
    """
    largest = sizes[0] if sizes else 0.0
    if largest == 0:
        return 0.0
    kept = [size / largest for size in sizes if size >= _SMALL * largest]
    rest = sum(size for size in sizes if size < _SMALL * largest)
    outside = float(1 - level)
    beyond = _outside(kept)
    low, high = 0.0, 60.0 * len(kept)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > outside else (low, middle)
    return largest * high + rest * -math.log(outside)


def _outside(sizes: list[float]) -> Callable[[float], float]:
    """P(|X| > h) as a function of h, for a sum of continuous Laplace variables of these scales, the largest of them 1."""
    if len(sizes) > 2:
        return _integrated(sizes)
    small = sizes[1] if len(sizes) == 2 else 0.0
    if small == 0:
        return lambda h: math.exp(-h)
    if 1 - small < 1e-6:
        return lambda h: (1 + h / 2) * math.exp(-h)
    return lambda h: (math.exp(-h) - small**2 * math.exp(-h / small)) / (1 - small**2)


_FREQUENCIES = np.linspace(0.0, 200.0, 20_001)[1:]
_NOTHING = 1e-10


def _integrated(sizes: list[float]) -> Callable[[float], float]:
    """1 - 2 / pi * the integral of sin(th) / t * phi(t), phi the product of 1 / (1 + b^2 t^2): below 10^-9 beyond t = 200.

    phi falls, and where it is below 10^-10 the rest is left out: with many variables nearly all of it
    """
    step = float(_FREQUENCIES[0])
    phi = np.ones_like(_FREQUENCIES)
    for size, copies in Counter(sizes).items():
        phi = phi / (1 + (size * _FREQUENCIES[: len(phi)]) ** 2) ** copies
        phi = phi[: int(np.searchsorted(-phi, -_NOTHING)) + 1]
    t = _FREQUENCIES[: len(phi)]
    weights = phi / t
    # the trapezoid rule, the integrand at 0 being h
    return lambda h: 1 - 2 / math.pi * step * (float((np.sin(h * t) * weights).sum()) + h / 2)


def gaussian_half_width(half_width: int, weights: Sequence[float]) -> float:
    """The same for rounded Gaussian draws with a known half-width.

    Why  before rounding a draw has a half-width of at most half_width + 1/2, and variances add. Rounding moves each draw
         by at most 1/2. Both halves together are at most a quantum of each draw
    """
    return math.hypot(*weights) * half_width + sum(abs(w) for w in weights)


def laplace_quantiles(scale: float, points: Floats) -> Floats:
    """The values below which continuous Laplace noise is with these probabilities, each in (0, 1)."""
    return np.where(points < 0.5, np.log(2 * points), -np.log(2 * (1 - points))) * scale


def gaussian_quantiles(sigma: float, points: Floats) -> Floats:
    """The same for Gaussian noise."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse(p) for p in points.ravel().tolist()]).reshape(points.shape) * sigma
