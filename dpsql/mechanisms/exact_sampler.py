"""Discrete Laplace and discrete Gaussian noise by integer arithmetic on the operating system's random bytes.

No floating point anywhere, so the distributions are those of the formulas. Every draw is a chain of coins; a coin of
probability r / a compares digits (`coins`). All arrays hold 64-bit integers and all products stay below 2^63: see the limits
in each function. os.urandom is read anew for every array: no state, so threads and forked processes never share noise,
and there is no seed.

Source  Canonne, Kamath, Steinke 2020, The Discrete Gaussian for Differential Privacy, algorithms 1 and 2 (coins,
        Laplace); Karney 2016, Sampling Exactly from the Normal Distribution, section 5 (Gaussian)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.core.columns import Column
from dpsql.core.errors import error
from dpsql.mechanisms.rounding import FINEST, MOST_SCALE

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Coin = Callable[[Integers], Flags]
MOST_STEPS = 1023
MOST_AT_ONCE = 2**18


def laplace(scale: Fraction, size: int) -> Column[int]:
    """iid integers with P(z) proportional to exp(-|z| / scale).

    Input   scale = t / s with 0 < t <= 2^52 and s <= 2^61  [quanta]
    Why     X = U + t * V with U accepted at exp(-U / t) and V geometric in 1/e has P(x) ~ exp(-x / t), so X // s has
            P(y) ~ exp(-y / scale); a random sign, with the second zero rejected, makes it two-sided.
            V <= 1023, so X <= 2^62
    """
    t, s = _checked(scale)
    return _collect(lambda wanted: _laplace_attempts(t, s, wanted * 17 // 10), size)


def gaussian(sigma: Fraction, size: int) -> Column[int]:
    """iid integers with P(z) proportional to exp(-z^2 / (2 sigma^2)).

    Input   sigma = a / b with 0 < a <= 2^52 and b <= 2^61  [quanta]
    Why     i >= 0 is (k + x) * sigma with one whole k and 0 <= x < 1, and exp(-(k + x)^2 / 2) =
            exp(-k / 2) * exp(-k (k - 1) / 2) * exp(-x)^k * exp(-x^2 / 2), each factor a coin. k <= 1023: all below 2^63
    """
    a, b = _checked(sigma)
    return _collect(lambda wanted: _gaussian_attempts(a, b, wanted * 21 // 10), size)


def gaussians(sigmas: Integers) -> Column[int]:
    """Independent integers, the i-th with P(z) proportional to exp(-z^2 / (2 sigmas[i]^2)).

    Input   whole sigmas, 0 < sigma <= 2^52  [quanta]
    Why     as gaussian, with b = 1: i = k * sigma + rest, and what is drawn of `rest` is drawn of as many bits as the largest sigma
            has: an attempt with too large a one is refused whole, so what is accepted is uniform below its own sigma. Who has no value
            yet tries again, and others' attempts tell nothing of it
    """
    if sigmas.size and not 0 < sigmas.min() <= sigmas.max() <= MOST_SCALE:
        raise error(901, "a noise scale is out of range")
    found = np.zeros(sigmas.size, dtype=np.int64)
    waiting = np.arange(sigmas.size)
    while waiting.size:
        check()
        late = []
        for start in range(0, waiting.size, MOST_AT_ONCE):
            trying = waiting[start : start + MOST_AT_ONCE]
            values, accepted = _attempts(sigmas[trying])
            found[trying[accepted]] = values[accepted]
            late.append(trying[~accepted])
        waiting = np.concatenate(late)
    return Column(found)


def _attempts(sigmas: Integers) -> tuple[Integers, Flags]:
    """One attempt at each sigma, and whether it is accepted."""
    k = _geometric(_fair, sigmas.size)
    rest = uniform(1 << int(sigmas.max() - 1).bit_length(), sigmas.size)
    accepted = _all_succeed(_always, k * (k - 1) // 2) & (rest < sigmas)
    alive = np.flatnonzero(accepted)
    own, left = sigmas[alive], rest[alive]
    kept = _all_succeed(lambda at: coins(left[at], own[at]), k[alive])
    kept &= exp_coin(lambda at: coins(left[at], own[at]) & coins(left[at], own[at]) & _fair(at), alive.size)
    accepted[alive] = kept
    negative = uniform(2, sigmas.size) == 1
    values = k * sigmas + np.where(accepted, rest, 0)
    # of the two zeros one is refused
    accepted &= ~(negative & (values == 0))
    return np.where(negative, -values, values), accepted


def uniform(below: int, size: int) -> Integers:
    """iid uniform integers in [0, below), below <= 2^62: as many random bits as needed, too large ones drawn again."""
    bits = (below - 1).bit_length()
    width = next(bytes_ for bytes_ in (1, 2, 4, 8) if bits <= 8 * bytes_)
    found = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        words = np.frombuffer(os.urandom(width * (size - filled)), dtype=f"u{width}")
        values = (words & words.dtype.type((1 << bits) - 1)).astype(np.int64)
        values = values[values < below]
        found[filled : filled + values.size] = values
        filled += values.size
    return found


def coins(tops: Integers, bottom: int | Integers) -> Flags:
    """Flips that succeed with probability tops / bottom, 0 <= tops < bottom <= 2^52; one bottom for all, or one for each.

    Why  a uniform number of [0, 1) is drawn digit after digit to the base 256, and is below tops / bottom iff its first digit that
         differs from that number's is the smaller one. The next digit of r / bottom is the whole part of 256 r / bottom, and the
         rest of that division is the next r: all of it integers below 2^60. One byte decides all but one flip of 256
    """
    outcome = np.zeros(tops.size, dtype=np.bool_)
    alive, rest = np.arange(tops.size), tops
    while alive.size:
        shifted = rest * 256
        digits = shifted // bottom
        drawn = np.frombuffer(os.urandom(alive.size), dtype=np.uint8)
        outcome[alive] = drawn < digits
        tied = np.flatnonzero(drawn == digits)
        bottom = bottom if isinstance(bottom, int) else bottom[tied]
        alive, rest = alive[tied], shifted[tied] - digits[tied] * bottom
    return outcome


def exp_coin(coin: Coin, size: int) -> Flags:
    """Flips that succeed with probability exp(-p), where `coin` gets the positions to flip and succeeds with
    probability p.

    Why  flip coins of p/1, p/2, p/3, ... until one fails; the first failure is the K-th with K odd with probability
         1 - p + p^2/2! - ... = exp(-p). A coin of p/K is a coin of p and one of 1/K
    """
    outcome = np.ones(size, dtype=np.bool_)
    alive = np.arange(size, dtype=np.int64)
    divisor = 1
    while alive.size:
        alive = alive[coin(alive)]
        if divisor > 1:
            alive = alive[uniform(divisor, alive.size) == 0]
        outcome[alive] ^= True
        divisor += 1
    return outcome


def _checked(scale: Fraction) -> tuple[int, int]:
    if not 0 < scale <= MOST_SCALE or scale.numerator > MOST_SCALE or scale.denominator > 2**FINEST:
        raise error(901, "a noise scale is out of range")
    return scale.numerator, scale.denominator


def _collect(attempts: Callable[[int], Integers], size: int) -> Column[int]:
    """Accepted values, in the order they came, until there are enough."""
    found = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        check()
        some = attempts(min(size - filled, MOST_AT_ONCE) + 8)[: size - filled]
        found[filled : filled + some.size] = some
        filled += some.size
    return Column(found)


def _laplace_attempts(t: int, s: int, size: int) -> Integers:
    remainder = uniform(t, size)
    remainder = remainder[exp_coin(lambda at: coins(remainder[at], t), size)]
    values = (remainder + t * _geometric(_always, remainder.size)) // s
    return _signed(values)


def _gaussian_attempts(a: int, b: int, size: int) -> Integers:
    k = _geometric(_fair, size)
    k = k[_all_succeed(_always, k * (k - 1) // 2)]
    i = (k * a + b - 1) // b + uniform(-(-a // b), k.size)
    rest = i * b - k * a
    inside = rest < a
    k, i, rest = k[inside], i[inside], rest[inside]
    kept = _all_succeed(lambda at: coins(rest[at], a), k)
    kept &= exp_coin(lambda at: _half_square(a, rest[at]), i.size)
    return _signed(i[kept])


def _half_square(a: int, rest: Integers) -> Flags:
    """Coins of probability (rest / a)^2 / 2."""
    return coins(rest, a) & coins(rest, a) & _fair(rest)


def _geometric(coin: Coin, size: int) -> Integers:
    """Number of coins of exp(-p) that succeed before one fails; 1,024 times has probability below 2^-700, and is
    refused."""
    count = np.zeros(size, dtype=np.int64)
    alive = np.arange(size, dtype=np.int64)
    for _ in range(MOST_STEPS + 1):
        alive = alive[exp_coin(_among(alive, coin), alive.size)]
        if not alive.size:
            return count
        count[alive] += 1
    raise error(901, "a noise draw is out of range")


def _all_succeed(coin: Coin, times: Integers) -> Flags:
    """Mark the positions at which `times` coins of exp(-p) in a row succeed."""
    outcome = np.ones(times.size, dtype=np.bool_)
    alive, flips = np.flatnonzero(times), 1
    while alive.size:
        success = exp_coin(_among(alive, coin), alive.size)
        outcome[alive[~success]] = False
        alive = alive[success & (times[alive] > flips)]
        flips += 1
    return outcome


def _signed(values: Integers) -> Integers:
    """A random sign; a negative zero is dropped, so that zero is not counted twice."""
    sign = 1 - 2 * uniform(2, values.size)
    return (values * sign)[(values > 0) | (sign > 0)]


def _among(positions: Integers, coin: Coin) -> Coin:
    """A coin for some of the positions, counted from 0."""
    return lambda at: coin(positions[at])


def _always(at: Integers) -> Flags:
    return np.ones(at.size, dtype=np.bool_)


def _fair(at: Integers) -> Flags:
    flags: Flags = uniform(2, at.size) == 0
    return flags
