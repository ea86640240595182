"""MIN and MAX of declared texts: read off one noisy histogram of the list."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.aggregates.base import Limits
from dpsql.aggregates.histogram import Counts, Terms
from dpsql.aggregates.listed_extreme import NONE, ListedExtremeOf, ListedExtremes
from dpsql.aggregates.mode import VALUE, ListedHistogram
from dpsql.core.domains import Categories
from dpsql.core.sqltypes import VARCHAR
from dpsql.expressions.scalar import column
from dpsql.mechanisms.conversions import pure
from dpsql.mechanisms.source import SystemNoise
from tests.support.noise import ZeroNoise
from tests.support.trees import X

VALUES = ("silver", "basic", "gold")
EXTREMES = ListedExtremes(
    ListedHistogram(column(X, VARCHAR, Categories(VALUES), length=6), VALUE, VALUES, None), (1, 2, 0)
)


def terms(rows: int = 1, epsilon: Fraction = Fraction(1)) -> Terms:
    return Terms(Limits(rows, 1), epsilon, "permute_and_flip")


def group(**rows: int) -> Counts:
    return Counts(list(rows), list(rows.values()), [])


def shown(*groups: Counts) -> list[list[object]]:
    cells = EXTREMES.release(groups, terms(), ZeroNoise())
    readings = (ListedExtremeOf(EXTREMES, largest, VALUES, VARCHAR) for largest in (False, True))
    return [reading.column(cells, terms(), Fraction(95, 100)).values for reading in readings]


def test_ends_are_those_of_the_order_of_texts() -> None:
    assert shown(group(silver=90, gold=80, basic=70)) == [["basic"], ["silver"]]


def test_a_value_that_few_have_is_no_end() -> None:
    few = EXTREMES.enough(terms())
    assert shown(group(silver=few, gold=80)) == [["gold"], ["gold"]]
    assert shown(group(silver=few + 1, gold=80)) == [["gold"], ["silver"]]


def test_a_group_of_nobody_has_none_and_a_value_that_is_not_declared_is_none() -> None:
    assert shown(group(), group(tin=900)) == [[None, None], [None, None]]
    assert EXTREMES.release([group()], terms(), ZeroNoise()) == [[NONE], [NONE]]


def test_enough_grows_with_the_rows_of_a_unit_and_holds_for_the_whole_list() -> None:
    assert EXTREMES.enough(terms(5)) > 4 * EXTREMES.enough(terms())
    tail = EXTREMES.noise(terms()).tail(EXTREMES.enough(terms()) + 1)
    assert 2 * tail * len(VALUES) <= Fraction(5, 100)


def test_one_price_for_both_ends() -> None:
    (event,) = EXTREMES.events(terms(3))
    assert event.loss == pure(Fraction(1))
    assert EXTREMES.noise(terms(3)).epsilon(3) == 1


def test_nobody_seems_to_be_there_in_one_of_twenty_at_most() -> None:
    cells = EXTREMES.release([group()] * 4000, terms(), SystemNoise())
    assert sum(place != NONE for place in cells[0]) < 4000 * 0.04


@pytest.mark.parametrize("rows", [1, 4])
def test_the_promise_names_twice_what_is_enough(rows: int) -> None:
    reading = ListedExtremeOf(EXTREMES, True, VALUES, VARCHAR)
    assert f"at most {2 * EXTREMES.enough(terms(rows)):,} rows" in reading.promise(terms(rows), Fraction(95, 100))


def test_many_groups_are_drawn_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    class Counting(ZeroNoise):
        def laplace(self, scale: Fraction, size: int) -> list[int]:
            drawn.append(size)
            return super().laplace(scale, size)

    monkeypatch.setattr("dpsql.aggregates.listed_extreme._AT_ONCE", 6)
    groups = [group(gold=50), group(silver=50), group(basic=50)]
    cells = EXTREMES.release(groups, terms(), Counting())
    assert drawn == [6, 3]
    assert cells == EXTREMES.release(groups, terms(), ZeroNoise())
