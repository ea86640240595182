"""COUNT(*) and COUNT(x): how many rows, or how many rows with a value.

One row adds 1 to one cell, so a unit with at most K rows moves the vector by at most K in L1. NULL (and for DOUBLE also NaN, which
is nobody's value here) is not counted by COUNT(x). A group without rows has the cell 0, and noise like any other.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql.aggregates.base import (
    CUT,
    ROWS,
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
from dpsql.aggregates.ends import ConfidenceBounds, LaterBounds
from dpsql.aggregates.sampling import of_count
from dpsql.aggregates.telling import Say, where
from dpsql.core.columns import Column
from dpsql.core.sqltypes import BIGINT, SqlType
from dpsql.expressions.functions.numbers import float_test
from dpsql.expressions.logic import conjunction, is_null, negation
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.sql.nodes import Aggregate, Node, Star

_SLACK = 1e-6
"""Error that floats may have: no end is rounded past a whole number that it stands for."""


@dataclass(frozen=True, slots=True)
class Rows(StatisticDefaults):
    """The number of rows for which `counted` is true; None counts every row. One cell per group."""

    counted: Scalar | None

    @property
    def identity(self) -> Hashable:
        return "rows", tree_of(self.counted)

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return (self.counted,) if self.counted is not None else ()

    terms = ()

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return sensitivity_of_rows(limits, weight=1, cells=1)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        return (counting(names[0] if names else None),)

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        return UnitSums(counting(names[0] if names else None), (), (CUT,), (ROWS,))

    def adds_up(self, one_row: bool) -> bool:
        return True

    def expected(self, units: Fraction, rows: Fraction) -> Fraction:
        return rows

    @property
    def number(self) -> CountOf:
        return CountOf(1)

    def told(self, say: Say) -> str:
        return f"number of rows{where(self.counted, say)}"


def counting(condition: Node | None) -> Node:
    """The number of rows for which a condition column is true."""
    return Aggregate("count", (Star(),), where=condition)


def counted_rows(argument: Scalar, condition: Scalar | None) -> Scalar:
    """The rows that COUNT(x) counts: x is neither NULL nor NaN."""
    parts = [negation(is_null(argument))]
    if argument.sqltype.is_float:
        parts.append(negation(float_test("isnan", argument)))
    return conjunction([*parts, condition] if condition is not None else parts)


@dataclass(frozen=True, slots=True)
class CountOf(EstimateDefaults):
    """COUNT as the sum of some cells over a common width: 1 for counted rows, W for the cells of a shared pair."""

    used: int
    width: int = 1
    sqltype: SqlType = BIGINT

    counts = True

    def half_width(self, noise: Noise, level: Fraction) -> float:
        return noise.half_width_of_sum(self.used, level) / self.width

    def sampled(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> Floats:
        exact = np.sum([np.array(cell, dtype=float) for cell in cells[: self.used]], axis=0) / self.width
        return of_count(exact + self.half_width(noise, level), level)

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        h = self.half_width(noise, level)
        if self.used == self.width == 1:
            return ReleasedColumn(cells[0], ConfidenceBounds.around(cells[0], h, 1, 0))
        exact = np.sum([np.array(cell, dtype=float) for cell in cells[: self.used]], axis=0) / self.width
        return counted(exact, h)


def counted(exact: Floats, h: float) -> ReleasedColumn:
    """Counts that are fractions, rounded; their intervals end at whole numbers, as a count is one."""

    def made() -> ConfidenceBounds:
        return ConfidenceBounds(np.ceil(exact - h - _SLACK), np.floor(exact + h + _SLACK)).within(0, math.inf, 1)

    ends, rounded = LaterBounds(len(exact), made), np.rint(exact)
    if np.all(np.abs(rounded) < 2.0**62):
        return ReleasedColumn(Column(rounded.astype(np.int64)), ends)
    return ReleasedColumn([int(c) for c in rounded.tolist()], ends)
