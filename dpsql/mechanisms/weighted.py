"""How wide a weighted sum of two independent noise draws is: for sums that are read off a shared pair of cells."""

from __future__ import annotations

import math
from fractions import Fraction


def laplace_half_width(scale: Fraction, first: float, second: float, level: Fraction) -> float:
    """h with P(|first * Z1 + second * Z2| > h) <= 1 - level for discrete Laplace Z of that scale.

    Why     for continuous noise with b1 > b2 the probability is (b1^2 exp(-h / b1) - b2^2 exp(-h / b2)) / (b1^2 - b2^2); rounding
            a continuous draw to an integer moves it by at most 1/2, which the added (first + second) / 2 covers, and discrete
            Laplace is no wider than that rounding
    """
    large, small = sorted((abs(first) * float(scale), abs(second) * float(scale)), reverse=True)
    outside = float(1 - level)
    low, high = 0.0, 60.0 * large + 1.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _outside(middle, large, small) > outside else (low, middle)
    return high + (abs(first) + abs(second)) / 2


def _outside(h: float, large: float, small: float) -> float:
    """P(|X| > h) for a sum of continuous Laplace variables of two scales."""
    if large == 0:
        return 0.0
    if small < 1e-6 * large:
        return math.exp(-h / large)
    if large - small < 1e-6 * large:
        return (1 + h / (2 * large)) * math.exp(-h / large)
    return (large**2 * math.exp(-h / large) - small**2 * math.exp(-h / small)) / (large**2 - small**2)


def gaussian_half_width(half_width: int, first: float, second: float) -> float:
    """The same for discrete Gaussian draws with a known half-width: independent variances add, and a quantum of each for the grid."""
    return math.hypot(first, second) * half_width + abs(first) + abs(second)
