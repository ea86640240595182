"""The guard's cost to analysts who attack nobody, session by session, at the price of each dataset and at its cap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from dpsql.core.loss import EpsilonDelta
from dpsql.schema.model import Privacy, Schema
from tests.support.honest import (
    DATASETS,
    Asked,
    HonestSession,
    Refusal,
    declared,
    measures,
    people,
    priced,
    refusals,
    sessions,
    truth,
    unguarded,
)
from tests.support.opened import Data

WRONG, REFUSED = Fraction(2, 100), Fraction(5, 100)
"""The most that may be refused wrongly, and refused at all, of what is asked."""
PRICES: dict[str, Callable[[Privacy], EpsilonDelta]] = {"the default": lambda p: p.query, "the cap": lambda p: p.caps}


@pytest.fixture(scope="module", params=DATASETS)
def free(request: pytest.FixtureRequest) -> Iterator[tuple[str, Data]]:
    """A dataset with its guard off."""
    data = Data(unguarded(declared(request.param)))
    yield request.param, data
    data.close()


def ask_all(schema: Schema, asked: tuple[HonestSession, ...]) -> list[Refusal]:
    data = Data(schema)
    try:
        return [refusal for session in asked for refusal in refusals(data, session, schema.guard.k)]
    finally:
        data.close()


def told(found: list[Refusal], asked: int, price: str) -> str:
    """The figures, and each refusal with its true narrow difference."""
    wrong = sum(refusal.wrong for refusal in found)
    lines = [f"at {price}: {len(found)} of {asked} refused, {wrong} of them wrongly"]
    for refusal in found:
        why = "wrong" if refusal.wrong else f"right, {refusal.narrow[0].people} people"
        lines.append(f"  {refusal.session.name} ({refusal.error.code}, {why}): {refusal.asked.sql}")
    return "\n".join(lines)


def test_there_are_enough() -> None:
    asked = [session for dataset in DATASETS for session in sessions(dataset)]
    assert sum(len(session.asked) for session in asked) >= 300
    assert sum("dashboard" in session.name for session in asked) >= 5


def test_a_first_look_is_never_refused() -> None:
    for dataset in DATASETS:
        schema, session = declared(dataset), sessions(dataset)[0]
        assert not any(truth(session, schema.guard.k))
        assert ask_all(schema, (session,)) == []


@pytest.mark.slow
def test_all_is_answered_without_the_guard(free: tuple[str, Data]) -> None:
    dataset, data = free
    assert [refusal for session in sessions(dataset) for refusal in refusals(data, session, 20)] == []


@pytest.mark.slow
def test_people_are_those_who_are_counted(free: tuple[str, Data]) -> None:
    """A statement whose answer is one count, without noise, counts as many as the fixture names."""
    dataset, data = free
    checked = 0
    for session in sessions(dataset):
        with data.without_noise() as opened:
            for asked in filter(counts_once, session.asked):
                match opened.execute(asked.sql).rows:
                    case [(int(count),)]:
                        checked += 1
                        assert count == len(people(dataset, asked.people[0])), asked.sql
    assert checked > 80


def counts_once(asked: Asked) -> bool:
    found = measures(asked.sql)
    return len(asked.people) == 1 and "count" in found and not any("distinct" in measure for measure in found)


@pytest.mark.slow
def test_few_are_truly_narrow() -> None:
    """A guard that refuses all that is truly narrow, and nothing else, meets the bars."""
    narrow = [
        bool(found)
        for dataset in DATASETS
        for session in sessions(dataset)
        for found in truth(session, declared(dataset).guard.k)
    ]
    assert 0 < sum(narrow) <= REFUSED * len(narrow)


@pytest.mark.slow
@pytest.mark.parametrize("price", PRICES)
def test_few_are_refused(price: str) -> None:
    found, asked = [], 0
    for dataset in DATASETS:
        schema = declared(dataset)
        found += ask_all(priced(schema, PRICES[price](schema.privacy)), sessions(dataset))
        asked += sum(len(session.asked) for session in sessions(dataset))
    text = told(found, asked, price)
    sys.stdout.write(f"\n{text}\n")
    assert all(refusal.guarded for refusal in found), text
    assert sum(refusal.wrong for refusal in found) <= WRONG * asked, text
    assert len(found) <= REFUSED * asked, text
