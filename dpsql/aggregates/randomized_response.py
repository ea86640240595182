"""dp_randomized_response(condition, epsilon): how many rows fulfil a condition, from randomised reports of all of them (rule 25).

Every counted row reports yes or no, and its report is turned round with probability q = 1 / (e^epsilon + 1), p = 1 - q. The numbers of
both reports then get discrete Laplace noise: Y of yes, N of no. With y rows that fulfil the condition of n, Y is p y + q (n - y) on
average and Y + N is n, so (p Y - q N) / (p - q) is y on average.

A unit with at most K rows in all groups pays K epsilon for its reports, the whole loss of having other values in those rows while it
is known that they are there. The reports alone would show how many rows there are: a unit's rows move the two numbers by at most K in
L1, whatever they report, and Laplace noise of scale K / epsilon' loses epsilon' for that. The price is at least K epsilon, and what it
has beyond is epsilon': K epsilon + epsilon' together.

Rows where the condition is NULL do not report.

Source: Warner 1965, Randomized Response; the noise on the number of reports is that of a histogram (Dwork et al. 2006).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from dpsql.aggregates.base import ReleasedColumn
from dpsql.aggregates.histogram import Counts, OverHistogramDefaults, Terms
from dpsql.aggregates.mode import VALUE, ListedHistogram
from dpsql.aggregates.record import Aggregate, Around, Built, Given, Record
from dpsql.aggregates.telling import Say, where
from dpsql.core.errors import error
from dpsql.core.events import Event
from dpsql.core.sqltypes import DOUBLE
from dpsql.expressions.scalar import Scalar
from dpsql.mechanisms.conversions import PURE
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.randomized_response import LEAST, MOST, RandomizedResponse
from dpsql.mechanisms.source import NoiseSource


def answers(condition: Scalar, counted: Scalar | None) -> ListedHistogram:
    """The histogram of a condition."""
    return ListedHistogram(condition, VALUE, (False, True), counted)


@dataclass(frozen=True, slots=True)
class Responses(OverHistogramDefaults):
    """The noisy numbers of reports of each group: yes, no."""

    histogram: ListedHistogram
    reports: RandomizedResponse

    cells = 2
    cost = "one of two numbers of reports by 1"

    @property
    def identity(self) -> Hashable:
        return "randomised responses", self.reports.epsilon, self.histogram.identity

    def left(self, terms: Terms) -> Fraction:
        """epsilon for each row beside its report [nats]; nothing can be released where it is not above 0."""
        return terms.per_row - self.reports.epsilon

    def noise(self, terms: Terms) -> DiscreteLaplace:
        """Of the numbers of reports."""
        return DiscreteLaplace(1 / self.left(terms))

    def events(self, terms: Terms) -> tuple[Event, ...]:
        return (PURE.event(terms.epsilon),)

    def release(self, groups: Sequence[Counts], terms: Terms, noise: NoiseSource) -> list[list[int]]:
        draws = self.noise(terms).sample(noise, 2 * len(groups))
        found: list[list[int]] = [[], []]
        for i, counts in enumerate(groups):
            rows = {bool(value): count for value, count in zip(counts.values, counts.counts, strict=True)}
            yes, no = rows.get(True, 0), rows.get(False, 0)
            moved = self.reports.turned(noise, no) - self.reports.turned(noise, yes)
            found[0].append(yes + moved + draws[2 * i])
            found[1].append(no - moved + draws[2 * i + 1])
        return found

    @property
    def of_each_row(self) -> Fraction:
        return self.reports.epsilon

    def told(self, say: Say) -> str:
        kept = where(self.histogram.counted, say)
        return f"reports of whether {say(self.histogram.scalar)}, some of them turned round{kept}"

    def bounds_told(self, say: Say) -> list[str]:
        return [f"whether {say(self.histogram.scalar)} is reported at random, and the number of reports has noise"]

    def describe(self, terms: Terms) -> str:
        return f"{self.reports.describe()}; the numbers of reports by {self.noise(terms).describe()}"


@dataclass(frozen=True, slots=True)
class ResponsesOf:
    """The estimated number of rows that fulfil the condition: right on average, so it may be below 0 or above all rows.

    Why  the interval adds the squares of two half-widths: z standard deviations of the reports, by the normal approximation for two
         Laplace scales more reports than were released, and that of the Laplace noise (no less than z of its own standard
         deviations). The quantile of a sum of the two, in standard deviations, is between theirs and nearer to the normal one than
         their squares are, which tests/noise/test_responses.py works out. Half a report is added, as reports are whole
    """

    responses: Responses

    sqltype = DOUBLE

    def promise(self, terms: Terms, level: Fraction) -> str:
        spread, flat = self._spread(level), self._flat(terms, level)
        return f"{100 * float(level):g} % half-width sqrt({flat:.3g}^2 + {spread:.3g}^2 n) for n rows"

    def column(self, cells: Sequence[Sequence[int]], terms: Terms, level: Fraction) -> ReleasedColumn:
        p, q = self.responses.reports.kept, self.responses.reports.flipped
        spread, flat, more = self._spread(level), self._flat(terms, level), 2 * float(self.responses.noise(terms).scale)
        half = 0.5 / (p - q)
        values: list[object] = []
        intervals: list[tuple[float, float] | None] = []
        for yes, no in zip(*cells, strict=True):
            value = (p * yes - q * no) / (p - q)
            h = math.hypot(flat, spread * math.sqrt(max(0, yes + no) + more)) + half
            values.append(value)
            intervals.append((max(0.0, value - h), max(1.0, value + h)))
        return ReleasedColumn(values, intervals)

    def _spread(self, level: Fraction) -> float:
        """The half-width of one report's randomness, in rows of the estimate."""
        p, q = self.responses.reports.kept, self.responses.reports.flipped
        return _normal(level) * math.sqrt(p * q) / (p - q)

    def _flat(self, terms: Terms, level: Fraction) -> float:
        """The half-width of the Laplace noise, in rows of the estimate."""
        p, q = self.responses.reports.kept, self.responses.reports.flipped
        noise = self.responses.noise(terms)
        deviations = _normal(level) * math.sqrt(2 * (p * p + q * q)) * float(noise.scale)
        return max(noise.half_width_of_weights((p, q), level), deviations) / (p - q)


def _normal(level: Fraction) -> float:
    return NormalDist().inv_cdf((1 + float(level)) / 2)


def _reports(aggregate: Aggregate, value: Scalar, _: Around) -> tuple[Responses, ResponsesOf]:
    assert aggregate.number is not None
    responses = Responses(answers(value, aggregate.condition), RandomizedResponse(aggregate.number))
    return responses, ResponsesOf(responses)


_HINT = "write dp_randomized_response(plan = 3, 1.0)"


def _epsilon(given: Given) -> Built:
    """The condition, and the epsilon of each report."""
    if len(given.constants) != 1 or given.named:
        raise error(106, "dp_randomized_response takes a condition and the epsilon of each report", hint=_HINT)
    if not given.value.sqltype.is_boolean:
        what = f"dp_randomized_response needs true or false, not {given.value.sqltype}"
        raise error(106, what, hint=f"{_HINT}, one of its values at a time")
    (epsilon,) = given.constants
    if not isinstance(epsilon, int | Fraction) or not LEAST <= epsilon <= MOST:
        what = f"the epsilon of dp_randomized_response must be a constant from {float(LEAST):g} to {float(MOST):g}"
        raise error(106, what, hint=_HINT)
    return Built(given.value, (Fraction(epsilon),))


RANDOMIZED_RESPONSE = Record(
    "randomized_response", {"dp_randomized_response(condition, 1.0)": "DOUBLE, how many answer yes, by reports at random"},
    "an estimate from reports of whether {value}", "dp_randomized_response({value}, {number})",
    "dp_randomized_response", build=_epsilon, over_parts="sum", booleans=True, histogram=_reports,
)  # fmt: skip
