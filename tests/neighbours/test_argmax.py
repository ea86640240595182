"""One person moves the scores of candidates no farther apart than what the choice is priced by, on generated databases; and a test of
that test: planted faults, each of which it must catch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.aggregates import argmax
from dpsql.aggregates.argmax import Scores
from dpsql.aggregates.base import UnitSums
from dpsql.aggregates.term import Term
from dpsql.sql.nodes import Node
from tests.support import clinic, staging
from tests.support.neighbours import accepted, check, modest
from tests.support.trees import unclamped
from tests.support.violation import Violation

Patch = pytest.MonkeyPatch
STATEMENTS = [
    "SELECT dp_argmax(c.x, SUM(CASE WHEN site = c.x THEN 100 + age END)) FROM patient, (VALUES (1), (2)) AS c(x)",
    "SELECT dp_argmax(c.x, SUM(CASE WHEN age >= c.x THEN c.x ELSE 0 END)) FROM patient, (VALUES (10), (20), (40)) AS c(x)",
    "SELECT site, dp_argmax(c.x, SUM(c.x * age)) FROM patient, (VALUES (-1), (1)) AS c(x) GROUP BY site",
    "SELECT dp_argmax(c.x, SUM(days * c.x)) FROM visit, (VALUES (-2), (1), (3)) AS c(x)",
    'SELECT "year", dp_argmax(c.x, SUM(cost * c.x)) FROM visit, (VALUES (0.5e0), (-2e0)) AS c(x) GROUP BY "year"',
    "SELECT dp_argmax(c.x, COUNT(*) FILTER (WHERE tag = c.x)) FROM visit, (VALUES ('a'), ('b')) AS c(x) WHERE days > 1",
    "SELECT dp_argmax(c.x, COUNT_IF(days > c.x) FILTER (WHERE cost > 5)) FROM visit, (VALUES (1), (3)) AS c(x)",
]
CASES = 12


def run(folder: Path, seed: int, count: int = CASES) -> int:
    """Checks of every statement on so many databases. Raises Violation."""
    chance, types, checked = random.Random(seed), staging.Types(), 0
    schema = modest(clinic.schema(folder))
    compiled = [accepted(sql, schema, types, types.sandbox) for sql in STATEMENTS]
    parts = [(sql, part) for sql, one in zip(STATEMENTS, compiled, strict=True) if one for part in one.releases]
    with closing(staging.opened(schema, threads=1)) as connection:
        for _ in range(count):
            check(connection, parts, clinic.database(chance, wild=chance.random() < 0.7), chance, schema)
            checked += len(parts)
    return checked


def test_one_person_moves_scores_by_no_more_than_is_charged(tmp_path: Path) -> None:
    assert run(tmp_path, 1) == CASES * len(STATEMENTS)


def _smaller_spread(patch: Patch) -> None:
    """The widest candidate's own range in place of the range of all."""
    patch.setattr(Scores, "spread", property(lambda self: max(one.upper - one.lower for one in self.utilities)))


def _no_zero(patch: Patch) -> None:
    """A score that always rises is taken for one that moves by what its bounds differ."""

    def on_one_grid(terms: Sequence[Term]) -> tuple[Term, ...]:
        quantum = min(one.quantum for one in terms)
        return tuple(replace(one, quantum=quantum) for one in terms)

    patch.setattr(argmax, "on_one_grid", on_one_grid)


def _whole_totals(patch: Patch) -> None:
    """A unit with more rows than may count keeps all of them."""
    kept = Scores.unit_sums

    def unit_sums(self: Scores, names: Sequence[Node]) -> UnitSums:
        found = kept(self, names)
        return replace(found, outer=found.whole)

    patch.setattr(Scores, "unit_sums", unit_sums)


def _no_clamp(patch: Patch) -> None:
    patch.setattr(Term, "quanta", unclamped)


FAULTS: list[Callable[[Patch], None]] = [_smaller_spread, _no_zero, _whole_totals, _no_clamp]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught(fault: Callable[[Patch], None], tmp_path: Path, monkeypatch: Patch) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation):
        for seed in range(6):
            run(tmp_path, seed)
