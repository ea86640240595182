"""A19, A22 and stored answers: the price follows from the text, and only the very same question is free."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.clients.dbapi.connection import Connection
from dpsql.session.opening import open_session
from tests.attacks.observing import SHARP, empty, everywhere, missing, opened, ordinary
from tests.support import clinic
from tests.support.cases import some
from tests.support.generate import statement
from tests.support.noise import RecordedNoise

PRICED = [
    "SELECT COUNT(*) FROM patient",
    "SELECT SUM(income), AVG(income), COUNT(*) FROM patient WHERE age > 50",
    "SELECT note, COUNT(*) FROM patient GROUP BY note",
    "SELECT site, COUNT(*) FROM patient GROUP BY site HAVING COUNT(*) > 1000000",
    "SELECT COUNT(*) FROM patient WHERE note = 'nobody has this'",
    "SELECT site, AVG(weight) FROM patient WHERE 1 = 2 GROUP BY site LIMIT 0",
    "SELECT year, tag, SUM(cost), COUNT(DISTINCT patient_id) FROM visit GROUP BY ALL",
    "/* dpsql: mechanism=gaussian */ SELECT SUM(days), COUNT(*) FROM visit",
    "/* dpsql: mechanism=auto */ SELECT note, COUNT(*), SUM(age) FROM patient GROUP BY note",
    "/* dpsql: error=20, confidence=0.9 */ SELECT year, COUNT(*), SUM(days) FROM visit GROUP BY year",
    "/* dpsql: error=0.0001 */ SELECT SUM(income) FROM patient",
    "/* dpsql: weights=5:1 */ SELECT COUNT(*), SUM(income) FROM patient",
    "SELECT site FROM patient GROUP BY site",
    "SELECT MEDIAN(income) FROM patient",
    "SELECT * FROM patient",
]


def test_a19_the_charge_is_the_same_on_every_database() -> None:
    """A price that depends on the data is an answer about it."""
    for sql, found in everywhere(PRICED).items():
        assert len({(one.epsilon, one.delta, one.error, repr(one.columns)) for one in found}) == 1, sql
        assert found[0].error is None or found[0].epsilon == found[0].delta == 0


@pytest.mark.slow
@pytest.mark.parametrize("times", some([15, 60]))
def test_a19_generated_statements_cost_the_same_everywhere(times: int) -> None:
    """The same over generated statements, refused ones included."""
    import random

    chance = random.Random(19)
    statements = [statement(chance).replace("FROM item", "FROM visit") for _ in range(times)]
    for sql, found in everywhere(statements).items():
        assert len({(one.epsilon, one.delta, one.error) for one in found}) == 1, sql


@pytest.mark.slow
def test_a22_asking_again_gives_the_same_answer(tmp_path: Path) -> None:
    """A thousand times, reconnecting: one value, one charge."""
    clinic.write(tmp_path, ordinary())
    schema = clinic.schema(tmp_path)
    seen: set[str] = set()
    for reconnect in range(4):
        connection = dpsql.connect(schema, ledger=tmp_path / "clinic.ledger", analyst=f"a{reconnect}")
        for _ in range(250):
            seen.add(
                repr(connection.execute("SELECT site, COUNT(*), AVG(income) FROM patient GROUP BY site").fetchall())
            )
        left = connection.execute("SELECT 1").privacy.remaining
        connection.close()
        assert left == 1_000_000 - 1
    assert len(seen) == 1


def test_a22_other_spellings_are_the_stored_answer_or_are_charged() -> None:
    """Fresh noise is never free: two spellings give one value, or both were paid for."""
    spellings = [
        "SELECT COUNT(*) FROM patient WHERE age > 50",
        "select count(*) from patient where age > 50;",
        "SELECT COUNT(*) /* again */ FROM patient WHERE 50 < age",
        "SELECT COUNT(*) AS n FROM main.patient WHERE (age > 50)",
        "FROM patient SELECT COUNT(*) WHERE age > 50 AND age > 50",
        "SELECT COUNT(*) FROM patient AS p WHERE p.age > 50",
        "SELECT COUNT(*) FROM patient WHERE age >= 51",
        "SELECT COUNT(*) FROM patient WHERE NOT (age <= 50)",
        "SELECT COUNT(*) + 0 FROM patient WHERE age > 50",
        "SELECT COUNT(*) FROM patient WHERE age > 50 AND true",
        "SELECT COUNT(1) FROM patient WHERE age > 50",
    ]
    with opened(ordinary()) as connection:
        free: dict[str, object] = {}
        values: list[object] = []
        for sql in spellings * 2:
            cursor = connection.execute(sql)
            assert cursor.privacy.cached == (cursor.privacy.epsilon == 0)
            value = cursor.fetchall()[0][0]
            if not cursor.privacy.cached:
                values.append(value)
            assert not cursor.privacy.cached or value in values
            assert free.setdefault(sql, value) == value


# Pairs that differ in one thing that decides the distribution: neither may be answered from the other.
DIFFERENT = [
    ("SELECT SUM(income) FROM patient", "SELECT dp_sum(income, lower := -50, upper := 50) FROM patient"),
    (
        "SELECT dp_sum(income, lower := 0, upper := 50) FROM patient",
        "SELECT dp_sum(income, lower := 0, upper := 51) FROM patient",
    ),
    ("SELECT COUNT(*) FROM visit", "/* dpsql: max_rows=1 */ SELECT COUNT(*) FROM visit"),
    (
        "SELECT year, COUNT(*) FROM visit GROUP BY 1",
        "/* dpsql: max_groups=1 */ SELECT year, COUNT(*) FROM visit GROUP BY 1",
    ),
    ("SELECT COUNT(*) FROM visit", "/* dpsql: mechanism=gaussian */ SELECT COUNT(*) FROM visit"),
    ("/* dpsql: epsilon=1 */ SELECT COUNT(*) FROM visit", "/* dpsql: epsilon=2 */ SELECT COUNT(*) FROM visit"),
    (
        "SELECT tag, COUNT(*) FROM visit GROUP BY 1",
        "/* dpsql: delta=1e-5 */ SELECT tag, COUNT(*) FROM visit GROUP BY 1",
    ),
    ("SELECT COUNT(*) FROM patient", "SELECT COUNT(*) FROM visit"),
    ("SELECT COUNT(*) FROM visit", "SELECT COUNT(DISTINCT patient_id) FROM visit"),
    ("SELECT COUNT(*) FROM patient WHERE note = 'a'", "SELECT COUNT(*) FROM patient WHERE note = 'A'"),
    ("SELECT COUNT(*) FROM patient WHERE note = 'a'", "SELECT COUNT(*) FROM patient WHERE note = 'a '"),
    ("SELECT COUNT(*) FROM patient WHERE note = '1'", "SELECT COUNT(*) FROM patient WHERE note = '1.0'"),
    ("SELECT COUNT(*) FROM patient WHERE note LIKE 'a'", "SELECT COUNT(*) FROM patient WHERE note ILIKE 'a'"),
    (
        "SELECT COUNT(*) FROM patient WHERE note LIKE '!%' ESCAPE '!'",
        "SELECT COUNT(*) FROM patient WHERE note LIKE '!%'",
    ),
    ("SELECT COUNT(note) FROM patient", "SELECT COUNT(city) FROM patient"),
    ("SELECT COUNT(*) FILTER (WHERE age > 5) FROM patient", "SELECT COUNT(*) FILTER (WHERE age > 6) FROM patient"),
    ("SELECT SUM(income) FROM patient WHERE income > 0", "SELECT SUM(income) FROM patient WHERE income > 1"),
    (
        "SELECT code, COUNT(*) FROM patient WHERE code IN (1, 2) GROUP BY 1",
        "SELECT code, COUNT(*) FROM patient WHERE code IN (1, 3) GROUP BY 1",
    ),
    ("SELECT site, COUNT(*) FROM patient GROUP BY 1", "SELECT site % 2, COUNT(*) FROM patient GROUP BY 1"),
    ("SELECT SUM(age) FROM patient", "SELECT SUM(age + 1) FROM patient"),
    ("SELECT SUM(CAST(income AS INTEGER)) FROM patient", "SELECT SUM(CAST(income AS DECIMAL(9,1))) FROM patient"),
    ("SELECT COUNT(*) FROM patient WHERE female", "SELECT COUNT(*) FROM patient WHERE female IS NOT FALSE"),
    (
        "SELECT COUNT(*) FROM patient WHERE born < DATE '1995-01-01'",
        "SELECT COUNT(*) FROM patient WHERE born < TIMESTAMP '1995-01-01 00:00:01'",
    ),
    (
        "SELECT COUNT(*) FROM patient WHERE note = 'x\nkey'",
        "SELECT COUNT(*) FROM patient WHERE note = 'x' AND note = 'key'",
    ),
    ("SELECT COUNT(*) FROM patient WHERE note = '?'", "SELECT COUNT(*) FROM patient WHERE note = '$1'"),
]


@pytest.mark.few(5)
@pytest.mark.parametrize("first, second", DIFFERENT)
def test_a22_different_questions_are_never_one_stored_answer(first: str, second: str) -> None:
    """A fingerprint that left something out would hand over an answer of another distribution, or for nothing."""
    with opened(ordinary()) as connection:
        connection.execute("SET dp_buy = on")
        for sql in (first, second):
            cursor = connection.execute(sql)
            assert not cursor.privacy.cached and cursor.privacy.epsilon > 0, sql
        for sql in (first, second):
            assert connection.execute(sql).privacy.cached, sql


def test_a22_parameters_are_part_of_the_question() -> None:
    """Equal text with other values, and equal-looking values of other types."""
    with opened(ordinary()) as connection:
        for value in ("a", "b", "1", "?", "'a'", "a' OR 'x' = 'x", "\u0430"):
            assert not connection.execute("SELECT COUNT(*) FROM patient WHERE note = ?", [value]).privacy.cached
            assert connection.execute("SELECT COUNT(*) FROM patient WHERE note = :v", {"v": value}).privacy.cached
        for number in (50, 51, -50, 50.25):
            assert not connection.execute("SELECT COUNT(*) FROM patient WHERE income > ?", [number]).privacy.cached


def test_a22_another_schema_is_another_question(tmp_path: Path) -> None:
    """A stored answer is not given under other bounds, limits or domains, of its tables or of those on the way to the unit."""
    clinic.write(tmp_path, ordinary())
    path = tmp_path / "patient.toml"
    clinic.schema(tmp_path)
    text = path.read_text()
    for change, stored in (
        (("", ""), (False, False)),
        (("bounds = [-50, 100]", "bounds = [-50, 99]"), (False, False)),
        (("max_rows_per_unit = 3", "max_rows_per_unit = 2"), (True, False)),
        (("domain = [1, 2, 3]", "domain = [1, 2]"), (False, False)),
    ):
        path.write_text(text.replace(*change) if change[0] else text)
        connection = dpsql.connect(path, ledger=tmp_path / "shared.ledger")
        asked = ("SELECT SUM(income) FROM patient", "SELECT COUNT(*) FROM visit")
        assert tuple(connection.execute(sql).privacy.cached for sql in asked) == stored
        connection.close()


def test_a22_changed_data_is_another_question(tmp_path: Path) -> None:
    """After the data changed, the stored answer belongs to the old version."""
    sql = SHARP + "SELECT COUNT(*) FROM patient"
    counts = []
    for data in (ordinary(), missing(), empty()):
        clinic.write(tmp_path, data)
        connection = dpsql.connect(clinic.schema(tmp_path), ledger=tmp_path / "shared.ledger")
        cursor = connection.execute(sql)
        assert not cursor.privacy.cached
        counts.append(cursor.fetchall()[0][0])
        connection.close()
    assert counts == [12, 11, 0]


def test_a22_settings_are_part_of_the_question() -> None:
    """SET changes the price, so the stored answer of another price is not given."""
    with opened(ordinary()) as connection:
        for setting in (
            "SET dp_epsilon = 1",
            "SET dp_epsilon = 2",
            "SET dp_mechanism = 'gaussian'",
            "SET dp_max_rows = 1",
        ):
            connection.execute(setting)
            assert not connection.execute("SELECT COUNT(*) FROM visit").privacy.cached, setting


def test_a22_noise_is_drawn_once_for_each_charge(tmp_path: Path) -> None:
    """Stored answers draw nothing, charged ones draw every cell anew."""
    clinic.write(tmp_path, ordinary())
    noise = RecordedNoise()
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=noise)
    for repeat, sql in itertools.product(
        range(3), ("SELECT COUNT(*) FROM patient", "SELECT site, AVG(income) FROM patient GROUP BY 1")
    ):
        session.execute(sql)
        assert len(noise.drawn) == (2 if repeat else 1 + (sql[7:11] == "site"))
    session.close()


def test_a22_the_budget_ends() -> None:
    """Once spent, everything but stored answers is refused, and refusals cost nothing."""

    def ask(connection: Connection, epsilon: str, i: int) -> None:
        connection.execute(f"/* dpsql: epsilon={epsilon} */ SELECT COUNT(*) FROM patient WHERE age > {i}")

    with opened(ordinary()) as connection:
        ask(connection, "999999", 1)
        ask(connection, "1", 2)
        for i in range(3, 6):
            with pytest.raises(dpsql.Error, match="DPSQL-501"):
                ask(connection, "1e-6", i)
        assert connection.execute("SELECT 1").privacy.remaining == Fraction(0)
        ask(connection, "1", 2)
