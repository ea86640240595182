"""Goodness of fit of samples to a distribution of integers: Pearson's chi-square over cells of at least two per cent each.

Below scale 1 a cell may hold 3 in 1,000, since there is little but zero. With 76 expected in such a cell, the chance
of a p-value below 10^-9 is 5 * 10^-8 at most, by the Poisson distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import exp, sqrt

import numpy as np
from scipy.stats import chisquare, norm

Above = Callable[[int], float]


def laplace_above(scale: float) -> Above:
    """P(Z >= m) of the discrete Laplace, from its formula."""

    def above(m: int) -> float:
        return exp(-m / scale) / (1 + exp(-1 / scale)) if m >= 1 else 1 - above(1 - m)

    return above


def gaussian_above(sigma: float) -> Above:
    """P(Z >= m) of the discrete Gaussian: its series, or the continuous one, which is 10^-11 off at sigma = 10^5."""
    if sigma > 1e5:
        return lambda m: float(norm.sf((m - 0.5) / sigma))
    reach = int(10 * sigma) + 20
    points = np.arange(-reach, reach + 1)
    weights = np.exp(-(points**2) / (2 * sigma**2))
    sums = np.append(np.cumsum(weights[::-1])[::-1] / weights.sum(), 0.0)
    return lambda m: float(sums[min(max(m + reach, 0), 2 * reach + 1)])


def rounded_above(sigma: float) -> Above:
    """P(Z >= m) of a continuous Gaussian that is rounded."""
    return lambda m: float(norm.sf((m - 0.5) / sigma))


def edges(above: Above, scale: float) -> list[int]:
    """Lower ends of cells, all but the lowest, such that no cell is too small."""
    least = 0.02 if scale >= 1 else 0.003
    found: list[int] = []
    rest = 1.0
    for m in sorted({round(scale * x / 50) for x in range(-400, 401)} | set(range(-20, 21))):
        if rest - above(m) >= least and above(m) >= least:
            found.append(m)
            rest = above(m)
    return found


def p_value(samples: Iterable[int], above: Above, scale: float) -> float:
    """The chance of a fit at least as bad as this one, if the samples have the distribution."""
    ends = edges(above, scale)
    sums = [1.0, *(above(m) for m in ends), 0.0]
    expected = np.array([high - low for high, low in pairwise(sums)])
    cells = np.searchsorted(np.array(ends), np.array(list(samples)), side="right")
    observed = np.bincount(cells, minlength=len(expected))
    return float(chisquare(observed, expected * observed.sum()).pvalue)


def dependence(samples: list[int]) -> float:
    """The p-value of independence of neighbours in sign, and in being above the middle size."""
    values = np.array(samples, dtype=float)
    worst = 1.0
    for flags in (values > np.median(values), np.abs(values) > np.median(np.abs(values))):
        rate = float(flags.mean())
        both = (flags[:-1] & flags[1:]).mean()
        spread = sqrt((rate * (1 - rate)) ** 2 / (len(flags) - 1))
        worst = min(worst, 2 * float(norm.sf(abs(both - rate**2) / spread)))
    return worst
