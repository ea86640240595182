"""Interleaved repetitions, their medians, and tables of them. Times are in seconds.

Every time is taken twice: as it passes, and as processor time of this process. On a machine that does other work too, the second
is the one to compare; it leaves out waiting for the disk, and counts all threads.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

Task = Callable[[], object]
_ticks = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Aim:
    """A limit that a number should keep; it is printed beside the number, never asserted."""

    most: float
    unit: str

    def verdict(self, found: float) -> str:
        return f"aim {self.most:g}{self.unit}: {'met' if found <= self.most else 'MISSED'}"


@dataclass(frozen=True, slots=True)
class Times:
    """Repetitions of one task [seconds]."""

    passed: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def run(self, task: Task) -> None:
        """Do it once more."""
        start, worked = time.perf_counter(), time.process_time()
        task()
        self.processor.append(time.process_time() - worked)
        self.passed.append(time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tasks that ran in turn; round i of one ran beside round i of the other."""

    ours: Times
    plain: Times

    @property
    def ratio(self) -> float:
        """The median over the rounds, so that a round that others disturbed does not count."""
        return median(o / p for o, p in zip(self.ours.passed, self.plain.passed, strict=True))

    @property
    def processor_ratio(self) -> float:
        return median(self.ours.processor) / max(median(self.plain.processor), 1e-6)

    @property
    def over(self) -> Times:
        """Round by round, what ours takes longer."""
        passed = [o - p for o, p in zip(self.ours.passed, self.plain.passed, strict=True)]
        return Times(passed, [o - p for o, p in zip(self.ours.processor, self.plain.processor, strict=True)])


def side_by_side(ours: Task, plain: Task, rounds: int, warm_up: int = 1, most: float = 60.0) -> Pair:
    """Run both in turn, each first in every other round; no round begins after `most` seconds."""
    for _ in range(warm_up):
        ours()
        plain()
    pair = Pair(Times(), Times())
    gc.collect()
    begun = time.perf_counter()
    for turn in range(rounds):
        order = [(ours, pair.ours), (plain, pair.plain)]
        for task, found in order if turn % 2 else reversed(order):
            found.run(task)
        if time.perf_counter() - begun > most:
            break
    return pair


def repeated(task: Task, rounds: int, warm_up: int = 3) -> Times:
    """The times of one task that was warmed up."""
    for _ in range(warm_up):
        task()
    found = Times()
    for _ in range(rounds):
        found.run(task)
    return found


def p95(times: Sequence[float]) -> float:
    return quantiles(times, n=20, method="inclusive")[-1]


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms"


def fresh(sql: str, epsilon: float) -> str:
    """The statement at a price never asked before, and with no stored answer in its place: what is shared with columns of one vector
    would be read off it at any price."""
    return f"/* dpsql: epsilon={epsilon + next(_ticks) * 1e-7:.7f}, fresh */ {sql}"


def heading(text: str) -> None:
    print(f"\n== {text}")


def show(header: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    """Print a table: first and last column on the left, numbers on the right."""
    print("\n".join(_lines(header, body)), flush=True)


def show_times(lines: Sequence[tuple[str, Times, Aim | None]]) -> None:
    """A table of small times; the aims are in milliseconds, and for p50."""
    body = []
    for name, times, aim in lines:
        found = median(times.passed), p95(times.passed), median(times.processor)
        body.append((name, *map(ms, found), aim.verdict(found[0] * 1e3) if aim is not None else ""))
    show(("", "p50", "p95", "p50 of processor time", ""), body)


def _lines(header: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(line[i]) for line in (header, *body)) for i in range(len(header))]
    for line in (header, *body):
        first, *middle, last = zip(line, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in middle), last[0]]
        yield "  ".join(cells).rstrip()
