"""Choosing one of many candidates at random, exactly.

Every candidate gets a random key, a real number, and the largest key wins. A key is only ever known to lie in an
interval, computed from the first bits of its random number; while the intervals leave more than one winner, more bits
are drawn. So each candidate has the probability of the formula, not of a floating-point approximation of it, whose
wrong last digits can give away what the costs were. Floating point only rules out, with room for its errors.

Source  Mironov 2012, On Significance of the Least Significant Bits for Differential Privacy (why not just floats);
        Ilvento 2020, Implementing the Exponential Mechanism with Base-2 Differential Privacy (for choices)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.core.errors import error
from dpsql.mechanisms.exact_sampler import uniform

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Kind = Literal["exponential", "permute_and_flip"]
MOST_COST = 2**62
MOST_WEIGHT = 2**52
MOST_UNIFORM = 2**62

_FIRST_BITS = 63
_MORE_BITS = 64
_CLEAR = 2**36
_FAR = 2**11
_SLIP = 2.0**-28


def choose(costs: Integers, weights: Integers, rate: Fraction, kind: Kind) -> int:
    """A position, at random; entry i stands for weights[i] candidates of the same cost.

    Input   0 <= costs <= 2^62, a cost being minus a score; 1 <= weights <= 2^52; rate > 0  [1 / cost]
    Output  exponential       position i has a probability proportional to weights[i] * exp(-rate * costs[i])
            permute_and_flip  the candidates in random order, each taken with probability exp(-rate * (cost - least)),
                              until one is taken
    Why     V uniform on (0, 1), X = -ln(1 - V) a unit exponential, Y = X / weight, loss = rate * (cost - least).
            exponential       exp(loss) * Y is exponential with the rate weight * exp(-loss), and the smallest of
                              independent exponentials is the i-th with a probability proportional to its rate: the
                              largest key -ln Y - loss wins (Gumbel noise on ln weight - loss)
            permute_and_flip  is the largest of E - loss over all candidates, E unit exponentials. The largest E of a
                              run of equals is at most t with probability (1 - exp(-t))^weight, so it is
                              -ln(1 - exp(-Y)): the largest key -ln(1 - exp(-Y)) - loss wins
            Two keys are equal with probability 0, so bits decide at some point
    Refuses DPSQL-901 what is not in these ranges
    Source  McKenna, Sheldon 2020, Permute-and-Flip: A New Mechanism for Differentially Private Selection;
            Ding, Kifer et al. 2021, The Permute-and-Flip Mechanism Is Identical to Report-Noisy-Max with Exponential
            Noise (arXiv 2105.07260)
    """
    check()
    _check(costs, weights, rate)
    heads = _first_bits(costs.size)
    above = costs - costs.min()
    low, high = _intervals(heads, above, weights, rate, kind)
    left = np.flatnonzero(high > low.max()).tolist()
    contenders = [
        _Contender(i, int(weights[i]), rate * int(above[i]), int(heads[i]), _FIRST_BITS, kind)
        for i in (left if len(left) > 1 else ())
    ]
    return _settled(contenders) if contenders else int(left[0])


def below(n: int) -> int:
    """A uniform integer in [0, n), for n >= 1 of any size: as many random bits as needed, too large ones drawn again."""
    if n < 1:
        raise error(901, "a choice is out of range")
    if n <= MOST_UNIFORM:
        return int(uniform(n, 1)[0])
    bits = (n - 1).bit_length()
    while True:
        value = _random_bits(bits)
        if value < n:
            return value


def _check(costs: Integers, weights: Integers, rate: Fraction) -> None:
    fits = (
        rate > 0
        and costs.size == weights.size > 0
        and costs.min() >= 0
        and costs.max() <= MOST_COST
        and weights.min() >= 1
        and weights.max() <= MOST_WEIGHT
    )
    if not fits:
        raise error(901, "a choice is out of range")


def _first_bits(size: int) -> Integers:
    words = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
    return (words >> np.uint64(64 - _FIRST_BITS)).astype(np.int64)


def _random_bits(bits: int) -> int:
    size = (bits + 7) // 8
    return int.from_bytes(os.urandom(size), "big") >> (8 * size - bits)


def _intervals(heads: Integers, above: Integers, weights: Integers, rate: Fraction, kind: Kind) -> tuple[Reals, Reals]:
    """Numbers below and above each key, by floating point; all of them -inf and +inf where that is not accurate.

    Input   V in [head, head + 1] * 2^-63
    Why     The key is computed for V = head * 2^-63. Its error is at most the relative error of Y, as the derivatives
            of both keys by ln Y are between -1 and 0, and a few roundings. With 2^-27 <= V <= 1 - 2^-27:
              V and 1 - V     2^-53 of V is at most 2^-30 of X, since X >= V and (1 - V) * X >= 2^-23 for V >= 1/2
              head + 1        moves X by at most 1 / head + 1 / (2^63 - head - 1) <= 2^-34 of it
              log, log1p, expm1, the divisions
                              2^-40 of each result is granted, 2^12 times what their authors promise; keys without
                              loss are between 0 and 55, or -3 and 55, so this is at most 2^-33
              loss            at most 2^11, so 2^-40 covers its roundings. Above that it is cut off, which leaves the
                              number above the key valid, and the one below is not given
            together less than 2^-29; twice that is added
    """
    v = heads * 2.0**-_FIRST_BITS
    loss = np.minimum(above * float(min(rate, Fraction(_FAR))), _FAR)
    clear = (heads >= _CLEAR) & (heads < 2**_FIRST_BITS - _CLEAR)
    with np.errstate(divide="ignore"):
        y = np.log1p(-v) / -weights
        key = -np.log(-np.expm1(-y) if kind == "permute_and_flip" else y) - loss
    return np.where(clear & (loss < _FAR), key - _SLIP, -np.inf), np.where(clear, key + _SLIP, np.inf)


@dataclass(slots=True)
class _Contender:
    """A candidate that may still win: V in [head, head + 1] * 2^-bits, loss = rate * (cost - least)."""

    position: int
    weight: int
    loss: Fraction
    head: int
    bits: int
    kind: Kind

    def interval(self) -> tuple[Decimal, Decimal]:
        """Numbers below and above the key, to far more than `bits` bits.

        Why  V and 1 - V have at most `bits` decimal digits, so they are exact; each operation rounds correctly to
             bits + 40 digits. Y > 0 is at least 2^-(bits + 52), so 1 - exp(-Y) keeps more than bits / 2 + 23 of them.
             A key without loss is at most bits + 52, so all is off by less than 10^-(bits / 2 + 20) * (1 + loss)
        """
        digits = Context(prec=self.bits + 40, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
        with localcontext(digits):
            loss = Decimal(self.loss.numerator) / Decimal(self.loss.denominator)
            slip = (1 + loss).scaleb(-(self.bits // 2 + 20))
            return self._key(self.head + 1) - loss - slip, self._key(self.head) - loss + slip

    def _key(self, numerator: int) -> Decimal:
        """The key without its loss, at V = numerator * 2^-bits: falling in V, infinite at its ends."""
        v = Decimal(numerator) / Decimal(2**self.bits)
        y = -(1 - v).ln() / self.weight
        return -(1 - (-y).exp()).ln() if self.kind == "permute_and_flip" else -y.ln()

    def draw_more(self) -> None:
        self.head = (self.head << _MORE_BITS) | _random_bits(_MORE_BITS)
        self.bits += _MORE_BITS


def _settled(contenders: Sequence[_Contender]) -> int:
    """The position of the largest key, with as many more bits as that takes."""
    while True:
        intervals = [contender.interval() for contender in contenders]
        best = max(low for low, _ in intervals)
        contenders = [c for c, (_, high) in zip(contenders, intervals, strict=True) if high > best]
        if len(contenders) == 1:
            return contenders[0].position
        for contender in contenders:
            contender.draw_more()
