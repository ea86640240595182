"""For every operation f of dpsql/core/domains.py and all x in A, y in B: f(x, y) is in f(A, B)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Categories, Domain, Interval

NUMBERS = st.one_of(
    st.fractions(-1000, 1000, max_denominator=64),
    st.integers(-5, 5).map(Fraction),
    st.sampled_from([Fraction(10) ** 30, -(Fraction(10) ** 30), Fraction(1, 10**9)]),
)
INTEGERS = st.integers(-20, 20)
TEXTS = st.sampled_from(["a", "b", "", "7"])
MODEST = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    a, b = draw(NUMBERS), draw(NUMBERS)
    return Interval(min(a, b), max(a, b))


@st.composite
def members(draw: st.DrawFn) -> tuple[Interval, Fraction]:
    """An interval and one of its numbers, often an end of it."""
    chosen = draw(intervals())
    share = draw(st.one_of(st.sampled_from([Fraction(0), Fraction(1)]), st.fractions(0, 1, max_denominator=100)))
    return chosen, chosen.lower + share * (chosen.upper - chosen.lower)


LISTS = st.lists(INTEGERS, min_size=1, max_size=8).map(domains.categories)
DOMAINS: st.SearchStrategy[Domain] = st.one_of(
    intervals(), LISTS, st.lists(TEXTS, min_size=1, max_size=4).map(domains.categories), st.just(UNBOUNDED)
)


def holds(domain: Domain, value: object) -> bool:
    return isinstance(domain, domains.Unbounded) or value in domain


PAIRS: dict[str, tuple[Callable[[Interval, Interval], Interval], Callable[[Fraction, Fraction], Fraction]]] = {
    "add": (domains.add, lambda x, y: x + y),
    "subtract": (domains.subtract, lambda x, y: x - y),
    "multiply": (domains.multiply, lambda x, y: x * y),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
@MODEST
@given(first=members(), second=members())
def test_arithmetic(name: str, first: tuple[Interval, Fraction], second: tuple[Interval, Fraction]) -> None:
    on_intervals, on_numbers = PAIRS[name]
    assert on_numbers(first[1], second[1]) in on_intervals(first[0], second[0])


@pytest.mark.slow
@MODEST
@given(first=members(), second=members())
def test_division_has_an_interval_exactly_where_the_divisor_cannot_be_zero(
    first: tuple[Interval, Fraction], second: tuple[Interval, Fraction]
) -> None:
    found = domains.divide(first[0], second[0])
    assert (found is None) == (Fraction(0) in second[0])
    if found is not None:
        quotient = first[1] / second[1]
        assert quotient in found
        truncated = domains.monotone(found, lambda x: Fraction(math.trunc(x)))
        assert domains.truncated_quotient(first[1], second[1]) in truncated


@pytest.mark.slow
@MODEST
@given(first=members(), second=members())
def test_truncated_quotient_rounds_towards_zero(
    first: tuple[Interval, Fraction], second: tuple[Interval, Fraction]
) -> None:
    if second[1]:
        found = domains.truncated_quotient(first[1], second[1])
        assert found.denominator == 1
        assert abs(found) <= abs(first[1] / second[1]) < abs(found) + 1


@pytest.mark.slow
@MODEST
@given(first=members(), second=members())
def test_remainder_has_the_sign_of_the_dividend(
    first: tuple[Interval, Fraction], second: tuple[Interval, Fraction]
) -> None:
    x, y = first[1], second[1]
    if y:
        assert x - y * math.trunc(x / y) in domains.remainder(first[0], second[0])


@MODEST
@given(member=members())
def test_functions_of_one_value(member: tuple[Interval, Fraction]) -> None:
    chosen, x = member
    assert -x in domains.negate(chosen)
    assert abs(x) in domains.absolute(chosen)
    assert Fraction(math.floor(x)) in domains.monotone(chosen, lambda v: Fraction(math.floor(v)))
    assert x**3 in domains.monotone(chosen, lambda v: v**3)


@MODEST
@given(first=DOMAINS, second=DOMAINS, value=st.one_of(NUMBERS, INTEGERS, TEXTS))
def test_join_holds_what_either_holds(first: Domain, second: Domain, value: Fraction | int | str) -> None:
    if value in getattr(first, "values", ()) or (isinstance(first, Interval) and value in first):
        assert holds(domains.join(first, second), value)
        assert holds(domains.join(second, first), value)


@MODEST
@given(first=DOMAINS, second=DOMAINS, value=st.one_of(NUMBERS, INTEGERS, TEXTS))
def test_intersect_holds_what_both_hold_and_is_never_empty(
    first: Domain, second: Domain, value: Fraction | int | str
) -> None:
    found = domains.intersect(first, second)
    if holds(first, value) and holds(second, value):
        assert holds(found, value)
    assert not isinstance(found, Categories) or found.values


@MODEST
@given(domain=DOMAINS, value=st.one_of(NUMBERS, INTEGERS, TEXTS))
def test_hull_and_integers_keep_every_value(domain: Domain, value: Fraction | int | str) -> None:
    hull, whole = domains.hull(domain), domains.integers(domain)
    if isinstance(domain, domains.Unbounded):
        assert hull is None and whole is None
        return
    if value in domain and hull is not None:
        assert value in hull
    if value in domain and whole is not None and not isinstance(value, str) and Fraction(value).denominator == 1:
        assert value in whole
    if isinstance(domain, Interval) and domain.upper - domain.lower > domains.MOST_CATEGORIES:
        assert whole is None


@MODEST
@given(first=LISTS, second=LISTS)
def test_map_integers_is_the_image_of_every_pair(first: Categories, second: Categories) -> None:
    found = domains.map_integers(first, second, lambda x, y: domains.truncated_quotient(x, y) if y else None)
    pairs = [(Fraction(x), Fraction(y)) for x in first.values for y in second.values]  # type: ignore[arg-type]
    image = {domains.truncated_quotient(x, y) for x, y in pairs if y}
    if found is None:
        assert not image
    else:
        assert set(found[0].values) == image
        assert found[1] == any(not y for _, y in pairs)


def test_an_interval_without_bounds_in_double_has_no_hull() -> None:
    assert domains.hull(domains.interval(0, 10**400)) is None
    assert domains.hull(domains.categories(["a", 1])) is None


# --- planted faults -----------------------------------------------------------------------------------------------------


def _breaks(operation: Callable[[Interval, Interval], Interval]) -> bool:
    """Tell whether an operation loses a product of the ends of two small intervals."""
    ends = [(a, b) for a in range(-2, 3) for b in range(a, 3)]
    return any(
        Fraction(x * y) not in operation(domains.interval(*first), domains.interval(*second))
        for first in ends
        for second in ends
        for x in first
        for y in second
    )


def test_a_product_of_two_corners_is_found() -> None:
    def two_corners(a: Interval, b: Interval) -> Interval:
        values = (a.lower * b.lower, a.upper * b.upper)
        return Interval(min(values), max(values))

    assert _breaks(two_corners)
    assert not _breaks(domains.multiply)
