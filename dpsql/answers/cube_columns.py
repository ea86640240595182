"""Columns of a release that is read off a cube: the numbers that they are made of, each once, with their noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from dpsql.accounting.cubes import CubeStatistic
from dpsql.aggregates.base import Limits, Noise, Statistic
from dpsql.aggregates.count import Rows, counted_rows
from dpsql.aggregates.count_distinct import Units
from dpsql.aggregates.record import Aggregate, OfCube
from dpsql.aggregates.sum import Total
from dpsql.answers.cube_view import View
from dpsql.answers.standing import relative_error
from dpsql.core.columns import Column
from dpsql.core.loss import NO_LOSS
from dpsql.expressions.scalar import Scalar
from dpsql.mechanisms.cube_noise import RoundedGaussian
from dpsql.mechanisms.helmert import Floats
from dpsql.mechanisms.side_by_side import SideBySide
from dpsql.plan.releases import NoisyCount, NoisyStatistic, Output, Release, Suppression
from dpsql.planner.cubes import centred

_LEVEL = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class CubeNumber:
    """A number of each group that is shown: the cells that it is the sum of, with their signs.

    cells  (statistic, cell, weight)
    """

    statistic: Statistic
    cells: tuple[tuple[int, int, float], ...]


@dataclass(slots=True)
class Columns:
    """Columns while they are put together."""

    view: View
    numbers: dict[tuple[OfCube, int], CubeNumber] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)

    def rows(self) -> NoisyCount:
        """The number of rows."""
        return NoisyCount(self._place("rows", 0, None), Rows(None).number, Rows(None).identity)

    def add(self, output: Output, aggregate: Aggregate, held: tuple[int, Scalar | None] | None) -> bool:
        """Add a column; False where the cube has nothing of it.

        held  the place of the statistic of its value, and the value
        """
        of_cube = aggregate.record.of_cube
        if of_cube is None or held is None or aggregate.condition is not None:
            return False
        statistic, value = held
        if value is not None and value.unit_bounds is not None:
            return False
        parts, estimate = of_cube
        term = centred(aggregate, value).terms[0] if value is not None and "centred" in parts else None
        total = Total(term, None) if term is not None else None
        places = [self._place(kind, statistic, value, total) for kind in parts]
        made = estimate([aggregate.seen(term)] if term is not None else [], aggregate.sqltype)
        self.outputs.append(Output(output.name, places[0], made, *places[1:]))
        return True

    def _place(self, kind: OfCube, statistic: int, value: Scalar | None, total: Statistic | None = None) -> int:
        """The place of a number.

        Why  of a value that is there in every row, COUNT(x) is COUNT(*), which has less noise (rule 57)
        """
        if kind == "count" and value is not None and not value.nullable and not value.sqltype.is_float:
            kind = "rows"
        key: tuple[OfCube, int] = (kind, 0 if kind == "rows" else statistic)
        if key not in self.numbers:
            self.numbers[key] = self._number(kind, statistic, value, total)
        return list(self.numbers).index(key)

    def _number(self, kind: OfCube, place: int, value: Scalar | None, total: Statistic | None) -> CubeNumber:
        if kind == "count" and value is not None:
            weight = self._statistics[place].weights[1]
            return CubeNumber(Rows(counted_rows(value, None)), ((0, 0, 1), (place, 1, -1 / weight)))
        if kind == "centred" and total is not None:
            return CubeNumber(total, ((place, 0, 1),))
        return CubeNumber(Rows(None), ((0, 0, 1),))

    def _variance(self, place: int, cell: int) -> Fraction:
        return self.view.variance(self._statistics[place], cell)

    @property
    def _statistics(self) -> Sequence[CubeStatistic]:
        return self.view.cube.statistics

    # --- what is made of them

    def of(self, release: Release) -> Release:
        """The release with these columns, and the noise that is in them."""
        measures = tuple(self._measure(i, number) for i, number in enumerate(self.numbers.values()))
        return replace(release, measures=measures, outputs=tuple(self.outputs))

    def _measure(self, place: int, number: CubeNumber) -> NoisyStatistic:
        limits = Limits(self.view.cube.rows, self.view.cube.rows)
        sensitivity = number.statistic.sensitivity(limits)
        groups = self.view.groups(*number.cells)
        noise = RoundedGaussian(groups.variance([1] * len(groups.kept)), groups)
        return NoisyStatistic(f"m{place}", number.statistic, sensitivity, noise, NO_LOSS)

    def cells(self, coefficients: Sequence[Floats]) -> tuple[Column[int], ...]:
        """The numbers of every group, rounded."""
        starts = [sum(len(one.weights) for one in self._statistics[:i]) for i in range(len(self._statistics))]
        return tuple(
            _rounded(sum(w * self.view.numbers(coefficients[starts[i] + cell]) for i, cell, w in number.cells))
            for number in self.numbers.values()
        )

    def deviates_by(self, units: Fraction) -> bool:
        """True if all noise is at least that of so many units, as far as one can move it."""
        least = units**2 * self.view.cube.rows**2
        used = {(i, cell) for number in self.numbers.values() for i, cell, _ in number.cells}
        return all(self._variance(i, c) >= least * self._statistics[i].weights[c] ** 2 for i, c in used)


def suppressions(asked: Release, rows: NoisyCount) -> tuple[Suppression, ...] | None:
    """Suppressions of groups with too few people, by the noisy number of rows; None where something else decides.

    Why  of people with at most K rows there are at least as many as rows over K: k people, where there are k K rows
    """
    found = []
    for one in asked.suppressed:
        most = _rows_of_one(asked, one.count)
        if most is None:
            return None
        found.append(Suppression(rows, one.k * most, one.outputs))
    if asked.present is not None and _rows_of_one(asked, asked.present) is None:
        return None
    return tuple(found)


def _rows_of_one(asked: Release, count: NoisyCount) -> int | None:
    """The most rows that one of what is counted has: 1 of rows, K of people; None where it is something else."""
    if count.of == Units(None).identity:
        return asked.limited.limits.rows
    return 1 if count.of == Rows(None).identity else None


def width_of(release: Release, output: Output) -> tuple[bool, float] | None:
    """The half-width of a column, or what it is over the number of rows; None where neither is known."""
    noise, estimate = _noise(release, output), output.estimate
    width = estimate.half_width(noise, _LEVEL)
    if width is not None:
        return False, width
    return (True, max(estimate.errors(noise, _LEVEL))) if estimate.over_rows is not None else None


def _noise(release: Release, output: Output) -> Noise:
    first, *others = [release.measures[m].noise for m in output.measures]
    return SideBySide(first, others[0]) if others else first


def error_in(found: Release, asked: Release) -> float:
    """The largest error of a column of a release as it is read off what is stored, in that of the release as it would be bought."""
    bought = {output.name: output for output in asked.outputs}
    return max((_error(found, one, asked, bought[one.name]) for one in found.outputs), default=0.0)


def _error(found: Release, own: Output, asked: Release, other: Output) -> float:
    """Error of a column in that of what would be bought; without end where nothing is known of either."""
    noise, others = _noise(found, own), _noise(asked, other)
    if not own.estimate.errors(noise, _LEVEL) or not other.estimate.errors(others, _LEVEL):
        return math.inf
    return relative_error(own.estimate, noise, other.estimate, others)


def _rounded(numbers: Floats | int) -> Column[int]:
    """The nearest whole numbers."""
    found = np.rint(np.atleast_1d(np.asarray(numbers, dtype=np.float64)))
    if np.all(np.abs(found) < 2.0**62):
        return Column(found.astype(np.int64))
    return Column.of([int(number) for number in found.tolist()])
