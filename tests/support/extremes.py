"""A declared table with two columns of every type, and the rows that hold every pair of their extreme values.

`l_...` columns are declared with bounds or a domain, `r_...` columns without: what the engine meets is the same.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema

LONG = "'" + "Aß%_" * 2500 + "'"
INTEGERS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
}
FLOATS = ["0", "-0.0", "1", "-1", "0.5", "-2.5", "'nan'", "'inf'", "'-inf'", "1e18", "-9.3e18", "1e30", "1e-40"]
VALUES: dict[str, list[str]] = {
    **{
        name: [str(low), str(high), "0", "1", str(max(low, -1)), str(high - 1)]
        for name, (low, high) in INTEGERS.items()
    },
    "FLOAT": [*FLOATS, "3.4e38", "-3.4e38"],
    "DOUBLE": [*FLOATS, "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324"],
    "DECIMAL(4,2)": ["99.99", "-99.99", "0", "0.01", "-0.01", "1", "0.5"],
    "DECIMAL(18,3)": ["9" * 15 + ".999", "-" + "9" * 15 + ".999", "0", "0.001", "-1"],
    "DECIMAL(38,10)": ["9" * 28 + "." + "9" * 10, "-" + "9" * 28 + "." + "9" * 10, "0", "0.0000000001", "-1"],
    "DECIMAL(38,0)": ["9" * 38, "-" + "9" * 38, "0", "1", "-1"],
    "VARCHAR": [
        "''",
        "'a'",
        LONG,
        "'é'",
        "'🙂'",
        "chr(0) || 'x'",
        "'12'",
        "'-9e999'",
        "'1e400'",
        "'nan'",
        "'inf'",
        "'2020-02-30'",
        "'2020-01-01'",
        "' 1 '",
        "'%_\\'",
        "'" + "9" * 60 + "'",
        "'1e-400'",
        "'1.5e2'",
        "'-9.99e37'",
        "'1.7e38'",
        "'0x1F'",
        "'1_000'",
        "'infinity'",
        "'1e2147483648'",
        "'true'",
        "'9999999-12-31'",
        """'{"key": "a", "list": [1e20, {"b": null}]}'""",
        """'{"key": {"key": [-1e9, 2e20]}}'""",
        "repeat('[', 9000)",
    ],
    "BOOLEAN": ["true", "false"],
    "DATE": [
        "'5877642-06-25 (BC)'",
        "'5881580-07-10'",
        "'infinity'",
        "'-infinity'",
        "'1970-01-01'",
        "'0001-01-01'",
        "'9999-12-31'",
        "'2020-02-29'",
        "'0001-12-31 (BC)'",
        "'9999-12-30'",
        "'290309-12-21 (BC)'",
        "'294247-01-11'",
        "'10000-01-01'",
    ],
    "TIMESTAMP": [
        "'290309-12-22 (BC) 00:00:00'",
        "'294247-01-10 04:00:54.775806'",
        "'infinity'",
        "'-infinity'",
        "'1970-01-01'",
        "'0001-01-01'",
        "'9999-12-31 23:59:59.999999'",
        "'2020-02-29 12:30:00'",
        "'9999-12-30'",
        "'9999-12-30 00:00:00.000001'",
        "'0001-12-31 (BC)'",
    ],
    "TIME": ["'00:00:00'", "'24:00:00'", "'23:59:59.999999'", "'12:30:00.5'", "'08:00:00'"],
}
TYPES = tuple(VALUES)
NUMBERS = tuple(t for t in TYPES if t in INTEGERS or t.startswith(("DECIMAL", "FLOAT", "DOUBLE")))
TEMPORAL = ("DATE", "TIMESTAMP", "TIME")


def column(side: str, sqltype: str) -> str:
    """The name of a type's column on a side, `l` or `r`."""
    return f"{side}_{sqltype.lower().translate(str.maketrans({'(': '_', ',': '_', ')': None}))}"


def _declared(sqltype: str) -> str:
    if sqltype in NUMBERS:
        return ", bounds = [0, 40]"
    if sqltype == "TIME":
        return ", bounds = [08:00:00, 18:00:00]"
    if sqltype in TEMPORAL:
        return (
            ", bounds = [1999-12-30, 2001-01-05]"
            if sqltype == "DATE"
            else ", bounds = [1999-12-30T00:00:00, 2001-01-05T00:00:00]"
        )
    return ', domain = ["a", "12"]' if sqltype == "VARCHAR" else ""


def schema(folder: Path, *, unit: str = "row") -> Schema:
    """`extreme` at row level, or with each person owning several rows."""
    lines = [
        "[dataset]",
        'name = "extremes"',
        'source = "extremes.duckdb"',
        "[privacy]",
        f'unit = "{unit}"',
        "epsilon = 1000000.0",
        "delta = 0.5",
        "query = { epsilon = 1.0, delta = 1e-3 }",
        "caps = { epsilon = 1000000.0, delta = 0.4 }",
        "least = 1e-15",
        '[guard]\nmode = "off"',
    ]
    if unit != "row":
        lines += ["[tables.person]", 'key = ["id"]', "[tables.person.columns]", 'id = { type = "BIGINT" }']
    lines += ["[tables.extreme]"]
    if unit != "row":
        lines += ['references = { person_id = "person.id" }', "max_rows_per_unit = 3"]
    lines += [
        "[tables.extreme.columns]",
        'person_id = { type = "BIGINT", role = "measure" }' if unit == "row" else 'person_id = { type = "BIGINT" }',
    ]
    for sqltype in TYPES:
        nullable = ", nullable = true"
        lines.append(f'{column("l", sqltype)} = {{ type = "{sqltype}"{_declared(sqltype)}{nullable} }}')
        lines.append(f'{column("r", sqltype)} = {{ type = "{sqltype}", role = "measure"{nullable} }}')
    path = folder / f"extremes_{unit.partition('.')[0]}.toml"
    path.write_text("\n".join(lines) + "\n")
    return read_schema(path)


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables: every value of a type on the left beside every value (and NULL) of each type on the right."""
    most = max(len(values) for values in VALUES.values()) + 1
    items = ["i % 7 AS person_id"]
    for sqltype, values in VALUES.items():
        cells = [f"CAST({v} AS {sqltype})" for v in values] + [f"CAST(NULL AS {sqltype})"]
        for side, index in (("l", "i"), ("r", "j")):
            connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {column(side, sqltype)}_values AS "
                + " UNION ALL ".join(f"SELECT {n} AS n, {cell} AS v" for n, cell in enumerate(cells))
            )
            items.append(
                f"(SELECT any_value(v) FROM {column(side, sqltype)}_values WHERE n = {index} % {len(cells)}) AS {column(side, sqltype)}"
            )
    connection.execute(
        f"CREATE OR REPLACE TABLE extreme AS SELECT {', '.join(items)} FROM range({most}) AS a(i), range({most}) AS b(j)"
    )
    connection.execute("CREATE OR REPLACE TABLE person AS SELECT i AS id FROM range(7) AS a(i)")
