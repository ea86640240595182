"""Discrete Laplace noise cut off on both sides, for a count that also decides whether its private key is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from math import exp, expm1, floor, log

import numpy as np

from dpsql.core.columns import Column, Whole, whole
from dpsql.core.events import Event, Kind
from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.mechanisms.additive import AdditiveNoise, Floats, check_copies, half_width_of, shown, smallest
from dpsql.mechanisms.conversions import pure
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.renyi import of_pure
from dpsql.mechanisms.rounding import MOST_SCALE, drawn_scale
from dpsql.mechanisms.source import NoiseSource
from dpsql.mechanisms.threshold import delta_per_group

_DIGITS = Context(prec=100, Emin=-2000, Emax=2000, traps=[])
_UP = 1 + Fraction(1, 10**55)
_LEAST = Fraction(1, 10**1000)


@dataclass(frozen=True, slots=True)
class TruncatedLaplace(AdditiveNoise):
    """Integer noise with P(Z = z) proportional to a^|z| for |z| <= most and 0 beyond, a = exp(-1 / scale).

    Input   0 < scale <= 2^52 and most >= 1  [units]; n, the number of units in a group: one unit moves at most l0 of
            these numbers, each by one
    Output  n + Z for every key with n + Z >= tau = most + 1, and nothing for the others: (epsilon, delta)-DP for
            epsilon = l0 / scale and delta = 1 - (1 - p)^l0, where
            p = P(Z = most) = a^most (1 - a) / (1 + a - 2 a^(most + 1))
    Why     1. Read n as a vector over all possible keys, 0 where nobody has the key. Let D have one unit more than D':
               at most l0 entries are n + 1 in D and n in D', and all other entries are equal.
            2. In such an entry D can give n + 1 - most to n + 1 + most, and D' n - most to n + most. What both can give
               has probabilities within a factor exp(1 / scale), since |z| differs by one. Only the upper edge
               n + 1 + most is D's alone, and only the lower edge n - most is D' 's alone: Z = most or Z = -most, with
               probability p each.
            3. Draws are independent, so none of the l0 is at D's own edge with probability (1 - p)^l0. Call this E. A
               vector in E has in D at most exp(l0 / scale) times its probability in D', so
               P(M(D) in S) <= P(M(D) in S and E) + P(not E) <= exp(epsilon) P(M(D') in S) + delta.
               With D and D' exchanged, E is the same for the lower edge.
            4. Showing an entry or hiding it, with what else is released about its key, is post-processing. An entry 0
               is never shown, as Z < tau: so drawing for the keys that occur gives what drawing for all keys would, and
               which keys occur is not seen. An entry 1 is shown only for Z = most; there delta is spent, once: the
               threshold needs no other.
            5. What is drawn has drawn_scale(scale) >= scale: its epsilon is smaller, its p larger. tail gives that p.
    Source  Desfontaines, Voss, Gipson, Mandayam 2022, Differentially Private Partition Selection: where p = delta, no
            (epsilon, delta)-DP selection shows a group of any size with a higher probability (theorem 1)
    Notes   `most` is rounded up, which costs at most one unit. At epsilon 1 and delta 10^-6 the optimum shows a group
            of 14 with probability 0.70; this one 14 with 0.27 and 15 with 0.73, as P(Z = 13) = 1.04 * 10^-6 is too much

    >>> TruncatedLaplace.for_loss(10, EpsilonDelta(Fraction(1), Fraction(1, 10**6))).describe()
    'truncated Laplace, scale 10, at most 132'
    """

    scale: Fraction
    most: int

    def __post_init__(self) -> None:
        if not 0 < self.scale <= MOST_SCALE or self.most < 1:
            raise ValueError("truncated noise needs a positive scale up to 2^52 and at least one step")

    @classmethod
    def for_loss(cls, l0: int, loss: EpsilonDelta) -> TruncatedLaplace:
        """The noise with the smallest `most` that makes counts of units in l0 groups (epsilon, delta)-DP, keys shown.

        At epsilon 1 and delta 10^-6, tau = most + 1 is 15, 41, 133 and 1314 units for l0 = 1, 3, 10 and 100; that of
        untruncated noise is 15, 45, 156 and 1775. A group is shown more often than not from n = tau on, with either.
        """
        if l0 < 1 or loss.epsilon <= 0 or loss.delta < _LEAST * l0:
            raise ValueError("truncated noise needs a group, an epsilon above zero and a delta of 10^-1000 per group")
        scale, share = l0 / Fraction(loss.epsilon), delta_per_group(l0, loss.delta)
        guess = _guess(cls(scale, 1).scale, share)
        return cls(scale, smallest(lambda m: m >= 1 and cls(scale, m).tail(m) <= share, guess))

    def epsilon(self, l1: int) -> Fraction:
        """The epsilon [nats] of l1 counts that a unit moves by one each; it comes with a delta."""
        return l1 / self.scale

    def tail(self, m: int) -> Fraction:
        """An upper bound of P(Z >= m), too large by a factor of at most 1 + 10^-50, or 10^-1000 where it is smaller;
        exactly 0 beyond `most`."""
        if m > self.most:
            return Fraction(0)
        if m <= 0:
            return min(Fraction(1), 1 - self.tail(1 - m) * (1 - Fraction(1, 10**50)) + _LEAST)
        return max(Fraction(_tail(drawn_scale(self.scale), self.most, m)) * _UP, _LEAST)

    def half_width(self, level: Fraction) -> int:
        """The smallest h [units] with P(|Z| > h) <= 1 - level."""
        return half_width_of(self.tail, level, min(self.most, DiscreteLaplace(self.scale).half_width(level)))

    def half_width_of_sum(self, copies: int, level: Fraction) -> int:
        """h [units] with P(|Z1 + ... + Zn| > h) <= 1 - level: the smallest for one copy, else an upper bound.

        Why     the half-width of untruncated noise is one here. P(|x + Y| <= h) falls as |x| grows if Y is symmetric
                and its probabilities fall away from 0, as those of Z, of untruncated noise and of their sums do; and
                |Z| is smaller than untruncated noise in distribution. So exchanging one term after the other for
                untruncated noise only widens the sum
        Source  Birnbaum 1948, On Random Variables with Comparable Peakedness
        """
        check_copies(copies)
        if copies == 1:
            return self.half_width(level)
        return min(copies * self.most, DiscreteLaplace(self.scale).half_width_of_sum(copies, level))

    def half_width_of_weights(self, weights: Sequence[float], level: Fraction) -> float:
        """h with P(|w1 * Z1 + w2 * Z2 + ...| > h) <= 1 - level: that of untruncated noise, or the largest sum.

        Why     let X be continuous Laplace noise, and X' the same with each cell [z - 1/2, z + 1/2] weighted so that X'
                rounds to Z. The weight is largest in cell 0, constant up to `most` and 0 beyond, so X' too is symmetric
                with a falling density, and |X'| is smaller than |X| in distribution. The sum of X' is then no wider
                than that of X, as in half_width_of_sum; rounding adds at most half the sum of the weights, which is in
                the bound
        """
        largest = sum(abs(w) for w in weights) * self.most
        return min(largest, DiscreteLaplace(self.scale).half_width_of_weights(weights, level))

    def at(self, points: Floats) -> Floats:
        """Quantiles of continuous Laplace noise of this scale that stays within most + 1/2."""
        outside = 2 * np.minimum(points, 1 - points)
        edge = exp(-(self.most + 0.5) / float(self.scale))
        return np.where(points < 0.5, 1, -1) * np.log(outside + (1 - outside) * edge) * float(self.scale)

    def covers(self, l1: int, l2_squared: int, loss: PrivacyLoss) -> bool:
        """True if counts with these sensitivities lose at most `loss`, their keys shown from n + Z >= most + 1 on.

        Why     with L1 = l0 linf and L2^2 = l0 linf^2, equal sensitivities mean linf = 1, what the proof is for, and
                l0 = L1. Everything else is refused
        """
        if not l1 == l2_squared >= 1 or loss.delta <= 0:
            return False
        whole = pure(self.epsilon(l1), loss.delta).within(loss)
        return whole and self.tail(self.most) <= delta_per_group(l1, loss.delta)

    @property
    def squared_scale(self) -> Fraction:
        return self.scale**2

    @property
    def shows_from(self) -> int:
        return self.most + 1

    def event(self, l1: int, loss: PrivacyLoss) -> Event:
        return EVENT.event(l1, self.scale, self.most, loss.delta)

    def sample(self, source: NoiseSource, size: int) -> Sequence[int]:
        """Independent draws: those of untruncated noise, without the ones beyond `most`.

        Why     how many are drawn again says nothing about those that are kept, nor about the data. It is about
                2 delta / epsilon of them for the noise of for_loss
        """
        kept: list[Whole] = []
        missing = size
        while missing:
            drawn = whole(source.laplace(self.scale, missing))
            kept.append(drawn[(drawn >= -self.most) & (drawn <= self.most)])
            missing -= len(kept[-1])
        return Column(np.concatenate(kept)) if kept else Column.of(())

    def describe(self) -> str:
        return f"truncated Laplace, scale {shown(self.scale)}, at most {self.most}"


EVENT = Kind(
    "truncated Laplace",
    ("l1", "scale", "most", "delta"),
    lambda l1, scale, most, delta: pure(l1 / scale, delta),
    # each of the l1 counts, which move by one, is (1 / scale, p)-DP: but for their p, which make up delta, divergences add up
    lambda order, l1, scale, most, delta: l1 * of_pure(order, 1 / scale),
)


def _tail(scale: Fraction, most: int, m: int) -> Decimal:
    """P(Z >= m) for 1 <= m <= most, to 60 digits and more: (a^m - a^(most + 1)) / (1 + a - 2 a^(most + 1))."""
    with localcontext(_DIGITS):
        ratio = Decimal(scale.denominator) / Decimal(scale.numerator)
        beyond = (-ratio * (most + 1)).exp()
        return ((-ratio * m).exp() - beyond) / (1 + (-ratio).exp() - 2 * beyond)


def _guess(scale: Fraction, share: Fraction) -> int:
    """About the m with P(Z = m) = share for most = m: the equation solved for m, in floating point."""
    step, p = 1 / float(scale), max(float(share), 1e-300)
    return floor(log((-expm1(-step) + 2 * p * exp(-step)) / (p * (1 + exp(-step)))) / step)
