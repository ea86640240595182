"""Randomised response: every answer, one of a list, is exchanged for another one with a known probability."""

from __future__ import annotations

from collections.abc import Sequence
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
    """An answer of k is kept with probability p = e^epsilon / (e^epsilon + k - 1), else turned round: each of the others is as likely.

    Input   LEAST <= epsilon <= MOST  [nats], values = k >= 2
    Output  (epsilon, 0)-DP for one answer in place of another: each report has probability p or q = (1 - p) / (k - 1), and
            p / q <= e^epsilon. So is a uniform report in place of an answer, since q <= 1 / k <= p
    Why     1 - p is flips / 2^64, with flips rounded up: one coin is one uniform 64-bit integer, compared exactly
    Source  Warner 1965, Randomized Response; Kairouz, Oh, Viswanath 2016, Extremal Mechanisms for Local Differential
            Privacy (the best p, and k values)

    >>> round(RandomizedResponse(Fraction(1)).kept, 6), RandomizedResponse(Fraction(1)).describe()
    (0.731059, 'randomised response, epsilon 1 a row')
    """

    epsilon: Fraction
    values: int = 2

    def __post_init__(self) -> None:
        if not LEAST <= self.epsilon <= MOST:
            raise ValueError("randomised response needs an epsilon from 0.001 to 40")

    @property
    def flips(self) -> int:
        """Number of 2^64 equally likely integers that turn an answer round."""
        return _flips(self.epsilon, self.values)

    @property
    def flipped(self) -> float:
        """q"""
        return self.flips / (1 << BITS) / (self.values - 1)

    @property
    def kept(self) -> float:
        """p"""
        return 1 - self.flips / (1 << BITS)

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

    def reports(self, source: NoiseSource, answers: Sequence[int], missing: int) -> list[int]:
        """Number of reports of each value.

        answers  of each value, how many give it
        missing  reports of those who gave none: each value is as likely
        """
        found = evenly(source, missing, self.values)
        for place, count in enumerate(answers):
            turned = self.turned(source, count)
            found[place] += count - turned
            for other, moved in enumerate(evenly(source, turned, self.values - 1)):
                found[other + (other >= place)] += moved
        return found

    def describe(self) -> str:
        return f"randomised response, epsilon {shown(self.epsilon)} a row"


def evenly(source: NoiseSource, count: int, values: int) -> list[int]:
    """Number of times that each of some values is drawn, all equally likely.

    Why  2^64 is cut into as many parts of one size, and an integer beyond the last is drawn anew: so each value is exactly as likely
    """
    if values == 1:
        return [count]
    width, found = (1 << BITS) // values, np.zeros(values, dtype=np.int64)
    while count:
        size = min(_AT_ONCE, count)
        bits = source.below(1 << BITS * size).to_bytes(BITS // 8 * size, "little")
        part = np.frombuffer(bits, dtype="<u8") // np.uint64(width)
        drawn = np.bincount(part[part < values].astype(np.int64), minlength=values)
        found += drawn
        count -= int(drawn.sum())
    return [int(number) for number in found]


@lru_cache(maxsize=64)
def _flips(epsilon: Fraction, values: int) -> int:
    with localcontext(_DIGITS):
        odds = Fraction((Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp())
    return ceil((1 << BITS) / (1 + odds / _UP / (values - 1)))
