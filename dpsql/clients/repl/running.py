"""Work that Ctrl-C stops: it runs in a thread of its own while this one waits, and listens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Result = TypeVar("Result")
TICK = 0.1
"""[s] between two looks at the clock, and between two attempts to stop."""


@dataclass(slots=True)
class Outcome(Generic[Result]):
    """Outcome of some work: its result, or the error that ended it.

    value      None where it failed
    problem    what it raised, or None
    seconds    how long it took
    cancelled  whether it was asked to stop
    """

    value: Result | None = None
    problem: BaseException | None = None
    seconds: float = 0.0
    cancelled: bool = False

    def result(self) -> Result:
        """The value. Raises what the work raised."""
        if self.problem is not None:
            raise self.problem
        assert self.value is not None
        return self.value


def run(
    work: Callable[[], Result], pressed: Callable[[], bool], cancel: Callable[[], None], tick: Callable[[float], None]
) -> Outcome[Result]:
    """Do some work, and wait for its end.

    pressed  whether the work is to stop
    cancel   asks the work to stop, from this thread; asked again until it did, since what was not running yet cannot be stopped
    tick     is told now and then how long it has taken
    """
    outcome: Outcome[Result] = Outcome()
    done = threading.Event()

    def working() -> None:
        try:
            outcome.value = work()
        except BaseException as problem:
            outcome.problem = problem
        finally:
            done.set()

    begun = time.perf_counter()
    # Where the process ends, the answer has no reader.
    threading.Thread(target=working, name="dpsql statement", daemon=True).start()
    while not done.wait(TICK):
        outcome.cancelled = pressed()
        if outcome.cancelled:
            cancel()
        tick(time.perf_counter() - begun)
    outcome.seconds = time.perf_counter() - begun
    return outcome
