"""Error bars with sampling error: of a count and an average of people who are drawn at random, they hold what these were drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from dpsql.aggregates.sampling import of_average, of_count
from dpsql.core.errors import Error
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise
from tests.support.opened import clinic_data
from tests.unit.session.test_models import DATA

EACH = 1 - Fraction(5, 300)
ON = "/* dpsql: sampling=on */ "


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(clinic_data(clinic.schema_text(), DATA).session(ZeroNoise())) as opened:
        yield opened


def widths(session: Session, sql: str) -> list[float | None]:
    (row,) = session.execute(sql).accuracy
    return [None if cell is None else (float(str(cell.high)) - float(str(cell.low))) / 2 for cell in row]


def test_bars_are_wider_by_what_a_sample_errs(session: Session) -> None:
    sql = "SELECT COUNT(*) AS n, AVG(age) AS mean, SUM(age) AS total, dp_low(n) AS low FROM patient"
    plain = session.execute(sql)
    count, mean, total, _ = widths(session, sql)
    answer = session.execute(ON + sql)
    assert not answer.receipt.loss.epsilon and answer.rows[0][:3] == plain.rows[0][:3], "what is stored is free"
    assert "random sample" in answer.notes[-1]
    wider, averaged, none, _ = widths(session, ON + sql)
    assert count is not None and mean is not None and total is not None
    assert wider is not None and wider > count + 2.3 * sqrt(3000)
    # ages of 10 to 90 have a deviation of 23; between their bounds they could have one of 40
    assert averaged is not None and averaged > mean + 2.3 * 40 / sqrt(3000)
    assert none is None, "nothing is known of a sum"
    assert float(str(answer.rows[0][3])) < float(str(plain.rows[0][3]))


def test_where_it_is_not_known(session: Session) -> None:
    for sql in (
        "SELECT COUNT(*) / 2 AS half FROM patient",
        "SELECT MEDIAN(age) AS middle FROM patient",
        "SELECT VAR_POP(age) AS spread FROM patient",
    ):
        assert widths(session, ON + sql) == [None], sql
    assert np.isnan(of_count(np.array([29.0]), EACH)).all()
    assert np.isnan(of_average(np.array([0.2]), np.array([0.4]), np.array([29.0]), EACH)).all()
    with pytest.raises(Error, match="one person has one row"):
        session.execute(ON + "SELECT COUNT(*) FROM visit")
    with pytest.raises(Error, match="noise of each cell alone"):
        session.execute(ON + "SELECT COUNT(*) / 2 AS half, dp_low(half) AS low FROM patient")


def test_the_share_that_is_missed_is_no_larger_than_said() -> None:
    """Of 20,000 samples of 60 people, whose values are at the bounds, where they spread most; of a share 1 / 60 each, 333 miss."""
    chance = np.random.default_rng(3)
    found = chance.binomial(60, 0.4, 20_000)
    share = found / 60
    missed = np.abs(share - 0.4) > of_average(share, share, np.full(20_000, 60.0), EACH)
    counted = chance.poisson(60, 20_000)
    missed_counts = np.abs(counted - 60) > of_count(counted.astype(float), EACH)
    assert 100 < missed.sum() < 700 and 100 < missed_counts.sum() < 700
