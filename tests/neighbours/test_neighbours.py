"""One person changes no exact vector by more than its plan claims: generated databases, generated statements."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.neighbours import Cases
from tests.support.nested import CONSTRUCTS
from tests.support.nested_neighbours import NestedCases

SEEDS = (0, 1, 2, 3, 4, 5)
LEAST = 1
"""Checks that each construct needs for each seed; so in all of them at least as many as there are seeds."""
MOST = 2400
"""After how many cases a construct that did not come up is missed."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_one_person_moves_a_vector_by_at_most_what_is_claimed(seed: int, tmp_path: Path) -> None:
    cases = Cases(tmp_path, seed)
    cases.run(260)
    assert cases.checked >= 260
    assert cases.refused < cases.checked


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_one_person_moves_nested_statements_by_at_most_what_is_claimed(seed: int, tmp_path: Path) -> None:
    """Joins, subqueries, WITH, groups and windows within a unit, unions, several releases: each construct often enough."""
    cases = NestedCases(tmp_path, seed)
    cases.run(280)
    while _rare(cases.tally, "row level") and cases.checked < MOST:
        cases.run(cases.checked + 40)
    assert cases.checked >= 280
    assert cases.refused < cases.statements
    assert not _rare(cases.tally, "row level")


@pytest.mark.slow
def test_one_row_moves_nested_statements_by_at_most_what_is_claimed(tmp_path: Path) -> None:
    """The same where each row is its own unit."""
    cases = NestedCases(tmp_path, 0, "row")
    cases.run(200)
    assert cases.refused < cases.statements
    assert cases.tally["row level"] >= 200


def test_a_few_cases_of_each_kind(tmp_path: Path) -> None:
    for name in "012":
        (tmp_path / name).mkdir()
    for i, cases in enumerate(
        (Cases(tmp_path / "0", 9), NestedCases(tmp_path / "1", 9), NestedCases(tmp_path / "2", 9, "row"))
    ):
        cases.run(12)
        assert cases.checked >= 12, i


def _rare(tally: Counter[str], *others: str) -> list[str]:
    """The constructs that were not checked often enough."""
    return [word for word in CONSTRUCTS if word not in others and tally[word] < LEAST]
