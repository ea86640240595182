"""Cubes: bought once, kept by name, and read off: without noise they give what the statement itself gives."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.answers import Answers
from dpsql.core.errors import Error
from dpsql.guard.guarding import Guarding
from dpsql.mechanisms.conversions import rho_at_most
from dpsql.mechanisms.cube_noise import RoundedGaussian
from dpsql.session.opening import open_session
from dpsql.session.result import Answer
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.opened import clinic_data

PEOPLE: list[clinic.Row] = [
    (i, 1 + i % 3, (True, False, None)[i % 7 % 3], float(i % 90), 60.0 + i % 40 if i % 5 else None, 20 + i % 60, None, "abc"[i % 2],
     None, "1995-01-01", None)
    for i in range(900)
]  # fmt: skip
VISITS: list[clinic.Row] = [(i, i % 300, 1 + i % 4, 10.0 + i % 7, i % 20 if i % 6 else None, None) for i in range(800)]
DATA: clinic.Database = {"patient": PEOPLE, "visit": VISITS, "item": [], "drug": []}
TEXT = clinic.schema_text().replace(
    "query = { epsilon = 1.0, delta = 1e-3 }", "query = { epsilon = 0.1, delta = 1e-6 }"
)
OPTIONS = "OPTIONS (epsilon = 1, delta = 1e-6)"
PATIENTS = f"""CREATE PRIVATE CUBE patients {OPTIONS} AS
SELECT site, female, city, COUNT(*), SUM(income), AVG(weight) FROM patient GROUP BY CUBE (site, female, city)"""
OF_VISITS = f"CREATE PRIVATE CUBE visits {OPTIONS} AS SELECT year, COUNT(*), SUM(days) FROM visit GROUP BY CUBE (year)"


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(clinic_data(TEXT, DATA).session(ZeroNoise())) as opened:
        opened.execute(PATIENTS)
        opened.execute(OF_VISITS)
        yield opened


def is_read(answer: Answer) -> bool:
    return any("read off the cube" in note for note in answer.notes)


READ = [
    "SELECT site, COUNT(*) AS n FROM patient GROUP BY site",
    "SELECT COUNT(*) FROM patient",
    "SELECT city, site, COUNT(*), SUM(income), AVG(income) FROM patient GROUP BY city, site",
    "SELECT site, COUNT(weight), SUM(weight), AVG(weight) FROM patient GROUP BY site",
    "SELECT female, COUNT(*) FROM patient WHERE site = 2 GROUP BY female",
    "SELECT site, COUNT(*) FROM patient WHERE site IN (1, 3) AND city <> 'b' GROUP BY site",
    "SELECT site, AVG(income) FROM patient WHERE site >= 2 AND female GROUP BY site",
    "SELECT COUNT(*) FROM patient WHERE NOT female AND site < 3 AND city = 'a'",
    "SELECT site, COUNT(*) AS n FROM patient GROUP BY site HAVING COUNT(*) > 10 ORDER BY n DESC LIMIT 2",
    "SELECT site, city, COUNT(*) FROM patient GROUP BY ROLLUP (site, city)",
    "SELECT site, female, COUNT(*) FROM patient GROUP BY GROUPING SETS ((site), (female), ())",
    "SELECT 100 * SUM(income) / COUNT(*) FROM patient",
    "SELECT year, COUNT(*), AVG(days) FROM visit GROUP BY year",
    "SELECT site, SUM(100 * income), AVG(income / 12), SUM(weight * 1.0), COUNT(weight * 2) FROM patient GROUP BY site",
    "SELECT AVG(CAST(days AS DOUBLE)), SUM(days * 24) FROM visit WHERE year = 2",
    "SELECT SUM(days) FROM visit WHERE year BETWEEN 2 AND 3",
    "SELECT p.site, COUNT(*) FROM patient AS p WHERE p.city = 'a' GROUP BY p.site",
]
BANDED = "(SELECT site // 2 AS half, CAST(FLOOR(LEAST(income, 69) / 10) * 10 AS INTEGER) AS band FROM patient) AS p"
BANDS = f"CREATE PRIVATE CUBE bands {OPTIONS} AS SELECT half, band, COUNT(*) FROM {BANDED} GROUP BY CUBE (half, band)"
CLICKED = [
    f"SELECT band, COUNT(*) FROM {BANDED} WHERE half = 1 GROUP BY band",
    f"SELECT half, COUNT(*) FROM {BANDED} WHERE band IN (20, 30) GROUP BY half",
    f"SELECT COUNT(*) FROM {BANDED} WHERE band <> 0 AND half = 0",
    f"SELECT band, COUNT(*) FROM {BANDED} WHERE NOT band < 40 GROUP BY band",
    f"SELECT COUNT(*) FROM {BANDED} WHERE band > 10 AND band <= 30",
]


def rows_of(answer: Answer) -> list[tuple[object, ...]]:
    return sorted(answer.rows, key=repr)


@pytest.mark.parametrize("sql", READ)
@pytest.mark.few(10)
def test_what_is_read_off_is_what_would_be_bought(sql: str, session: Session) -> None:
    read = session.execute(sql)
    assert is_read(read) and read.cached and not read.releases and not read.receipt.loss.rho
    bought = session.execute(f"/* dpsql: cube=off */ {sql}")
    assert not is_read(bought) and bought.releases
    assert [c[1] for c in read.columns] == [c[1] for c in bought.columns]
    for row, other in zip(rows_of(read), rows_of(bought), strict=True):
        for one, two in zip(row, other, strict=True):
            assert one == two or float(str(one)) == pytest.approx(float(str(two)), rel=1e-9, abs=1e-6)


@pytest.fixture(scope="module")
def beyond() -> Iterator[Session]:
    """Some incomes are beyond what is declared, and below every group."""
    others: list[clinic.Row] = [
        (*row[:3], income, *row[4:]) for row, income in zip(PEOPLE[:9], [-5.0, 1e6, -70.0] * 3, strict=True)
    ]
    with closing(clinic_data(TEXT, {**DATA, "patient": [*others, *PEOPLE[9:]]}).session(ZeroNoise())) as opened:
        opened.execute(BANDS)
        yield opened


@pytest.mark.parametrize("sql", CLICKED)
def test_a_condition_on_a_band_chooses_among_its_groups(sql: str, beyond: Session) -> None:
    """A key that is computed is declared as its columns are."""
    read, bought = beyond.execute(sql), beyond.execute(f"/* dpsql: cube=off */ {sql}")
    assert is_read(read) and bought.releases and rows_of(read) == rows_of(bought)


def test_columns_of_one_name_are_told_apart(session: Session) -> None:
    """Both visits of a pair have a year."""
    pairs = "FROM visit AS v JOIN visit AS w ON v.patient_id = w.patient_id AND w.days > 10"
    session.execute(
        f"CREATE PRIVATE CUBE pairs {OPTIONS} AS SELECT v.year, w.year, COUNT(*) {pairs} GROUP BY CUBE (v.year, w.year)"
    )
    for year in ("v.year", "w.year"):
        for sql in (f"SELECT {year}, COUNT(*) {pairs} GROUP BY {year}", f"SELECT COUNT(*) {pairs} WHERE {year} = 2"):
            read, bought = session.execute(sql), session.execute(f"/* dpsql: cube=off */ {sql}")
            assert is_read(read) and bought.releases and rows_of(read) == rows_of(bought)


OTHERS = [
    "SELECT site, VARIANCE(income) FROM patient GROUP BY site",
    "SELECT site, COUNT(*) FROM patient WHERE income > 5 GROUP BY site",
    "SELECT site, SUM(income) FROM patient WHERE female OR site = 1 GROUP BY site",
    "SELECT site, COUNT(*) FILTER (WHERE female) FROM patient GROUP BY site",
    "SELECT site, SUM(age) FROM patient GROUP BY site",
    "SELECT MEDIAN(income) FROM patient",
    "SELECT age, COUNT(*) FROM patient GROUP BY age",
    "SELECT year, SUM(cost) FROM visit GROUP BY year",
    "/* dpsql: max_rows=2 */ SELECT year, COUNT(*) FROM visit GROUP BY year",
    "/* dpsql: fresh */ SELECT site, COUNT(*) FROM patient GROUP BY site",
    "/* dpsql: cube=off */ SELECT site, COUNT(*) FROM patient GROUP BY site",
    "/* dpsql: epsilon=5, buy=on */ SELECT site, COUNT(*) FROM patient GROUP BY site",
    "/* dpsql: error=3, buy=on */ SELECT COUNT(*) FROM patient",
]


@pytest.mark.parametrize("sql", OTHERS)
@pytest.mark.few(10)
def test_other_statements_are_bought(sql: str, session: Session) -> None:
    answer = session.execute(sql)
    assert not is_read(answer) and answer.releases


def test_an_error_that_is_wide_enough_is_read_off(session: Session) -> None:
    assert is_read(session.execute("/* dpsql: error=40 */ SELECT COUNT(*) FROM patient"))


def test_bars_are_those_of_the_cube(session: Session) -> None:
    rows = session.execute(PATIENTS).rows
    told = {row[0]: row[2] for row in rows}
    for keys, sql in (("", "SELECT COUNT(*) FROM patient"), ("site", "SELECT COUNT(*) FROM patient GROUP BY site")):
        error = session.execute(sql).errors()[-1]
        assert error is not None and abs(error - float(str(told[keys]))) <= 0.5


def test_totals_have_the_error_of_the_sum_that_they_are(session: Session) -> None:
    """Of all sites the noise is that of the total itself, beside the rounding of three groups; of two of them it is wider."""
    told = {row[0]: float(str(row[2])) for row in session.execute(PATIENTS).rows}
    *_, whole = (
        one[-1] for one in session.execute("SELECT COUNT(*) FROM patient GROUP BY ROLLUP (site) ORDER BY 1").accuracy
    )
    assert whole is not None and (whole.high - whole.low) / 2 == pytest.approx(told[""], abs=1)
    part = session.execute("SELECT COUNT(*) FROM patient WHERE site <= 2 GROUP BY ROLLUP (site) ORDER BY 1").errors()[0]
    alone = session.execute("SELECT COUNT(*) FROM patient WHERE site <= 2").errors()[0]
    assert part is not None and alone is not None and abs(part - alone) <= 1 < alone - told[""]


def bars_of_counts_together(session: Session, groups: str) -> None:
    """COUNT(weight) is the rows less those without one, so that it has the noise of COUNT(*) in it: 2 n - m, and m."""

    def error(value: str) -> float:
        found = session.execute(f"SELECT {value} FROM patient WHERE site <= 2 GROUP BY {groups} ORDER BY 1").errors()[0]
        assert found is not None
        return float(found)

    rows, known = error("COUNT(*)"), error("COUNT(weight)")
    assert error("COUNT(*) + COUNT(weight)") == pytest.approx((3 * rows**2 + known**2) ** 0.5, rel=0.06)
    assert error("COUNT(*) - COUNT(weight)") == pytest.approx((known**2 - rows**2) ** 0.5, rel=0.06)


@pytest.mark.parametrize("groups", ["site", "ROLLUP (site, city)"])
def test_bars_know_what_columns_have_in_common(groups: str, session: Session) -> None:
    bars_of_counts_together(session, groups)


def test_columns_that_are_drawn_apart_are_noticed(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RoundedGaussian, "shared", ())
    with pytest.raises(AssertionError):
        bars_of_counts_together(session, "site")


BOUGHT = "/* dpsql: cube=off */ SELECT site, female, COUNT(*), SUM(income), AVG(income), COUNT(weight) / COUNT(*) FROM patient"


def test_totals_of_what_is_bought_have_errors(session: Session) -> None:
    answer = session.execute(f"{BOUGHT} GROUP BY CUBE (site, female) ORDER BY 1, 2 LIMIT 100")
    by_keys = {row[:2]: one[2:] for row, one in zip(answer.rows, answer.accuracy, strict=True) if row[1] is not None}
    # the total of all stands beside that of those without a value
    both = [(row[2], one[2:]) for row, one in zip(answer.rows, answer.accuracy, strict=True) if row[:2] == (None, None)]
    for row, one in zip(answer.rows, answer.accuracy, strict=True):
        assert one[:2] == (None, None)
        for value, accuracy in zip(row[2:], one[2:], strict=True):
            assert accuracy is not None and accuracy.low <= float(str(value)) <= accuracy.high
    finest, (_, whole) = by_keys[1, True], max(both, key=lambda found: found[0])
    for place in (0, 1):
        narrow, wide = finest[place], whole[place]
        assert narrow is not None and wide is not None
        # nine groups: three times the error, where noise is Gaussian; fewer for the tails of Laplace
        assert 2 < (wide.ends[1] - wide.ends[0]) / (narrow.ends[1] - narrow.ends[0]) < 3.1


def test_a_total_that_leaves_out_a_group_has_no_interval() -> None:
    people = [(i, 1 if i < 890 else 2, *row[2:]) for i, row in enumerate(PEOPLE)]
    with closing(clinic_data(GUARDED, {**DATA, "patient": people}).session(ZeroNoise())) as opened:
        opened.execute(PATIENTS)
        answer = opened.execute("SELECT site, female, city, COUNT(*) FROM patient GROUP BY ROLLUP (site, female, city)")
        shown = {row[:3]: one[-1] for row, one in zip(answer.rows, answer.accuracy, strict=True)}
        assert shown[2, None, None] is None and shown[1, True, "a"] is not None


def test_what_is_bought_although_a_cube_answers_it_says_so(session: Session) -> None:
    sql = "SELECT site, COUNT(*) FROM patient GROUP BY site"
    (note,) = [n for n in session.explain(f"EXPLAIN /* dpsql: epsilon=5 */ {sql}").splitlines() if "although" in n]
    bought = session.execute(f"/* dpsql: epsilon=5, buy=on */ {sql}")
    assert bought.releases and f"release_0: {bought.notes[-1]}" == note
    for other in ("/* dpsql: cube=off */ SELECT COUNT(*) FROM patient", "SELECT MEDIAN(income) FROM patient"):
        assert not any("although" in n for n in session.execute(other).notes)


def test_the_same_statement_is_the_same_cube_free(session: Session) -> None:
    spent = session.execute("SHOW BUDGET").rows
    for sql in (PATIENTS, "REFRESH CUBE Patients"):
        again = session.execute(sql)
        assert again.cached and not again.releases and any("nothing was charged" in note for note in again.notes)
    session.execute("DROP CUBE patients")
    assert session.execute("SHOW BUDGET").rows == spent
    assert not session.execute(PATIENTS).releases and session.execute("SHOW BUDGET").rows == spent


def test_a_dropped_cube_is_read_no_more(session: Session) -> None:
    dropped = session.execute("DROP CUBE PATIENTS")
    assert dropped.rows == [("patients",)] and "stays charged" in dropped.notes[0]
    assert not is_read(session.execute(READ[0]))
    with pytest.raises(Error, match="DPSQL-105: there is no cube patients; the cubes are visits"):
        session.execute("DROP CUBE patients")


def test_cubes_are_shown_and_explained(session: Session) -> None:
    shown = session.execute("SHOW CUBES")
    assert [row[0] for row in shown.rows] == ["patients", "visits"]
    first = dict(zip((name for name, _ in shown.columns), shown.rows[0], strict=True))
    assert first["numbers"] == "COUNT(*), SUM(income), SUM(weight)" and first["keys"] == "site, female, city"
    assert first["ways"] == 3 and first["cells"] == 36 and first["current"] is True
    told = session.explain(f"EXPLAIN {PATIENTS}")
    assert "price: stored already, so it is free" in told and "by site and female, 9 groups: COUNT(*) +-" in told
    assert "read off the cube patients, free" in session.explain(READ[0])
    assert session.price(PATIENTS)[1] == session.price(READ[0])[1] == 0
    assert session.price(PATIENTS.replace("patients", "others").replace("= 1,", "= 2,"))[1] == 1


def test_what_is_charged_is_the_rho_that_stays_within_epsilon_and_delta() -> None:
    """(1, 1e-6) is rho 0.02436 by the tight conversion, and not 0.4621."""
    with closing(clinic_data(TEXT, DATA).session(SeededNoise(1))) as opened:
        receipt = opened.execute(PATIENTS).receipt
        assert receipt.loss.epsilon is None and receipt.loss.rho <= Fraction(24356, 10**6)
        assert receipt.loss.rho > Fraction(24355, 10**6)
        assert receipt.loss.rho <= opened._world.ledger.spent().rho < receipt.loss.rho * (1 + Fraction(1, 2**40))


def test_people_with_several_rows_are_charged_for_all_of_them() -> None:
    """K rows cost K^2 times one: the noise is K times as wide at the same price."""
    errors = []
    for rows in (1, 3):
        with closing(clinic_data(TEXT, DATA).session(ZeroNoise())) as opened:
            made = opened.execute(OF_VISITS.replace("OPTIONS (", f"OPTIONS (max_rows = {rows}, "))
            assert made.receipt.loss.rho == pytest.approx(0.024356, abs=1e-6)
            errors.append(float(str(made.rows[0][2])))
    assert errors[1] == pytest.approx(3 * errors[0], rel=1e-3)


def test_ways_bound_which_keys_are_told_together() -> None:
    with closing(clinic_data(TEXT, DATA).session(ZeroNoise())) as opened:
        made = opened.execute(PATIENTS.replace("OPTIONS (", "OPTIONS (ways = 2, "))
        assert len(made.rows) == 7
        assert is_read(opened.execute("SELECT site, city, COUNT(*) FROM patient GROUP BY site, city"))
        assert is_read(opened.execute("SELECT site, COUNT(*) FROM patient WHERE city = 'a' GROUP BY site"))
        three = "SELECT site, city, COUNT(*) FROM patient WHERE female GROUP BY site, city"
        assert not is_read(opened.execute(three))


REFUSED = {
    "CREATE PRIVATE CUBE c AS SELECT site, MEDIAN(income) FROM patient GROUP BY CUBE (site)": "106: a cube holds COUNT",
    "CREATE PRIVATE CUBE c AS SELECT site, SUM(income) FILTER (WHERE female) FROM patient GROUP BY CUBE (site)": "106: a cube holds",
    "CREATE PRIVATE CUBE c AS SELECT label, COUNT(*) FROM item JOIN drug USING (drug) GROUP BY CUBE (label)": "104: a cube is",
    "CREATE PRIVATE CUBE c AS SELECT site, site = 1, COUNT(*) FROM patient GROUP BY CUBE (site, site = 1)": "303: each key",
    "CREATE PRIVATE CUBE c AS SELECT site, SUM(code) FROM patient GROUP BY CUBE (site)": "201: SUM.code. has no bounds",
    "CREATE PRIVATE CUBE c AS SELECT site, COUNT(*) FROM patient GROUP BY site": "101: a cube ends with GROUP BY CUBE",
    "CREATE PRIVATE CUBE c AS SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site) LIMIT 2": "101: a cube ends with",
    "CREATE PRIVATE CUBE c SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site)": "101: AS and the question are missing",
    "CREATE PRIVATE CUBE": "101: the name of the cube is missing",
    "CREATE PRIVATE CUBE c OPTIONS (ways = 0) AS SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site)": "104: ways must be",
    "CREATE PRIVATE CUBE c OPTIONS (error = 5) AS SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site)": "104: a cube has no option",
    "CREATE PRIVATE CUBE c OPTIONS (delta = 0) AS SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site)": "104: .*spends delta",
    "CREATE PRIVATE CUBE c OPTIONS (epsilon = 9999999) AS SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site)": "502: epsilon",
    "CREATE PRIVATE CUBE c AS SELECT drug, COUNT(*) FROM drug GROUP BY CUBE (drug)": "104: a cube is made of one SELECT",
    "CREATE PRIVATE CUBE patients AS SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site)": "105: there is a cube patients already",
    "/* dpsql: epsilon=1 */ CREATE PRIVATE CUBE c AS SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site)": "104: ",
    "DROP CUBE patients now": "101: nothing stands behind DROP CUBE",
    "EXPLAIN DROP CUBE patients": "103: DROP CUBE is free",
}  # fmt: skip


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_cube_is_refused_before_the_charge(sql: str, session: Session) -> None:
    before = session.execute("SHOW BUDGET").rows
    with pytest.raises(Error, match=f"DPSQL-{REFUSED[sql]}") as raised:
        session.execute(sql)
    assert raised.value.hint and session.execute("SHOW BUDGET").rows == before


def test_where_epsilons_alone_are_added_up_it_is_refused() -> None:
    text = clinic.schema_text(accounting="sequential")
    with (
        closing(clinic_data(text, DATA).session(ZeroNoise())) as opened,
        pytest.raises(Error, match="DPSQL-104") as raised,
    ):
        opened.execute(PATIENTS)
    assert 'accounting = "auto"' in str(raised.value.hint)


def test_the_owner_caps_cubes_apart_from_statements() -> None:
    caps = "caps = { epsilon = 0.5, delta = 1e-5, cube = { epsilon = 2, delta = 1e-6 } }"
    text = TEXT.replace("caps = { epsilon = 1000000.0, delta = 0.4 }", caps)
    with closing(clinic_data(text, DATA).session(ZeroNoise())) as opened:
        assert opened.execute(PATIENTS.replace("= 1,", "= 2,")).releases
        with pytest.raises(Error, match="502: epsilon = 3 is above the owner's cap of 2 for one cube"):
            opened.execute(PATIENTS.replace("= 1,", "= 3,"))
        with pytest.raises(Error, match="502"):
            opened.execute("/* dpsql: epsilon=1 */ SELECT COUNT(*) FROM patient")


def test_rule_74_a_cube_costs_no_less_than_any_statement_may() -> None:
    """In rho, and what the hint says is enough."""
    text = TEXT.replace("least = 1e-18", "least = 0.01")
    with closing(clinic_data(text, DATA).session(ZeroNoise())) as opened:
        cheap = PATIENTS.replace("epsilon = 1,", "epsilon = 0.001,")
        with pytest.raises(Error, match="503: a cube at epsilon") as raised:
            opened.execute(cheap)
        enough = re.search(r"epsilon = ([0-9.]+)", raised.value.hint or "")
        assert enough is not None and opened.execute("SHOW CUBES").rows == []
        bought = opened.execute(cheap.replace("0.001", enough[1]))
        assert bought.receipt.loss.rho >= rho_at_most(Fraction(1, 100)) > bought.receipt.loss.rho * Fraction(4, 5)


def test_groups_of_few_are_not_shown_by_the_noisy_count() -> None:
    """R2: a tenth of the sites has no more than two people."""
    people = [(i, 1 if i < 890 else 2, *row[2:]) for i, row in enumerate(PEOPLE)]
    text = TEXT.replace('mode = "off"', 'mode = "block"\nk = 20').replace("[privacy]", "[privacy]\nunits = 900")
    with closing(clinic_data(text, {**DATA, "patient": people}).session(ZeroNoise())) as opened:
        opened.execute(PATIENTS)
        # 900 people, 36 cells and three of them: too few are expected in one
        sql = "SELECT site, female, city, COUNT(*) FROM patient GROUP BY site, female, city"
        read = opened.execute(sql)
        assert is_read(read)
        assert {row[3] is None for row in read.rows} == {True, False}
        assert all(row[3] is None or int(str(row[3])) >= 20 for row in read.rows)


OF_CITIES = """CREATE PRIVATE CUBE cities OPTIONS (epsilon = 0.3, delta = 1e-6) AS
SELECT site, city, COUNT(*) FROM patient GROUP BY CUBE (site, city)"""
GUARDED = TEXT.replace('mode = "off"', 'mode = "block"\nk = 20').replace("[privacy]", "[privacy]\nunits = 900")


def test_what_is_read_off_is_read_before_it_is_looked_whom_it_asks_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """R3 is not asked of it, and R2 hides no group of so many: so the sample units are left alone."""
    with closing(clinic_data(GUARDED, DATA).session(ZeroNoise())) as opened:
        opened.execute(OF_CITIES)
        guard = opened._world.guard
        monkeypatch.setattr(guard, "_judged", lambda bounded: pytest.fail("it was looked whom it asks about"))
        for sql in (*READ[:2], "SELECT site, COUNT(*) FROM patient WHERE city = 'a' GROUP BY site"):
            assert is_read(opened.execute(sql))


def few(noise: ZeroNoise, text: str = GUARDED) -> list[tuple[object, ...]]:
    """Groups of few people, though many were expected: of the city 'b' at site 3 there are five."""
    people = [
        (i, 3 if i < 5 else 1, *row[2:7], "b" if i < 5 or i % 2 else "a", *row[8:]) for i, row in enumerate(PEOPLE)
    ]
    with closing(clinic_data(text, {**DATA, "patient": people}).session(noise)) as opened:
        opened.execute(OF_CITIES)
        read = opened.execute("SELECT site, COUNT(*) FROM patient GROUP BY site")
        assert is_read(read)
        return rows_of(read)


def test_groups_that_are_small_by_the_noisy_count_are_judged_like_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a group below k it is looked whom it asks about, as of what is bought; what is expected to be large is shown all the same."""
    judged: list[object] = []
    honest = Guarding._judged
    monkeypatch.setattr(Guarding, "_judged", lambda *a: (judged.append(a), honest(*a))[1])
    found = few(ZeroNoise())
    assert len(judged) == 2 and [row[0] for row in found] == [1, 2, 3]


def test_a_planted_way_past_the_smallest_cell_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guarding, "people_shown", lambda *_: 0)
    with pytest.raises(AssertionError):
        test_groups_of_few_are_not_shown_by_the_noisy_count()


def test_conditions_on_identifiers_are_refused_with_a_cube_too() -> None:
    with closing(clinic_data(GUARDED, DATA).session(ZeroNoise())) as opened:
        opened.execute(PATIENTS)
        with pytest.raises(Error, match="DPSQL-601"):
            opened.execute("SELECT site, COUNT(*) FROM patient WHERE patient_id <> 7 GROUP BY site")


def test_after_a_cube_it_is_told_how_many_statements_fit() -> None:
    """Sums of epsilons end with it: the largest price of one statement says little of what is left."""
    text = TEXT.replace("epsilon = 1000000.0, delta = 0.4", "epsilon = 4.0, delta = 1e-5", 1).replace(
        "caps = { epsilon = 1000000.0, delta = 0.4 }", "caps = { epsilon = 2.0, delta = 1e-6 }"
    )
    with closing(clinic_data(text, DATA).session(ZeroNoise())) as opened:
        assert opened.execute("SELECT COUNT(*) FROM patient").receipt.statements is None
        made = opened.execute(PATIENTS).receipt
        shown = opened.execute("SHOW BUDGET")
        told = dict(zip((name for name, _ in shown.columns), shown.rows[0], strict=True))
        read = opened.execute(READ[0]).receipt
        assert made.statements == read.statements == told["statements_left"]
        assert made.statements is not None and made.statements > 20
        opened.execute("/* dpsql: cube=off */ SELECT COUNT(*) FROM patient WHERE site = 2")
        assert opened.execute(READ[0]).receipt.statements == made.statements - 1


@pytest.mark.parametrize(("epsilon", "compared"), [("0.3", 0), ("5", 1)])
def test_what_is_read_with_little_noise_is_compared_like_what_is_bought(
    epsilon: str, compared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 69: noise that deviates by less than `readable` units could show a difference of two answers."""
    text = TEXT.replace('mode = "off"', 'mode = "block"\nk = 20').replace("[privacy]", "[privacy]\nunits = 900")
    with closing(clinic_data(text, DATA).session(ZeroNoise())) as opened:
        options = f"OPTIONS (epsilon = {epsilon}, delta = 1e-6)"
        opened.execute(f"CREATE PRIVATE CUBE c {options} AS SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site)")
        asked: list[int] = []
        guard = opened._world.guard
        honest = guard.compare
        monkeypatch.setattr(guard, "compare", lambda questions: (asked.append(len(questions)), honest(questions))[1])
        assert is_read(opened.execute("SELECT site, COUNT(*) FROM patient GROUP BY site"))
        assert asked == [compared]


def test_another_analyst_reads_it_and_cannot_drop_it() -> None:
    text = TEXT + "\n[analysts.ann]\n[analysts.bob]\n"
    data = clinic_data(text, DATA)
    with closing(data.session(ZeroNoise(), "ann")) as ann:
        ann.execute(PATIENTS)
        world = ann._world
        with pytest.raises(Error, match="DPSQL-105: the cube patients was made by another analyst"):
            known = world.stored.cubes.names.get("patients")
            assert known is not None
            world.analyst = type(world.analyst)("bob")
            ann.execute("DROP CUBE patients")


# --- durable ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schema.toml").write_text(TEXT)
    clinic.write(tmp_path, DATA)
    return tmp_path / "schema.toml"


def opened(schema: Path, noise: object = None) -> Session:
    return open_session(schema, None, schema.parent / "ledger", noise or SeededNoise(3))  # type: ignore[arg-type]


def test_a_cube_outlives_its_session(folder: Path) -> None:
    with closing(opened(folder)) as first:
        first.execute(PATIENTS)
        found = first.execute(READ[2]).rows
    with closing(opened(folder)) as second:
        again = second.execute(READ[2])
        assert is_read(again) and again.rows == found
        assert not second.execute(PATIENTS).releases
        assert second._world.ledger.verify() == 1


def test_another_version_of_the_data_needs_a_refresh(folder: Path) -> None:
    with closing(opened(folder, ZeroNoise())) as first:
        first.execute(PATIENTS)
    clinic.write(folder.parent, {**DATA, "patient": PEOPLE[:600]})
    with closing(opened(folder, ZeroNoise())) as second:
        assert not is_read(second.execute("SELECT site, COUNT(*) FROM patient GROUP BY site"))
        assert second.execute("SHOW CUBES").rows[0][-1] is False
        with pytest.raises(
            Error, match="105: there is a cube patients already, of another question or version"
        ) as raised:
            second.execute(PATIENTS)
        assert "REFRESH CUBE patients" in str(raised.value.hint)
        told = second.explain("EXPLAIN REFRESH CUBE patients")
        assert "price: rho 0.0243" in told
        assert second.price("REFRESH CUBE patients")[1] == 1
        refreshed = second.execute("REFRESH CUBE patients")
        assert refreshed.releases == 1 and refreshed.receipt.loss.rho > 0
        read = second.execute("SELECT female, COUNT(*) FROM patient GROUP BY female")
        assert is_read(read) and sum(int(str(row[1])) for row in read.rows) == 600
        assert second.execute("SHOW CUBES").rows[0][-1] is True


class Killed(BaseException):
    pass


class KillingNoise(ZeroNoise):
    def gaussians(self, sigmas: object) -> list[int]:
        raise Killed


@pytest.mark.parametrize("place", ["noise", "answer", "name"])
def test_whoever_is_killed_in_the_middle_has_a_charge_and_nothing_twice(
    place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the noise is there, before the answer is stored, before the cube has its name: the charge stands. Where the answer is
    there the cube is made free; else it is bought once more."""

    def kill(*_: object, **__: object) -> None:
        raise Killed

    with closing(opened(folder, KillingNoise() if place == "noise" else ZeroNoise())) as first:
        with monkeypatch.context() as patch:
            if place == "answer":
                patch.setattr(Answers, "put", kill)
            if place == "name":
                patch.setattr("dpsql.accounting.named.Names.keep", kill)
            with pytest.raises((Killed, Error)):
                first.execute(PATIENTS)
        charged = first._world.ledger.spent().rho
        assert charged > 0
    with closing(opened(folder, ZeroNoise())) as second:
        assert second.execute("SHOW CUBES").rows == []
        again = second.execute(PATIENTS)
        assert again.releases == (0 if place == "name" else 1)
        assert second._world.ledger.spent().rho == (1 if place == "name" else 2) * charged
        assert is_read(second.execute(READ[0]))


def test_an_entry_that_was_edited_is_damage(folder: Path) -> None:
    import sqlite3

    with closing(opened(folder)) as first:
        first.execute(PATIENTS)
    with closing(sqlite3.connect(folder.parent / "ledger")) as edited:
        edited.execute("UPDATE cube SET body = replace(body, '\"patients\"', '\"others\"')")
        edited.commit()
    with closing(opened(folder)) as second, pytest.raises(Error, match="DPSQL-705"):
        second.execute("SHOW CUBES")


@pytest.mark.slow
def test_bars_cover_what_is_true() -> None:
    """40 cubes of seeded noise, 7 numbers each: of 280 intervals at 95 % fewer than 222 hold with a probability below 1e-9."""
    data = clinic_data(TEXT, DATA)
    with closing(data.session(ZeroNoise())) as exact:
        sql = "SELECT site, COUNT(*), AVG(income) FROM patient WHERE city = 'a' AND site >= 2 GROUP BY site"
        more = "SELECT female, SUM(weight) FROM patient GROUP BY female"
        truth = [exact.execute(f"/* dpsql: cube=off */ {text}").rows for text in (sql, more)]
    covered = total = 0
    chance = random.Random(20)
    for _ in range(40):
        with closing(data.session(SeededNoise(chance.randrange(2**32)))) as opened:
            opened.execute(PATIENTS)
            for text, true in zip((sql, more), truth, strict=True):
                answer = opened.execute(text)
                assert is_read(answer)
                for row, accuracies in zip(true, answer.accuracy, strict=True):
                    for value, accuracy in zip(row, accuracies, strict=True):
                        if accuracy is not None:
                            low, high = accuracy.ends
                            covered += low <= float(str(value)) <= high
                            total += 1
    assert total == 280 and 222 <= covered < 280


@pytest.mark.parametrize(
    "terms", ["epsilon = 1e-7, delta = 1e-6", "epsilon = 1, delta = 0.39", "epsilon = 3000, delta = 0.3"]
)
def test_a_delta_that_is_large_beside_its_epsilon_buys_no_more_than_the_epsilon_stands_for(terms: str) -> None:
    """It is bought, and costs no more rho than any statement of its epsilon may."""
    with closing(clinic_data(TEXT, DATA).session(ZeroNoise())) as session:
        made = session.execute(
            f"CREATE PRIVATE CUBE c OPTIONS ({terms}) AS SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site)"
        )
        epsilon = Fraction(terms.split()[2].rstrip(","))
        assert 0 < made.receipt.loss.rho <= rho_at_most(epsilon)


# --- marginals of some keys at a time ---------------------------------------------------------------------------------

FEW_CELLS = TEXT.replace("[privacy]", "[privacy]\nmax_cells = 35", 1)
"""Fewer than sites, sexes and cities make together."""
BY_TWO = """CREATE PRIVATE CUBE pairs OPTIONS (epsilon = 1, delta = 1e-6, ways = 2) AS
SELECT site, female, city, COUNT(*), SUM(income), AVG(weight) FROM patient GROUP BY CUBE (site, female, city)"""
OF_TWO = [
    "SELECT COUNT(*) FROM patient",
    "SELECT city, site, COUNT(*), SUM(income), AVG(weight) FROM patient GROUP BY city, site",
    "SELECT female, COUNT(*), COUNT(weight) FROM patient WHERE site IN (1, 3) GROUP BY female",
    "SELECT city, COUNT(*) FROM patient GROUP BY ROLLUP (city)",
]


def test_groups_by_two_keys_need_no_table_of_all_keys() -> None:
    with closing(clinic_data(FEW_CELLS, DATA).session(ZeroNoise())) as session:
        with pytest.raises(Error, match="DPSQL-304: all keys together"):
            session.execute(BY_TWO.replace(", ways = 2", ""))
        session.execute(BY_TWO)
        for sql in OF_TWO:
            read, bought = session.execute(sql), session.execute(f"/* dpsql: cube=off */ {sql}")
            assert is_read(read) and bought.releases
            for row, other in zip(rows_of(read), rows_of(bought), strict=True):
                for one, two in zip(row, other, strict=True):
                    assert one == two or float(str(one)) == pytest.approx(float(str(two)), rel=1e-9, abs=1e-6)
        again = session.execute(BY_TWO)
        assert not again.releases and again.cached


@pytest.mark.parametrize(("columns", "ways"), [(24, 2), (9, 9)])
def test_too_many_sets_of_keys_are_refused(columns: int, ways: int, tmp_path: Path) -> None:
    listed = ", ".join(f"c{i}" for i in range(columns))
    flags = ", ".join(f"(i % {2 + i}) < 1 AS c{i}" for i in range(columns))
    duckdb.sql(f"COPY (SELECT i AS person, {flags} FROM range(100) AS t(i)) TO '{tmp_path / 't.parquet'}'")
    declared = "".join(f'c{i} = {{ type = "BOOLEAN", nullable = false }}\n' for i in range(columns))
    (tmp_path / "schema.toml").write_text(
        '[dataset]\nname = "t"\nsource = "."\n[privacy]\nunit = "t.person"\nepsilon = 4.0\ndelta = 1e-6\n'
        'query = { epsilon = 0.1, delta = 1e-9 }\n[tables.t]\nsource = "t.parquet"\nkey = ["person"]\n[tables.t.columns]\n'
        f'person = {{ type = "BIGINT" }}\n{declared}'
    )
    sql = (
        "EXPLAIN CREATE PRIVATE CUBE c OPTIONS (epsilon = 0.1, ways = {}) AS SELECT COUNT(*) FROM t GROUP BY CUBE ({})"
    )
    with closing(open_session(tmp_path / "schema.toml", "owner", ledger=":memory:")) as session:
        with pytest.raises(Error, match=f"at most 256 sets of keys, and {columns} keys have more by {ways}"):
            session.execute(sql.format(ways, listed))
        assert session.execute(sql.format(1, listed)).rows


@pytest.mark.parametrize("option", ["", "/* dpsql: cube=off, epsilon=0.02 */"], ids=["read off", "bought"])
def test_an_average_of_a_total_is_within_its_bounds(option: str) -> None:
    """Of few rows: without the clamp, sums of noise are far beyond. What divides two sums by itself is left as it is."""
    with closing(clinic_data(TEXT, DATA).session(SeededNoise(3))) as opened:
        opened.execute(PATIENTS)
        few = "FROM patient WHERE city = 'c' GROUP BY ROLLUP (site, female)"
        found = opened.execute(f"{option} SELECT AVG(weight) {few}").rows
        shown = [float(str(value)) for (value,) in found if value is not None]
        assert shown and all(40 <= value <= 200 for value in shown) and {40.0, 200.0} & set(shown)
        ratio = f"{option} SELECT CASE WHEN COUNT(weight) >= 1 THEN SUM(weight) / COUNT(weight) END {few}"
        beside = [float(str(value)) for (value,) in opened.execute(ratio).rows if value is not None]
        assert any(not 40 <= value <= 200 for value in beside)
