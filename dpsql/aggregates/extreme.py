"""MIN and MAX inside groups or filters: an estimate, a few ranks inside the data.

The largest value itself is one person's, so what is released is the value with about t rows beyond it, t so large that the choice
falls inside the data with 95 %. For MAX, a candidate v with c rows at it and H above it has the cost max(0, H - t, t - c - H); one
row changes it by at most 1, so a unit with r rows in the group changes every cost by at most r, and the rate epsilon' / 2 loses r
epsilon'. MIN is the same from below. Of B candidates those beyond all rows have the cost t, so they are chosen with at most B exp(-rate
t) <= 5 %, wherever there are t rows.

Source: McSherry, Talwar 2007 (the exponential mechanism); the offset is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql.aggregates.base import Column
from dpsql.aggregates.grid import Grid, as_value
from dpsql.aggregates.quantile import runs
from dpsql.aggregates.tally import Counts, Terms
from dpsql.mechanisms.source import NoiseSource
from dpsql.sqltypes import SqlType

_OUTSIDE = 0.05


@dataclass(frozen=True, slots=True)
class Extreme:
    """The largest value of each group, or the smallest, up to a few ranks: one integer, in quanta."""

    tally: Grid
    largest: bool

    cells = 1
    cost = "each cost by at most 1"

    @property
    def identity(self) -> str:
        return f"{'largest' if self.largest else 'smallest'} of {self.tally.identity}"

    def rate(self, terms: Terms) -> Fraction:
        """Of the choice, per unit of cost."""
        return terms.per_row / 2

    def offset(self, terms: Terms) -> int:
        """t: how many rows lie beyond the value that is aimed at."""
        return math.ceil(math.log(self.tally.buckets / _OUTSIDE) / float(self.rate(terms)))

    def release(self, groups: Sequence[Counts], terms: Terms, noise: NoiseSource) -> list[list[int]]:
        rate, t = self.rate(terms), self.offset(terms)
        found: list[int] = []
        for counts in groups:
            candidates = runs(self.tally, counts)
            beyond = candidates.above if self.largest else candidates.below
            costs = np.maximum(0, np.maximum(beyond - t, t - candidates.here - beyond))
            place = noise.choose(costs, candidates.length, rate, terms.kind)
            bucket = int(candidates.first[place]) + noise.below(int(candidates.length[place]))
            # the end of the bucket that lies inside: its rows may be anywhere in it
            found.append(self.tally.first(bucket) if self.largest else self.tally.last(bucket))
        return [found]

    def describe(self, terms: Terms) -> str:
        name = "permute-and-flip" if terms.kind == "permute_and_flip" else "exponential mechanism"
        return f"{name} at rate {float(self.rate(terms)):.6g}, {self.offset(terms):,} rows inside"


@dataclass(frozen=True, slots=True)
class ExtremeOf:
    """The released extreme: its interval reaches from it to the declared bound."""

    extreme: Extreme
    sqltype: SqlType

    def promise(self, terms: Terms, level: Fraction) -> str:
        return (
            f"an estimate: the value with about {self.extreme.offset(terms):,} rows beyond it, "
            f"in a group with that many rows inside the data with {1 - _OUTSIDE:.0%}"
        )

    def column(self, cells: Sequence[list[int]], terms: Terms, level: Fraction) -> Column:
        part = self.extreme.tally.term
        values = [as_value(v, part.quantum, self.sqltype) for v in cells[0]]
        low, high = float(part.lower * part.quantum), float(part.upper * part.quantum)
        ends = [float(v * part.quantum) for v in cells[0]]
        return Column(values, [(x, high) if self.extreme.largest else (low, x) for x in ends])
