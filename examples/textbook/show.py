"""Common parts of the scripts: open a bundled dataset, print a statement with its answer, and look up the truth.

The truth comes from DuckDB on the example files, which are public. dpsql itself never shows an exact number about people.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from pathlib import Path

import duckdb

import dpsql
from dpsql.clients.dbapi.connection import Connection

EXAMPLES = Path(__file__).resolve().parents[1]


def connect(schema: str = "randhie/schema.toml", accounting: str = "auto") -> Connection:
    """A bundled dataset with a ledger that forgets: each run of a script has the whole budget. The guard is off: how noise looks in
    groups of a few people is what some scripts are about."""
    declared = dpsql.read_schema(EXAMPLES / schema)
    privacy = dataclasses.replace(declared.privacy, accounting=accounting)
    unguarded = dataclasses.replace(declared.guard, mode="off")
    return dpsql.connect(dataclasses.replace(declared, privacy=privacy, guard=unguarded), ledger=":memory:")


def text(value: object) -> str:
    """A number as a person would write it."""
    if not isinstance(value, float) or value.is_integer():
        return f"{value:,.0f}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"


def ask(connection: Connection, sql: str, most: int = 6) -> tuple[list, list]:
    """Execute, and print the statement, at most so many rows with their 95 % intervals, and the price; rows and intervals."""
    cursor = connection.execute(sql)
    print("\n" + textwrap.shorten(sql, 300))
    rows, accuracy = cursor.fetchall(), cursor.accuracy
    for row, intervals in list(zip(rows, accuracy, strict=True))[:most]:
        cells = [
            f"{column[0]} {text(value)}" + (f" [{text(near.low)}, {text(near.high)}]" if near else "")
            for column, value, near in zip(cursor.description or (), row, intervals, strict=True)
        ]
        print("  " + "   ".join(cells))
    if len(rows) > most:
        print(f"  ... {len(rows)} rows")
    cost = cursor.privacy
    price = f"epsilon {float(cost.epsilon):g}, delta {float(cost.delta):g}"
    print(f"  price: {price}; releases {cost.releases}; remaining: epsilon {float(cost.remaining):g}")
    return rows, accuracy


def explain(connection: Connection, sql: str, *words: str) -> list[str]:
    """Print the lines of EXPLAIN that contain one of the words. Free: it reads no data."""
    lines = [line.strip() for line in connection.explain(sql).splitlines()]
    kept = [line for line in lines if any(word in line for word in words) and not line.startswith("engine")]
    print("\nEXPLAIN " + textwrap.shorten(sql, 300))
    print("\n".join(f"  {line}" for line in kept))
    return kept


def half_width(connection: Connection, sql: str) -> float:
    """The 95 % half-width of the first column that EXPLAIN promises one for."""
    found = re.search(r"95 % half-width ([\d,.]+)", connection.explain(sql))
    assert found is not None
    return float(found[1].replace(",", ""))


def truth(sql: str) -> list[tuple]:
    """Exact rows from the public example files; {randhie} and {nhefs} in the text are their folders."""
    return duckdb.sql(sql.format(randhie=EXAMPLES / "randhie", nhefs=EXAMPLES / "nhefs")).fetchall()
