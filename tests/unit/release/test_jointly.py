"""Error bars that hold together: as wide as all cells of an answer need, and none where that is not known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction

import pytest

from dpsql.core.errors import Error
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.source import SystemNoise
from dpsql.release import estimating
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise
from tests.support.opened import clinic_data
from tests.unit.session.test_models import DATA

RUNS = 60
COUNTS = "SELECT age, COUNT(*) AS n FROM patient GROUP BY age ORDER BY age"
EACH = 0.1
LEAST = 38
"""Of 60 runs, each with a chance of 95 %, fewer are right once in 10^12; where each of 81 cells holds alone, one is."""


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(clinic_data(clinic.schema_text(), DATA).session(ZeroNoise())) as opened:
        yield opened


def half_widths(session: Session, sql: str) -> list[float]:
    found = [cell for row in session.execute(sql).accuracy for cell in row if cell is not None]
    return [(float(str(one.high)) - float(str(one.low))) / 2 for one in found]


def test_each_bar_may_miss_a_share_of_what_all_may(session: Session) -> None:
    """Of 3 groups with one column, a third of 5 %; with two columns a sixth."""
    noise = DiscreteLaplace(Fraction(10))
    total = half_widths(session, "/* dpsql: epsilon=0.1, jointly=on */ SELECT COUNT(*) FROM patient")
    assert total == [noise.half_width(Fraction(95, 100))], "one cell is all cells"
    alone = half_widths(session, "/* dpsql: epsilon=0.1 */ SELECT site, COUNT(*) FROM patient GROUP BY site")
    joint = half_widths(
        session, "/* dpsql: epsilon=0.1, jointly=on */ SELECT site, COUNT(*) FROM patient GROUP BY site"
    )
    assert alone == [noise.half_width(Fraction(95, 100))] * 3
    assert joint == [noise.half_width(1 - Fraction(5, 300))] * 3


def test_the_answer_and_its_price_are_the_same(session: Session) -> None:
    first = session.execute("SELECT site, COUNT(*) FROM patient GROUP BY site")
    again = session.execute("/* dpsql: jointly=on */ SELECT site, COUNT(*) FROM patient GROUP BY site")
    assert again.rows == first.rows and not again.receipt.loss.epsilon


def test_columns_of_ends_hold_together_too(session: Session) -> None:
    session.execute("SET dp_jointly = on")
    sql = "SELECT site, COUNT(*) AS n, dp_low(n) AS low FROM patient GROUP BY site"
    found = session.execute(sql)
    assert [row[2] for row in found.rows] == [cells[1].low for cells in found.accuracy if cells[1] is not None]
    session.execute("RESET dp_jointly")
    assert session.execute(sql).rows[0][2] > found.rows[0][2]  # type: ignore[operator]


def test_totals_hold_together(session: Session) -> None:
    sql = "SELECT site, COUNT(*) AS n FROM patient GROUP BY ROLLUP (site)"
    alone, joint = half_widths(session, sql), half_widths(session, f"/* dpsql: jointly=on */ {sql}")
    assert len(alone) == len(joint) == 4 and all(a < b for a, b in zip(alone, joint, strict=True))


@pytest.mark.parametrize("column", ["COUNT(*) / SUM(age)", "MEDIAN(age)", "MODE(site)"])
def test_what_is_not_known_has_none(column: str, session: Session) -> None:
    assert not half_widths(session, f"/* dpsql: jointly=on */ SELECT {column} FROM patient")
    assert not half_widths(session, f"/* dpsql: jointly=on */ SELECT site, {column} FROM patient GROUP BY site")


def test_what_is_drawn_again_is_told_as_far_as_there_are_draws(session: Session) -> None:
    """Of 3 cells, not of 80."""
    asked = "/* dpsql: jointly=on */ SELECT {0}, VAR_SAMP(income) FROM patient GROUP BY {0}"
    assert len(half_widths(session, asked.format("site"))) == 3 and not half_widths(session, asked.format("age"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (SELECT COUNT(*) FROM patient) + (SELECT COUNT(*) FROM visit) AS n",
        "SELECT dp_low(COUNT(*) / SUM(age)) AS n FROM patient",
    ],
)
def test_what_has_no_joint_bars_is_refused(sql: str, session: Session) -> None:
    session.execute(sql)
    with pytest.raises(Error, match="jointly") as raised:
        session.execute(f"/* dpsql: jointly=on */ {sql}")
    assert raised.value.code == "DPSQL-104"


def runs_in_which_all_hold() -> int:
    exact = [sum(row[5] == age for row in DATA["patient"]) for age in range(10, 91)]
    right = 0
    with closing(clinic_data(clinic.schema_text(), DATA).session(SystemNoise())) as opened:
        for _ in range(RUNS):
            found = opened.execute(f"/* dpsql: epsilon={EACH}, jointly=on, fresh */ {COUNTS}")
            bars = [cells[1] for cells in found.accuracy]
            right += all(bar is not None and bar.low <= n <= bar.high for bar, n in zip(bars, exact, strict=True))  # type: ignore[operator]
    return right


@pytest.mark.slow
def test_all_hold_in_as_many_runs_as_are_promised() -> None:
    assert runs_in_which_all_hold() >= LEAST


@pytest.mark.slow
def test_bars_that_hold_alone_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "level_of_each", lambda jointly, cells: estimating.LEVEL)
    assert runs_in_which_all_hold() < LEAST
