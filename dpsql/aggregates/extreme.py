"""MIN and MAX inside groups or filters: an estimate, a few ranks inside the data.

The largest value itself is one person's, so what is released is the value with about t rows beyond it, t so large that the choice
falls inside the data with 95 %. For MAX, a candidate v with c rows at it and H above it has the cost max(0, H - t, t - c - H); one
row changes it by at most 1, so a unit with r rows in the group changes every cost by at most r, and the rate epsilon' / 2 loses r
epsilon'. MIN is the same from below.

At the far end of the grid t rows are counted that nobody has, the same for all data. So there always is a candidate without a cost, and
of B candidates those beyond all rows, whose cost is t, are chosen with at most B exp(-rate t) <= 5 %. Where there are fewer rows than t
the choice tends to that end, and the interval, from there to the declared bound, says that nothing is known.

Source: McSherry, Talwar 2007 (the exponential mechanism); the offset is ours.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql.aggregates.base import ReleasedColumn
from dpsql.aggregates.grid import LEAST_BUCKETS, Grid, as_value, grid
from dpsql.aggregates.histogram import Counts, OverHistogram, OverHistogramDefaults, Reading, Terms, Value
from dpsql.aggregates.listed_extreme import ListedExtremeOf, ListedExtremes
from dpsql.aggregates.mode import ListedHistogram
from dpsql.aggregates.quantile import runs
from dpsql.aggregates.record import Aggregate, Around, Record
from dpsql.aggregates.telling import Say
from dpsql.core.domains import Categories
from dpsql.core.errors import error
from dpsql.core.events import Event
from dpsql.core.sqltypes import SqlType
from dpsql.expressions.scalar import Scalar
from dpsql.mechanisms.source import NoiseSource

_OUTSIDE = 0.05


@dataclass(frozen=True, slots=True)
class Extreme(OverHistogramDefaults):
    """The largest value of each group, or the smallest, up to a few ranks: one integer, in quanta."""

    histogram: Grid
    largest: bool

    cells = 1
    cost = "each cost by at most 1"

    @property
    def identity(self) -> Hashable:
        return "extreme", self.largest, self.histogram.identity

    def rate(self, terms: Terms) -> Fraction:
        """Of the choice, per unit of cost."""
        return terms.per_row / 2

    def offset(self, terms: Terms) -> int:
        """t: how many rows lie beyond the value that is aimed at."""
        return math.ceil(math.log(self.histogram.buckets / _OUTSIDE) / float(self.rate(terms)))

    def events(self, terms: Terms) -> tuple[Event, ...]:
        return (terms.choosing(),)

    def release(self, groups: Sequence[Counts], terms: Terms, noise: NoiseSource) -> list[list[int]]:
        rate, t = self.rate(terms), self.offset(terms)
        found: list[int] = []
        for counts in groups:
            candidates = runs(self.histogram, self._completed(counts, t))
            beyond = candidates.above if self.largest else candidates.below
            costs = np.maximum(0, np.maximum(beyond - t, t - candidates.here - beyond))
            place = noise.choose(costs, candidates.length, rate, terms.kind)
            bucket = int(candidates.first[place]) + noise.below(int(candidates.length[place]))
            found.append(self.histogram.quanta(bucket))
        return [found]

    def _completed(self, counts: Counts, t: int) -> Counts:
        """The histogram with t rows more at the far end of the grid."""
        end = 0 if self.largest else self.histogram.buckets - 1
        rows: dict[Value, int] = dict(zip(counts.values, counts.counts, strict=True))
        rows[end] = rows.get(end, 0) + t
        return Counts(list(rows), list(rows.values()), [])

    def told(self, say: Say) -> str:
        return f"the {'largest' if self.largest else 'smallest'} of {self.histogram.told(say)}, some rows inside"

    def bounds_told(self, say: Say) -> list[str]:
        return [self.histogram.bounds_told(say)]

    def describe(self, terms: Terms) -> str:
        return f"{terms.chooses_by} at rate {float(self.rate(terms)):.6g}, {self.offset(terms):,} rows inside"


@dataclass(frozen=True, slots=True)
class ExtremeOf:
    """The released extreme: its interval reaches from it to the declared bound."""

    extreme: Extreme
    sqltype: SqlType

    def promise(self, terms: Terms, level: Fraction) -> str:
        return (
            f"an estimate: the value with about {self.extreme.offset(terms):,} rows beyond it, inside the data with "
            f"{100 * (1 - _OUTSIDE):g} %; where there are fewer rows, the declared {'lower' if self.extreme.largest else 'upper'} bound"
        )

    def column(self, cells: Sequence[Sequence[int]], terms: Terms, level: Fraction) -> ReleasedColumn:
        histogram, part = self.extreme.histogram, self.extreme.histogram.term
        values = [as_value(v, part, self.sqltype) for v in cells[0]]
        if self.extreme.largest:
            return ReleasedColumn(values, [histogram.between(v, part.upper) for v in cells[0]])
        return ReleasedColumn(values, [histogram.between(part.lower, v) for v in cells[0]])


def _extreme(aggregate: Aggregate, value: Scalar, around: Around) -> tuple[OverHistogram, Reading]:
    if value.sqltype.is_text and isinstance(value.domain, Categories):
        return _of_list(aggregate, value, around)
    histogram = grid(aggregate, value, LEAST_BUCKETS)
    extreme = Extreme(histogram, aggregate.record is MAX)
    return extreme, ExtremeOf(extreme, aggregate.sqltype)


def _of_list(aggregate: Aggregate, value: Scalar, around: Around) -> tuple[ListedExtremes, ListedExtremeOf]:
    """Of texts, in the order of their characters, which is that of their bytes in UTF-8."""
    if value.is_identifying:
        what = f"{aggregate.function.upper()} would show an identifier"
        raise error(302, what, hint="ask for what people share", span=aggregate.span)
    form, values = around.listed(aggregate, value)
    order = sorted(range(len(values)), key=lambda i: str(values[i]))
    extremes = ListedExtremes(ListedHistogram(value, form, values, aggregate.condition), tuple(order))
    return extremes, ListedExtremeOf(extremes, aggregate.record is MAX, values, aggregate.sqltype)


def _same(sqltype: SqlType) -> SqlType:
    return sqltype


MIN = Record(
    "min", {"MIN(x)": "an estimate, some rows inside"}, "an estimate of the smallest {value}",
    sqltype=_same, temporal=True, histogram=_extreme, exact="min", sampled="min({v}){kept}",
)  # fmt: skip
MAX = Record(
    "max", {"MAX(x)": "an estimate, some rows inside"}, "an estimate of the largest {value}",
    sqltype=_same, temporal=True, histogram=_extreme, exact="max", sampled="max({v}){kept}",
)  # fmt: skip
