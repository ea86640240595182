"""The end of a statement before its answer: asked for from outside, or by a limit of the owner's. One value a statement.

Every stage looks at it: planning between its steps, the engine and the sandbox all the while they run. So an interrupt is seen
whenever it comes, and which limit ends a statement is decided by the clock and the schema alone, never by the data.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Generic, TypeVar

from dpsql.core.errors import Error, error

Result = TypeVar("Result")
POLL = 0.05  # [seconds] between two looks at whether an interrupted statement has stopped
INTERRUPTED, PLANNED, TIMED, FILLED, COUNTED = 703, 110, 710, 711, 712
ENDED = tuple(f"DPSQL-{code}" for code in (INTERRUPTED, PLANNED, TIMED, FILLED, COUNTED))
"""The codes of a statement that was ended; wherever planning was then says nothing of it."""
_CLOCKS = {PLANNED: time.thread_time, TIMED: time.monotonic}
"""The clock of each limit: planning is this thread's own, and the engine works in threads of its own."""
_BEFORE, _AFTER = "nothing was charged", "the charge stands"


class Cancellation:
    """Cancellation: the reasons for which one statement may end early.

    seconds       [s] the most that engine and sandbox may take together; None: no limit
    plan_seconds  [s] the most of the processor that reading and pricing may take, without what they run: a busy machine ends nobody's
                  statement
    worker        does what may take long; None: one of its own
    charged       whether the statement was paid for: what its end says of the price
    Threads       `cancel` from any; the rest from the statement's own
    """

    def __init__(
        self, seconds: float | None = None, plan_seconds: float | None = None, worker: Worker | None = None
    ) -> None:
        self.worker = worker or Worker()
        self.charged = False
        self._cancelled = False
        self._seen: int | None = None
        self._allowed = {TIMED: seconds, PLANNED: plan_seconds}
        self._left = dict(self._allowed)
        self._stages: dict[int, tuple[float, float]] = {}
        """The limits that hold now: when they end by their clocks, and before when they cannot, by the clock on the wall.

        Why  a thread has no more of the processor than time that passes; its own clock takes many times as long to read
        """

    def cancel(self) -> None:
        """Ask the statement to end."""
        self._cancelled = True

    def problem(self) -> Error | None:
        """Error that ends the statement now; None where it may go on."""
        if self._cancelled:
            return self.ended(INTERRUPTED)
        for code, (end, earliest) in self._stages.items():
            if time.monotonic() >= earliest and _CLOCKS[code]() >= end:
                return self.ended(code)
        return None

    def check(self) -> None:
        """Raise 703, 710 or 110 where the statement is to end."""
        found = self.problem()
        if found is not None:
            self._seen = int(found.code[-3:])
            raise found

    def told(self, raised: Error) -> Error:
        """The error to tell: that of the statement's end, whatever those who caught it on its way made of it."""
        if self._seen is None:
            return raised
        return self.ended(self._seen)

    def planning(self) -> _Stage:
        """While the statement is read and priced."""
        return _Stage(self, PLANNED)

    def running(self) -> _Stage:
        """While engine or sandbox run, for the plan too."""
        return _Stage(self, TIMED)

    def ended(self, code: int) -> Error:
        """The error of an end, in constant text: it depends on the schema, and on whether the statement was charged."""
        charge = _AFTER if self.charged else _BEFORE
        match code:
            case 110:
                what = f"the statement takes more than {self._allowed[PLANNED]:g} s to plan, the owner's limit"
                return error(code, what, hint="write fewer conditions, subqueries or aggregates")
            case 710:
                what = f"the statement ran for more than {self._allowed[TIMED]:g} s, the owner's limit; {charge}"
                return error(code, what, hint="ask for less at once")
            case 711:
                what = f"the statement took more memory than the owner's limit; {charge}"
                return error(code, what, hint="ask for less at once")
            case 712:
                what = f"there are more rows than the owner's limit; {charge}"
                return error(code, what, hint="write LIMIT, or group by fewer or coarser columns")
        return error(INTERRUPTED, f"interrupted; {charge}")


class _Stage:
    """A part of a statement that a limit holds for: what it took is taken off what is left for the next of its kind."""

    def __init__(self, statement: Cancellation, code: int) -> None:
        self._statement, self._code = statement, code
        self._begun: float | None = None

    def __enter__(self) -> None:
        self._statement.check()
        if self._code not in self._statement._stages:
            self._begun = _CLOCKS[self._code]()
            left = self._statement._left[self._code]
            allowed = float("inf") if left is None else left
            self._statement._stages[self._code] = self._begun + allowed, time.monotonic() + allowed

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        try:
            if kind is None:
                self._statement.check()
        finally:
            if self._begun is not None:
                left = self._statement._left[self._code]
                if left is not None:
                    self._statement._left[self._code] = left - (_CLOCKS[self._code]() - self._begun)
                del self._statement._stages[self._code]


_current: ContextVar[Cancellation | None] = ContextVar("statement", default=None)
"""The statement that this thread works on. Planning is hundreds of small functions; handed through all of them, it would hide them."""


def current() -> Cancellation:
    """The statement that this thread works on; one that nothing ends where there is none, as in the owner's verbs."""
    return _current.get() or Cancellation()


def check() -> None:
    """Raise 703, 710 or 110 where this thread's statement is to end."""
    statement = _current.get()
    if statement is not None:
        statement.check()


@contextmanager
def under(statement: Cancellation) -> Iterator[None]:
    """Work on a statement. Ctrl-C asks it to end, in place of raising at whatever point it came.

    Where the program handles SIGINT itself, that stays as it is.
    """
    token = _current.set(statement)
    try:
        with _listening(statement.cancel):
            yield
    finally:
        _current.reset(token)


@contextmanager
def _listening(cancel: Callable[[], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: cancel())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# --- what may take long -----------------------------------------------------------------------------------------------


def run(interrupt: Callable[[], None], work: Callable[[], Result]) -> Result:
    """Run something that may take long, in the statement's other thread; when its statement is to end, so does it.

    interrupt  ends what runs; it may come before that has begun, or after its end

    Why     DuckDB forgets an interrupt that comes before it runs, so it is repeated until the work has ended; and it notices Ctrl-C
            only by luck when the main thread is busy inside it
    Errors  703, 710, 110 the statement was ended; else what the work raises
    """
    statement = current()
    found: Task[Result] = Task(work)
    with statement.running():
        _give(found.work, statement)
        while not found.done.is_set():
            with _ended_by_ctrl_c(statement):
                found.done.wait(POLL)
            if statement.problem() is not None:
                interrupt()
    return found.result()


class Worker:
    """A thread that does one thing after the other; it begins with the first, and ends with whoever holds this.

    Why  to start a thread takes as long as a small question
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._begun = False
        weakref.finalize(self, self._tasks.put, None)

    def give(self, task: Callable[[], None]) -> None:
        if not self._begun:
            threading.Thread(target=_serve, args=(self._tasks,), daemon=True).start()
            self._begun = True
        self._tasks.put(task)


def _serve(tasks: SimpleQueue[Callable[[], None] | None]) -> None:
    while (task := tasks.get()) is not None:
        task()
        # else the last one, and the rows that it holds, would be kept until the next
        del task
    tasks.put(None)


def _give(task: Callable[[], None], statement: Cancellation) -> None:
    """Hand it to the worker, however often Ctrl-C comes in the middle of that: it may get it, and be started, twice."""
    given = False
    while not given:
        with _ended_by_ctrl_c(statement):
            statement.worker.give(task)
            given = True


@contextmanager
def _ended_by_ctrl_c(statement: Cancellation) -> Iterator[None]:
    """For the owner's verbs, and programs that handle SIGINT themselves."""
    try:
        yield
    except KeyboardInterrupt:
        statement.cancel()


class Task(Generic[Result]):
    """Some work for another thread, which is done once however often it is begun.

    fault  what it raised, or None
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self.done = threading.Event()
        self.fault: BaseException | None = None
        self._begun = threading.Lock()
        self._work = work
        self._results: list[Result] = []

    def begin(self) -> None:
        """In a thread of its own; where the process ends, the result has no reader."""
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._results.append(self._work())
        except BaseException as fault:
            self.fault = fault
        finally:
            self.done.set()

    def result(self) -> Result:
        """Raises what the work raised."""
        if self.fault is not None:
            raise self.fault
        return self._results[0]


def require_process(opener: int) -> None:
    """Raise 802 in a process other than that which opened a connection: a fork has DuckDB's memory and none of its threads."""
    if os.getpid() != opener:
        raise error(802, "the connection belongs to the process that opened it", hint="open one in this process")
