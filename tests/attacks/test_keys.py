"""A10, A11: which groups are shown says nothing about who is there."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.attacks.observing import (
    NAME,
    SHARP,
    empty,
    everywhere,
    missing,
    opened,
    ordinary,
    patient,
    poisoned,
    see,
    sharp,
)
from tests.support.clinic import Database

DECLARED = {
    "SELECT site, COUNT(*) FROM patient GROUP BY site": 3,
    "SELECT female, COUNT(*) FROM patient GROUP BY female": 3,
    "SELECT city, AVG(income) FROM patient GROUP BY city": 4,
    "SELECT site, female, SUM(age) FROM patient GROUP BY ALL": 9,
    "SELECT age // 20 AS decade, COUNT(*) FROM patient GROUP BY 1": 5,
    "SELECT FLOOR(income / 50) AS band, COUNT(*) FROM patient GROUP BY 1": 4,
    "SELECT EXTRACT(YEAR FROM born), COUNT(*) FROM patient GROUP BY 1": 10,
    "SELECT CASE WHEN age > 50 THEN 'old' ELSE 'young' END AS k, COUNT(*) FROM patient GROUP BY k": 2,
    "SELECT code, COUNT(*) FROM patient WHERE code IN (1, 2, 99) GROUP BY code": 3,
    "SELECT year, COUNT(*) FROM visit WHERE year > 2 GROUP BY year": 2,
    "SELECT CAST(CASE site WHEN 1 THEN 16777217 ELSE 16777216 END AS FLOAT) AS k, COUNT(*) FROM patient GROUP BY k": 1,
    "SELECT DISTINCT site FROM patient": 3,
    "SELECT site FROM patient WHERE age = 77 GROUP BY site": 3,
    "SELECT score, COUNT(*) FROM patient WHERE score IN (11, 12, 13) GROUP BY score": 3,
}


@pytest.mark.slow
def test_a10_declared_groups_are_the_same_on_every_database() -> None:
    """A missing row of the result would be a missing person: all keys appear on D, D', De and Dn."""
    for sql, found in everywhere(DECLARED, keys=1).items():
        assert found[0].rows == DECLARED[sql], sql
        assert all(one == found[0] for one in found), sql


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT note, COUNT(*) FROM patient GROUP BY note",
        "SELECT note FROM patient GROUP BY note HAVING true",
        "SELECT DISTINCT note FROM patient",
    ],
)
def test_a10_a_private_key_of_one_person_stays_hidden(sql: str) -> None:
    """The name that only one person has does not become a group, at any price of epsilon, whether its count is shown or not."""
    with opened(ordinary()) as connection:
        for i in range(100):
            rows = connection.execute(f"/* dpsql: epsilon={i + 1}, delta=1e-12 */ {sql}").fetchall()
            assert NAME not in [row[0] for row in rows]


def test_a10_a_list_of_values_is_bought_with_its_hidden_count() -> None:
    """DISTINCT and bare GROUP BY of an undeclared column cost what the same with COUNT(DISTINCT unit) costs, and are stored as one."""
    with opened(ordinary()) as connection:
        listed = see(connection, "/* dpsql: epsilon=3, delta=1e-9 */ SELECT note FROM patient GROUP BY note")
        asked = "SELECT note, COUNT(DISTINCT patient_id) FROM patient GROUP BY note"
        counted = see(connection, f"/* dpsql: epsilon=3, delta=1e-9 */ {asked}")
        assert listed.error is None and (listed.epsilon, listed.delta) == (3, Fraction(1, 10**9))
        assert counted.error is None and counted.epsilon == counted.delta == 0


def test_a10_no_key_that_is_people() -> None:
    """Identifiers, and lists of quantities, make no groups."""
    for sql in (
        "SELECT DISTINCT income FROM patient",
        "SELECT DISTINCT score FROM patient",
        "SELECT score, COUNT(*) FROM patient WHERE code > 3 GROUP BY patient_id, score",
        "SELECT patient_id, COUNT(*) FROM patient GROUP BY patient_id",
        "SELECT patient_id % 100000, COUNT(*) FROM visit GROUP BY 1",
        "SELECT visit_id, COUNT(*) FROM visit GROUP BY visit_id",
        "SELECT CASE WHEN patient_id = 1003 THEN 1 ELSE 0 END AS k, COUNT(*) FROM visit GROUP BY k",
    ):
        with opened(ordinary()) as connection:
            seen = see(connection, sql)
            assert seen.error is not None and seen.epsilon == 0, sql


def with_notes(*notes: object) -> Database:
    """A database in which 20 people hold each of these texts."""
    people = [patient(i, note=notes[i % len(notes)]) for i in range(20 * len(notes))]
    return {**ordinary(0), "patient": people}


def test_a10_keys_come_back_as_they_are() -> None:
    """Texts that look like other values, or hold what SQL, JSON and templates care about, stay apart and intact."""
    notes = [
        "",
        " ",
        "NULL",
        "null",
        None,
        "nan",
        "$cut",
        "{}",
        "{rows}",
        "'; DROP TABLE x; --",
        '"',
        "\\",
        "\n",
        "é",
        "🙂",
        "0",
        "00",
        "a|b",
        "NUL",
    ]
    nul = "UPDATE patient SET note = 'a' || chr(0) || 'b' WHERE note = 'NUL'"
    with opened(with_notes(*notes), more=nul) as connection:
        rows = connection.execute(SHARP + "SELECT note, COUNT(*) FROM patient GROUP BY note").fetchall()
    assert {row[0] for row in rows} == {*notes[:-1], "a\0b"}
    assert all(row[1] == 20 for row in rows)
    assert rows[-1][0] is None


def test_a10_numbers_as_keys_are_not_their_texts() -> None:
    """Keys beyond BIGINT travel as text; they must come back as the numbers they are."""
    big = 2**63
    sql = f"SELECT CAST(code AS BIGINT) + {big} AS k, COUNT(*) FROM patient GROUP BY k"
    rows = sharp(ordinary(40), sql)
    assert [row[0] for row in rows] == [big, big + 1, big + 2, big + 3]


def test_a10_null_is_a_key_only_where_it_is_declared() -> None:
    """A NULL that nobody declared is left out everywhere; a declared one is always shown, last."""
    for data in (ordinary(), missing(), empty(), poisoned()):
        with opened(data) as connection:
            assert [
                row[0] for row in connection.execute("SELECT site, COUNT(*) FROM patient GROUP BY 1").fetchall()
            ] == [1, 2, 3]
            assert [
                row[0] for row in connection.execute("SELECT female, COUNT(*) FROM patient GROUP BY 1").fetchall()
            ] == [False, True, None]


def test_a11_the_result_type_does_not_follow_the_data() -> None:
    """Column types are those of the statement, whatever keys and sums came out."""
    statements = [
        "SELECT note, code, COUNT(*), SUM(age), AVG(income) FROM patient GROUP BY note, code",
        SHARP + "SELECT SUM(score), AVG(score) FROM patient",
    ]
    for found in everywhere(statements).values():
        assert len({repr(one.columns) for one in found}) == 1
