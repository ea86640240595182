"""The time that a new process takes to be ready."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from statistics import median

from tests.bench.timing import Aim, Times, heading, show

COMMANDS: tuple[tuple[str, tuple[str, ...], Aim | None], ...] = (
    ("python alone", ("-c", "pass"), None),
    ("import duckdb", ("-c", "import duckdb"), None),
    ("import sqlglot", ("-c", "import sqlglot"), None),
    ("import dpsql", ("-c", "import dpsql"), Aim(0.3, " s")),
    ("dpsql --help", ("-m", "dpsql", "--help"), Aim(0.3, " s")),
    ("import dpsql and all that connect needs", ("-c", "import dpsql.clients.dbapi.connection"), None),
)


def measure(rounds: int) -> None:
    """Run every command in turn, round after round."""
    times = {name: Times() for name, _, _ in COMMANDS}
    for _, arguments, _ in COMMANDS:
        _run(arguments)
    for _ in range(rounds):
        for name, arguments, _ in COMMANDS:
            times[name].run(partial(_run, arguments))
    heading(f"a new process, {rounds} rounds [s]")
    body = []
    for name, _, aim in COMMANDS:
        best, middle = min(times[name].passed), median(times[name].passed)
        body.append((name, f"{best:.3f}", f"{middle:.3f}", aim.verdict(middle) if aim is not None else ""))
    show(("", "best", "median", ""), body)


def _run(arguments: tuple[str, ...]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
