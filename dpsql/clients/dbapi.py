"""PEP 249: connections and cursors. An in-process connection is a convenience, not a wall against whoever holds the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType

from dpsql import errors
from dpsql.errors import error
from dpsql.mechanisms.prices import nominal
from dpsql.mechanisms.source import NoiseSource
from dpsql.plan import Accuracy
from dpsql.schema.model import Analyst, Schema
from dpsql.session import Answer, Session

Parameters = Sequence[object] | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Privacy:
    """What one statement cost.

    epsilon, delta    of this statement; 0 where it was free or stored. Gaussian noise has no epsilon without a delta: of it, the
                      epsilon that a pure mechanism of the same rho may have, as it was asked
    remaining         [nats] the largest epsilon that one more statement may cost, of the dataset's total and the analyst's caps
    remaining_delta   [probability] the same for the delta of thresholds
    cached            whether everything came from stored answers
    releases          how many releases were charged
    rho               [zCDP] of this statement
    """

    epsilon: Fraction
    delta: Fraction
    remaining: Fraction
    remaining_delta: Fraction
    cached: bool
    releases: int
    rho: Fraction = Fraction(0)


def default_ledger(schema: Schema) -> Path:
    """Where a dataset's ledger is kept."""
    return schema.folder / (schema.ledger if schema.ledger is not None else f"{schema.name}.ledger")


def ledger_identity(schema: Schema) -> str:
    """What a ledger is bound to."""
    return f"{schema.name} ({schema.privacy.unit})"


def find_analyst(schema: Schema, name: str | None) -> Analyst:
    """The analyst of that name; without declared analysts any name is a label."""
    if schema.analysts is None:
        return Analyst(name or "default")
    found = next((a for a in schema.analysts if a.name == name), None)
    if found is None:
        who = f"{name!r} is not a declared analyst" if name else "this dataset is open to declared analysts only"
        raise error(803, who, hint='ask the owner, or write analyst="..." with a declared name')
    return found


def open_connection(schema: str | Path | Schema, analyst: str | None, ledger: str | Path | None) -> Connection:
    """See dpsql.connect."""
    return Connection(open_session(schema, analyst, ledger))


def open_session(
    schema: str | Path | Schema, analyst: str | None, ledger: str | Path | None, noise: NoiseSource | None = None
) -> Session:
    """Read the schema, open the ledger and the data, and find the analyst.

    noise  where randomness comes from; tests alone pass one
    """
    from dpsql.accounting.ledger import Ledger
    from dpsql.opening import open_dataset

    declared = schema if isinstance(schema, Schema) else Schema.from_toml(schema)
    who = find_analyst(declared, analyst)
    opened = Ledger.open(ledger if ledger is not None else default_ledger(declared), ledger_identity(declared))
    try:
        dataset = open_dataset(declared, opened, approve=declared.analysts is None)
    except BaseException:
        opened.close()
        raise
    return Session(dataset, opened, who, noise)


class Connection:
    """One analyst's session on one dataset."""

    def __init__(self, session: Session) -> None:
        self._session: Session | None = session
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<dpsql.Connection {'open' if self._session is not None else 'closed'}>"

    def _open(self) -> Session:
        if self._session is None:
            raise error(802, "the connection is closed", hint="open a new one with dpsql.connect(...)")
        return self._session

    def _execute(self, sql: str, parameters: Parameters) -> Answer:
        if not isinstance(sql, str):
            raise error(
                802, f"a statement is text, not {type(sql).__name__}", hint='write cursor.execute("SELECT ...")'
            )
        with self._alone() as session:
            return session.execute(sql, parameters)

    @contextmanager
    def _alone(self) -> Iterator[Session]:
        """The session, for one statement at a time. Raises 802 where another is running."""
        session = self._open()
        if not self._lock.acquire(blocking=False):
            raise error(802, "another statement is running on this connection", hint="open one connection per thread")
        try:
            yield session
        finally:
            self._lock.release()

    def cursor(self) -> Cursor:
        self._open()
        return Cursor(self)

    def execute(self, sql: str, parameters: Parameters = ()) -> Cursor:
        """A new cursor that has executed one statement."""
        return self.cursor().execute(sql, parameters)

    def explain(self, sql: str, parameters: Parameters = ()) -> str:
        """The plan of a statement as text: what is released, how one person can change it, price and error. Free."""
        with self._alone() as session:
            return session.explain(sql, parameters)

    def commit(self) -> None:
        """Does nothing: a charge is durable before the answer is computed."""
        self._open()

    def rollback(self) -> None:
        """Does nothing: what was charged stays charged."""
        self._open()

    def interrupt(self) -> None:
        """Stop the running statement, from another thread. Its charge stands."""
        self._open().interrupt()

    def close(self) -> None:
        """Close; everything else raises afterwards. Closing twice is fine."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Cursor:
    """Executes statements and hands out their rows."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._answer: Answer | None = None
        self._position = 0
        self._closed = False

    def __repr__(self) -> str:
        return f"<dpsql.Cursor {'closed' if self._closed else 'open'}>"

    def execute(self, sql: str, parameters: Parameters = ()) -> Cursor:
        """Run one statement. Parameters: a sequence for `?` and `$1`, a mapping for `:name`.

        Raises dpsql.Error; a refusal (1xx to 6xx) cost nothing, from 7xx on the charge stands.
        """
        self._check_open()
        self._answer, self._position = None, 0
        if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping):
            raise error(802, "parameters are a list or a dictionary", hint="write execute(sql, [value])")
        self._answer = self.connection._execute(sql, parameters)
        return self

    def executemany(self, sql: str, seq_of_parameters: Sequence[Parameters]) -> Cursor:
        """Refused: every statement is a question with a price of its own."""
        raise error(802, "executemany is for statements without results", hint="call execute once per question")

    def _check_open(self) -> None:
        if self._closed:
            raise error(802, "the cursor is closed", hint="make a new one with connection.cursor()")
        self.connection._open()

    def _result(self) -> Answer:
        self._check_open()
        if self._answer is None:
            raise error(802, "nothing has been executed", hint="call execute first")
        return self._answer

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, None]] | None:
        """Seven fields a column: name, type, and five that are None."""
        if self._answer is None or not self._answer.columns:
            return None
        return [(name, kind, None, None, None, None, None) for name, kind in self._answer.columns]

    @property
    def rowcount(self) -> int:
        return len(self._answer.rows) if self._answer is not None else -1

    @property
    def privacy(self) -> Privacy:
        """What the last statement cost, and what is left."""
        answer = self._result()
        loss, left = answer.receipt.loss, answer.receipt.remaining
        return Privacy(nominal(loss), loss.delta, left.epsilon, left.delta, answer.cached, answer.releases, loss.rho)

    @property
    def certificates(self) -> list[dict[str, object]]:
        """One for each release of the last statement: what was asked, the mechanisms and their noise, the loss in every accountant's
        measure, and the place in the ledger. A stored answer has those of the charge that bought it."""
        return self.connection._open().certificates(self._result().fingerprints)

    @property
    def accuracy(self) -> list[tuple[Accuracy | None, ...]]:
        """Parallel to the rows: per cell an interval that holds the exact value with its level, or None."""
        return list(self._result().accuracy)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the guard warns of, in mode "warn"."""
        return self._result().notes

    def fetchone(self) -> tuple[object, ...] | None:
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[tuple[object, ...]]:
        rows = self._result().rows
        start = self._position
        self._position = min(len(rows), start + (self.arraysize if size is None else size))
        return rows[start : self._position]

    def fetchall(self) -> list[tuple[object, ...]]:
        rows = self._result().rows[self._position :]
        self._position += len(rows)
        return rows

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing (PEP 249 allows that)."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing (PEP 249 allows that)."""

    def close(self) -> None:
        self._closed = True
        self._answer = None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


_EXCEPTIONS = (
    errors.Warning,
    errors.Error,
    errors.InterfaceError,
    errors.DatabaseError,
    errors.DataError,
    errors.OperationalError,
    errors.IntegrityError,
    errors.InternalError,
    errors.ProgrammingError,
    errors.NotSupportedError,
)
# PEP 249's optional extension: the exceptions as attributes of the connection.
for _class in _EXCEPTIONS:
    setattr(Connection, _class.__name__, _class)
