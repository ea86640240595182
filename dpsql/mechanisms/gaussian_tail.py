"""The tail of the discrete Gaussian, P(z) proportional to f(z) = exp(-z^2 / (2 sigma^2)), as a proved upper bound."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal, localcontext
from fractions import Fraction

_DIGITS = Context(prec=60, Emin=-2000, Emax=2000, traps=[])
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534")
_LEAST = Fraction(1, 10**1000)
_ROUNDING = 1 + Fraction(1, 10**30)
RELATIVE_ERROR = Fraction(1, 10**12)


def upper_tail(variance: Fraction, m: int) -> Fraction:
    """An upper bound of P(Z >= m) where Z has the parameter sigma^2 = variance.

    Output  too large by a factor of at most 1 + 10^-12 (1 + 10^-30 for sigma < 32), or 10^-1000 where it is smaller
    Why     the series is summed term by term where it is short: sigma < 32, or m so far out that terms fall by a tenth
            a step. Elsewhere Euler and Maclaurin's formula gives it with a bound on what is left out, which is added
    """
    if m <= 0:
        return min(Fraction(1), 1 - upper_tail(variance, 1 - m) * (1 - RELATIVE_ERROR) + _LEAST)
    if m * m > 5000 * variance:
        return _LEAST
    with localcontext(_DIGITS):
        square = Decimal(variance.numerator) / Decimal(variance.denominator)
        direct = variance < 32**2 or 10 * m > variance
        mass = _series(square, m) if direct else _euler_maclaurin(square.sqrt(), m)
        return max(Fraction(mass / _whole(square)) * _ROUNDING, _LEAST)


def _whole(square: Decimal) -> Decimal:
    """The sum of f over all integers. By Poisson summation it is sigma sqrt(2 pi) (1 + 2 exp(-2 pi^2 sigma^2) + ...):
    the first term is a lower bound, short by less than 10^-33 for sigma >= 2."""
    return (2 * _PI * square).sqrt() if square >= 4 else 1 + 2 * _series(square, 1)


def _series(square: Decimal, m: int) -> Decimal:
    """The sum of f(z) over z >= m >= 1. The ratio of neighbours only falls, so what follows a term is below a geometric
    series."""
    term = (-m * m / (2 * square)).exp()
    ratio, step = (-(2 * m + 1) / (2 * square)).exp(), (-1 / square).exp()
    found, enough = term, term * Decimal("1e-40")
    while term * ratio > enough * (1 - ratio):
        term *= ratio
        ratio *= step
        found += term
    return found + term * ratio / (1 - ratio)


def _euler_maclaurin(sigma: Decimal, m: int) -> Decimal:
    """An upper bound of the sum of f(z) over z >= m, for sigma >= 32 and m <= sigma^2 / 10.

    Why  sum = integral + f(m) / 2 - sum_k B_2k / (2k)! f^(2k-1)(m) + R with |R| <= |B_8| / 8! * integral |f^(8)|.
         Derivatives of f are Hermite polynomials: f^(n)(m) = (-1)^n He_n(x) f(m) / sigma^n, x = m / sigma. With the
         absolute values of the coefficients of He_8, the integral is a sum of Gaussian moments. R is below 10^-13 of
         the sum in the range given
    """
    x = m / sigma
    height = (-x * x / 2).exp()
    area = _area_above(x, height)
    derivatives = (
        (x / sigma) / 12
        - (x**3 - 3 * x) / sigma**3 / 720
        + (x**5 - 10 * x**3 + 15 * x) / sigma**5 / 30240
        - (x**7 - 21 * x**5 + 105 * x**3 - 105 * x) / sigma**7 / 1209600
    )
    left_out = sum(c * area_k for c, area_k in zip((105, 420, 210, 28, 1), _even_moments(x, height, area), strict=True))
    return sigma * area + height / 2 + height * derivatives + left_out / sigma**7 / 1209600


def _even_moments(x: Decimal, height: Decimal, area: Decimal) -> Iterator[Decimal]:
    """The integral of t^k exp(-t^2 / 2) over t >= x, for k = 0, 2, 4, 6, 8, by parts."""
    moment = area
    yield moment
    for k in (2, 4, 6, 8):
        moment = x ** (k - 1) * height + (k - 1) * moment
        yield moment


def _area_above(x: Decimal, height: Decimal) -> Decimal:
    """An upper bound of the integral of exp(-t^2 / 2) over t >= x > 0: half the whole less a series of positive terms
    near zero, else the continued fraction 1 / (x + 1 / (x + 2 / (x + ...))), whose even convergents are upper
    bounds."""
    if x < 3:
        return (_PI / 2).sqrt() - height * _odd_series(x)
    nested = x
    for k in range(100, 0, -1):
        nested = x + k / nested
    return height / nested


def _odd_series(x: Decimal) -> Decimal:
    """x + x^3 / 3 + x^5 / (3 * 5) + ...; stopping early makes it smaller."""
    term, found, k = x, Decimal(0), 1
    while term > Decimal("1e-50") * x:
        found += term
        k += 2
        term *= x * x / k
    return found
