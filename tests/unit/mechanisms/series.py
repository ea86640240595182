"""Probabilities of the two noises, summed term by term in 60 digits, apart from the code under test."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import numpy.typing as npt

DIGITS = Context(prec=60)


def weights(kind: str, scale: Fraction, reach: int) -> list[Decimal]:
    """exp(-|z| / scale) or exp(-z^2 / (2 scale^2)) for z from 0 to reach."""
    with localcontext(DIGITS):
        width = Decimal(scale.numerator) / scale.denominator
        if kind == "laplace":
            return [(-z / width).exp() for z in range(reach + 1)]
        return [(-Decimal(z * z) / (2 * width * width)).exp() for z in range(reach + 1)]


def tail(points: Sequence[Decimal], m: int) -> Fraction:
    """P(Z >= m) for m >= 1."""
    with localcontext(DIGITS):
        return Fraction(sum(points[m:])) / Fraction(2 * sum(points) - points[0])


def both_sides_of_sum(points: Sequence[Decimal], copies: int) -> npt.NDArray[np.float64]:
    """P(|Z1 + ... + Zn| > h) for h = 0, 1, ..., by convolution."""
    half = np.array([float(p) for p in points])
    single = np.concatenate([half[:0:-1], half])
    single /= single.sum()
    result = single
    for _ in range(copies - 1):
        result = np.convolve(result, single)
    above = result[len(result) // 2 + 1 :]
    return 2 * np.cumsum(above[::-1])[::-1]
