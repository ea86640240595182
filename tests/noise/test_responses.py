"""Randomised reports and sums with a chosen clamp: distributions, promised losses, and intervals.

Each p-value is refused below 10^-9, each bound is wrong with a probability of at most 6 * 10^-9, and a coverage is missed by nine
standard deviations: false alarms below 10^-7 in all. A planted fault is missed with a probability below 10^-6.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, pi

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from dpsql.aggregates.auto_sum import AutoSum, magnitudes
from dpsql.aggregates.base import Limits
from dpsql.aggregates.histogram import Counts, Terms
from dpsql.aggregates.randomized_response import Responses, ResponsesOf, answers
from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import BOOLEAN, SqlType
from dpsql.expressions.scalar import column
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.lower_bound import eps_lower
from dpsql.mechanisms.randomized_response import RandomizedResponse
from dpsql.mechanisms.source import SystemNoise
from tests.noise.goodness import p_value
from tests.support.trees import X

ALARM = 1e-9
RUNS = 100_000
LEVEL = Fraction(95, 100)
NOISE = SystemNoise()
FAULT = Fraction(13, 10)
Integers = npt.NDArray[np.int64]


def terms(epsilon: Fraction, rows: int = 1) -> Terms:
    return Terms(Limits(rows, rows), epsilon, "permute_and_flip")


# --- randomised response ------------------------------------------------------------------------------------------


def turned(epsilon: Fraction, rows: int, runs: int) -> Integers:
    reports = RandomizedResponse(epsilon)
    return np.array([reports.turned(NOISE, rows) for _ in range(runs)])


def misfit(drawn: Integers, rows: int, epsilon: float) -> float:
    law = binom(rows, 1 / (1 + exp(epsilon)))
    return p_value(drawn.tolist(), lambda m: float(law.sf(m - 1)), 6.0)


@pytest.mark.parametrize(("epsilon", "rows"), [(Fraction(1, 10), 20), (Fraction(1), 50), (Fraction(3), 300)])
def test_the_number_of_turned_answers_is_binomial(epsilon: Fraction, rows: int) -> None:
    assert misfit(turned(epsilon, rows, 20_000), rows, float(epsilon)) > ALARM


def test_the_fit_notices_reports_that_are_worth_a_third_more() -> None:
    assert misfit(turned(FAULT, 50, 20_000), 50, 1.0) < ALARM


@pytest.mark.slow
def test_reports_of_either_value_keep_their_epsilon() -> None:
    """One answer in place of the other."""
    assert 0.9 < one_report(Fraction(1)) <= 1


@pytest.mark.slow
def test_reports_that_are_worth_a_third_more_are_noticed() -> None:
    assert one_report(FAULT) > 1


def one_report(epsilon: Fraction) -> float:
    """The loss of one report, from its outputs."""
    yes, no = turned(epsilon, 1, RUNS) ^ 1, turned(epsilon, 1, RUNS)
    return eps_lower([yes], [no], 0.0, ALARM)


def responses(epsilon: Fraction) -> Responses:
    return Responses(answers(column(X, BOOLEAN, UNBOUNDED), None), RandomizedResponse(epsilon))


def released(asked: Responses, on: Terms, yes: int, no: int, runs: int) -> Integers:
    """Both noisy numbers of reports in one integer."""
    cells = asked.release([Counts([True, False], [yes, no], [])] * runs, on, NOISE)
    return np.array(cells[0]) * 1000 + np.array(cells[1])


@pytest.mark.slow
@pytest.mark.parametrize(("other", "most"), [((0, 1), Fraction(1)), ((1, 0), Fraction(1, 2))], ids=["more", "instead"])
def test_a_row_more_and_another_answer_keep_their_part_of_the_price(other: tuple[int, int], most: Fraction) -> None:
    """A row more is covered by the noise, another answer in its place by its report."""
    asked, on = responses(Fraction(1, 2)), terms(Fraction(3, 2))
    start = (0, 0) if most == 1 else (0, 1)
    bound = eps_lower([released(asked, on, *start, RUNS)], [released(asked, on, *other, RUNS)], 0.0, ALARM)
    assert most / 4 < bound <= most


@pytest.mark.slow
def test_too_little_noise_on_the_number_of_reports_is_noticed() -> None:
    asked, on = responses(Fraction(1, 2)), terms(Fraction(1, 2) + FAULT)
    assert eps_lower([released(asked, on, 0, 0, RUNS)], [released(asked, on, 0, 1, RUNS)], 0.0, ALARM) > 1


@pytest.mark.few(1)
@pytest.mark.parametrize("rows", [100, 1000, 20_000])
@pytest.mark.parametrize(
    ("epsilon", "price"), [(Fraction(1), Fraction(6, 5)), (Fraction(1, 2), Fraction(2)), (Fraction(4), Fraction(5))]
)
def test_nineteen_of_twenty_intervals_hold_the_exact_number(rows: int, epsilon: Fraction, price: Fraction) -> None:
    """2,000 releases: fewer than 94 % would give with a chance of 10^-9 are too few. It is right on average, too."""
    asked, on, runs = responses(epsilon), terms(price), 2000
    exact = rows // 3
    cells = asked.release([Counts([True, False], [exact, rows - exact], [])] * runs, on, NOISE)
    found = ResponsesOf(asked).column(cells, on, LEVEL)
    hits = sum(low <= exact <= high for low, high in found.intervals)  # type: ignore[misc]
    assert binom.cdf(hits, runs, 0.94) > ALARM
    spread = np.std(found.values) / runs**0.5  # type: ignore[arg-type]
    assert abs(np.mean(found.values) - exact) < 7 * spread  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_squares_of_half_widths_add_up_to_enough(level: float) -> None:
    """A normal draw and two Laplace draws, their sum's tail by its characteristic function (Gil-Pelaez 1951)."""
    asked = responses(Fraction(1))
    p, q = asked.reports.kept, asked.reports.flipped
    t = np.linspace(0, 60, 600_001)[1:]
    for ratio in (0.05, 0.3, 0.7, 1.0, 1.5, 3.0, 10.0):
        scale = 100.0
        sigma = ratio * scale
        rows = round(sigma**2 / (p * q))
        on = terms(1 + 1 / Fraction(scale))
        column = ResponsesOf(asked).column([[rows], [0]], on, Fraction(str(level)))
        _, high = column.intervals[0]  # type: ignore[misc]
        h = (high - float(str(column.values[0]))) * (p - q) / max(sigma, scale)
        s, a, b = (part / max(sigma, scale) for part in (sigma, p * scale, q * scale))
        phi = np.exp(-((s * t) ** 2) / 2) / ((1 + (a * t) ** 2) * (1 + (b * t) ** 2))
        inside = 2 / pi * (np.sum(np.sin(h * t) / t * phi) + h / 2) * (t[1] - t[0])
        assert inside >= level - 1e-4


# --- sums with a chosen clamp -------------------------------------------------------------------------------------


BYTES = magnitudes(column(X, SqlType("TINYINT"), UNBOUNDED), None)
MANY = [(3, 40, 160), (5, 60, 60 * 20)]


def counts(*cells: tuple[int, int, int]) -> Counts:
    """Buckets, their rows and their sums."""
    return Counts([b for b, _, _ in cells], [n for _, n, _ in cells], [s for _, _, s in cells])


def sums(found: Counts, price: Fraction, runs: int) -> Integers:
    """The single integer that is released of a group."""
    totals, clamps = AutoSum(BYTES).release([found] * runs, terms(price), NOISE)
    return np.array(clamps) * 10**6 + np.array(totals)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(5, 61, 60 * 20 + 31), (7, 1, 127)], ids=["one like others", "one beyond all"])
def test_a_row_more_keeps_the_price(more: tuple[int, int, int]) -> None:
    """In its own bucket, or in one that nobody was in."""
    other = counts(MANY[0], more) if more[0] == 5 else counts(*MANY, more)
    price = Fraction(1)
    assert eps_lower([sums(counts(*MANY), price, RUNS)], [sums(other, price, RUNS)], 0.0, ALARM) <= 1


@pytest.mark.parametrize("fault", [Fraction(1), FAULT])
def test_a_sum_that_gets_a_third_less_noise_is_noticed(fault: Fraction) -> None:
    """At a fixed clamp of 32 the sum alone, moved by a value of 100, is worth its share of the price and no more."""
    part = AutoSum(BYTES)
    noise, _ = part.summing(5, terms(Fraction(5, 4) * fault))
    with_row, without = np.array(noise.sample(NOISE, RUNS)) + 32, np.array(noise.sample(NOISE, RUNS))
    bound = eps_lower([with_row], [without], 0.0, ALARM)
    assert (0.5 < bound <= 1) if fault == 1 else bound > 1


@pytest.mark.parametrize("fault", [Fraction(1), FAULT])
def test_counts_that_get_a_third_less_noise_are_noticed(fault: Fraction) -> None:
    noise = AutoSum(BYTES).counting(terms(5 * fault))
    with_row, without = np.array(noise.sample(NOISE, RUNS)) + 1, np.array(noise.sample(NOISE, RUNS))
    bound = eps_lower([with_row], [without], 0.0, ALARM)
    assert (0.5 < bound <= 1) if fault == 1 else bound > 1


def test_the_sum_has_the_noise_that_its_interval_names() -> None:
    part, on = AutoSum(BYTES), terms(Fraction(1))
    cells = part.release([counts((3, 1000, 4000))] * 20_000, on, NOISE)
    totals = [total for total, clamp in zip(*cells, strict=True) if clamp == 8]
    noise = DiscreteLaplace(Fraction(10))
    assert part.summing(3, on) == (noise, 1) and len(totals) > 18_000
    assert p_value([t - 4000 for t in totals], lambda m: float(noise.tail(m)), 10.0) > ALARM
