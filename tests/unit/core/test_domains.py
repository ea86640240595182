"""Domains: what they hold and how they combine; the laws are in tests/laws/test_intervals.py."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Categories, Interval, interval


def test_an_interval_needs_its_ends_in_order() -> None:
    with pytest.raises(ValueError, match="lower <= upper"):
        interval(2, 1)


def test_membership() -> None:
    assert 3 in interval(1, 3)
    assert Fraction(7, 2) not in interval(1, 3)
    assert "a" not in interval(1, 3)
    assert "a" in Categories(("a", "b"))


def test_equal_sets_are_equal_categories() -> None:
    assert domains.categories([3, 1, 2, 1]) == domains.categories([1, 2, 3])
    assert domains.categories(["b", "a"]).values == ("a", "b")


def test_hull() -> None:
    assert domains.hull(domains.categories([3, -1])) == interval(-1, 3)
    assert domains.hull(domains.categories(["3"])) is None
    assert domains.hull(UNBOUNDED) is None


def test_join_of_text_and_numbers_is_unbounded() -> None:
    assert domains.join(domains.categories(["a"]), domains.categories([1])) == UNBOUNDED
    assert domains.join(domains.categories([1]), interval(5, 6)) == interval(1, 6)


def test_intersect_is_never_empty() -> None:
    assert domains.intersect(interval(0, 1), interval(5, 6)) == interval(0, 1)
    assert domains.intersect(domains.categories([1, 2]), domains.categories([7])) == domains.categories([1, 2])
    assert domains.intersect(UNBOUNDED, interval(5, 6)) == interval(5, 6)


def test_integers_are_listed_up_to_a_limit() -> None:
    assert domains.integers(Interval(Fraction(1, 2), Fraction(7, 2))) == Categories((1, 2, 3))
    assert domains.integers(interval(1, domains.MOST_CATEGORIES)) is not None
    assert domains.integers(interval(0, domains.MOST_CATEGORIES)) is None
    assert domains.integers(Interval(Fraction(1, 3), Fraction(1, 2))) is None


def test_division_by_what_may_be_zero_has_no_interval() -> None:
    assert domains.divide(interval(1, 2), interval(-1, 1)) is None
    assert domains.divide(interval(1, 2), interval(2, 4)) == Interval(Fraction(1, 4), Fraction(1))


def test_a_product_needs_all_corners() -> None:
    assert domains.multiply(interval(-2, 3), interval(-5, 1)) == interval(-15, 10)


def test_a_large_product_of_lists_is_not_listed() -> None:
    many = Categories(tuple(range(1000)))
    assert domains.map_integers(many, many, lambda x, y: x + y) is None
