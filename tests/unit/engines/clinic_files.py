"""A small clinic in files, its schema, and how to make variants of both."""

from __future__ import annotations

from pathlib import Path

import duckdb

from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema

HEAD = """\
[dataset]
name = "clinic"
source = "{source}"
[privacy]
unit = "person.person_id"
epsilon = 4.0
delta = 1e-6
"""
TABLES = """\
[tables.person]
source = "person{suffix}"
key = ["person_id"]
[tables.person.columns]
person_id = {{ type = "BIGINT" }}
ward = {{ type = "INTEGER", domain = {{ from = "ward.ward" }} }}
income = {{ type = "DOUBLE", bounds = [0, 100] }}
born = {{ type = "DATE", bounds = [1900-01-01, 2000-12-31], nullable = true }}
name = {{ type = "VARCHAR", nullable = true }}

[tables.visit]
source = "visit{suffix}"
references = {{ person_id = "person.person_id" }}
max_rows_per_unit = 2
[tables.visit.columns]
person_id = {{ type = "BIGINT" }}
cost = {{ type = "DECIMAL(10,2)", bounds = [0, 50] }}

[tables.ward]
public = true
source = "ward{suffix}"
key = ["ward"]
"""
ROWS = {
    "person": """SELECT * FROM (VALUES
        (1::BIGINT, 1::INTEGER, 10.5::DOUBLE, DATE '1950-01-01', 'Ann'), (2, 2, 'nan', NULL, 'ANN'),
        (3, 7, 500, DATE '1890-01-01', 'bob'), (4, 1, NULL, DATE '1990-01-01', NULL))
        t(person_id, ward, income, born, name)""",
    "visit": """SELECT * FROM (VALUES
        (1::BIGINT, 1.25::DECIMAL(10,2)), (1, -0.05), (1, 99.99), (2, 0.10), (9, 1.00), (NULL, 2.00)) t(person_id, cost)""",
    "ward": """SELECT * FROM (VALUES
        (1::INTEGER, 'north', 1.5::DECIMAL(4,1), DATE '2000-01-01'), (2, 'south', 2.5, NULL)) t(ward, label, size, opened)""",
}


def write_parquet(path: Path, sql: str) -> None:
    duckdb.connect().execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")


def write_csv(path: Path, sql: str) -> None:
    duckdb.connect().execute(f"COPY ({sql}) TO '{path}' (FORMAT csv, HEADER)")


def clinic(folder: Path, kind: str = "parquet", rows: dict[str, str] | None = None) -> Schema:
    """The clinic as files of a kind ("parquet", "csv") or as a DuckDB file ("duckdb")."""
    every = {**ROWS, **(rows or {})}
    if kind == "duckdb":
        connection = duckdb.connect(str(folder / "clinic.duckdb"))
        for table, sql in every.items():
            connection.execute(f"CREATE TABLE {table} AS {sql}")
        connection.close()
        return declare(folder, HEAD.format(source="clinic.duckdb") + TABLES.format(suffix=""))
    for table, sql in every.items():
        (write_csv if kind == "csv" else write_parquet)(folder / f"{table}.{kind}", sql)
    return declare(folder, HEAD.format(source=".") + TABLES.format(suffix=f".{kind}"))


def declare(folder: Path, text: str) -> Schema:
    path = folder / "schema.toml"
    path.write_text(text)
    return read_schema(path)


def one_table(folder: Path, source: str, columns: dict[str, str], inside: str = ".") -> Schema:
    """A schema of one private table `t` with a BIGINT unit column `id` and some other columns."""
    listed = "".join(f'{name} = {{ type = "{sqltype}" }}\n' for name, sqltype in columns.items())
    text = HEAD.format(source=inside).replace("person.person_id", "t.id")
    table = f'[tables.t]\nsource = "{source}"\nkey = ["id"]\n[tables.t.columns]\nid = {{ type = "BIGINT" }}\n'
    return declare(folder, text + table + listed)


FAR_TABLES = """\
[tables.person]
source = "person{suffix}"
key = ["person_id"]
[tables.person.columns]
person_id = {{ type = "BIGINT" }}
ward = {{ type = "INTEGER", domain = {{ from = "ward.ward" }} }}

[tables.visit]
source = "visit{suffix}"
key = ["visit_id"]
references = {{ person_id = "person.person_id" }}
max_rows_per_unit = 2
[tables.visit.columns]
visit_id = {{ type = "VARCHAR" }}

[tables."lab item"]
source = "item{suffix}"
references = {{ visit = "visit.visit_id" }}
max_rows_per_unit = 2
[tables."lab item".columns]
amount = {{ type = "HUGEINT", bounds = [0, 10], nullable = true }}
value = {{ type = "DOUBLE", bounds = [0, 10] }}
day = {{ type = "DATE", bounds = [2000-01-01, 2030-01-01] }}

[tables.ward]
public = true
source = "ward{suffix}"
key = ["ward"]
"""
FAR_ROWS = {
    "person": "SELECT * FROM (VALUES (1::BIGINT, 1::INTEGER), (2, 2), (3, 1)) t(person_id, ward)",
    "visit": "SELECT * FROM (VALUES ('b', 1::BIGINT), ('a', 1), ('c', 2), ('d', 2), ('e', NULL)) t(visit_id, person_id)",
    "item": """SELECT amount::HUGEINT AS amount, visit, value::DOUBLE AS value, day::DATE AS day FROM (VALUES
        ('7', 'd', '1.5', '2020-01-01'), ('170141183460469231731687303715884105727', 'a', '2', '2020-01-02'),
        (NULL, 'a', '3', '2020-01-03'), ('2', 'b', '4', '2020-01-04'), ('3', 'e', '5', '2020-01-05'),
        ('4', 'zz', '6', '2020-01-06'), ('5', NULL, '7', '2020-01-07')) t(amount, visit, value, day)""",
    "ward": ROWS["ward"],
}
"""Seven items: three of person 1, one of person 2, one of nobody's visit, one of no visit, one of NULL."""
FAR_UNITS = [("2", 1), ("7", 2), ("170141183460469231731687303715884105727", 1), (None, 1)]


def far_clinic(folder: Path, kind: str = "parquet", rows: dict[str, str] | None = None) -> Schema:
    """A clinic whose table "lab item" holds the unit two references away."""
    every = {**FAR_ROWS, **(rows or {})}
    if kind == "duckdb":
        connection = duckdb.connect(str(folder / "clinic.duckdb"))
        for table, sql in every.items():
            connection.execute(f"CREATE OR REPLACE TABLE {table} AS {sql}")
        connection.close()
        return declare(folder, HEAD.format(source="clinic.duckdb") + FAR_TABLES.format(suffix=""))
    for table, sql in every.items():
        # Parquet has no HUGEINT
        stored = sql.replace("amount::HUGEINT", "amount") if table == "item" else sql
        (write_csv if kind == "csv" else write_parquet)(folder / f"{table}.{kind}", stored)
    return declare(folder, HEAD.format(source=".") + FAR_TABLES.format(suffix=f".{kind}"))


def columns(engine: DuckDBEngine, table: str) -> list[tuple[str, str]]:
    """(name, type) of the columns that a table shows."""
    return [(c.name, str(c.sqltype)) for c in engine.tables[table].columns]
