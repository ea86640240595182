"""Work that Ctrl-C stops: it runs in a thread of its own while this one waits, and listens."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dpsql.core.cancellation import Task

Result = TypeVar("Result")
TICK = 0.1
"""[s] between two looks at the clock, and between two attempts to stop."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Result]):
    """Outcome of some work: its result, or the error that ended it.

    seconds    how long it took
    cancelled  whether it was asked to stop
    """

    task: Task[Result]
    seconds: float
    cancelled: bool

    @property
    def problem(self) -> BaseException | None:
        return self.task.fault

    def result(self) -> Result:
        return self.task.result()


def run(
    work: Callable[[], Result], pressed: Callable[[], bool], cancel: Callable[[], None], tick: Callable[[float], None]
) -> Outcome[Result]:
    """Do some work, and wait for its end.

    pressed  whether the work is to stop
    cancel   asks the work to stop, from this thread; asked again until it did, since what was not running yet cannot be stopped
    tick     is told now and then how long it has taken
    """
    task, begun, cancelled = Task(work), time.perf_counter(), False
    task.begin()
    while not task.done.wait(TICK):
        cancelled = pressed()
        if cancelled:
            cancel()
        tick(time.perf_counter() - begun)
    return Outcome(task, time.perf_counter() - begun, cancelled)
