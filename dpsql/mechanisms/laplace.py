"""Discrete Laplace noise, for pure differential privacy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import floor, log

from dpsql.core.events import Event, Kind
from dpsql.core.loss import PrivacyLoss
from dpsql.mechanisms.additive import AdditiveNoise, Floats, check_copies, half_width_of, shown
from dpsql.mechanisms.conversions import pure
from dpsql.mechanisms.renyi import of_discrete_laplace
from dpsql.mechanisms.rounding import drawn_scale
from dpsql.mechanisms.source import NoiseSource
from dpsql.mechanisms.weighted import laplace_half_width, laplace_quantiles

_DIGITS = Context(prec=100, Emin=-2000, Emax=2000, traps=[])
_UP = 1 + Fraction(1, 10**55)
_LEAST = Fraction(1, 10**1000)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(AdditiveNoise):
    """Integer noise with P(Z = z) = (1 - a) / (1 + a) * a^|z|, a = exp(-1 / scale).

    Input   scale > 0  [quanta]
    Output  P(Z >= m) = a^m / (1 + a) for m >= 1
    Why     moving the exact vector by l1 changes each probability by a factor of at most exp(l1 / scale). What is drawn
            has drawn_scale(scale), at most 2^-50 larger; tails and half-widths are those of what is drawn
    Source  Ghosh, Roughgarden, Sundararajan 2009, Universally Utility-Maximizing Privacy Mechanisms

    >>> DiscreteLaplace.for_loss(3, Fraction(1, 100)).describe()
    'discrete Laplace, scale 300'
    """

    scale: Fraction

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise ValueError("a noise scale is positive")

    @classmethod
    def for_loss(cls, l1: int, epsilon: Fraction) -> DiscreteLaplace:
        """The noise that makes a vector with sensitivity l1 [quanta] epsilon-DP [nats], exactly."""
        if l1 <= 0 or epsilon <= 0:
            raise ValueError("Laplace noise needs a sensitivity and an epsilon above zero")
        return cls(l1 / Fraction(epsilon))

    def epsilon(self, l1: int) -> Fraction:
        """The loss of a vector with sensitivity l1 [quanta], in nats."""
        return l1 / self.scale

    def tail(self, m: int) -> Fraction:
        """An upper bound of P(Z >= m), too large by a factor of at most 1 + 10^-50, or 10^-1000 where it is smaller."""
        return self._tail_of_sum(1, m)

    def half_width_of_sum(self, copies: int, level: Fraction) -> int:
        """The smallest h [quanta] for the sum of one, two or three independent copies, exactly.

        >>> DiscreteLaplace(Fraction(10**6)).half_width_of_sum(2, Fraction(95, 100))
        4113003
        """
        check_copies(copies)
        return _half_width(self, copies, level)

    def half_width_of_weights(self, weights: Sequence[float], level: Fraction) -> float:
        """h with P(|w1 * Z1 + w2 * Z2 + ...| > h) <= 1 - level.

        Why  rounding a continuous draw to an integer moves it by at most 1/2, which half the sum of the weights covers, and discrete
             Laplace is no wider than that rounding
        """
        sizes = tuple(sorted((abs(w) for w in weights if w), reverse=True))
        return float(self.scale) * laplace_half_width(sizes, level) + sum(sizes) / 2

    def at(self, points: Floats) -> Floats:
        """Quantiles of continuous Laplace noise of this scale."""
        return laplace_quantiles(float(self.scale), points)

    def covers(self, l1: int, l2_squared: int, loss: PrivacyLoss) -> bool:
        """True if a vector with these sensitivities [quanta] loses at most `loss` under this noise."""
        return pure(self.epsilon(l1)).within(loss)

    @property
    def squared_scale(self) -> Fraction:
        return self.scale**2

    @property
    def kept(self) -> tuple[str, Fraction]:
        return "laplace", self.scale

    def event(self, l1: int, loss: PrivacyLoss) -> Event:
        return EVENT.event(l1, self.scale)

    def sample(self, source: NoiseSource, size: int) -> Sequence[int]:
        return source.laplace(self.scale, size)

    def describe(self) -> str:
        return f"discrete Laplace, scale {shown(self.scale)}"

    def _tail_of_sum(self, copies: int, m: int) -> Fraction:
        if m <= 0:
            return min(Fraction(1), 1 - self._tail_of_sum(copies, 1 - m) * (1 - Fraction(1, 10**50)) + _LEAST)
        return max(Fraction(_sum_tail(drawn_scale(self.scale), copies, m)) * _UP, _LEAST)


EVENT = Kind("discrete Laplace", ("l1", "scale"), lambda l1, scale: pure(l1 / scale), of_discrete_laplace)


@lru_cache(maxsize=256)
def _half_width(noise: DiscreteLaplace, copies: int, level: Fraction) -> int:
    guess = floor(_continuous_quantile(copies, float(1 - level)) * float(noise.scale)) if level < 1 else 0
    return half_width_of(lambda m: noise._tail_of_sum(copies, m), level, guess)


def _sum_tail(scale: Fraction, copies: int, m: int) -> Decimal:
    """P(Z1 + ... + Zn >= m) for m >= 1, to 60 digits and more (1 - a loses as many of the 100 as the scale is long).

    Why  the sum is the difference of two negative binomial variables, so with q = a^2 and w >= 0
         P(w) = (1 - a)^2n a^w sum_j C(w + j + n - 1, n - 1) C(j + n - 1, n - 1) q^j,
         and the sum over j is c2 C(w, 2) + c1 w + c0. Setting w = m + i, the sum over i >= 0 has the closed form below.
    """
    with localcontext(_DIGITS):
        ratio, a, gap, (c2, c1, c0) = _sum_of(scale, copies)
        over_pairs = c2 * (m * (m - 1) // 2 / gap + m * a / gap**2 + a**2 / gap**3)
        over_points = c1 * (m / gap + a / gap**2)
        return (-ratio * m).exp() * gap ** (2 * copies) * (over_pairs + over_points + c0 / gap)


@lru_cache(maxsize=64)
def _sum_of(scale: Fraction, copies: int) -> tuple[Decimal, Decimal, Decimal, tuple[Decimal, Decimal, Decimal]]:
    """1 / scale, a, 1 - a and the coefficients: what all tails of one sum have in common."""
    with localcontext(_DIGITS):
        ratio = Decimal(scale.denominator) / Decimal(scale.numerator)
        a = (-ratio).exp()
        return ratio, a, 1 - a, _coefficients(copies, a * a)


def _coefficients(copies: int, q: Decimal) -> tuple[Decimal, Decimal, Decimal]:
    gap = 1 - q
    match copies:
        case 1:
            return Decimal(0), Decimal(0), 1 / gap
        case 2:
            return Decimal(0), 1 / gap**2, (1 + q) / gap**3
        case _:
            return 1 / gap**3, (2 + q) / gap**4, (1 + 4 * q + q * q) / gap**5


def _continuous_quantile(copies: int, outside: float) -> float:
    """The h with P(|sum of continuous Laplace of scale 1| > h) = outside, as a first guess: fixed-point iteration."""
    x, outside = 0.0, max(outside, 1e-300)
    for _ in range(40):
        polynomial = {1: 1.0, 2: 1 + x / 2, 3: 1 + 5 * x / 8 + x * x / 8}[copies]
        x = log(polynomial / outside)
    return x
