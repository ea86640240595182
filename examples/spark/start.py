"""Start a small Spark cluster on this machine, load TPC-H into it, and ask it what is asked of DuckDB beside it.

    python examples/spark/start.py [--scale 0.1] [--keep]

needs pip install "pyspark[connect]" tpchgen-cli, and a Java of 17 or newer (Debian: apt-get install openjdk-17-jre-headless). It
starts a master, two workers and a Connect server on the loopback, writes TPC-H as folders of Parquet files and a schema beside
them, and prints answers and times of both. Everything is in one folder; with --keep the cluster runs until Ctrl-C, for
`dpsql FOLDER/spark.toml`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import dpsql

TABLES = ("nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
MASTER, CONNECT = 17077, 15002
QUESTIONS = (
    "SELECT COUNT(*) AS customers FROM customer",
    "SELECT o_orderpriority, COUNT(*) AS orders FROM customer JOIN orders ON o_custkey = c_custkey GROUP BY o_orderpriority",
    """SELECT l_returnflag, SUM(l_quantity) AS quantity, COUNT(*) AS lines
    FROM orders JOIN lineitem ON l_orderkey = o_orderkey GROUP BY l_returnflag""",
    """SELECT c_mktsegment, COUNT(DISTINCT c_custkey) AS people
    FROM customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey
    WHERE l_shipmode = 'AIR' GROUP BY c_mktsegment""",
)
SCHEMA = """[dataset]
name = "tpch_{name}"
source = "{source}"

[privacy]
unit = "customer.c_custkey"    # a customer with all orders and their lines
epsilon = 100.0                # nobody is in this data
delta = 1e-6

[tables.customer]
source = "customer"
key = ["c_custkey"]
[tables.customer.columns]
c_custkey = {{ type = "BIGINT" }}
c_mktsegment = {{ type = "VARCHAR", domain = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"] }}

[tables.orders]
source = "orders"
key = ["o_orderkey"]
references = {{ o_custkey = "customer.c_custkey" }}
max_rows_per_unit = 50
[tables.orders.columns]
o_orderkey = {{ type = "BIGINT" }}
o_custkey = {{ type = "BIGINT" }}
o_orderpriority = {{ type = "VARCHAR", domain = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"] }}

[tables.lineitem]
source = "lineitem"
key = ["l_orderkey", "l_linenumber"]
references = {{ l_orderkey = "orders.o_orderkey" }}
max_rows_per_unit = 200
[tables.lineitem.columns]
l_orderkey = {{ type = "BIGINT" }}
l_linenumber = {{ type = "INTEGER" }}
l_quantity = {{ type = "DECIMAL(15,2)", bounds = [0, 50] }}
l_returnflag = {{ type = "VARCHAR", domain = ["A", "N", "R"] }}
l_shipmode = {{ type = "VARCHAR", domain = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"] }}
"""


def main() -> int:
    # pyspark warns of a pandas that it does not know yet, which nothing here uses
    warnings.simplefilter("ignore", FutureWarning)
    parser = argparse.ArgumentParser(description="A Spark cluster of two workers with TPC-H, asked beside DuckDB.")
    default = Path.home() / ".cache" / "dpsql-spark"
    parser.add_argument("--folder", type=Path, default=default, help="where the data, ledgers and logs are")
    parser.add_argument("--scale", default="0.1", help="TPC-H's scale factor; 1 is about 1 GB")
    parser.add_argument("--keep", action="store_true", help="let the cluster run until Ctrl-C")
    options = parser.parse_args()
    folder: Path = options.folder / f"tpch-{options.scale}"
    home = required()
    load(folder, options.scale)
    with cluster(home, folder) as address:
        here, there = written(folder, "duckdb", "."), written(folder, "spark", f"{address}/;folder={folder}")
        for sql in QUESTIONS:
            print(f"\n{' '.join(sql.split())}")
            for name, schema in (("DuckDB", here), ("Spark", there)):
                show(name, schema, sql)
        if options.keep:
            print(f"\ndpsql {there}\nCtrl-C ends the cluster", flush=True)
            with suppress(KeyboardInterrupt):
                signal.pause()
    return 0


def required() -> Path:
    """The folder of pyspark. Says what is missing, or which port is taken, before anything is made."""
    found = find_spec("pyspark")
    home = Path(found.origin).parent if found is not None and found.origin is not None else Path()
    lacks = [] if any(home.glob("jars/spark-connect_*.jar")) else ['pip install "pyspark[connect]"']
    lacks += [] if program("tpchgen-cli") else ["pip install tpchgen-cli"]
    lacks += [] if shutil.which("java") else ["apt-get install openjdk-17-jre-headless"]
    if lacks:
        raise SystemExit(f"first run: {'; '.join(lacks)}")
    for port in (MASTER, CONNECT):
        if listens(port):
            raise SystemExit(
                f"something listens at port {port} of this machine: end it first, as another example that runs"
            )
    return home


def program(name: str) -> str | None:
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def listens(port: int) -> bool:
    with closing(socket.socket()) as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def load(folder: Path, scale: str) -> None:
    """Write the tables that the folder lacks: each a folder with a Parquet file."""
    for table in TABLES:
        if not (folder / table).exists():
            draft = folder / f".{table}"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            command = [
                str(program("tpchgen-cli")),
                "parquet",
                "-s",
                scale,
                f"--tables={table}",
                f"--output-dir={draft}",
            ]
            if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
                raise SystemExit(f"TPC-H cannot be made at --scale {scale}")
            draft.rename(folder / table)


def written(folder: Path, name: str, source: str) -> Path:
    """The path of a schema over the tables, approved with a new ledger beside it."""
    schema = folder / f"{name}.toml"
    text = SCHEMA.format(name=name, source=source)
    for table in ("customer", "orders", "lineitem"):
        text = text.replace(f'source = "{table}"', f'source = "{table}/{table}.parquet"')
    schema.write_text(text)
    subprocess.run(
        [sys.executable, "-W", "ignore::FutureWarning", "-m", "dpsql", "check", str(schema), "--new-ledger"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return schema


def show(name: str, schema: Path, sql: str) -> None:
    with closing(dpsql.connect(schema)) as connection:
        begun = time.perf_counter()
        rows = connection.execute(f"/* dpsql: epsilon=0.5 */ {sql}").fetchall()
        print(f"{name:7} {time.perf_counter() - begun:6.2f} s  {sorted(rows)}", flush=True)


# --- the cluster ------------------------------------------------------------------------------------------------------


@contextmanager
def cluster(home: Path, folder: Path) -> Iterator[str]:
    """The address of the Connect server of a new cluster; all of it ends with the block."""
    started = list[subprocess.Popen[bytes]]()
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    deploy = "org.apache.spark.deploy"
    master = f"spark://127.0.0.1:{MASTER}"
    submit = {
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(CONNECT),
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "4",
    }
    options = [part for key, value in submit.items() for part in ("--conf", f"{key}={value}")]
    connect = "org.apache.spark.sql.connect.service.SparkConnectServer"
    worker = ["bin/spark-class", f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", "--host", "127.0.0.1"]
    commands = (
        (
            "master",
            ["bin/spark-class", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(MASTER)],
            MASTER,
        ),
        ("worker-1", [*worker, "--work-dir", str(folder / "work-1"), master], None),
        ("worker-2", [*worker, "--work-dir", str(folder / "work-2"), master], None),
        ("connect", ["bin/spark-submit", "--master", master, *options, "--class", connect, "spark-internal"], CONNECT),
    )
    try:
        for name, command, port in commands:
            with (folder / f"{name}.log").open("wb") as log:
                whole = [str(home / command[0]), *command[1:]]
                running = subprocess.Popen(
                    whole, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
                )
            started.append(running)
            if port is not None:
                wait(running, port, folder / f"{name}.log")
        yield f"sc://127.0.0.1:{CONNECT}"
    finally:
        for running in reversed(started):
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGTERM)
            running.wait()


def wait(running: subprocess.Popen[bytes], port: int, log: Path) -> None:
    while running.poll() is None:
        if listens(port):
            return
        time.sleep(0.2)
    raise SystemExit(f"it ended before it listened at {port}: see {log}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
