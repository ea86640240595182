"""Sessions of one worker that keep answers, plans and sample units together, and requests that have a key."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.answers.recent import asked_for
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.planner.parse import Query
from dpsql.schema.toml import read_schema
from dpsql.session import answer as stages
from dpsql.session.commons import Commons
from dpsql.session.opening import default_ledger, ledger_identity, open_session
from dpsql.session.session import Session
from tests.support.honest import HonestSession, sessions
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
    commons = Commons()
    with (
        closing(open_session(schema, "alice", None, commons=commons)) as alice,
        closing(open_session(schema, "bob", None, commons=commons)) as bob,
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
    """The plan is."""
    alice, bob = pair
    bought, plans = alice.execute(COMPUTED), planned(monkeypatch)
    finished: list[object] = []
    original = stages._finished
    monkeypatch.setattr(stages, "_finished", lambda *words: (finished.append(words), original(*words))[1])
    assert bought.accuracy.computed is not None
    assert list(bob.execute(COMPUTED).rows) == list(bought.rows)
    assert (len(finished), plans) == (1, [])


def test_where_answers_are_not_shared_each_buys_their_own(schema: Path) -> None:
    schema.write_text(schema.read_text().replace("[privacy]", "[privacy]\nshared_answers = false"))
    commons = Commons()
    with (
        closing(open_session(schema, "alice", None, commons=commons)) as alice,
        closing(open_session(schema, "bob", None, commons=commons)) as bob,
    ):
        assert alice.execute(SITES).releases == bob.execute(SITES).releases == 1


# --- plans ----------------------------------------------------------------------------------------------------------------


BY_PLAN = (
    "SELECT coinsurance_pct, COUNT(*) * 2 AS n FROM person JOIN plan USING (plan) GROUP BY coinsurance_pct ORDER BY 1"
)


def test_a_plan_is_kept_by_parameters_and_options(
    pair: tuple[Session, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same text at another price, or with another value, is another question."""
    alice, bob = pair
    sql = "/* dpsql: fresh */ SELECT COUNT(*) FROM person WHERE site = $1"
    plans = planned(monkeypatch)
    alice.execute("SET dp_epsilon = 0.3")
    assert [alice.execute(sql, [1]).receipt.loss.epsilon, bob.execute(sql, [1]).receipt.loss.epsilon] == [
        Fraction("0.3"),
        Fraction("0.1"),
    ]
    bob.execute(sql, [2])
    assert len(plans) == 3
    assert bob.execute(sql, [1]).receipt.loss.epsilon == Fraction("0.1")
    assert len(plans) == 3


def test_what_names_the_moment_is_planned_anew(pair: tuple[Session, Session], monkeypatch: pytest.MonkeyPatch) -> None:
    alice, _ = pair
    plans = planned(monkeypatch)
    for _ in range(2):
        alice.execute(
            "/* dpsql: fresh */ SELECT COUNT(*) FROM person WHERE site = 1 AND CURRENT_DATE > DATE '2020-01-01'"
        )
    assert len(plans) == 2


@pytest.mark.parametrize("planted", [False, True])
def test_rule_61_a_plan_is_of_the_versions_that_it_was_made_of(
    planted: bool, schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a plan that is kept by its text alone is used for another version of a public table."""
    commons = Commons()
    with closing(open_session(schema, "alice", None, commons=commons)) as alice:
        assert [row[0] for row in alice.execute(BY_PLAN).rows] == [0, 25, 50, 95, 100]
    _publish_another(schema)
    if planted:
        by_text = lambda plans, asked: next((p for (_, text), p in plans._known.items() if text == asked[1]), None)  # noqa: E731
        monkeypatch.setattr(type(commons.plans), "get", by_text)
    plans = planned(monkeypatch)
    with closing(open_session(schema, "bob", None, commons=commons)) as bob:
        bob.execute(BY_PLAN)
        assert bool(plans) is not planted
        if not planted:
            assert [row[0] for row in bob.execute(BY_PLAN).rows] == [0, 25, 50, 90, 100]


def _publish_another(schema: Path) -> None:
    """A version of the public table in which 95 is 90, approved."""
    file = schema.with_name("plan.parquet")
    text = f"SELECT * REPLACE (IF(coinsurance_pct = 95, 90, coinsurance_pct) AS coinsurance_pct) FROM '{file}'"
    duckdb.from_arrow(duckdb.sql(text).to_arrow_table()).write_parquet(str(file))
    declared = read_schema(schema)
    with closing(Ledger.open(default_ledger(declared), ledger_identity(declared))) as ledger:
        owner.check(declared, ledger)


@pytest.mark.few(4)
@pytest.mark.parametrize("asked", sessions("randhie"), ids=lambda found: found.name)
def test_a_plan_that_was_used_is_as_it_was(asked: HonestSession, pair: tuple[Session, Session]) -> None:
    """Whatever is made of it on the way to an answer, the next one gets what planning would give."""
    alice, _ = pair
    world = alice._world
    for sql in (one.sql for one in asked.asked):
        with contextlib.suppress(Error):
            alice.execute(sql)
        kept = world.commons.plans.get((world.versions, asked_for(sql, (), world.settings)))
        if kept is not None:
            query = stages.read(sql, (), world)
            assert isinstance(query, Query)
            assert (repr(kept[0]), repr(kept[1])) == (repr(query), repr(stages._bounded(query, world)))
    assert world.commons.plans._known


# --- requests with a key --------------------------------------------------------------------------------------------------


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
