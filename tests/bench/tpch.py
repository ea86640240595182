"""TPC-H data, two declared schemas over it, and what is asked of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

Ask = Callable[[str], list[tuple[object, ...]]]
TABLES = ("lineitem", "orders", "customer")
EPSILON = 8.0
"""At row level practically all groups are shown at this price: the most work for release, store and shell."""

HEADER = """
[dataset]
name   = "tpch"
source = "."

[privacy]
unit    = {unit}
epsilon = 1000000.0                           # a bench asks often; nobody is in this data
delta   = 0.9
query   = {{ epsilon = 8.0, delta = 1e-6 }}
caps    = {{ epsilon = 16.0, delta = 1e-5 }}

[guard]
mode = "block"
"""
LINEITEM_COLUMNS = """
[tables.lineitem.columns]
l_orderkey      = { type = "BIGINT" }
l_partkey       = { type = "BIGINT" }         # without a domain: its groups are selected privately
l_quantity      = { type = "DECIMAL(15,2)", bounds = [0, 50] }
l_extendedprice = { type = "DECIMAL(15,2)", bounds = [0, 110000] }
l_discount      = { type = "DECIMAL(15,2)", bounds = [0, 0.10] }
l_tax           = { type = "DECIMAL(15,2)", bounds = [0, 0.08] }
l_returnflag    = { type = "VARCHAR", domain = ["A", "N", "R"] }
l_linestatus    = { type = "VARCHAR", domain = ["F", "O"] }
l_shipdate      = { type = "DATE", bounds = [1992-01-01, 1998-12-31] }
"""
ROW = '\n[tables.lineitem]\nsource = "lineitem.parquet"\n'
CUSTOMER = """
[tables.customer]
source = "customer.parquet"
key    = ["c_custkey"]
[tables.customer.columns]
c_custkey = { type = "BIGINT", role = "identifier" }

[tables.orders]
source     = "orders.parquet"
key        = ["o_orderkey"]
references = { o_custkey = "customer.c_custkey" }
max_rows_per_unit = 50
[tables.orders.columns]
o_orderkey = { type = "BIGINT" }
o_custkey  = { type = "BIGINT" }

[tables.lineitem]
source     = "lineitem.parquet"
references = { l_orderkey = "orders.o_orderkey" }
max_rows_per_unit = 200
"""
SCHEMAS = {
    "row": HEADER.format(unit='"row"') + ROW + LINEITEM_COLUMNS,
    "customer": HEADER.format(unit='"customer.c_custkey"') + CUSTOMER + LINEITEM_COLUMNS,
}


@dataclass(frozen=True, slots=True)
class Question:
    """One statement, asked of dpsql and of plain DuckDB as it stands."""

    name: str
    sql: str


QUESTIONS = (
    Question("COUNT(*)", "SELECT COUNT(*) AS n FROM lineitem"),
    Question(
        "grouped SUM/AVG",
        "SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price, "
        "SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price, AVG(l_quantity) AS avg_qty, "
        "AVG(l_discount) AS avg_disc, COUNT(*) AS count_order FROM lineitem GROUP BY l_returnflag, l_linestatus",
    ),
    Question("200,000 groups, COUNT", "SELECT l_partkey, COUNT(*) AS n FROM lineitem GROUP BY l_partkey"),
    Question(
        "200,000 groups, COUNT and SUM",
        "SELECT l_partkey, COUNT(*) AS n, SUM(l_quantity) AS quantity FROM lineitem GROUP BY l_partkey",
    ),
)


def generate(cache: Path, scale: str) -> Path:
    """The folder with the Parquet files of that scale factor, and the two schemas; made once."""
    folder = cache / f"sf{scale}"
    if not all((folder / f"{table}.parquet").exists() for table in TABLES):
        program = shutil.which("tpchgen-cli", path=f"{Path(sys.executable).parent}") or shutil.which("tpchgen-cli")
        if program is None:
            raise SystemExit("tpchgen-cli is missing: pip install 'dpsql[bench]'")
        draft = folder.with_name(f"{folder.name}.draft")
        print(f"making TPC-H data at scale factor {scale} in {folder}", flush=True)
        subprocess.run(
            [program, "parquet", "-s", scale, f"--tables={','.join(TABLES)}", f"--output-dir={draft}"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    for level, text in SCHEMAS.items():
        (folder / f"{level}.toml").write_text(text)
    return folder


def plain(folder: Path) -> Ask:
    """Plain DuckDB on the same files, with as many threads as dpsql's engine has."""
    connection = duckdb.connect()
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{folder / table}.parquet')")
    return lambda sql: connection.execute(sql).fetchall()
