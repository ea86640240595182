"""Intervals of groups whose key was selected privately, judged on the groups that are shown: what selection does to them.

A group is shown because its number of people came out high. So among the shown ones the interval of that number holds the exact one
less often where few people more would be needed; that of everything else is as it was, since its noise is drawn afterwards, alone.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy import stats

from dpsql.aggregates.base import Limits
from dpsql.aggregates.count import Rows
from dpsql.aggregates.count_distinct import Units
from dpsql.mechanisms.source import SystemNoise
from dpsql.planner.pricing import Pricing, noisy, selecting

LEVEL = Fraction(95, 100)
DRAWS = 20_000
EPSILON = Fraction(1, 10)
PRICING = Pricing("laplace", False, Fraction(1, 10**6), Fraction(0), Fraction(1))
SCALE = 10


def shown(people: int) -> tuple[int, int]:
    """The number of draws that show the group, and of those intervals that hold its number of people."""
    measure, selection = selecting("m0", Units(None), Limits(1, 1), EPSILON, PRICING)
    h = measure.noise.half_width(LEVEL)
    released = [z for z in measure.noise.sample(SystemNoise(), DRAWS) if people + z >= selection.tau]
    return len(released), sum(abs(z) <= h for z in released)


def threshold() -> int:
    return selecting("m0", Units(None), Limits(1, 1), EPSILON, PRICING)[1].tau


def test_well_above_the_threshold_nothing_changes() -> None:
    """Five scales above, all but 0.3 % of the draws show the group."""
    count, hits = shown(threshold() + 5 * SCALE)
    assert stats.binom.ppf(1e-6, count, 0.94) <= hits <= stats.binom.ppf(1 - 1e-6, count, 0.965)


@pytest.mark.parametrize("scales", [1, 2])
def test_below_the_threshold_the_interval_holds_less_often(scales: int) -> None:
    """Shown for noise z >= d = s scales, of which those with z > h lie outside: 1 - e^(-(h + 1 - d) / 10) hold, 85 % and 67 %."""
    below = scales * SCALE
    count, hits = shown(threshold() - below)
    h = selecting("m0", Units(None), Limits(1, 1), EPSILON, PRICING)[0].noise.half_width(LEVEL)
    expected = -math.expm1(-(math.floor(h) + 1 - below) / SCALE)
    assert expected < 0.94
    assert stats.binom.ppf(1e-6, count, expected) <= hits <= stats.binom.ppf(1 - 1e-6, count, expected)


def test_what_stands_beside_the_number_of_people_is_covered() -> None:
    """Its noise is drawn for the shown groups, after they are selected."""
    measure = noisy("m1", Rows(None), Limits(3, 1), EPSILON, PRICING)
    h = measure.noise.half_width(LEVEL)
    hits = sum(abs(z) <= h for z in measure.noise.sample(SystemNoise(), DRAWS))
    assert stats.binom.ppf(1e-6, DRAWS, 0.94) <= hits <= stats.binom.ppf(1 - 1e-6, DRAWS, 0.965)
