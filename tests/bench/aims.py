"""dpsql's times beside plain DuckDB's, one line each, with its aim; and the same of another commit, in turn.

python -m tests.bench.aims CACHE SCALE ROUNDS prints the numbers of this process's dpsql, for `against`.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import duckdb

import dpsql
from dpsql.clients.dbapi.connection import Connection
from tests.bench.small import EXAMPLES, example
from tests.bench.timing import Aim, Times, fresh, heading, p95, repeated, show, side_by_side
from tests.bench.tpch_queries import approved, data, declared, planning_times
from tests.support import tpch

ROOT = Path(__file__).parents[2]
Number = tuple[float, float]
"""As time passes, and in processor time: milliseconds over plain DuckDB, or times as long."""
Numbers = dict[str, Number]
"""By the name of a line; lines that were refused are missing."""
REVENUE = """SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem JOIN orders ON l_orderkey = o_orderkey
JOIN customer ON o_custkey = c_custkey JOIN nation ON c_nationkey = n_nationkey GROUP BY n_name"""
PARTS = "SELECT l_partkey, COUNT(*) AS n FROM lineitem GROUP BY l_partkey"
FEW_PARTS = f"/* dpsql: max_groups=10 */ {PARTS}"
COUNT = "SELECT COUNT(*) AS n FROM lineitem"
GROUPED = (
    "SELECT l_returnflag, COUNT(*) AS n, AVG(l_quantity) AS mean, SUM(l_quantity) AS total FROM lineitem GROUP BY 1"
)
LARGE = (
    ("COUNT(*), over", "row", COUNT, Aim(4, " ms")),
    ("GROUP BY with count, avg, sum, over", "row", GROUPED, Aim(5, " ms")),
    ("median", "row", "SELECT MEDIAN(l_extendedprice) FROM lineitem", Aim(1.3, "x")),
    ("TPC-H Q1, row unit", "row", tpch.query(1), Aim(1.6, "x")),
    ("200,000 groups, row unit", "row", PARTS, Aim(2, "x")),
    ("TPC-H Q1, row unit, prepared", "row, prepared", tpch.query(1), Aim(1.2, "x")),
    ("200,000 groups, customer, at most 10 each", "unverified", FEW_PARTS, Aim(6, "x")),
    ("TPC-H Q1, customer, unprepared", "unverified", tpch.query(1), Aim(8, "x")),
    ("TPC-H Q1, customer, prepared", "prepared", tpch.query(1), Aim(1.4, "x")),
    ("TPC-H Q1, customer, prepared, enforced", "cut", tpch.query(1), Aim(2.9, "x")),
    ("revenue by nation", "unverified", REVENUE, Aim(1.5, "x")),
    ("revenue by nation, prepared", "prepared", REVENUE, Aim(1.1, "x")),
)
SMALL = {
    "a small statement over plain, p50": Aim(5, " ms"),
    "the same, p95": Aim(8, " ms"),
    "the first of its shape": Aim(12, " ms"),
    "a stored answer in another spelling": Aim(5, " ms"),
    "planning, p50": Aim(4, " ms"),
    "planning, p95": Aim(10, " ms"),
}
AIMS = {**{name: aim for name, _, _, aim in LARGE}, **SMALL}


def compare(cache: Path, scale: str, rounds: int, against: str | None) -> None:
    """The table; with `against`, beside the numbers of that commit's dpsql, both run in turn as often as `rounds`."""
    heading("beside plain DuckDB, median of the rounds")
    if against is None:
        _show({"": _numbers(cache, scale, rounds)})
        return
    with _checkout(against) as other:
        found: dict[str, list[Numbers]] = {against[:12]: [], "here": []}
        for turn, (name, path) in itertools.product(range(2), zip(found, (other, ROOT), strict=True)):
            found[name].append(_of(path, cache, scale, rounds))
            print(f"round {turn + 1} of {name}", flush=True)
    _show({name: _least(all_) for name, all_ in found.items()})


def _least(found: list[Numbers]) -> Numbers:
    """The smallest of several turns; of the lines that were answered in all of them."""
    lines = [line for line in AIMS if all(line in each for each in found)]
    return {line: (min(each[line][0] for each in found), min(each[line][1] for each in found)) for line in lines}


def _show(found: dict[str, Numbers]) -> None:
    last = list(found.values())[-1]
    body = []
    for line, aim in AIMS.items():
        cells = (_cell(numbers.get(line), aim) for numbers in found.values())
        body.append((line, *itertools.chain(*cells), aim.verdict(last[line][0]) if line in last else ""))
    show(("", *itertools.chain(*((name, "processor") for name in found)), ""), body)


def _cell(number: Number | None, aim: Aim) -> tuple[str, str]:
    return ("refused", "") if number is None else (f"{number[0]:,.2f}{aim.unit}", f"{number[1]:,.2f}{aim.unit}")


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    """A folder with the dpsql of a commit."""
    with TemporaryDirectory(prefix="dpsql-bench-") as folder:
        packed = subprocess.run(["git", "archive", commit, "dpsql"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        yield Path(folder)


def _of(path: Path, cache: Path, scale: str, rounds: int) -> Numbers:
    """The numbers of a checkout's dpsql, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (path, ROOT)))}
    command = [sys.executable, "-P", "-m", "tests.bench.aims", str(cache), scale, str(rounds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _numbers(cache: Path, scale: str, rounds: int) -> Numbers:
    folder = tpch.generate(cache / f"sf{scale}", scale)
    with TemporaryDirectory() as scratch:
        found = _large(folder, Path(scratch), rounds)
        found.update(_small(Path(scratch), 20 * rounds))
        times = planning_times(folder, rounds)
        found.update({"planning, p50": _of_times(times, median), "planning, p95": _of_times(times, p95)})
    return found


def _large(folder: Path, scratch: Path, rounds: int) -> Numbers:
    """The lines over TPC-H data, by how it was opened."""
    found: Numbers = {}
    plain = tpch.plain(folder)
    for setting in dict.fromkeys(setting for _, setting, _, _ in LARGE):
        ledger = approved(folder, setting, scratch)
        with dpsql.connect(declared(data(ledger), setting), ledger=ledger) as connection:
            for name, wanted, sql, aim in LARGE:
                if wanted == setting:
                    number = _beside(connection, plain, sql, aim, rounds)
                    found |= {name: number} if number is not None else {}
    plain.close()
    return found


def _beside(connection: Connection, plain: duckdb.DuckDBPyConnection, sql: str, aim: Aim, rounds: int) -> Number | None:
    """The number of one line; None where the statement is refused, which is told and ends no other line."""
    ours = lambda: connection.execute(fresh(sql, 8.0)).fetchall()  # noqa: E731
    try:
        pair = side_by_side(ours, lambda: plain.execute(sql).fetchall(), rounds)
    except dpsql.Error as refused:
        print(f"not answered: {sql}: {refused}", file=sys.stderr)
        return None
    return (pair.ratio, pair.processor_ratio) if aim.unit == "x" else _of_times(pair.over, median)


def _of_times(times: Times, summary: Callable[[Sequence[float]], float]) -> Number:
    """[ms]"""
    return summary(times.passed) * 1e3, summary(times.processor) * 1e3


def _small(scratch: Path, rounds: int) -> Numbers:
    """The lines that do not depend on the size of the data: a few thousand rows, the ledger on disk; the guard's own time is not in
    them, since it would refuse most of so many conditions that are nearly the same."""
    schema = example("randhie", scratch)
    plain, ticks = duckdb.connect(), itertools.count(1)
    plain.execute(f"CREATE VIEW person AS FROM read_parquet('{EXAMPLES / 'randhie' / 'person.parquet'}')")
    with dpsql.connect(
        replace(schema, guard=replace(schema.guard, mode="off")), ledger=scratch / "small"
    ) as connection:

        def asked() -> str:
            return f"SELECT site, COUNT(*) AS n, AVG(income) AS mean FROM person WHERE income > {next(ticks)} GROUP BY site"

        def spelled() -> object:
            return connection.execute(f"select site, count(*) n from person group by site -- {next(ticks)}").fetchall()

        shapes = iter(_shapes())
        pair = side_by_side(
            lambda: connection.execute(asked()).fetchall(), lambda: plain.execute(asked()).fetchall(), rounds, warm_up=5
        )
        firsts = repeated(lambda: connection.execute(next(shapes)).fetchall(), min(rounds, len(_shapes()) - 3))
        again = repeated(spelled, rounds)
    plain.close()
    found = (pair.over, median), (pair.over, p95), (firsts, median), (again, median)
    return {name: _of_times(*each) for name, each in zip(SMALL, found, strict=False)}


def _shapes() -> list[str]:
    """Statements no two of which have one shape."""
    keys, conditions = (
        ("site", "plan", "female", "site, plan"),
        ("income > 500", "income < 9000 AND female", "site IN (1, 2)"),
    )
    values = ("COUNT(*)", "AVG(income)", "SUM(income)", "COUNT(*), AVG(mental_health_index)", "SUM(income) / COUNT(*)")
    return [
        f"SELECT {key}, {value} FROM person WHERE {condition} GROUP BY {key}"
        for value, key, condition in itertools.product(values, keys, conditions)
    ]


if __name__ == "__main__":
    print(json.dumps(_numbers(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
