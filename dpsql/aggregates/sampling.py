"""Error of a random sample: how far a count or an average over some people lies from that over the many whom they were drawn from.

Each person is there independently of the others, with one row. Then the number of people of a group has a variance of at most its mean,
and the average of n of them that of one over n, which is at most (mean - L) (U - mean) between bounds L and U, whatever the values are
(Bhatia, Davis 2000). Both are nearly normal where there are many people (the central limit theorem): below FEWEST nothing is told.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist

import numpy as np

from dpsql.aggregates.base import Floats

OF_SAMPLE = "error bars hold the error of a random sample of people beside that of noise"
FEWEST = 30
"""[people] For the central limit theorem."""
PARTS = 3
"""Events that a bar with sampling error misses by: the value's noise, that of the number of people, and the sample."""


def of_count(most: Floats, level: Fraction) -> Floats:
    """Half-width around a count that is at most so many."""
    return np.where(most >= FEWEST, _deviations(level) * np.sqrt(np.maximum(most, 1.0)), np.nan)


def of_average(low: Floats, high: Floats, least: Floats, level: Fraction) -> Floats:
    """Half-width around an average, as a share of the distance between the bounds.

    low, high  between these the exact average lies, likewise
    least      [people] no fewer than these are averaged
    """
    middle = np.clip(0.5, low, high)
    spread = np.sqrt(middle * (1 - middle) / np.maximum(least, 1.0))
    return np.where(least >= FEWEST, _deviations(level) * spread, np.nan)


def _deviations(level: Fraction) -> float:
    return NormalDist().inv_cdf(float(1 + level) / 2)
