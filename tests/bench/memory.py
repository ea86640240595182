"""Peak memory: one process a task, which prints what it used at most.

python -m tests.bench.memory FOLDER (plain | row | customer) (QUESTION's number | None)
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from tests.bench.timing import fresh, heading, show
from tests.bench.tpch import EPSILON, QUESTIONS, plain

KINDS = ("plain", "row", "customer")
MEBIBYTE = 1 << 20
KIBIBYTE = 1 << 10
STATUS = Path("/proc/self/status")


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
    sql = None if question == "None" else QUESTIONS[int(question)].sql
    if kind == "plain":
        if sql is not None:
            plain(folder)(sql)
        return
    import dpsql
    import dpsql.clients.dbapi.connection

    if sql is None:
        return
    with dpsql.connect(folder / f"{kind}.toml", ledger=":memory:") as connection:
        connection.execute(fresh(sql, EPSILON)).fetchall()


def _most() -> int:
    """The peak of this process [bytes].

    Why  Linux's ru_maxrss begins with the peak of the process that started this one, VmHWM with the program
    """
    if STATUS.exists():
        return KIBIBYTE * int(STATUS.read_text().partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else KIBIBYTE)


if __name__ == "__main__":
    _work(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    print(_most())
