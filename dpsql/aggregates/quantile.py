"""MEDIAN, QUANTILE_CONT, QUANTILE_DISC, PERCENTILE_...: one value of a grid, chosen by how near it is to the asked rank.

For q = a / b, a candidate v with L rows below it, c at it and H above it has the cost

    max(0,  a H - (b - a) (L + c),  (b - a) L - a (c + H))

that is b times how many ranks q n lies outside of v's own ranks. One row, added or removed, changes each of the three by at most
max(a, b - a), so a unit with r rows in the group changes every cost by at most r max(a, b - a), and the exponential mechanism (or
permute-and-flip) at rate epsilon' / (2 max(a, b - a)) per unit of cost loses at most r epsilon' (aggregates/histogram.py: together K
epsilon'). All values of the grid are candidates, those where there is nobody too; a run of them between two values that occur has one
cost, so it is one entry whose weight is its length. NULL and NaN are not counted.

The interval takes a share of the price that follows from declared sizes and the price, or is left out (Quantile.share). Around the
released value the grid is cut into bins at distances that double, and the number of rows in each bin gets discrete Laplace noise. A row
is in one bin, so they lose r epsilon'' for a unit with r rows. A cut t is known to lie above the quantile where b (rows below t) -
a n is above what noise explains, with one chance in 40, and below it in the same way. The lower end is the last cut, coming from below,
up to which all are known to lie below; for it to lie above the exact quantile, the first cut above that would have to be mistaken: one
event, of at most 2.5 %.

Source: McSherry, Talwar 2007; Smith 2011, Privacy-preserving Statistical Estimation (quantiles); McKenna, Sheldon 2020
(permute-and-flip); the interval is ours.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from dpsql.aggregates.base import ReleasedColumn
from dpsql.aggregates.bounds import check_bounds
from dpsql.aggregates.grid import Grid, as_value, grid, widest
from dpsql.aggregates.histogram import Counts, OverHistogramDefaults, Terms
from dpsql.aggregates.record import Aggregate, Around, Built, Constant, Given, Record
from dpsql.aggregates.telling import Say
from dpsql.core.errors import error
from dpsql.core.events import Event
from dpsql.core.sqltypes import DOUBLE, TIME, TIMESTAMP, SqlType
from dpsql.core.wording import number
from dpsql.expressions.scalar import Scalar
from dpsql.mechanisms.conversions import PURE
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.source import NoiseSource

LEAST_SHARE, MOST_SHARE = Fraction(1, 20), Fraction(1, 5)
"""Shares of a quantile's price between which its interval takes what it aims at."""
_AIM = 300
"""[nats times units of a group] The interval's epsilon times the units of a group, at which it holds about an eighth of the rows."""
LEVEL = Fraction(95, 100)
_STEP = 2
_CUTS = 16
_FINEST_FRACTION = 10**6
"""Costs are counts of rows times this at most: far inside 64 bits."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Runs:
    """The candidates of one group in order: values that occur, and the runs of values between them where nothing does.

    first   [buckets] where each begins
    length  [buckets] how many there are
    below, here, above  [rows]
    """

    first: Integers
    length: Integers
    below: Integers
    here: Integers
    above: Integers


def runs(grid: Grid, counts: Counts) -> Runs:
    """Every bucket of the grid, as few entries as there can be; at most two for each that occurs, and one."""
    values = np.array(counts.values, dtype=np.int64)
    order = np.argsort(values, kind="stable")
    values, rows = values[order], np.array(counts.counts, dtype=np.int64)[order]
    ends = np.concatenate([values, [grid.buckets]])
    starts = np.concatenate([[0], values + 1])
    total = np.concatenate([[0], np.cumsum(rows)])
    size = 2 * len(values) + 1
    first, length, below, here = (np.zeros(size, dtype=np.int64) for _ in range(4))
    first[0::2], length[0::2], below[0::2] = starts, ends - starts, total
    first[1::2], length[1::2], below[1::2], here[1::2] = values, 1, total[:-1], rows
    kept = length > 0
    first, length, below, here = first[kept], length[kept], below[kept], here[kept]
    return Runs(first, length, below, here, total[-1] - below - here)


@dataclass(frozen=True, slots=True)
class Quantile(OverHistogramDefaults):
    """One quantile of each group: its value and the ends of its interval, in quanta.

    aim  epsilon that the interval should have [nats], within its shares; 0 where least; None: it is left out
    """

    histogram: Grid
    fraction: Fraction
    aim: Fraction | None = Fraction(0)

    @property
    def cells(self) -> int:
        return 1 if self.aim is None else 3

    @property
    def cost(self) -> str:
        a, b = self.fraction.numerator, self.fraction.denominator
        return f"each cost by at most {max(a, b - a):,}"

    @property
    def identity(self) -> Hashable:
        return "quantile", self.fraction, self.histogram.identity, self.aim

    def share(self, terms: Terms) -> Fraction:
        """Share of its price that its interval takes: public, and the rest is the choice's."""
        if self.aim is None:
            return Fraction(0)
        return min(MOST_SHARE, max(LEAST_SHARE, self.aim / terms.epsilon))

    def rate(self, terms: Terms) -> Fraction:
        """Of the choice, per unit of cost."""
        a, b = self.fraction.numerator, self.fraction.denominator
        return terms.per_row * (1 - self.share(terms)) / (2 * max(a, b - a))

    def noise(self, terms: Terms) -> DiscreteLaplace:
        """Of the bins around the chosen value."""
        return DiscreteLaplace(1 / (terms.per_row * self.share(terms)))

    def events(self, terms: Terms) -> tuple[Event, ...]:
        share = self.share(terms)
        chosen = terms.choosing(1 - share)
        return (chosen, PURE.event(share * terms.epsilon)) if share else (chosen,)

    def release(self, groups: Sequence[Counts], terms: Terms, noise: NoiseSource) -> list[list[int]]:
        rate, has_interval = self.rate(terms), self.aim is not None
        if not groups:
            return [[] for _ in range(self.cells)]
        chosen: list[int] = []
        cuts: list[Integers] = []
        bins: list[Integers] = []
        for counts in groups:
            candidates = runs(self.histogram, counts)
            place = noise.choose(self._costs(candidates), candidates.length, rate, terms.kind)
            chosen.append(int(candidates.first[place]) + noise.below(int(candidates.length[place])))
            if has_interval:
                cuts.append(cuts_around(chosen[-1], self.histogram.buckets))
                bins.append(_binned(candidates, cuts[-1]))
        columns = self._ends(cuts, bins, terms, noise) if has_interval else []
        return [[self.histogram.quanta(b) for b in column] for column in (chosen, *columns)]

    def _ends(
        self, cuts: Sequence[Integers], bins: Sequence[Integers], terms: Terms, noise: NoiseSource
    ) -> list[list[int]]:
        """The lower ends of all groups, and the upper ones."""
        around = self.noise(terms)
        # one vector for all groups
        drawn = iter(around.sample(noise, sum(map(len, bins))))
        noisy = ([int(n) + next(drawn) for n in rows] for rows in bins)
        ends = [self._interval(c, rows, around) for c, rows in zip(cuts, noisy, strict=True)]
        return [list(column) for column in zip(*ends, strict=True)]

    def told(self, say: Say) -> str:
        return f"the {number(self.fraction)} quantile of {self.histogram.told(say)}"

    def bounds_told(self, say: Say) -> list[str]:
        return [self.histogram.bounds_told(say)]

    def describe(self, terms: Terms) -> str:
        by = f"{terms.chooses_by} at rate {float(self.rate(terms)):.6g}"
        return f"{by}; its interval by {self.noise(terms).describe()}" if self.share(terms) else by

    def _costs(self, candidates: Runs) -> Integers:
        a, b = self.fraction.numerator, self.fraction.denominator
        low = a * candidates.above - (b - a) * (candidates.below + candidates.here)
        high = (b - a) * candidates.below - a * (candidates.here + candidates.above)
        return np.maximum(0, np.maximum(low, high))

    def _interval(self, cuts: Integers, noisy: Sequence[int], around: DiscreteLaplace) -> tuple[int, int]:
        """The buckets between which the exact quantile is.

        noisy  [rows] of the bins between the cuts
        """
        a, b = self.fraction.numerator, self.fraction.denominator
        below = list(accumulate(noisy))
        # b times the rows below a cut, less a times all
        signs = [(b - a) * n - a * (below[-1] - n) for n in below[:-1]]
        widths = [self._width(i + 1, len(noisy), around) for i in range(len(cuts))]
        low, high = 0, self.histogram.buckets - 1
        for cut, sign, width in zip(cuts.tolist(), signs, widths, strict=True):
            if sign >= -width:
                break
            low = cut
        for cut, sign, width in reversed(list(zip(cuts.tolist(), signs, widths, strict=True))):
            if sign <= width:
                break
            high = cut - 1
        return min(low, high), max(low, high)

    def _width(self, left: int, bins: int, around: DiscreteLaplace) -> float:
        """Width that noise explains; and one rank, for quantiles that lie between two values."""
        a, b = self.fraction.numerator, self.fraction.denominator
        weights = (float(b - a),) * left + (float(a),) * (bins - left)
        return around.half_width_of_weights(weights, LEVEL) + b


def _binned(candidates: Runs, cuts: Integers) -> Integers:
    """[rows] The rows of each bin between cuts."""
    places = np.searchsorted(candidates.first, cuts, side="left")
    rows = np.concatenate([[0], np.cumsum(candidates.here)])
    return np.diff(np.concatenate([[0], rows[places], rows[-1:]]))


def cuts_around(bucket: int, buckets: int) -> Integers:
    """Cuts of the grid around a bucket, in order: a cut is the first bucket on its right."""
    first = max(1, buckets // _STEP**_CUTS)
    distances = [first * _STEP**i for i in range(_CUTS + 1)]
    cuts = sorted({bucket - d for d in distances} | {bucket, bucket + 1} | {bucket + 1 + d for d in distances})
    return np.array([cut for cut in cuts if 0 < cut < buckets], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class QuantileOf:
    """The released quantile, in the column's type."""

    quantile: Quantile
    sqltype: SqlType

    def promise(self, terms: Terms, level: Fraction) -> str:
        share, ranks = self.quantile.share(terms), self.ranks(terms, level)
        told = f"its interval takes {100 * float(share):.3g} % of its price" if share else "no interval: interval=off"
        return f"within {ranks:,} ranks of the one asked with {100 * float(level):g} %; {told}"

    def ranks(self, terms: Terms, level: Fraction) -> int:
        """Rank error at most: weight and rate give exp(-rate b ranks) * candidates."""
        rate = float(self.quantile.rate(terms)) * self.quantile.fraction.denominator
        return int(np.ceil(np.log(self.quantile.histogram.buckets / float(1 - level)) / rate))

    def column(self, cells: Sequence[Sequence[int]], terms: Terms, level: Fraction) -> ReleasedColumn:
        histogram = self.quantile.histogram
        values = [as_value(v, histogram.term, self.sqltype) for v in cells[0]]
        if self.quantile.aim is None:
            return ReleasedColumn(values, [None] * len(values))
        return ReleasedColumn(
            values, [histogram.between(low, high) for low, high in zip(cells[1], cells[2], strict=True)]
        )


def _quantile(aggregate: Aggregate, value: Scalar, around: Around) -> tuple[Quantile, QuantileOf]:
    """Groups that are not declared count as 64: their number decides how fine the grid is, and nothing else."""
    assert aggregate.number is not None
    size = around.units * around.limits.rows if around.units is not None else None
    most = widest(around.groups if around.groups is not None else 64, size)
    quantile = Quantile(grid(aggregate, value, most), aggregate.number, _aim(around))
    return quantile, QuantileOf(quantile, aggregate.sqltype)


def _aim(around: Around) -> Fraction | None:
    """The epsilon that an interval aims at, by the declared sizes alone; 0 where none is declared, as if there were many units.

    Why  the rows of a unit cancel out: with K of them noise is K times as wide, and there are K times as many
    """
    if not around.intervals:
        return None
    return Fraction(_AIM * (around.groups or 1), around.units) if around.units else Fraction(0)


def _middle(given: Given) -> Built:
    if given.constants:
        raise error(106, f"{given.word} takes one argument", hint=f"write {given.word}(x)")
    check_bounds(given)
    return Built(given.value, (Fraction(1, 2),))


def _asked(given: Given) -> Built:
    """One for each constant from 0 to 1, of one or of a list."""
    check_bounds(given)
    which = given.constants[0] if len(given.constants) == 1 else None
    listed = which if isinstance(which, tuple) else (which,)
    if not listed:
        raise error(106, f"{given.word}() of an empty list", hint="write QUANTILE_CONT(x, [0.25, 0.75])")
    numbers = tuple(_fraction(number, given.word) for number in listed)
    return Built(given.value, numbers, isinstance(which, tuple))


def _fraction(number: Constant, word: str) -> Fraction:
    if not isinstance(number, int | Fraction) or not 0 <= number <= 1 or number.denominator > _FINEST_FRACTION:
        what = f"{word}() needs a constant from 0 to 1 with at most 6 digits"
        raise error(106, what, hint="write QUANTILE_CONT(x, 0.9)")
    return Fraction(number)


def _between(sqltype: SqlType) -> SqlType:
    """A value between two of a type."""
    if sqltype.is_decimal or sqltype.is_float:
        return sqltype
    return TIME if sqltype == TIME else TIMESTAMP if sqltype.is_temporal else DOUBLE


DISCRETE = Record(
    "quantile",
    {
        "QUANTILE_DISC(x, 0.9)": "", "QUANTILE(x, 0.9)": "", "APPROX_QUANTILE(x, 0.9)": "",
        "PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY x)": "",
    },
    "the {number} quantile of {value}", "QUANTILE({value}, {number})", build=_asked,
    sqltype=lambda sqltype: sqltype, temporal=True, histogram=_quantile, sampled="quantile_cont({v}, {n}){kept}",
)  # fmt: skip
CONTINUOUS = replace(
    DISCRETE,
    calls={
        "QUANTILE_CONT(x, 0.9)": "an estimate of the value that this share of rows is below",
        "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)": "",
    },
    sqltype=_between,
)
MEDIAN = replace(CONTINUOUS, calls={"MEDIAN(x)": "an estimate of the middle value"}, build=_middle, exact="median")
