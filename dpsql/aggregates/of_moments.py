"""The columns that are made of moments: counts, sums, averages, spreads, correlations, regressions. Post-processing of noisy cells.

Values are exact until the last division: cells are Python integers there. What is no sum of cells has its interval by drawing the
noise again (resampling.py), with the same formulas over DOUBLE.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from dpsql.aggregates.base import EstimateDefaults, Floats, Noise, ReleasedColumn
from dpsql.aggregates.count import counted
from dpsql.aggregates.forms import Form
from dpsql.aggregates.formulas import Formula, Seen, widths
from dpsql.aggregates.moments import Moments, Numbers, Places, Weights
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
    """COUNT(x) of the term at a place, or COUNT(*) where that is None: the sum of cells over the weight of a row."""

    moments: Moments
    place: int | None
    sqltype: SqlType = BIGINT

    def _weights(self) -> Weights:
        return np.ones(self.moments.cells, dtype=int) if self.place is None else self.moments.rows((self.place,))

    def half_width(self, noise: Noise, level: Fraction) -> float:
        return noise.half_width_of_weights((1.0,) * int(self._weights().sum()), level) / self.moments.weight

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        rows = self._weights() @ _exact(cells)
        return counted(np.array([n / self.moments.weight for n in rows]), self.half_width(noise, level))


@dataclass(frozen=True, slots=True)
class SumOfMoments(EstimateDefaults):
    """SUM(x) = (L' n + W sum of u) q."""

    moments: Moments
    place: int
    sqltype: SqlType

    def half_width(self, noise: Noise, level: Fraction) -> float:
        part, of = self.moments.terms[self.place], (self.place,)
        first = self.moments.power(1, self.place, of) * (part.width / self.moments.degrees[self.place])
        weights = self.moments.rows(of) * float(part.lower) + first
        return noise.half_width_of_weights(tuple(weights.tolist()), level) / self.moments.weight * float(part.quantum)

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        part, exact, of = self.moments.terms[self.place], _exact(cells), (self.place,)
        n, first = self.moments.rows(of) @ exact, self.moments.power(1, self.place, of) @ exact
        bottom = self.moments.weight * self.moments.degrees[self.place]
        tops = part.lower * n * self.moments.degrees[self.place] + part.width * first
        sums = [(2 * top + bottom) // (2 * bottom) for top in tops]
        return ReleasedColumn(*column_in_type(sums, part.quantum, self.sqltype, self.half_width(noise, level)))


@dataclass(frozen=True, slots=True)
class OfMoments(EstimateDefaults):
    """A number computed of the moments: NULL where the noisy counts do not allow it, else within what it can be.

    terms  the places of x, and of y of an aggregate of (y, x)
    forms  the cells of the moments as sums of the cells that are released; (): they are these
    """

    moments: Moments
    formula: Formula
    terms: Places = (0,)
    sqltype: SqlType = DOUBLE
    forms: tuple[Form, ...] = ()

    depends = True

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    def errors(self, noise: Noise, level: Fraction) -> tuple[float, ...]:
        one = noise.half_width_of_sum(1, level) / self.moments.weight
        return tuple(one * float(np.linalg.norm(weights @ self._made_of())) for weights in self._compared())

    def _made_of(self) -> Floats:
        """The weights of the cells that each cell of the moments is made of, one row each."""
        return np.array([form.weights for form in self.forms]) if self.forms else np.eye(self.moments.cells)

    def _read(self, cells: Numbers) -> Numbers:
        """The cells of the moments."""
        return self._made_of() @ cells.astype(float) if self.forms else cells

    def _compared(self) -> Iterator[Floats]:
        """Weights of the cells in what each is off by: an average near its bounds and the middle, in its own unit; else the variances
        and covariances of u and v, where they are in the middle or halfway to either bound and spread by a quarter of their bounds."""
        m, of = self.moments, self.terms
        rows = m.rows(of).astype(float)
        firsts = {place: m.power(1, place, of) / m.degrees[place] for place in of}
        if self.formula.powers == (1,):
            yield from (widths(m)[of[0]] * (firsts[of[0]] - mean * rows) for mean in (0.0, 0.5, 1.0))
            return
        for mean in (0.25, 0.5, 0.75):
            for place in of:
                if m.degrees[place] > 1:
                    second = m.power(2, place, of) / math.comb(m.degrees[place], 2)
                    yield second - 2 * mean * firsts[place] + (mean**2 - 1 / 16) * rows
            if len(of) == 2:
                x, y = of
                yield m.product(of) / math.prod(m.degrees) - mean * firsts[y] - firsts[x] / 2 + mean / 2 * rows

    @property
    def remark(self) -> str:
        return "NULL where the spread does not stand out of its noise" if self.formula.divides else ""

    @property
    def over_rows(self) -> Fraction | None:
        """By how much one quantum of one cell moves the number at most, times the number of rows."""
        if self.formula.powers is None:
            return None
        spreads = [self.moments.terms[place].width * self.moments.terms[place].quantum for place in self.terms]
        moved = math.prod(s**p for s, p in zip(spreads, self.formula.powers, strict=True))
        # of one of two values as many cells are added up, each with noise of its own
        m = self.moments
        alike = m.rows(self.terms).sum() // math.prod(m.degrees[place] + 1 for place in self.terms)
        most = Fraction(math.sqrt(alike))
        if self.forms:
            # weights of at most 1 each, of whatever signs
            most = Fraction(max(float(np.linalg.norm(s @ self._made_of())) for s in product((-1, 1), repeat=m.cells)))
        return Fraction(moved, m.weight) * most

    @property
    def _step(self) -> float:
        """The grid of the number; what has no unit has none of its own."""
        return float(self.over_rows) if self.over_rows is not None else 2.0**-20

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        if not cells[0]:
            return ReleasedColumn([], [])
        exact = _exact(cells)
        values = self.values(exact)
        seen = Seen(self.moments, self._read(exact), self.terms)
        clear = self._clearness(seen, noise)
        shown = ~np.isnan(values) & (clear > SHOWN)
        least, most = self.formula.within(seen.low(), [seen.width(role) for role in range(len(self.terms))])
        found: list[object] = [v if s else None for v, s in zip(values.tolist(), shown.tolist(), strict=True)]
        known = (clear > KNOWN).tolist()
        return ReleasedColumn(
            found, Resampled(cells, noise, level, self.values, least, most, self._step, shown.tolist(), known)
        )

    def values(self, cells: Numbers) -> Floats:
        """The number for each group, NaN where it is unknown."""
        return np.asarray(self.formula.value(Seen(self.moments, self._read(cells), self.terms)), dtype=float)

    def _clearness(self, seen: Seen, noise: Noise) -> Floats:
        """By how many of the noise's standard deviations the least variance that is divided by is above 0."""
        m, cells = self.moments, seen.cells
        found = np.full(cells.shape[1], math.inf)
        one = noise.half_width_of_weights((1.0,), Fraction(95, 100)) / 1.96
        rows = m.rows(self.terms)
        for role in self.formula.divides:
            place = self.terms[role]
            first = m.power(1, place, self.terms) / m.degrees[place]
            second = m.power(2, place, self.terms) / math.comb(m.degrees[place], 2)
            n, variance = np.asarray(seen.n, dtype=float), np.nan_to_num(seen.variance(role))
            mean = np.clip(np.asarray(first @ cells, dtype=float) / np.maximum(n, 1.0), 0, 1)
            off = second[:, None] - 2 * first[:, None] * mean + rows[:, None] * (mean**2 - variance)
            found = np.minimum(found, variance * n / (one * np.linalg.norm(self._made_of().T @ off, axis=0)))
        return found
