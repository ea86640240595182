"""Private group keys that may be shown: those with enough people, after noise."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction

from dpsql.mechanisms.additive import AdditiveNoise, smallest

_DIGITS = Context(prec=100)


def threshold(noise: AdditiveNoise, l0: int, delta: Fraction) -> int:
    """The smallest integer tau for which showing the groups with n + Z >= tau adds at most delta.

    Input   noise on n, the number of units in a group, made for l0 groups of one unit; 0 < delta < 1  [probability]
    Output  tau  [units]; P(1 + Z >= tau) <= 1 - (1 - delta)^(1 / l0), the case of equality included
    Why     1. Let D have one unit more than D'. A group of D that D' lacks holds that unit alone: n = 1. There are at
               most l0.
            2. Its draw is independent of the others, so with probability at least (1 - P(1 + Z >= tau))^l0 >= 1 - delta
               none of them is shown. Call this E; given E, nothing of these groups can be seen.
            3. In the other groups n differs by at most 1, in at most l0 of them: M(D) given E and M(D') are within
               (epsilon, delta_noise) of each other by the noise alone; showing or hiding is post-processing of n + Z.
            4. P(M(D) in S) <= P(M(D) in S | E) + delta, and P(M(D) in S) >= (1 - delta) P(M(D) in S | E); so
               P(M(D') in S) <= (1 - delta) P(M(D') in S) + delta <= exp(epsilon) P(M(D) in S) + delta + delta_noise.
            The noisy count n + Z itself may be shown too.
    Source  Korolova et al. 2009, Releasing Search Queries and Clicks Privately; Wilson et al. 2020, section 3.2

    >>> from dpsql.mechanisms.laplace import DiscreteLaplace
    >>> threshold(DiscreteLaplace(Fraction(1)), 1, Fraction(1, 10**6))
    15
    """
    share = delta_per_group(l0, delta)
    guess = noise.half_width(max(Fraction(0), 1 - 2 * share)) + 1
    return 1 + smallest(lambda m: noise.tail(m) <= share, guess)


def delta_per_group(l0: int, delta: Fraction) -> Fraction:
    """1 - (1 - delta)^(1 / l0), rounded down: what each of l0 independent groups may spend."""
    if l0 < 1 or not 0 < delta < 1:
        raise ValueError("a threshold needs l0 >= 1 and 0 < delta < 1")
    if l0 == 1:
        return delta
    with localcontext(_DIGITS):
        rest = Decimal(delta.denominator - delta.numerator) / Decimal(delta.denominator)
        share = Fraction(1 - (rest.ln() / l0).exp()) - Fraction(1, 10**80)
    return max(share, delta / l0)


def release(noisy: int, tau: int) -> bool:
    """True if a group with this noisy count is shown. Equality shows it: tau is computed for that."""
    return noisy >= tau
