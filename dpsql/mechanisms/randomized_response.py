"""Randomised response: every answer of yes or no is turned round with a known probability."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np

from dpsql.mechanisms.additive import shown
from dpsql.mechanisms.source import NoiseSource

BITS = 64
LEAST, MOST = Fraction(1, 1000), Fraction(40)
"""[nats] Below, an answer says next to nothing; above, the probability of turning one round does not fit into BITS."""
_AT_ONCE = 2**17
_DIGITS = Context(prec=80)
_UP = 1 + Fraction(1, 10**70)


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """An answer is kept with probability p = e^epsilon / (e^epsilon + 1), else turned round.

    Input   LEAST <= epsilon <= MOST  [nats]
    Output  (epsilon, 0)-DP for one answer in place of another: each report has, of the two, probability p or 1 - p, and
            p / (1 - p) <= e^epsilon
    Why     1 - p is flips / 2^64, with flips rounded up: one coin is one uniform 64-bit integer, compared exactly
    Source  Warner 1965, Randomized Response; Kairouz, Oh, Viswanath 2016, Extremal Mechanisms for Local Differential
            Privacy (the best p)

    >>> round(RandomizedResponse(Fraction(1)).kept, 6), RandomizedResponse(Fraction(1)).describe()
    (0.731059, 'randomised response, epsilon 1 a row')
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        if not LEAST <= self.epsilon <= MOST:
            raise ValueError("randomised response needs an epsilon from 0.001 to 40")

    @property
    def flips(self) -> int:
        """Number of 2^64 equally likely integers that turn an answer round."""
        return _flips(self.epsilon)

    @property
    def flipped(self) -> float:
        """q = 1 - p."""
        return self.flips / (1 << BITS)

    @property
    def kept(self) -> float:
        """p"""
        return 1 - self.flipped

    def turned(self, source: NoiseSource, answers: int) -> int:
        """Number of answers that are turned round: a coin for each, a number of theirs at once.

        Why  below(2^n) is n random bits, which are cut into integers of 64
        """
        found = 0
        for start in range(0, answers, _AT_ONCE):
            size = min(_AT_ONCE, answers - start)
            bits = source.below(1 << BITS * size).to_bytes(BITS // 8 * size, "little")
            found += int((np.frombuffer(bits, dtype="<u8") < np.uint64(self.flips)).sum())
        return found

    def describe(self) -> str:
        return f"randomised response, epsilon {shown(self.epsilon)} a row"


@lru_cache(maxsize=64)
def _flips(epsilon: Fraction) -> int:
    with localcontext(_DIGITS):
        odds = Fraction((Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp())
    return ceil((1 << BITS) / (1 + odds / _UP))
