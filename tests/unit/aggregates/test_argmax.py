"""dp_argmax: probabilities are those of the exponential mechanism, exactly, and one row moves them by no more than is charged."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise, product
from math import exp

import pytest

from dpsql.aggregates.argmax import FARTHEST_COST, Argmax, ArgmaxOf, Scores, on_one_grid
from dpsql.aggregates.base import Limits
from dpsql.aggregates.histogram import Counts, Terms
from dpsql.aggregates.term import WIDEST, Term, term
from dpsql.core.domains import Interval
from dpsql.core.sqltypes import DOUBLE, INTEGER
from dpsql.expressions.scalar import column
from dpsql.mechanisms.source import SystemNoise
from tests.noise.goodness import p_value
from tests.support.noise import ZeroNoise
from tests.support.trees import X

ALARM = 1e-10
RUNS = 20_000


def utility(lower: int | str, upper: int | str, sqltype: object = INTEGER) -> Term:
    declared = Interval(Fraction(lower), Fraction(upper))
    return term(column(X, DOUBLE if sqltype is DOUBLE else INTEGER, declared), "x")


def argmax(*bounds: tuple[int, int]) -> Argmax:
    return Argmax(Scores(on_one_grid([utility(low, high) for low, high in bounds]), None))


def terms(rows: int = 1, epsilon: Fraction = Fraction(1)) -> Terms:
    return Terms(Limits(rows, 1), epsilon, "exponential")


def scored(*scores: int) -> Counts:
    return Counts([], [], list(scores))


def probabilities(one: Argmax, scores: tuple[int, ...], on: Terms) -> list[float]:
    rate = float(on.epsilon) / (on.limits.rows * one.sums.spread)
    weights = [exp(rate * (score - max(scores))) for score in scores]
    return [weight / sum(weights) for weight in weights]


SETTINGS = [
    (((0, 3), (0, 3), (0, 3)), (4, 7, 2), 1, Fraction(1)),
    (((0, 5), (0, 10)), (20, 30), 2, Fraction(3)),
    (((-4, 0), (0, 4), (-1, 1), (0, 2)), (-9, 5, 0, 5), 3, Fraction(5, 2)),
]


@pytest.mark.parametrize(("bounds", "scores", "rows", "epsilon"), SETTINGS)
def test_probabilities_are_those_of_the_exponential_mechanism(
    bounds: tuple[tuple[int, int], ...], scores: tuple[int, ...], rows: int, epsilon: Fraction
) -> None:
    one, on = argmax(*bounds), terms(rows, epsilon)
    exact = probabilities(one, scores, on)
    drawn = one.release([scored(*scores)] * RUNS, on, SystemNoise())[0]

    def above(place: int) -> float:
        return sum(exact[max(0, place) :])

    assert p_value([place - 1 for place in drawn], above, 1.0) > ALARM
    # twice the rate, as where the smaller half of the spread is left out, is another distribution
    twice = one.release([scored(*scores)] * RUNS, terms(rows, 2 * epsilon), SystemNoise())[0]
    assert p_value([place - 1 for place in twice], above, 1.0) < ALARM


@pytest.mark.parametrize("bounds", [((0, 3), (0, 2)), ((-2, 0), (0, 2), (-1, 1)), ((1, 2), (2, 3))])
def test_one_unit_changes_no_probability_by_more_than_epsilon(bounds: tuple[tuple[int, int], ...]) -> None:
    """Of all that its rows can add to each candidate, in some case by almost as much."""
    one, rows, epsilon = argmax(*bounds), 2, Fraction(2)
    most = 1.0
    adds = [range(rows * min(0, low), rows * max(0, high) + 1) for low, high in bounds]
    for before in product((0, 3, 50), repeat=len(bounds)):
        first = probabilities(one, before, terms(rows, epsilon))
        for added in product(*adds):
            after = tuple(a + b for a, b in zip(before, added, strict=True))
            second = probabilities(one, after, terms(rows, epsilon))
            most = max(most, *(max(p / q, q / p) for p, q in zip(first, second, strict=True)))
    assert exp(1.9) < most <= exp(2) * (1 + 1e-12)


def test_the_largest_is_chosen_without_noise_and_nobody_leaves_all_alike() -> None:
    one = argmax((0, 3), (0, 3), (0, 3))
    assert one.release([scored(4, 9, 2), scored(1, 1, 8)], terms(), ZeroNoise()) == [[2, 3]]
    found = Counter(one.release([scored(0, 0, 0)] * 3000, terms(), SystemNoise())[0])
    assert set(found) == {1, 2, 3} and min(found.values()) > 700


def test_scores_of_any_size_are_compared() -> None:
    one = argmax((0, 3), (0, 3))
    assert one.release([scored(-(10**30), 10**30), scored(3 * FARTHEST_COST, 0)], terms(), SystemNoise()) == [[2, 1]]


def test_utilities_are_on_one_grid_with_zero_inside() -> None:
    found = on_one_grid([utility(2, 5), utility("-1/2", "1/2", DOUBLE), utility(0, 1000, DOUBLE)])
    assert len({one.quantum for one in found}) == 1
    assert all(one.lower <= 0 <= one.upper for one in found)
    quantum = found[0].quantum
    assert [(one.lower * quantum, one.upper * quantum) for one in found] == [
        (0, 5),
        (Fraction(-1, 2), Fraction(1, 2)),
        (0, 1000),
    ]
    wide = on_one_grid([utility(0, 1, DOUBLE), utility(0, 10**9, DOUBLE)])
    assert wide[1].upper <= WIDEST and len({one.quantum for one in wide}) == 1


def test_the_margin_holds_and_is_in_the_unit_of_the_utility() -> None:
    one, on = argmax((0, 3), (0, 3), (0, 3)), terms(1, Fraction(1))
    margin = one.margin(on, Fraction(95, 100))
    near, far = scored(0, 0, 0), [scored(int(margin) + 1, 0, 0)] * RUNS
    assert len(near.sums) == 3
    missed = sum(place != 1 for place in one.release(far, on, SystemNoise())[0])
    assert missed < 0.05 * RUNS + 6 * (0.05 * RUNS) ** 0.5
    assert "within" in ArgmaxOf(one).promise(on, Fraction(95, 100))
    assert all(a < b for a, b in pairwise(one.margin(on, Fraction(x, 100)) for x in (50, 90, 99)))
