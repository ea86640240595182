"""Declarations of published tables of which nothing is known but their CREATE TABLE and the statements about them.

Rows are made from the columns' types and from what the statements compare a column with, and bounds (and lists, where they are asked
for) are those of the made rows, as an owner would read them off real ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from tests.support.compared import compared_with

ROWS = 1000
HEAD = """
[dataset]
name = "published"
source = "data.duckdb"
[privacy]
unit = "{unit}"
epsilon = 1e12
delta = 0.9
units = {units}
query = {{ epsilon = 100000.0, delta = 1e-6 }}
caps = {{ epsilon = 1e12, delta = 0.1 }}
max_cells = 1000000
"""
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")
DAYS = tuple(f"{year}-{month:02}-15" for year in range(2000, 2026) for month in (1, 4, 7, 10))
PLAIN: dict[str, tuple[str, ...]] = {
    "VARCHAR": WORDS,
    "BOOLEAN": ("true", "false"),
    "DATE": DAYS,
    "TIMESTAMP": tuple(f"{day} 12:30:00" for day in DAYS),
    "TIME": ("06:00:00", "09:30:00", "12:00:00", "18:45:00"),
    "TINYINT": tuple(map(str, range(0, 100, 9))),
    "SMALLINT": tuple(map(str, range(0, 1000, 47))),
}
"""Values of a column that no statement compares, by its type; other numbers are spread over 0 to 10,000."""
NUMBERS = ("0", "0.5", "1", "2", "7", "42", "99", *(str(n) for n in range(100, 10_000, 373)))
SUPPORTED = re.compile(r"VARCHAR|BOOLEAN|DATE|TIMESTAMP|TIME|DOUBLE|FLOAT|DECIMAL.*|(TINY|SMALL|BIG)INT|INTEGER")


@dataclass(frozen=True, slots=True)
class Told:
    """Everything that is said of a workload beside its tables.

    unit   "row", or "table.column" of a table that is made of the values that the first table has in that column
    units  the public estimate of their number
    lists  "none" or "declared": lists of the values of text columns
    rows   lines of every table beside its columns
    """

    unit: str = "row"
    units: int = 1_000_000
    lists: str = "none"
    rows: str = ""


@dataclass(frozen=True, slots=True)
class _Made:
    table: str
    column: str
    kind: str
    nullable: bool


def declare(folder: Path, creating: Sequence[str], asked: Iterable[str], told: Told) -> Path:
    """Write the made rows and the schema into a folder; the schema's path."""
    compared = compared_with(asked)
    lines = [HEAD.format(unit=told.unit, units=told.units)]
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        for text in creating:
            connection.execute(text)
        shown = "SELECT table_name, column_name, data_type, is_nullable = 'YES' FROM information_schema.columns"
        columns = [
            _Made(*row) for row in connection.execute(f"{shown} ORDER BY table_name, ordinal_position").fetchall()
        ]
        for table in dict.fromkeys(column.table for column in columns):
            own = [column for column in columns if column.table == table]
            _fill(connection, table, own, compared)
            lines += [f"[tables.{toml(table)}]", told.rows, f"[tables.{toml(table)}.columns]"]
            lines += [_line(connection, c, told) for c in own if SUPPORTED.fullmatch(c.kind)]
        if told.unit != "row":
            lines += _units(connection, columns, told.unit)
    (folder / "schema.toml").write_text("\n".join(lines))
    return folder / "schema.toml"


def _units(connection: duckdb.DuckDBPyConnection, columns: Sequence[_Made], unit: str) -> list[str]:
    table, _, name = unit.partition(".")
    (held,) = [column for column in columns if column.column == name]
    connection.execute(f"CREATE TABLE {_sql(table)} AS SELECT DISTINCT {_sql(name)} FROM {_sql(held.table)}")
    identifier = f'{toml(name)} = {{ type = "{held.kind}", role = "identifier" }}'
    return [f"[tables.{toml(table)}]", f"key = [{toml(name)}]", f"[tables.{toml(table)}.columns]", identifier]


def _fill(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[_Made], compared: Mapping[str, set[str]]
) -> None:
    """Every column takes its values in an order of its own, and NULL in one row of 20 where it is nullable."""
    made = []
    for place, column in enumerate(columns):
        values = [*sorted(compared.get(column.column.lower(), ())), *PLAIN.get(column.kind, NUMBERS)]
        known = SUPPORTED.fullmatch(column.kind)
        texts = _fitting(connection, values, column.kind) if known else []
        drawn = f"(i * {2 * place + 7919} + {place}) % 1009"
        null = f"{drawn} % 20 = 0" if column.nullable else "FALSE"
        one = f"CAST([{', '.join(texts)}][1 + {drawn} % {len(texts)}] AS {column.kind})"
        made.append(f"CASE WHEN {null} THEN NULL ELSE {one} END" if known else "NULL")
    connection.execute(f"INSERT INTO {_sql(table)} SELECT {', '.join(made)} FROM range({ROWS}) AS made(i)")


def _fitting(connection: duckdb.DuckDBPyConnection, values: Sequence[str], kind: str) -> list[str]:
    """Literals of the values that are of a type."""
    kept = f"SELECT x FROM (SELECT unnest(?) AS x) WHERE TRY_CAST(x AS {kind}) IS NOT NULL"
    known = {text for (text,) in connection.execute(kept, [list(values)]).fetchall()}
    return ["'" + value.replace("'", "''") + "'" for value in values if value in known]


def _line(connection: duckdb.DuckDBPyConnection, column: _Made, told: Told) -> str:
    """One column as the schema declares it."""
    declared = [f'type = "{column.kind}"']
    if column.kind == "VARCHAR" and told.lists == "declared":
        declared.append(f"domain = [{', '.join(map(toml, _values(connection, column)))}]")
    elif column.kind not in ("VARCHAR", "BOOLEAN") and told.unit.partition(".")[2] != column.column:
        declared.append(f"bounds = [{', '.join(_ends(connection, column))}]")
    declared += ["nullable = true"] if column.nullable else []
    return f"{toml(column.column)} = {{ {', '.join(declared)} }}"


def _values(connection: duckdb.DuckDBPyConnection, column: _Made) -> list[str]:
    name = _sql(column.column)
    asked = f"SELECT DISTINCT {name} FROM {_sql(column.table)} WHERE {name} IS NOT NULL ORDER BY 1"
    return [str(value) for (value,) in connection.execute(asked).fetchall()]


def _ends(connection: duckdb.DuckDBPyConnection, column: _Made) -> list[str]:
    name, table = _sql(column.column), _sql(column.table)
    (least, most) = connection.execute(f"SELECT MIN({name})::VARCHAR, MAX({name})::VARCHAR FROM {table}").fetchall()[0]
    return [str(end).replace(" ", "T") for end in (least, most)]


def _sql(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def toml(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
