"""The guard decides by the statement, the schema and what was asked before: 2,000 generated histories on four databases.

The four hold many people, the same without one of them, nobody, and people whose files were removed once they were approved. Every
decision, and every word of a refusal, is the same on all four.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting import remembered
from dpsql.accounting.entries import GuardEntry as Row
from dpsql.core.errors import Error
from dpsql.guard.guarding import Guarding
from dpsql.guard.history import BlockQuestion
from dpsql.planner.parse import parse
from dpsql.schema.model import Analyst
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic, generate
from tests.support.noise import ZeroNoise
from tests.support.planning import planned

HISTORIES = 2_000
AUDITED = 40
EXECUTED = 3
LENGTH = 6
THEMES = 60
OF_ONE_THEME = 9
GONE = 1005
"""The person who is not in the second database."""
SHORTEST = 5
"""Letters of a value that is nobody else's by chance."""
SECRET = "zebra"
"""The beginning of every text of the data that a statement does not name."""

UNIT = """
[dataset]
name = "clinic"
source = "."

[privacy]
unit = "patient.patient_id"
epsilon = 1000000.0
delta = 0.5
query = { epsilon = 1.0, delta = 1e-3 }
caps = { epsilon = 1000000.0, delta = 0.4 }

[guard]
mode = "block"
k = 20
"""
TEXT = re.sub(
    r"\[tables\.(\w+)\]\n", r'[tables.\1]\nsource = "\1.parquet"\n', clinic.PATIENT + clinic.VISIT + clinic.PUBLIC
).replace('code = { type = "INTEGER", role = "measure"', 'code = { type = "INTEGER", role = "quasi"')


# --- statements that are nearly the same --------------------------------------------------------------------------

FAMILIES: Mapping[str, Sequence[Sequence[str]]] = {
    "patient": [
        ["age > 30", "age >= 30", "age > 31", "NOT age <= 30", "age <> 34", "age BETWEEN 31 AND 90", "age + 1 > 31", "age = 34"],
        ["weight > 70", "weight >= 70", "weight > 70.5", "weight > 75", "weight IS NOT NULL", "weight <> 70", "weight * 2 > 141"],
        ["income < 50", "income <= 50", "income < 50.5", "income < 60", "income BETWEEN -50 AND 100", "income = 50", "income <> 50"],
        ["score >= 50", "score > 50", "score >= 50.01", "score IS NULL", "score < 90", "score <= 90", "FLOOR(score) = 50"],
        ["born < DATE '1995-06-01'", "born <= DATE '1995-06-01'", "born < DATE '1995-07-01'", "EXTRACT(YEAR FROM born) < 1995",
         "born <> DATE '1995-06-01'", "EXTRACT(MONTH FROM born) = 6"],
        ["site = 2", "site <> 2", "site IN (1, 3)", "site BETWEEN 2 AND 2", "site % 2 = 0", "NULLIF(site, 2) IS NULL", "site > 3"],
        ["city = 'a'", "city LIKE 'a%'", "city <> 'zz'", "city IN ('a', 'zz')", "LENGTH(city) = 1", "city IS NULL", "city > 'a'"],
        ["female", "NOT female", "female IS NULL", "female IS NOT TRUE", "COALESCE(female, TRUE)", "female OR NOT female"],
        ["note = 'n1'", "note <> 'n1'", "note LIKE 'n%'", "LENGTH(note) < 3", "note IS NULL", "CAST(note AS INTEGER) > 3"],
        ["code % 2 = 0", "code = 3", "code <> 3", "code > 2147483646", "code IS NOT NULL", "code < 3 OR code > 3"],
        ["age + site > 60", "10 / (age - 30) > 1", "isnan(income)", "sqrt(income) > 2", "age * site > 100"],
        [f"patient_id <> {GONE}", f"patient_id = {GONE}", "patient_id > 0", f"patient_id NOT IN ({GONE}, 4)", "patient_id IS NOT NULL"],
        ["patient_id IN (SELECT patient_id FROM visit WHERE cost > 20)", "patient_id IN (SELECT patient_id FROM visit)",
         "EXISTS (SELECT 1 FROM visit AS v WHERE v.patient_id = patient.patient_id AND v.year = 1)",
         "patient_id NOT IN (SELECT patient_id FROM visit WHERE cost > 20 AND patient_id IS NOT NULL)"],
        ["site IN (SELECT drug FROM drug)", "site IN (SELECT drug FROM drug WHERE label = 'x')", "site = 1", "site IN (1, 2)"],
    ],
    "visit": [
        ["year > 1", "year >= 2", "year IN (2, 3, 4)", "year <> 1", "year BETWEEN 2 AND 3", "year = 4", "year % 2 = 1"],
        ["cost < 20", "cost <= 20", "cost < 20.1", "cost < 25", "cost BETWEEN 5 AND 50", "cost <> 20", "-cost > -20"],
        ["days > 3", "days >= 4", "days > 4", "days IS NULL", "days <> 7", "days // 3 > 1", "COALESCE(days, 0) > 3"],
        ["tag = 't1'", "tag <> 't1'", "tag LIKE 't%'", "tag IS NULL", "LENGTH(tag) = 2", "tag IN ('t1', 't2')"],
        ["cost / days > 1", "cost > days", "cost > days + 1"],
        ["visit_id <> 3", "visit_id = 3", "visit_id < 1000000", "visit_id % 2 = 0"],
        [f"patient_id <> {GONE}", f"patient_id = {GONE}", "patient_id IS NOT NULL"],
    ],
}  # fmt: skip
VALUES = {"patient": ["age", "income", "weight", "score"], "visit": ["cost", "days"]}
KEYS = {
    "patient": [
        "site",
        "female",
        "city",
        "age // 10",
        "FLOOR(income / 25)",
        "site, city",
        "EXTRACT(YEAR FROM born)",
        "note",
    ],
    "visit": ["year", "days // 10", "cost > 20", "tag", "year, cost > 20"],
}
BESIDE = {"patient": "patient JOIN visit USING (patient_id)", "visit": "visit JOIN patient USING (patient_id)"}


@dataclass(frozen=True, slots=True)
class Theme:
    """A theme that statements have in common, a table and conditions; and the conditions that they try in turn."""

    table: str
    base: tuple[str, ...]
    family: Sequence[str]

    def statement(self, chance: random.Random) -> str:
        """One of many ways to ask about the base, or about one of the family in it."""
        t, value, key = self.table, chance.choice(VALUES[self.table]), chance.choice(KEYS[self.table])
        one = chance.choice(self.family)
        base = where(self.base)
        cut = where([*self.base, one])
        ways = [
            f"SELECT COUNT(*) FROM {t}{base}",
            f"SELECT COUNT(*) FROM {t}{cut}",
            f"SELECT COUNT(*) FROM {t}{cut}",
            f"SELECT SUM({value}), COUNT({value}) FROM {t}{cut}",
            f"SELECT COUNT(*) FROM {t}{where([*self.base, f'NOT ({one})'])}",
            f"SELECT COUNT(*) FROM {t}{where([*self.base, f'({one} OR {chance.choice(self.family)})'])}",
            f"SELECT COUNT(*), COUNT(*) FILTER (WHERE {one}) FROM {t}{base}",
            f"SELECT AVG({value}) FILTER (WHERE {one}) FROM {t}{base}",
            f"SELECT SUM(CASE WHEN {one} THEN {value} ELSE 0 END) FROM {t}{base}",
            f"SELECT COUNT(CASE WHEN {one} THEN 1 END), COUNT_IF(NOT ({one})) FROM {t}{base}",
            f"SELECT CASE WHEN {one} THEN 'in' ELSE 'out' END AS g, COUNT(*) FROM {t}{base} GROUP BY g",
            f"SELECT {key}, COUNT(*) FROM {t}{base} GROUP BY ALL",
            f"SELECT {key}, COUNT(*), AVG({value}) FROM {t}{cut} GROUP BY ALL",
            f"SELECT {key}, COUNT(*) FILTER (WHERE {one}) FROM {t}{base} GROUP BY ALL",
            f"SELECT {key}, SUM({value}) FROM {t}{base} GROUP BY ALL HAVING COUNT(*) > 3",
            f"SELECT COUNT(*) FROM (SELECT * FROM {t}{base}) AS {t}{where([one])}",
            f"WITH x AS (SELECT * FROM {t}{cut}) SELECT COUNT(*), SUM({value}) FROM x",
            f"SELECT (SELECT COUNT(*) FROM {t}{base}) - (SELECT COUNT(*) FROM {t}{cut}) AS d",
            f"SELECT COUNT(*) FROM {t}{where([*self.base, f'{value} > (SELECT AVG({value}) FROM {t})'])}",
            f"SELECT COUNT(DISTINCT patient_id), COUNT(*) FROM {t}{cut}",
        ]
        if "patient_id" not in one and "patient_id" not in base:
            ways += [
                f"SELECT COUNT(*), SUM(cost) FROM {BESIDE[t]}{cut}",
                f"SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM {BESIDE[t]}{cut} GROUP BY patient_id) AS u WHERE n > 1",
            ]
        return chance.choice(ways)


def where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def themes(chance: random.Random) -> list[list[str]]:
    """For each theme its statements; the last few are of all kinds."""
    found: list[list[str]] = []
    for _ in range(THEMES - 5):
        table = chance.choice(["patient", "patient", "visit"])
        families = chance.sample(FAMILIES[table], 1 + chance.choice([0, 0, 1, 1, 2]))
        base = tuple(chance.choice(family) for family in families[1:])
        theme = Theme(table, base, families[0])
        found.append(list(dict.fromkeys(theme.statement(chance) for _ in range(OF_ONE_THEME))))
    found += [[generate.statement(chance) for _ in range(OF_ONE_THEME)] for _ in range(5)]
    return found


@dataclass(frozen=True, slots=True)
class History:
    """Statements in their order, each with who asks it."""

    asked: tuple[tuple[str, str], ...]


def histories(chance: random.Random, count: int, length: int = LENGTH) -> list[History]:
    """Most of a history is of one theme."""
    listed = THEMED
    found = []
    for _ in range(count):
        theme = chance.choice(listed)
        asked = [chance.choice(theme if chance.random() < 0.9 else chance.choice(listed)) for _ in range(length)]
        found.append(History(tuple((chance.choice(["ann", "ann", "bob"]), sql) for sql in asked)))
    return found


THEMED = themes(random.Random(1))
POOL = list(dict.fromkeys(sql for theme in THEMED for sql in theme))


# --- four databases -----------------------------------------------------------------------------------------------


def people() -> clinic.Database:
    """A hundred patients, with everything that goes wrong in data, and texts that no statement names."""
    chance = random.Random(11)
    found: clinic.Database = {"patient": [], "visit": [], "item": [], "drug": clinic.database(chance)["drug"]}
    while len(found["patient"]) < 100:
        drawn = clinic.database(chance)
        moved = {row[0]: 1000 + len(found["patient"]) + i for i, row in enumerate(drawn["patient"])}
        found["patient"] += [
            (moved[row[0]], *row[1:8], f"{SECRET}{moved[row[0]]}", *row[9:]) for row in drawn["patient"]
        ]
        ids = {row[0]: len(found["visit"]) + i for i, row in enumerate(drawn["visit"])}
        found["visit"] += [
            (ids[row[0]], moved.get(row[1]), *row[2:5], f"{SECRET}{ids[row[0]]}") for row in drawn["visit"]
        ]
        found["item"] += [(ids[row[0]], *row[1:]) for row in drawn["item"]]
    return found


PEOPLE = people()
DATABASES: Mapping[str, clinic.Database] = {
    "D": PEOPLE,
    "D'": clinic.without(PEOPLE, GONE),
    "empty": {"patient": [], "visit": [], "item": [], "drug": PEOPLE["drug"]},
    "removed": PEOPLE,
}


def write(folder: Path, data: clinic.Database) -> None:
    """One Parquet file a table."""
    folder.mkdir()
    with duckdb.connect() as connection:
        clinic.fill(connection, data)
        for name in clinic.DDL:
            connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")


def remove(folder: Path) -> None:
    """The files with people in them."""
    for name in ("patient", "visit", "item"):
        (folder / f"{name}.parquet").unlink()


def opened(folder: Path, name: str, mode: str = "block", *analysts: str) -> list[Session]:
    """One database, opened by several; what is to be removed is removed once it is open."""
    write(folder, DATABASES[name])
    path = folder / "clinic.toml"
    path.write_text(UNIT.replace('mode = "block"', f'mode = "{mode}"') + TEXT)
    ledger = folder / "clinic.ledger"
    found = [open_session(path, analyst, ledger, noise=ZeroNoise()) for analyst in analysts or ("ann",)]
    if name == "removed":
        remove(folder)
    return found


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Session]]:
    folder = tmp_path_factory.mktemp("histories")
    found = {name: opened(folder / str(i), name)[0] for i, name in enumerate(DATABASES)}
    yield found
    for session in found.values():
        session.close()


# --- decisions without an engine ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """code and text of a refusal; "" where there is none."""

    code: str = ""
    text: str = ""


ALLOWED = Decision()


def refusal(problem: Error) -> Decision:
    return Decision(problem.code, f"{problem.message}; {problem.hint}")


@dataclass(slots=True)
class Told:
    """A ledger that remembers whom statements asked about, and nothing else."""

    rows: list[Row] = field(default_factory=list)

    def asked(self, since: int = 0) -> list[Row]:
        return [row for row in self.rows if row.charge > since]


@pytest.fixture(autouse=True)
def nothing_beside_the_charges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a ledger forgets nothing and keeps nothing anew; it knows a statement's record by its charge."""
    known = {name: getattr(remembered, name) for name in ("changed", "asked_of", "packed")}
    monkeypatch.setattr(
        remembered, "changed", lambda ledger: (0, 0) if isinstance(ledger, Told) else known["changed"](ledger)
    )

    def asked_of(ledger: object, charge: int) -> tuple[str, str]:
        if not isinstance(ledger, Told):
            found: tuple[str, str] = known["asked_of"](ledger, charge)
            return found
        return next((row.statement, row.asked) for row in ledger.rows if row.charge == charge)

    monkeypatch.setattr(remembered, "asked_of", asked_of)
    monkeypatch.setattr(
        remembered, "packed", lambda ledger, kind: () if isinstance(ledger, Told) else known["packed"](ledger, kind)
    )


@dataclass(slots=True)
class Deciding:
    """The guard of one database, with a new history whenever one is begun.

    planned  what is known of a statement before anything earlier is looked at: whom it asks about, or why it is refused
    """

    session: Session
    mode: str = "block"
    planned: dict[str, tuple[list[BlockQuestion], str] | Decision] = field(default_factory=dict)

    def history(self, history: History) -> list[Decision]:
        told = Told()
        guards = {name: self._guarding(told, name) for name in ("ann", "bob")}
        return [self._decide(guards[who], told, who, sql) for who, sql in history.asked]

    def _guarding(self, told: Told, who: str) -> Guarding:
        world = self.session._world
        return Guarding(world.schema, told, Analyst(who), world.sample, world._resolved)  # type: ignore[arg-type]

    def _decide(self, guarding: Guarding, told: Told, who: str, sql: str) -> Decision:
        if sql not in self.planned:
            self.planned[sql] = self._plan(sql)
        planned = self.planned[sql]
        if isinstance(planned, Decision):
            return planned
        asked, text = planned
        try:
            guarding.compare(asked)
        except Error as problem:
            return refusal(problem)
        if asked:
            told.rows.append(Row(len(told.rows) + 1, who, sql, text))
        return ALLOWED

    def _plan(self, sql: str) -> tuple[list[BlockQuestion], str] | Decision:
        session, guarding = self.session, self.session._world.guard
        try:
            found = planned(session, parse(sql))
            guarding.settled(found.judged.findings)
        except Error as problem:
            return refusal(problem)
        asked = guarding.asked(found.judged.asked, found.plan.plan.releases)
        return asked, guarding.written(asked)


def compared(deciding: Mapping[str, Deciding], asked: Sequence[History]) -> list[list[Decision]]:
    """The decisions on the first database, which are those on all others."""
    found = []
    for history in asked:
        first, *others = (one.history(history) for one in deciding.values())
        for name, other in zip(list(deciding)[1:], others, strict=True):
            assert other == first, (name, history)
        found.append(first)
    return found


def show(what: str, tally: Counter[str]) -> None:
    """The number of times that each was decided."""
    listed = ", ".join(f"{code or 'allowed'} {count:,}" for code, count in sorted(tally.items()))
    sys.stdout.write(f"\n{what}: {listed}\n")


@pytest.mark.slow
def test_histories_are_decided_alike_on_every_database(sessions: dict[str, Session]) -> None:
    deciding = {name: Deciding(session) for name, session in sessions.items()}
    asked = histories(random.Random(2), HISTORIES)
    decisions = compared(deciding, asked)
    plans = [
        {sql: (found if isinstance(found, Decision) else found[1]) for sql, found in one.planned.items()}
        for one in deciding.values()
    ]
    assert all(other == plans[0] for other in plans[1:]), "what the ledger keeps of a question is the same everywhere"
    tally = Counter(decision.code for each in decisions for decision in each)
    show(f"{len(asked):,} histories of {len(plans[0])} different statements", tally)
    assert sum(tally.values()) == HISTORIES * LENGTH
    assert tally[""] > 2 * HISTORIES and tally["DPSQL-602"] > HISTORIES / 3
    assert tally["DPSQL-601"] > HISTORIES / 20 and tally["DPSQL-603"] > HISTORIES / 20


@pytest.mark.slow
def test_histories_are_audited_alike_on_every_database(tmp_path: Path) -> None:
    """The rule about combinations of many answers."""
    found = {name: opened(tmp_path / str(i), name, "audit")[0] for i, name in enumerate(DATABASES)}
    deciding = {name: Deciding(session) for name, session in found.items()}
    decisions = compared(deciding, histories(random.Random(3), AUDITED))
    tally = Counter(decision.code for each in decisions for decision in each)
    show("audited", tally)
    assert tally[""] > 60 and tally["DPSQL-602"] > 5 and tally["DPSQL-604"] > 0
    for session in found.values():
        session.close()


@pytest.mark.slow
def test_explain_says_the_same_on_every_database(sessions: dict[str, Session]) -> None:
    for sql in random.Random(4).sample(POOL, 80):
        said = {name: explained(session, sql) for name, session in sessions.items()}
        assert len(set(said.values())) == 1, (sql, said)


def explained(session: Session, sql: str) -> str:
    try:
        return session.explain(sql)
    except Error as problem:
        return str(problem)


# --- whole statements ---------------------------------------------------------------------------------------------


def executed(sessions: Mapping[str, Session], history: History) -> Iterator[tuple[Decision, str]]:
    """The outcome of every statement, and what EXPLAIN said of it before."""
    for who, sql in history.asked:
        said = refused(sessions, who, sql)
        try:
            sessions[who].execute(sql)
            yield ALLOWED, said
        except Error as problem:
            yield refusal(problem), said


def refused(sessions: Mapping[str, Session], who: str, sql: str) -> str:
    """The line with which EXPLAIN says that a statement would be refused after what was asked so far."""
    return next((line for line in explained(sessions[who], sql).splitlines() if line.startswith("guard: refused")), "")


@pytest.mark.slow
def test_executed_histories_are_decided_alike_on_every_database(tmp_path: Path) -> None:
    """Two who ask in turn. EXPLAIN says beforehand what will be refused, and says the same when the files were removed."""
    chance, tally = random.Random(5), Counter[str]()
    for i, history in enumerate(histories(chance, EXECUTED, 20)):
        found = {}
        for j, name in enumerate(("D", "D'", "empty")):
            folder = tmp_path / f"{i}{j}"
            both = dict(zip(("ann", "bob"), opened(folder, name, "block", "ann", "bob"), strict=True))
            decisions = list(executed(both, history))
            at_the_end = [refused(both, who, sql) for who, sql in history.asked]
            remove(folder)
            assert [refused(both, who, sql) for who, sql in history.asked] == at_the_end, (name, history)
            found[name] = (decisions, at_the_end)
            for session in both.values():
                session.close()
        assert found["D'"] == found["D"] and found["empty"] == found["D"], history
        for decision, said in found["D"][0]:
            assert decision.code < "DPSQL-7", decision
            tally[decision.code] += 1
            if decision.code == "DPSQL-602":
                assert said == f"guard: refused by {decision.text.rpartition('; ')[0]}"
    show("executed", tally)
    assert tally[""] > 20 and tally["DPSQL-601"] + tally["DPSQL-602"] > 3


@pytest.mark.slow
def test_no_message_holds_a_value_of_the_data(sessions: dict[str, Session]) -> None:
    """Every number and text of a refusal stands in a statement or in the schema, or is a count that the schema implies."""
    deciding = Deciding(sessions["D"])
    schema = UNIT + TEXT
    values = {str(value) for rows in PEOPLE.values() for row in rows for value in row if len(str(value)) >= SHORTEST}
    assert len(values) > 300
    refused = 0
    for history in histories(random.Random(6), 150):
        texts = " ".join(sql for _, sql in history.asked)
        for decision in deciding.history(history):
            assert SECRET not in decision.text
            if not decision.code.startswith("DPSQL-6"):
                continue
            refused += 1
            told = re.sub(
                r"about \d+ as declared|your statement \d+|fewer than \d+|\d+ people or more", "", decision.text
            )
            for word in re.findall(r"'(?:[^']|'')*'|\d+(?:\.\d+)?", told):
                known = word.strip("'") in texts or word.strip("'") in schema
                assert known or word.strip("'") not in values, (word, decision, history)
    assert refused > 150


def test_what_is_remembered_holds_no_value_of_the_data(tmp_path: Path) -> None:
    """The ledger's record of whom statements asked about, and the table that shows it."""
    session = opened(tmp_path / "d", "D")[0]
    for sql in ("note", "tag"):
        table = "patient" if sql == "note" else "visit"
        session.execute(f"SELECT {sql}, COUNT(*) FROM {table} GROUP BY {sql}")
    session.execute("SELECT city, site, COUNT(*) FROM patient GROUP BY ALL HAVING COUNT(*) > 1")
    rows = session.execute("SELECT * FROM dpsql.guard").rows
    kept = [row.asked for row in session._world.ledger.asked()]
    assert len(kept) == 3 and rows
    assert not any(SECRET in text for text in [*kept, str(rows)])
    session.close()
