"""Regions beside a model of them: sets of points."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpsql.guard import regions
from dpsql.guard.regions import EVERYTHING, NOTHING, Box, Region, Tangled
from dpsql.guard.values import END, START, Axis, Cut, Listed, Values, ranged

MODEST = settings(max_examples=100, deadline=None, derandomize=True, database=None)
MOST = 100_000
FEW = 1e-5
"""What undeclared values that are asked for by name have in the extent."""

LISTED = Axis("listed", "listed", ("a", "b", "c"), nullable=True)
FLAG = Axis("flag", "flag", (False, True))
WHOLE = Axis("whole", "whole", (), (Fraction(0), Fraction(6)), Fraction(1), ranged=True, integral=True)
REAL = Axis("real", "real", (), (Fraction(0), Fraction(4)), None, nullable=True, ranged=True)
AXES = (LISTED, FLAG, WHOLE, REAL)
NUMBERS = [Fraction(n, 2) for n in range(-3, 12)]
"""Every number that a cut is made at, those between them, and some beyond the bounds."""
POINTS: dict[str, list[object]] = {
    "listed": [None, "a", "b", "c", "odd", "other"],
    "flag": [None, False, True, "neither"],
    "whole": [None, *range(-2, 9)],
    "real": [None, *NUMBERS],
}

Point = tuple[object, ...]
EVERY = frozenset(product(*(POINTS[axis.key] for axis in AXES)))


def holds(values: Values, value: object) -> bool:
    if isinstance(values, Listed):
        count = len(values.axis.values)
        if value is None or value in values.axis.values:
            place = (
                count
                if value is None
                else values.axis.values.index(str(value) if values.axis is LISTED else bool(value))
            )
            return bool(values.bits >> place & 1)
        return bool(values.bits >> (count + 1) & 1) != (value in values.odd)
    if value is None:
        return values.null
    assert isinstance(value, int | Fraction)
    return any(low <= (Fraction(value), 0) < high for low, high in values.pieces)


def points(region: Region) -> frozenset[Point]:
    """The points of a region; its boxes do not overlap."""
    found: list[Point] = []
    for box in region:
        kept = [
            [value for value in POINTS[axis.key] if axis.key not in box or holds(box[axis.key], value)] for axis in AXES
        ]
        found += product(*kept)
    assert len(found) == len(set(found)), "boxes overlap"
    return frozenset(found)


# --- generated regions ------------------------------------------------------------------------------------------------


@st.composite
def listed(draw: st.DrawFn, axis: Axis) -> Values:
    odd = frozenset(["odd"]) if axis is LISTED and draw(st.booleans()) else frozenset()
    return Listed(axis, draw(st.integers(0, (1 << (len(axis.values) + 2)) - 1)), odd)


def cuts() -> st.SearchStrategy[Cut]:
    inner = st.tuples(st.integers(0, 4).map(Fraction), st.integers(0, 1))
    return st.one_of(st.just(START), st.just(END), inner)


@st.composite
def numbers(draw: st.DrawFn, axis: Axis) -> Values:
    ends = sorted(draw(st.lists(cuts(), min_size=0, max_size=6)))
    pieces = [(a, b) for a, b in zip(ends[::2], ends[1::2], strict=False) if a < b]
    return ranged(axis, pieces, draw(st.booleans()))


def values_of(axis: Axis) -> st.SearchStrategy[Values]:
    return numbers(axis) if axis.ranged else listed(axis)


@st.composite
def boxes(draw: st.DrawFn) -> Region:
    box: Box = {}
    for axis in draw(st.sets(st.sampled_from(AXES), max_size=3)):
        values = draw(values_of(axis))
        if values.is_empty:
            return NOTHING
        if not values.is_whole:
            box[axis.key] = values
    return (box,)


@st.composite
def generated(draw: st.DrawFn) -> Region:
    """A region made as conditions make it."""
    found = NOTHING
    for box in draw(st.lists(boxes(), min_size=1, max_size=4)):
        found = regions.either(found, box, MOST)
    return regions.others(found) if draw(st.booleans()) and len(found) < 3 else found


# --- set operations ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@MODEST
@given(generated(), generated())
def test_operations_are_those_of_sets(one: Region, other: Region) -> None:
    first, second = points(one), points(other)
    assert points(regions.both(one, other, MOST)) == first & second
    assert points(regions.but_not(one, other, MOST)) == first - second
    assert points(regions.either(one, other, MOST)) == first | second
    assert regions.meet(one, other) == bool(first & second)


@pytest.mark.slow
@MODEST
@given(generated())
def test_others_and_joined(region: Region) -> None:
    assert points(regions.joined(region)) == points(region)
    assert len(regions.joined(region)) <= len(region)
    try:
        assert points(regions.others(region)) == EVERY - points(region)
    except Tangled:
        assert len(region) > 2


@pytest.mark.slow
@MODEST
@given(generated(), generated())
def test_equal_sets_differ_by_nothing(one: Region, other: Region) -> None:
    """The same set in other boxes: a region put together again of its parts."""
    parts = (*regions.both(one, other, MOST), *regions.but_not(one, other, MOST))
    assert regions.but_not(parts, one, MOST) == NOTHING == regions.but_not(one, parts, MOST)
    assert regions.share(parts) == pytest.approx(regions.share(one))
    assert regions.extent(parts) == pytest.approx(regions.extent(one), abs=FEW)


@pytest.mark.slow
@MODEST
@given(generated(), generated())
def test_within_is_a_subset_up_to_what_is_void(one: Region, other: Region) -> None:
    assume(not any(isinstance(v, Listed) and v.odd for box in (*one, *other) for v in box.values()))
    expected = {point for point in points(one) - points(other) if not _is_void(point)}
    assert regions.within(one, other) == (not expected)
    assert points(regions.without_void(one)) >= {point for point in points(one) if not _is_void(point)}


def _is_void(point: Point) -> bool:
    """Whether a point has a value that nobody is expected to have; a value that is asked for by name is none."""
    listed_value, flag, whole, real = point
    return (
        listed_value in ("odd", "other")
        or flag not in (False, True)
        or whole is None
        or not 0 <= int(str(whole)) <= 6
        or not (real is None or 0 <= Fraction(str(real)) <= 4)
    )


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@MODEST
@given(generated(), generated())
def test_shares_and_measures_add_up_over_disjoint_parts(one: Region, other: Region) -> None:
    met, rest = regions.both(one, other, MOST), regions.but_not(one, other, MOST)
    for size, slack in ((regions.share, 1e-9), (regions.extent, FEW)):
        assert size(met) + size(rest) == pytest.approx(size(one), abs=slack)
        assert -slack <= size(one) <= 1 + slack
    assert regions.common(one, other) == pytest.approx(regions.extent(met))


@pytest.mark.slow
@MODEST
@given(generated())
def test_only_what_is_void_has_no_measure(region: Region) -> None:
    assume(not any(isinstance(v, Listed) and v.odd for box in region for v in box.values()))
    assert (regions.extent(region) > 1e-12) == any(not _is_void(point) for point in points(region))


def test_everything_and_nothing() -> None:
    assert regions.share(EVERYTHING) == regions.extent(EVERYTHING) == 1
    assert regions.share(NOTHING) == regions.extent(NOTHING) == 0
    assert regions.others(EVERYTHING) == NOTHING and regions.others(NOTHING) == EVERYTHING
    assert regions.box_of(REAL.whole) == EVERYTHING and regions.box_of(REAL.nothing) == NOTHING


def test_what_was_cut_grows_together_again() -> None:
    cells: Region = tuple({"listed": LISTED.of(v), "flag": FLAG.of(w)} for v in (*"abc", None) for w in (False, True))
    (box,) = regions.joined(cells)
    assert points((box,)) == points(cells)


def test_what_has_too_many_boxes_is_not_made() -> None:
    axes = [Axis(f"x{i}", f"x{i}", (), None, None, ranged=True) for i in range(12)]
    with pytest.raises(Tangled):
        regions.but_not(EVERYTHING, _grid(axes), 64)
    with pytest.raises(Tangled):
        regions.both(_grid(axes[:6]), _grid(axes[6:]), 64)


def _grid(axes: list[Axis]) -> Region:
    def cells() -> Iterator[Box]:
        for chosen in product((1, 2), repeat=len(axes)):
            yield {axis.key: axis.of(number) for axis, number in zip(axes, chosen, strict=True)}

    return tuple(cells())
