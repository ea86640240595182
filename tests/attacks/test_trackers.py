"""A20, trackers: no two answers differ by fewer than k people, in whatever words and order, by whomever, and whatever the data is.

Everything is asked without noise over copies of the examples with more budget, so that an answer that slips through tells the truth.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.accounting.answers import Answers
from dpsql.clients.dbapi.connection import Connection
from dpsql.core.errors import Error
from dpsql.session.opening import open_session
from dpsql.session.result import Answer
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise
from tests.support.opened import Data

ROOT = Path(__file__).parents[2]
ANALYSTS = "\n[analysts.ann]\n[analysts.bob]\n"
RAISED = [
    ("epsilon = 4.0 ", "epsilon = 1e6 "),
    ("delta   = 1e-6", "delta = 0.5"),
    ("caps    = { epsilon = 0.5, delta = 1e-8", "caps = { epsilon = 1000.0, delta = 0.4"),
    ("query   = { epsilon = 0.1", "least = 0.001\nquery = { epsilon = 10.0"),
]
"""The price is one at which every difference of two answers can be read."""
Parameters = Sequence[object] | Mapping[str, object]
Asked = str | tuple[str, Parameters]


def schema_text(name: str, *changes: tuple[str, str], mode: str = "block", k: int = 20) -> str:
    text = (ROOT / "examples" / name / "schema.toml").read_text()
    own = [('mode = "block"', f'mode = "{mode}"'), ("k    = 20", f"k    = {k}")]
    for old, new in (*RAISED, *own, *changes):
        assert old in text, old
        text = text.replace(old, new)
    return text


def placed(folder: Path, name: str = "nhefs", text: str | None = None) -> Path:
    """An example's data beside a schema; the path of the schema."""
    for file in (ROOT / "examples" / name).glob("*.parquet"):
        if not (folder / file.name).exists():
            shutil.copy(file, folder)
    path = folder / "schema.toml"
    path.write_text(schema_text(name) if text is None else text)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Data]]:
    """The examples, for sessions that have nothing else in common."""
    found = {name: Data(placed(tmp_path_factory.mktemp(name), name)) for name in ("nhefs", "randhie")}
    yield found
    for one in found.values():
        one.close()


def opened(of: Path | Data, analyst: str | None = None, ledger: str | Path = ":memory:") -> closing[Session]:
    """A session without noise: of the data, or of what a schema's file says by then."""
    return closing(
        of.session(ZeroNoise()) if isinstance(of, Data) else open_session(of, analyst, ledger, noise=ZeroNoise())
    )


def connected(path: Path, analyst: str | None = None, ledger: str | Path = ":memory:") -> Connection:
    return dpsql.connect(path, analyst=analyst, ledger=ledger)


def ask(session: Session, asked: Asked) -> Answer:
    sql, parameters = (asked, ()) if isinstance(asked, str) else asked
    return session.execute(sql, parameters)


def decision(session: Session, asked: Asked) -> str:
    """The code that a statement is refused with, or "answered"."""
    try:
        ask(session, asked)
    except Error as problem:
        return problem.code
    return "answered"


def refused(session: Session | Connection, sql: str) -> Error:
    with pytest.raises(Error) as problem:
        session.execute(sql)
    return problem.value


def check_pair(of: Path | Data, one: Asked, other: Asked) -> None:
    """Nobody has both, in either order."""
    for first, second in ((one, other), (other, one)):
        with opened(of) as session:
            found = {decision(session, first), decision(session, second)}
            assert "DPSQL-602" in found <= {"answered", "DPSQL-602"}


def check_together(of: Data, one: str, other: Asked) -> None:
    """The second shows both halves by itself, and is refused with and without the first."""
    for before in ([], [one]):
        with opened(of) as session:
            for sql in before:
                ask(session, sql)
            assert decision(session, other) == "DPSQL-602"


TOTAL = "SELECT COUNT(*) FROM patients"
PERSON = "age = 41 AND sex = 'male' AND marital = 4"
"""One patient in the data; as declared, two."""
LAST = "SELECT COUNT(*) FROM patients WHERE race = 'white' AND age < 50"


def where(condition: str) -> str:
    return f"SELECT COUNT(*) FROM patients WHERE {condition}"


REST = where(f"NOT ({PERSON})")


# --- total, and total minus one -----------------------------------------------------------------------------------


def test_the_two_answers_single_out_one_person(tmp_path: Path) -> None:
    """Nobody stands in the way."""
    with opened(placed(tmp_path, text=schema_text("nhefs", mode="off"))) as session:
        assert ask(session, TOTAL).rows[0][0] - ask(session, REST).rows[0][0] == 1  # type: ignore[operator]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "condition",
    [
        "patient_id <> 1017",
        "NOT patient_id = 1017",
        "patient_id < 1017 OR patient_id > 1017",
        "patient_id NOT IN (1017)",
        "patient_id + 0 <> 1017",
        "CAST(patient_id AS VARCHAR) NOT LIKE '1017'",
        "CASE patient_id WHEN 1017 THEN FALSE ELSE TRUE END",
        "patient_id IN (SELECT patient_id FROM patients WHERE patient_id <> 1017)",
    ],
)
def test_total_minus_one_by_id(data: dict[str, Data], condition: str) -> None:
    for before in ([], [TOTAL]):
        with opened(data["nhefs"]) as session:
            for sql in before:
                ask(session, sql)
            assert refused(session, where(condition)).code == "DPSQL-601"


def test_total_minus_one_by_what_together_only_one_has(data: dict[str, Data]) -> None:
    with opened(data["nhefs"]) as session:
        problem = refused(session, REST)
    assert problem.code == "DPSQL-602" and "rule R3" in problem.message, "by itself, whatever was asked before"
    assert "sets fewer than 20 people apart (about" in problem.message
    assert all(part in problem.message for part in ("age = 41", "sex = 'male'", "marital = 4"))
    assert problem.hint is not None and "GROUP BY" in problem.hint and "20" in problem.hint


WHOLES = {
    "everybody": (TOTAL, REST),
    "a half": (where("sex = 'male'"), where("sex = 'male' AND NOT (age = 41 AND marital = 4)")),
    "a range": (where("age BETWEEN 30 AND 60"), where(f"age BETWEEN 30 AND 60 AND NOT ({PERSON})")),
    "one of the groups": ("SELECT sex, COUNT(*) FROM patients GROUP BY sex", where(f"sex = 'male' AND NOT ({PERSON})")),
    "all groups": ("SELECT sex, COUNT(*) FROM patients GROUP BY sex", REST),
    "groups and groups": (
        "SELECT sex, race, COUNT(*) FROM patients GROUP BY sex, race",
        f"SELECT race, sex, COUNT(*) FROM patients WHERE NOT ({PERSON}) GROUP BY race, sex",
    ),
    "rolled up": (
        "SELECT sex, race, AVG(age) FROM patients GROUP BY ROLLUP (sex, race)",
        f"SELECT COUNT(*) FROM patients WHERE NOT ({PERSON})",
    ),
    "grouped, but for some": (TOTAL, f"SELECT sex, COUNT(*) FROM patients WHERE NOT ({PERSON}) GROUP BY sex"),
    "filtered": (
        "SELECT race, COUNT(*) FILTER (WHERE sex = 'male') FROM patients GROUP BY race",
        where(f"race = 'white' AND sex = 'male' AND NOT ({PERSON})"),
    ),
    "other aggregates": ("SELECT AVG(weight_1971_kg), SUM(age) FROM patients", f"SELECT SUM(age) FROM patients WHERE NOT ({PERSON})"),
    "a breakdown into more than can be listed": (
        "SELECT age, education, marital, COUNT(*) FROM patients GROUP BY ALL",
        where("NOT (age = 41 AND education = '3' AND marital = 4)"),
    ),
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("name", WHOLES)
def test_a_whole_and_all_of_it_but_a_few(data: dict[str, Data], name: str) -> None:
    check_pair(data["nhefs"], *WHOLES[name])


# --- general and double trackers ----------------------------------------------------------------------------------

TRACKER = ["race = 'white'", "NOT race = 'white'", f"({PERSON}) OR race = 'white'", f"({PERSON}) OR NOT race = 'white'"]


@pytest.mark.few(1)
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), (1, 3, 0, 2)])
def test_a_general_tracker_of_four_statements(data: dict[str, Data], order: tuple[int, ...]) -> None:
    """T, not T, T or C, (not T) or C: the last two take a few in, and are refused in any order."""
    with opened(data["nhefs"]) as session:
        codes = {i: decision(session, where(TRACKER[i])) for i in order}
    assert codes == {0: "answered", 1: "answered", 2: "DPSQL-602", 3: "DPSQL-602"}


def test_a_general_tracker_is_told_what_it_isolates(data: dict[str, Data]) -> None:
    with opened(data["nhefs"]) as session:
        problem = refused(session, where(TRACKER[2]))
    assert all(part in problem.message for part in ("age = 41", "sex = 'male'", "marital = 4"))


DOUBLE = [
    ("age < 50 OR (age = 60 AND marital = 8)", "(age < 50 AND NOT (age = 41 AND marital = 4)) OR (age = 61 AND marital = 8)"),
    ("age < 50", "(age < 50 AND NOT (age = 41 AND marital = 4)) OR (age = 50 AND marital = 4)"),
    ("sex = 'male' OR (age = 41 AND marital = 4)", "sex = 'male' AND NOT (age = 42 AND marital = 4)"),
    ("age < 60 AND NOT (race = 'white' AND sex = 'male' AND age = 41)", "age < 60 AND NOT (marital = 4 AND age = 42)"),
]  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("pair", range(len(DOUBLE)))
def test_a_double_tracker(data: dict[str, Data], pair: int) -> None:
    """Two large sets, each with a few that the other has not."""
    one, other = DOUBLE[pair]
    check_pair(data["nhefs"], where(one), where(other))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*), COUNT(*) FILTER (WHERE NOT ({PERSON})) FROM patients",
        f"SELECT COUNT(*) - SUM(CASE WHEN {PERSON} THEN 0 ELSE 1 END) FROM patients",
        f"SELECT COUNT(*) - (SELECT COUNT(*) FROM patients WHERE NOT ({PERSON})) FROM patients",
        f"SELECT a.n - b.n FROM (SELECT COUNT(*) n FROM patients) a, (SELECT COUNT(*) n FROM patients WHERE NOT ({PERSON})) b",
        f"SELECT COUNT(*) FROM patients UNION ALL SELECT COUNT(*) FROM patients WHERE NOT ({PERSON})",
        f"SELECT SUM(x) FROM (SELECT 1 AS x FROM patients UNION ALL SELECT -1 AS x FROM patients WHERE NOT ({PERSON})) AS t",
        f"SELECT SUM(CASE WHEN {PERSON} THEN 2 ELSE 1 END) FROM patients",
        f"SELECT SUM(CASE WHEN {PERSON} THEN age + 1 ELSE age END) FROM patients",
        f"SELECT SUM(COALESCE(CASE WHEN {PERSON} THEN NULL ELSE 1 END, 2)) FROM patients",
        f"SELECT CORR(age, CASE WHEN {PERSON} THEN NULL ELSE school_years END) FROM patients",
    ],
)
def test_both_halves_in_one_statement(data: dict[str, Data], sql: str) -> None:
    check_together(data["nhefs"], TOTAL, sql)


# --- the same in other words --------------------------------------------------------------------------------------

OWN = "(SELECT patient_id, age FROM patients"
CONDITIONS = [
    # AND, OR, NOT, comparisons
    "age <> 41 OR sex <> 'male' OR marital <> 4",
    "NOT (age > 40 AND age < 42 AND sex = 'male' AND marital = 4) AND 1 = 1",
    "(age < 41 AND TRUE) OR age >= 42 OR (age = 41 AND sex = 'female') OR (age = 41 AND sex = 'male' AND marital <> 4)",
    "age > 41.5 OR age < 40.5 OR sex = 'female' OR marital <> 4",
    "sex < 'male' OR sex > 'male' OR age <> 41 OR marital <> 4",
    "sex <= 'm' OR age <> 41 OR marital <> 4",
    "age <> '41' OR sex = 'female' OR marital <> 4",
    # BETWEEN, IN
    "NOT (age BETWEEN 41 AND 41 AND sex = 'male' AND marital = 4)",
    "age NOT BETWEEN 41 AND 41 OR sex = 'female' OR marital NOT IN (4)",
    "age < 41 OR age > 41 OR sex IN ('female') OR marital IN (1, 2, 3, 5, 6, 8)",
    "sex = 'female' OR age <> 41 OR marital NOT IN (4, NULL)",
    "age NOT IN (SELECT a FROM (VALUES (41)) AS v(a)) OR sex = 'female' OR marital <> 4",
    "age <> (SELECT 41) OR sex = 'female' OR marital <> 4",
    # CASE, COALESCE, NULLIF
    "CASE WHEN age = 41 AND sex = 'male' THEN marital <> 4 ELSE TRUE END",
    "CASE age WHEN 41 THEN NOT (sex = 'male' AND marital = 4) ELSE 1 = 1 END",
    f"CASE WHEN {PERSON} THEN 0 ELSE 1 END = 1",
    "COALESCE(age, 41) <> 41 OR COALESCE(sex, 'x') <> 'male' OR COALESCE(marital, 0) <> 4",
    f"COALESCE(NOT ({PERSON}), FALSE)",
    "NULLIF(age, 41) IS NOT NULL OR NULLIF(sex, 'male') IS NOT NULL OR marital <> 4",
    f"IF({PERSON}, FALSE, TRUE)",
    # LIKE and functions of text
    "sex NOT LIKE 'm%' OR age <> 41 OR marital <> 4",
    "sex NOT ILIKE '_ALE' OR age <> 41 OR marital <> 4",
    "NOT (starts_with(sex, 'ma') AND age = 41 AND marital = 4)",
    "NOT (length(sex) = 4 AND age = 41 AND marital = 4)",
    "NOT (upper(sex) = 'MALE' AND age = 41 AND marital = 4)",
    "NOT (sex || race IN ('malewhite', 'maleblack or other') AND age = 41 AND marital = 4)",
    # casts
    "CAST(age AS VARCHAR) <> '41' OR sex <> 'male' OR marital <> 4",
    "CAST(age AS DOUBLE) <> 41.0 OR sex <> 'male' OR CAST(marital AS VARCHAR) <> '4'",
    "age::DECIMAL(10, 2) <> 41.00 OR sex <> 'male' OR marital::BIGINT <> 4",
    "TRY_CAST(age AS SMALLINT) <> 41 OR sex <> 'male' OR marital <> 4",
    # IS
    "age IS DISTINCT FROM 41 OR sex IS DISTINCT FROM 'male' OR marital IS DISTINCT FROM 4",
    "NOT (age IS NOT DISTINCT FROM 41 AND sex = 'male' AND marital IS NOT DISTINCT FROM 4)",
    f"(NOT ({PERSON})) IS TRUE",
    f"({PERSON}) IS NOT TRUE",
    f"({PERSON}) = FALSE",
    f"({PERSON}) <> TRUE",
    # arithmetic
    "CAST(age = 41 AS INT) + CAST(sex = 'male' AS INT) + CAST(marital = 4 AS INT) <> 3",
    "CAST(age = 41 AS INT) * CAST(sex = 'male' AS INT) * CAST(marital = 4 AS INT) = 0",
    "age + 1 <> 42 OR sex = 'female' OR marital * 2 <> 8",
    "2 * age - 82 <> 0 OR sex = 'female' OR marital + 0 <> 4",
    "41 - age <> 0 OR sex = 'female' OR -marital <> -4",
    "abs(age - 41) + abs(marital - 4) > 0 OR sex = 'female'",
    "age * 10 + marital <> 414 OR sex = 'female'",
    "age // 2 <> 20 OR age % 2 <> 1 OR sex = 'female' OR marital <> 4",
    "sqrt(age - 25) <> 4 OR sex = 'female' OR marital <> 4",
    "greatest(age, 41) <> 41 OR least(age, 41) <> 41 OR sex = 'female' OR marital <> 4",
    "floor(age / 1.0) <> 41 OR sex = 'female' OR marital <> 4",
    "round(age, 0) <> 41 OR sex = 'female' OR marital <> 4",
    # people's own rows, by the key
    f"patient_id IN (SELECT patient_id FROM patients WHERE NOT ({PERSON}))",
    f"patient_id NOT IN (SELECT patient_id FROM patients WHERE {PERSON})",
]


@pytest.mark.few(3)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_in_other_words(data: dict[str, Data], condition: str) -> None:
    check_pair(data["nhefs"], TOTAL, where(condition))


STATEMENTS: list[Asked] = [
    # parameters
    (where("age <> ? OR sex <> ? OR marital <> ?"), [41, "male", 4]),
    (where("age <> $1 OR sex <> $2 OR marital <> $3"), [41, "male", 4]),
    (where("age <> :age OR sex <> :sex OR marital <> :m"), {"age": 41, "sex": "male", "m": 4}),
    # aliases, WITH, derived tables
    "SELECT COUNT(*) FROM patients AS p WHERE NOT (p.age = 41 AND p.sex = 'male' AND p.marital = 4)",
    "SELECT COUNT(*) AS n FROM main.patients x WHERE x.age <> 41 OR x.sex <> 'male' OR x.marital <> 4",
    f"FROM patients SELECT COUNT(*) WHERE NOT ({PERSON})",
    f"WITH t AS (SELECT * FROM patients WHERE NOT ({PERSON})) SELECT COUNT(*) FROM t",
    "WITH t AS (SELECT age AS a, sex AS s, marital AS m FROM patients), u AS (SELECT * FROM t WHERE NOT (a = 41 AND s = 'male' AND "
    "m = 4)) SELECT COUNT(*) FROM u",
    "SELECT COUNT(*) FROM (SELECT age + 1 AS a, sex, marital * 10 AS m FROM patients) t WHERE NOT (a = 42 AND sex = 'male' AND m = 40)",
    f"SELECT COUNT(*) FROM (SELECT age FROM patients WHERE NOT ({PERSON})) AS t",
    f"SELECT SUM(n) FROM (SELECT CASE WHEN {PERSON} THEN 0 ELSE 1 END AS n FROM patients) AS t",
    f"SELECT (SELECT COUNT(*) FROM patients WHERE NOT ({PERSON})) + 0",
    f"{REST} ORDER BY 1 LIMIT 1",
    f"/* dpsql: epsilon=9, mechanism=gaussian, fresh */ {REST}",
    # what is counted
    f"SELECT COUNT(*) FILTER (WHERE NOT ({PERSON})) FROM patients",
    "SELECT COUNT(*) FILTER (WHERE age <> 41 OR sex = 'female' OR marital <> 4) FROM patients",
    f"SELECT COUNT_IF(NOT ({PERSON})) FROM patients",
    f"SELECT COUNT(CASE WHEN NOT ({PERSON}) THEN 1 END) FROM patients",
    f"SELECT COUNT(CASE WHEN {PERSON} THEN NULL ELSE age END) FROM patients",
    f"SELECT COUNT(patient_id) FROM patients WHERE NOT ({PERSON})",
    f"SELECT COUNT(DISTINCT patient_id) FROM patients WHERE NOT ({PERSON})",
    f"SELECT COUNT(DISTINCT patient_id) FILTER (WHERE NOT ({PERSON})) FROM patients",
    f"SELECT COUNT(DISTINCT CASE WHEN NOT ({PERSON}) THEN patient_id END) FROM patients",
    f"SELECT COUNT(DISTINCT CASE WHEN {PERSON} THEN NULL ELSE patient_id END) FROM patients",
    f"SELECT COUNT(*) FROM (SELECT patient_id FROM patients EXCEPT SELECT patient_id FROM patients WHERE {PERSON}) AS t",
    f"SELECT COUNT(*) FROM (SELECT patient_id FROM patients INTERSECT SELECT patient_id FROM patients WHERE NOT ({PERSON})) AS t",
    f"SELECT COUNT(*) FROM patients p LEFT JOIN (SELECT patient_id FROM patients WHERE {PERSON}) q ON p.patient_id = q.patient_id "
    "WHERE q.patient_id IS NULL",
    "SELECT COUNT(DISTINCT q.patient_id) FROM patients p LEFT JOIN "
    f"(SELECT patient_id FROM patients WHERE NOT ({PERSON})) q ON p.patient_id = q.patient_id",
    "SELECT COUNT(NULLIF(cigarettes_per_day, 13)) FROM patients",
    # what is added up
    f"SELECT SUM(CASE WHEN {PERSON} THEN 0 ELSE 1 END) FROM patients",
    f"SELECT SUM(CASE WHEN NOT ({PERSON}) THEN 1 END) FROM patients",
    f"SELECT SUM(CASE WHEN {PERSON} THEN 0 ELSE age END) FROM patients",
    "SELECT SUM(CASE WHEN sex = 'female' THEN 1 WHEN NOT (age = 41 AND marital = 4) THEN 1 END) FROM patients",
    f"SELECT SUM(IF({PERSON}, 0, 1)) FROM patients",
    f"SELECT SUM(CAST(NOT ({PERSON}) AS INTEGER)) FROM patients",
    f"SELECT SUM(1 - CAST(({PERSON}) AS INTEGER)) FROM patients",
    f"SELECT SUM(GREATEST(CASE WHEN {PERSON} THEN 0 ELSE 1 END, 0)) FROM patients",
    f"SELECT SUM(age * CASE WHEN {PERSON} THEN 0 ELSE 1 END) FROM patients",
    f"SELECT SUM(age) FROM patients WHERE NOT ({PERSON})",
    f"SELECT AVG(CASE WHEN {PERSON} THEN NULL ELSE age END) FROM patients",
    f"SELECT AVG(CASE WHEN {PERSON} THEN 0 ELSE 1 END) FROM patients",
    f"SELECT VAR_POP(CASE WHEN {PERSON} THEN NULL ELSE age END) FROM patients",
    f"SELECT MEDIAN(CASE WHEN {PERSON} THEN NULL ELSE age END) FROM patients",
    f"SELECT MAX(CASE WHEN {PERSON} THEN NULL ELSE age END) FROM patients",
    f"SELECT AVG(weight_1971_kg), COUNT(asthma) FROM patients WHERE NOT ({PERSON})",
    # groups
    f"SELECT NOT ({PERSON}), COUNT(*) FROM patients GROUP BY 1",
    f"SELECT {PERSON} AS one, COUNT(*) FROM patients GROUP BY one",
    f"SELECT CASE WHEN {PERSON} THEN 'x' ELSE 'y' END AS one, COUNT(*) FROM patients GROUP BY one",
    "SELECT CASE WHEN age = 41 THEN CASE WHEN sex = 'male' AND marital = 4 THEN 1 ELSE 2 END ELSE 2 END AS one, COUNT(*) FROM "
    "patients GROUP BY one",
    f"SELECT COUNT(*) FROM patients GROUP BY NOT ({PERSON})",
    f"SELECT NOT ({PERSON}) AS b, COUNT(*) FROM patients GROUP BY 1 HAVING b",
    f"SELECT sex, race, COUNT(*) FROM patients WHERE NOT ({PERSON}) GROUP BY CUBE (sex, race)",
    # UNION
    "SELECT COUNT(*) FROM (SELECT age FROM patients WHERE sex = 'female' UNION ALL SELECT age FROM patients WHERE sex = 'male' AND "
    "NOT (age = 41 AND marital = 4)) AS t",
    "SELECT COUNT(*) FROM (SELECT age FROM patients WHERE age < 41 UNION ALL SELECT age FROM patients WHERE age > 41 UNION ALL "
    "SELECT age FROM patients WHERE age = 41 AND NOT (sex = 'male' AND marital = 4)) AS t",
    f"SELECT COUNT(*) FROM (SELECT patient_id FROM patients WHERE sex = 'female' UNION SELECT patient_id FROM patients WHERE NOT "
    f"({PERSON})) AS t",
    # joins of people's own rows
    "SELECT COUNT(*) FROM patients a JOIN patients b ON a.patient_id = b.patient_id WHERE NOT (a.age = 41 AND b.sex = 'male' AND "
    "a.marital = 4)",
    "SELECT COUNT(*) FROM patients a JOIN patients b USING (patient_id) WHERE NOT (b.age = 41 AND b.sex = 'male' AND b.marital = 4)",
    "SELECT COUNT(*) FROM patients a JOIN patients b ON a.patient_id = b.patient_id AND NOT (a.age = 41 AND b.sex = 'male' AND "
    "a.marital = 4)",
    "SELECT COUNT(*) FROM patients a, patients b WHERE a.patient_id = b.patient_id AND NOT (a.age = 41 AND b.sex = 'male' AND "
    "a.marital = 4)",
    f"SELECT COUNT(*) FROM patients NATURAL JOIN (SELECT patient_id FROM patients WHERE NOT ({PERSON})) AS t",
    f"SELECT COUNT(*) FROM patients p SEMI JOIN {OWN} WHERE NOT ({PERSON})) q ON p.patient_id = q.patient_id",
    f"SELECT COUNT(*) FROM patients p ANTI JOIN {OWN} WHERE {PERSON}) q ON p.patient_id = q.patient_id",
    "SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT 1 FROM patients q WHERE q.patient_id = p.patient_id AND NOT (q.age = 41 AND "
    "q.sex = 'male' AND q.marital = 4))",
    "SELECT COUNT(*) FROM patients p WHERE NOT EXISTS (SELECT 1 FROM patients q WHERE q.patient_id = p.patient_id AND q.age = 41 AND "
    "q.sex = 'male' AND q.marital = 4)",
    f"SELECT COUNT(q.age) FROM patients p LEFT JOIN {OWN} WHERE NOT ({PERSON})) q ON p.patient_id = q.patient_id",
    f"SELECT SUM(q.age) FROM patients p LEFT JOIN {OWN} WHERE NOT ({PERSON})) q ON p.patient_id = q.patient_id",
    f"SELECT COUNT(*) FROM patients p LEFT JOIN {OWN} WHERE NOT ({PERSON})) q ON p.patient_id = q.patient_id WHERE q.age IS NOT NULL",
    "SELECT COUNT(q.age) FROM patients p LEFT JOIN patients q ON p.patient_id = q.patient_id AND NOT (q.age = 41 AND q.sex = 'male' "
    "AND q.marital = 4)",
    f"SELECT COUNT(p.age) FROM {OWN} WHERE NOT ({PERSON})) p RIGHT JOIN patients q ON p.patient_id = q.patient_id",
    # one unit's rows
    f"SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, age FROM patients WHERE NOT ({PERSON})) AS t",
    f"SELECT COUNT(*) FROM (SELECT patient_id, MAX(age) AS a FROM patients WHERE NOT ({PERSON}) GROUP BY patient_id) AS t",
    "SELECT COUNT(*) FROM (SELECT patient_id, MAX(age) AS a, MIN(marital) AS m, MAX(sex) AS s FROM patients GROUP BY patient_id) AS t "
    "WHERE NOT (a = 41 AND s = 'male' AND m = 4)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM patients GROUP BY patient_id HAVING NOT (MAX(age) = 41 AND MAX(sex) = 'male' AND "
    "MAX(marital) = 4)) AS t",
    f"SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) OVER (PARTITION BY patient_id) AS n FROM patients WHERE NOT ({PERSON})) AS t",
    "SELECT COUNT(*) FROM (SELECT age, sex, marital, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY age) AS r FROM patients) AS t "
    "WHERE NOT (age = 41 AND sex = 'male' AND marital = 4 AND r = 1)",
]


@pytest.mark.few(2)
@pytest.mark.parametrize("asked", STATEMENTS, ids=lambda asked: asked if isinstance(asked, str) else asked[0])
def test_a_statement_in_other_words(data: dict[str, Data], asked: Asked) -> None:
    check_pair(data["nhefs"], TOTAL, asked)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT SUM(1 + CAST(({PERSON}) AS INTEGER)) FROM patients",
        f"SELECT SUM(1 + CASE WHEN {PERSON} THEN 1 ELSE 0 END) FROM patients",
        f"SELECT SUM(2 - CASE WHEN {PERSON} THEN 1 ELSE 0 END) FROM patients",
        f"SELECT SUM(age + CASE WHEN {PERSON} THEN 1 ELSE 0 END) FROM patients",
        f"SELECT AVG(1 + CASE WHEN {PERSON} THEN 1 ELSE 0 END) FROM patients",
    ],
)
def test_a_few_are_added_on_top_of_everybody(data: dict[str, Data], sql: str) -> None:
    """The count of all rows, which is known, and of a few in one sum."""
    with opened(data["nhefs"]) as session:
        ask(session, TOTAL)
        assert decision(session, sql) == "DPSQL-602"


FAR = "(ABS(age - 41) + ABS(school_years - 17))"
"""0 for a few."""


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "sql",
    [
        # a number that is another for a few, or nearly the same for all others
        f"SELECT SUM(2 + 1 // (1 + {FAR})) FROM patients",
        f"SELECT SUM(2 + 1 // (1 + {FAR} + ABS(income_band - 18))) FROM patients",
        "SELECT SUM(3 - (age * 100 + school_years) % 4117 // 4116) FROM patients",
        f"SELECT SUM(1 / (1 + 1000000 * {FAR})) FROM patients",
        f"SELECT MAX(1 / (1 + 1000000 * {FAR})) FROM patients",
        f"SELECT SUM(EXP(-30 * {FAR})) FROM patients",
        f"SELECT SUM(LEAST(1, GREATEST(0, POW(0.001, {FAR})))) FROM patients",
        f"SELECT 1 // (1 + {FAR}) AS g, COUNT(*) FROM patients GROUP BY g",
        # NULL for a few
        "SELECT COUNT(NULLIF(weight_1971_kg, 79.04)) FROM patients",
        "SELECT SUM(NULLIF(weight_1971_kg, 79.04)) FROM patients",
        "SELECT COUNT(NULLIF(age * 100 + school_years, 4117)) FROM patients",
        "SELECT COUNT(COALESCE(NULLIF(age * 100 + school_years, 4117), NULL)) FROM patients",
        "SELECT COUNT(NULLIF(CAST(age AS VARCHAR) || education, '415')) FROM patients",
        "SELECT COUNT(*) FROM patients WHERE NULLIF(age * 100 + school_years, 4117) > 3000",
        f"SELECT COUNT(age // {FAR}) FROM patients",
        f"SELECT COUNT(LN({FAR})) FROM patients",
        "SELECT COUNT(SQRT(ABS(weight_1971_kg - 79.04) - 0.001)) FROM patients",
        # 0 is a value to a count
        f"SELECT COUNT(CASE WHEN {PERSON} THEN NULL ELSE 0 END) FROM patients",
        f"SELECT COUNT(DISTINCT CASE WHEN {PERSON} THEN 0 ELSE 1 END) FROM patients",
    ],
)
def test_a_value_sets_a_few_apart(data: dict[str, Data], sql: str) -> None:
    with opened(data["nhefs"]) as session:
        assert decision(session, sql) == "DPSQL-602"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(CASE WHEN sex = 'male' THEN 0 END) FROM patients",
        "SELECT age // 10 AS decade, COUNT(*) FROM patients WHERE age BETWEEN 30 AND 39 GROUP BY decade",
        "SELECT FLOOR(weight_1971_kg / 10) AS w, COUNT(*) FROM patients WHERE weight_1971_kg >= 70 AND weight_1971_kg < 80 GROUP BY w",
        "SELECT AVG(weight_1971_kg / POW(height_cm / 100, 2)) FROM patients",
        "SELECT COUNT(NULLIF(education, '5')), COUNT(NULLIF(sex, 'unknown')), AVG(weight_1971_kg / NULLIF(height_cm, 0)) FROM patients",
        "SELECT AVG(LN(weight_1971_kg)), SUM(age // 1000 + 2) FROM patients",
        "SELECT AVG(SQRT(POW(age - 50, 2) + POW(weight_1971_kg - 70, 2.0))) FROM patients",
    ],
)
def test_a_value_of_many_is_answered(data: dict[str, Data], sql: str) -> None:
    with opened(data["nhefs"]) as session:
        assert any(value is not None for row in ask(session, sql).rows for value in row)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "race = 'white'",
            f"SELECT COUNT(*) FROM (SELECT age FROM patients WHERE race = 'white' UNION ALL SELECT age FROM patients WHERE NOT race = "
            f"'white' AND {PERSON}) AS t",
        ),
        (
            "race = 'white'",
            f"SELECT COUNT(*) FROM {OWN} WHERE race = 'white') p FULL JOIN {OWN} WHERE {PERSON}) q USING (patient_id)",
        ),
        ("race = 'white'", f"SELECT COUNT(*) FROM {OWN} WHERE race = 'white') p LEFT JOIN {OWN} WHERE {PERSON}) q "
         "USING (patient_id) WHERE q.age IS NULL"),
    ],
    ids=["UNION ALL", "FULL JOIN", "LEFT JOIN"],
)  # fmt: skip
def test_one_set_and_the_same_with_a_few_more_or_less(data: dict[str, Data], one: str, other: str) -> None:
    check_pair(data["nhefs"], where(one), other)


# --- joins --------------------------------------------------------------------------------------------------------

PEOPLE = "SELECT COUNT(*) FROM person"
YEARS = "SELECT COUNT(*) FROM person_year"
NARROW = "site = 3 AND female AND income BETWEEN 4000 AND 4300"
JOINS = [
    # the public table
    (PEOPLE, f"SELECT COUNT(*) FROM person JOIN plan USING (plan) WHERE NOT ({NARROW})"),
    (PEOPLE, f"SELECT COUNT(*) FROM person JOIN plan USING (plan) WHERE NOT (coinsurance_pct = 95 AND {NARROW})"),
    (PEOPLE, f"SELECT COUNT(*) FROM person p JOIN plan l ON p.plan = l.plan WHERE NOT (l.plan = 1 AND {NARROW})"),
    (PEOPLE, f"SELECT COUNT(*) FROM person p LEFT JOIN plan l ON p.plan = l.plan WHERE COALESCE(l.coinsurance_pct, 0) <> 95 OR "
     f"NOT ({NARROW})"),
    (PEOPLE, f"SELECT COUNT(*) FROM person p JOIN (SELECT plan FROM plan WHERE coinsurance_pct < 1000) l ON p.plan = l.plan WHERE NOT "
     f"({NARROW})"),
    (PEOPLE, f"SELECT COUNT(*) FILTER (WHERE coinsurance_pct <> 95 OR NOT ({NARROW})) FROM person JOIN plan USING (plan)"),
    (PEOPLE, f"SELECT coinsurance_pct, COUNT(*) FROM person JOIN plan USING (plan) WHERE NOT ({NARROW}) GROUP BY 1"),
    (PEOPLE, f"SELECT COUNT(*) FROM person WHERE NOT (plan IN (SELECT plan FROM plan WHERE coinsurance_pct = 95) AND {NARROW})"),
    (PEOPLE, f"SELECT COUNT(*) FROM person WHERE plan IN (SELECT plan FROM plan) AND NOT ({NARROW})"),
    (PEOPLE, f"SELECT COUNT(*) FROM person p WHERE NOT (EXISTS (SELECT 1 FROM plan l WHERE l.plan = p.plan AND coinsurance_pct = 95) "
     f"AND {NARROW})"),
    (PEOPLE, "SELECT COUNT(*) FROM person WHERE site IN (SELECT s FROM (VALUES (1), (2), (4), (5), (6)) AS v(s)) OR NOT (female AND "
     "income BETWEEN 4000 AND 4300)"),
    ("SELECT coinsurance_pct, COUNT(*) FROM person JOIN plan USING (plan) GROUP BY 1",
     f"SELECT COUNT(*) FROM person JOIN plan USING (plan) WHERE coinsurance_pct = 95 AND NOT ({NARROW})"),
    ("SELECT COUNT(*) FROM person JOIN plan USING (plan) WHERE coinsurance_pct = 95",
     f"SELECT COUNT(*) FROM person WHERE plan IN (14, 15, 16) AND NOT ({NARROW})"),
    # people's tables
    (YEARS, "SELECT COUNT(*) FROM person_year WHERE NOT (age BETWEEN 30 AND 31 AND year = 2 AND child AND md_visits = 7)"),
    (YEARS, f"SELECT COUNT(*) FROM person_year y JOIN person p USING (person_id) WHERE NOT ({NARROW})"),
    ("SELECT COUNT(*) FROM person_year y JOIN person p USING (person_id)",
     "SELECT COUNT(*) FROM person_year y WHERE NOT (age BETWEEN 30 AND 31 AND year = 2 AND child AND md_visits = 7)"),
    ("SELECT AVG(medical_usd) FROM person p JOIN person_year y ON p.person_id = y.person_id",
     f"SELECT AVG(medical_usd) FROM person_year y, person p WHERE p.person_id = y.person_id AND NOT ({NARROW})"),
    (YEARS, f"SELECT COUNT(*) FROM person_year y JOIN (SELECT person_id FROM person WHERE NOT ({NARROW})) p USING (person_id)"),
    (YEARS, f"SELECT COUNT(*) FROM person_year WHERE person_id IN (SELECT person_id FROM person WHERE NOT ({NARROW}))"),
    (YEARS, f"SELECT COUNT(*) FROM person_year WHERE person_id NOT IN (SELECT person_id FROM person WHERE {NARROW})"),
    (PEOPLE, "SELECT COUNT(*) FROM person p WHERE NOT EXISTS (SELECT 1 FROM person_year y WHERE y.person_id = p.person_id AND "
     "inpatient_usd BETWEEN 49000 AND 49010)"),
    (PEOPLE, "SELECT COUNT(*) FROM person p WHERE 0 = (SELECT COUNT(*) FROM person_year y WHERE y.person_id = p.person_id AND "
     "inpatient_usd BETWEEN 49000 AND 49010)"),
]  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize(("one", "other"), JOINS)
def test_trackers_over_joins(data: dict[str, Data], one: str, other: str) -> None:
    check_pair(data["randhie"], one, other)


MAN = "age = 41 AND sex = 'male' AND marital = 4"
SIDE = f"patients p LEFT JOIN (SELECT * FROM patients WHERE NOT ({MAN})) q ON p.patient_id = q.patient_id"
OWN = f"FROM patients q WHERE q.patient_id = p.patient_id AND NOT ({MAN})"
PLANS = (
    "person p LEFT JOIN plan l ON p.plan = l.plan AND NOT (p.site = 3 AND p.female AND p.income BETWEEN 4000 AND 4300)"
)
ABSENT = [
    # the side of an outer join that stays away for a few
    ("nhefs", TOTAL, f"SELECT COUNT(*) FROM {SIDE} WHERE q.asthma OR NOT q.asthma"),
    ("nhefs", TOTAL, f"SELECT COUNT(*) FROM {SIDE} WHERE q.asthma IS NOT NULL"),
    ("nhefs", "SELECT sex, COUNT(*) FROM patients GROUP BY sex", f"SELECT q.sex, COUNT(*) FROM {SIDE} GROUP BY q.sex"),
    ("nhefs", TOTAL, f"SELECT SUM(COALESCE(q.age, 0)) FROM {SIDE}"),
    ("nhefs", where("sex = 'male'"), f"SELECT COUNT(*) FROM {SIDE} WHERE q.sex IS NOT DISTINCT FROM 'male'"),
    ("nhefs", where("sex = 'male'"), f"SELECT COUNT(*) FROM {SIDE} WHERE NOT (q.sex IS DISTINCT FROM 'male')"),
    ("nhefs", TOTAL, f"SELECT COUNT(*) FROM {SIDE} WHERE q.sex IS DISTINCT FROM NULL"),
    ("randhie", PEOPLE, f"SELECT COUNT(l.plan) FROM {PLANS}"),
    ("randhie", PEOPLE, f"SELECT COUNT(*) FROM {PLANS} WHERE l.plan IS NOT NULL"),
    ("randhie", "SELECT coinsurance_pct, COUNT(*) FROM person JOIN plan USING (plan) GROUP BY 1",
     f"SELECT l.coinsurance_pct, COUNT(*) FROM {PLANS} GROUP BY 1"),
    # a value of the person's own rows
    ("nhefs", TOTAL, f"SELECT COUNT((SELECT MAX(age) {OWN})) FROM patients p"),
    ("nhefs", TOTAL, f"SELECT SUM((SELECT COUNT(*) {OWN})) FROM patients p"),
    ("nhefs", TOTAL, f"SELECT COUNT(*) FROM patients p WHERE (SELECT COUNT(*) {OWN}) = 1"),
    # arithmetic that is NULL for a few
    ("nhefs", TOTAL, "SELECT COUNT(1 % (abs(age - 41) + abs(marital - 4) + length(sex) - 4)) FROM patients"),
    ("nhefs", where("sex = 'male'"), "SELECT COUNT(1 // (age - 41)) FROM patients WHERE sex = 'male'"),
    ("nhefs", where("sex = 'male'"), "SELECT COUNT(TRY_CAST(age + 54 AS TINYINT)) FROM patients WHERE sex = 'male'"),
]  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "one", "other"), ABSENT)
def test_what_is_absent_for_a_few(data: dict[str, Data], name: str, one: str, other: str) -> None:
    check_pair(data[name], one, other)


def test_halves_of_a_union_that_have_a_few_in_common(data: dict[str, Data]) -> None:
    both = "SELECT age FROM patients WHERE sex = 'male' AND age < 50 UNION ALL SELECT age FROM patients WHERE sex = 'male' AND"
    with opened(data["nhefs"]) as session:
        problem = refused(session, f"SELECT COUNT(*) FROM ({both} (age >= 50 OR (age = 41 AND marital = 4)))")
        assert "fewer than 20 people apart" in problem.message and "marital = 4" in problem.message
        assert decision(session, f"SELECT COUNT(*) FROM ({both} age >= 50)") == "answered"


def test_the_total_in_other_words_is_the_total(data: dict[str, Data]) -> None:
    with opened(data["nhefs"]) as session:
        asked = ["sex IN ('male', 'female')", f"({MAN}) OR race = 'white'", f"({MAN}) OR NOT race = 'white'"]
        assert [decision(session, where(condition)) for condition in asked] == ["answered", "DPSQL-602", "DPSQL-602"]


# --- conditions that cannot be taken apart ------------------------------------------------------------------------

OPAQUE = [
    ("education_years * income > 25000", f"education_years * income > 25000 AND NOT ({NARROW})"),
    ("education_years * income > 25000 OR female", f"(education_years * income > 25000 OR female) AND NOT ({NARROW})"),
    ("TRUE", "physical_limitation * income <> 25000"),
    ("female", "female AND physical_limitation * income <> 25000"),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("one", "other"), OPAQUE)
def test_what_differs_in_a_condition_on_two_columns(data: dict[str, Data], one: str, other: str) -> None:
    check_pair(data["randhie"], *(f"SELECT COUNT(*) FROM person WHERE {condition}" for condition in (one, other)))


def test_a_condition_of_unknown_size_on_what_identifies(tmp_path: Path) -> None:
    """R5: of a column without bounds or a list nothing says how many people have a value."""
    quasi = ('role = "measure" }   #', 'role = "quasi" }   #')
    with opened(placed(tmp_path, "randhie", schema_text("randhie", quasi))) as session:
        problem = refused(session, f"{YEARS} WHERE family_size <> 4")
        assert (
            problem.code == "DPSQL-603"
            and "write family_size = ... or family_size IN (...) joined by AND" in problem.hint
        )
        assert refused(session, f"{YEARS} WHERE child OR family_size = 4").code == "DPSQL-603"
        # as the hint says
        for condition in ("family_size = 4", "child AND family_size IN (4, 5)"):
            assert session.execute(f"{YEARS} WHERE {condition}").rows[0][0] is not None
        assert session.execute(f"{YEARS} WHERE family_size = 4000").rows == [(None,)]
        assert decision(session, "SELECT family_size, COUNT(*) FROM person_year GROUP BY family_size") == "answered"
        assert decision(session, f"{PEOPLE} WHERE education_years * income > 25000") == "answered"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "condition",
    ["income > (SELECT AVG(income) FROM person)", "income * education_years > (SELECT AVG(income) FROM person)"],
)
def test_rule_34_a_condition_on_what_the_statement_releases(data: dict[str, Data], condition: str) -> None:
    """The sample units have an average of their own."""
    with opened(data["randhie"]) as session:
        assert decision(session, f"{PEOPLE} WHERE {condition}") == "answered"
        assert decision(session, f"{PEOPLE} WHERE {condition} AND NOT ({NARROW})") == "DPSQL-602"


def test_rule_34_a_selected_key_counts_as_its_whole_domain(data: dict[str, Data]) -> None:
    """Decided once, before the charge: neither the keys that were selected nor their number is known then."""
    grouped = "SELECT family_size, COUNT(*) FROM person_year WHERE {} GROUP BY family_size"
    few = "age BETWEEN 30 AND 31 AND year = 2 AND child AND md_visits = 7"
    check_pair(data["randhie"], grouped.format("TRUE"), grouped.format(f"NOT ({few})"))
    check_pair(data["randhie"], YEARS, grouped.format(f"NOT ({few})"))
    check_pair(data["randhie"], grouped.format("TRUE"), f"{YEARS} WHERE NOT ({few})")


# --- NULL, and what is not declared -------------------------------------------------------------------------------


@pytest.mark.slow
def test_rule_16_a_condition_or_its_opposite_is_not_everybody(tmp_path: Path) -> None:
    """NULL meets neither: about 80 people as declared, few for a k of 100 and many for one of 20."""
    neither = where("cholesterol = 200 OR NOT cholesterol = 200")
    path = placed(tmp_path)
    with opened(path) as session:
        counts = [ask(session, sql).rows[0][0] for sql in (TOTAL, neither)]
        assert counts[0] > counts[1]  # type: ignore[operator]
        assert [row[1] for row in ask(session, "SHOW GUARD").rows] == [1600, 1500]


@pytest.mark.parametrize(
    "condition", ["age <= 200", "age <> 200", "marital <> 7", "sex <> 'other'", "age >= 10 OR sex = 'male'"]
)
def test_rule_16_what_nobody_is_declared_to_have_makes_no_pair(data: dict[str, Data], condition: str) -> None:
    """The condition is not dropped: where somebody has such a value all the same, the two answers tell it (trackers.md, limits)."""
    with opened(data["nhefs"]) as session:
        assert [decision(session, sql) for sql in (TOTAL, where(condition))] == ["answered"] * 2
        assert "WHERE" in session.explain(where(condition))
        assert decision(session, where(f"({condition}) AND NOT ({PERSON})")) == "DPSQL-602"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "condition",
    [
        PERSON,
        "age = 41 AND income_band = 11 AND marital = 4",
        "income_band = 11 AND age = 41",
        "cholesterol BETWEEN 200 AND 201 AND age = 41",
        "systolic_bp = 120 AND diastolic_bp = 80",
        "age = 41 AND height_cm < 150 AND asthma",
    ],
)
def test_rule_16_null_does_not_hide_a_tracker(data: dict[str, Data], condition: str) -> None:
    """NOT of several conditions leaves NULLs out as well, of columns that have them and of columns that are declared without."""
    check_pair(data["nhefs"], TOTAL, where(f"NOT ({condition})"))
    check_pair(data["nhefs"], TOTAL, where(f"({condition}) IS NOT TRUE"))


def test_rule_16_without_null_is_the_same_where_there_is_none(data: dict[str, Data]) -> None:
    with opened(data["nhefs"]) as session:
        for sql in (
            TOTAL,
            where("age IS NOT NULL"),
            where("age = 34 OR NOT age = 34"),
            where("sex IN ('male', 'female')"),
        ):
            assert decision(session, sql) == "answered"
        assert decision(session, where(f"age IS NOT NULL AND NOT ({PERSON})")) == "DPSQL-602"


# --- what must stay allowed ---------------------------------------------------------------------------------------


def test_ordinary_differences_are_answered(data: dict[str, Data]) -> None:
    asked = [
        TOTAL,
        TOTAL,
        "SELECT sex, COUNT(*) FROM patients GROUP BY sex",
        "SELECT sex, race, AVG(age), COUNT(*) FROM patients GROUP BY sex, race",
        where("sex = 'male'"),
        where("NOT sex = 'female'"),
        where("age BETWEEN 30 AND 50"),
        where("age BETWEEN 30 AND 51"),
        where("cholesterol IS NOT NULL"),
        where("age >= 30 AND age <= 50"),
        "SELECT education, AVG(weight_1982_kg) FROM patients WHERE quit_smoking GROUP BY education",
        "SELECT education, COUNT(*) FROM patients GROUP BY education ORDER BY 2 DESC LIMIT 3",
    ]
    with opened(data["nhefs"]) as session:
        assert {sql: decision(session, sql) for sql in asked} == dict.fromkeys(asked, "answered")


TOP = "SELECT site AS s, COUNT(*) AS n FROM person GROUP BY site ORDER BY n DESC LIMIT 3"
BOTH = "person_year y JOIN person p USING (person_id)"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT year, site, COUNT(*) FROM {BOTH} JOIN ({TOP}) AS top ON site = s GROUP BY year, site",
        f"SELECT site, COUNT(*) FROM {BOTH} WHERE site IN (SELECT s FROM ({TOP}) AS top) GROUP BY site",
        f"SELECT site, COUNT(*) FROM {BOTH} WHERE site = (SELECT s FROM ({TOP}) AS top ORDER BY n DESC, s LIMIT 1) GROUP BY 1",
    ],
)
def test_rule_34_a_list_of_released_groups_chooses_cells(data: dict[str, Data], sql: str) -> None:
    """Comparisons with a group key alone: the greatest groups of a chart, beside the chart and the total."""
    with opened(data["randhie"]) as session:
        for before in (f"SELECT COUNT(*) FROM {BOTH}", f"SELECT year, site, COUNT(*) FROM {BOTH} GROUP BY ALL"):
            assert decision(session, before) == "answered"
        assert decision(session, sql) == "answered"


def test_rule_34_a_list_does_not_hide_a_tracker(data: dict[str, Data]) -> None:
    sql = f"SELECT site, COUNT(*) FROM {BOTH} JOIN ({TOP}) AS top ON site = s AND NOT ({NARROW}) GROUP BY site"
    with opened(data["randhie"]) as session:
        assert decision(session, sql) == "DPSQL-602"


@pytest.mark.few(1)
@pytest.mark.parametrize("band", ["FLOOR(income / 5000) * 5000", "CAST(FLOOR(age / 10) * 10 AS INTEGER)"])
def test_the_top_band_of_a_histogram(data: dict[str, Data], band: str) -> None:
    """It holds one value, the bound: the same band of some people and of all are two small cells, that differ by most of them."""
    with opened(data["randhie"]) as session:
        for asked in ("", " WHERE site = 1", " WHERE female", " WHERE site <> 3 AND NOT female"):
            assert decision(session, f"SELECT {band} AS band, COUNT(*) FROM {BOTH}{asked} GROUP BY 1") == "answered"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("income < 20", "income < 20 AND NOT (site = 1 AND age BETWEEN 60 AND 64)"),
        ("income = 0", "income = 0 AND NOT (site = 1 AND female AND plan = 3)"),
    ],
)
def test_two_small_cells_are_a_pair(data: dict[str, Data], one: str, other: str) -> None:
    """There may be more people in them than is declared, and few in what they differ by."""
    with opened(data["randhie"]) as session:
        assert decision(session, f"SELECT COUNT(*) FROM {BOTH} WHERE {one}") == "answered"
        assert decision(session, f"SELECT COUNT(*) FROM {BOTH} WHERE {other}") == "DPSQL-602"


# --- several analysts, several connections ------------------------------------------------------------------------


def approved(folder: Path, mode: str = "block") -> tuple[Path, Path]:
    """A schema of two analysts, and the ledger in which its data is approved."""
    text, ledger = schema_text("nhefs", mode=mode), folder / "x.ledger"
    open_session(placed(folder, text=text), None, ledger).close()
    return placed(folder, text=text + ANALYSTS), ledger


IN_ANOTHER_PROCESS = """
import sys
import dpsql
with dpsql.connect(sys.argv[1], analyst=sys.argv[2], ledger=sys.argv[3]) as connection:
    try:
        connection.execute(sys.argv[4])
        print("answered")
    except dpsql.Error as problem:
        print(problem.code)
"""


def elsewhere(path: Path, analyst: str, ledger: Path, sql: str) -> str:
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(path), analyst, str(ledger), sql]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


LIGHT, LIGHTER = where("weight_1971_kg < 80"), where("weight_1971_kg < 79.8")
"""Each is about half of the people; as declared about two are in one alone."""


@pytest.mark.few(1)
@pytest.mark.parametrize("order", [(LIGHT, LIGHTER), (LIGHTER, LIGHT)], ids=["the larger first", "the smaller first"])
def test_two_analysts(tmp_path: Path, order: tuple[str, str]) -> None:
    """Ann is refused what completes her own; what she asked decides nothing about Bob, and he is told nothing of it."""
    path, ledger = approved(tmp_path)
    with connected(path, "ann", ledger) as ann, connected(path, "bob", ledger) as bob:
        ann.execute(order[0])
        problem = refused(ann, order[1])
        assert "refused" not in bob.explain(order[1])
        assert bob.execute("SHOW GUARD").fetchall() == [] and len(ann.execute("SHOW GUARD").fetchall()) == 1
        bob.execute(order[1])
    assert problem.code == "DPSQL-602" and "your statement 1" in problem.message and order[0] in problem.message
    assert [elsewhere(path, name, ledger, order[0]) for name in ("bob", "ann")] == ["answered"] * 2, "stored, free"
    assert elsewhere(path, "ann", ledger, f"{order[1]} AND age > 0") == "DPSQL-602"


def test_new_data_forgets_nothing(tmp_path: Path) -> None:
    path, ledger = approved(tmp_path)
    with connected(path, "ann", ledger) as ann:
        ann.execute(LIGHT)
    data = tmp_path / "patients.parquet"
    with duckdb.connect() as writer:
        writer.execute(
            f"COPY (SELECT * FROM '{data}' WHERE age <> 70) TO '{tmp_path / 'new.parquet'}' (FORMAT parquet)"
        )
    (tmp_path / "new.parquet").replace(data)
    approved(tmp_path)
    with opened(path, "ann", ledger) as ann:
        assert refused(ann, LIGHTER).code == "DPSQL-602"
        assert not ask(ann, LIGHT).cached


ROUNDS = 200


def pair_of(turn: int) -> tuple[str, str]:
    """A range of ages, another one in each turn, and the same with about one more person."""
    low, width = 25 + turn % 20, 12 + turn // 20
    base = f"age BETWEEN {low} AND {low + width} AND weight_1971_kg"
    return where(f"{base} < 171"), where(f"{base} < 173")


@pytest.mark.slow
def test_two_connections_send_a_half_each_at_once(tmp_path: Path) -> None:
    """Never both: what comes second is compared in the transaction of the charge."""
    path, ledger = approved(tmp_path)
    barrier = threading.Barrier(2, timeout=60)
    found: dict[str, list[str]] = {"ann": [], "bob": []}

    def asking(name: str) -> None:
        with opened(path, "ann", ledger) as session:
            for turn in range(ROUNDS):
                halves = pair_of(turn)
                own = halves[(turn + (name == "bob")) % 2]
                barrier.wait()
                found[name].append(decision(session, own))

    threads = [threading.Thread(target=asking, args=(name,), daemon=True) for name in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    rounds = list(zip(found["ann"], found["bob"], strict=True))
    answered = sum(codes.count("answered") for codes in rounds)
    assert len(rounds) == ROUNDS and all("DPSQL-602" in codes for codes in rounds) and answered > ROUNDS * 2 // 3
    with opened(path, "ann", ledger) as session:
        assert len(session._world.ledger.history()) == answered == session._world.ledger.verify()


# --- the data has no part in it -----------------------------------------------------------------------------------

BEFORE = [TOTAL, where("sex = 'male' AND age < 60"), "SELECT race, COUNT(*) FROM patients GROUP BY race"]
CANDIDATES = [
    REST,
    where("sex = 'male' AND age < 60 AND NOT (age = 41 AND marital = 4)"),
    where(f"race = 'white' OR ({PERSON})"),
    where("patient_id <> 1017"),
    where(PERSON),
    where("age < 50"),
    "SELECT education, AVG(age) FROM patients GROUP BY education",
    LAST,
]
REFUSED = [True, True, True, True, False, False, False, False]


def test_the_decision_is_the_same_without_the_data(tmp_path: Path) -> None:
    path = placed(tmp_path)
    with opened(path) as session:
        for sql in BEFORE:
            ask(session, sql)
        (tmp_path / "patients.parquet").unlink()
        codes = [decision(session, sql) for sql in CANDIDATES]
        assert [code in ("DPSQL-601", "DPSQL-602") for code in codes] == REFUSED
        assert all(code.startswith("DPSQL-70") for code, known in zip(codes, REFUSED, strict=True) if not known)
        assert len(session._world.ledger.history()) == len(BEFORE), "and nothing was charged"


def explained(session: Session, sql: str) -> list[str]:
    """EXPLAIN's words on the guard, or the reason why it is refused."""
    try:
        lines = session.explain(sql).splitlines()
    except Error as problem:
        return [problem.message]
    return [line for line in lines if line.startswith("guard: ")]


def test_explain_says_what_would_be_decided(tmp_path: Path) -> None:
    with opened(placed(tmp_path)) as session:
        for sql in BEFORE:
            ask(session, sql)
        for sql, known in zip(CANDIDATES, REFUSED, strict=True):
            lines = explained(session, sql)
            said = [line for line in lines if "rule R" in line]
            assert bool(said) is known and lines, sql
            if known:
                assert said[-1].endswith(refused(session, sql).message)
            shown = session.execute(f"EXPLAIN {sql}").rows if "patient_id" not in sql else []
            assert not shown or [row[0] for row in shown if str(row[0]).startswith("guard: ")] == lines
        assert len(session._world.ledger.history()) == len(BEFORE)


@pytest.mark.slow
def test_rule_38_decisions_and_words_are_the_same_on_every_database(tmp_path: Path) -> None:
    """The numbers of people in a refusal are those that the owner declared."""
    said = []
    for number, kept in enumerate(["TRUE", f"NOT ({PERSON})", "age < 30", "FALSE"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = placed(folder)
        with duckdb.connect() as writer:
            source = f"SELECT * FROM '{folder / 'patients.parquet'}' WHERE {kept}"
            writer.execute(f"COPY ({source}) TO '{folder / 'new.parquet'}' (FORMAT parquet)")
        (folder / "new.parquet").replace(folder / "patients.parquet")
        with opened(path) as session:
            for sql in BEFORE:
                ask(session, sql)
            said.append([explained(session, sql) for sql in CANDIDATES])
            said[-1].append([str(row) for row in ask(session, "SHOW GUARD").rows])
    assert said[0] == said[1] == said[2] == said[3]


@pytest.mark.parametrize(("units", "code"), [(1600, "DPSQL-602"), (30_000, "answered")])
def test_rule_38_how_many_people_there_are_is_what_is_declared(tmp_path: Path, units: int, code: str) -> None:
    text = schema_text("nhefs", ("units   = 1600", f"units   = {units}"))
    with opened(placed(tmp_path, text=text)) as session:
        ask(session, TOTAL)
        assert decision(session, REST) == code


# --- refusals are free --------------------------------------------------------------------------------------------


def test_refusals_cost_nothing_and_are_forgotten(tmp_path: Path) -> None:
    with connected(placed(tmp_path)) as connection:
        connection.execute(where("sex = 'female'"))

        def state() -> list[object]:
            shown = ["SHOW LEDGER", "SHOW GUARD", "SHOW BUDGET"]
            left = connection.execute("SHOW GUARD").privacy
            return [*(connection.execute(sql).fetchall() for sql in shown), left.remaining, left.remaining_delta]

        before = state()
        few = "age = 41 AND marital IN (2, 3)"
        for sql, code in [
            (where(f"sex = 'female' AND NOT ({few})"), "602"),
            (where("sex = 'female' AND patient_id <> 5"), "601"),
            (f"SELECT COUNT(*), COUNT(*) FILTER (WHERE NOT ({PERSON})) FROM patients", "602"),
        ]:
            assert refused(connection, sql).code == f"DPSQL-{code}"
            assert state() == before
        # a few people from what was refused, many from what was answered
        connection.execute(where("sex = 'female' AND age <> 50"))
        assert len(connection.execute("SHOW GUARD").fetchall()) == 2


def test_a_stored_answer_stays_free_where_a_new_one_is_refused(data: dict[str, Data]) -> None:
    with opened(data["nhefs"]) as session:
        first = ask(session, TOTAL)
        assert decision(session, REST) == "DPSQL-602"
        for sql in (TOTAL, "SELECT  count(*)  FROM patients AS p"):
            again = ask(session, sql)
            assert again.rows == first.rows and again.cached


# --- modes --------------------------------------------------------------------------------------------------------


def test_warn_answers_and_says_so(tmp_path: Path) -> None:
    with connected(placed(tmp_path, text=schema_text("nhefs", mode="warn"))) as connection:
        assert connection.execute(TOTAL).notes == ()
        assert "warns of rule R3" in connection.explain(REST)
        cursor = connection.execute(REST)
        assert len(cursor.notes) == 1 and "DPSQL-602" in cursor.notes[0] and "rule R3" in cursor.notes[0]
        assert len(cursor.fetchall()) == 1
        assert any("DPSQL-601" in note for note in connection.execute(where("patient_id <> 1017")).notes)
        assert (
            len(connection.execute("SHOW LEDGER").fetchall()) == 3 == len(connection.execute("SHOW GUARD").fetchall())
        )


def test_off_answers_without_a_word(tmp_path: Path) -> None:
    with connected(placed(tmp_path, text=schema_text("nhefs", mode="off"))) as connection:
        for sql in (TOTAL, REST, where("patient_id <> 1017"), where(f"({PERSON}) OR race = 'white'")):
            assert connection.execute(sql).notes == () and "guard:" not in connection.explain(sql)
        assert connection.execute("SHOW GUARD").fetchall() == []


COMBINATIONS = {
    "total minus two parts": [TOTAL, where("weight_1971_kg < 81"), where("weight_1971_kg >= 81.4")],
    "total minus three parts": [
        TOTAL,
        where("sex = 'female'"),
        where("sex = 'male' AND weight_1971_kg < 81"),
        where("sex = 'male' AND weight_1971_kg >= 81.4"),
    ],
    "parts of a breakdown": [
        "SELECT race, COUNT(*) FROM patients GROUP BY race",
        where("race = 'white' AND weight_1971_kg < 81"),
        where("race = 'white' AND weight_1971_kg > 81.4"),
    ],
    "what two have in common": [TOTAL, where("weight_1971_kg < 81.4"), where("weight_1971_kg >= 81")],
}


@pytest.mark.few(3)
@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("name", COMBINATIONS)
def test_audit_refuses_what_several_answers_tell_together(tmp_path: Path, name: str, backwards: bool) -> None:
    asked = COMBINATIONS[name][::-1] if backwards else COMBINATIONS[name]
    with opened(placed(tmp_path, text=schema_text("nhefs", mode="audit"))) as session:
        codes = [decision(session, sql) for sql in asked]
        problem = refused(session, asked[-1])
    assert codes == ["answered"] * (len(asked) - 1) + ["DPSQL-604"]
    assert "rule R4" in problem.message


@pytest.mark.few(4)
@pytest.mark.parametrize("name", COMBINATIONS)
def test_block_compares_pairs_alone(data: dict[str, Data], name: str) -> None:
    """A limit of this mode: combinations of three answers and more are left to the budget."""
    with opened(data["nhefs"]) as session:
        assert [decision(session, sql) for sql in COMBINATIONS[name]] == ["answered"] * len(COMBINATIONS[name])


def test_audit_refuses_pairs_and_answers_what_is_ordinary(tmp_path: Path) -> None:
    with opened(placed(tmp_path, text=schema_text("nhefs", mode="audit"))) as session:
        for sql in (TOTAL, "SELECT sex, COUNT(*) FROM patients GROUP BY sex", where("age < 50"), where("age < 40")):
            assert decision(session, sql) == "answered"
        assert decision(session, REST) == "DPSQL-602"
        assert decision(session, "SELECT sex, race, COUNT(*) FROM patients GROUP BY sex, race") == "answered"


def test_audit_tells_nothing_of_somebody_elses_statements(tmp_path: Path) -> None:
    path, ledger = approved(tmp_path, "audit")
    *before, last = COMBINATIONS["total minus two parts"]
    with connected(path, "ann", ledger) as ann, connected(path, "bob", ledger) as bob:
        for sql in before:
            ann.execute(sql)
        problem = refused(bob, last)
    assert problem.code == "DPSQL-604"
    text = str(problem).removeprefix("DPSQL-604")
    assert not any(word in text for word in ("ann", "weight", "81", "race"))


# --- few people, asked about directly -----------------------------------------------------------------------------

FEW = "age = 34 AND sex = 'female' AND marital = 2"
"""28 patients in the data; as declared, two."""


@pytest.mark.few(1)
@pytest.mark.parametrize(("k", "shown"), [(20, True), (28, True), (29, False), (100, False)])
def test_rule_44_a_few_are_suppressed_by_their_noisy_number(tmp_path: Path, k: int, shown: bool) -> None:
    with opened(placed(tmp_path, text=schema_text("nhefs", k=k))) as session:
        for sql in (
            f"SELECT COUNT(*), SUM(age), AVG(age) FROM patients WHERE {FEW}",
            f"SELECT SUM(age), AVG(age), COUNT(age) FROM patients WHERE {FEW}",
            f"SELECT SUM(age) FILTER (WHERE {FEW}), COUNT_IF({FEW}), COUNT(*) FILTER (WHERE {FEW}) FROM patients",
        ):
            answer = ask(session, sql)
            assert {cell is not None for cell in answer.rows[0]} == {shown}, sql
            for fingerprint in answer.fingerprints:
                stored = Answers(session._world.ledger).get(fingerprint)
                assert stored is not None and stored.groups == 1
                assert shown or any(column[0] is None for column in stored.cells)
            again = ask(session, f"SELECT 1, * FROM ({sql}) AS t")
            assert again.cached and again.rows[0][1:] == answer.rows[0], "suppressed for good"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) FROM (SELECT age FROM patients WHERE {PERSON}) AS t",
        f"SELECT COUNT_IF({PERSON}) FROM patients",
        f"SELECT COUNT(*) FILTER (WHERE {PERSON}), SUM(age) FILTER (WHERE {PERSON}) FROM patients",
    ],
)
def test_rule_44_a_few_are_suppressed_in_whatever_words(data: dict[str, Data], sql: str) -> None:
    with opened(data["nhefs"]) as session:
        assert set(ask(session, sql).rows[0]) == {None}


@pytest.mark.parametrize(
    "sql",
    [
        # a list that the analyst writes holds no released groups
        "WITH v AS (SELECT 90.72e0 AS y) SELECT COUNT(*) FROM patients p WHERE NOT EXISTS (SELECT 1 FROM v WHERE v.y = p.{x})",
        "SELECT COUNT(*) FROM patients WHERE {x} NOT IN (SELECT 90.72e0)",
        "WITH t AS (SELECT age, COUNT(*) FROM patients GROUP BY age) "
        "SELECT COUNT(*) FROM patients WHERE {x} NOT IN (SELECT age * 0 + 90.72e0 FROM t)",
        "WITH v AS (SELECT 90.72e0 AS y) SELECT COUNT(*) FROM patients p LEFT JOIN v ON v.y = p.{x} WHERE v.y IS NULL",
        # a part that decides about nobody where it stands once decides about few where it stands again
        "SELECT COUNT(*) FROM patients WHERE (age >= 0 OR {x} = 90.72) AND NOT ({x} = 90.72)",
        "SELECT SUM(CASE WHEN {x} = 90.72 THEN 0 ELSE 1 END) FROM patients WHERE {x} >= 81 OR {x} = 90.72",
        "SELECT COUNT(*) FILTER (WHERE {x} <> 90.72) FROM patients WHERE {x} >= 81 OR {x} = 90.72",
        "SELECT COUNT(*) FROM patients WHERE ({x} >= 81 OR {x} = 90.72) AND (sex = 'male' OR NOT ({x} = 90.72))",
        "SELECT SUM(CASE WHEN {x} >= 0 THEN CASE WHEN {x} = 90.72 THEN 0 ELSE 1 END ELSE 0 END) FROM patients",
        # what is not read is no invariant that failed
        "SELECT COUNT(*) FROM patients WHERE education = '3' OR TRY_CAST(sex AS INTEGER) = 1",
    ],
)
def test_one_person_is_left_out_in_no_disguise(data: dict[str, Data], sql: str) -> None:
    with opened(data["nhefs"]) as session:
        assert decision(session, sql.format(x="weight_1971_kg")) == "DPSQL-602"


def test_rule_44_a_warning_is_no_suppression(tmp_path: Path) -> None:
    sql = f"SELECT SUM(CASE WHEN {PERSON} THEN 1 ELSE 0 END) FROM patients"
    with opened(placed(tmp_path, text=schema_text("nhefs", mode="warn"))) as session:
        answer = session.execute(sql)
        assert answer.rows != [(None,)] and "rule R3" in answer.notes[0]


def test_an_audit_knows_the_small_groups_of_a_breakdown(tmp_path: Path) -> None:
    """The hidden groups' rest is the total without the shown ones."""
    few = "FROM patients WHERE race <> 'white' AND sex = 'male' AND education = '1'"
    with opened(placed(tmp_path, text=schema_text("nhefs", mode="audit"))) as session:
        assert decision(session, f"/* dpsql: epsilon=0.4 */ SELECT COUNT(*) {few}") == "answered"
        assert (
            decision(session, f"/* dpsql: epsilon=0.4 */ SELECT marital, COUNT(*) {few} GROUP BY marital")
            == "DPSQL-604"
        )


def test_groups_of_a_released_list_are_left_out_whole(data: dict[str, Data]) -> None:
    inner = "SELECT race FROM (SELECT race, COUNT(*) AS n FROM patients GROUP BY race ORDER BY n DESC LIMIT 1) AS t"
    with opened(data["nhefs"]) as session:
        assert decision(session, f"SELECT COUNT(*) FROM patients WHERE race NOT IN ({inner})") == "answered"


@pytest.mark.parametrize(
    "value",
    [
        f"CASE WHEN {PERSON} THEN 1 END",
        f"CASE WHEN {PERSON} THEN 1 ELSE 0 END",
        f"CAST(({PERSON}) AS INTEGER)",
        "age * GREATEST(0, 1 - ABS(age - 41) - ABS(marital - 4)) * CAST(sex = 'male' AS INTEGER)",
    ],
)
def test_a_value_that_only_a_few_have_is_suppressed(data: dict[str, Data], value: str) -> None:
    """Its number of people is not that of the rows that it is added up over, which is shown beside it."""
    with opened(data["nhefs"]) as session:
        for aggregate in ("COUNT(NULLIF({}, 0))", "SUM({})", "AVG({})", "MAX({})", "STDDEV({})"):
            answer = session.execute(f"SELECT {aggregate.format(value)}, COUNT(*) FROM patients")
            assert answer.rows == [(None, 1629)], aggregate


@pytest.mark.parametrize(
    "value",
    ["CASE WHEN age = 31 THEN 1 ELSE 0 END", "CASE WHEN age = 31 THEN age END", "age * CAST(age = 31 AS INTEGER)"],
)
def test_a_value_that_few_of_one_group_have_is_suppressed_there(data: dict[str, Data], value: str) -> None:
    """Many have it in all, as declared; how many there are of the group is shown beside it."""
    with opened(data["nhefs"]) as session:
        rows = session.execute(f"SELECT education, SUM({value}), COUNT(*) FROM patients GROUP BY education").rows
        assert [row[1] for row in rows] == [None] * len(rows) and all(row[2] is not None for row in rows)
        (total,) = session.execute(f"SELECT SUM({value}) FROM patients").rows
        assert total[0] is not None


def test_rule_44_groups_stay_as_rows(tmp_path: Path) -> None:
    """The list of declared keys says nothing; their values are NULL where they are of a few."""
    sql = "SELECT marital, COUNT(*) AS n, SUM(age) AS s FROM patients WHERE age BETWEEN 40 AND 41 GROUP BY marital ORDER BY marital"
    with opened(placed(tmp_path)) as session:
        answer = ask(session, sql)
        with duckdb.connect() as exact:
            source = f"'{tmp_path / 'patients.parquet'}'"
            known = dict(
                exact.execute(f"SELECT marital, COUNT(*) FROM {source} WHERE age IN (40, 41) GROUP BY 1").fetchall()
            )
        assert [row[0] for row in answer.rows] == [1, 2, 3, 4, 5, 6, 8]
        assert {row[0]: row[1] for row in answer.rows} == {
            m: n if (n := known.get(m, 0)) >= 20 else None for m, *_ in answer.rows
        }
        assert all((n is None) == (s is None) for _, n, s in answer.rows)
        assert any(n is not None for _, n, _ in answer.rows) and any(n is None for _, n, _ in answer.rows)
        stored = Answers(session._world.ledger).get(answer.fingerprints[0])
        assert stored is not None and [list(key) for key in stored.keys] == [[1, 2, 3, 4, 5, 6, 8]]
        assert [column[0] for column in stored.cells if column[1] is not None].count(None) >= 2
        assert ask(session, sql.replace("AS n", "AS m")).cached


def test_rule_44_the_number_that_decides_is_part_of_the_price(data: dict[str, Data]) -> None:
    """One price is paid for the sum and for the count beside it; a group of many people has none."""
    with opened(data["nhefs"]) as session:
        few, many = (
            f"SELECT SUM(age) FROM patients WHERE {FEW}",
            "SELECT SUM(age) FROM patients WHERE sex = 'male' AND age < 60",
        )
        losses = [
            ask(session, f"/* dpsql: epsilon=0.1, mechanism=laplace */ {sql}").receipt.loss for sql in (few, many)
        ]
        assert [loss.epsilon for loss in losses] == [Fraction(1, 10)] * 2
        plans = [session.explain(f"/* dpsql: epsilon=0.1, mechanism=laplace */ {sql}") for sql in (few, many)]
        # beside the sum, in one vector with it
        assert [plan.count("one vector: number of rows") for plan in plans] == [1, 0]
        assert [plan.count("measure m") for plan in plans] == [1, 1]
        assert session._world.ledger.verify() == 2


def test_rule_44_a_suppressed_group_adds_nothing_up(data: dict[str, Data]) -> None:
    """No roll-up of stored answers, and no shell, makes a number of what is suppressed."""
    finer = "SELECT sex, COUNT(*) FROM patients WHERE age = 41 AND marital = 4 GROUP BY sex"
    with opened(data["nhefs"]) as session:
        assert [row[1] for row in ask(session, finer).rows] == [None, None]
        assert ask(session, f"SELECT SUM(n) FROM ({finer.replace('COUNT(*)', 'COUNT(*) AS n')}) AS t").rows == [(None,)]
        assert ask(session, where("age = 41 AND marital = 4")).rows == [(None,)], "suppressed by its own noisy number"


@pytest.mark.parametrize("mode", ["warn", "off"])
def test_rule_44_nothing_is_suppressed_where_the_guard_only_warns(tmp_path: Path, mode: str) -> None:
    with opened(placed(tmp_path, text=schema_text("nhefs", mode=mode))) as session:
        assert ask(session, where(PERSON)).rows == [(1,)]
