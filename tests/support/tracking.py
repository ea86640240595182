"""An attacker's list: statements that, all answered, tell something about a few people, and what became of them.

The list is independent of the guard. Its files are tests/fixtures/guard/attacks_SCHEMA.sql, a case a paragraph:

    -- people: SELECT patient_id FROM ...       over the true data: whom the statements isolate, fewer than k
    -- reads: SELECT a.c1 - b.c1 FROM a, b      over the answers: what the attacker works out of them
    -- attack: KIND: NAME
    SELECT ...;
    SELECT ...

The answers are tables `a` to `d`, their columns `c1`, `c2` and so on. Without `reads` it is the one number of one statement, or the
difference of those of two.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import duckdb

from dpsql.accounting import remembered
from dpsql.accounting.ledger import Ledger
from dpsql.core.domains import Categories, Interval
from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.dataset.opening import open_dataset
from dpsql.guard.bought import bought
from dpsql.guard.sizes import Bought
from dpsql.schema.model import Analyst, Column, Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.result import Answer
from dpsql.session.session import Session
from dpsql.session.sizing import buy_sizes
from tests.support.copies import unused
from tests.support.noise import ZeroNoise
from tests.support.opened import Data

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "guard"
SCHEMAS = ("randhie", "nhefs")
ANSWERS = "abcd"
BY_DEFAULT = ("SELECT c1 FROM a", "SELECT a.c1 - b.c1 FROM a, b")
BY_THE_GUARD = {f"DPSQL-{code}" for code in range(601, 606)}
EPSILON = Fraction(10)
"""[nats] The price of a statement: one at which every difference of two answers can be read."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A pair of statements that isolates a few people.

    people_sql  their ids, over the true data
    reads       what the attacker works out, over the answers
    """

    kind: str
    name: str
    people_sql: str
    statements: tuple[str, ...]
    reads: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


@dataclass(frozen=True, slots=True)
class Poison:
    """Hostile statements of one analyst, and the usual ones that another asks after them, over the patients of NHEFS."""

    hostile: tuple[str, ...]
    usual: tuple[str, ...]


def read_attacks(schema: str) -> list[Attack]:
    """The cases over that schema; a ValueError names a paragraph that is none."""
    paragraphs = (FIXTURES / f"attacks_{schema}.sql").read_text().split("\n\n")
    return [_attack(paragraph) for paragraph in map(str.strip, paragraphs) if "-- attack: " in paragraph]


def read_poison() -> Poison:
    """The statements of poison.sql, which are one a line."""
    hostile, _, usual = (FIXTURES / "poison.sql").read_text().partition("\n-- then\n")
    return Poison(_statements(hostile), _statements(usual))


def _attack(paragraph: str) -> Attack:
    heads = [line.removeprefix("-- ") for line in paragraph.splitlines() if line.startswith("-- ")]
    said = dict(line.split(": ", 1) for line in heads)
    statements = _statements(paragraph)
    if not {"people", "attack"} <= said.keys() <= {"people", "attack", "reads"} or not 1 <= len(statements) <= 4:
        raise ValueError(f"no attack: {paragraph}")
    kind, _, name = said["attack"].partition(": ")
    reads = said["reads"] if "reads" in said else BY_DEFAULT[len(statements) - 1]
    return Attack(kind, name, said["people"], statements, reads)


def _statements(text: str) -> tuple[str, ...]:
    lines = (line for line in text.splitlines() if not line.startswith("--"))
    return tuple(filter(None, (sql.strip() for sql in "\n".join(lines).split(";"))))


# --- the true data ------------------------------------------------------------------------------------------------


@cache
def true_data(schema: str) -> duckdb.DuckDBPyConnection:
    """The tables of an example in a database of its own, without dpsql."""
    connection, declared = duckdb.connect(), read_schema(ROOT / "examples" / schema / "schema.toml")
    for table in declared.tables:
        connection.execute(f"CREATE VIEW {table.name} AS FROM '{declared.folder / table.source}'")
    return connection


def isolated(schema: str, attack: Attack) -> set[object]:
    """The ids of the people whom an attack isolates."""
    return {row[0] for row in true_data(schema).execute(attack.people_sql).fetchall()}


@cache
def declared_data(schema: str) -> duckdb.DuckDBPyConnection:
    """As many people as are declared, with values drawn evenly from what is declared of each column: all that is public of the data.

    Attacks on few people in truth who are many here need knowledge of the data, and no guard that reads declarations alone sees them.
    """
    connection, found = duckdb.connect(), read_schema(ROOT / "examples" / schema / "schema.toml")
    for table in found.tables:
        if table.public:
            connection.execute(f"CREATE TABLE {table.name} AS FROM '{found.folder / table.source}'")
    for table in (one for one in found.tables if not one.public):
        rows, units = table.max_rows_per_unit or 1, found.privacy.units
        columns = ", ".join(f"{_drawn(table.name, column, found)} AS {column.name}" for column in table.columns)
        connection.execute(
            f"CREATE TABLE {table.name} AS SELECT {columns} FROM range({units}) u(unit), range({rows}) r(turn)"
        )
    return connection


def _drawn(table: str, column: Column, schema: Schema) -> str:
    """One value of a column, in SQL, for person `unit` and row `turn`."""
    share = f"(hash(concat_ws('/', unit, turn, '{table}.{column.name}')) / 18446744073709551616.0)"
    match column.domain:
        case _ if column.name == (schema.privacy.unit_column or ""):
            return "unit"
        case Categories(values=values) if values:
            value = f"list_extract({list(values)!r}, 1 + CAST(floor({share} * {len(values)}) AS INTEGER))"
        case Interval(lower=lower, upper=upper):
            whole = column.sqltype.is_integer
            width = float(upper - lower) + whole
            value = f"{float(lower)} + {'floor' if whole else ''}({share} * {width})"
        case _ if column.domain_from is not None:
            public, listed = column.domain_from
            place = f"1 + CAST(floor({share} * len(listed)) AS INTEGER)"
            value = f"(SELECT listed[{place}] FROM (SELECT list({listed} ORDER BY {listed}) AS listed FROM {public}))"
        case _:
            # small whole numbers, where nothing is said
            value = f"floor({share} * 20)"
    empty = (
        f"hash(concat_ws('/', unit, turn, '{table}.{column.name} is NULL')) % 20 = 0" if column.nullable else "FALSE"
    )
    return f"CASE WHEN {empty} THEN NULL ELSE {value} END"


def many_as_declared(schema: str, attack: Attack, k: int) -> bool:
    """Tell whether the few are k people or more by the declarations, which is all that is public."""
    return len(declared_data(schema).execute(attack.people_sql).fetchmany(k)) >= k


# --- asking -------------------------------------------------------------------------------------------------------


def declared(schema: str, mode: str = "block", analysts: Sequence[str] = ()) -> Schema:
    """An example's schema in which every statement costs EPSILON and the budget never ends."""
    found = read_schema(ROOT / "examples" / schema / "schema.toml")
    plenty, cap = EpsilonDelta(Fraction(10**6), Fraction(1, 2)), EpsilonDelta(Fraction(1000), Fraction(2, 5))
    query = replace(found.privacy.query, epsilon=EPSILON)
    privacy = replace(found.privacy, budget=plenty, caps=cap, query=query)
    people = tuple(map(Analyst, analysts)) or None
    return replace(found, privacy=privacy, guard=replace(found.guard, mode=mode), analysts=people)


@cache
def data_under(schema: str, mode: str, sized: bool = False) -> Data:
    """An example opened once in a process, for sessions that have nothing else in common.

    sized  the guard counts on sizes that the owner bought
    """
    found = declared(schema, mode)
    return Data(found, _bought(found) if sized else None)


def _bought(schema: Schema) -> Bought:
    """Sizes as without noise, so that tests are decided alike."""
    with tempfile.TemporaryDirectory() as folder:
        own = replace(schema, folder=unused(schema.folder, Path(folder) / "data"))
        path = Path(folder) / "ledger"
        open_session(own, None, path).close()
        buy_sizes(own, Ledger.open(path, ledger_identity(own)), Fraction(2), ZeroNoise())
        with closing(Ledger.open(path, ledger_identity(own))) as ledger:
            filled = open_dataset(own, ledger, approve=True)
            filled.engine.close()
            return bought(filled.schema, remembered.sizes(ledger))


def held(session: Session, attack: Attack) -> bool:
    """Ask one statement after another: one of them was refused by the guard, or the isolated number is not to be had."""
    answers = []
    for sql in attack.statements:
        try:
            answers.append(session.execute(sql))
        except Error as problem:
            if problem.code in BY_THE_GUARD:
                return True
            raise
    return read_out(attack, answers) is None


def read_out(attack: Attack, answers: Sequence[Answer]) -> object:
    """The attacker's number, worked out of all the answers; None where too few cells are shown for it."""
    paper = _paper()
    paper.execute("".join(f"DROP TABLE IF EXISTS {name};" for name in ANSWERS))
    for name, answer in zip(ANSWERS, answers, strict=False):
        _write_down(paper, name, answer)
    row = paper.execute(attack.reads).fetchone()
    return row[0] if row else None


@cache
def _paper() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def _write_down(paper: duckdb.DuckDBPyConnection, name: str, answer: Answer) -> None:
    columns = ", ".join(f"c{place} {sqltype}" for place, (_, sqltype) in enumerate(answer.columns, 1))
    paper.execute(f"CREATE TABLE {name} ({columns})")
    if answer.rows:
        marks = ", ".join("?" * len(answer.columns))
        paper.executemany(f"INSERT INTO {name} VALUES ({marks})", answer.rows)


def decision(session: Session, sql: str) -> str:
    """The code that a statement is refused with; else which of its cells are shown."""
    try:
        rows = session.execute(sql).rows
    except Error as problem:
        return problem.code
    return f"answered, {sum(cell is not None for row in rows for cell in row)} cells shown"
