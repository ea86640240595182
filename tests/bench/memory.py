"""Peak memory: one process a task, which prints what it used at most.

python -m tests.bench.memory FOLDER (plain | row | customer) (QUESTION's number | none)
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import dpsql
from tests.bench.large import EPSILON
from tests.bench.timing import fresh, heading, show
from tests.bench.tpch import QUESTIONS, plain

KINDS = ("plain", "row", "customer")
MEBIBYTE = 1 << 20
UNIT = 1 if sys.platform == "darwin" else 1 << 10
"""Of ru_maxrss [bytes]."""


def measure(folder: Path) -> None:
    """The peak of every question, plain and at both levels, beside that of a process that asks nothing."""
    heading("peak memory of a process [MiB]")
    body = []
    for i, name in [(None, "imported, nothing opened"), *enumerate(question.name for question in QUESTIONS)]:
        peaks = [_peak(folder, kind, str(i)) for kind in KINDS]
        body.append((name, *(f"{peak / MEBIBYTE:,.0f}" for peak in peaks), ""))
    show(("question", "plain", "dpsql row", "dpsql customer", ""), body)


def _peak(folder: Path, kind: str, question: str) -> int:
    """[bytes]"""
    command = [sys.executable, "-m", "tests.bench.memory", str(folder), kind, question]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _work(folder: Path, kind: str, question: str) -> None:
    if question == "None":
        return
    sql = QUESTIONS[int(question)].sql
    if kind == "plain":
        plain(folder)(sql)
        return
    with (
        TemporaryDirectory() as scratch,
        dpsql.connect(folder / f"{kind}.toml", ledger=Path(scratch, "l")) as connection,
    ):
        connection.execute(fresh(sql, EPSILON)).fetchall()


if __name__ == "__main__":
    _work(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT)
