"""Formulas over moments: one each, over the noisy cells of every group at once.

For u = (x - L) / (U - L) in [0, 1] the cells hold N and every sum of u^k up to their degree (moments.py). Variances and covariances of
u are within 1 / 4; a result goes back to the values by their width. Cells are Python integers, so that everything is exact until the
last division, or DOUBLE, where the noise is drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.aggregates.base import Floats
from dpsql.aggregates.moments import Moments, Numbers

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Seen:
    """The cells of all groups, by the roles of the values: 0 is x, 1 is y of an aggregate of (y, x).

    terms  by role the place of the value among the moments' terms: the rows are those in which all of these are there
    """

    moments: Moments
    cells: Numbers
    terms: tuple[int, ...]

    @property
    def n(self) -> Numbers:
        """The number of rows, times the weight of one."""
        found: Numbers = self.moments.rows(self.terms) @ self.cells
        return found

    def total(self, k: int, role: int = 0) -> Numbers:
        """C(d, k) times the sum of u^k, times the weight of a row."""
        found: Numbers = self.moments.power(k, self.terms[role], self.terms) @ self.cells
        return found

    def count(self) -> Floats:
        return np.asarray(np.asarray(self.n, dtype=float) / self.moments.weight, dtype=float)

    def width(self, role: int = 0) -> float:
        return widths(self.moments)[self.terms[role]]

    def low(self, role: int = 0) -> float:
        part = self.moments.terms[self.terms[role]]
        return float(part.lower * part.quantum)

    def power(self, k: int, role: int = 0, least: int = 1) -> Floats:
        """The mean of u^k, in [0, 1]; NaN where there are fewer than `least` rows."""
        m, term = self.moments, self.terms[role]
        n = self.n
        share = _quotient(self.total(k, role), n * math.comb(m.degrees[term], k), n >= least * m.weight)
        return np.asarray(np.clip(share, 0, 1), dtype=float)

    def mean(self, role: int = 0) -> Floats:
        """Of x itself."""
        return np.asarray(self.power(1, role) * self.width(role) + self.low(role), dtype=float)

    def variance(self, role: int = 0, least: int = 1) -> Floats:
        """Of u, in [0, 1 / 4]."""
        m, term = self.moments, self.terms[role]
        d, n = m.degrees[term], self.n
        first, second, pairs = self.total(1, role), self.total(2, role), math.comb(d, 2)
        top = d * d * second * n - pairs * first * first
        found = _quotient(top, pairs * d * d * n * n, n >= least * m.weight)
        return np.asarray(np.clip(found, 0, 0.25), dtype=float)

    def covariance(self, least: int = 1) -> Floats:
        """Of u and v, in [-1 / 4, 1 / 4]."""
        m, n = self.moments, self.n
        top = (m.product(self.terms) @ self.cells) * n - self.total(1, 0) * self.total(1, 1)
        found = _quotient(top, m.degrees[0] * m.degrees[1] * n * n, n >= least * m.weight)
        return np.asarray(np.clip(found, -0.25, 0.25), dtype=float)

    def central(self, k: int, least: int) -> Floats:
        """The mean of (u - mean)^k, k = 3 or 4; sums of products whose difference is exact before the only division."""
        m, term = self.moments, self.terms[0]
        d, n = m.degrees[term], self.n
        first = self.total(1)
        # of sum_i C(k, i) (-mean)^(k - i) E[u^i], where E[u^i] is a power over C(d, i) n: over one common denominator
        common = math.prod(math.comb(d, i) for i in range(2, k + 1)) * d**k
        top = (-first) ** k * (common // d**k)
        for i in range(1, k + 1):
            of_all = common // (math.comb(d, i) * d ** (k - i))
            top = top + math.comb(k, i) * of_all * (-first) ** (k - i) * self.total(i) * n ** (i - 1)
        return _quotient(top, common * n**k, n >= least * m.weight)


def _quotient(top: Numbers, bottom: Numbers, allowed: npt.NDArray[np.bool_]) -> Floats:
    """top / bottom where that is allowed, else NaN: unknown."""
    if top.dtype == object:
        exact = [t / b if ok else math.nan for t, b, ok in zip(top, bottom, allowed, strict=True)]
        return np.array(exact, dtype=float)
    found = np.full(top.shape, math.nan)
    np.divide(top, bottom, out=found, where=allowed)
    return found


def _divided(top: Floats, bottom: Floats) -> Floats:
    found = np.full(bottom.shape, math.nan)
    np.divide(top, bottom, out=found, where=bottom > 0)
    return found


def widths(moments: Moments) -> list[float]:
    """U - L of each term."""
    return [float(t.width * t.quantum) for t in moments.terms]


@dataclass(frozen=True, slots=True)
class Formula:
    """A number computed of moments.

    name    of the aggregate
    value   for each group, NaN where it is unknown
    within  all that it can be, by the least value of x and the widths of x and y
    powers  of the widths of x and y, for what a change of one cell by one quantum can move it, times the number of rows; None where
            that depends on more. Why: for u and v in [0, 1] a mean, a variance and a covariance are sums of cells over n with weights
            of at most 1, as far as a small change of the cells goes
    divides  the roles of the values by whose variance it divides (rule 44)
    """

    name: str
    value: Callable[[Seen], Floats]
    within: Callable[[float, list[float]], Ends]
    powers: tuple[int, ...] | None = None
    divides: tuple[int, ...] = ()


def _sampled(found: Floats, seen: Seen) -> Floats:
    """Over n - 1 in place of n."""
    rows = seen.count()
    return np.asarray(found * rows / np.maximum(rows - 1, 0.5), dtype=float)


def _variance(seen: Seen) -> Floats:
    return np.asarray(seen.variance() * seen.width() ** 2, dtype=float)


def _variance_of_sample(seen: Seen) -> Floats:
    return _sampled(np.asarray(seen.variance(least=2) * seen.width() ** 2, dtype=float), seen)


def _covariance(seen: Seen, least: int = 1) -> Floats:
    return np.asarray(seen.covariance(least) * seen.width(0) * seen.width(1), dtype=float)


def _correlation(seen: Seen) -> Floats:
    root = np.sqrt(seen.variance(0) * seen.variance(1))
    return np.asarray(np.clip(_divided(seen.covariance(), root), -1, 1), dtype=float)


def _slope(seen: Seen) -> Floats:
    """Of y on x."""
    return np.asarray(_divided(seen.covariance(), seen.variance(0)) * (seen.width(1) / seen.width(0)), dtype=float)


def _intercept(seen: Seen) -> Floats:
    return np.asarray(seen.mean(1) - _slope(seen) * seen.mean(0), dtype=float)


def _skewness(seen: Seen) -> Floats:
    """Of a sample: the third central moment over the deviation cubed, times sqrt(n (n - 1)) / (n - 2)."""
    rows = seen.count()
    corrected = np.sqrt(np.maximum(rows * (rows - 1), 0)) / np.maximum(rows - 2, 0.5)
    return np.asarray(_divided(seen.central(3, least=3), seen.variance() ** 1.5) * corrected, dtype=float)


def _kurtosis_of_all(seen: Seen, least: int = 1) -> Floats:
    """The fourth central moment over the variance squared, less 3; it is at least -2."""
    return np.asarray(np.maximum(_divided(seen.central(4, least), seen.variance() ** 2), 1) - 3, dtype=float)


def _kurtosis(seen: Seen) -> Floats:
    """The same of a sample."""
    rows = seen.count()
    fourth = _kurtosis_of_all(seen, least=4) + 3
    below = np.maximum((rows - 2) * (rows - 3), 0.5)
    return np.asarray((rows - 1) * ((rows + 1) * fourth - 3 * (rows - 1)) / below, dtype=float)


def _positive(_: float, __: list[float]) -> Ends:
    return 0.0, math.inf


def _any(_: float, __: list[float]) -> Ends:
    return -math.inf, math.inf


FORMULAS = (
    Formula("avg", lambda seen: seen.mean(), lambda low, w: (low, low + w[0]), (1,)),
    Formula("var_pop", _variance, lambda _, w: (0.0, w[0] ** 2 / 4), (2,)),
    Formula("var_samp", _variance_of_sample, _positive, (2,)),
    Formula("stddev_pop", lambda seen: np.sqrt(_variance(seen)), lambda _, w: (0.0, w[0] / 2)),
    Formula("stddev_samp", lambda seen: np.sqrt(_variance_of_sample(seen)), _positive),
    Formula("skewness", _skewness, _any, divides=(0,)),
    Formula("kurtosis", _kurtosis, _any, divides=(0,)),
    Formula("kurtosis_pop", _kurtosis_of_all, lambda _, __: (-2.0, math.inf), divides=(0,)),
    Formula("covar_pop", _covariance, lambda _, w: (-w[0] * w[1] / 4, w[0] * w[1] / 4), (1, 1)),
    Formula("covar_samp", lambda seen: _sampled(_covariance(seen, 2), seen), _any, (1, 1)),
    Formula("corr", _correlation, lambda _, __: (-1.0, 1.0), divides=(0, 1)),
    Formula("regr_r2", lambda seen: _correlation(seen) ** 2, lambda _, __: (0.0, 1.0), divides=(0, 1)),
    Formula("regr_slope", _slope, _any, divides=(0,)),
    Formula("regr_intercept", _intercept, _any, divides=(0,)),
)
BY_NAME = {formula.name: formula for formula in FORMULAS}
