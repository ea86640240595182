"""Work that may take long runs once, in one thread after the other, however Ctrl-C comes between."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from dpsql.core import cancellation
from dpsql.core.cancellation import Cancellation, Worker, run, under
from dpsql.core.errors import Error


def test_one_thread_does_it_all_and_ends_with_its_holder() -> None:
    worker = Worker()
    seen = []
    for _ in range(3):
        with under(Cancellation(worker=worker)):
            seen += [run(lambda: None, threading.current_thread) for _ in range(3)]
    assert len(set(seen)) == 1 and seen[0] is not threading.current_thread()
    del worker
    gc.collect()
    seen[0].join(timeout=10)
    assert not seen[0].is_alive()


def test_a_fault_is_raised_where_it_was_asked_and_ends_no_thread() -> None:
    with under(Cancellation()):
        with pytest.raises(ZeroDivisionError):
            run(lambda: None, lambda: 1 // 0)
        assert run(lambda: None, lambda: 5) == 5


@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_while_it_is_given_runs_it_once_and_ends_the_statement(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    give, ran, tries = Worker.give, [], 0

    def interrupted(worker: Worker, task: cancellation.Callable[[], None]) -> None:
        nonlocal tries
        tries += 1
        if when == "after" or tries > 1:
            give(worker, task)
        if tries == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Worker, "give", interrupted)
    with under(Cancellation()):
        with pytest.raises(Error, match="703"):
            run(lambda: None, lambda: ran.append(1))
        time.sleep(0.05)
    assert ran == [1]
