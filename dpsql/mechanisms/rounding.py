"""The scale that is drawn: the one that is owed, rounded up to a short binary fraction.

Every sampler draws with exactly this number, and every tail and half-width is computed for it, so nothing that is said
about the noise depends on which sampler ran.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, isqrt

MOST_SCALE = 2**52
FINEST = 61


def drawn_scale(scale: Fraction) -> Fraction:
    """The smallest n / 2^k at or above a scale, with k <= 61 as large as n <= 2^52 allows.

    Input   scale > 0  [quanta]
    Output  at most scale * (1 + 2^-50) for 2^-11 <= scale <= 2^52; an integer above that
    Why     up means more noise, so the loss stays below what was promised; n / 2^k is a double, so OpenDP takes it
            unchanged; n and 2^k leave the exact sampler room in 63 bits

    >>> drawn_scale(Fraction(300)), drawn_scale(Fraction(1, 3)) > Fraction(1, 3)
    (Fraction(300, 1), True)
    """
    places = _places(_log2_above(scale))
    return Fraction(ceil(scale * 2**places), 2**places)


def drawn_sigma(sigma_squared: Fraction) -> Fraction:
    """The smallest n / 2^k at or above the square root, with the limits of drawn_scale.

    >>> drawn_sigma(Fraction(49, 4)), drawn_sigma(Fraction(2)) ** 2 > 2
    (Fraction(7, 2), True)
    """
    places = _places(-(-_log2_above(sigma_squared) // 2))
    return Fraction(isqrt(ceil(sigma_squared * 4**places) - 1) + 1, 2**places)


def _log2_above(x: Fraction) -> int:
    """An exponent e with x < 2^e, at most two too large."""
    if x <= 0:
        raise ValueError("a noise scale is positive")
    return x.numerator.bit_length() - x.denominator.bit_length() + 1


def _places(log2_above: int) -> int:
    return min(FINEST, max(0, 52 - log2_above))
