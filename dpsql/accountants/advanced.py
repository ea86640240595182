"""advanced: squared epsilons add up to S, and sqrt(2 ln(1 / delta) S) + S / 2 is at most epsilon.

Source  Whitehouse, Ramdas, Rogers, Wu 2023, Fully-Adaptive Composition in Differential Privacy, theorem 1
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from dpsql.accountants.record import Measure, of_one
from dpsql.mechanisms.reach import largest_squares

_PLACES = 10**12


def _root(square: Fraction) -> Fraction:
    """The largest epsilon of twelve places whose square is at most this."""
    return Fraction(isqrt(square.numerator * _PLACES**2 // square.denominator), _PLACES)


ADVANCED = of_one(
    "advanced",
    "advanced",
    Measure("epsilon_squared", lambda event: event.loss.squares, largest_squares, lambda e: e * e, _root, None),
)
