"""Periods of one length are counted: the same starts as when each is looked up after the one before."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.core.domains import MOST_CATEGORIES, Categories, Interval, interval
from dpsql.core.sqltypes import DATE, TIMESTAMP, SqlType
from dpsql.expressions import temporal
from dpsql.expressions.literals import literal
from dpsql.expressions.scalar import Scalar, column
from dpsql.sql.nodes import Column

SECOND = 1_000_000
LONG = 86_400 * SECOND


def between(sqltype: SqlType, lower: int, upper: int) -> Scalar:
    return column(Column("t", "x"), sqltype, interval(lower, upper))


@pytest.mark.parametrize("part", ["week", "day", "hour", "minute", "second"])
@pytest.mark.parametrize(("lower", "upper"), [(-5 * SECOND, 7_321 * SECOND + 1), (3, 3), (LONG - 1, 2 * LONG)])
def test_starts_of_times(part: str, lower: int, upper: int) -> None:
    found = temporal.starts(part, between(TIMESTAMP, lower, upper))
    width = temporal.FIXED_UNITS[part]
    assert isinstance(found, Categories)
    first = temporal.value_of(TIMESTAMP, temporal.moment_of(TIMESTAMP, Fraction(lower)))
    at = found.values[0]
    assert isinstance(at, int) and at <= first < at + width
    assert list(found.values) == [at + i * width for i in range(len(found.values))]
    assert at + (len(found.values) - 1) * width <= upper < at + len(found.values) * width


@pytest.mark.parametrize(("part", "step"), [("week", 7), ("day", 1), ("hour", 1), ("second", 1)])
def test_starts_of_dates_are_dates_each_once(part: str, step: int) -> None:
    found = temporal.starts(part, between(DATE, 10_000, 10_030))
    assert isinstance(found, Categories)
    values = [int(v) for v in found.values]
    assert values == list(range(values[0], 10_031, step)) and 10_000 - step < values[0] <= 10_000


def test_what_is_longer_than_a_list_has_bounds_alone() -> None:
    exact = between(TIMESTAMP, 0, (MOST_CATEGORIES - 1) * SECOND)
    listed = temporal.starts("second", exact)
    assert isinstance(listed, Categories) and len(listed.values) == MOST_CATEGORIES
    more = temporal.starts("second", between(TIMESTAMP, 0, MOST_CATEGORIES * SECOND))
    assert more == Interval(Fraction(0), Fraction(MOST_CATEGORIES * SECOND))


def test_a_guard_is_known_again() -> None:
    inside = literal(1, DATE).tree
    scalar = between(DATE, 0, 10)
    assert temporal.unguarded(temporal.guarded(scalar, inside)) == inside
    assert temporal.unguarded(inside) == inside
