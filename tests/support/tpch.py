"""TPC-H: its data, the declared schema over it, and its 22 queries with the validation parameters of the specification."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema

FIXTURES = Path(__file__).parents[1] / "fixtures" / "tpch"
SCALE = "0.03"
"""The smallest scale factor, of those that take no longer to make, at which no query's answer is NULL, zero or empty."""
TABLES = ("nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
ANSWERED = (1, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 17, 19, 20, 21, 22)
"""Queries about customers' rows that are answered with noise."""
PUBLIC = (2, 11, 16)
"""Queries over public tables only: exact and free."""
REFUSED = (3, 10, 18)
"""Queries whose groups are single orders or customers."""
QUERIES = tuple(range(1, 23))


def query(number: int) -> str:
    """The text of one query."""
    return (FIXTURES / f"q{number:02}.sql").read_text()


def schema(folder: Path) -> Schema:
    """The declared schema over the data of that folder."""
    return replace(read_schema(FIXTURES / "schema.toml"), folder=folder)


def generate(folder: Path, scale: str = SCALE) -> Path:
    """The folder, after the Parquet files that it lacked were made."""
    missing = [table for table in TABLES if not (folder / f"{table}.parquet").exists()]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder) as draft:
            _make(missing, scale, Path(draft))
            for table in missing:
                (Path(draft) / f"{table}.parquet").replace(folder / f"{table}.parquet")
    return folder


def plain(folder: Path) -> duckdb.DuckDBPyConnection:
    """Plain DuckDB with a view of every table, with as many threads as dpsql's engine has."""
    connection = duckdb.connect()
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{folder / table}.parquet')")
    return connection


def _make(tables: list[str], scale: str, folder: Path) -> None:
    program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
    if program is None:
        raise FileNotFoundError("tpchgen-cli is missing: pip install 'dpsql[test]'")
    command = [program, "parquet", "-s", scale, f"--tables={','.join(tables)}", f"--output-dir={folder}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
