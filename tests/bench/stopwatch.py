"""Stopwatch on the README: 200,000 customers and 2,000,000 orders as CSV, to the first answer by its own commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from tests.bench.timing import Aim, heading, show
from tests.notes.pages import ROOT, fences

CUSTOMERS, ORDERS = 200_000, 2_000_000
AIM = Aim(120.0, " s")
QUESTION = "SELECT region, COUNT(*) AS orders, AVG(amount) AS amount FROM customers JOIN orders USING (customer_id) GROUP BY region"


def measure() -> None:
    """Each command as the README has it, in a process of its own; what is typed into the schema is the README's."""
    with tempfile.TemporaryDirectory(prefix="dpsql-stopwatch-") as made:
        folder = Path(made)
        _data(folder)
        (folder / "schema.toml").write_text(_schema(), encoding="utf-8")
        body, total = [], 0.0
        for words in (
            ["init", "."],
            ["check", "schema.toml"],
            ["tune", "schema.toml", "-c", QUESTION],
            ["schema.toml", "-c", QUESTION],
        ):
            seconds = _timed(words, folder)
            total += seconds
            body.append((f"dpsql {' '.join(words)[:60]}", f"{seconds:.1f}", ""))
    heading(f"the README's commands on {CUSTOMERS:,} customers and {ORDERS:,} orders [s]")
    show(("", "seconds", ""), [*body, ("together", f"{total:.1f}", AIM.verdict(total))])


def _timed(words: list[str], folder: Path) -> float:
    known = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder / "state")}
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "dpsql", *words], cwd=folder, env=known, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - begun


def _schema() -> str:
    """The schema of the README."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    return next(fence.body for fence in fences(page) if fence.info == "toml")


def _data(folder: Path) -> None:
    """The files that the README's schema names."""
    regions = re.findall(r'"(\w+)"', re.search(r"domain = \[([^\]]*)\]", _schema())[1])  # type: ignore[index]
    listed = ", ".join(f"'{region}'" for region in regions)
    with duckdb.connect() as connection:
        rows = f"SELECT i AS customer_id, ([{listed}])[1 + i % {len(regions)}] AS region FROM range({CUSTOMERS}) t(i)"
        connection.execute(f"COPY ({rows}) TO '{folder}/customers.csv'")
        amount = "(hash(i + 1) % 50000) / 100 AS amount"
        rows = f"SELECT i AS order_id, hash(i) % {CUSTOMERS} AS customer_id, {amount} FROM range({ORDERS}) t(i)"
        connection.execute(f"COPY ({rows}) TO '{folder}/orders.csv'")
