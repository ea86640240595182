"""A small declared dataset with every kind of column, and databases over it with everything that goes wrong in data.

Three private tables (patient; visit, several a patient; item, several a visit) and a public one. Values include NULL where it is
declared and where it is not, NaN, infinities, values beyond their bounds and outside their domains, heavy patients, and rows that
belong to nobody.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import duckdb

from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema

UNIT = """
[dataset]
name = "clinic"
source = "clinic.duckdb"

[guard]
mode = "off"

[privacy]
unit = "patient.patient_id"
epsilon = 1000000.0
delta = 0.5
query = { epsilon = 1.0, delta = 1e-3 }
caps = { epsilon = 1000000.0, delta = 0.4 }
least = 1e-18
"""
ROW = UNIT.replace('unit = "patient.patient_id"', 'unit = "row"')
PATIENT = """
[tables.patient]
key = ["patient_id"]
[tables.patient.columns]
patient_id = { type = "BIGINT", role = "identifier" }
site = { type = "INTEGER", domain = [1, 2, 3] }
female = { type = "BOOLEAN", nullable = true }
income = { type = "DOUBLE", bounds = [-50, 100] }
weight = { type = "DOUBLE", bounds = [40, 200], step = 0.5, nullable = true }
age = { type = "INTEGER", bounds = [10, 90] }
score = { type = "DECIMAL(6,2)", bounds = [10, 90], nullable = true }
city = { type = "VARCHAR", domain = ["a", "b", "c"], nullable = true }
note = { type = "VARCHAR", role = "measure", nullable = true }
born = { type = "DATE", bounds = [1990-01-01, 1999-12-31] }
code = { type = "INTEGER", role = "measure", nullable = true }
"""
VISIT = """
[tables.visit]
key = ["visit_id"]
references = { patient_id = "patient.patient_id" }
max_rows_per_unit = 3
[tables.visit.columns]
visit_id = { type = "BIGINT" }
patient_id = { type = "BIGINT" }
year = { type = "BIGINT", domain = [1, 2, 3, 4] }
cost = { type = "DOUBLE", bounds = [5, 50] }
days = { type = "INTEGER", bounds = [-3, 30], nullable = true }
tag = { type = "VARCHAR", role = "measure", nullable = true }

[tables.item]
references = { visit_id = "visit.visit_id" }
max_rows_per_unit = 4
max_groups_per_unit = 2
[tables.item.columns]
visit_id = { type = "BIGINT" }
drug = { type = "INTEGER", domain = [1, 2, 5] }
amount = { type = "DECIMAL(8,3)", bounds = [-20, 5] }
batch = { type = "BIGINT", role = "measure", nullable = true }
"""
PUBLIC = """
[tables.drug]
public = true
key = ["drug"]
"""

Row = tuple[object, ...]
Database = dict[str, list[Row]]
DDL = {
    "patient": "patient_id BIGINT, site INTEGER, female BOOLEAN, income DOUBLE, weight DOUBLE, age INTEGER, score DECIMAL(6,2), "
    "city VARCHAR, note VARCHAR, born DATE, code INTEGER",
    "visit": 'visit_id BIGINT, patient_id BIGINT, "year" BIGINT, cost DOUBLE, days INTEGER, tag VARCHAR',
    "item": "visit_id BIGINT, drug INTEGER, amount DECIMAL(8,3), batch BIGINT",
    "drug": "drug INTEGER, label VARCHAR",
}


def schema(folder: Path, *, unit: str = "patient", accounting: str = "auto", guard: str = "off") -> Schema:
    """The declared schema, in a file of `folder`; unit is "patient" or "row", guard the guard's mode."""
    path = folder / f"{unit}{'' if guard == 'off' else ' ' + guard}.toml"
    path.write_text(schema_text(unit=unit, accounting=accounting, guard=guard))
    return read_schema(path)


def schema_text(*, unit: str = "patient", accounting: str = "auto", guard: str = "off") -> str:
    """The same as text."""
    row_patient = PATIENT.replace('role = "identifier"', 'role = "measure"')
    text = ROW + row_patient + PUBLIC if unit == "row" else UNIT + PATIENT + VISIT + PUBLIC
    text = text.replace('mode = "off"', f'mode = "{guard}"')
    return text.replace("[privacy]", f'[privacy]\naccounting = "{accounting}"')


def database(chance: random.Random, *, wild: bool = True) -> Database:
    """A generated database; `wild` allows values that the declarations do not."""
    people = [_patient(chance, i, wild) for i in range(chance.choice([0, 1, 2, 5, 9]))]
    visits: list[Row] = []
    for person in people:
        for _ in range(chance.choice([0, 1, 2, 3, 3, 8]) if chance.random() < 0.9 else 20):
            visits.append(_visit(chance, len(visits), person[0], wild))
    if wild and chance.random() < 0.3:
        visits.append(_visit(chance, len(visits), None, wild))
    items = [_item(chance, visit[0], wild) for visit in visits for _ in range(chance.choice([0, 1, 2, 6]))]
    chance.shuffle(visits)
    chance.shuffle(items)
    return {"patient": people, "visit": visits, "item": items, "drug": [(1, "x"), (2, "y"), (5, None)]}


def _maybe(chance: random.Random, value: object, *odd: object, wild: bool) -> object:
    return chance.choice(odd) if wild and odd and chance.random() < 0.25 else value


NAN, INF = float("nan"), float("inf")


def _patient(chance: random.Random, number: int, wild: bool) -> Row:
    return (
        1000 + number,
        _maybe(chance, chance.randint(1, 3), None, 7, -1, wild=wild),
        chance.choice([True, False, None]),
        _maybe(
            chance,
            chance.choice([-50.0, 100.0, 0.0, chance.uniform(-50, 100)]),
            None,
            NAN,
            INF,
            -INF,
            1e18,
            -1e18,
            1e308,
            wild=wild,
        ),
        _maybe(chance, chance.choice([40.0, 200.0, None, chance.uniform(40, 200)]), NAN, 0.0, 1e9, wild=wild),
        _maybe(chance, chance.choice([10, 90, chance.randint(10, 90)]), None, 2147483647, -2147483648, 0, wild=wild),
        _maybe(
            chance,
            chance.choice(["10.00", "90.00", None, f"{chance.randint(1000, 9000) / 100:.2f}"]),
            "-9999.99",
            "9999.99",
            wild=wild,
        ),
        _maybe(chance, chance.choice(["a", "b", "c", None]), "zz", "", wild=wild),
        chance.choice(["n1", "n2", "n3", None, "12", "x%y"]),
        _maybe(
            chance,
            f"199{chance.randint(0, 9)}-{chance.randint(1, 12):02d}-15",
            None,
            "0044-03-15",
            "9999-12-31",
            wild=wild,
        ),
        chance.choice([1, 2, 3, 4, 2147483647, None]),
    )


def _visit(chance: random.Random, number: int, person: object, wild: bool) -> Row:
    return (
        number,
        person,
        _maybe(chance, chance.randint(1, 4), None, 99, wild=wild),
        _maybe(chance, chance.choice([5.0, 50.0, chance.uniform(5, 50)]), None, NAN, INF, -1e12, wild=wild),
        _maybe(chance, chance.choice([-3, 30, None, chance.randint(-3, 30)]), 1000000, -2147483648, wild=wild),
        chance.choice(["t1", "t2", "t3", "t4", None]),
    )


def _item(chance: random.Random, visit: object, wild: bool) -> Row:
    return (
        visit,
        _maybe(chance, chance.choice([1, 2, 5]), None, 3, wild=wild),
        _maybe(
            chance, chance.choice(["-20.000", "5.000", "0.125", "-7.5"]), None, "-99999.999", "99999.999", wild=wild
        ),
        chance.choice([1, 2, 3, None, 2**62, -(2**63)]),
    )


def without(data: Database, person: object) -> Database:
    """The neighbouring database: one patient gone with all their rows."""
    visits = {row[0] for row in data["visit"] if row[1] == person}
    return {
        "patient": [row for row in data["patient"] if row[0] != person],
        "visit": [row for row in data["visit"] if row[1] != person],
        "item": [row for row in data["item"] if row[0] not in visits],
        "drug": data["drug"],
    }


def without_row(data: Database, position: int) -> Database:
    """The neighbour at row level."""
    return {**data, "patient": [row for i, row in enumerate(data["patient"]) if i != position]}


def fill(connection: duckdb.DuckDBPyConnection, data: Database) -> None:
    """Make the tables of `connection` hold exactly this database."""
    for name, columns in DDL.items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns}); DELETE FROM {name}")
        if data[name]:
            connection.execute(f"INSERT INTO {name} VALUES {listed(data[name])}")


def listed(rows: Iterable[Row]) -> str:
    """Rows behind VALUES."""
    return ", ".join(f"({', '.join(_literal(value) for value in row)})" for row in rows)


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


_WRITTEN: dict[str, bytes] = {}
"""The files of the databases that were written last: the same few are opened by many tests."""
_MOST_WRITTEN = 32


def write(folder: Path, data: Database) -> Path:
    """The database as the DuckDB file that the schema names."""
    path, key = folder / "clinic.duckdb", repr(data)
    path.unlink(missing_ok=True)
    if key in _WRITTEN:
        path.write_bytes(_WRITTEN[key])
        return path
    write_file(path, lambda connection: fill(connection, data))
    if len(_WRITTEN) == _MOST_WRITTEN:
        del _WRITTEN[next(iter(_WRITTEN))]
    _WRITTEN[key] = path.read_bytes()
    return path


def write_file(path: Path, work: Callable[[duckdb.DuckDBPyConnection], object]) -> None:
    """Have some work write to a DuckDB file, by the one connection that all of a process have for that: it costs as much as they."""
    connection = _writer()
    connection.execute(f"ATTACH {_literal(str(path))} AS written; USE written")
    try:
        work(connection)
    finally:
        connection.execute("USE memory; DETACH written")


@cache
def _writer() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})
