"""Bounds of Renyi divergences of an order alpha > 1: of whatever loses epsilon, of discrete Laplace noise, of events.

Rounded up, to 64 significant bits. Decimals have 100 digits. Where an epsilon or the inverse of a scale is below 10^-16 a plainer bound
is taken: so 1 - a loses at most 16 digits, what is above 1 in a sum at most 40, and far more than MARGIN needs are left.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import exp, expm1, log1p

from dpsql.core.events import Event
from dpsql.mechanisms.bounds import MARGIN, decimal, up

_DIGITS = Context(prec=100, Emin=MIN_EMIN, Emax=MAX_EMAX)
_LEAST = Fraction(1, 10**16)
_LARGE = 10**6


def of_event(order: Fraction, event: Event) -> Fraction:
    """The divergence that an event adds at an order, beside its delta: the least that is known of it.

    Why     rho bounds the divergence of every order by alpha rho, that is what zCDP says; an epsilon does by of_pure, where its kind
            does not know more. Each of these is so of the ideal mechanism, where the delta does not happen
    """
    loss = event.loss
    known = [order * loss.rho]
    if event.kind.renyi is not None:
        known.append(event.kind.renyi(order, *event.values))
    elif loss.epsilon is not None:
        known.append(of_pure(order, loss.epsilon))
    return up(min(known))


@lru_cache(maxsize=4096)
def of_pure(order: Fraction, epsilon: Fraction) -> Fraction:
    """ln(p^alpha q^(1 - alpha) + q^alpha p^(1 - alpha)) / (alpha - 1), p = e^epsilon / (1 + e^epsilon), q = 1 - p.

    Why     whatever is epsilon-DP is, for two neighbours, post-processing of one bit that is turned round with probability q
            (conversions.pure), and no divergence grows by post-processing. It is at most epsilon, and at most
            alpha epsilon^2 / 2: these are taken where epsilon is tiny or large. With e^-epsilon = a the sum is
            (a^alpha + a^(1 - alpha)) / (1 + a)
    Source  Kairouz, Oh, Viswanath 2015; Mironov 2017, Renyi Differential Privacy, proposition 5

    >>> round(float(of_pure(Fraction(2), Fraction(1))), 6)
    0.735326
    """
    if not _LEAST <= epsilon <= _LARGE:
        return min(epsilon, order * epsilon**2 / 2)
    with localcontext(_DIGITS):
        alpha, loss = decimal(order), decimal(epsilon)
        inside = ((-alpha * loss).exp() + ((alpha - 1) * loss).exp()) / (1 + (-loss).exp())
        found = Fraction(_ln(inside) / (alpha - 1))
    return min(up(found * (1 + MARGIN)), epsilon)


def about_pure(order: float, epsilon: float) -> float:
    """About of_pure, for first guesses that no promise depends on.

    Why  its sum less 1 is (e^(alpha epsilon) - 1) (1 - e^((1 - alpha) epsilon)) / (1 + e^epsilon): nothing cancels
    """
    if order * epsilon < 500:
        above = expm1(order * epsilon) * -expm1((1 - order) * epsilon) / (1 + exp(epsilon))
        return log1p(above) / (order - 1)
    return epsilon + (log1p(exp((1 - 2 * order) * epsilon)) - log1p(exp(-epsilon))) / (order - 1)


@lru_cache(maxsize=4096)
def of_discrete_laplace(order: Fraction, l1: Fraction, scale: Fraction) -> Fraction:
    """The divergence of a vector with sensitivity l1 [quanta] under discrete Laplace noise of this scale.

    Why     1. Let a = e^(-1 / scale). One number that differs by s quanta has E(s) = sum_z P(z - s)^alpha P(z)^(1 - alpha), with
               P(z) = (1 - a) / (1 + a) a^|z|: three geometric sums, over z <= 0, 0 < z < s and z >= s, that come to
               E(s) = A u^s + B v^s, u = a^alpha, v = a^(1 - alpha), A + B = 1,
               B = (1 - a) / (1 + a) (1 / (1 - a) + 1 / (a^(1 - 2 alpha) - 1)).
               Both are positive, since 2 alpha - 1 > 1.
            2. So ln E is convex in s, and 0 at s = 0: it grows, and ln E(s) + ln E(t) <= ln E(s + t). Of a vector the
               divergences of its numbers add up: at most that of one number which differs by all of l1.
            3. The other direction is the same with z turned round.
            4. Noise of a larger scale is that of a smaller one and something independent (a geometric variable is, too), so what
               is drawn, whose scale is never smaller, tells no more.
    Source  Canonne, Kamath, Steinke 2020 for the discrete Laplace; Mironov 2017, proposition 6 for the continuous one

    >>> of_discrete_laplace(Fraction(2), Fraction(1), Fraction(1)) == of_pure(Fraction(2), Fraction(1))
    True
    >>> round(float(of_discrete_laplace(Fraction(2), Fraction(10), Fraction(10))), 6)
    0.620664
    """
    if not _LEAST <= l1 / scale <= _LARGE or not 1 / _LARGE <= scale <= 1 / _LEAST:
        return of_pure(order, l1 / scale)
    with localcontext(_DIGITS):
        alpha, shift, ratio = decimal(order), decimal(l1), -1 / decimal(scale)
        a = ratio.exp()
        turned = (ratio * (1 - 2 * alpha)).exp()
        b = (1 - a) / (1 + a) * (1 / (1 - a) + 1 / (turned - 1))
        inside = (1 - b) * (ratio * alpha * shift).exp() + b * (ratio * (1 - alpha) * shift).exp()
        found = Fraction(_ln(inside) / (alpha - 1))
    return min(up(found * (1 + MARGIN)), l1 / scale)


def _ln(inside: Decimal) -> Decimal:
    """ln of a sum above 1; what cancels in inside - 1 is not worse than the digits that are left."""
    return max(inside, Decimal(1)).ln()
