"""Cubes by keys without a list: their values are selected first, at a part of the price, and kept with the cube."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction

import pytest

from dpsql.accounting.cubes import read, written
from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.conversions import rho_at_most
from dpsql.mechanisms.reach import largest_rho
from dpsql.plan.releases import Release
from dpsql.release import noisy
from dpsql.release.buying import Bought, Buying
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.opened import clinic_data
from tests.unit.session.test_cubes import OPTIONS, PEOPLE, TEXT, is_read, rows_of

VISITS: list[clinic.Row] = [
    (i, i % 300, 1 + i % 4, 10.0 + i % 7, i % 20 if i % 6 else None, f"rare{i}" if i % 50 == 0 else f"t{i % 3}" if i % 7 else None)
    for i in range(800)
]  # fmt: skip
DATA: clinic.Database = {"patient": PEOPLE, "visit": VISITS, "item": [], "drug": []}
TAGS = (
    f"CREATE PRIVATE CUBE tags {OPTIONS} AS SELECT tag, year, COUNT(*), SUM(days) FROM visit GROUP BY CUBE (tag, year)"
)


def opened(text: str = TEXT, data: clinic.Database = DATA) -> Session:
    return clinic_data(text, data).session(ZeroNoise())


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(opened()) as found:
        found.execute(TAGS)
        yield found


SAME = [
    "SELECT year, COUNT(*) FROM visit GROUP BY year",
    "SELECT COUNT(*), SUM(days) FROM visit",
    "SELECT COUNT(*) FROM visit WHERE tag = 't1'",
    "SELECT year, SUM(days) FROM visit WHERE tag IN ('t1', 't2') AND year < 4 GROUP BY year",
]
"""Bought they have the same answers, for nobody's rows are cut."""


@pytest.mark.parametrize("sql", SAME)
def test_what_is_read_off_is_what_would_be_bought(sql: str, session: Session) -> None:
    """Also where rows with values that were not selected take part."""
    free = session.execute(sql)
    bought = session.execute(f"/* dpsql: cube=off, fresh */ {sql}")
    assert is_read(free) and not free.receipt.loss.rho
    assert bought.releases and rows_of(free) == rows_of(bought)


def test_groups_are_those_of_the_values_that_were_selected(session: Session) -> None:
    """85 people are needed, NULL is a value like any other, and what few share is in no group."""
    found = session.execute("SELECT tag, COUNT(*) AS n FROM visit GROUP BY tag")
    assert is_read(found)
    assert {row[0] for row in found.rows} == {"t0", "t1", "t2", None}
    for value, count in found.rows:
        assert count == sum(visit[5] == value for visit in VISITS)
    by_year = session.execute(
        "SELECT tag, year, AVG(days) FROM visit WHERE tag IN ('t0', 't2') AND year = 1 GROUP BY tag, year"
    )
    assert is_read(by_year) and {row[0] for row in by_year.rows} == {"t0", "t2"}


def test_the_values_of_a_key_are_the_list_that_the_cube_selected(session: Session) -> None:
    """However wide its numbers are: at a price at which each of these would be bought, the list is free."""
    for sql in ("SELECT DISTINCT tag FROM visit", "SELECT tag FROM visit GROUP BY tag"):
        found = session.execute(f"/* dpsql: epsilon=1 */ {sql}")
        assert is_read(found) and not found.receipt.loss.rho
        assert {row[0] for row in found.rows} == {"t0", "t1", "t2", None}


NOT_READ = [
    "SELECT DISTINCT tag FROM visit WHERE year = 2",
    "SELECT DISTINCT tag, year FROM visit",
    "SELECT tag, COUNT(DISTINCT patient_id) FROM visit GROUP BY tag",
    "SELECT COUNT(*) FROM visit WHERE tag = 'rare50'",
    "SELECT COUNT(*) FROM visit WHERE tag IN ('t1', 'rare50')",
    "SELECT COUNT(*) FROM visit WHERE tag <> 't1'",
    "SELECT COUNT(*) FROM visit WHERE tag > 't1'",
    "SELECT tag, days, COUNT(*) FROM visit GROUP BY tag, days",
]


@pytest.mark.parametrize("sql", NOT_READ)
def test_what_asks_of_other_values_is_bought(sql: str, session: Session) -> None:
    found = session.execute(sql)
    assert not is_read(found) and found.releases


def test_a_selection_is_a_part_of_the_price() -> None:
    with closing(opened()) as session:
        told = session.price(TAGS)[0].loss
        made = session.execute(TAGS)
        spent = sum((entry.loss.rho for entry in session._world.ledger.history()), Fraction(0))
        paid = [(entry.loss.rho, entry.loss.delta) for entry in session._world.ledger.history()]
        again = session.execute(TAGS)
    assert made.releases == 2 and made.receipt.loss.rho == spent
    assert float(spent) == pytest.approx(float(told.rho), rel=1e-12)
    half = largest_rho(EpsilonDelta(Fraction(1), Fraction(1, 2 * 10**6)))
    assert float(spent) == pytest.approx(float(half), rel=1e-9) and spent <= half
    assert float(paid[0][0]) == pytest.approx(float(half) / 4, rel=1e-6)
    assert 0 < sum(delta for _, delta in paid) <= Fraction(1, 2 * 10**6)
    assert not again.releases and not again.receipt.loss.rho


def test_values_that_are_told_apart_by_two_keys_are_selected_one_by_one() -> None:
    with closing(opened()) as session:
        made = session.execute(TAGS.replace("tag, year", "tag, days // 10").replace("COUNT(*), SUM(days)", "COUNT(*)"))
        assert made.releases == 2
        made = session.execute(
            f"CREATE PRIVATE CUBE two {OPTIONS.replace('1', '3', 1)} AS SELECT tag, cost, COUNT(*) FROM visit GROUP BY CUBE (tag, cost)"
        )
        assert made.releases == 3
        two = session._world.stored.cubes.names.get("two")
        assert two is not None and two.shape == (5, 8)


def test_what_the_whole_costs_is_seen_to_fit_before_anything_is_bought() -> None:
    """Two cubes fit, and of the third the selection alone would."""
    text = TEXT.replace("epsilon = 1000000.0\n", "epsilon = 1.5\n", 1).replace("delta = 0.5", "delta = 1e-4")
    text = text.replace("caps = { epsilon = 1000000.0, delta = 0.4 }", "caps = { epsilon = 1.0, delta = 1e-5 }")
    again = "SELECT tag, year, SUM(cost) FROM visit WHERE days > {} GROUP BY CUBE (tag, year)"
    with closing(opened(text)) as session:
        for days in range(9):
            try:
                session.execute(f"CREATE PRIVATE CUBE c{days} {OPTIONS} AS {again.format(days)}")
            except Error as raised:
                assert raised.code == "DPSQL-501" and len(session._world.ledger.history()) == 2 * days > 0
                first = session._world.ledger.history()[0].loss.rho
                left = session.execute("SELECT 1").receipt.remaining.epsilon
                break
        assert days < 8 and rho_at_most(left) > first


def test_who_is_stopped_between_has_the_selection_and_pays_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    buy, asked = Buying.buy, list[object]()

    def stopped(own: Buying, *given: object) -> Bought | None:
        asked.append(given)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return buy(own, *given)  # type: ignore[arg-type]

    with closing(opened()) as session:
        with monkeypatch.context() as patched:
            patched.setattr(Buying, "buy", stopped)
            with pytest.raises((Error, KeyboardInterrupt)):
                session.execute(TAGS)
        assert len(session._world.ledger.history()) == 1
        made = session.execute(TAGS)
        assert made.releases == 1 and len(session._world.ledger.history()) == 2


def test_a_cube_of_more_cells_than_may_be_has_the_commonest_values() -> None:
    text = TEXT.replace("[privacy]", "[privacy]\nmax_cells = 12", 1)
    with closing(opened(text)) as session:
        session.execute(TAGS)
        found = session.execute("SELECT tag, COUNT(*) FROM visit GROUP BY tag")
        assert is_read(found) and len(found.rows) == 2
        assert session.execute("SELECT year, COUNT(*) FROM visit GROUP BY year").rows == [(i, 200) for i in range(1, 5)]


def test_a_limit_on_values_lowers_the_threshold_and_no_limit_is_refused() -> None:
    with closing(opened()) as session:
        taus = []
        for options in (OPTIONS, OPTIONS.replace("(", "(max_groups = 1, ")):
            plan = session.execute("EXPLAIN " + TAGS.replace(OPTIONS, options)).rows
            line = next(str(row[0]) for row in plan if "selected before" in str(row[0]))
            taus.append(int(line.partition("from ")[2].partition(" people")[0]))
        assert taus[1] < taus[0]
    unlimited = TEXT.replace("max_rows_per_unit = 3\n", "", 1)
    with closing(opened(unlimited)) as session, pytest.raises(Error, match="DPSQL-401"):
        session.execute(TAGS)


def test_a_cube_is_kept_with_its_values(session: Session) -> None:
    cube = session._world.stored.cubes.names.get("tags")
    assert cube is not None and cube.selected == (("t0", "t1", "t2", None), None)
    assert read(written(cube)) == cube and cube.shape == (5, 4)
    assert session.execute("SELECT current FROM dpsql.cubes").rows == [(True,)]


def test_no_rows_are_drawn_with_values_that_were_not_selected(session: Session) -> None:
    with pytest.raises(Error, match="DPSQL-104: values of tag were selected privately"):
        session.execute("CREATE SYNTHETIC TABLE s AS SELECT tag, year FROM tags")


def test_a_value_of_one_person_is_never_selected() -> None:
    """By noise that ends before the threshold, or at most with probability delta."""
    alone: clinic.Database = {**DATA, "visit": [(*row[:5], f"v{row[1]}") for row in VISITS]}
    with closing(clinic_data(TEXT, alone).session(SeededNoise(7))) as session:
        session.execute(TAGS)
        cube = session._world.stored.cubes.names.get("tags")
        assert cube is not None and cube.values_of(0) == ()
        assert session.execute("SELECT tag, COUNT(*) FROM visit GROUP BY tag").rows == []


def test_no_more_groups_leave_the_engine_than_the_cube_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many values few people share."""
    asked, fill = list[int](), noisy._fill

    def counted(release: Release, keys: noisy.Columns, *more: object) -> object:
        asked.extend([len(keys[0])] if release.is_cube else [])
        return fill(release, keys, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(noisy, "_fill", counted)
    coded: list[clinic.Row] = [(*row[:10], 5 + i % 3 if i % 4 else i) for i, row in enumerate(PEOPLE)]
    of_codes = (
        f"CREATE PRIVATE CUBE codes {OPTIONS} AS SELECT code, site, COUNT(*) FROM patient GROUP BY CUBE (code, site)"
    )
    with closing(opened(data={**DATA, "patient": coded})) as session:
        session.execute(TAGS)
        session.execute(of_codes)
        assert 0 < asked[0] <= 5 * 4 and 0 < asked[1] <= 4 * 3
        by_code = session.execute("SELECT code, COUNT(*) FROM patient WHERE site = 1 GROUP BY code")
        assert is_read(by_code) and {row[0] for row in by_code.rows} == {5, 6, 7}
        assert session.execute("SELECT COUNT(*) FROM patient").rows == [(900,)]
        session.execute(f"CREATE PRIVATE CUBE costs {OPTIONS} AS SELECT cost, COUNT(*) FROM visit GROUP BY CUBE (cost)")
        by_cost = session.execute("SELECT cost, COUNT(*) FROM visit GROUP BY cost")
        assert is_read(by_cost) and len(by_cost.rows) == 7
        assert sum(int(str(count)) for _, count in by_cost.rows) == len(VISITS)
