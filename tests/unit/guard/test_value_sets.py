"""Sets of values of one column beside a model of them, and what is expected to have one of them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.domains import Value
from dpsql.guard.values import END, NULL_SHARE, START, Axis, Cut, Listed, Values, ranged

MODEST = settings(max_examples=120, deadline=None, derandomize=True, database=None)
CITY = Axis("city", "city", ("a", "b", "c"), nullable=True)
SITE = Axis("site", "site", (1, 2, 3, 4))
MANY = Axis("many", "many", tuple(range(70)), nullable=True)
FREE = Axis("free", "free")
AGE = Axis("age", "age", (), (Fraction(10), Fraction(20)), Fraction(1), ranged=True, integral=True)
CODE = Axis("code", "code", (), None, Fraction(1), nullable=True, ranged=True, integral=True)
WEIGHT = Axis("weight", "weight", (), (Fraction(10), Fraction(20)), Fraction(1, 2), nullable=True, ranged=True)
INCOME = Axis("income", "income", (), (Fraction(10), Fraction(20)), None, ranged=True)
POINT = Axis("point", "point", (), (Fraction(15), Fraction(15)), None, ranged=True)
FEW = 1e-5
"""What undeclared values that are asked for by name have in the extent."""
AXES = (CITY, SITE, MANY, FREE, AGE, CODE, WEIGHT, INCOME, POINT)
QUARTERS = [Fraction(n, 4) for n in range(24, 97)]


def points(axis: Axis) -> list[object]:
    """Values of a column: all that a generated set tells apart."""
    if axis.ranged:
        return [None, *((int(n) for n in QUARTERS if n.denominator == 1) if axis.integral else QUARTERS)]
    return [None, *axis.values, "odd", "other", 997, 998]


def holds(values: Values, value: object) -> bool:
    if isinstance(values, Listed):
        places = [i for i, listed in enumerate(values.axis.values) if listed == value]
        count = len(values.axis.values)
        if value is None or places:
            return bool(values.bits >> (places[0] if places else count) & 1)
        return bool(values.bits >> count + 1 & 1) != (value in values.odd)
    if value is None:
        return values.null
    assert isinstance(value, int | Fraction)
    return any(low <= (Fraction(value), 0) < high for low, high in values.pieces)


def model(values: Values) -> set[object]:
    return {value for value in points(values.axis) if holds(values, value)}


def cuts() -> st.SearchStrategy[Cut]:
    inner = st.tuples(st.integers(14, 46).map(lambda n: Fraction(n, 2)), st.integers(0, 1))
    return st.one_of(st.just(START), st.just(END), inner, inner, inner)


@st.composite
def sets(draw: st.DrawFn, axis: Axis) -> Values:
    if axis.ranged:
        ends = sorted(draw(st.lists(cuts(), max_size=8)))
        return ranged(axis, list(zip(ends[::2], ends[1::2], strict=False)), draw(st.booleans()))
    undeclared: list[Value] = ["odd", 997]
    odd = draw(st.frozensets(st.sampled_from(undeclared), max_size=2))
    return Listed(axis, draw(st.integers(0, (1 << (len(axis.values) + 2)) - 1)), odd)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Values, Values]:
    axis = draw(st.sampled_from(AXES))
    return draw(sets(axis)), draw(sets(axis))


def both(one: Values, other: Values) -> Values:
    return one.both(other)


@MODEST
@given(pairs())
def test_both_and_others_are_those_of_sets(pair: tuple[Values, Values]) -> None:
    one, other = pair
    assert model(both(one, other)) == model(one) & model(other)
    assert model(one.others()) == set(points(one.axis)) - model(one)
    assert one.others().others() == one
    assert both(one, one) == one
    assert both(one, other) == both(other, one)
    assert both(one, one.others()).is_empty


@MODEST
@given(pairs())
def test_equal_sets_are_equal_objects(pair: tuple[Values, Values]) -> None:
    one, other = pair
    union = both(one.others(), other.others()).others()
    again = both(both(one, other).others(), both(one, other.others()).others()).others()
    assert again == one
    assert both(union, one) == one
    assert (one == other) == (both(one, other.others()).is_empty and both(other, one.others()).is_empty)


@MODEST
@given(pairs())
def test_shares_and_measures_add_up(pair: tuple[Values, Values]) -> None:
    one, other = pair
    met, rest = both(one, other), both(one, other.others())
    assert met.share + rest.share == pytest.approx(one.share)
    assert met.extent + rest.extent == pytest.approx(one.extent, abs=FEW)
    assert one.share + one.others().share == pytest.approx(1)
    assert one.extent + one.others().extent == pytest.approx(1, abs=FEW)
    assert 0 <= one.share <= 1 + 1e-12
    assert (one.extent > 1e-12) == any(_is_expected(one.axis, value) for value in model(one)) or _is_by_name(one)


@pytest.mark.slow
@MODEST
@given(pairs())
def test_sets_that_share_a_value_share_a_bit(pair: tuple[Values, Values]) -> None:
    """So disjoint masks are disjoint sets."""
    one, other = pair
    assert 0 <= one.mask < 2**64
    if not both(one, other).is_empty:
        assert one.mask & other.mask


@MODEST
@given(pairs())
def test_what_is_void_is_nobody_and_what_is_not_may_be_somebody(pair: tuple[Values, Values]) -> None:
    one, other = pair
    if one.is_void:
        assert one.share == 0
    if not (isinstance(one, Listed) and one.odd) and not (isinstance(other, Listed) and other.odd):
        assert not (one.is_void and other.is_void) or both(one.others(), other.others()).others().is_void
    assert one.is_void or not one.is_empty
    expected = {value for value in model(one) if _is_expected(one.axis, value)}
    if expected:
        assert not one.is_void


def _is_by_name(values: Values) -> bool:
    """Whether undeclared values stand in a set alone: they have a little extent."""
    return isinstance(values, Listed) and bool(values.odd)


def _is_expected(axis: Axis, value: object) -> bool:
    """Whether a column may hold a value by what is declared of it."""
    if value is None:
        return axis.nullable
    if axis.ranged:
        assert isinstance(value, int | Fraction)
        return axis.bounds is None or axis.bounds[0] <= value <= axis.bounds[1]
    return not axis.values or value in axis.values


@pytest.mark.parametrize("axis", AXES, ids=[axis.key for axis in AXES])
def test_whole_nothing_and_null(axis: Axis) -> None:
    assert axis.whole.is_whole and not axis.whole.is_empty and not axis.whole.is_void and axis.whole.share == 1
    assert axis.nothing.is_empty and axis.nothing.is_void and axis.nothing.share == 0 and axis.nothing.extent == 0
    assert axis.whole.others() == axis.nothing and axis.nothing.others() == axis.whole
    assert axis.null.share == (NULL_SHARE if axis.nullable else 0) and axis.null.is_void != axis.nullable
    assert axis.of(None) == axis.null


@pytest.mark.parametrize("axis", [AGE, CODE], ids=["bounds", "no bounds"])
def test_of_integers_a_strict_bound_is_one_that_is_not(axis: Axis) -> None:
    above = ranged(axis, [((Fraction(33), 1), END)], False)
    assert (
        above == ranged(axis, [((Fraction(34), 0), END)], False) == ranged(axis, [((Fraction(67, 2), 1), END)], False)
    )
    assert ranged(axis, [(START, (Fraction(33), 1))], False) == ranged(axis, [(START, (Fraction(34), 0))], False)
    assert ranged(axis, [((Fraction(1, 3), 0), (Fraction(2, 3), 1))], False).is_empty
    assert ranged(axis, [((Fraction(1), 0), (Fraction(3), 0)), ((Fraction(2), 1), (Fraction(5), 0))], True).pieces == (
        ((Fraction(1), 0), (Fraction(5), 0)),
    )


def test_what_no_declared_value_is_in_is_void() -> None:
    others = both(CITY.null.others(), Listed(CITY, 0b111).others())
    assert others.is_void and both(others, CITY.of("zz").others()).is_void
    assert CITY.of("zz").is_void and CITY.of("zz").extent == 0
    assert not FREE.of("zz").is_void and FREE.of("zz").is_unsized
    beyond = ranged(AGE, [((Fraction(200), 0), (Fraction(201), 0))], False)
    assert beyond.is_void and not beyond.is_unsized


def test_what_nobody_knows_the_size_of() -> None:
    """One number alone where there is no step or no bound, and 0; not what has a share as declared."""
    alone = ranged(INCOME, [((Fraction(10), 0), (Fraction(10), 1))], False)
    assert alone.is_unsized and not alone.is_void
    assert not AGE.whole.is_unsized and not ranged(AGE, [((Fraction(10), 0), (Fraction(11), 0))], False).is_unsized


def test_the_share_of_a_range_counts_the_points_of_its_grid() -> None:
    def share(axis: Axis, low: Cut, high: Cut) -> float:
        return ranged(axis, [(low, high)], False).share

    ten, eleven = (Fraction(10), 0), (Fraction(11), 0)
    assert share(AGE, ten, eleven) == pytest.approx(1 / 11)
    assert share(WEIGHT, ten, eleven) == pytest.approx(0.95 * 2 / 21)
    assert share(WEIGHT, ten, (Fraction(11), 1)) == pytest.approx(0.95 * 3 / 21)
    assert share(WEIGHT, (Fraction(41, 4), 0), (Fraction(43, 4), 0)) == pytest.approx(0.95 / 21)
    assert share(WEIGHT, (Fraction(41, 4), 0), (Fraction(42, 4), 0)) == 0
    assert share(INCOME, ten, eleven) == pytest.approx(0.1)
    assert share(INCOME, START, eleven) == pytest.approx(0.1)
    assert share(INCOME, START, ten) == 0
    assert share(POINT, START, END) == 1 and share(POINT, START, ten) == 0
    assert SITE.of(2).share == pytest.approx(0.25) and CITY.of("b").share == pytest.approx(0.95 / 3)
    assert CITY.of("zz").share == 0 and FREE.of("zz").share == 0
