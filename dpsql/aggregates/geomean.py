"""GEOMEAN(x): an increasing function of a mean, exp(AVG(ln x)), of the same cells as AVG(LN(x)).

The bounds of ln x follow from those of x, which must be above 0. Their grid ends with a whole quantum, which may be the logarithm of
more than DOUBLE holds: that is given as its largest. exp is increasing, so the ends of an interval of the mean go to those of the
geometric mean: post-processing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.aggregates.apart import AvgOfTwo
from dpsql.aggregates.base import Estimate, EstimateDefaults, Noise, ReleasedColumn, Statistic
from dpsql.aggregates.record import Aggregate, Record
from dpsql.aggregates.resampling import Interval, Intervals
from dpsql.aggregates.shared import mean
from dpsql.core.sqltypes import DOUBLE, SqlType

_LARGEST = math.log(sys.float_info.max)


def _exp(value: float) -> float:
    return math.exp(min(value, _LARGEST))


@dataclass(frozen=True, slots=True)
class ExpOf(EstimateDefaults):
    """e to the power of an estimate, NULL where that is."""

    inner: Estimate
    sqltype: SqlType = DOUBLE

    depends = True

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        found = self.inner.column(cells, noise, level)
        values: list[object] = [_exp(v) if isinstance(v, float) else None for v in found.values]
        return ReleasedColumn(values, _Exps(found.intervals))


@dataclass(frozen=True, slots=True)
class _Exps(Intervals):
    """e to the power of the ends of intervals, each when it is read."""

    inner: Sequence[Interval]

    def __len__(self) -> int:
        return len(self.inner)

    def at(self, group: int) -> Interval:
        found = self.inner[group]
        return None if found is None else (_exp(found[0]), _exp(found[1]))


def _of_mean(statistic: Statistic, aggregate: Aggregate) -> Estimate:
    return ExpOf(mean(statistic, aggregate))


GEOMEAN = Record(
    "geomean", {"GEOMEAN(x)": "DOUBLE, of values above 0", "GEOMETRIC_MEAN(x)": ""}, "the geometric mean of {value}", inside="ln",
    read=_of_mean, apart=(("sum", "count"), lambda term, _: ExpOf(AvgOfTwo(term))), adds="values and rows",
    sampled="exp(avg({v}){kept})", plain="EXP(AVG(LN(x)))",
)  # fmt: skip
