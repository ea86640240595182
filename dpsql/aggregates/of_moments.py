"""The columns that are made of moments: counts, sums, averages, spreads, correlations, regressions. Post-processing of noisy cells.

Values are exact until the last division: cells are Python integers there. What is no sum of cells has its interval by drawing the
noise again (resampling.py), with the same formulas over DOUBLE.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpsql.aggregates.base import Column, Floats, Noise
from dpsql.aggregates.moments import Moments, Numbers
from dpsql.aggregates.resampling import Resampled
from dpsql.aggregates.sum import column_in_type
from dpsql.aggregates.term import Term
from dpsql.core.sqltypes import BIGINT, DOUBLE, SqlType

SHOWN = 3
"""[standard deviations of the noise] What is divided by a variance is NULL unless the variance stands out so far (rule 44)."""
KNOWN = 5
"""[standard deviations of the noise] From here on its interval is worked out; below, it is all that the value can be.

Why  a value that is shown only where the noise happened to raise the variance is off by that noise: among those that are shown the
     interval would fail far more often than 1 in 20. Laplace noise, whose deviation counts as 1.53 scales, is above 5 at most
     e^-3 = 5 % as often as it is above 3, other noise less: wherever the variance truly is, few that are shown are above 5 and wrong
"""


DIVIDED_BY_SPREAD = frozenset({"corr", "regr_r2", "regr_slope", "regr_intercept"})
"""What divides by the variance of a value, or of both."""


def _exact(cells: Sequence[list[int]]) -> Numbers:
    found = np.empty((len(cells), len(cells[0])), dtype=object)
    for i, column in enumerate(cells):
        found[i, :] = column
    return found


def _quotient(top: Numbers, bottom: Numbers, allowed: npt.NDArray[np.bool_]) -> Floats:
    """top / bottom where that is allowed, else NaN: unknown."""
    if top.dtype == object:
        exact = [t / b if ok else math.nan for t, b, ok in zip(top, bottom, allowed, strict=True)]
        return np.array(exact, dtype=float)
    found = np.full(top.shape, math.nan)
    np.divide(top, bottom, out=found, where=allowed)
    return found


@dataclass(frozen=True, slots=True)
class CountOfMoments:
    """COUNT(x), or COUNT(*) where `all_rows`: the sum of cells over the weight of a row."""

    moments: Moments
    all_rows: bool
    sqltype: SqlType = BIGINT

    def half_width(self, noise: Noise, level: Fraction) -> float:
        used = self.moments.cells if self.all_rows else self.moments.cells - self.moments.with_rows
        return noise.half_width_of_weights((1.0,) * used, level) / self.moments.weight

    def column(self, cells: Sequence[list[int]], noise: Noise, level: Fraction) -> Column:
        h = self.half_width(noise, level)
        used = cells if self.all_rows or not self.moments.with_rows else cells[:-1]
        exact = [sum(group) / self.moments.weight for group in zip(*used, strict=True)]
        return Column([round(c) for c in exact], [(c - h, c + h) for c in exact])


@dataclass(frozen=True, slots=True)
class SumOfMoments:
    """SUM(x) = (L' n + W sum of u) q."""

    moments: Moments
    sqltype: SqlType

    def half_width(self, noise: Noise, level: Fraction) -> float:
        part = self.moments.terms[0]
        degree = self.moments.degrees[0]
        weights = tuple(float(part.lower + Fraction(part.width * i, degree)) for i in range(degree + 1))
        return noise.half_width_of_weights(weights, level) / self.moments.weight * float(part.quantum)

    def column(self, cells: Sequence[list[int]], noise: Noise, level: Fraction) -> Column:
        part, exact = self.moments.terms[0], _exact(cells)
        n, first = self.moments.rows(exact), self.moments.first(0, exact)
        bottom = self.moments.weight * self.moments.degrees[0]
        tops = part.lower * n * self.moments.degrees[0] + part.width * first
        sums = [(2 * top + bottom) // (2 * bottom) for top in tops]
        return Column(*column_in_type(sums, part.quantum, self.sqltype, self.half_width(noise, level)))


@dataclass(frozen=True, slots=True)
class OfMoments:
    """A number computed of the moments: NULL where the noisy counts do not allow it, else within what it can be.

    function  "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp", "covar_pop", "covar_samp", "corr", "regr_slope",
              "regr_intercept", "regr_r2"
    swapped   for what is regressed on what: the first term is y where it is true
    """

    moments: Moments
    function: str
    swapped: bool = False
    sqltype: SqlType = DOUBLE

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    @property
    def divides_by_spread(self) -> bool:
        """Whether it is NULL where a variance does not stand out of its noise (rule 44)."""
        return self.function in DIVIDED_BY_SPREAD

    @property
    def cell_unit(self) -> Fraction | None:
        """How much one quantum of one cell moves the number at most, times the number of rows; None where that depends on more.

        Why  for u and v in [0, 1] a mean, a variance and a covariance are sums of cells over n with weights of at most 1, as far as a
             small change of the cells goes
        """
        spreads = [t.width * t.quantum for t in self.moments.terms]
        match self.function:
            case "avg":
                return spreads[0] / self.moments.weight
            case "var_pop" | "var_samp":
                return spreads[0] ** 2 / self.moments.weight
            case "covar_pop" | "covar_samp":
                return spreads[0] * spreads[1] / self.moments.weight
        return None

    def column(self, cells: Sequence[list[int]], noise: Noise, level: Fraction) -> Column:
        if not cells[0]:
            return Column([], [])
        exact = _exact(cells)
        values = self.values(exact)
        clear = self._clearness(exact, noise)
        shown = ~np.isnan(values) & (clear > SHOWN)
        least, most = self._range()
        found: list[object] = [v if s else None for v, s in zip(values.tolist(), shown.tolist(), strict=True)]
        known = (clear > KNOWN).tolist()
        return Column(found, Resampled(cells, noise, level, self.values, least, most, shown.tolist(), known))

    def values(self, cells: Numbers) -> Floats:
        """The number for each group, NaN where it is unknown."""
        m = self.moments
        n = m.rows(cells)
        match self.function:
            case "avg":
                part = m.terms[0]
                share = _quotient(m.first(0, cells), n * m.degrees[0], n >= m.weight)
                return np.asarray(np.clip(share, 0, 1) * _spread(part) + _low(part), dtype=float)
            case "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp":
                found = self._variance(0, cells, 2 if self.function.endswith("samp") else 1) * _spread(m.terms[0]) ** 2
                sampled = self._sampled(found, n)
                return np.asarray(np.sqrt(sampled) if self.function.startswith("stddev") else sampled)
            case "covar_pop" | "covar_samp":
                least = 2 if self.function.endswith("samp") else 1
                return self._sampled(self._covariance(cells, least) * _spread(m.terms[0]) * _spread(m.terms[1]), n)
            case "corr" | "regr_r2":
                found = self._correlation(cells)
                return found**2 if self.function == "regr_r2" else found
            case _:
                return self._line(cells)

    def _variance(self, term: int, cells: Numbers, least: int = 1) -> Floats:
        """Of u, in [0, 1 / 4]."""
        m = self.moments
        n, first, second = m.rows(cells), m.first(term, cells), m.second(term, cells)
        found = _quotient(2 * second * n - first * first, 4 * n * n, n >= least * m.weight)
        return np.asarray(np.clip(found, 0, 0.25), dtype=float)

    def _covariance(self, cells: Numbers, least: int = 1) -> Floats:
        """Of u and v, in [-1 / 4, 1 / 4]."""
        m = self.moments
        n = m.rows(cells)
        top = m.product(cells) * n - m.first(0, cells) * m.first(1, cells)
        found = _quotient(top, m.degrees[0] * m.degrees[1] * n * n, n >= least * m.weight)
        return np.asarray(np.clip(found, -0.25, 0.25), dtype=float)

    def _sampled(self, found: Floats, n: Numbers) -> Floats:
        if not self.function.endswith("samp"):
            return found
        rows = np.asarray(n, dtype=float) / self.moments.weight
        return np.asarray(found * rows / np.maximum(rows - 1, 0.5), dtype=float)

    def _correlation(self, cells: Numbers) -> Floats:
        both = self._variance(0, cells) * self._variance(1, cells)
        root = np.sqrt(both)
        found = np.full(root.shape, math.nan)
        np.divide(self._covariance(cells), root, out=found, where=root > 0)
        return np.asarray(np.clip(found, -1, 1), dtype=float)

    def _line(self, cells: Numbers) -> Floats:
        """Slope or intercept of y on x."""
        m = self.moments
        x, y = (1, 0) if self.swapped else (0, 1)
        variance = self._variance(x, cells)
        slope = np.full(variance.shape, math.nan)
        np.divide(self._covariance(cells), variance, out=slope, where=variance > 0)
        slope = slope * (_spread(m.terms[y]) / _spread(m.terms[x]))
        if self.function == "regr_slope":
            return slope
        n = m.rows(cells)
        means = [
            np.clip(_quotient(m.first(i, cells), n * m.degrees[i], n >= m.weight), 0, 1) * _spread(m.terms[i])
            + _low(m.terms[i])
            for i in (x, y)
        ]
        return np.asarray(means[1] - slope * means[0], dtype=float)

    def _clearness(self, cells: Numbers, noise: Noise) -> Floats:
        """By how many of the noise's standard deviations the least variance that is divided by is above 0."""
        divided = {"corr": (0, 1), "regr_r2": (0, 1), "regr_slope": (self._x,), "regr_intercept": (self._x,)}
        found = np.full(cells.shape[1], math.inf)
        one = noise.half_width_of_weights((1.0,), Fraction(95, 100)) / 1.96
        m = self.moments
        for term in divided.get(self.function, ()):
            n = np.asarray(m.rows(cells), dtype=float)
            variance = np.nan_to_num(self._variance(term, cells))
            mean = np.clip(np.asarray(m.first(term, cells), dtype=float) / np.maximum(n, 1.0) / 2, 0, 1)
            squares = np.zeros(cells.shape[1])
            for i in range(3):
                squares += (i * (i - 1) / 2 - mean * i + mean**2 - variance) ** 2
            others = math.prod(d + 1 for j, d in enumerate(m.degrees) if j != term)
            found = np.minimum(found, variance * n / (one * np.sqrt(others * squares)))
        return found

    @property
    def _x(self) -> int:
        return 1 if self.swapped else 0

    def _range(self) -> tuple[float, float]:
        spreads = [_spread(t) for t in self.moments.terms]
        match self.function:
            case "avg":
                low = _low(self.moments.terms[0])
                return low, low + spreads[0]
            case "corr":
                return -1.0, 1.0
            case "regr_r2":
                return 0.0, 1.0
            case "var_pop":
                return 0.0, spreads[0] ** 2 / 4
            case "stddev_pop":
                return 0.0, spreads[0] / 2
            case "var_samp" | "stddev_samp":
                return 0.0, math.inf
            case "covar_pop":
                return -spreads[0] * spreads[1] / 4, spreads[0] * spreads[1] / 4
            case _:
                return -math.inf, math.inf


def _spread(term: Term) -> float:
    return float(term.width * term.quantum)


def _low(term: Term) -> float:
    return float(term.lower * term.quantum)
