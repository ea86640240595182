"""What each mechanism loses in each measure, and what each accountant may reach under a total.

  mechanism                  epsilon  squares    rho                    mu_squared
  pure (Laplace and others)  e        e^2        e tanh(e / 2)          4 g(e)^2
  choice (exponential)       e        e^2        e^2 / 8                4 g(e / 2)^2
  Gaussian                   none     none       rho                    2 rho

  accountant                 may reach, under a total of epsilon and delta
  pure                       epsilon
  squares                    S with sqrt(2 S ln(1 / delta)) + S / 2 = epsilon
  rho                        the largest with (epsilon, delta) by the tight conversion of zCDP
  mu_squared                 the largest with (epsilon, delta) by the conversion of GDP, which is exact

g(e) = Phi^-1(e^e / (1 + e^e)), Phi of the normal distribution. g is odd, and concave above zero: with h the hazard rate
phi(x) / Phi(-x), whose slope is below 1 (Sampford 1953), ln h is concave, so q(x) = h(x) h(-x) falls for x > 0. Then
k(x) = (2 Phi - 1) phi - x Phi (1 - Phi), with k' = Phi (1 - Phi) (2 q - 1), first rises and then falls, and is 0 at 0
and at infinity: k >= 0, which is what g'' <= 0 says.

Losses are rounded up and totals down, to 64 significant bits. Decimals have 60 digits, and what rounding can add is
taken off or put on; floats are first guesses that no promise depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import atanh, cosh, erf, erfc, exp, floor, log, log1p, pi, sqrt, tanh

from dpsql.loss import EpsilonDelta, PrivacyLoss

NO_PROMISE = 1 - Fraction(1, 2**64)
"""The delta of a group for which no delta below one is known."""

_DIGITS = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
_TWELVE = Context(prec=12, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SIX = Context(prec=6, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534")
_ROOT = _DIGITS.sqrt(_DIGITS.multiply(2, _PI))
_TINY = Fraction(1, 2**40)
_LARGE = 600
_MARGIN = Fraction(1, 10**40)
_SLACK = Decimal("1e-48")
_SHOWN = 1 - Fraction(1, 2**40)
_LEAST_EPSILON = Fraction(1, 10**30)
_MOST = EpsilonDelta(Fraction(10**6), Fraction(9, 10))


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
    return PrivacyLoss(epsilon, delta, epsilon**2, _up(_rho_bounds(epsilon)[1]), _mu_squared(epsilon))


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
    return PrivacyLoss(epsilon, Fraction(0), epsilon**2, _up(epsilon**2 / 8), _mu_squared(epsilon / 2))


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
    """What a release loses about a group of people instead of one.

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
    with localcontext(_DIGITS):
        delta, steps = _decimal(loss.delta), people - 1
        missing = -delta.ln()
        if loss.epsilon is None:
            reach = steps * _decimal(max(loss.rho, loss.mu_squared / 2)).sqrt()
            left = missing.sqrt() - reach
            found = people * (-left * left).exp() if left > 0 else Decimal(1)
        elif steps * loss.epsilon >= missing:
            found = Decimal(1)
        elif loss.epsilon < _TINY:
            found = people * delta * (steps * _decimal(loss.epsilon)).exp()
        else:
            epsilon = _decimal(loss.epsilon)
            found = delta * ((people * epsilon).exp() - 1) / (epsilon.exp() - 1)
    return min(_up(Fraction(found) * (1 + _MARGIN)), NO_PROMISE)


# Prices as people write them: a Gaussian "of epsilon e" has rho = e tanh(e / 2), as the worst epsilon-DP mechanism has


@lru_cache(maxsize=4096)
def rho_at_most(epsilon: Fraction) -> Fraction:
    """What a Gaussian of this nominal epsilon may spend: epsilon tanh(epsilon / 2), rounded down to 50 bits.

    >>> float(rho_at_most(Fraction(1, 10)))
    0.00499583749...
    """
    return _down(_rho_bounds(epsilon)[0], 50) if epsilon > 0 else Fraction(0)


@lru_cache(maxsize=4096)
def epsilon_at_most_rho(rho: Fraction) -> Fraction:
    """The largest nominal epsilon of 12 digits that costs at most this rho; 0 where there is none."""
    if rho <= 0:
        return Fraction(0)
    with localcontext(_TWELVE):
        epsilon = _about(rho) * Decimal("1.0000000000001")
        while _rho_bounds(Fraction(epsilon))[1] > rho:
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
        while _rho_bounds(Fraction(epsilon))[0] < rho * _SHOWN:
            epsilon = epsilon.next_plus()
    return Fraction(epsilon)


@lru_cache(maxsize=4096)
def epsilon_at_most_mu(mu_squared: Fraction) -> Fraction:
    """The largest epsilon of 12 digits whose pure loss has at most this mu_squared; 0 where there is none."""
    if mu_squared <= 0:
        return Fraction(0)
    with localcontext(_DIGITS):
        z = _decimal(mu_squared).sqrt() / 2
        if mu_squared >= 8 * _LARGE:
            found = _decimal(mu_squared / 8)
        elif z < _decimal(_TINY):
            found = z * 4 / _ROOT
        else:
            found = min(Decimal(_LARGE), _log_odds(z)[1])
        found *= 1 + Decimal("1e-22")
    with localcontext(_TWELVE):
        epsilon = +found
        while _mu_squared(Fraction(epsilon)) > mu_squared:
            epsilon = epsilon.next_minus()
    return Fraction(epsilon)


# Totals


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
    with localcontext(_DIGITS):
        epsilon, log_delta = _decimal(within.epsilon), _decimal(within.delta).ln()
        beyond = Decimal(_best_order(float(epsilon), float(log_delta)))
        alpha = 1 + beyond
        shape = beyond.ln() + alpha * (alpha / beyond).ln()
        size = epsilon + (abs(log_delta) + abs(beyond.ln()) + 2) / beyond
        error = size * _SLACK + alpha / beyond * Decimal("1e-58")
        rho = (epsilon + (log_delta + shape) / beyond - error) / alpha
    return max(_down(Fraction(rho) * (1 - _MARGIN)), Fraction(0))


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
    with localcontext(_DIGITS):
        epsilon, delta = _decimal(within.epsilon), _decimal(within.delta)
        mu = _mu_by_newton(epsilon, delta, _decimal(2 * rho).sqrt())
        for less in ("1e-21", "1e-17", "1e-12"):
            safe = mu * (1 - Decimal(less))
            if _delta_of_mu(epsilon, safe)[1] <= delta * (1 - _SLACK):
                return max(_down(Fraction(safe) ** 2), 2 * rho)
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
    with localcontext(_DIGITS):
        epsilon, missing = _decimal(within.epsilon), -_decimal(within.delta).ln()
        root = 2 * epsilon / ((2 * (missing + epsilon)).sqrt() + (2 * missing).sqrt())
    return _down(Fraction(root) ** 2 * (1 - _MARGIN))


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
    """Where a function with one peak is highest, to 10^-8 or so: golden sections."""
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
    height = (-a * a / 2).exp() / _ROOT
    (low_a, high_a), (low_b, high_b) = _mills(a), _mills(b)
    return height * (low_a - high_b) * (1 - _SLACK), height * (high_a - low_b) * (1 + _SLACK), height


# Bounds


def _rho_bounds(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of epsilon tanh(epsilon / 2); x - x^3 / 3 <= tanh(x) <= x and 1 - 2 e^-2x <= tanh(x) <= 1."""
    if epsilon < _TINY:
        return epsilon**2 / 2 * (1 - epsilon**2 / 12), epsilon**2 / 2
    if epsilon > _LARGE:
        return epsilon * (1 - _MARGIN), epsilon
    with localcontext(_DIGITS):
        grown = _decimal(epsilon).exp()
        middle = epsilon * Fraction((grown - 1) / (grown + 1))
    return middle * (1 - _MARGIN), middle * (1 + _MARGIN)


@lru_cache(maxsize=4096)
def _mu_squared(epsilon: Fraction) -> Fraction:
    """4 g(epsilon)^2, rounded up.

    Why     g is concave and its inverse E(z) = ln(Phi(z) / Phi(-z)) convex: a step of Newton's method from any z ends
            above the root. For a small epsilon the step is from zero, for a large one Phi(-z) <= exp(-z^2 / 2) / 2
            is enough: 4 g(epsilon)^2 <= 8 epsilon
    """
    if epsilon < _TINY:
        return _up(Fraction(_PI) * (1 + _MARGIN) / 2 * epsilon**2)
    if epsilon > _LARGE:
        return _up(8 * epsilon)
    with localcontext(_DIGITS):
        z = Decimal(_g(float(epsilon)))
        low, _, flatness = _log_odds(z)
        step = (_decimal(epsilon) - low) * flatness
        above = z + step + abs(step) * Decimal("1e-25")
    return _up(4 * Fraction(above) ** 2 * (1 + _MARGIN))


def _log_odds(z: Decimal) -> tuple[Decimal, Decimal, Decimal]:
    """Bounds of E(z) = ln(Phi(z) / Phi(-z)) for z > 0, and about 1 / E'(z).

    Why     Phi(-z) = phi(z) M(z), so E = z^2 / 2 + ln(sqrt(2 pi) / M (1 - phi M)), in which M has a weight of at most 2
            where it is off by a part of itself
    """
    half = z * z / 2
    low, high = _mills(z)
    above = 1 - (-half).exp() / _ROOT * low
    found = half + (_ROOT / low * above).ln()
    error = 2 * (high / low - 1) + Decimal("1e-45") * (1 + half)
    return found - error, found + error, low * above


def _mills(x: Decimal) -> tuple[Decimal, Decimal]:
    """Bounds of M(x) = Phi(-x) / phi(x), apart by a factor of less than 1 + 10^-35.

    Why     below 5, M(x) = sqrt(pi / 2) exp(x^2 / 2) - (x + x^3 / 3 + x^5 / (3 * 5) + ...), and when the terms end,
            each is less than half of the one before; above, the convergents of the continued fraction
            1 / (x + 1 / (x + 2 / (x + ...))) are too large and too small in turn; M(x) + M(-x) = 1 / phi(x)
    """
    square = x * x
    if x < 0:
        low, high = _mills(-x)
        whole = _ROOT * (square / 2).exp()
        return whole * (1 - _SLACK) - high, whole * (1 + _SLACK) - low
    if x < 5:
        term = found = x
        odd = 1
        while term > Decimal("1e-54"):
            odd += 2
            term *= square / odd
            found += term
        high = _ROOT / 2 * (square / 2).exp() - found
        low = high - term
    else:
        depth = 2 * int(1000 / square) + 20
        high, low = 1 / _nested(x, depth), 1 / _nested(x, depth + 1)
    return low * (1 - _SLACK), high * (1 + _SLACK)


def _nested(x: Decimal, depth: int) -> Decimal:
    found = x
    for k in range(depth, 0, -1):
        found = x + k / found
    return found


def _down(value: Fraction, bits: int = 64) -> Fraction:
    """Rounded towards minus infinity, to `bits` or one less significant bits."""
    if not value:
        return value
    unit = Fraction(2) ** (bits - 1 - value.numerator.bit_length() + value.denominator.bit_length())
    return floor(value * unit) / unit


def _up(value: Fraction) -> Fraction:
    return -_down(-value)


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


# First guesses


def _about(rho: Fraction) -> Decimal:
    """About the nominal epsilon of a rho, to 10^-14 of it."""
    with localcontext(_DIGITS):
        if rho < Fraction(1, 10**20):
            return _decimal(2 * rho).sqrt()
        if rho > 100:
            return _decimal(rho)
    wanted = float(rho)
    epsilon = max(sqrt(2 * wanted), wanted)
    for _ in range(8):
        epsilon -= (epsilon * tanh(epsilon / 2) - wanted) / (tanh(epsilon / 2) + epsilon / 2 / cosh(epsilon / 2) ** 2)
    return Decimal(epsilon)


def _g(epsilon: float) -> float:
    """About g(epsilon), by Newton's method from above."""
    z = min(sqrt(2 * pi) * epsilon / 4, sqrt(2 * epsilon))
    for _ in range(8):
        inside, outside = erf(z / sqrt(2)), erfc(z / sqrt(2))
        odds = 2 * atanh(inside) if z < 1 else log1p(inside) - log(outside)
        z += (epsilon - odds) * outside * (2 - outside) / 4 * sqrt(2 * pi) * exp(z * z / 2)
    return z
