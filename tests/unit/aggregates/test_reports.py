"""Reports of a randomized table: exactly as many as are declared, each at its epsilon, and what is estimated of them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import exp

import numpy as np
import pytest
from scipy.stats import chisquare

from dpsql.aggregates import reports as of_reports
from dpsql.aggregates.base import Limits
from dpsql.aggregates.histogram import Counts, Terms
from dpsql.aggregates.mode import VALUE, ListedHistogram
from dpsql.aggregates.reports import Debiased, Reports, first
from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import INTEGER
from dpsql.expressions.scalar import column
from dpsql.mechanisms import randomized_response
from dpsql.mechanisms.randomized_response import LEAST, MOST, RandomizedResponse, evenly
from dpsql.mechanisms.source import SystemNoise
from tests.support.noise import ZeroNoise
from tests.support.trees import X

NOISE = SystemNoise()
ALARM = 1e-9
Patch = pytest.MonkeyPatch


def reports(values: int, population: int) -> Reports:
    histogram = ListedHistogram(column(X, INTEGER, UNBOUNDED), VALUE, tuple(range(values)), None)
    return Reports(histogram, population)


def terms(epsilon: Fraction) -> Terms:
    return Terms(Limits(1, 1), epsilon, "permute_and_flip")


def released(asked: Reports, answers: list[int], epsilon: Fraction, times: int = 1) -> list[list[int]]:
    """Of each release the number of reports of each value."""
    group = Counts(list(range(len(answers))), answers, [])
    cells = asked.release([group] * times, terms(epsilon), NOISE)
    return [list(one) for one in zip(*cells, strict=True)]


def odds(asked: Reports, epsilon: Fraction) -> Fraction:
    """The chance of a report of the value that was given over that of another one, by the coins that are thrown."""
    flips = asked.response(terms(epsilon)).flips
    return Fraction(2**64 - flips) / Fraction(flips, asked.cells - 1)


@pytest.mark.parametrize("values", [2, 3, 7, 100])
@pytest.mark.parametrize("epsilon", [LEAST, Fraction(1, 3), Fraction(1), Fraction(5), MOST])
def test_a_report_is_worth_its_epsilon_and_hardly_less(epsilon: Fraction, values: int) -> None:
    """So is a uniform report beside it: each value has at least the chance 1 / k of being kept, and at most that of being another's."""
    asked = reports(values, 10)
    most = Fraction(exp(float(epsilon))) * (1 + Fraction(1, 10**12))
    assert odds(asked, epsilon) <= most and (epsilon > 20 or odds(asked, epsilon) > most * (1 - Fraction(1, 10**6)))
    one = asked.response(terms(epsilon))
    assert one.flipped <= 1 / values <= one.kept + 1e-12


def test_there_are_as_many_reports_as_are_declared() -> None:
    for answers in ([0, 0, 0], [3, 0, 1], [50, 20, 30], [400, 1, 900]):
        ((*found,),) = released(reports(3, 100), answers, Fraction(1))
        assert sum(found) == 100 and min(found) >= 0


def test_a_value_that_is_not_declared_reports_like_who_is_missing() -> None:
    asked = reports(2, 1000)
    cells = asked.release([Counts([0, 9], [500, 500], [])], terms(MOST), ZeroNoise())
    assert cells == [[750], [250]]


EXPECTED = [
    # answers, population, the chance that the one report is of each value
    ([1, 0, 0], 1, lambda p, q: (p, q, q)),
    ([0, 0, 0], 1, lambda p, q: (1 / 3, 1 / 3, 1 / 3)),
    ([2, 1, 0], 1, lambda p, q: ((2 * p + q) / 3, (p + 2 * q) / 3, q)),
]


def misfit(answers: list[int], population: int, law: Callable[[float, float], tuple[float, ...]]) -> float:
    epsilon, values, times = Fraction(3, 2), len(answers), 20_000
    p = exp(float(epsilon)) / (exp(float(epsilon)) + values - 1)
    drawn = np.array(released(reports(values, population), answers, epsilon, times)).sum(axis=0)
    return float(chisquare(drawn, times * np.array(law(p, (1 - p) / (values - 1)))).pvalue)


@pytest.mark.parametrize(("answers", "population", "law"), EXPECTED)
def test_reports_have_their_distribution(
    answers: list[int], population: int, law: Callable[..., tuple[float, ...]]
) -> None:
    """One person who answers, one who is missing, and three of whom one is first."""
    assert misfit(answers, population, law) > ALARM


def test_what_is_drawn_evenly_is_even() -> None:
    for values in (2, 3, 10):
        drawn = evenly(NOISE, 200_000, values)
        assert sum(drawn) == 200_000 and chisquare(drawn).pvalue > ALARM


def test_the_estimate_is_right_on_average_and_its_interval_holds() -> None:
    """Of 2,000 releases of 900 reports: the mean within six of its standard deviations, and the coverage within six of its own."""
    answers, epsilon, times = [500, 300, 90, 10], Fraction(1), 2000
    debiased, asked = Debiased(RandomizedResponse(epsilon, 4)), reports(4, 900)
    drawn = released(asked, answers, epsilon, times)
    estimates = np.array([debiased.estimates(one) for one in drawn])
    widths = np.array([debiased.half_widths(one, Fraction(95, 100)) for one in drawn])
    errors = estimates.mean(axis=0) - answers
    assert (np.abs(errors) < 6.5 * estimates.std(axis=0) / times**0.5).all()
    held = (np.abs(estimates - answers) <= widths).mean(axis=0)
    assert (held > 0.92).all() and (held < 0.98).all(), held


# --- faults -----------------------------------------------------------------------------------------------------------


def list_is_taken_for_two_values(patch: Patch) -> None:
    """The chance of another report is that of yes or no, whatever the length of the list."""
    original = randomized_response._flips.__wrapped__
    patch.setattr(randomized_response, "_flips", lambda epsilon, values: original(epsilon, 2))


def others_are_one_more(patch: Patch) -> None:
    """As if the value itself were among the others that it is exchanged for."""
    original = randomized_response._flips.__wrapped__
    patch.setattr(
        randomized_response, "_flips", lambda epsilon, values: original(epsilon, values + 1) * (values - 1) // values
    )


@pytest.mark.parametrize("fault", [list_is_taken_for_two_values, others_are_one_more], ids=lambda fault: fault.__name__)
def test_a_planted_chance_is_caught(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_report_is_worth_its_epsilon_and_hardly_less(Fraction(1), 7)


def missing_do_not_report(patch: Patch) -> None:
    original = RandomizedResponse.reports
    patch.setattr(
        RandomizedResponse, "reports", lambda self, noise, answers, missing: original(self, noise, answers, 0)
    )


def all_report(patch: Patch) -> None:
    patch.setattr(of_reports, "first", lambda answers, most, noise: list(answers))


@pytest.mark.parametrize("fault", [missing_do_not_report, all_report], ids=lambda fault: fault.__name__)
def test_a_number_that_shows_who_is_there_is_caught(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        test_there_are_as_many_reports_as_are_declared()


def missing_have_a_value(patch: Patch) -> None:
    """The first value is reported for each who is missing, which says that they are."""
    original = RandomizedResponse.reports

    def with_first(self: RandomizedResponse, noise: SystemNoise, answers: list[int], missing: int) -> list[int]:
        found = original(self, noise, answers, 0)
        return [found[0] + missing, *found[1:]]

    patch.setattr(RandomizedResponse, "reports", with_first)


def last_value_is_never_taken(patch: Patch) -> None:
    """Those beyond the declared number are taken away from the first value as long as there are any."""

    def from_the_first(answers: list[int], most: int, noise: SystemNoise) -> list[int]:
        found, beyond = list(answers), max(0, sum(answers) - most)
        for place, count in enumerate(answers):
            found[place] -= min(count, beyond)
            beyond -= min(count, beyond)
        return found

    patch.setattr(of_reports, "first", from_the_first)


@pytest.mark.parametrize(
    ("fault", "case"), [(missing_have_a_value, 1), (last_value_is_never_taken, 2)], ids=["missing", "beyond"]
)
def test_a_planted_distribution_is_caught(fault: Callable[[Patch], None], case: int, monkeypatch: Patch) -> None:
    fault(monkeypatch)
    assert misfit(*EXPECTED[case]) < ALARM


def test_all_units_may_be_first() -> None:
    assert first([3, 4], 7, NOISE) == [3, 4] and sum(first([3, 4], 2, NOISE)) == 2
