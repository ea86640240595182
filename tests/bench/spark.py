"""TPC-H on a Spark server of this machine: dpsql beside the same queries asked of Spark itself; memory of the client.

python -m tests.bench.spark SCHEMA prints what one process asks of many groups, and the memory that it took
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import geometric_mean, median

import duckdb
import sqlglot

import dpsql
from dpsql.clients.dbapi.connection import Connection
from dpsql.engines.spark.server import ConnectServer
from tests.bench.memory import MEBIBYTE, _most
from tests.bench.timing import Aim, Pair, Times, fresh, heading, show, side_by_side
from tests.engines import cluster
from tests.support import tpch

EPSILON = 8.0
RATIO, OVERHEAD = Aim(2.0, ""), Aim(0.3, " s")
GROUPS = (1_000_000, 10_000_000)
MEMORY = "4g"
"""Of the server; 10^7 groups of text do not fit a half of it."""
SMALL = "SELECT COUNT(*) AS n FROM customer"
MANY = """[dataset]
name   = "many"
source = "{source}"

[privacy]
unit    = "held.person"
epsilon = 1000.0
delta   = 1e-3
query   = {{ epsilon = 2.0, delta = 1e-8 }}

[guard]
mode = "off"

[tables.held]
source = "held"
key    = ["person"]
[tables.held.columns]
person = {{ type = "BIGINT", role = "identifier" }}
word   = {{ type = "VARCHAR" }}
"""


def measure(cache: Path, scale: str, rounds: int) -> None:
    """Every answered query, a small one, and many candidates of a private key. Prints why where there is no server."""
    heading("TPC-H on Spark")
    if cluster.home() is None:
        print("no Spark server is installed: pip install 'pyspark[connect]', apt-get install openjdk-17-jre-headless")
        return
    folder = tpch.generate(cache / f"sf{scale}", scale)
    with cluster.started(memory=MEMORY) as url:
        _queries(folder, scale, url, rounds)
        _memory(url)


def _queries(folder: Path, scale: str, url: str, rounds: int) -> None:
    """Nothing is known of the limits of files, so all of them are enforced."""
    declared = tpch.schema(folder)
    # at a small scale some of the queries are about fewer people than the guard's k, at a large one some take minutes
    asked = replace(
        declared, guard=replace(declared.guard, mode="off"), limits=replace(declared.limits, seconds=Fraction(900))
    )
    schema = cluster.moved(asked, url, "bench")
    plain = ConnectServer(schema.source)
    for table in tpch.TABLES:
        plain.show(table, plain.session.read.parquet(f"{schema.source.partition('folder=')[2]}/{table}"))
    with closing(plain), dpsql.connect(schema, ledger=":memory:") as connection:
        found = {number: _pair(connection, plain, url, tpch.query(number), rounds) for number in tpch.ANSWERED}
        small = _pair(connection, plain, url, SMALL, 2 * rounds)
    print(f"scale factor {scale}, one worker, one core, at most {rounds} rounds in turn after one; limits are enforced")
    lines = [(f"Q{number}", *_line(*one), "") for number, one in found.items()]
    show(("query", "dpsql s", "Spark s", "ratio", "over s", "ratio of processor time", ""), lines)
    mean = geometric_mean(pair.ratio for pair, _ in found.values())
    worked = geometric_mean(ratio for _, ratio in found.values())
    print(f"{len(found)}: geometric mean {mean:.2f} ({RATIO.verdict(mean)}), of processor time {worked:.2f}")
    over = median(small[0].over.passed)
    floor = median(small[0].plain.passed)
    print(f"a small statement: {over:.2f} s over Spark's own {floor:.2f} s ({OVERHEAD.verdict(over)})")


def _pair(connection: Connection, plain: ConnectServer, url: str, sql: str, rounds: int) -> tuple[Pair, float]:
    """Times as they passed, and the ratio of processor time of server and client together."""
    spark = sqlglot.transpile(sql, read="duckdb", write="spark")[0]
    worked: dict[str, list[float]] = {"ours": [], "plain": []}

    def timed(name: str, ask: object) -> None:
        assert callable(ask)
        before, times = cluster.processor(url), Times()
        times.run(ask)
        worked[name].append(cluster.processor(url) - before + times.processor[0])

    pair = side_by_side(
        lambda: timed("ours", lambda: connection.execute(fresh(sql, EPSILON)).fetchall()),
        lambda: timed("plain", lambda: plain.rows(spark)),
        rounds,
    )
    # the first of each is the warm-up
    ours, theirs = (median(times[1:]) for times in worked.values())
    return pair, ours / max(theirs, 1e-6)


def _line(pair: Pair, worked: float) -> tuple[str, ...]:
    times = (median(one.passed) for one in (pair.ours, pair.plain))
    over = median(pair.over.passed)
    return *(f"{seconds:.2f}" for seconds in times), f"{pair.ratio:.2f}", f"{over:.2f}", f"{worked:.2f}"


def _memory(url: str) -> None:
    """Groups of one person each: nearly none is released, and all of them come here."""
    heading("memory of the client, candidates of a private key of text [MiB]")
    body = []
    for groups in GROUPS:
        folder = cluster.folder_of(url) / f"many-{groups}"
        (folder / "held").mkdir(parents=True)
        rows = f"SELECT i AS person, 'the word of a group ' || i AS word FROM range({groups}) AS r(i)"
        with closing(duckdb.connect()) as connection:
            connection.execute(f"COPY ({rows}) TO '{folder}/held/part-0.parquet' (FORMAT parquet)")
        (folder / "schema.toml").write_text(MANY.format(source=url.partition("folder=")[0] + f"folder={folder}"))
        command = [sys.executable, "-m", "tests.bench.spark", str(folder / "schema.toml")]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        body.append((f"{groups:,}", *printed.split(), ""))
    show(("groups", "opened", "asked", "released", ""), body)


def _work(schema: Path) -> None:
    with dpsql.connect(schema, ledger=":memory:") as connection:
        connection.execute("SELECT COUNT(*) FROM held").fetchall()
        before = _most()
        shown = len(connection.execute("SELECT word, COUNT(*) FROM held GROUP BY word").fetchall())
        print(f"{before / MEBIBYTE:.0f} {_most() / MEBIBYTE:.0f} {shown}")


if __name__ == "__main__":
    _work(Path(sys.argv[1]))
