"""Intervals of released columns: within what is possible, never of width 0, and no narrower where the exact value may be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.aggregates.count import counted
from dpsql.aggregates.ends import ConfidenceBounds, LaterBounds

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


@given(NUMBERS, st.floats(0, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1e6), NUMBERS)
def test_what_is_possible_keeps_every_exact_value(
    value: float, h: float, least: float, width: float, exact: float
) -> None:
    most = least + width
    exact = min(max(exact, least), most)
    low, high = ConfidenceBounds(np.array([value - h]), np.array([value + h])).within(least, most, 0.5)[0] or (0, 0)
    assert least <= low <= high <= most and (low < high or least == most)
    if value - h <= exact <= value + h:
        assert low <= exact <= high


@given(st.integers(0, 10_000), st.floats(-400, 400), st.floats(0, 400))
def test_a_count_keeps_every_whole_number_that_it_may_be(exact: int, noise: float, h: float) -> None:
    column = counted(np.array([exact + noise]), h)
    low, high = column.intervals[0] or (0, 0)
    assert 0 <= low < high and low == math.floor(low) and high == math.floor(high)
    if abs(noise) <= h:
        assert low <= exact <= high


def test_an_interval_of_width_0_is_widened_by_the_grid_alone() -> None:
    assert ConfidenceBounds.around([7.0, -40.0], 0.0, 1, 0)[:].high.tolist() == [8, 1]
    assert ConfidenceBounds.around([7.0, -40.0], 0.0, 1, 0)[:].low.tolist() == [6, 0]
    average = ConfidenceBounds(np.array([-3.0, np.nan]), np.array([-1.0, np.nan])).within(0.0, 10.0, 0.25)
    assert [average[0], average[1]] == [(0.0, 0.25), None]


@pytest.mark.parametrize("h", [0.0, 30.0])
def test_none_is_changed_that_is_possible(h: float) -> None:
    assert ConfidenceBounds.around([100.0], 30.0 + h, 1, 0)[0] == (70.0 - h, 130.0 + h)


def test_intervals_are_worked_out_once_and_only_where_one_is_read() -> None:
    made: list[int] = []

    def bounds() -> ConfidenceBounds:
        made.append(1)
        return ConfidenceBounds.around([7.0, 40.0], 1.0, 1)

    later = LaterBounds(2, bounds)
    assert len(later) == 2 and not made
    assert list(later) == [(6.0, 8.0), (39.0, 41.0)] == [later[0], later[-1]] and later[1:].low.tolist() == [39]
    assert len(made) == 1
