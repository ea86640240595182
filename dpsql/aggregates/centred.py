"""Centred sums, which a cube is made of: SUM and AVG of what is read off it, with the number of rows that has noise of its own.

With v' the clamped integer in [L', U'] and W = U' - L', a group's cells are t = sum(2 v' - L' - U') over the rows with a value,
and u, the number of rows without one. A row adds at most W to t, or 1 to u: never to both. With n the number of rows with a value

    SUM(x) = ((L' + U') n + t) / 2 q      AVG(x) = SUM(x) / n

t and n were released with independent Gaussian noise, so the interval of their quotient is Fieller's, in closed form.
Source: Fieller 1954, Some Problems in Interval Estimation.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.base import (
    EstimateDefaults,
    Floats,
    Limits,
    Noise,
    ReleasedColumn,
    Sensitivity,
    StatisticDefaults,
    UnitSums,
    sensitivity_of_rows,
)
from dpsql.aggregates.ends import ConfidenceBounds
from dpsql.aggregates.sum import column_in_type
from dpsql.aggregates.telling import Say, clamped
from dpsql.aggregates.term import Term
from dpsql.core.columns import combined, whole
from dpsql.core.sqltypes import DOUBLE, SqlType
from dpsql.expressions.scalar import Scalar
from dpsql.sql.nodes import Node


@dataclass(frozen=True, slots=True)
class Centred(StatisticDefaults):
    """The cells (t, u) of a term.

    Why  they are A - B and N / W of a pair with the number of rows (avg.py): of a unit with m rows that is cut to m_c of them,
         A + B + N = W m_c with A, B, N >= 0, so |t| / W + u <= m_c
    """

    term: Term

    @property
    def _pair(self) -> Pair:
        return Pair(self.term, None, with_rows=True)

    @property
    def identity(self) -> Hashable:
        return "centred", self.term.identity

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return self._pair.inputs

    @property
    def cells(self) -> int:
        return 2

    @property
    def sums(self) -> int:
        return self._pair.sums

    @property
    def weights(self) -> tuple[int, int]:
        """The most that a row adds to t, and to u."""
        return self.term.width, 1

    def sensitivity(self, limits: Limits) -> Sensitivity:
        """Of (t, W u)."""
        return sensitivity_of_rows(limits, weight=self.term.width, cells=self.cells)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        return self._pair.row_sums(names)

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        return self._pair.unit_sums(names)

    def to_cells(self, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        n, total, rows = sums
        return combined((2, total), (-self.term.lower - self.term.upper, n)), combined((1, rows), (-1, n))

    def adds_up(self, one_row: bool) -> bool:
        return True

    def expected(self, units: Fraction, rows: Fraction) -> Fraction:
        return rows * self.term.width

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.term,)

    def without_clamp(self) -> Centred:
        return replace(self, term=self.term.without_clamp())

    def told(self, say: Say) -> str:
        return f"sum of {clamped(self.term, say)} around the middle, and number of rows without a value"


@dataclass(frozen=True, slots=True)
class SumOfCentred(EstimateDefaults):
    """SUM(x) of the cells (t, n)."""

    term: Term
    sqltype: SqlType

    def half_width(self, noise: Noise, level: Fraction) -> float:
        of_t, of_n = _apart(noise, level)
        middle = abs(self.term.lower + self.term.upper)
        return float(np.hypot(of_t, middle * of_n)) / 2 * float(self.term.quantum)

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        doubled = whole(combined((1, cells[0]), (self.term.lower + self.term.upper, cells[1])))
        h = self.half_width(noise, level)
        return ReleasedColumn(*column_in_type((doubled // 2).tolist(), self.term.quantum, self.sqltype, h))


@dataclass(frozen=True, slots=True)
class AvgOfCentred(EstimateDefaults):
    """AVG(x) within the bounds, of the cells (t, n); NULL where the noisy count is below 1."""

    term: Term
    sqltype: SqlType = DOUBLE

    depends = True

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    @property
    def over_rows(self) -> Fraction:
        return self.term.quantum / 2

    def errors(self, noise: Noise, level: Fraction) -> tuple[float, ...]:
        of_t, of_n = _apart(noise, level)
        width, half = float(self.term.width), float(self.term.quantum) / 2
        return tuple(float(np.hypot(of_t, ratio * of_n)) * half for ratio in (-width, 0.0, width))

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        quantum, width = float(self.term.quantum), float(self.term.width)
        middle = float(self.term.lower + self.term.upper) / 2
        t, n = (np.array(cell, dtype=float) for cell in cells)
        shown = n >= 1
        value = np.clip(t / np.where(shown, n, 1.0), -width, width)
        low, high = fieller(t, n, *_apart(noise, level), width)
        found = [(middle + end / 2) * quantum for end in (value, np.fmin(low, value), np.fmax(high, value))]
        values: list[object] = [
            v if known else None for v, known in zip(found[0].tolist(), shown.tolist(), strict=True)
        ]
        ends = ConfidenceBounds(*(np.where(shown, end, np.nan) for end in found[1:]))
        least, most = self.term.lower * quantum, self.term.upper * quantum
        return ReleasedColumn(values, ends.within(least, most, quantum))


def fieller(t: Floats, n: Floats, of_t: float, of_n: float, most: float) -> tuple[Floats, Floats]:
    """The first and the last r in [-most, most] with (t - r n)^2 <= of_t^2 + r^2 of_n^2.

    Why  it is (n^2 - of_n^2) r^2 - 2 t n r + t^2 - of_t^2 <= 0: between two roots where n is beyond its own half-width; elsewhere any
         r far enough out may be the quotient, and the whole range is given
    """
    square = n * n - of_n * of_n
    known = (n > of_n) & (square > 0)
    bottom = np.where(known, square, 1.0)
    root = np.sqrt(np.where(known, of_t**2 * square + (t * of_n) ** 2, 0.0))
    low, high = (np.where(known, np.clip((t * n + side * root) / bottom, -most, most), side * most) for side in (-1, 1))
    return low, high


def _apart(noise: Noise, level: Fraction) -> tuple[float, float]:
    """The half-widths of t and n alone."""
    return noise.half_width_of_weights((1.0, 0.0), level), noise.half_width_of_weights((0.0, 1.0), level)
