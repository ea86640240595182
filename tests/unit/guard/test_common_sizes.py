"""What regions have in common, of one with many at once, is what set operations say."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.guard import regions
from dpsql.guard.regions import EVERYTHING, Region, box_of
from dpsql.guard.sizes import Sizes
from dpsql.guard.values import END, START, Axis, ranged
from tests.unit.guard.test_regions import MOST, generated

MODEST = settings(max_examples=100, deadline=None, derandomize=True, database=None)
FREE = Axis("free", "free", ranged=True, nullable=True)
POINT = Axis("point", "point", (), (Fraction(3), Fraction(3)), None, ranged=True)
OPAQUE = Axis("opaque", "opaque", (False, True), opaque=True)
ODD: list[Region] = [
    EVERYTHING,
    box_of(ranged(FREE, [(START, (5, 0))], False)),
    box_of(ranged(FREE, [((4, 1), END)], True)),
    box_of(ranged(FREE, [((1, 0), (2, 0)), ((7, 0), END)], False)),
    box_of(ranged(POINT, [((3, 0), (3, 1))], False)),
    box_of(ranged(POINT, [((3, 1), END)], False)),
    box_of(OPAQUE.of(True)),
    box_of(FREE.null),
]


def exactly(one: Region, other: Region, by_extent: bool) -> float:
    met = regions.both(one, other, MOST)
    return regions.extent(met) if by_extent else regions.share(met)


def filled(by_extent: bool, listed: Sequence[Region]) -> Sizes:
    sizes = Sizes(by_extent)
    for region in listed:
        sizes.add(region)
    return sizes


@pytest.mark.slow
@pytest.mark.parametrize("by_extent", [False, True], ids=["shares", "extents"])
@MODEST
@given(listed=st.lists(generated(), min_size=1, max_size=5), region=generated())
def test_what_one_region_has_in_common_with_others(by_extent: bool, listed: list[Region], region: Region) -> None:
    expected = [exactly(region, other, by_extent) for other in listed]
    sizes = filled(by_extent, listed)
    np.testing.assert_allclose(sizes.common(region), expected, atol=1e-12)
    places = np.arange(len(listed))[::-2]
    np.testing.assert_allclose(sizes.common(region, places), np.array(expected)[places], atol=1e-12)


@pytest.mark.parametrize("by_extent", [False, True], ids=["shares", "extents"])
@pytest.mark.parametrize("place", range(len(ODD)))
def test_without_bounds_with_one_value_and_of_unknown_size(by_extent: bool, place: int) -> None:
    expected = [exactly(ODD[place], other, by_extent) for other in ODD]
    np.testing.assert_allclose(filled(by_extent, ODD).common(ODD[place]), expected, atol=1e-12)


@pytest.mark.slow
@MODEST
@given(listed=st.lists(generated(), max_size=3), later=st.lists(generated(), max_size=3), region=generated())
def test_what_is_forgotten_is_as_if_it_had_never_been(
    listed: list[Region], later: list[Region], region: Region
) -> None:
    sizes = filled(False, listed)
    mark = sizes.mark()
    for other in later:
        sizes.add(other)
    sizes.common(region)
    sizes.back_to(mark)
    assert sizes.mark() == mark
    again = filled(False, [*listed, *later])
    for other in later:
        sizes.add(other)
    np.testing.assert_array_equal(sizes.common(region), again.common(region))
