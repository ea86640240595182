"""Sessions of one worker that keep answers together, and requests that have a key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.answers.recent import Shelf
from dpsql.core.errors import Error
from dpsql.session import answer as stages
from dpsql.session.opening import open_session
from dpsql.session.result import Answer
from dpsql.session.session import Session
from tests.support.served import dataset

SITES = "SELECT site, COUNT(*) AS n FROM person GROUP BY site ORDER BY site"
COMPUTED = "SELECT site, COUNT(*) * 2 AS n FROM person GROUP BY site ORDER BY site"
FRESH = "/* dpsql: fresh */ SELECT COUNT(*) FROM person"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return dataset(tmp_path)


@pytest.fixture
def pair(schema: Path) -> Iterator[tuple[Session, Session]]:
    """Alice and Bob in one worker."""
    shelf: Shelf[Answer] = Shelf()
    with (
        closing(open_session(schema, "alice", None, shelf=shelf)) as alice,
        closing(open_session(schema, "bob", None, shelf=shelf)) as bob,
    ):
        yield alice, bob


def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list that grows with each statement that is planned."""
    found: list[object] = []
    original = stages._bounded
    monkeypatch.setattr(stages, "_bounded", lambda *words: (found.append(words), original(*words))[1])
    return found


def test_rule_73_what_one_bought_is_given_to_the_other_unplanned(
    pair: tuple[Session, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the price and the budget of whoever asks."""
    alice, bob = pair
    bought, plans = alice.execute(SITES), planned(monkeypatch)
    given = bob.execute(SITES)
    assert plans == []
    assert list(given.rows) == list(bought.rows)
    assert (given.cached, given.releases, given.receipt.loss.epsilon) == (True, 0, 0)
    assert given.receipt.remaining.epsilon > bought.receipt.remaining.epsilon


def test_what_the_own_sandbox_works_out_is_not_given(
    pair: tuple[Session, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = pair
    bought, plans = alice.execute(COMPUTED), planned(monkeypatch)
    assert bought.accuracy.computed is not None
    assert list(bob.execute(COMPUTED).rows) == list(bought.rows)
    assert len(plans) == 1


def test_where_answers_are_not_shared_each_buys_their_own(schema: Path) -> None:
    schema.write_text(schema.read_text().replace("[privacy]", "[privacy]\nshared_answers = false"))
    shelf: Shelf[Answer] = Shelf()
    with (
        closing(open_session(schema, "alice", None, shelf=shelf)) as alice,
        closing(open_session(schema, "bob", None, shelf=shelf)) as bob,
    ):
        assert alice.execute(SITES).releases == bob.execute(SITES).releases == 1


def test_rule_73_the_same_key_is_the_same_charge(pair: tuple[Session, Session]) -> None:
    alice, bob = pair
    first, again, other = (alice.execute(FRESH, key=key) for key in ("one", "one", "two"))
    assert list(first.rows) == list(again.rows)
    assert (first.releases, again.releases, again.receipt.loss.epsilon, other.releases) == (1, 0, 0, 1)
    assert bob.execute(FRESH, key="one").releases == 1
    assert alice.execute(FRESH).releases == 1


def test_rule_73_a_key_that_was_charged_for_something_else_is_not_charged_again(pair: tuple[Session, Session]) -> None:
    alice, _ = pair
    alice.execute(FRESH, key="one")
    with pytest.raises(Error, match="DPSQL-701: the request with this key was charged before"):
        alice.execute("SELECT COUNT(*) FROM person WHERE female", key="one")
    assert alice.execute("SELECT COUNT(*) FROM person WHERE female", key="two").releases == 1


def test_rule_73_a_refused_request_is_not_charged_and_may_come_again(pair: tuple[Session, Session]) -> None:
    alice, _ = pair
    with pytest.raises(Error, match="DPSQL-502"):
        alice.execute("/* dpsql: epsilon=9 */ SELECT COUNT(*) FROM person", key="one")
    assert alice.execute("SELECT COUNT(*) FROM person", key="one").releases == 1
