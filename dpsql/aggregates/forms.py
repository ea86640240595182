"""Weighted sums of the cells of one vector, and the columns that are made of them: COUNT, SUM and AVG. Post-processing of noisy cells.

All cells of a vector have the same independent noise, so a sum with the weights w has a deviation of |w|, in those of one cell, and
its interval follows from the exact distribution (mechanisms/weighted.py). Two numbers that were released apart have their own
(mechanisms/side_by_side.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.base import EstimateDefaults, Floats, Noise, ReleasedColumn, Statistic
from dpsql.aggregates.count import Rows, counted_rows
from dpsql.aggregates.count import counted as counted_column
from dpsql.aggregates.ends import ConfidenceBounds
from dpsql.aggregates.ratios import average
from dpsql.aggregates.sum import Total, column_in_type
from dpsql.aggregates.term import Term
from dpsql.aggregates.term import term as term_of
from dpsql.core.columns import Column
from dpsql.core.sqltypes import BIGINT, DOUBLE, SqlType
from dpsql.expressions.scalar import Scalar


@dataclass(frozen=True, slots=True)
class Form:
    """A weighted sum of cells. Weights are DOUBLE: they decide what noisy numbers are put together, never what noise is added."""

    weights: tuple[float, ...]

    @staticmethod
    def of(width: int, weights: Mapping[int, float]) -> Form:
        """The weights at some places among so many."""
        return Form(tuple(weights.get(i, 0.0) for i in range(width)))

    def times(self, factor: float) -> Form:
        return Form(tuple(w * factor for w in self.weights))

    def plus(self, other: Form) -> Form:
        return Form(tuple(v + w for v, w in zip(self.weights, other.weights, strict=True)))

    @property
    def square(self) -> float:
        """Its variance, in that of one cell."""
        return sum([w * w for w in self.weights], 0.0)

    def value(self, cells: Sequence[Sequence[int]]) -> Floats:
        """Of each group. Why  noise is so much larger than the last digit of a DOUBLE that exact sums would tell no more"""
        found = np.zeros(len(cells[0]))
        for weight, cell in zip(self.weights, cells, strict=True):
            if weight:
                found += np.array(cell, dtype=float) * weight
        return found

    def half_width(self, noise: Noise, level: Fraction) -> float:
        return noise.half_width_of_weights(self.weights, level)

    def at_most(self, noise: Noise, level: Fraction) -> float:
        """The same, or a few percent more, without working out the sum of more than two draws.

        Why  of independent draws of one kind a sum has lighter tails than one draw of the same variance: at 95 % its half-width is no
             more deviations than that of one draw
        """
        if sum(w != 0 for w in self.weights) <= 2:
            return self.half_width(noise, level)
        return math.sqrt(self.square) * noise.half_width_of_sum(1, level)


def averaged(told: Sequence[Form]) -> tuple[Form, float]:
    """Independent estimates of one number, weighted by their precision; and the precision of that."""
    whole = sum([1 / form.square for form in told], 0.0)
    first, *rest = [form.times(1 / form.square / whole) for form in told]
    for form in rest:
        first = first.plus(form)
    return first, whole


def without(average: Form, precision: float, one: Form) -> Form:
    """An average without one of the estimates in it: exactly 0 where that has its weights."""
    own = 1 / one.square
    left = average.times(precision / (precision - own)).plus(one.times(-own / (precision - own)))
    return Form(tuple(0.0 if mine else w for w, mine in zip(left.weights, one.weights, strict=True)))


def readable(
    term: Term, counted: Scalar | None, rows: Form | None, n: Form, total: Form, *, alone: bool
) -> Iterator[tuple[Statistic, tuple[Form, ...]]]:
    """The statistics of one value that can be read off a vector which tells n and T, and M where that is not None, by these.

    alone  whether n, T and the pair of both are read without M too: not where rows without a value count towards what a unit may have
    """
    fine = finest(term)
    total = total.times(float(term.quantum / fine.quantum))
    if rows is not None:
        yield Pair(fine, counted, True), (rows, n, total)
    if alone:
        yield Rows(counted_rows(term.scalar, counted)), (n,)
        yield Total(fine, counted), (n, n, total)
        yield Pair(fine, counted, False), (n, n, total)


def finest(term: Term) -> Term:
    """The same on the grid of a value whose square is not needed: that of squares is coarser."""
    return term_of(term.scalar, "SUM")


def off_cube(term: Term) -> tuple[Form, Form]:
    """T [quanta] and n, of the centred sum of a cube and of n: two numbers with noise of their own (joint.py)."""
    return Form((0.5, (term.lower + term.upper) / 2)), Form((0.0, 1.0))


@dataclass(frozen=True, slots=True)
class CountOfForm(EstimateDefaults):
    """COUNT as a weighted sum, rounded."""

    form: Form
    sqltype: SqlType = BIGINT

    counts = True

    def half_width(self, noise: Noise, level: Fraction) -> float:
        return self.form.half_width(noise, level)

    def errors(self, noise: Noise, level: Fraction) -> tuple[float, ...]:
        return (self.form.at_most(noise, level),)

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        return counted_column(self.form.value(cells), self.half_width(noise, level))


@dataclass(frozen=True, slots=True)
class SumOfForm(EstimateDefaults):
    """SUM as a weighted sum, rounded to the quantum."""

    form: Form
    quantum: Fraction
    sqltype: SqlType

    def half_width(self, noise: Noise, level: Fraction) -> float:
        return self.form.half_width(noise, level) * float(self.quantum)

    def errors(self, noise: Noise, level: Fraction) -> tuple[float, ...]:
        return (self.form.at_most(noise, level) * float(self.quantum),)

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        quanta, h = np.rint(self.form.value(cells)), self.half_width(noise, level)
        if np.all(np.abs(quanta) < 2.0**62):
            return ReleasedColumn(*column_in_type(Column(quanta.astype(np.int64)), self.quantum, self.sqltype, h))
        return ReleasedColumn(*column_in_type([int(q) for q in quanta.tolist()], self.quantum, self.sqltype, h))


@dataclass(frozen=True, slots=True)
class AvgOfForms(EstimateDefaults):
    """AVG as T / n within the bounds; NULL where the noisy count is below 1. Its interval is that of a ratio (ratios.py)."""

    total: Form
    count: Form
    term: Term
    sqltype: SqlType = DOUBLE

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    def _at(self, ratio: float) -> Form:
        """T - r n: its error over n is that of an average near r."""
        return self.total.plus(self.count.times(-ratio))

    @property
    def over_rows(self) -> Fraction:
        """Of the bound where it errs more."""
        ends = (self._at(self.term.lower), self._at(self.term.upper))
        return Fraction(math.sqrt(max(form.square for form in ends))) * self.term.quantum

    def errors(self, noise: Noise, level: Fraction) -> tuple[float, ...]:
        quantum = float(self.term.quantum)
        ratios = (self.term.lower, (self.term.lower + self.term.upper) / 2, self.term.upper)
        return tuple(self._at(ratio).at_most(noise, level) * quantum for ratio in ratios)

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        total, count = self.total.value(cells), self.count.value(cells)

        def width(ratio: float) -> float:
            return self._at(ratio).half_width(noise, level)

        shown, value, low, high = average(total, count, self.term, width)
        quantum = float(self.term.quantum)
        values: Column[object] = Column(np.where(shown, value * quantum, 0.0), ~shown)
        ends = ConfidenceBounds(*(np.where(shown, end * quantum, np.nan) for end in (low, high)))
        least, most = float(self.term.lower) * quantum, float(self.term.upper) * quantum
        return ReleasedColumn(values, ends.within(least, most, quantum))
