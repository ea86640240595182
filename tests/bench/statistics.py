"""Medians, spread and the most common value of 20,000,000 rows: dpsql beside plain DuckDB running the same statement."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import duckdb

import dpsql
from dpsql.clients.dbapi.connection import Connection
from tests.bench.timing import Aim, fresh, heading, show, side_by_side
from tests.support.copies import linked

ROWS = 20_000_000
EPSILON = 1.0
SCHEMA = """
[dataset]
name   = "many"
source = "."

[privacy]
unit    = "row"
epsilon = 1000000.0                           # a bench asks often; nobody is in this data
delta   = 0.5
query   = { epsilon = 1.0, delta = 1e-6 }
caps    = { epsilon = 16.0, delta = 1e-5 }

[tables.many]
source = "many.parquet"
[tables.many.columns]
g = { type = "INTEGER", bounds = [0, 99] }
h = { type = "INTEGER", bounds = [0, 199999] }
k = { type = "INTEGER", bounds = [0, 999] }
x = { type = "DOUBLE", bounds = [0, 200] }
y = { type = "DOUBLE", bounds = [0, 100] }
"""
QUESTIONS = (
    ("median", "SELECT MEDIAN(x) FROM many", Aim(1.0, "x")),
    ("0.95 quantile", "SELECT QUANTILE_CONT(x, 0.95) FROM many", Aim(1.0, "x")),
    ("median of 100 groups", "SELECT g, MEDIAN(x) FROM many GROUP BY g", Aim(1.0, "x")),
    ("VAR of 100 groups", "SELECT g, VAR_POP(x) FROM many GROUP BY g", None),
    ("CORR of 100 groups", "SELECT g, CORR(x, y) FROM many GROUP BY g", None),
    ("MODE of 1,000 values", "SELECT MODE(k) FROM many", None),
    (
        "COUNT, SUM, AVG of 200,000 groups",
        "SELECT h, COUNT(x), SUM(x), AVG(x) FROM many GROUP BY h",
        Aim(1.0, " s over"),
    ),
)


def compare(cache: Path, rounds: int) -> None:
    """Every question, in turn with plain DuckDB."""
    rows = ROWS
    folder = cache / f"many{rows}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "many.parquet"
    if not file.exists():
        _write(file, rows)
    (folder / "schema.toml").write_text(SCHEMA)
    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW many AS FROM read_parquet('{file}')")
    heading(f"{rows:,} rows, row-level privacy: dpsql beside plain DuckDB, median of {rounds}")
    lines = []
    with (
        TemporaryDirectory() as scratch,
        dpsql.connect(linked(folder, Path(scratch, "data")) / "schema.toml", ledger=Path(scratch, "l")) as connection,
    ):
        for name, sql, aim in QUESTIONS:
            pair = side_by_side(partial(_ours, connection, sql), partial(_plain, plain, sql), rounds)
            over = median(pair.over.passed)
            verdict = "" if aim is None else aim.verdict(pair.ratio if aim.unit == "x" else over)
            times = f"{median(pair.ours.passed):.3f}", f"{median(pair.plain.passed):.3f}"
            lines.append((name, *times, f"{pair.ratio:.2f}", f"{over:.3f}", f"{pair.processor_ratio:.2f}", verdict))
    show(("question", "dpsql s", "plain s", "ratio", "over s", "processor ratio", ""), lines)


def _ours(connection: Connection, sql: str) -> object:
    return connection.execute(fresh(sql, EPSILON)).fetchall()


def _plain(connection: duckdb.DuckDBPyConnection, sql: str) -> object:
    return connection.execute(sql).fetchall()


def _write(file: Path, rows: int) -> None:
    """Heavy-tailed values in equally large groups; the same for every run."""
    connection = duckdb.connect()
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        f"COPY (SELECT CAST(i % 100 AS INTEGER) AS g, CAST(i % 200000 AS INTEGER) AS h, "
        f"CAST(999 * random() * random() AS INTEGER) AS k, -25 * ln(random() * random() + 1e-9) AS x, "
        f"100 * random() AS y FROM range({rows}) AS t(i)) TO '{file}' (FORMAT parquet)"
    )
