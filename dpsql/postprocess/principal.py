"""Principal components and correlations, made of released second moments alone.

The released matrix M is of x less a centre, the intercept i among its columns: its first entry is n i^2, the rest of its first row i
times the sums. So the covariance is M / n less what the sums say of the mean, whatever the centre was, and a row that was clipped
counts less in all of it alike. Components are the eigenvectors of the covariance, as numpy finds them, the largest eigenvalue first;
of an eigenvector and its negative the one is taken whose longest entry is above 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from math import sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
"""Of the interval of one correlation."""
TRUNCATED = 2.0**-20
"""The most that a row loses of an entry, which is summed in whole numbers."""


@dataclass(frozen=True, slots=True)
class NoisyMoments:
    """The released second moments of the columns of a pca.

    triangle   upper triangle over the intercept and the columns
    intercept  i
    sigma      deviation of the noise of each entry
    """

    triangle: tuple[float, ...]
    intercept: float
    sigma: float

    @property
    def size(self) -> int:
        """Of the matrix, with the intercept."""
        return round((sqrt(8 * len(self.triangle) + 1) - 1) / 2)

    @property
    def matrix(self) -> Floats:
        upper = np.zeros((self.size, self.size))
        upper[np.triu_indices(self.size)] = self.triangle
        return upper + np.triu(upper, 1).T

    @property
    def rows(self) -> float:
        """n; at least 1, so that a matrix of noise alone has a covariance."""
        return max(self.triangle[0] / self.intercept**2, 1.0)

    @property
    def covariance(self) -> Floats:
        found, rows = self.matrix, self.rows
        mean = found[0, 1:] / (self.intercept * rows)
        return found[1:, 1:] / rows - np.outer(mean, mean)


@dataclass(frozen=True, slots=True)
class Component:
    """One principal component.

    eigenvalue  variance along it; 0 where noise has made it less
    share       of all variance
    so_far      share of it and of those before it
    entries     of the columns, together of length 1
    """

    eigenvalue: float
    share: float
    so_far: float
    entries: tuple[float, ...]


def components(moments: NoisyMoments) -> list[Component]:
    """As many as there are columns, the largest eigenvalue first."""
    values, vectors = np.linalg.eigh(moments.covariance)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    total = float(values.sum()) or 1.0
    so_far = np.cumsum(values) / total
    found = []
    for i, value in enumerate(values):
        entries = vectors[:, i]
        sign = 1.0 if entries[np.argmax(np.abs(entries))] > 0 else -1.0
        found.append(Component(float(value), float(value) / total, float(so_far[i]), tuple(map(float, sign * entries))))
    return found


def noise_alone(moments: NoisyMoments) -> float:
    """About the largest eigenvalue that the noise alone would show: twice its deviation times the root of the size (Wigner)."""
    return 2 * moments.sigma / moments.rows * sqrt(moments.size - 1)


@dataclass(frozen=True, slots=True)
class Correlation:
    """Of two columns, and its interval; no number where one of them varies by no more than its noise, and then anything may be."""

    first: int
    second: int
    value: float | None
    low: float
    high: float


def correlations(moments: NoisyMoments) -> Iterator[Correlation]:
    """Of each pair of columns, the first before the second.

    Its interval is made of those of the six entries that it is made of, which hold jointly: their noise has six chances to miss. The
    error of what a clip takes is not in it.
    """
    covariance, error = moments.covariance, _error(moments)
    for i, j in combinations(range(moments.size - 1), 2):
        variances = [_covered(moments, k, k, error) for k in (i, j)]
        if min(low for low, _ in variances) <= 0:
            yield Correlation(i, j, None, -1.0, 1.0)
            continue
        (low_i, high_i), (low_j, high_j) = variances
        numerator = _covered(moments, i, j, error)
        roots = (sqrt(low_i * low_j), sqrt(high_i * high_j))
        ends = [end / root for end, root in product(numerator, roots)]
        value = covariance[i, j] / sqrt(covariance[i, i] * covariance[j, j])
        yield Correlation(i, j, *(float(np.clip(one, -1, 1)) for one in (value, min(ends), max(ends))))


def _error(moments: NoisyMoments) -> float:
    """The most that an entry errs, of six that hold jointly."""
    deviations = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 12)
    return deviations * moments.sigma + moments.rows * TRUNCATED


def _covered(moments: NoisyMoments, i: int, j: int, error: float) -> tuple[float, float]:
    """The least and the most that the covariance of two columns may be, times n; as wide as can be where n may be 0."""
    found = moments.matrix
    rows = (found[0, 0] - error, found[0, 0] + error)
    if rows[0] <= 0:
        return -np.inf, np.inf
    sums = [(found[0, k + 1] - error, found[0, k + 1] + error) for k in (i, j)]
    of_means = [a * b / n for a, b, n in product(*sums, rows)]
    entry = found[i + 1, j + 1]
    return entry - error - max(of_means), entry + error - min(of_means)
