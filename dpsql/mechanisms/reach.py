"""Largest loss that each accountant may reach under a total of epsilon and delta, rounded down to 64 significant bits.

  pure        epsilon
  squares     S with sqrt(2 S ln(1 / delta)) + S / 2 = epsilon
  rho         the largest with (epsilon, delta) by the tight conversion of zCDP
  mu_squared  the largest with (epsilon, delta) by the conversion of GDP, which is exact
  renyi       the largest divergence of one order with (epsilon, delta)

Decimals have 60 digits, of which 40 or more are claimed; floats are first guesses that no promise depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import exp, log, log1p, sqrt

from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.bounds import DIGITS, MARGIN, ROOT, SLACK, decimal, down, mills

_LEAST_EPSILON = Fraction(1, 10**30)
_MOST = EpsilonDelta(Fraction(10**6), Fraction(9, 10))


@lru_cache(maxsize=1024)
def largest_rho(total: EpsilonDelta) -> Fraction:
    """The largest rho such that rho-zCDP implies (epsilon, delta)-DP; 0 where nothing is allowed.

    Why     for every alpha > 1, delta = exp((alpha - 1) (alpha rho - epsilon)) / (alpha - 1) * (1 - 1 / alpha)^alpha.
            Solved for rho, at a fixed alpha; floats only find the alpha at which that is most
    Source  Canonne, Kamath, Steinke 2020, The Discrete Gaussian for Differential Privacy, proposition 12

    >>> round(float(largest_rho(EpsilonDelta(Fraction(1), Fraction(1, 10**6)))), 6)
    0.024356
    """
    within = _within(total)
    if not within.epsilon:
        return Fraction(0)
    with localcontext(DIGITS):
        epsilon, log_delta = decimal(within.epsilon), decimal(within.delta).ln()
        beyond = Decimal(_best_order(float(epsilon), float(log_delta)))
        alpha = 1 + beyond
        shape = beyond.ln() + alpha * (alpha / beyond).ln()
        size = epsilon + (abs(log_delta) + abs(beyond.ln()) + 2) / beyond
        error = size * SLACK + alpha / beyond * Decimal("1e-58")
        rho = (epsilon + (log_delta + shape) / beyond - error) / alpha
    return max(down(Fraction(rho) * (1 - MARGIN)), Fraction(0))


@lru_cache(maxsize=1024)
def largest_mu_squared(total: EpsilonDelta) -> Fraction:
    """The largest mu^2 such that mu-GDP implies (epsilon, delta)-DP; 0 where nothing is allowed.

    Why     delta(mu) = Phi(-a) - e^epsilon Phi(-b), a = epsilon / mu - mu / 2, b = epsilon / mu + mu / 2. With Mills'
            ratio M(x) = Phi(-x) / phi(x) it is phi(a) (M(a) - M(b)), and its derivative is phi(a): Newton's method on
            the logarithms. The mu found, less a little, is checked by bounds of M; where they are too wide, 2 rho is
            right for GDP too
    Source  Dong, Roth, Su 2022, Gaussian Differential Privacy, corollary 2.13

    >>> round(float(largest_mu_squared(EpsilonDelta(Fraction(1), Fraction(1, 10**6)))) ** 0.5, 5)
    0.2367
    """
    rho, within = largest_rho(total), _within(total)
    if not rho:
        return rho
    with localcontext(DIGITS):
        epsilon, delta = decimal(within.epsilon), decimal(within.delta)
        mu = _mu_by_newton(epsilon, delta, decimal(2 * rho).sqrt())
        for less in ("1e-21", "1e-17", "1e-12"):
            safe = mu * (1 - Decimal(less))
            if _delta_of_mu(epsilon, safe)[1] <= delta * (1 - SLACK):
                return max(down(Fraction(safe) ** 2), 2 * rho)
    return 2 * rho


@lru_cache(maxsize=1024)
def largest_squares(total: EpsilonDelta) -> Fraction:
    """The largest sum S of squared epsilons with sqrt(2 S ln(1 / delta)) + S / 2 <= epsilon; 0 for no epsilon or delta.

    Source  Whitehouse, Ramdas, Rogers, Wu 2023, Fully-Adaptive Composition in Differential Privacy

    >>> round(float(largest_squares(EpsilonDelta(Fraction(1), Fraction(1, 10**6)))), 6)
    0.034938
    """
    within = _within(total)
    if not within.epsilon:
        return Fraction(0)
    with localcontext(DIGITS):
        epsilon, missing = decimal(within.epsilon), -decimal(within.delta).ln()
        root = 2 * epsilon / ((2 * (missing + epsilon)).sqrt() + (2 * missing).sqrt())
    return down(Fraction(root) ** 2 * (1 - MARGIN))


def best_order(total: EpsilonDelta) -> Fraction:
    """The order of Renyi divergences at which Gaussian noise may have the largest rho, to six binary digits; a total that allows
    nothing has one too.

    Why     any order above 1 is as valid, if it is fixed before the first answer
    """
    within = _within(total)
    if not within.epsilon:
        return Fraction(2)
    return 1 + down(Fraction(_best_order(float(within.epsilon), _log(within.delta))), 6)


@lru_cache(maxsize=1024)
def largest_renyi(total: EpsilonDelta, order: Fraction) -> Fraction:
    """The largest Renyi divergence of an order that implies (epsilon, delta)-DP; 0 where nothing is allowed.

    Why     epsilon = R + ln(1 - 1 / alpha) - ln(delta alpha) / (alpha - 1), at any alpha > 1, solved for R
    Source  Canonne, Kamath, Steinke 2020, proposition 12; Balle, Barthe, Gaboardi, Hsu, Sato 2020, theorem 21

    >>> round(float(largest_renyi(EpsilonDelta(Fraction(1), Fraction(1, 10**6)), Fraction(32))), 6)
    0.697885
    """
    within = _within(total)
    if not within.epsilon:
        return Fraction(0)
    with localcontext(DIGITS):
        alpha, delta = decimal(order), decimal(within.delta)
        converted = (delta * alpha).ln() / (alpha - 1) - (1 - 1 / alpha).ln()
        error = (abs(converted) + decimal(within.epsilon)) * SLACK
        found = decimal(within.epsilon) + converted - error
    return max(down(Fraction(found)), Fraction(0))


def _log(delta: Fraction) -> float:
    with localcontext(DIGITS):
        return float(decimal(delta).ln())


def _within(total: EpsilonDelta) -> EpsilonDelta:
    """The total, or less where 60 digits would not be enough for it; epsilon 0 where a total allows nothing."""
    nothing = total.delta == 0 or total.epsilon < _LEAST_EPSILON
    return EpsilonDelta(
        Fraction(0) if nothing else min(total.epsilon, _MOST.epsilon),
        min(total.delta, _MOST.delta),
    )


def _best_order(epsilon: float, log_delta: float) -> float:
    """alpha - 1 for the largest rho: the best of a wide grid, and then of what is around it."""

    def rho(log_beyond: float) -> float:
        beyond = exp(log_beyond)
        return (epsilon + (log_delta + log_beyond + (1 + beyond) * log1p(1 / beyond)) / beyond) / (1 + beyond)

    low, high = -8.0, min(-log_delta, log((1 - log_delta) / epsilon)) + 6
    step = (high - low) / 64
    best = max((low + i * step for i in range(65)), key=rho)
    return exp(_peak(rho, best - step, best + step))


def _peak(height: Callable[[float], float], low: float, high: float) -> float:
    """Maximum of a function with one peak, to 10^-8 or so: golden sections."""
    part = (sqrt(5) - 1) / 2
    left, right = high - part * (high - low), low + part * (high - low)
    left_height, right_height = height(left), height(right)
    while high - low > 1e-8:
        if left_height < right_height:
            low, left, left_height = left, right, right_height
            right = low + part * (high - low)
            right_height = height(right)
        else:
            high, right, right_height = right, left, left_height
            left = high - part * (high - low)
            left_height = height(left)
    return (low + high) / 2


def _mu_by_newton(epsilon: Decimal, delta: Decimal, mu: Decimal) -> Decimal:
    """About where delta(mu) is delta. Nothing depends on it."""
    for _ in range(40):
        low, high, slope = _delta_of_mu(epsilon, mu)
        if low <= 0:
            break
        step = (delta / high).ln() * high / (mu * slope)
        mu *= max(min(step, Decimal(1)), Decimal(-1)).exp()
        if abs(step) < Decimal("1e-12"):
            break
    return mu


def _delta_of_mu(epsilon: Decimal, mu: Decimal) -> tuple[Decimal, Decimal, Decimal]:
    """Bounds of delta(mu), and about its derivative."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    height = (-a * a / 2).exp() / ROOT
    (low_a, high_a), (low_b, high_b) = mills(a), mills(b)
    return height * (low_a - high_b) * (1 - SLACK), height * (high_a - low_b) * (1 + SLACK), height
