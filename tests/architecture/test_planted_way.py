"""Faults planted in the way of a statement: what stands between the stages must be missed at once where it is gone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting.charging import request_of
from dpsql.aggregates.count import CountOf
from dpsql.answers import recent, standing
from dpsql.answers.look_up import Stored
from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.guard.guarding import Guarding
from dpsql.guard.record import Judged
from dpsql.mechanisms.conversions import pure
from dpsql.plan.charges import Portion
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import Output, Release
from dpsql.planner.options import Options
from dpsql.release import buying
from dpsql.schema.model import Schema
from dpsql.session import answer
from dpsql.session.session import Session
from tests.support.opened import data_of

Patch = pytest.MonkeyPatch
Check = Callable[[Session], None]
RANDHIE = Path(__file__).parents[2] / "examples/randhie/schema.toml"
COUNT = "SELECT COUNT(*) FROM person"


# --- what must hold ---------------------------------------------------------------------------------------------------


def another_price_is_another_question(session: Session) -> None:
    session.execute(COUNT)
    session.execute("SET dp_epsilon = 0.2")
    assert session.execute(COUNT).releases == 1


def the_moment_is_read_every_time(session: Session) -> None:
    sql = "SELECT COUNT(*), CURRENT_TIMESTAMP FROM person"
    assert session.execute(sql).rows[0][1] != session.execute(sql).rows[0][1]


def an_average_of_a_sum_and_a_count_is_their_quotient(session: Session) -> None:
    total = session.execute("SELECT SUM(income) FROM person").rows[0][0]
    number = session.execute("SELECT COUNT(income) FROM person").rows[0][0]
    found = session.execute("SELECT AVG(income) FROM person")
    assert found.releases == 0
    assert found.rows[0][0] == pytest.approx(float(total) / float(number))  # type: ignore[arg-type]


def no_statement_costs_more_than_the_cap(session: Session) -> None:
    refused(session, "/* dpsql: epsilon=3.9 */ " + COUNT, "DPSQL-502")


def a_difference_of_one_is_refused(session: Session) -> None:
    session.execute(COUNT)
    few = "site = 1 AND plan = 4 AND education_years = 12 AND income = 30000 AND female"
    refused(session, f"{COUNT} WHERE NOT ({few})", "DPSQL-602")


def what_cannot_run_is_refused_before_the_charge(session: Session) -> None:
    refused(session, f"SELECT n FROM ({COUNT}) AS t(n) WHERE n = DATE '2020-01-01'", "DPSQL-106")
    assert session.price(COUNT)[0].remaining.epsilon == session.schema.privacy.budget.epsilon


def every_release_is_charged(session: Session) -> None:
    assert session.execute(COUNT).receipt.loss.epsilon == session.schema.privacy.query.epsilon


def refused(session: Session, sql: str, code: str) -> None:
    with pytest.raises(Error, match=code):
        session.execute(sql)


# --- what is planted --------------------------------------------------------------------------------------------------


def an_option_is_left_out_of_the_cache_key(patch: Patch) -> None:
    known = recent.asked_for

    def forgetful(sql: str, parameters: Sequence[object], options: object) -> Hashable | None:
        return known(sql, parameters, None)

    patch.setattr(answer, "asked_for", forgetful)


def the_price_is_left_out_of_the_fingerprint(patch: Patch) -> None:
    """Whatever was stored of this statement's blocks is taken, at whatever price."""
    known = Stored.fingerprint

    def priceless(self: Stored, part: CompiledRelease) -> str:
        return known(self, replace(part, release=replace(part.release, fingerprint=part.release.name)))

    patch.setattr(Stored, "fingerprint", priceless)


def an_answer_naming_the_moment_is_kept(patch: Patch) -> None:
    patch.setattr(answer, "_is_kept", lambda query, found: True)


def a_derived_answer_has_another_estimate(patch: Patch) -> None:
    """An average that is read off a sum and a count is the count."""
    known = standing._outputs_apart

    def count(release: Release, place: int, measures: Sequence[int]) -> list[Output]:
        return [Output(o.name, measures[1], CountOf(1)) for o in known(release, place, measures)]

    patch.setattr(standing, "_outputs_apart", count)


def the_cap_is_removed(patch: Patch) -> None:
    def unlimited(self: Options, schema: Schema) -> EpsilonDelta:
        query = schema.privacy.query
        return EpsilonDelta(self.epsilon or query.epsilon, query.delta)

    patch.setattr(Options, "price", unlimited)


def the_guard_is_skipped(patch: Patch) -> None:
    patch.setattr(Guarding, "judge", lambda self, bounded: Judged(bounded))


def the_final_query_is_not_described(patch: Patch) -> None:
    patch.setattr(answer, "describe", lambda *told: (("n", "BIGINT"),))


def a_tenth_is_charged(patch: Patch) -> None:
    """A loss of nothing is refused by the ledger itself."""
    patch.setattr(
        buying, "request_of", lambda *told: replace(request_of(*told), portions=(Portion(pure(Fraction(1, 100))),))
    )


CAUGHT: list[tuple[Callable[[Patch], None], Check]] = [
    (an_option_is_left_out_of_the_cache_key, another_price_is_another_question),
    (the_price_is_left_out_of_the_fingerprint, another_price_is_another_question),
    (an_answer_naming_the_moment_is_kept, the_moment_is_read_every_time),
    (a_derived_answer_has_another_estimate, an_average_of_a_sum_and_a_count_is_their_quotient),
    (the_cap_is_removed, no_statement_costs_more_than_the_cap),
    (the_guard_is_skipped, a_difference_of_one_is_refused),
    (the_final_query_is_not_described, what_cannot_run_is_refused_before_the_charge),
    (a_tenth_is_charged, every_release_is_charged),
]


@pytest.mark.parametrize("check", dict.fromkeys(check for _, check in CAUGHT), ids=lambda check: check.__name__)
def test_as_it_is(check: Check) -> None:
    with data_of(RANDHIE).without_noise() as session:
        check(session)


@pytest.mark.parametrize("plant, check", CAUGHT, ids=lambda one: one.__name__)
def test_a_planted_fault_is_caught(plant: Callable[[Patch], None], check: Check, monkeypatch: Patch) -> None:
    plant(monkeypatch)
    with data_of(RANDHIE).without_noise() as session, pytest.raises((AssertionError, pytest.fail.Exception)):
        check(session)
