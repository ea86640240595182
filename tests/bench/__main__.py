"""Run the bench: all of it at scale factor 1, or some parts, or at another scale."""

from __future__ import annotations

import argparse
import platform
import tempfile
from pathlib import Path

import duckdb
import sqlglot

from tests.bench import (
    accounting,
    aims,
    cubes,
    dashboard,
    growing,
    guard,
    joint,
    large,
    memory,
    models,
    server,
    small,
    spark,
    start,
    startup,
    statistics,
    stopwatch,
    synthetic,
    tpch,
    tpch_queries,
    workloads,
)
from tests.support import tpch as tpch_data

PARTS = (
    "aims",
    "large",
    "small",
    "startup",
    "memory",
    "tpch",
    "statistics",
    "accounting",
    "guard",
    "start",
    "stopwatch",
    "dashboard",
    "growing",
    "cubes",
    "workloads",
    "joint",
    "models",
    "synthetic",
    "server",
    "spark",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="dpsql beside plain DuckDB; see the aims."
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--scale", default="1", help="TPC-H scale factor (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds of a large question (default 5)")
    cache = Path(tempfile.gettempdir()) / "dpsql-bench"
    parser.add_argument("--cache", type=Path, default=cache, help=f"where the TPC-H data is kept (default {cache})")
    parser.add_argument("--workloads", type=Path, help="a folder of published statements; see tests/bench/workloads.py")
    parser.add_argument("--against", metavar="COMMIT", help="part aims: the dpsql of that commit too, run in turn")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    versions = f"Python {platform.python_version()}, DuckDB {duckdb.__version__}, sqlglot {sqlglot.__version__}"
    print(f"{versions}, {_threads()} threads, {platform.machine()}")
    _run(options.parts or PARTS, options)


def _run(parts: list[str] | tuple[str, ...], options: argparse.Namespace) -> None:
    if "aims" in parts:
        aims.compare(options.cache, options.scale, options.rounds, options.against)
    if "large" in parts:
        large.compare(tpch.generate(options.cache, options.scale), options.rounds)
    if "small" in parts:
        small.measure(40 * options.rounds)
    if "startup" in parts:
        startup.measure(2 * options.rounds)
    if "memory" in parts:
        memory.measure(tpch.generate(options.cache, options.scale))
    if "tpch" in parts:
        folder = tpch_data.generate(options.cache / f"sf{options.scale}", options.scale)
        tpch_queries.compare(folder, options.rounds)
    if "statistics" in parts:
        statistics.compare(options.cache, options.rounds)
    if "accounting" in parts:
        accounting.measure()
    if "guard" in parts:
        guard.measure()
    if "start" in parts:
        start.measure(2 * options.rounds)
    if "stopwatch" in parts:
        stopwatch.measure()
    if "dashboard" in parts:
        dashboard.viewed()
    if "growing" in parts:
        growing.measure(options.rounds)
    if "joint" in parts:
        joint.compare()
    if "cubes" in parts:
        cubes.measure()
    if "models" in parts:
        models.report()
    if "synthetic" in parts:
        synthetic.measure()
    if "workloads" in parts:
        workloads.compare(options.workloads, options.cache)
    if "server" in parts:
        server.measure()
    if "spark" in parts:
        spark.measure(options.cache / "spark", options.scale, options.rounds)


def _threads() -> object:
    (found,) = duckdb.execute("SELECT current_setting('threads')").fetchall()[0]
    return found


if __name__ == "__main__":
    main()
