"""Losses of each mechanism in each measure, and prices as people write them.

  mechanism                  epsilon  squares    rho                    mu_squared
  pure (Laplace and others)  e        e^2        e tanh(e / 2)          4 g(e)^2
  choice (exponential)       e        e^2        e^2 / 8                4 g(e / 2)^2
  Gaussian                   none     none       rho                    2 rho

g(e) = Phi^-1(e^e / (1 + e^e)), Phi of the normal distribution; it is odd, and concave above zero (bounds.py). Losses are rounded up, to
64 significant bits.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import cosh, sqrt, tanh

from dpsql.core.events import Kind
from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.mechanisms.bounds import (
    DIGITS,
    LARGE,
    MARGIN,
    ROOT,
    TINY,
    decimal,
    down,
    log_odds,
    mu_squared_above,
    rho_bounds,
    up,
)

NO_PROMISE = 1 - Fraction(1, 2**64)
"""The delta of a group for which no delta below one is known."""

_TWELVE = Context(prec=12, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SIX = Context(prec=6, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SHOWN = 1 - Fraction(1, 2**40)


# Losses


@lru_cache(maxsize=4096)
def pure(epsilon: Fraction, delta: Fraction = Fraction(0)) -> PrivacyLoss:
    """The loss of any epsilon-DP mechanism, or of one that is epsilon-DP but for a delta: (truncated) discrete Laplace,
    permute-and-flip.

    Why     whatever is (epsilon, delta)-DP is, for two neighbours, post-processing of one bit that is turned round with
            probability 1 / (1 + e^epsilon), told with probability 1 - delta, and of the truth, told otherwise. Of the
            bit, KL is epsilon tanh(epsilon / 2), and no Renyi divergence is above alpha times that. Its trade-off of
            errors has one corner, at a = b = 1 / (1 + e^epsilon); a Gaussian's is convex with the same ends, and meets
            the corner for mu = 2 g(epsilon), so it lies below
    Source  Kairouz, Oh, Viswanath 2015, The Composition Theorem for Differential Privacy; Bun, Steinke 2016,
            Concentrated Differential Privacy; Dong, Roth, Su 2022, Gaussian Differential Privacy

    >>> loss = pure(Fraction(1))
    >>> round(float(loss.rho), 6), round(float(loss.mu_squared), 6)
    (0.462117, 1.517911)
    """
    return PrivacyLoss(epsilon, delta, epsilon**2, up(rho_bounds(epsilon)[1]), mu_squared_above(epsilon))


@lru_cache(maxsize=4096)
def choice(epsilon: Fraction) -> PrivacyLoss:
    """The loss of the exponential mechanism, whose log-likelihood ratio has a range of epsilon.

    Why     1. For two neighbours there is a t in [0, epsilon] with e^-t P <= Q <= e^(epsilon - t) P. Errors a under P
               and b under Q satisfy b >= e^-t (1 - a) and 1 - b <= e^(epsilon - t) a: a corner at
               a = (e^t - 1) / (e^epsilon - 1), b = (e^(epsilon - t) - 1) / (e^epsilon - 1).
            2. There ln((1 - a) / a) + ln((1 - b) / b) = epsilon, for every t. The corner lies above a Gaussian's
               trade-off iff -Phi^-1(a) - Phi^-1(b) <= mu, that is g(x) + g(epsilon - x) <= mu, x = ln((1 - a) / a).
            3. g is concave above zero. For 0 <= x <= epsilon the sum is then at most 2 g(epsilon / 2). For x > epsilon
               it is g(x) - g(x - epsilon), since g is odd: at most g(epsilon) - g(0) <= 2 g(epsilon / 2). x < 0 is the
               same with the terms exchanged.
            4. What is convex with the same ends and below the corner is below the whole: mu = 2 g(epsilon / 2).
            rho is Hoeffding's lemma for a range of epsilon. Permute-and-flip has no such range: it is pure().
    Source  Dong, Durfee, Rogers 2020, Optimal Differential Privacy Composition for Exponential Mechanisms; Cesar,
            Rogers 2021, Bounding, Concentrating, and Truncating

    >>> round(float(choice(Fraction(1)).mu_squared), 6)
    0.389242
    """
    return PrivacyLoss(epsilon, Fraction(0), epsilon**2, up(epsilon**2 / 8), mu_squared_above(epsilon / 2))


PURE = Kind("pure", ("epsilon",), pure)
"""Mechanisms that are epsilon-DP and of which no more is known: permute-and-flip, noisy counts beside what is chosen by them."""
CHOICE = Kind("exponential mechanism", ("epsilon",), choice)
GAUSSIAN = Kind(
    "discrete Gaussian",
    ("rho", "delta", "mu_squared"),
    lambda rho, delta, mu_squared: PrivacyLoss(None, delta, None, rho, mu_squared),
)
"""Gaussian noise, by its rho. mu is what its grid claims."""


def gaussian(rho: Fraction, delta: Fraction) -> PrivacyLoss:
    """The loss of Gaussian noise, rho = l2^2 / (2 sigma^2); delta is what its grid differs from the continuous one."""
    return PrivacyLoss(None, delta, None, rho, 2 * rho)


def approximate(loss: EpsilonDelta, rho: Fraction) -> PrivacyLoss:
    """The loss of Gaussian noise that is charged by its (epsilon, delta), so that every accountant can go on.

    Why     it is post-processing of an epsilon-DP bit and, with probability delta, of the truth: see pure
    """
    return PrivacyLoss(loss.epsilon, loss.delta, loss.epsilon**2, rho, 2 * rho)


@lru_cache(maxsize=1024)
def together(loss: PrivacyLoss, people: int) -> PrivacyLoss:
    """Loss of a release about a group of people instead of one.

    Output  people * epsilon, people^2 * (squares, rho, mu_squared); for delta see _delta_of_group. A delta of
            NO_PROMISE says that nothing is promised to a group of this size
    Source  Vadhan 2017, The Complexity of Differential Privacy, lemma 2.2; Bun, Steinke 2016, proposition 1.9; Dong,
            Roth, Su 2022, theorem 2.14
    """
    if people < 1:
        raise ValueError("a group has at least one person")
    return PrivacyLoss(
        None if loss.epsilon is None else people * loss.epsilon,
        _delta_of_group(loss, people),
        None if loss.squares is None else people**2 * loss.squares,
        people**2 * loss.rho,
        people**2 * loss.mu_squared,
    )


def _delta_of_group(loss: PrivacyLoss, people: int) -> Fraction:
    """The sum over i < people of the most that an event of probability delta can reach i people further.

    Why     what fails for each pair of neighbours on the way adds up, as seen from either end. The most is
            e^(i epsilon) delta, whose sum is delta (e^(people epsilon) - 1) / (e^epsilon - 1). Without an epsilon it is
            exp(-(sqrt(ln(1 / delta)) - i sqrt(r))^2) for r-zCDP, the least of
            delta^((alpha - 1) / alpha) e^((alpha - 1) i^2 r) over alpha, and no more for sqrt(2 r)-GDP. r is
            max(rho, mu_squared / 2), and the last and largest term is taken for all
    """
    if people == 1 or loss.delta == 0:
        return loss.delta
    with localcontext(DIGITS):
        delta, steps = decimal(loss.delta), people - 1
        missing = -delta.ln()
        if loss.epsilon is None:
            reach = steps * decimal(max(loss.rho, loss.mu_squared / 2)).sqrt()
            left = missing.sqrt() - reach
            found = people * (-left * left).exp() if left > 0 else Decimal(1)
        elif steps * loss.epsilon >= missing:
            found = Decimal(1)
        elif loss.epsilon < TINY:
            found = people * delta * (steps * decimal(loss.epsilon)).exp()
        else:
            epsilon = decimal(loss.epsilon)
            found = delta * ((people * epsilon).exp() - 1) / (epsilon.exp() - 1)
    return min(up(Fraction(found) * (1 + MARGIN)), NO_PROMISE)


# Prices as people write them: a Gaussian "of epsilon e" has rho = e tanh(e / 2), as the worst epsilon-DP mechanism has


@lru_cache(maxsize=4096)
def rho_at_most(epsilon: Fraction) -> Fraction:
    """Largest rho that a Gaussian of this nominal epsilon may spend: epsilon tanh(epsilon / 2), rounded down to 50
    bits.

    >>> float(rho_at_most(Fraction(1, 10)))
    0.00499583749...
    """
    return down(rho_bounds(epsilon)[0], 50) if epsilon > 0 else Fraction(0)


@lru_cache(maxsize=4096)
def epsilon_at_most_rho(rho: Fraction) -> Fraction:
    """The largest nominal epsilon of 12 digits that costs at most this rho; 0 where there is none."""
    if rho <= 0:
        return Fraction(0)
    with localcontext(_TWELVE):
        epsilon = _about(rho) * Decimal("1.0000000000001")
        while rho_bounds(Fraction(epsilon))[1] > rho:
            epsilon = epsilon.next_minus()
    return Fraction(epsilon)


@lru_cache(maxsize=4096)
def epsilon_at_least_rho(rho: Fraction) -> Fraction:
    """The smallest nominal epsilon of 6 digits that costs rho or, for showing only, less by a part of at most 2^-40.

    >>> epsilon_at_least_rho(rho_at_most(Fraction(3, 10)))
    Fraction(3, 10)
    """
    if rho <= 0:
        return Fraction(0)
    with localcontext(_SIX):
        epsilon = _about(rho * _SHOWN) * Decimal("0.9999999999999")
        while rho_bounds(Fraction(epsilon))[0] < rho * _SHOWN:
            epsilon = epsilon.next_plus()
    return Fraction(epsilon)


@lru_cache(maxsize=4096)
def epsilon_at_most_mu(mu_squared: Fraction) -> Fraction:
    """The largest epsilon of 12 digits whose pure loss has at most this mu_squared; 0 where there is none."""
    if mu_squared <= 0:
        return Fraction(0)
    with localcontext(DIGITS):
        z = decimal(mu_squared).sqrt() / 2
        if mu_squared >= 8 * LARGE:
            found = decimal(mu_squared / 8)
        elif z < decimal(TINY):
            found = z * 4 / ROOT
        else:
            found = min(Decimal(LARGE), log_odds(z)[1])
        found *= 1 + Decimal("1e-22")
    with localcontext(_TWELVE):
        epsilon = +found
        while mu_squared_above(Fraction(epsilon)) > mu_squared:
            epsilon = epsilon.next_minus()
    return Fraction(epsilon)


def _about(rho: Fraction) -> Decimal:
    """About the nominal epsilon of a rho, to 10^-14 of it."""
    with localcontext(DIGITS):
        if rho < Fraction(1, 10**20):
            return decimal(2 * rho).sqrt()
        if rho > 100:
            return decimal(rho)
    wanted = float(rho)
    epsilon = max(sqrt(2 * wanted), wanted)
    for _ in range(8):
        epsilon -= (epsilon * tanh(epsilon / 2) - wanted) / (tanh(epsilon / 2) + epsilon / 2 / cosh(epsilon / 2) ** 2)
    return Decimal(epsilon)
