"""Discrete Gaussian noise, for zero-concentrated differential privacy (zCDP)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from math import ceil, erfc, floor, sqrt
from statistics import NormalDist

import numpy as np

from dpsql.core.columns import Column, combined, ones, whole
from dpsql.core.events import Event, Kind
from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.mechanisms.additive import AdditiveNoise, Floats, check_copies, half_width_of
from dpsql.mechanisms.conversions import GAUSSIAN, approximate
from dpsql.mechanisms.gaussian_tail import upper_tail
from dpsql.mechanisms.rounding import drawn_sigma
from dpsql.mechanisms.source import NoiseSource
from dpsql.mechanisms.weighted import gaussian_half_width, gaussian_quantiles

_DIGITS = Context(prec=100)
_RHO_BITS = 50
_REACH = 30
_LEAST_SIGMA = 2**32

TOTAL_VARIATION = Fraction(1, 2**69)
"""The total variation between the discrete Gaussian of a sigma >= 2^32 and the continuous one, rounded, is below this.

Why  Let f be the density of the continuous one, p_j its integral over j +- 1/2, q_j = f(j) / N, N the sum of all f(j).
     1. Midpoint rule: by Taylor's formula |p_j - f(j)| <= max |f''| / 24, the maximum over the cell of j.
     2. A maximum over a cell is at most the mean of |f''| there plus the variation of f'' there. So the sum over all
        cells is at most (integral of |f''| + variation of f'') / 24.
     3. With t = x / sigma and phi the standard density, f'' = (t^2 - 1) phi(t) / sigma^3. The integral of |f''| is
        4 phi(1) / sigma^2 < 0.968 / sigma^2. f'' turns at t = 0 and at t^2 = 3, so its variation is
        (2 phi(0) + 8 phi(sqrt 3)) / sigma^3 < 2 / sigma^3.
     4. By Poisson summation N = 1 + 2 exp(-2 pi^2 sigma^2) + ..., so the sum of |f(j) - q_j| is N - 1 < exp(-sigma^2).
     5. The distance is half the sum of |p_j - q_j|: below (0.968 / sigma^2 + 2 / sigma^3) / 48 + exp(-sigma^2), and that
        is below 1 / (48 sigma^2), at most 1 / (48 * 2^64) < 2^-69
"""


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(AdditiveNoise):
    """Integer noise: a discrete Gaussian on a grid of 2^-k quanta, rounded to the nearest integer, ties up.

    Input   sigma_squared > 0  [quanta^2]
    Output  rho = l2_squared / (2 sigma_squared) of zCDP, exactly;
            mu^2 = 2 rho of Gaussian differential privacy (GDP), after approximation_delta;
            no epsilon without a delta
    Why     1. k >= 0 is the smallest with sigma * 2^k >= 2^32. What is drawn has P(z) proportional to
               exp(-z^2 / (2 s^2)), z in 2^-k quanta, s = drawn_sigma(4^k sigma_squared): at most 2^-50 above the root.
            2. The exact vector is whole, so rounding the noise is rounding the noisy vector: post-processing.
            3. zCDP: on the fine grid the vector is one of integers too, with squared sensitivity 4^k l2_squared.
            4. GDP: the continuous Gaussian has this mu, and rounding it to the fine grid and then to integers is
               post-processing. What is drawn differs from it by less than TOTAL_VARIATION. On whole quanta it would be
               0.02 / sigma^2: far too much for a small sigma.
            Tails and half-widths are those of what is drawn, rounded
    Source  Canonne, Kamath, Steinke 2020, The Discrete Gaussian for Differential Privacy, theorem 4;
            Dong, Roth, Su 2022, Gaussian Differential Privacy, theorem 2.7

    >>> DiscreteGaussian.for_loss(1, EpsilonDelta(Fraction(1), Fraction(1, 10**6))).describe()
    'discrete Gaussian, sigma 5.34998'
    """

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        if self.sigma_squared <= 0:
            raise ValueError("a noise scale is positive")

    @classmethod
    def for_rho(cls, l2_squared: int, rho: Fraction) -> DiscreteGaussian:
        """The noise that makes a vector with squared sensitivity l2_squared [quanta^2] rho-zCDP, exactly.

        >>> DiscreteGaussian.for_rho(2, Fraction(1, 100)).sigma_squared
        Fraction(100, 1)
        """
        if l2_squared <= 0 or rho <= 0:
            raise ValueError("Gaussian noise needs a sensitivity and a rho above zero")
        return cls(l2_squared / (2 * Fraction(rho)))

    @classmethod
    def for_loss(cls, l2_squared: int, loss: EpsilonDelta) -> DiscreteGaussian:
        """The noise that makes a vector with squared sensitivity l2_squared [quanta^2] (epsilon, delta)-DP."""
        return cls.for_rho(l2_squared, rho_of_loss(loss))

    def rho(self, l2_squared: int) -> Fraction:
        """The zCDP loss of a vector with squared sensitivity l2_squared [quanta^2]."""
        return l2_squared / (2 * self.sigma_squared)

    @staticmethod
    def approximation_delta(coordinates: int, epsilon: Fraction) -> Fraction:
        """Summand of the delta of an epsilon that follows from mu: (1 + e^epsilon) coordinates TOTAL_VARIATION.

        Input   coordinates  the most cells that one unit can change  [cells]
                epsilon      what mu is turned into, at least 0  [nats]
        Output  rounded up; 1 where epsilon is too large  [probability]
        Why     Take two neighbours, and let the cells in which they differ have continuous Gaussian noise, rounded.
                The other cells are equal and have the same noise in both, so they tell nothing: by mu,
                P(S) <= e^epsilon P'(S) + delta. What is drawn differs from this by TOTAL_VARIATION for each of those
                cells, on both sides, and on the right it counts e^epsilon times. Releases one after another add up,
                epsilon being that of the total

        >>> f"{float(DiscreteGaussian.approximation_delta(10, Fraction(1))):.3g}"
        '6.3e-20'
        """
        if coordinates < 0 or epsilon < 0:
            raise ValueError("coordinates and epsilon are at least 0")
        if epsilon > 50:
            return Fraction(1 if coordinates else 0)
        return min(Fraction(1), (1 + _exp_above(epsilon)) * coordinates * TOTAL_VARIATION)

    def tail(self, m: int) -> Fraction:
        """An upper bound of P(Z >= m), too large by a factor of at most 1 + 10^-12, or 10^-1000 where it is smaller.

        Why  a tie is rounded up: Z >= m where what is drawn is at least m - 1/2, but Z <= -m where it is less than
             -m + 1/2, which without the tie is a little less likely
        """
        k, variance = self._drawn()
        return upper_tail(variance, _lowest(m, k))

    def half_width_of_sum(self, copies: int, level: Fraction) -> int:
        """The smallest h [quanta] with 2 P(Z1 + ... > h) <= 1 - level, so that P(|Z1 + ...| > h) <= 1 - level; for two or three copies
        rarely a little more.

        >>> DiscreteGaussian(Fraction(10**12)).half_width_of_sum(2, Fraction(95, 100))
        2771808
        """
        check_copies(copies)
        outside = max(float(1 - level), 1e-300)
        sigma = sqrt(copies * self.sigma_squared + Fraction(copies - 1, 12))
        guess = ceil(-NormalDist().inv_cdf(outside / 2) * sigma - 0.5) if 0 <= level < 1 else 0
        return half_width_of(self._tail_of_sum(copies), level, guess)

    def half_width_of_weights(self, weights: Sequence[float], level: Fraction) -> float:
        """h with P(|w1 * Z1 + w2 * Z2 + ...| > h) <= 1 - level."""
        return gaussian_half_width(self.half_width(level), weights)

    def at(self, points: Floats) -> Floats:
        """Quantiles of continuous Gaussian noise of this sigma: rounded, they are quantiles of this noise."""
        return gaussian_quantiles(sqrt(self.sigma_squared), points)

    def covers(self, l1: int, l2_squared: int, loss: PrivacyLoss) -> bool:
        """True if a vector with these sensitivities [quanta] loses at most `loss` under this noise."""
        rho = self.rho(l2_squared)
        if rho > loss.rho or 2 * rho > loss.mu_squared:
            return False
        if loss.epsilon is None:
            return True
        return loss.epsilon > 0 and 0 < loss.delta < 1 and rho <= rho_of_loss(EpsilonDelta(loss.epsilon, loss.delta))

    @property
    def squared_scale(self) -> Fraction:
        return self.sigma_squared

    @property
    def kept(self) -> tuple[str, Fraction]:
        return "gaussian", self.sigma_squared

    def at_rho(self, l2_squared: int, rho: Fraction) -> DiscreteGaussian:
        return DiscreteGaussian.for_rho(l2_squared, rho)

    def event(self, l1: int, loss: PrivacyLoss) -> Event:
        return event_of(loss)

    def sample(self, source: NoiseSource, size: int) -> Sequence[int]:
        k = _binary_places(self.sigma_squared)
        drawn = source.gaussian(self.sigma_squared * 4**k, size)
        if k == 0:
            return drawn
        # a shift of what is below zero rounds down; one of 64 bits by 63 or more is left to Python
        sums = whole(combined((1, drawn), (1, ones(size, 1 << (k - 1)))))
        return Column((sums if k < 63 else sums.astype(np.object_)) >> k)

    def describe(self) -> str:
        return f"discrete Gaussian, sigma {sqrt(self.sigma_squared):.6g}"

    def _drawn(self) -> tuple[int, Fraction]:
        """k, and the parameter s^2 of what is drawn, in squares of 2^-k quanta."""
        k = _binary_places(self.sigma_squared)
        return k, drawn_sigma(self.sigma_squared * 4**k) ** 2

    def _tail_of_sum(self, copies: int) -> Callable[[int], Fraction]:
        """An upper bound of half of P(|Z1 + ... + Zn| >= m), as a function of m >= 1.

        Why  For sigma >= 2 the sum of n has, by Poisson summation up to exp(-pi^2 sigma^2) < 10^-17, the tail of the
             continuous sum and of n - 1 uniform variables on +- 1/2, at m - 1/2. These have the variance (n - 1) / 12.
             A Gaussian in their place makes the tail too small by a factor of at most 1 + 1 / (3600 sigma^4), because
             of their fourth cumulant -(n - 1) / 120. So n copies have the tail of one copy with the variance
             n sigma^2 + (n - 1) / 12. Narrower noise is convolved. Ties move both sides the same way, which cancels up
             to 10^-16
        """
        if copies == 1:
            return self.tail
        k, variance = self._drawn()
        if self.sigma_squared < 4:
            return _narrow_tail_of_sum(k, variance, copies)
        wider = copies * variance + Fraction((copies - 1) * 4**k, 12)
        factor = 1 + 1 / (3000 * self.sigma_squared**2) + Fraction(1, 10**15)
        return lambda m: upper_tail(wider, _lowest(m, k)) * factor


_BY_EPSILON = Kind(
    "discrete Gaussian at epsilon",
    ("epsilon", "delta", "rho"),
    lambda epsilon, delta, rho: approximate(EpsilonDelta(epsilon, delta), rho),
)
EVENTS = (GAUSSIAN, _BY_EPSILON)


def event_of(loss: PrivacyLoss) -> Event:
    """Gaussian noise by its rho; or by the (epsilon, delta) that it is charged as."""
    if loss.epsilon is None:
        return GAUSSIAN.event(loss.rho, loss.delta, loss.mu_squared)
    return _BY_EPSILON.event(loss.epsilon, loss.delta, loss.rho)


def _binary_places(sigma_squared: Fraction) -> int:
    """The smallest k >= 0 with sigma * 2^k >= 2^32. Where it is above zero, what is drawn is at most 2^33 wide."""
    log2 = sigma_squared.numerator.bit_length() - sigma_squared.denominator.bit_length()
    # sigma_squared < 2^(log2 + 1), so k is not less than this
    k = max(0, _LEAST_SIGMA.bit_length() - 2 - log2 // 2)
    while sigma_squared * 4**k < _LEAST_SIGMA**2:
        k += 1
    return k


def _lowest(m: int, k: int) -> int:
    """The smallest multiple of 2^-k that is rounded to m, in 2^-k."""
    return (2 * m - 1) << (k - 1) if k else m


def _narrow_tail_of_sum(k: int, variance: Fraction, copies: int) -> Callable[[int], Fraction]:
    """The same for sigma < 2, by convolving the probabilities of one copy.

    Why  the rounded continuous Gaussian stands for what is drawn, in doubles: sums of positive numbers, together right
         up to a factor of 1 + 10^-12. What lies outside 30, which is 15 sigma, is below 10^-48 and left out. Below
         10^-30 the bound is the tail of the sum before rounding, to which each copy adds at most 1/2
    """
    likely = _convolved(max(sqrt(variance / 4**k), 1e-3), copies)

    def tail(m: int) -> Fraction:
        if m < len(likely) and likely[m] > 1e-30:
            return Fraction(likely[m]) * (1 + Fraction(1, 10**12))
        return upper_tail(copies * variance, (2 * m - copies) << (k - 1)) * (1 + Fraction(1, 10**12))

    return tail


def _convolved(sigma: float, copies: int) -> list[float]:
    """P(Z1 + ... + Zn >= m) for m = 0, 1, ..., for continuous Gaussian copies that are rounded."""
    above = [erfc((m - 0.5) / (sigma * sqrt(2))) / 2 for m in range(1, _REACH + 2)]
    right = [low - high for low, high in pairwise(above)]
    single = np.array([*reversed(right), 1 - 2 * above[0], *right])
    result = single
    for _ in range(copies - 1):
        result = np.convolve(result, single)
    found: list[float] = np.cumsum(result[::-1])[::-1][len(result) // 2 :].tolist()
    return found


def rho_of_loss(loss: EpsilonDelta) -> Fraction:
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


def _exp_above(x: Fraction) -> Fraction:
    """An upper bound of e^x for 0 <= x <= 50, with 30 binary places; 100 digits are off by far less than 10^-60."""
    with localcontext(_DIGITS):
        power = Fraction(_decimal(x).exp()) * (1 + Fraction(1, 10**60))
    return Fraction(ceil(power * 2**30), 2**30)


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
