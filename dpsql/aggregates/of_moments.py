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

from dpsql.aggregates.base import EstimateDefaults, Floats, Noise, ReleasedColumn
from dpsql.aggregates.count import counted
from dpsql.aggregates.formulas import Formula, Seen
from dpsql.aggregates.moments import Moments, Numbers
from dpsql.aggregates.resampling import Resampled
from dpsql.aggregates.sum import column_in_type
from dpsql.core.sqltypes import BIGINT, DOUBLE, SqlType

SHOWN = 3
"""[standard deviations of the noise] What is divided by a variance is NULL unless the variance stands out so far (rule 44)."""
KNOWN = 5
"""[standard deviations of the noise] From here on its interval is worked out; below, it is all that the value can be.

Why  a value that is shown only where the noise happened to raise the variance is off by that noise: among those that are shown the
     interval would fail far more often than 1 in 20. Laplace noise, whose deviation counts as 1.53 scales, is above 5 at most
     e^-3 = 5 % as often as it is above 3, other noise less: wherever the variance truly is, few that are shown are above 5 and wrong
"""


def _exact(cells: Sequence[Sequence[int]]) -> Numbers:
    found = np.empty((len(cells), len(cells[0])), dtype=object)
    for i, column in enumerate(cells):
        found[i, :] = column
    return found


@dataclass(frozen=True, slots=True)
class CountOfMoments(EstimateDefaults):
    """COUNT(x), or COUNT(*) where `all_rows`: the sum of cells over the weight of a row."""

    moments: Moments
    all_rows: bool
    sqltype: SqlType = BIGINT

    def half_width(self, noise: Noise, level: Fraction) -> float:
        used = self.moments.cells if self.all_rows else self.moments.cells - self.moments.with_rows
        return noise.half_width_of_weights((1.0,) * used, level) / self.moments.weight

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        h = self.half_width(noise, level)
        used = cells if self.all_rows or not self.moments.with_rows else cells[:-1]
        return counted(np.array([sum(group) / self.moments.weight for group in zip(*used, strict=True)]), h)


@dataclass(frozen=True, slots=True)
class SumOfMoments(EstimateDefaults):
    """SUM(x) = (L' n + W sum of u) q."""

    moments: Moments
    sqltype: SqlType

    def half_width(self, noise: Noise, level: Fraction) -> float:
        part = self.moments.terms[0]
        degree = self.moments.degrees[0]
        weights = tuple(float(part.lower + Fraction(part.width * i, degree)) for i in range(degree + 1))
        return noise.half_width_of_weights(weights, level) / self.moments.weight * float(part.quantum)

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        part, exact = self.moments.terms[0], _exact(cells)
        n, first = self.moments.rows(exact), self.moments.power(1, 0, exact)
        bottom = self.moments.weight * self.moments.degrees[0]
        tops = part.lower * n * self.moments.degrees[0] + part.width * first
        sums = [(2 * top + bottom) // (2 * bottom) for top in tops]
        return ReleasedColumn(*column_in_type(sums, part.quantum, self.sqltype, self.half_width(noise, level)))


@dataclass(frozen=True, slots=True)
class OfMoments(EstimateDefaults):
    """A number computed of the moments: NULL where the noisy counts do not allow it, else within what it can be.

    swapped   whether the first term is y of an aggregate of (y, x)
    """

    moments: Moments
    formula: Formula
    swapped: bool = False
    sqltype: SqlType = DOUBLE

    depends = True

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    def errors(self, noise: Noise, level: Fraction) -> tuple[float, ...]:
        return (noise.half_width_of_sum(1, level) / self.moments.weight,)

    @property
    def remark(self) -> str:
        return "NULL where the spread does not stand out of its noise" if self.formula.divides else ""

    @property
    def over_rows(self) -> Fraction | None:
        """By how much one quantum of one cell moves the number at most, times the number of rows."""
        if self.formula.powers is None:
            return None
        spreads = [self.moments.terms[place].width * self.moments.terms[place].quantum for place in self._terms]
        moved = math.prod(s**p for s, p in zip(spreads, self.formula.powers, strict=True))
        return Fraction(moved, self.moments.weight)

    @property
    def _step(self) -> float:
        """The grid of the number; what has no unit has none of its own."""
        return float(self.over_rows) if self.over_rows is not None else 2.0**-20

    @property
    def _terms(self) -> tuple[int, ...]:
        """By role, x and then y, the places of the terms."""
        places = tuple(range(len(self.moments.terms)))
        return places[::-1] if self.swapped else places

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        if not cells[0]:
            return ReleasedColumn([], [])
        exact = _exact(cells)
        values = self.values(exact)
        clear = self._clearness(exact, noise)
        shown = ~np.isnan(values) & (clear > SHOWN)
        seen = Seen(self.moments, exact, self._terms)
        least, most = self.formula.within(seen.low(), [seen.width(role) for role in range(len(self._terms))])
        found: list[object] = [v if s else None for v, s in zip(values.tolist(), shown.tolist(), strict=True)]
        known = (clear > KNOWN).tolist()
        return ReleasedColumn(
            found, Resampled(cells, noise, level, self.values, least, most, self._step, shown.tolist(), known)
        )

    def values(self, cells: Numbers) -> Floats:
        """The number for each group, NaN where it is unknown."""
        return np.asarray(self.formula.value(Seen(self.moments, cells, self._terms)), dtype=float)

    def _clearness(self, cells: Numbers, noise: Noise) -> Floats:
        """By how many of the noise's standard deviations the least variance that is divided by is above 0."""
        found = np.full(cells.shape[1], math.inf)
        one = noise.half_width_of_weights((1.0,), Fraction(95, 100)) / 1.96
        m, seen = self.moments, Seen(self.moments, cells, self._terms)
        for role in self.formula.divides:
            term = self._terms[role]
            d = m.degrees[term]
            n = np.asarray(seen.n, dtype=float)
            variance = np.nan_to_num(seen.variance(role))
            mean = np.clip(np.asarray(m.power(1, term, cells), dtype=float) / np.maximum(n, 1.0) / d, 0, 1)
            squares = np.zeros(cells.shape[1])
            for i in range(d + 1):
                squares += (math.comb(i, 2) / math.comb(d, 2) - 2 * mean * i / d + mean**2 - variance) ** 2
            others = math.prod(d + 1 for j, d in enumerate(m.degrees) if j != term)
            found = np.minimum(found, variance * n / (one * np.sqrt(others * squares)))
        return found
