"""The time that a session takes from its command to its first prompt, and its parts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from tests.bench.timing import Aim, Times, heading, show
from tests.clients.repl.terminal import ROOT, Terminal
from tests.support.copies import unused

AIM = Aim(0.8, " s")
PARTS = (
    ("python alone", "pass"),
    ("import all that connect needs", "import dpsql.clients.dbapi.connection"),
    ("import all that a session needs", "import dpsql.clients.repl.editor"),
)


def measure(rounds: int) -> None:
    """Warm: the ledger is there, the data is approved, and every file was read before."""
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        unused(ROOT / "examples/randhie", Path(folder) / "randhie")
        tasks = {name: partial(_run, code) for name, code in PARTS}
        tasks["dpsql SCHEMA, to its first prompt"] = partial(_start, Path(folder))
        times = {name: Times() for name in tasks}
        for task in tasks.values():
            task()
        for _ in range(rounds):
            for name, task in tasks.items():
                times[name].run(task)
    heading(f"a session, {rounds} rounds [s]")
    body = []
    for name, found in times.items():
        middle = median(found.passed)
        verdict = AIM.verdict(middle) if name.startswith("dpsql") else ""
        body.append((name, f"{min(found.passed):.3f}", f"{middle:.3f}", verdict))
    show(("", "best", "median", ""), body)


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})


def _start(folder: Path) -> None:
    """Until the prompt waits; then the session is ended at once."""
    with Terminal(folder / "randhie/schema.toml", folder / "state"):
        pass
