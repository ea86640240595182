"""MIN and MAX of declared texts: the least and greatest listed value that a noisy histogram shows to be there.

How many rows have each listed value gets discrete Laplace noise of scale 1 / epsilon'. A row has one value, so a unit with r rows in
the group moves these counts by at most r in all, which loses r epsilon' (aggregates/histogram.py: together K epsilon'). Which values
are shown is post-processing of both ends: the outermost in the order of the texts whose noisy count is above h, where no noise of
the list is beyond h with 95 %. So with 95 % somebody has a value that is shown, and each value beyond it has at most 2 h rows. Where
there is none, it is NULL; NULL among the rows is no value (rule 59).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from dpsql.aggregates.base import ReleasedColumn
from dpsql.aggregates.histogram import Counts, OverHistogramDefaults, Terms, Value
from dpsql.aggregates.mode import ListedHistogram
from dpsql.aggregates.telling import Say, where
from dpsql.core.cancellation import check
from dpsql.core.events import Event
from dpsql.core.sqltypes import SqlType
from dpsql.core.wording import counted
from dpsql.mechanisms.conversions import PURE
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.source import NoiseSource

NONE = -1
"""The place of no value."""
_OUTSIDE = Fraction(5, 100)
_AT_ONCE = 1_000_000
"""[counts] Drawn and kept in memory together, but for the list of one group, which may be longer."""


@dataclass(frozen=True, slots=True)
class ListedExtremes(OverHistogramDefaults):
    """The least and the greatest listed value of each group: their places in the list.

    order  the places of the list, from the least value to the greatest
    """

    histogram: ListedHistogram
    order: tuple[int, ...]

    cells = 2
    cost = "one count by 1"

    @property
    def identity(self) -> Hashable:
        return "listed extremes", self.histogram.identity

    @property
    def draws(self) -> int:
        return len(self.order)

    def noise(self, terms: Terms) -> DiscreteLaplace:
        """Of each listed value's number of rows."""
        return DiscreteLaplace(1 / terms.per_row)

    def enough(self, terms: Terms) -> int:
        """h: a noisy count above it is that of a value which somebody has."""
        return self.noise(terms).half_width(1 - _OUTSIDE / len(self.order))

    def events(self, terms: Terms) -> tuple[Event, ...]:
        return (PURE.event(terms.epsilon),)

    def release(self, groups: Sequence[Counts], terms: Terms, noise: NoiseSource) -> list[list[int]]:
        enough, at_once = self.enough(terms), max(1, _AT_ONCE // len(self.order))
        found: list[tuple[int, int]] = []
        for start in range(0, len(groups), at_once):
            check()
            part = groups[start : start + at_once]
            # for all groups and all listed values, whether anybody has them or not
            drawn = iter(self.noise(terms).sample(noise, len(part) * len(self.order)))
            found += [self._ends(self._noisy(counts, drawn), enough) for counts in part]
        return [[first for first, _ in found], [last for _, last in found]]

    def _noisy(self, counts: Counts, drawn: Iterator[int]) -> list[int]:
        """The noisy number of rows of each listed value; a value that is not declared is none."""
        rows: dict[Value, int] = dict(zip(counts.values, counts.counts, strict=True))
        return [
            rows.get(value, 0) + z
            for value, z in zip(self.histogram.values, islice(drawn, len(self.order)), strict=True)
        ]

    def _ends(self, noisy: Sequence[int], enough: int) -> tuple[int, int]:
        there = [place for place in self.order if noisy[place] > enough]
        return (there[0], there[-1]) if there else (NONE, NONE)

    def told(self, say: Say) -> str:
        among = f"{counted(len(self.order), 'declared value')} of {say(self.histogram.scalar)}"
        return f"the first of {among}, from one end of their order, that enough rows have{where(self.histogram.counted, say)}"

    def bounds_told(self, say: Say) -> list[str]:
        return [f"{say(self.histogram.scalar)} is chosen among declared values"]

    def describe(self, terms: Terms) -> str:
        return f"a histogram with {self.noise(terms).describe()}; a value is there above {self.enough(terms):,} rows"


@dataclass(frozen=True, slots=True)
class ListedExtremeOf:
    """The released value.

    largest  whether it is the greatest
    values   as the sandbox holds them, in the order of the list
    """

    extremes: ListedExtremes
    largest: bool
    values: tuple[object, ...]
    sqltype: SqlType

    def promise(self, terms: Terms, level: Fraction) -> str:
        most = 2 * self.extremes.enough(terms)
        sure = f"{100 * float(1 - _OUTSIDE):g} %"
        return f"a value that somebody has, and at most {most:,} rows have each one beyond it, with {sure}; else NULL; no interval"

    def column(self, cells: Sequence[Sequence[int]], terms: Terms, level: Fraction) -> ReleasedColumn:
        chosen = cells[self.largest]
        return ReleasedColumn([None if i == NONE else self.values[i] for i in chosen], [None] * len(chosen))
