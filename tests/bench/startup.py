"""The time that a new process takes: to be ready, and to answer one statement that is stored, or is to be bought."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory

from tests.bench.timing import Aim, Times, fresh, heading, show
from tests.support.copies import copied

SQL = "SELECT site, COUNT(*) AS n FROM person GROUP BY site"
Command = tuple[str, Callable[[], tuple[str, ...]], Aim | None]
READY: tuple[Command, ...] = (
    ("python alone", lambda: ("-c", "pass"), None),
    ("import duckdb", lambda: ("-c", "import duckdb"), None),
    ("import sqlglot", lambda: ("-c", "import sqlglot"), None),
    ("import dpsql", lambda: ("-c", "import dpsql"), Aim(0.08, " s")),
    ("dpsql --help", lambda: ("-m", "dpsql", "--help"), Aim(0.3, " s")),
    ("import dpsql and all that connect needs", lambda: ("-c", "import dpsql.clients.dbapi.connection"), None),
)


def measure(rounds: int) -> None:
    """Run every command in turn, round after round; the files of every module are compiled before. Aims are of processor time."""
    with TemporaryDirectory(prefix="dpsql-bench-") as scratch:
        schema = str(copied(Path(scratch)))
        asked: tuple[Command, ...] = (
            ("dpsql SCHEMA -c, stored", lambda: ("-m", "dpsql", schema, "-c", SQL), Aim(0.45, " s")),
            ("dpsql SCHEMA -c, bought", lambda: ("-m", "dpsql", schema, "-c", fresh(SQL, 0.001)), Aim(0.5, " s")),
        )
        commands = (*READY, *asked)
        times = {name: Times() for name, _, _ in commands}
        run = partial(_run, Path(scratch))
        for _, arguments, _ in commands:
            run(arguments())
        for _ in range(rounds):
            for name, arguments, _ in commands:
                worked = _worked()
                times[name].run(partial(run, arguments()))
                # that of the process here would be next to nothing
                times[name].processor[-1] = _worked() - worked
    heading(f"a new process, {rounds} rounds [s]")
    body = []
    for name, _, aim in commands:
        best, middle, worked = min(times[name].passed), median(times[name].passed), median(times[name].processor)
        verdict = aim.verdict(worked) if aim is not None else ""
        body.append((name, f"{best:.3f}", f"{middle:.3f}", f"{worked:.3f}", verdict))
    show(("", "best", "median", "median of processor time", ""), body)


def _worked() -> float:
    """Processor time of all processes that this one started and that have ended [s]."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(scratch: Path, arguments: tuple[str, ...]) -> None:
    """Modules are compiled once, whatever the environment says, and not beside the source."""
    known = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(scratch / "compiled")}
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=known)
