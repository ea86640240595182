"""Nothing fresh is given for nothing: stored answers of another question, draws without a charge, charges that are not the difference.

The clinic's patients have NULL keys, values beyond their bounds and keys that are not declared, so that questions that differ in
anything have different answers.
"""

from __future__ import annotations

import itertools
import math
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting import claims
from dpsql.accounting.vectors import Vectors
from dpsql.core.errors import Error
from dpsql.core.loss import NO_LOSS, PrivacyLoss, total
from dpsql.mechanisms.conversions import rho_at_most
from dpsql.planner.parse import parse
from dpsql.planner.pricing import accounted
from dpsql.session.opening import open_session
from dpsql.session.result import Answer
from dpsql.session.session import Session
from dpsql.sql.duckdb import printed
from tests.support import clinic
from tests.support.noise import RecordedNoise, SeededNoise, ZeroNoise
from tests.support.planning import compiled_by
from tests.support.trees import text, told

TEXT = clinic.UNIT + clinic.PATIENT + clinic.VISIT + clinic.PUBLIC
ZCDP = TEXT.replace("delta = 0.5\n", 'delta = 0.5\naccounting = "zcdp"\n')
ANALYSTS = "\n[analysts.ann]\n[analysts.bob]\n"


def data(seed: int = 3) -> clinic.Database:
    """Of many people, so that no two conditions are the same by chance."""
    chance, found = random.Random(seed), clinic.database(random.Random(seed))
    people: list[clinic.Row] = []
    visits: list[clinic.Row] = []
    while len(people) < 120:
        drawn = clinic.database(chance)
        moved = {row[0]: 1000 + len(people) + i for i, row in enumerate(drawn["patient"])}
        people += [(moved[row[0]], *row[1:]) for row in drawn["patient"]]
        visits += [(len(visits) + i, moved.get(row[1]), *row[2:]) for i, row in enumerate(drawn["visit"])]
    return {**found, "patient": people, "visit": visits, "item": []}


DATA = data()


@contextmanager
def opened(folder: Path, text: str = TEXT, noise: object = None, ledger: str | Path = ":memory:") -> Iterator[Session]:
    if not (folder / "clinic.duckdb").exists():
        clinic.write(folder, DATA)
    path = folder / f"{abs(hash(text))}.toml"
    path.write_text(text)
    session = open_session(path, None, ledger, noise=noise or ZeroNoise())  # type: ignore[arg-type]
    try:
        yield session
    finally:
        session.close()


def gaussian(epsilon: object, sql: str) -> str:
    return f"/* dpsql: epsilon={epsilon}, mechanism=gaussian */ {sql}"


def spent(session: Session) -> PrivacyLoss:
    return session._world.ledger.spent()


# --- one question, one hash ---------------------------------------------------------------------------------------

QUESTIONS = [
    "SELECT COUNT(*), SUM(age) FROM patient",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE female",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE NOT female",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE female IS NULL",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE city = 'a'",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE city = 'A'",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE city = 'a' OR site = 1",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE city = 'a' AND site = 1",
    'SELECT COUNT(*), SUM(age) FROM patient WHERE note = \'"a"."b"\'',
    "SELECT COUNT(*), SUM(age) FROM patient WHERE age > 20",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE age > 20.5",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE age >= 20",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE age > 20 AND age > 30",
    "SELECT COUNT(*) FILTER (WHERE female), SUM(age) FILTER (WHERE female) FROM patient",
    "SELECT COUNT(*) FILTER (WHERE NOT female), SUM(age) FILTER (WHERE NOT female) FROM patient",
    "SELECT COUNT(age), SUM(age) FROM patient",
    "SELECT COUNT(code), SUM(code % 5) FROM patient",
    "SELECT COUNT(weight), SUM(weight) FROM patient",
    "SELECT COUNT(income), SUM(income) FROM patient",
    "SELECT COUNT(*), SUM(dp_clamped(age, 10, 50)) FROM patient",
    "SELECT COUNT(*), SUM(dp_clamped(age, 20, 50)) FROM patient",
    "SELECT COUNT(*), dp_sum(age, lower := 10, upper := 50) FROM patient",
    "SELECT COUNT(*), SUM(age + 1) FROM patient",
    "SELECT COUNT(*), SUM(-age) FROM patient",
    "SELECT COUNT(*), SUM(age * 2) FROM patient",
    "SELECT COUNT(*), SUM(CAST(age AS DOUBLE)) FROM patient",
    "SELECT COUNT(*), AVG(age) FROM patient",
    "SELECT COUNT(*), SUM(cost) FROM visit",
    "/* dpsql: max_rows=2 */ SELECT COUNT(*), SUM(cost) FROM visit",
    "/* dpsql: max_rows=1 */ SELECT COUNT(*), SUM(cost) FROM visit",
    "SELECT COUNT(DISTINCT patient_id), SUM(cost) FROM visit",
    "SELECT COUNT(*), SUM(days) FROM visit",
    "SELECT COUNT(DISTINCT tag), COUNT(*) FROM visit",
    "SELECT COUNT(DISTINCT tag), COUNT(*) FILTER (WHERE tag = 't1') FROM visit",
    "SELECT COUNT(DISTINCT days), COUNT(*) FROM visit",
    "/* dpsql: max_values=1 */ SELECT COUNT(DISTINCT tag), COUNT(*) FROM visit",
    "SELECT COUNT(*), SUM(age) FROM patient LEFT JOIN visit USING (patient_id)",
    "SELECT COUNT(*), SUM(age) FROM patient JOIN visit USING (patient_id)",
    "SELECT COUNT(cost), SUM(age) FROM patient LEFT JOIN visit ON patient.patient_id = visit.patient_id",
    "SELECT COUNT(*), SUM(age) FROM patient LEFT JOIN visit ON patient.patient_id = visit.patient_id AND year = 1",
    "SELECT COUNT(*), SUM(age) FROM visit LEFT JOIN patient ON patient.patient_id = visit.patient_id",
    "SELECT COUNT(*), SUM(age) FROM patient JOIN drug ON site = drug",
    "SELECT COUNT(*), SUM(age) FROM patient JOIN drug ON site = drug WHERE label = 'x'",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE site IN (SELECT drug FROM drug)",
    "SELECT COUNT(*), SUM(age) FROM patient WHERE site IN (SELECT drug FROM drug WHERE label = 'x')",
    "SELECT COUNT(*), SUM(n) FROM (SELECT patient_id, LEAST(COUNT(*), 5) AS n FROM visit GROUP BY patient_id) AS t",
    "SELECT COUNT(*), SUM(n) FROM (SELECT patient_id, LEAST(COUNT(*), 4) AS n FROM visit GROUP BY patient_id) AS t",
    "SELECT COUNT(*), SUM(n) FROM (SELECT patient_id, LEAST(COUNT(*), 5) AS n FROM visit WHERE year > 1 GROUP BY patient_id) AS t",
    "SELECT COUNT(*), SUM(a) FROM (SELECT DISTINCT patient_id, age AS a FROM patient) AS t",
    "SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT patient_id FROM visit)",
    "SELECT COUNT(*) FROM patient WHERE patient_id NOT IN (SELECT patient_id FROM visit WHERE patient_id IS NOT NULL)",
    "SELECT COUNT(*) FROM patient WHERE EXISTS (SELECT 1 FROM visit WHERE visit.patient_id = patient.patient_id AND year = 2)",
    "SELECT COUNT(*), SUM(x) FROM (SELECT patient_id, age AS x FROM patient UNION ALL SELECT patient_id, year FROM visit) AS t",
    "SELECT COUNT(*), SUM(x) FROM (SELECT patient_id, age AS x FROM patient UNION ALL SELECT patient_id, days FROM visit) AS t",
    "SELECT site, COUNT(*), SUM(age) FROM patient GROUP BY site",
    "SELECT site % 2, COUNT(*), SUM(age) FROM patient GROUP BY 1",
    "SELECT city, COUNT(*), SUM(age) FROM patient GROUP BY city",
    "SELECT COALESCE(city, 'a'), COUNT(*), SUM(age) FROM patient GROUP BY 1",
    "SELECT site, COUNT(*), SUM(age) FROM patient WHERE site <> 2 GROUP BY site",
    "SELECT year, COUNT(*), SUM(cost) FROM visit GROUP BY year",
    "/* dpsql: max_groups=1 */ SELECT year, COUNT(*), SUM(cost) FROM visit GROUP BY year",
    "/* dpsql: max_groups=2 */ SELECT year, COUNT(*), SUM(cost) FROM visit GROUP BY year",
]


def check_questions(folder: Path, seed: int = 0) -> None:
    """In any order, in one session: what is no roll-up is what it is where it is asked anew, with the same cuts."""
    order = list(QUESTIONS)
    random.Random(seed).shuffle(order)
    answers: dict[str, Answer] = {}
    with opened(folder) as session:
        for sql in order:
            with suppress(Error):
                answers[sql] = session.execute(sql)
        assert len(answers) > 50
        for sql, answer in answers.items():
            assert answer.notes or answer.rows == session.execute(f"/* dpsql: fresh */ {sql}").rows, sql
            assert answer.cached or not answer.notes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1))
def test_rule_40_no_question_is_answered_with_another(tmp_path: Path, seed: int) -> None:
    check_questions(tmp_path, seed)


def questions_of(session: Session, sql: str) -> list[tuple[str, object]]:
    """The hashes of a statement's statistics, with the keys that decide whether cells are the same."""
    found: list[tuple[str, object]] = []
    for part in compiled_by(session, parse(sql)).releases:
        asked = session._world.stored.questions.asked(part)
        if asked is not None:
            found += [(question, (asked.keys, asked.limits)) for question in asked.questions]
    return found


def test_rule_40_hashes_differ_where_questions_do(tmp_path: Path) -> None:
    """Two statistics with one hash by the same keys have one exact vector."""
    with opened(tmp_path) as session:
        seen: dict[tuple[str, object], set[str]] = {}
        for sql in QUESTIONS:
            try:
                releases = compiled_by(session, parse(sql)).releases
            except Error:
                continue
            for part in releases:
                asked = session._world.stored.questions.asked(part)
                for place, measure in enumerate(part.release.measures if asked is not None else ()):
                    assert asked is not None
                    name = (asked.questions[place], (asked.keys, asked.limits))
                    block = part.release.limited.block
                    where = [text(c) for c in block.source.where]
                    meant = f"{told(measure.statistic.identity)} {printed(block.source.read())} {where}"
                    seen.setdefault(name, set()).add(meant)
        assert all(len(texts) == 1 for texts in seen.values()), [t for t in seen.values() if len(t) > 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT COUNT(*) FROM patient AS p WHERE p.age > 20", "SELECT COUNT(*) FROM patient WHERE age > 20"),
        ("SELECT COUNT(*) AS n FROM patient", "SELECT COUNT(*) + 1 AS m FROM patient ORDER BY m"),
    ],
)
def test_rule_40_names_are_no_part_of_a_question(tmp_path: Path, one: str, other: str) -> None:
    with opened(tmp_path) as session:
        assert questions_of(session, one) == questions_of(session, other) != []


CHANGED = [
    ("bounds = [-50, 100]", "bounds = [-50, 90]"),
    ("domain = [1, 2, 3]", "domain = [1, 2]"),
    ("step = 0.5", "step = 0.25"),
    ('unit = "patient.patient_id"', 'unit = "patient.patient_id"\nunits = 1000'),
]


@pytest.mark.few(1)
@pytest.mark.parametrize("change", CHANGED, ids=lambda change: change[1].replace("\n", " "))
def test_rule_40_answers_under_another_schema_are_not_read(tmp_path: Path, change: tuple[str, str]) -> None:
    finer = "SELECT site, female, COUNT(*), SUM(income) FROM patient GROUP BY ALL"
    asked = [
        finer,
        "SELECT COUNT(*), SUM(income) FROM patient",
        "SELECT site, COUNT(*), SUM(income) FROM patient GROUP BY 1",
    ]
    assert change[0] in TEXT
    with opened(tmp_path, ledger=tmp_path / "x.ledger") as session:
        session.execute(f"/* dpsql: epsilon=0.1 */ {finer}")
    with opened(tmp_path, TEXT.replace(*change), ledger=tmp_path / "x.ledger") as session:
        for sql in (*asked[1:], asked[0]):
            assert not session.execute(f"/* dpsql: epsilon=0.01 */ {sql}").cached, sql


def check_versions(tmp_path: Path) -> None:
    """The data changes below one ledger."""
    finer, coarser = "SELECT female, COUNT(*) FROM patient GROUP BY 1", "SELECT COUNT(*) FROM patient"
    with opened(tmp_path, ledger=tmp_path / "x.ledger") as session:
        session.execute(f"/* dpsql: epsilon=0.2 */ {finer}")
        assert session.execute(f"/* dpsql: epsilon=0.1 */ {coarser}").cached
    clinic.write(tmp_path, clinic.without(DATA, 1000))
    with opened(tmp_path, ledger=tmp_path / "x.ledger") as session:
        for sql in (coarser, finer):
            answer = session.execute(f"/* dpsql: epsilon=0.1 */ {sql}")
            assert not answer.cached and sum(row[-1] for row in answer.rows) == len(DATA["patient"]) - 1  # type: ignore[misc]


def test_rule_40_answers_on_another_version_are_not_read(tmp_path: Path) -> None:
    check_versions(tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize("shared", [True, False])
def test_rule_40_answers_of_an_analyst_who_shares_none(tmp_path: Path, shared: bool) -> None:
    """Neither given again, nor added up, nor sharpened; toppings of others cost their whole price."""
    clinic.write(tmp_path, DATA)
    text = ZCDP.replace("delta = 0.5\n", f"delta = 0.5\nshared_answers = {str(shared).lower()}\n") + ANALYSTS
    path = tmp_path / "s.toml"
    path.write_text(text.replace(ANALYSTS, ""))
    open_session(path, None, tmp_path / "x.ledger").close()  # approves the data
    path.write_text(text)
    finer, coarser = "SELECT female, COUNT(*) FROM patient GROUP BY 1", "SELECT COUNT(*) FROM patient"
    ann, bob = (open_session(path, name, tmp_path / "x.ledger", noise=ZeroNoise()) for name in ("ann", "bob"))
    ann.execute(gaussian("0.2", finer))
    assert ann.execute(gaussian("0.1", coarser)).cached
    assert bob.execute(gaussian("0.1", coarser)).cached is shared
    assert bob.execute(gaussian("0.1", finer)).cached is shared
    paid = bob.execute(gaussian("0.4", finer)).receipt.loss.rho
    whole = rho_at_most(Fraction(4, 10))
    before = rho_at_most(Fraction(2, 10) if shared else Fraction(1, 10))
    assert float(paid) == pytest.approx(float(whole - before), rel=1e-6)
    ann.close()
    bob.close()


# --- nothing is drawn without a charge ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("text", [TEXT, ZCDP], ids=["sequential", "zcdp"])
def test_rule_42_what_is_drawn_is_what_is_charged(tmp_path: Path, text: str) -> None:
    """Many statements in one session: noise is drawn where, and only where, its loss is in the ledger."""
    noise, chance = RecordedNoise(), random.Random(4)
    keys = ["", "site", "female", "site, female", "city, site", "city"]
    values = [
        "COUNT(*)",
        "SUM(age)",
        "AVG(age)",
        "COUNT(age)",
        "COUNT(*), AVG(income)",
        "VAR_POP(age), COUNT(*)",
        "MEDIAN(age)",
    ]
    losses: list[PrivacyLoss] = []
    with opened(tmp_path, text, noise) as session:
        for _ in range(80):
            own, key = chance.choice(values), chance.choice(keys)
            options = (
                f"epsilon={chance.choice(['0.1', '0.2', '0.4'])}, mechanism={chance.choice(['gaussian', 'laplace'])}"
            )
            options += ", fresh" if chance.random() < 0.1 else ""
            sql = f"SELECT {key}{', ' if key else ''}{own} FROM patient" + (f" GROUP BY {key}" if key else "")
            before, known = len(noise.drawn), spent(session)
            answer = session.execute(f"/* dpsql: {options} */ {sql}")
            losses.append(answer.receipt.loss)
            assert (len(noise.drawn) > before) == (not answer.cached) == (answer.receipt.loss != NO_LOSS), sql
            assert (spent(session) == known) == answer.cached
        assert sum(loss == NO_LOSS for loss in losses) > 20
        assert spent(session) == total(losses)
        assert session._world.ledger.verify() == sum(loss != NO_LOSS for loss in losses)


def check_differences(tmp_path: Path) -> None:
    """The difference in rho, nothing refunded: at every step what is drawn is as narrow as what is charged allows."""
    sql, noise = "SELECT site, COUNT(*) FROM patient GROUP BY site", RecordedNoise()
    with opened(tmp_path, ZCDP, noise) as session:
        steps = [Fraction(n, 100) for n in (5, 10, 11, 50, 200)]
        for before, epsilon in zip([Fraction(0), *steps], steps, strict=False):
            answer = session.execute(gaussian(float(epsilon), sql))
            difference = float(rho_at_most(epsilon)) - (float(rho_at_most(before)) if before else 0.0)
            assert float(answer.receipt.loss.rho) == pytest.approx(difference, rel=1e-6)
            kind, drawn, size = noise.drawn[-1]
            shift = 1 if drawn < 2**60 else 4 ** round(math.log(float(drawn) * 2 * difference, 4))
            assert (kind, size) == ("gaussian", 3)
            assert float(drawn / shift) == pytest.approx(1 / (2 * difference), rel=1e-6)
        assert float(spent(session).rho) == pytest.approx(float(rho_at_most(steps[-1])), rel=1e-6)
        for epsilon in steps:
            assert session.execute(gaussian(float(epsilon), sql)).cached
        assert session.execute(gaussian("1.5", sql)).cached, "what was bought dearer stands for what is cheaper"


def test_rule_42_the_noise_of_a_top_up_is_that_of_its_charge(tmp_path: Path) -> None:
    check_differences(tmp_path)


def test_rule_42_a_top_up_with_fresh_pays_the_whole_price(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM patient"
    with opened(tmp_path, ZCDP) as session:
        session.execute(gaussian(1, sql))
        answer = session.execute(f"/* dpsql: epsilon=2, mechanism=gaussian, fresh */ {sql}")
        assert float(answer.receipt.loss.rho) == pytest.approx(float(rho_at_most(Fraction(2))), rel=1e-9)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        # other vectors: another cut, clamp, quantum, keys, rows, or a part that is chosen or selected
        ("SELECT COUNT(*) FROM visit", "/* dpsql: max_rows=2 */ SELECT COUNT(*) FROM visit"),
        (
            "/* dpsql: max_groups=1 */ SELECT year, COUNT(*) FROM visit GROUP BY 1",
            "/* dpsql: max_groups=2 */ SELECT year, COUNT(*) FROM visit GROUP BY 1",
        ),
        ("SELECT SUM(age) FROM patient", "SELECT dp_sum(age, lower := 10, upper := 91) FROM patient"),
        ("SELECT SUM(weight) FROM patient", "SELECT SUM(-weight) FROM patient"),
        ("SELECT SUM(age) FROM patient", "SELECT SUM(age + 1) FROM patient"),
        ("SELECT site, COUNT(*) FROM patient GROUP BY 1", "SELECT COUNT(*) FROM patient"),
        ("SELECT COUNT(*) FROM patient", "SELECT site, COUNT(*) FROM patient GROUP BY 1"),
        (
            "SELECT site, city, COUNT(*) FROM patient GROUP BY ALL",
            "SELECT city, site, COUNT(*) FROM patient GROUP BY ALL",
        ),
        ("SELECT COUNT(*) FROM patient", "SELECT COUNT(*) FROM patient WHERE age > 0"),
        ("SELECT COUNT(*) FROM patient", "SELECT COUNT(*), MEDIAN(age) FROM patient"),
        ("SELECT note, COUNT(*) FROM patient GROUP BY 1", "SELECT note, COUNT(*) FROM patient GROUP BY 1"),
        ("SELECT COUNT(*) FROM patient", "SELECT COUNT(*), SUM(income) FROM patient"),
        ("SELECT SUM(age), COUNT(age) FROM patient", "SELECT COUNT(*), AVG(age) FROM patient"),
    ],
)
def test_rule_42_another_vector_is_bought_whole(tmp_path: Path, first: str, second: str) -> None:
    with opened(tmp_path, ZCDP) as session:
        session.execute("SET dp_epsilon = 1")
        session.execute("SET dp_mechanism = 'gaussian'")
        session.execute(first)
        session.execute("SET dp_epsilon = 3")
        answer = session.execute(second)
        with opened(tmp_path, ZCDP) as other:
            other.execute("SET dp_epsilon = 3")
            other.execute("SET dp_mechanism = 'gaussian'")
            assert answer.receipt.loss == other.execute(second).receipt.loss


@pytest.mark.few(3)
@pytest.mark.parametrize("first", ["1:1", "9:1"])
@pytest.mark.parametrize("second", ["1:1", "1:9", "9:1"])
def test_rule_42_shares_that_differ(tmp_path: Path, first: str, second: str) -> None:
    """With weights a measure may be dearer and another cheaper than before: then all of it is bought anew."""
    sql = "SELECT COUNT(*), SUM(age) FROM patient"
    with opened(tmp_path, ZCDP) as session:
        session.execute(f"/* dpsql: epsilon=1, mechanism=gaussian, weights={first} */ {sql}")
        answer = session.execute(f"/* dpsql: epsilon=1.5, mechanism=gaussian, weights={second} */ {sql}")
        one, other = rho_at_most(Fraction(1)), rho_at_most(Fraction(3, 2))
        shares = {"1:1": (0.5, 0.5), "9:1": (0.9, 0.1), "1:9": (0.1, 0.9)}
        pairs = [(float(other) * s, float(one) * f) for f, s in zip(shares[first], shares[second], strict=True)]
        sharpened = all(new > old for new, old in pairs)
        expected = sum(new - old * sharpened for new, old in pairs)
        assert float(answer.receipt.loss.rho) == pytest.approx(expected, rel=1e-6)


def test_rule_42_laplace_is_never_averaged(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM patient"
    for one, other in itertools.product(("laplace", "gaussian"), repeat=2):
        if one == other == "gaussian":
            continue
        with opened(tmp_path, ZCDP) as session:
            session.execute(f"/* dpsql: epsilon=0.5, mechanism={one} */ {sql}")
            answer = session.execute(f"/* dpsql: epsilon=2, mechanism={other} */ {sql}")
            assert float(answer.receipt.loss.rho) == pytest.approx(float(rho_at_most(Fraction(2))), rel=1e-6)


def test_rule_42_gaussian_noise_that_is_charged_by_epsilon_is_never_averaged(tmp_path: Path) -> None:
    """Its price is an epsilon and a delta, of which no difference can be bought."""
    sql = "SELECT COUNT(*) FROM patient"
    with opened(tmp_path, TEXT.replace("delta = 0.5\n", 'delta = 0.5\naccounting = "sequential"\n')) as session:
        session.execute(gaussian("0.5", sql))
        answer = session.execute(gaussian("2", sql))
        assert answer.receipt.loss.epsilon == 2 and spent(session).epsilon == Fraction(5, 2)


def test_rule_42_a_top_up_after_a_fresh_answer(tmp_path: Path) -> None:
    """The newest draw is the one that is averaged: nothing is left of the one that it replaced."""
    sql = "SELECT site, COUNT(*), SUM(age) FROM patient GROUP BY site"
    with opened(tmp_path, ZCDP, SeededNoise(5)) as session:
        session.execute(gaussian("0.5", sql))
        newest = session.execute(f"/* dpsql: epsilon=0.5, mechanism=gaussian, fresh */ {sql}")
        session._world.release._noise = ZeroNoise()
        sharpened = session.execute(gaussian("1", sql))
        session.execute("/* dpsql: fresh, epsilon=3 */ " + sql)
        exact = session.execute("/* dpsql: fresh, epsilon=3 */ " + sql).rows
        share = float(rho_at_most(Fraction(1, 2)) / rho_at_most(Fraction(1)))
        for found, new, true in zip(sharpened.rows, newest.rows, exact, strict=True):
            for column in (1, 2):
                expected = share * new[column] + (1 - share) * true[column]  # type: ignore[operator]
                assert found[column] == pytest.approx(expected, abs=0.51)


def test_rule_41_a_roll_up_is_never_rolled_up_again_as_if_it_was_bought(tmp_path: Path) -> None:
    """It is not stored: what is read off later is read off what was bought, with its noise."""
    with opened(tmp_path, TEXT, SeededNoise(2)) as session:
        session.execute("/* dpsql: epsilon=0.1 */ SELECT site, female, city, COUNT(*) FROM patient GROUP BY ALL")
        before = len(session._world.ledger.store.read(lambda c: c.execute("SELECT * FROM vector").fetchall()))
        middle = session.execute("/* dpsql: epsilon=0.1 */ SELECT site, female, COUNT(*) FROM patient GROUP BY ALL")
        last = session.execute("/* dpsql: epsilon=0.1 */ SELECT site, COUNT(*) FROM patient GROUP BY site")
        assert middle.cached and last.cached
        assert len(session._world.ledger.store.read(lambda c: c.execute("SELECT * FROM vector").fetchall())) == before
        sums = {site: sum(r[2] for r in middle.rows if r[0] == site) for site, _ in last.rows}  # type: ignore[misc]
        assert dict(last.rows) == sums
        widths = [row[-1].high - row[-1].low for row in (middle.accuracy[0], last.accuracy[0]) if row[-1] is not None]
        assert widths[0] < widths[1]


def test_rule_40_a_vector_that_was_edited_is_noticed(tmp_path: Path) -> None:
    with opened(tmp_path, TEXT, ledger=tmp_path / "x.ledger") as session:
        session.execute("/* dpsql: epsilon=0.1 */ SELECT site, COUNT(*) FROM patient GROUP BY site")
        change = "UPDATE vector SET body = replace(body, '[0,1]', '[0,2]')"
        session._world.ledger.store.write(lambda c: c.execute(change))
        with pytest.raises(Error, match="DPSQL-705"):
            session.execute("/* dpsql: epsilon=0.1 */ SELECT COUNT(*) FROM patient")


# --- faults -------------------------------------------------------------------------------------------------------


def test_rule_28_a_top_up_claims_no_mu_where_the_grid_has_no_room(tmp_path: Path) -> None:
    """No mu is claimed where the dataset's epsilon leaves the grid of Gaussian noise no delta: not for a difference either."""
    sql = "SELECT COUNT(*) FROM patient"
    with opened(tmp_path, ZCDP) as session:
        first = session.execute(gaussian(1, sql)).receipt.loss
        second = session.execute(gaussian(2, sql)).receipt.loss
    assert first.delta == second.delta == 0
    assert (second.mu_squared >= 10**20) == (first.mu_squared >= 10**20)


def test_rule_42_a_difference_that_is_too_small_is_not_charged_for_nothing(tmp_path: Path) -> None:
    sql = "SELECT dp_sum(days, lower := 0, upper := 1000000000000) FROM visit"
    with opened(tmp_path, ZCDP, SystemLike()) as session:
        session.execute(gaussian(1, sql))
        before = spent(session)
        try:
            session.execute(gaussian("1.0000000000001", sql))
        except Error:
            assert spent(session) == before


class SystemLike(ZeroNoise):
    """Refuses what the system's noise refuses."""

    def gaussian(self, sigma_squared: Fraction, size: int) -> list[int]:
        if sigma_squared > 2**104:
            raise ValueError
        return [0] * size


def test_rule_40_a_stored_answer_has_the_interval_of_its_own_noise(tmp_path: Path) -> None:
    """The owner changes the usual price, and with it what "auto" would take: what was drawn stays what it was."""
    sql = "/* dpsql: epsilon=0.5, mechanism=auto */ SELECT SUM(age), SUM(income), COUNT(*), SUM(weight) FROM patient"
    found, taken = [], []
    for price in ("1000.0", "1.0"):
        text = TEXT.replace("query = { epsilon = 1.0,", f"query = {{ epsilon = {price},")
        with opened(tmp_path, text, ledger=tmp_path / "x.ledger") as session:
            found.append(session.execute(sql))
            taken.append(accounted(session._world.schema.privacy).auto)
    assert taken == [("laplace",), ("gaussian", "laplace")]
    assert found[1].cached and found[1].rows == found[0].rows
    assert list(found[1].accuracy) == list(found[0].accuracy)


def test_rule_42_the_certificate_of_a_topped_up_answer_says_all_of_its_loss(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM patient"
    with opened(tmp_path, ZCDP) as session:
        session.execute(gaussian(1, sql))
        answer = session.execute(gaussian(2, sql))
        certified = session.certificates(answer.fingerprints)
        losses = [Fraction(str(each["loss"]["rho"])) for each in certified]  # type: ignore[index]
        assert float(sum(losses)) == pytest.approx(float(rho_at_most(Fraction(2))), rel=1e-6)


# --- two at once --------------------------------------------------------------------------------------------------


class Gate(ZeroNoise):
    """Draws when it is let; a fault that is set is raised instead."""

    def __init__(self) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        self.fault: BaseException | None = None

    def _wait(self) -> None:
        self.reached.set()
        assert self.go.wait(20)
        if self.fault is not None:
            raise self.fault

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        self._wait()
        return [7] * size

    def gaussian(self, sigma_squared: Fraction, size: int) -> list[int]:
        self._wait()
        return [7] * size


class Asking(threading.Thread):
    """A statement in a thread of its own."""

    def __init__(self, session: Session, sql: str) -> None:
        super().__init__(daemon=True)
        self.session, self.sql = session, sql
        self.answer: Answer | None = None
        self.problem: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = self.session.execute(self.sql)
        except BaseException as problem:
            self.problem = problem

    def done(self) -> Asking:
        self.join(20)
        assert not self.is_alive()
        return self


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Session, Session, Gate]]:
    """Two sessions on one ledger; the first one draws when it is let."""
    gate = Gate()
    with (
        opened(tmp_path, ZCDP, gate, tmp_path / "x.ledger") as one,
        opened(tmp_path, ZCDP, ZeroNoise(), tmp_path / "x.ledger") as other,
    ):
        yield one, other, gate
        gate.go.set()


COUNTED = "SELECT COUNT(*) FROM patient"


def test_rule_40_the_second_is_given_the_answer_of_the_first(both: tuple[Session, Session, Gate]) -> None:
    one, other, gate = both
    first = Asking(one, gaussian(1, COUNTED))
    assert gate.reached.wait(20)
    second = Asking(other, gaussian(1, COUNTED))
    time.sleep(0.1)
    assert second.is_alive()
    gate.go.set()
    answers = [first.done().answer, second.done().answer]
    assert answers[0] is not None and answers[1] is not None and answers[0].rows == answers[1].rows
    assert [a.cached for a in answers if a is not None] == [False, True]
    assert len(one._world.ledger.history()) == 1


def test_rule_42_two_who_top_up_at_once_pay_once(both: tuple[Session, Session, Gate]) -> None:
    one, other, gate = both
    other.execute(gaussian("0.5", COUNTED))
    first = Asking(one, gaussian(1, COUNTED))
    assert gate.reached.wait(20)
    second = Asking(other, gaussian(1, COUNTED))
    time.sleep(0.05)
    gate.go.set()
    assert first.done().problem is None and second.done().answer is not None and second.answer is not None
    assert second.answer.cached
    assert float(spent(one).rho) == pytest.approx(float(rho_at_most(Fraction(1))), rel=1e-6)


def test_rule_42_two_who_top_up_to_other_prices_pay_each_its_difference(both: tuple[Session, Session, Gate]) -> None:
    """Both differences are from what was stored when they were asked; nothing is given back."""
    one, other, gate = both
    other.execute(gaussian("0.5", COUNTED))
    first = Asking(one, gaussian(1, COUNTED))
    assert gate.reached.wait(20)
    other.execute(gaussian(2, COUNTED))
    gate.go.set()
    assert first.done().problem is None
    half, whole, twice = (float(rho_at_most(Fraction(n, 2))) for n in (1, 2, 4))
    assert float(spent(one).rho) == pytest.approx(half + (whole - half) + (twice - half), rel=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("fault", [ValueError("x"), MemoryError(), KeyboardInterrupt()], ids=lambda f: type(f).__name__)
def test_rule_40_where_the_first_fails_the_second_pays(
    both: tuple[Session, Session, Gate], fault: BaseException
) -> None:
    one, other, gate = both
    first = Asking(one, gaussian(1, COUNTED))
    assert gate.reached.wait(20)
    second = Asking(other, gaussian(1, COUNTED))
    time.sleep(0.05)
    gate.fault = fault
    gate.go.set()
    assert first.done().problem is not None and second.done().answer is not None and second.answer is not None
    assert not second.answer.cached and len(one._world.ledger.history()) == 2
    claimed = one._world.ledger.store.read(lambda c: c.execute("SELECT * FROM claim").fetchall())
    assert claimed == []


def test_rule_40_a_waiter_is_interrupted(both: tuple[Session, Session, Gate]) -> None:
    one, other, gate = both
    first = Asking(one, gaussian(1, COUNTED))
    assert gate.reached.wait(20)
    second = Asking(other, gaussian(1, COUNTED))
    time.sleep(0.1)
    other.interrupt()
    problem = second.done().problem
    assert isinstance(problem, Error) and problem.code == "DPSQL-703"
    assert len(one._world.ledger.history()) == 1
    gate.go.set()
    assert first.done().problem is None
    assert other.execute(gaussian(1, COUNTED)).cached, "the next statement is not interrupted"


def test_rule_40_a_waiter_whose_price_does_not_fit(tmp_path: Path) -> None:
    """While the first one works it waits; where that fails, it is refused, and nothing is charged."""
    text = TEXT.replace("epsilon = 1000000.0\ndelta = 0.5", "epsilon = 1.5\ndelta = 0.5")
    text = text.replace("caps = { epsilon = 1000000.0, delta = 0.4 }", "")
    gate = Gate()
    with (
        opened(tmp_path, text, gate, tmp_path / "x.ledger") as one,
        opened(tmp_path, text, ZeroNoise(), tmp_path / "x.ledger") as other,
    ):
        first = Asking(one, f"/* dpsql: epsilon=1, mechanism=laplace */ {COUNTED}")
        assert gate.reached.wait(20)
        second = Asking(other, f"/* dpsql: epsilon=1, mechanism=laplace */ {COUNTED}")
        time.sleep(0.05)
        assert second.is_alive()
        gate.fault = ValueError()
        gate.go.set()
        first.done()
        problem = second.done().problem
        assert isinstance(problem, Error) and problem.code == "DPSQL-501"
        assert len(one._world.ledger.history()) == 1


def test_rule_40_fresh_waits_and_then_pays(both: tuple[Session, Session, Gate]) -> None:
    one, other, gate = both
    first = Asking(one, gaussian(1, COUNTED))
    assert gate.reached.wait(20)
    second = Asking(other, f"/* dpsql: epsilon=1, mechanism=gaussian, fresh */ {COUNTED}")
    time.sleep(0.05)
    gate.go.set()
    first.done()
    assert second.done().answer is not None and second.answer is not None and not second.answer.cached
    assert len(one._world.ledger.history()) == 2
    assert one.execute(gaussian(1, COUNTED)).rows == second.answer.rows


class Late(ZeroNoise):
    """Another session stores something while noise is drawn."""

    def __init__(self) -> None:
        self.work: Callable[[], object] | None = None

    def gaussian(self, sigma_squared: Fraction, size: int) -> list[int]:
        work, self.work = self.work, None
        if work is not None:
            work()
        return [0] * size


def test_rule_42_what_was_stored_is_replaced_while_a_top_up_is_drawn(tmp_path: Path) -> None:
    """The average is of the draw that was found, and the newer one stays stored."""
    late = Late()
    with (
        opened(tmp_path, ZCDP, late, tmp_path / "x.ledger") as one,
        opened(tmp_path, ZCDP, SeededNoise(1), tmp_path / "x.ledger") as other,
    ):
        other.execute(gaussian("0.5", COUNTED))
        late.work = lambda: other.execute(f"/* dpsql: epsilon=0.5, mechanism=gaussian, fresh */ {COUNTED}")
        one.execute(gaussian(1, COUNTED))
        assert len(one._world.ledger.history()) == 3
        known = Vectors(one._world.ledger).find(questions_of(one, COUNTED)[0][0])
        assert len(known) == 2 and len({v.fingerprint for v in known}) == 2


TWO_PROCESSES = """
import sys
from pathlib import Path
from dpsql.session.opening import open_session
from tests.support.noise import ZeroNoise
session = open_session(Path(sys.argv[1]), None, Path(sys.argv[2]), noise=ZeroNoise())
sys.stdin.readline()
for sql in sys.argv[3:]:
    session.execute(sql)
session.close()
"""


@pytest.mark.slow
def test_rule_42_processes_that_top_up_at_once(tmp_path: Path) -> None:
    """Two processes ask for the same two prices, one above the other: the ledger holds the dearer one, once."""
    asked = [gaussian(epsilon, "SELECT site, COUNT(*) FROM patient GROUP BY site") for epsilon in (1, 2)]
    with opened(tmp_path, ZCDP, ledger=tmp_path / "x.ledger") as session:
        session.execute(gaussian("0.5", "SELECT site, COUNT(*) FROM patient GROUP BY site"))
        schema = next(tmp_path.glob("*.toml"))
        command = [sys.executable, "-c", TWO_PROCESSES, str(schema), str(tmp_path / "x.ledger"), *asked]
        running = [subprocess.Popen(command, stdin=subprocess.PIPE, cwd=Path(__file__).parents[2]) for _ in range(2)]
        for process in running:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.close()
        assert [process.wait(60) for process in running] == [0] * 2
        assert float(spent(session).rho) == pytest.approx(float(rho_at_most(Fraction(2))), rel=1e-6)
        assert len(session._world.ledger.history()) == 3 == session._world.ledger.verify()


def test_rule_40_a_claim_is_let_go_when_it_ends_between_the_charge_and_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process would wait for as long as this one lives."""
    with opened(tmp_path, ZCDP, ledger=tmp_path / "x.ledger") as session:
        charge = session._world.ledger.charge

        def interrupted(*args: object, **named: object) -> object:
            charge(*args, **named)  # type: ignore[arg-type]
            raise KeyboardInterrupt

        monkeypatch.setattr(session._world.ledger, "charge", interrupted)
        with pytest.raises(Error) as raised:
            session.execute(COUNTED)
        assert str(raised.value) == "DPSQL-703: interrupted; the charge stands"
        assert not claims._held
        assert session._world.ledger.store.read(lambda c: c.execute("SELECT * FROM claim").fetchall()) == []
