"""TPC-H questions: dpsql beside plain DuckDB, and where dpsql's time goes."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import dpsql
from dpsql.clients.dbapi.connection import Connection
from tests.bench.stages import LABELS, watched
from tests.bench.timing import Aim, fresh, heading, show, side_by_side
from tests.bench.tpch import EPSILON, QUESTIONS, Ask, Question, plain
from tests.support.copies import linked

SHOWN_FROM = 1e-4
"""Stages that never take this long are left out [seconds]."""


def compare(folder: Path, rounds: int) -> None:
    """Every question at both privacy levels, in turn with plain DuckDB, and the stages of each."""
    ask = plain(folder)
    for level in ("row", "customer"):
        with TemporaryDirectory() as scratch:
            start = time.perf_counter()
            data = linked(folder, Path(scratch, "data"))
            with dpsql.connect(data / f"{level}.toml", ledger=Path(scratch, "ledger")) as connection:
                opened = time.perf_counter() - start
                _compare(connection, level, ask, rounds)
        print(f"the first opening, which reads every byte and verifies keys: {opened:.2f} s")


def _compare(connection: Connection, level: str, ask: Ask, rounds: int) -> None:
    heading(f"TPC-H lineitem, {level}-level privacy: dpsql beside plain DuckDB, median of {rounds}")
    found = [_question(connection, question, level, ask, rounds) for question in QUESTIONS]
    header = ("question", "shown", "dpsql s", "plain s", "ratio", "over s", "processor ratio", "over s", "")
    show(header, [line for line, _ in found])
    heading(f"where the time goes, {level} level, median of {rounds} [ms]")
    names = [label for label in LABELS if any(own[label] >= SHOWN_FROM for _, own in found)]
    table = [(label, *(f"{own[label] * 1e3:,.1f}" for _, own in found), "") for label in names]
    show(("stage", *(question.name for question in QUESTIONS), ""), table)


def _question(
    connection: Connection, question: Question, level: str, ask: Ask, rounds: int
) -> tuple[tuple[str, ...], dict[str, float]]:
    """One line of the table, and the own time of every stage."""
    shown = 0
    own: list[dict[str, float]] = []

    def ours() -> None:
        nonlocal shown
        with watched() as clock:
            shown = len(connection.execute(fresh(question.sql, EPSILON)).fetchall())
        own.append(clock.own)

    pair = side_by_side(ours, lambda: ask(question.sql), rounds)
    over = median(pair.over.passed)
    times = f"{median(pair.ours.passed):.3f}", f"{median(pair.plain.passed):.3f}", f"{pair.ratio:.2f}", f"{over:.3f}"
    processor = f"{pair.processor_ratio:.2f}", f"{median(pair.over.processor):.3f}"
    line = (question.name, f"{shown:,}", *times, *processor, _verdict(question, level, pair.ratio, over))
    return line, {label: median(o.get(label, 0.0) for o in own[1:]) for label in LABELS}


def _verdict(question: Question, level: str, ratio: float, over: float) -> str:
    if level != "row" or question == QUESTIONS[0]:
        return ""
    return Aim(1.5, "x").verdict(ratio) if question == QUESTIONS[1] else Aim(0.5, " s over").verdict(over)
