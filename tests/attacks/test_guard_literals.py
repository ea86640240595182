"""The guard's decision does not hang on what is written inside a text: SQL words in a literal are letters and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.attacks.observing import ordinary
from tests.support import clinic
from tests.support.guard import forget
from tests.support.noise import ZeroNoise

ROUNDS = 120
PLAIN = "zq"
"""No declared value; what is in its place is none either."""
WORDS = [
    "SELECT", " SELECT ", "EXISTS (SELECT 1 FROM", " UNION ", " UNION ALL ", " JOIN ", " GROUP BY ", " WHERE ", " AS ", " of ", " NOT ",
    " OR 1 = 1", "NULL", "--", "/* dpsql: fresh */", ";", "$cut", "(", ")", ",", "''", "\\", '"', '""', '"v".', '"p".', '"patient".',
    '"visit"."tag"', '"release_0"', '"dpsql table 0"', '"dpsql table 1"."c0"', '"dpsql keys 0"', '"#0".', '"drug"', '"place"', "c0",
]  # fmt: skip
TIED = "v.patient_id = p.patient_id"
VISITS = f"SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE {TIED} AND"
BUT_FEW = "AND NOT (p.age = 34 AND p.site = 1)"
LARGEST = "SELECT site AS s, COUNT(*) AS n FROM patient GROUP BY site ORDER BY n DESC LIMIT 2"
HISTORIES: list[list[str]] = [
    [f"{VISITS} v.tag = 'b')", f"{VISITS} v.tag = 'b' AND v.tag <> {{}}) {BUT_FEW}"],
    [f"{VISITS} v.year = 1)", f"{VISITS} v.year = 1 AND v.tag <> {{}}) {BUT_FEW}"],
    [f"{VISITS} v.year > 1)", f"{VISITS} v.year > 1 AND v.tag <> {{}})"],
    ["SELECT COUNT(*) FROM patient", f"{VISITS} v.tag IS DISTINCT FROM {{}} AND v.days <> 7)"],
    ["SELECT COUNT(*) FROM patient", "SELECT COUNT(*) FROM patient WHERE note <> {}"],
    ["SELECT COUNT(*) FROM patient", "SELECT COUNT(*) FROM patient WHERE NOT (age = 34 AND site = 1 AND city <> {})"],
    ["SELECT site, COUNT(*) FROM patient GROUP BY site",
     "SELECT COUNT(*) FROM patient WHERE site = 1 AND age <> 34 AND city NOT IN ({}, 'zz')"],
    ["SELECT COUNT(*) FILTER (WHERE age + site > 40), COUNT(*) FILTER (WHERE age + site > 40 AND city || note <> {}) FROM patient"],
    ["SELECT city, COUNT(*) FROM patient GROUP BY city", "SELECT city, COUNT(*) FROM patient WHERE city <> {} GROUP BY city"],
    ["SELECT COUNT(*) FROM patient", "SELECT city, site, COUNT(*) FROM patient WHERE city || '1' <> {} GROUP BY city, site"],
    ["SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient)",
     "SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient) AND note <> {}"],
    [f"SELECT site, COUNT(*) FROM patient JOIN ({LARGEST}) AS top ON site = s WHERE note <> {{}} GROUP BY site",
     f"SELECT site, COUNT(*) FROM patient JOIN ({LARGEST}) AS top ON site = s GROUP BY site"],
    ["SELECT COUNT(*), COUNT(*) FILTER (WHERE age * site <> 41 AND note <> {}) FROM patient"],
    ["SELECT COUNT(*) FROM patient", "SELECT COUNT(*) FROM patient WHERE site IN (SELECT drug FROM drug WHERE label <> {})"],
    ["SELECT COUNT(*) FROM patient",
     "SELECT CASE WHEN age = 34 AND site = 1 THEN {} ELSE 'rest' END AS g, COUNT(*) FROM patient GROUP BY g"],
    ["SELECT COUNT(*) FROM patient", "SELECT SUM(CASE WHEN note = {} THEN 0 ELSE 1 END) FROM patient"],
    ["SELECT COUNT(*) FROM patient p LEFT JOIN visit v USING (patient_id)",
     "SELECT COUNT(*) FROM patient p LEFT JOIN visit v ON p.patient_id = v.patient_id AND v.tag <> {} WHERE v.days IS NOT NULL"],
    ["SELECT COUNT(*) FROM (SELECT patient_id, MAX(age) AS release_0 FROM patient WHERE note <> {} GROUP BY patient_id) AS t",
     "SELECT COUNT(*) FROM (SELECT patient_id, MAX(age) AS release_0 FROM patient WHERE note <> {} GROUP BY patient_id) AS t "
     "WHERE release_0 <> 41"],
    ["SELECT COUNT(*) FROM patient", "SELECT COUNT(*) FROM (SELECT * FROM patient WHERE site = 1 UNION ALL SELECT * FROM patient WHERE "
     "site <> 1 AND city <> {} AND age <> 34)"],
]  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("literals")
    clinic.write(folder, ordinary())
    found = open_session(clinic.schema(folder, guard="block"), None, ":memory:", noise=ZeroNoise())
    yield found
    found.close()


def decisions(session: Session, history: Sequence[str], literal: str) -> list[str]:
    """The outcome of each statement with a text in its place: the code of a refusal, or ""."""
    forget(session)
    quoted = "'" + literal.replace("'", "''") + "'"
    found = []
    for sql in history:
        try:
            session.execute(f"/* dpsql: fresh, epsilon=100 */ {sql.replace('{}', quoted)}")
            found.append("")
        except Error as problem:
            found.append(problem.code)
    return found


@pytest.mark.slow
def test_a_text_with_sql_words_in_it_changes_no_decision(session: Session) -> None:
    chance = random.Random(10)
    usual = [decisions(session, history, PLAIN) for history in HISTORIES]
    assert {code for each in usual for code in each} == {"", "DPSQL-602"}
    for _ in range(ROUNDS):
        place = chance.randrange(len(HISTORIES))
        literal = "".join(chance.choices(WORDS, k=chance.choice([1, 1, 2, 3])))
        assert decisions(session, HISTORIES[place], literal) == usual[place], (HISTORIES[place], literal)


def test_a_public_table_that_nothing_has_read_yet_is_read(tmp_path: Path) -> None:
    """The first statement of a session is decided as any later one: its condition looks into the rows of a public table."""
    clinic.write(tmp_path, ordinary())
    asked = "SELECT COUNT(*) FROM patient WHERE site IN (SELECT drug FROM drug WHERE label <> 'z')"
    with closing(open_session(clinic.schema(tmp_path, guard="block"), None, ":memory:", noise=ZeroNoise())) as first:
        first.execute(asked)
        assert first.execute("SELECT people FROM dpsql.guard").rows == [(1300,)]


@pytest.mark.parametrize("word", [" UNION ", " JOIN ", "SELECT", " GROUP BY "])
def test_one_word_in_a_text_opens_no_way_round(session: Session, word: str) -> None:
    """Whoever has asked for those with a tag is refused the same without a few tags, whatever the tag is."""
    assert decisions(session, HISTORIES[0], word) == decisions(session, HISTORIES[0], "z") == ["", "DPSQL-602"]
