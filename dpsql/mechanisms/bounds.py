"""Bounds that hold, to 40 digits: of epsilon tanh(epsilon / 2), of the normal tail, and of g(e) = Phi^-1(e^e / (1 + e^e)).

g is odd, and concave above zero: with h the hazard rate phi(x) / Phi(-x), whose slope is below 1 (Sampford 1953), ln h is concave, so
q(x) = h(x) h(-x) falls for x > 0. Then k(x) = (2 Phi - 1) phi - x Phi (1 - Phi), with k' = Phi (1 - Phi) (2 q - 1), first rises and
then falls, and is 0 at 0 and at infinity: k >= 0, which is what g'' <= 0 says.

Decimals have 60 digits; floats are first guesses that no promise depends on.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import atanh, erf, erfc, exp, floor, log, log1p, pi, sqrt

DIGITS = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534")
ROOT = DIGITS.sqrt(DIGITS.multiply(2, PI))
TINY = Fraction(1, 2**40)
LARGE = 600
MARGIN = Fraction(1, 10**40)
SLACK = Decimal("1e-48")


def rho_bounds(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of epsilon tanh(epsilon / 2); x - x^3 / 3 <= tanh(x) <= x and 1 - 2 e^-2x <= tanh(x) <= 1."""
    if epsilon < TINY:
        return epsilon**2 / 2 * (1 - epsilon**2 / 12), epsilon**2 / 2
    if epsilon > LARGE:
        return epsilon * (1 - MARGIN), epsilon
    with localcontext(DIGITS):
        grown = decimal(epsilon).exp()
        middle = epsilon * Fraction((grown - 1) / (grown + 1))
    return middle * (1 - MARGIN), middle * (1 + MARGIN)


@lru_cache(maxsize=4096)
def mu_squared_above(epsilon: Fraction) -> Fraction:
    """4 g(epsilon)^2, rounded up.

    Why     g is concave and its inverse E(z) = ln(Phi(z) / Phi(-z)) convex: a step of Newton's method from any z ends
            above the root. For a small epsilon the step is from zero, for a large one Phi(-z) <= exp(-z^2 / 2) / 2
            is enough: 4 g(epsilon)^2 <= 8 epsilon
    """
    if epsilon < TINY:
        return up(Fraction(PI) * (1 + MARGIN) / 2 * epsilon**2)
    if epsilon > LARGE:
        return up(8 * epsilon)
    with localcontext(DIGITS):
        z = Decimal(_g(float(epsilon)))
        low, _, flatness = log_odds(z)
        step = (decimal(epsilon) - low) * flatness
        above = z + step + abs(step) * Decimal("1e-25")
    return up(4 * Fraction(above) ** 2 * (1 + MARGIN))


def log_odds(z: Decimal) -> tuple[Decimal, Decimal, Decimal]:
    """Bounds of E(z) = ln(Phi(z) / Phi(-z)) for z > 0, and about 1 / E'(z).

    Why     Phi(-z) = phi(z) M(z), so E = z^2 / 2 + ln(sqrt(2 pi) / M (1 - phi M)), in which M has a weight of at most 2
            where it is off by a part of itself
    """
    half = z * z / 2
    low, high = mills(z)
    above = 1 - (-half).exp() / ROOT * low
    found = half + (ROOT / low * above).ln()
    error = 2 * (high / low - 1) + Decimal("1e-45") * (1 + half)
    return found - error, found + error, low * above


def mills(x: Decimal) -> tuple[Decimal, Decimal]:
    """Bounds of M(x) = Phi(-x) / phi(x), apart by a factor of less than 1 + 10^-35.

    Why     below 5, M(x) = sqrt(pi / 2) exp(x^2 / 2) - (x + x^3 / 3 + x^5 / (3 * 5) + ...), and when the terms end,
            each is less than half of the one before; above, the convergents of the continued fraction
            1 / (x + 1 / (x + 2 / (x + ...))) are too large and too small in turn; M(x) + M(-x) = 1 / phi(x)
    """
    square = x * x
    if x < 0:
        low, high = mills(-x)
        whole = ROOT * (square / 2).exp()
        return whole * (1 - SLACK) - high, whole * (1 + SLACK) - low
    if x < 5:
        term = found = x
        odd = 1
        while term > Decimal("1e-54"):
            odd += 2
            term *= square / odd
            found += term
        high = ROOT / 2 * (square / 2).exp() - found
        low = high - term
    else:
        depth = 2 * int(1000 / square) + 20
        high, low = 1 / _nested(x, depth), 1 / _nested(x, depth + 1)
    return low * (1 - SLACK), high * (1 + SLACK)


def _nested(x: Decimal, depth: int) -> Decimal:
    found = x
    for k in range(depth, 0, -1):
        found = x + k / found
    return found


def down(value: Fraction, bits: int = 64) -> Fraction:
    """Rounded towards minus infinity, to `bits` or one less significant bits."""
    if not value:
        return value
    unit = Fraction(2) ** (bits - 1 - value.numerator.bit_length() + value.denominator.bit_length())
    return floor(value * unit) / unit


def up(value: Fraction) -> Fraction:
    return -down(-value)


def decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _g(epsilon: float) -> float:
    """About g(epsilon), by Newton's method from above."""
    z = min(sqrt(2 * pi) * epsilon / 4, sqrt(2 * epsilon))
    for _ in range(8):
        inside, outside = erf(z / sqrt(2)), erfc(z / sqrt(2))
        odds = 2 * atanh(inside) if z < 1 else log1p(inside) - log(outside)
        z += (epsilon - odds) * outside * (2 - outside) / 4 * sqrt(2 * pi) * exp(z * z / 2)
    return z
