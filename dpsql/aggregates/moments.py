"""VAR, STDDEV, COVAR, CORR, REGR: all the moments of one or two values, as one vector.

With p = x' - L' and q = U' - x' for the clamped integer x', every row has p + q = W, so

    (p + q)^2 = p^2 + 2 p q + q^2 = W^2

and the three addends are cells that a row moves by exactly W^2 together, none of them negative: the Bernstein polynomials of degree 2.
For two values the cells are the products of both values' polynomials, W_x^dx W_y^dy together. Sums of those cells hold every moment
up to the degrees: with i of the cell (p^i q^(d-i)) and u = p / W,

    N = sum of cells     sum u = sum of i / d cells     sum u^2 = sum of i (i - 1) / (d (d - 1)) cells

so COUNT, SUM, AVG and VAR of one value are one release at one price, and so are CORR and what it is made of. If COUNT(*) over the
same rows is asked too, one more cell gets W^d for each row without a value; a row is in that cell or in the others.

A unit with m rows in a group that is cut to m_c of them has every cell scaled by m_c / m and rounded down: no cell is negative, so
together they stay at or below W^d m_c.

Source: Kulesza, Suresh, Wang 2024 (arXiv 2312.06658) for degree 1; Harini, Tandon 2026 (arXiv 2604.11820) for regression; the rows
without a value and the scaling are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsql.aggregates.base import Column, Floats, Limits, Noise, Sensitivity, UnitSums, sensitivity_of_rows
from dpsql.aggregates.count import counting
from dpsql.aggregates.resampling import Resampled
from dpsql.aggregates.sum import column_in_type, filtered
from dpsql.aggregates.term import Term
from dpsql.algebra.scalar import Scalar
from dpsql.sqltypes import BIGINT, DOUBLE, SqlType

Numbers = npt.NDArray[Any]
"""Cells, one row each: Python integers, for values that are exact until the last division, or DOUBLE."""

FINEST_GRID = 40
"""[bits] W^d <= 2^40, so that a cell of one row, times 2 for each value, fits BIGINT."""


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


def widest(degree: int) -> int:
    """The most quanta between the bounds of each value, where `degree` is that of all values together."""
    return int(2 ** (FINEST_GRID // degree))


@dataclass(frozen=True, slots=True)
class Moments:
    """The Bernstein cells of one or two terms up to a degree each, over the rows for which `counted` is true.

    terms      one or two
    degrees    of each term, 1 or 2
    with_rows  whether a last cell counts the rows without a value
    """

    terms: tuple[Term, ...]
    degrees: tuple[int, ...]
    counted: Scalar | None
    with_rows: bool = False

    @property
    def identity(self) -> str:
        kind = "moments with rows" if self.with_rows else "moments"
        parts = [f"{t.identity} ^ {d}" for t, d in zip(self.terms, self.degrees, strict=True)]
        return f"{kind}({'; '.join(parts)}; {self.counted.sql if self.counted else ''})"

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        values = tuple(t.scalar for t in self.terms)
        return values if self.counted is None else (*values, self.counted)

    def steps(self, names: Sequence[str]) -> tuple[str, ...]:
        """The values in quanta."""
        return tuple(part.quanta_sql(name) for part, name in zip(self.terms, names, strict=False))

    @property
    def weight(self) -> int:
        """How much one row moves all cells together [quanta]."""
        return math.prod(t.width**d for t, d in zip(self.terms, self.degrees, strict=True))

    @property
    def cells(self) -> int:
        return math.prod(d + 1 for d in self.degrees) + self.with_rows

    @property
    def sums(self) -> int:
        return self.cells

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return sensitivity_of_rows(limits, weight=self.weight, cells=self.cells)

    def row_sums(self, names: Sequence[str]) -> tuple[str, ...]:
        where = filtered(self._condition(names))
        found = [f"sum({product}){where}" for product in self._products(names)]
        return (
            (*found, f"CAST({self.weight} AS HUGEINT) * {self._without_value(names)}")
            if self.with_rows
            else tuple(found)
        )

    def unit_sums(self, names: Sequence[str]) -> UnitSums:
        where = filtered(self._condition(names))
        products = self._products(names)
        inner = [(f"b{i}_", f"COALESCE(sum({product}){where}, 0)") for i, product in enumerate(products)]
        rows = f"count({products[0]}){where}"
        if self.with_rows:
            inner.append((f"b{len(products)}_", f"CAST({self.weight} AS HUGEINT) * {self._without_value(names)}"))
            rows = counting(next(iter(self._condition(names)), None))
        scaled = "CASE WHEN {{cut}} = {{rows}} THEN {{{n}}} ELSE ({{{n}}} * {{cut}}) // GREATEST({{rows}}, 1) END"
        return UnitSums(rows, tuple(inner), tuple(scaled.format(n=n) for n, _ in inner))

    def to_cells(self, sums: Sequence[list[int]]) -> tuple[list[int], ...]:
        return tuple(sums)

    def _condition(self, names: Sequence[str]) -> Sequence[str]:
        return names[len(self.terms) : len(self.inputs)]

    def _products(self, names: Sequence[str]) -> list[str]:
        """SQL of each cell for one row: NULL where any value is."""
        found = [""]
        for part, degree, x in zip(self.terms, self.degrees, names[len(self.inputs) :], strict=True):
            p, q = f"({x} - {part.lower})" if part.lower else x, f"({part.upper} - {x})"
            powers = [
                [*[p] * i, *[q] * (degree - i), *([str(math.comb(degree, i))] if 0 < i < degree else [])]
                for i in range(degree + 1)
            ]
            found = [" * ".join(filter(None, [before, *own])) for before in found for own in powers]
        return found

    def _without_value(self, names: Sequence[str]) -> str:
        """How many of the counted rows lack a value."""
        missing = " OR ".join(f"{x} IS NULL" for x in names[len(self.inputs) :])
        more = "".join(f" AND {name}" for name in self._condition(names))
        return f"count(*) FILTER (WHERE ({missing}){more})"

    # --- what the cells say -------------------------------------------------------------------------------------------

    def rows(self, cells: Numbers) -> Numbers:
        """N: the number of rows with all values, times `weight`."""
        found: Numbers = self._of_values(cells).sum(axis=0)
        return found

    def first(self, term: int, cells: Numbers) -> Numbers:
        """d * sum of u, times `weight`."""
        return self._weighted(cells, list(range(self.degrees[term] + 1)), term)

    def second(self, term: int, cells: Numbers) -> Numbers:
        """d (d - 1) * sum of u^2, times `weight`; for a term of degree 2."""
        return self._weighted(cells, [0, 0, 2], term)

    def product(self, cells: Numbers) -> Numbers:
        """d_x d_y * sum of u v, times `weight`; of two terms."""
        dx, dy = self.degrees
        weights = np.array([i * j for i in range(dx + 1) for j in range(dy + 1)])
        found: Numbers = weights @ self._of_values(cells)
        return found

    def _of_values(self, cells: Numbers) -> Numbers:
        return cells[:-1] if self.with_rows else cells

    def _weighted(self, cells: Numbers, weights: list[int], term: int) -> Numbers:
        after = math.prod(d + 1 for d in self.degrees[term + 1 :])
        before = math.prod(d + 1 for d in self.degrees[:term])
        all_weights = np.array([w for _ in range(before) for w in weights for _ in range(after)])
        found: Numbers = all_weights @ self._of_values(cells)
        return found


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
