"""The reports of a randomized table: k-ary randomised response of one declared column, as many as there are declared people (rule 72).

Of n units with a value the first N answer, in an order drawn anew; where there are fewer, the reports that are missing are uniform over
the k values. So there are N reports exactly, and N is public. A table of one column in random order says what its k numbers say.

One unit more or less, with the others' order as it is: either it is not among the first N, and nothing changes; or it takes the place
of the N-th unit, one answer for another; or of a missing report, an answer for a uniform one. Each is epsilon-DP
(mechanisms/randomized_response.py), whatever the order, so the mixture over all orders is.

Y reports of a value are p y + q (N - y) on average where y of N units have it, so (Y - q N) / (p - q) is y on average: the debiased
count. It is linear in Y: those of some values, added up, are that of all of them. Each unit that is missing adds 1 / k to every value.

Source: Kairouz, Bonawitz, Ramage 2016, Discrete Distribution Estimation under Local Privacy.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from dpsql.aggregates.histogram import Counts, OverHistogramDefaults, Terms
from dpsql.aggregates.mode import ListedHistogram
from dpsql.aggregates.telling import Say
from dpsql.core.events import Event
from dpsql.core.wording import counted
from dpsql.mechanisms.conversions import PURE
from dpsql.mechanisms.randomized_response import RandomizedResponse
from dpsql.mechanisms.source import NoiseSource


@dataclass(frozen=True, slots=True)
class Reports(OverHistogramDefaults):
    """The number of reports of each listed value, in the order of the list.

    population  [units] that report
    """

    histogram: ListedHistogram
    population: int

    cost = "one report"

    @property
    def cells(self) -> int:
        return len(self.histogram.values)

    @property
    def identity(self) -> Hashable:
        return "reports", self.population, self.histogram.identity

    def response(self, terms: Terms) -> RandomizedResponse:
        return RandomizedResponse(terms.per_row, self.cells)

    def events(self, terms: Terms) -> tuple[Event, ...]:
        return (PURE.event(terms.epsilon),)

    def release(self, groups: Sequence[Counts], terms: Terms, noise: NoiseSource) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(self.cells)]
        for counts in groups:
            rows = dict(zip(counts.values, counts.counts, strict=True))
            # a value that is not declared is none
            answers = first([rows.get(value, 0) for value in self.histogram.values], self.population, noise)
            missing = self.population - sum(answers)
            for cell, number in zip(found, self.response(terms).reports(noise, answers, missing), strict=True):
                cell.append(number)
        return found

    def told(self, say: Say) -> str:
        values = counted(self.cells, "declared value")
        return f"one of {values} of {say(self.histogram.scalar)} for each of {self.population:,} people, reported at random"

    def bounds_told(self, say: Say) -> list[str]:
        return [f"{say(self.histogram.scalar)} is reported at random, by as many as are declared"]

    def describe(self, terms: Terms) -> str:
        one = self.response(terms)
        return f"{one.describe()}: kept with probability {one.kept:.4g}, else one of the {self.cells - 1} others"


def first(answers: Sequence[int], most: int, source: NoiseSource) -> list[int]:
    """The answers of the first units in an order drawn anew: those beyond are taken away, each unit as likely."""
    found = list(answers)
    for left in range(sum(found), most, -1):
        drawn, place = source.below(left), 0
        while drawn >= found[place]:
            drawn -= found[place]
            place += 1
        found[place] -= 1
    return found


@dataclass(frozen=True, slots=True)
class Debiased:
    """The estimated number of units with each value: right on average, so it may be below 0.

    response  that was drawn by
    """

    response: RandomizedResponse

    def estimates(self, reports: Sequence[int]) -> list[float]:
        """[units] Of each value."""
        p, q, all_of = self.response.kept, self.response.flipped, sum(reports)
        return [(number - q * all_of) / (p - q) for number in reports]

    def half_widths(self, reports: Sequence[int], level: Fraction) -> list[float]:
        """[units] Of each estimate, by the normal approximation and half a report more.

        Why  y reports are kept or not, each with variance p (1 - p), and the others are of this value or not, with q (1 - q)
        """
        p, q, all_of = self.response.kept, self.response.flipped, sum(reports)
        z = NormalDist().inv_cdf((1 + float(level)) / 2)
        held = [min(max(one, 0.0), all_of) for one in self.estimates(reports)]
        spread = [math.sqrt(y * p * (1 - p) + (all_of - y) * q * (1 - q)) for y in held]
        return [(z * one + 0.5) / (p - q) for one in spread]
