"""The span of answers, and how exactly what they add up to is known."""

from __future__ import annotations

from math import sqrt

import pytest

from dpsql.guard.audit import _Space
from dpsql.guard.regions import EVERYTHING, box_of
from dpsql.guard.values import Axis

SITE = Axis("site", "site", ("a", "b", "c"))
A, B, C = (box_of(SITE.of(value)) for value in "abc")


def test_an_answer_that_is_given_again_is_known_more_exactly() -> None:
    """Four answers of one question, each as exact as the first, are together twice as exact."""
    space = _Space()
    space.watch([C])
    for _ in range(4):
        space.add([EVERYTHING, A, B], 6.0)
    assert [space.watched[place] for place in space.exposed()] == [C]
    assert space.exactness(space.exposed()) == pytest.approx([sqrt(3 * 3.0**2)])


def test_what_is_forgotten_leaves_no_trace() -> None:
    space = _Space()
    space.watch([C])
    space.add([EVERYTHING, A], 6.0)
    mark = space.mark()
    space.add([EVERYTHING, A, B], 1.0)
    assert space.exposed() == [0]
    space.back_to(mark)
    assert space.exposed() == [] and len(space.answers) == 2
    space.add([B], 6.0)
    assert space.exactness(space.exposed()) == pytest.approx([sqrt(3 * 6.0**2)])
