"""Discrete Gaussian noise, for zero-concentrated differential privacy (zCDP)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from math import ceil, floor, sqrt
from statistics import NormalDist

from dpsql.loss import PrivacyLoss
from dpsql.mechanisms.additive import Floats, check_copies, half_width_of
from dpsql.mechanisms.gaussian_tail import upper_tail
from dpsql.mechanisms.rounding import drawn_sigma
from dpsql.mechanisms.source import NoiseSource
from dpsql.mechanisms.weighted import gaussian_half_width, gaussian_quantiles

_DIGITS = Context(prec=100)
_RHO_BITS = 50
_REACH = 30


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Integer noise with P(Z = z) proportional to exp(-z^2 / (2 sigma_squared)).

    Input   sigma_squared > 0  [quanta^2]
    Output  rho = l2_squared / (2 sigma_squared) of zCDP; no epsilon without a delta
    Why     what is drawn has drawn_sigma(sigma_squared), at most 2^-50 above the root; tails are those of what is drawn
    Source  Canonne, Kamath, Steinke 2020, The Discrete Gaussian for Differential Privacy, theorem 4

    >>> DiscreteGaussian.for_loss(1, PrivacyLoss(Fraction(1), Fraction(1, 10**6))).describe()
    'discrete Gaussian, sigma 5.34998'
    """

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        if self.sigma_squared <= 0:
            raise ValueError("a noise scale is positive")

    @classmethod
    def for_loss(cls, l2_squared: int, loss: PrivacyLoss) -> DiscreteGaussian:
        """The noise that makes a vector with squared sensitivity l2_squared [quanta^2] (epsilon, delta)-DP."""
        if l2_squared <= 0:
            raise ValueError("Gaussian noise needs a sensitivity above zero")
        return cls(l2_squared / (2 * largest_rho(loss)))

    def rho(self, l2_squared: int) -> Fraction:
        """The zCDP loss of a vector with squared sensitivity l2_squared [quanta^2]."""
        return l2_squared / (2 * self.sigma_squared)

    def tail(self, m: int) -> Fraction:
        """An upper bound of P(Z >= m), too large by a factor of at most 1 + 10^-12, or 10^-1000 where it is smaller."""
        return upper_tail(self._drawn_variance(), m)

    def half_width(self, level: Fraction) -> int:
        """The smallest h [quanta] with P(|Z| > h) <= 1 - level."""
        return self.half_width_of_sum(1, level)

    def half_width_of_sum(self, copies: int, level: Fraction) -> int:
        """The same for the sum of one, two or three independent copies.

        >>> DiscreteGaussian(Fraction(10**12)).half_width_of_sum(2, Fraction(95, 100))
        2771808
        """
        check_copies(copies)
        outside = max(float(1 - level), 1e-300)
        guess = floor(-NormalDist().inv_cdf(outside / 2) * sqrt(copies * self.sigma_squared)) if 0 <= level < 1 else 0
        return half_width_of(tail_of_sum(self._drawn_variance(), copies), level, guess)

    def half_width_of_weights(self, weights: Sequence[float], level: Fraction) -> float:
        """h with P(|w1 * Z1 + w2 * Z2 + ...| > h) <= 1 - level."""
        return gaussian_half_width(self.half_width(level), weights)

    def at(self, points: Floats) -> Floats:
        """Quantiles of continuous Gaussian noise of this sigma."""
        return gaussian_quantiles(sqrt(self.sigma_squared), points)

    def covers(self, l1: int, l2_squared: int, loss: PrivacyLoss) -> bool:
        """Whether a vector with these sensitivities [quanta] loses at most `loss` under this noise."""
        return loss.epsilon > 0 and loss.delta > 0 and self.rho(l2_squared) <= largest_rho(loss)

    def sample(self, source: NoiseSource, size: int) -> list[int]:
        return source.gaussian(self.sigma_squared, size)

    def describe(self) -> str:
        return f"discrete Gaussian, sigma {sqrt(self.sigma_squared):.6g}"

    def _drawn_variance(self) -> Fraction:
        return drawn_sigma(self.sigma_squared) ** 2


def largest_rho(loss: PrivacyLoss) -> Fraction:
    """The largest rho with rho + 2 sqrt(rho L) <= epsilon, L = ln(1 / delta), rounded down to 50 bits.

    Why     rho-zCDP implies (rho + 2 sqrt(rho ln(1 / delta)), delta)-DP for every delta > 0; solved for rho it is
            (sqrt(L + epsilon) - sqrt(L))^2, written here as a quotient, which loses no digits
    Source  Bun, Steinke 2016, Concentrated Differential Privacy, proposition 1.3
    """
    if loss.epsilon <= 0 or loss.delta <= 0:
        raise ValueError("Gaussian noise needs an epsilon and a delta above zero")
    with localcontext(_DIGITS):
        epsilon = _decimal(loss.epsilon)
        log_delta = -_decimal(loss.delta).ln()
        root = epsilon / ((log_delta + epsilon).sqrt() + log_delta.sqrt())
        rho = Fraction(root * root) * (1 - Fraction(1, 10**60))
    unit = Fraction(2) ** (_RHO_BITS - rho.numerator.bit_length() + rho.denominator.bit_length())
    return floor(rho * unit) / unit


def tail_of_sum(variance: Fraction, copies: int) -> Callable[[int], Fraction]:
    """An upper bound of P(Z1 + ... + Zn >= m), as a function of m.

    Why  a sum has P(w) proportional to exp(-w^2 / (2 n sigma^2)) times the sum of a Gaussian of variance
         s^2 >= sigma^2 / 2 over shifted integers. By Poisson summation the latter is constant up to
         2 exp(-2 pi^2 s^2) < 2 * 10^-17 for sigma >= 2, so the sum is a discrete Gaussian up to 10^-15. Narrower noise
         is convolved
    """
    if copies == 1:
        return lambda m: upper_tail(variance, m)
    if variance >= 4:
        return lambda m: upper_tail(copies * variance, m) * (1 + Fraction(1, 10**15))
    weights = _convolved(_weights(variance), copies)
    whole = sum(weights)
    return lambda m: Fraction(sum(weights[max(0, copies * _REACH + m) :]), whole) + Fraction(1, 10**40)


def _weights(variance: Fraction) -> list[int]:
    """exp(-z^2 / (2 variance)) * 2^200 for |z| <= 30; what lies outside is below 10^-48 for a variance up to 4."""
    with localcontext(_DIGITS):
        return [ceil((-_decimal(z * z / (2 * variance))).exp() * 2**200) for z in range(-_REACH, _REACH + 1)]


def _convolved(weights: list[int], copies: int) -> list[int]:
    result = weights
    for _ in range(copies - 1):
        total = [0] * (len(result) + len(weights) - 1)
        for i, x in enumerate(result):
            for j, y in enumerate(weights):
                total[i + j] += x * y
        result = total
    return result


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
