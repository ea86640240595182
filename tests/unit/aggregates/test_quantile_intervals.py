"""The price of a quantile's interval: a share that follows from declared sizes, or nothing where it is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction

import pytest

from dpsql.aggregates.base import Limits
from dpsql.aggregates.grid import Grid
from dpsql.aggregates.histogram import Terms
from dpsql.aggregates.quantile import LEAST_SHARE, MOST_SHARE, Quantile
from dpsql.aggregates.term import Term
from dpsql.core.domains import UNBOUNDED
from dpsql.core.loss import total
from dpsql.core.sqltypes import BIGINT
from dpsql.expressions.scalar import column
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise
from tests.support.opened import clinic_data
from tests.support.trees import X
from tests.unit.session.test_models import DATA

GRID = Grid(Term(column(X, BIGINT, UNBOUNDED), 0, 99, Fraction(1)), None)
MEDIAN = "SELECT MEDIAN(age) AS m FROM patient"
WITHOUT = "/* dpsql: interval=off */ "


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(clinic_data(clinic.schema_text(), DATA).session(ZeroNoise())) as opened:
        yield opened


def of(aim: Fraction | None) -> Quantile:
    return Quantile(GRID, Fraction(1, 2), aim)


def on(epsilon: Fraction) -> Terms:
    return Terms(Limits(3, 3), epsilon, "permute_and_flip")


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(8)])
@pytest.mark.parametrize("aim", [None, Fraction(0), Fraction(1, 10), Fraction(10)])
def test_a_choice_and_its_interval_have_the_price_together(aim: Fraction | None, epsilon: Fraction) -> None:
    """Whatever the share: what the rate of the choice and the noise of the bins lose is what is charged."""
    quantile, terms = of(aim), on(epsilon)
    share = quantile.share(terms)
    choice = 2 * quantile.rate(terms) * terms.limits.rows
    interval = terms.limits.rows / quantile.noise(terms).scale if share else Fraction(0)
    assert choice + interval == epsilon == total(event.loss for event in quantile.events(terms)).epsilon
    assert share == interval / epsilon and (share == 0) == (aim is None)


def test_a_share_follows_from_sizes_and_price() -> None:
    """An epsilon of its own, between two shares; more of either price never costs the other anything."""
    assert of(Fraction(0)).share(on(Fraction(1))) == LEAST_SHARE
    assert of(Fraction(10)).share(on(Fraction(1))) == MOST_SHARE
    assert of(Fraction(1, 10)).share(on(Fraction(1))) == Fraction(1, 10)
    prices = [on(Fraction(i, 10)) for i in range(1, 60)]
    shares = [of(Fraction(1, 10)).share(terms) for terms in prices]
    assert shares == sorted(shares, reverse=True) and {LEAST_SHARE, MOST_SHARE} <= set(shares)
    for part in (
        [s * t.epsilon for s, t in zip(shares, prices, strict=True)],
        [(1 - s) * t.epsilon for s, t in zip(shares, prices, strict=True)],
    ):
        assert part == sorted(part)


def test_what_is_released_with_and_without_are_two_questions() -> None:
    assert len({of(aim).identity for aim in (None, Fraction(0), Fraction(1, 10))}) == 3
    assert of(None).cells == 1 and of(Fraction(0)).cells == 3
    assert of(None).release([], on(Fraction(1)), ZeroNoise()) == [[]]


def test_an_interval_can_be_left_out(session: Session) -> None:
    """The cell has no error bar, EXPLAIN says why, and the end of an interval is NULL; a count keeps its own."""
    with_one, without = session.execute(MEDIAN), session.execute(WITHOUT + MEDIAN)
    assert with_one.accuracy[0][0] is not None and without.accuracy[0][0] is None
    assert without.receipt.loss.epsilon == with_one.receipt.loss.epsilon, "another question, at its own price"
    assert session.execute(WITHOUT + MEDIAN).receipt.loss.epsilon == 0
    told = "\n".join(str(row[0]) for row in session.execute("EXPLAIN " + WITHOUT + MEDIAN).rows)
    assert "no interval: interval=off" in told and "its interval by" not in told
    ends = session.execute(WITHOUT + "SELECT MEDIAN(age) AS m, dp_low(m) AS low, dp_high(m) AS high FROM patient")
    assert ends.rows[0][1:] == (None, None)
    assert session.execute(WITHOUT + "SELECT COUNT(*) FROM patient").accuracy[0][0] is not None


def test_a_session_can_leave_it_out(session: Session) -> None:
    session.execute("SET dp_interval = off")
    assert session.execute(MEDIAN).accuracy[0][0] is None
    session.execute("RESET dp_interval")
    assert session.execute(MEDIAN).accuracy[0][0] is not None
