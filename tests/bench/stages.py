"""The time of a statement by stage: every stage's own time, without that of the stages inside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import dpsql.release.buying
import dpsql.release.staging
import dpsql.session.answer
from dpsql.accounting.answers import Answers
from dpsql.accounting.ledger import Ledger
from dpsql.answers.look_up import Stored
from dpsql.engines.duckdb import fetch
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.guard.guarding import Guarding
from dpsql.mechanisms.source import SystemNoise
from dpsql.planner import planning
from dpsql.planner.total import Texts
from dpsql.postprocess.sandbox import Sandbox
from dpsql.session.session import Session

PLACES: tuple[tuple[object, str, str], ...] = (
    (dpsql.session.answer, "parse", "parse"),
    (dpsql.session.answer, "resolve", "resolve"),
    (planning, "limit", "limit"),
    (planning, "measure", "measure"),
    (planning, "lower", "lower"),
    (dpsql.session.answer, "describe", "names and describe"),
    (Guarding, "judge", "guard"),
    (Stored, "look_up", "stored answer"),
    (Guarding, "compare", "guard"),
    (Texts, "printed", "proof of totality"),
    (Ledger, "charge", "charge"),
    (DuckDBEngine, "exact", "engine"),
    (fetch, "columns", "engine: fetch"),
    (dpsql.release.buying, "release", "release"),
    (SystemNoise, "laplace", "noise"),
    (SystemNoise, "gaussian", "noise"),
    (Answers, "put", "store"),
    (dpsql.release.staging, "with_bars", "estimates"),
    (Sandbox, "load", "sandbox: load"),
    (Sandbox, "run", "shell"),
    (dpsql.session.answer, "_finished", "rows and accuracy"),
    (Session, "execute", "the rest"),
)
"""The timed functions, in the order of a statement: owner, attribute, label."""
LABELS = tuple(dict.fromkeys(label for _, _, label in PLACES))


@dataclass(slots=True)
class Clock:
    """Own times by label [seconds]. `inside` is a stack: the time that the stages inside each open stage took."""

    own: dict[str, float] = field(default_factory=dict)
    inside: list[float] = field(default_factory=list)

    def timed(self, label: str, work: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object, **named: object) -> object:
            self.inside.append(0.0)
            start = time.perf_counter()
            try:
                return work(*args, **named)
            finally:
                taken = time.perf_counter() - start
                self.own[label] = self.own.get(label, 0.0) + taken - self.inside.pop()
                if self.inside:
                    self.inside[-1] += taken

        return wrapped


@contextmanager
def watched() -> Iterator[Clock]:
    """Time the stages for as long as this lasts."""
    clock = Clock()
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in PLACES]
    for owner, name, label in PLACES:
        setattr(owner, name, clock.timed(label, getattr(owner, name)))
    try:
        yield clock
    finally:
        for owner, name, work in before:
            setattr(owner, name, work)
