"""One analyst's session: statements run one at a time, and whatever goes wrong in one is told without a value of the data."""

from __future__ import annotations

import hmac
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from dpsql.accounting.cubes import StoredCube
from dpsql.accounting.ledger import Ledger
from dpsql.core import cancellation
from dpsql.core.cancellation import Cancellation, Worker, require_process
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import SqlType
from dpsql.dataset.opening import Dataset
from dpsql.guard.guarding import Remembered
from dpsql.mechanisms.source import NoiseSource, SystemNoise
from dpsql.plan.charges import Receipt
from dpsql.release.staging import Columns
from dpsql.schema.model import Analyst, Schema
from dpsql.session import answer as stages
from dpsql.session.answer import Parameters
from dpsql.session.commons import Commons
from dpsql.session.planned import About, Prospect
from dpsql.session.result import Answer
from dpsql.session.world import World

if TYPE_CHECKING:
    from dpsql.session.proposal import WorkloadReport

Result = TypeVar("Result")


class Session:
    """A dataset, an analyst and their options."""

    def __init__(
        self,
        dataset: Dataset,
        ledger: Ledger,
        analyst: Analyst,
        noise: NoiseSource | None = None,
        commons: Commons | None = None,
    ) -> None:
        self._world = World(dataset, ledger, analyst, noise or SystemNoise(), commons)
        self._process = os.getpid()
        self._turn = threading.Lock()
        self._worker = Worker()
        self._running: Cancellation | None = None

    def execute(self, sql: str, parameters: Parameters = (), *, key: str = "") -> Answer:
        """Answer one statement, or raise an Error that says why not.

        key  of the request: however often it is asked, it is charged once at most (rule 73); "" where it has none
        """
        return self._guarded(sql, lambda: stages.answer(sql, parameters, self._world, key))

    def explain(self, sql: str, parameters: Parameters = ()) -> str:
        """The plan of a statement, without running or charging it."""
        return self._guarded(sql, lambda: stages.explain(sql, parameters, self._world))

    def price(self, sql: str, parameters: Parameters = ()) -> tuple[Receipt, int]:
        """Estimate the price of a statement now and the number of releases it would buy, without running or charging
        it; nothing where it is free or stored."""
        return self._guarded(sql, lambda: stages.price(sql, parameters, self._world))

    def prospect(self, sql: str, planned: Sequence[StoredCube] = ()) -> Prospect:
        """Estimate the price of a statement once some cubes are bought, without running or charging it."""
        return self._guarded(sql, lambda: stages.prospect(sql, self._world, planned))

    def about(self, sql: str) -> About:
        """A statement as the ledger would keep it, and the tables that its answers depend on, without running or charging it."""
        return self._guarded(sql, lambda: stages.about(sql, self._world))

    def workload(self, statements: Sequence[str], epsilon: Fraction | None = None) -> WorkloadReport:
        """Cubes that answer some statements, their price and errors beside those of each alone, without running or charging anything.

        epsilon  of all cubes together; None: each may cost what the owner lets one cost
        """
        from dpsql.session.workload import propose

        return self._guarded("", lambda: propose(statements, epsilon, self._world))

    def keep_sizes(self, cubes: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Sizes for the guard, read off some cubes and kept: (column, cube)."""
        from dpsql.session.cube_sizes import keep_sizes

        return self._guarded("", lambda: keep_sizes(self._world, cubes))

    def describe(self, sql: str, parameters: Parameters = ()) -> Columns:
        """The columns that a statement would have, without running or charging it."""
        return self._guarded(sql, lambda: stages.columns(sql, parameters, self._world))

    def prepare(self, sql: str) -> tuple[tuple[SqlType | None, ...], Columns]:
        """The types of a statement's parameters and its columns, before values are given; free. See stages.prepare."""
        return self._guarded(sql, lambda: stages.prepare(sql, self._world))

    def parameter_types(self, sql: str) -> tuple[SqlType | None, ...]:
        """The types of a statement's parameters alone; free."""
        return self._guarded(sql, lambda: stages.parameter_types(sql, self._world))

    def reset(self) -> None:
        """Forget what SET has left."""
        self._world.settings.clear()

    def _guarded(self, sql: str, work: Callable[[], Result]) -> Result:
        """Errors show the place; an exception that nobody foresaw is a constant text, without its chain: it may hold values.

        Raises 802 in a fork of the process that opened the session, and where a statement is running; 703, 710 and 110 where it
        is ended
        """
        limits = self.schema.limits
        statement = Cancellation(float(limits.seconds), float(limits.plan_seconds), self._worker)
        problem: Error
        try:
            require_process(self._process)
            with cancellation.under(statement), self._alone(statement):
                result = work()
                statement.check()
            return result
        except Error as raised:
            problem = statement.told(raised)
        except KeyboardInterrupt:
            problem = statement.ended(cancellation.INTERRUPTED)
        except Exception:
            problem = error(
                901, "an invariant of dpsql failed; nothing was released, and what was charged stays charged"
            )
        if problem.code in cancellation.ENDED:
            problem.span = None
        # Without the frames below: their variables may hold exact values.
        raise problem.located(sql).with_traceback(None)

    @contextmanager
    def _alone(self, statement: Cancellation) -> Iterator[None]:
        """One statement at a time: it is the one that `interrupt` ends. Raises 802 where another is running."""
        if not self._turn.acquire(blocking=False):
            raise error(802, "another statement is running on this connection", hint="open one connection per thread")
        try:
            self._running = statement
            yield
        finally:
            self._running = None
            self._turn.release()

    def remembered(self) -> list[Remembered]:
        """List what the guard remembers of everybody, for the owner."""
        return self._world.guard.remembered()

    @property
    def told(self) -> tuple[str, ...]:
        """Notes on the ledger from when the data was opened."""
        return self._world.dataset.notes

    @property
    def in_memory(self) -> bool:
        """True if the ledger is forgotten with the connection."""
        return self._world.ledger.store.file is None

    def certificates(self, fingerprints: Sequence[str]) -> list[dict[str, object]]:
        """Certificates of stored releases."""
        return self._world.stored.certificates(fingerprints)

    def with_ledger(self, work: Callable[[Ledger], Result]) -> Result:
        """Read the ledger for its owner."""
        return work(self._world.ledger)

    def ticket(self, text: str) -> str:
        """A mark that nobody can put on a text who has not the ledger's secret."""
        return hmac.digest(self._world.ledger.secret, b"ticket\0" + text.encode("utf-8"), "sha256").hex()

    @property
    def analyst(self) -> str:
        """Name of the analyst; "default" where nobody is declared and nobody named."""
        return self._world.analyst.name

    @property
    def schema(self) -> Schema:
        return self._world.schema

    def interrupt(self) -> None:
        """End the statement that is running, from any thread; nothing where none is."""
        statement = self._running
        if statement is not None:
            statement.cancel()

    def close(self) -> None:
        self._world.close()
