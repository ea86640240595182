"""PEP 249: connections and cursors. An in-process connection is a convenience, not a wall against whoever holds the process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

from dpsql.clients.dbapi.cursor import Cursor, Parameters
from dpsql.clients.output.prices import StatementPrice, priced
from dpsql.core import errors
from dpsql.core.errors import error
from dpsql.schema.model import Schema
from dpsql.session.opening import open_session
from dpsql.session.result import Answer

if TYPE_CHECKING:
    from dpsql.clients.dbapi.remote import RemoteSession
    from dpsql.session.session import Session


def open_connection(
    schema: str | Path | Schema, analyst: str | None, ledger: str | Path | None, token: str | None
) -> Connection:
    """See dpsql.connect."""
    if isinstance(schema, str) and schema.lower().startswith(("https://", "http://")):
        return _on_server(schema, analyst, ledger, token)
    if token is not None:
        raise error(
            802, "a token is for a server, and this is a file", hint="write dpsql.connect('https://...', token=...)"
        )
    return Connection(open_session(schema, analyst, ledger))


def _on_server(url: str, analyst: str | None, ledger: str | Path | None, token: str | None) -> Connection:
    """A connection to a dataset on a server. Raises 715, 802, 803."""
    from dpsql.clients.dbapi.address import read_address
    from dpsql.clients.dbapi.remote import RemoteSession

    if ledger is not None:
        raise error(802, "the ledger is the server's", hint="leave ledger= out")
    session = RemoteSession(read_address(url, token))
    if analyst is not None and analyst != session.analyst:
        session.close()
        raise error(803, f"the token is {session.analyst}'s, not {analyst}'s", hint="leave the analyst out")
    return Connection(session)


class Connection:
    """One analyst's session on one dataset.

    As a context manager it closes itself: there is nothing to commit. Threads may share the module, not a connection, except for
    `interrupt`.
    """

    # PEP 249's optional extension: the exceptions as attributes of the connection
    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, session: Session | RemoteSession) -> None:
        self._session: Session | RemoteSession | None = session
        self.messages = [(errors.Warning, errors.Warning(note)) for note in session.told]
        """PEP 249's optional extension: what was noticed of the ledger when the data was opened."""
        self._settings = 0
        """Number of times that SET or RESET changed the options."""

    def __repr__(self) -> str:
        return f"<dpsql.Connection {'open' if self._session is not None else 'closed'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection cannot be copied or pickled")

    @property
    def _is_open(self) -> bool:
        return self._session is not None

    @property
    def in_memory(self) -> bool:
        """True if what is spent is forgotten with this connection."""
        return self._open().in_memory

    def _open(self) -> Session | RemoteSession:
        if self._session is None:
            raise error(802, "the connection is closed", hint="open a new one with dpsql.connect(...)")
        return self._session

    def _execute(self, sql: str, parameters: Parameters) -> Answer:
        _check_text(sql)
        answer = self._open().execute(sql, parameters)
        self._settings += not answer.columns
        return answer

    def _has_result(self, sql: str, parameters: Parameters) -> bool:
        """True if a statement gives rows, by its text alone. Raises 1xx where it cannot be read."""
        from dpsql.planner.parse import Setting, parse

        _check_text(sql)
        self._open()
        try:
            return not isinstance(parse(sql, parameters), Setting)
        except errors.Error as raised:
            problem = raised
        raise problem.located(sql)

    def cursor(self) -> Cursor:
        """A new cursor."""
        self._open()
        return Cursor(self)

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """A new cursor that has executed one statement."""
        return self.cursor().execute(sql, parameters)

    def sql(self, query: str, *, params: Parameters | None = None) -> Cursor:
        """`execute`, as DuckDB's users write it: `connection.sql("SELECT ...").df()`."""
        return self.execute(query, params)

    def executemany(self, sql: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """A new cursor that has executed one statement once for each of some parameters; see Cursor.executemany."""
        return self.cursor().executemany(sql, seq_of_parameters)

    def explain(self, sql: str, parameters: Parameters = ()) -> str:
        """The plan of a statement as text: what is released, how one person can change it, price and error. Free."""
        _check_text(sql)
        return self._open().explain(sql, parameters)

    def describe(self, sql: str, parameters: Parameters = ()) -> tuple[tuple[str, str], ...]:
        """The columns that a statement would have, as (name, SQL type). Free; nothing is run. None for SET and RESET."""
        _check_text(sql)
        return self._open().describe(sql, parameters)

    def price(self, sql: str, parameters: Parameters = ()) -> StatementPrice:
        """Estimate the price of a statement now, and what is left before it. Free; nothing is run."""
        receipt, releases = self._open().price(sql, parameters)
        return priced(receipt, False, releases)

    @property
    def analyst(self) -> str:
        """Name of the analyst who asks; "default" where nobody is declared and nobody named."""
        return self._open().analyst

    @property
    def schema(self) -> Schema:
        """The declared schema, with the columns of public tables."""
        return self._open().schema

    def commit(self) -> None:
        """Does nothing: a charge is durable before the answer is computed."""
        self._open()

    def rollback(self) -> None:
        """Does nothing: what was charged stays charged."""
        self._open()

    def interrupt(self) -> None:
        """End the running statement with 703, from another thread or a signal handler: at whatever stage it is. It says whether it was
        charged. Nothing where none is running."""
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


def _check_text(sql: object) -> None:
    if not isinstance(sql, str):
        raise error(802, f"a statement is text, not {type(sql).__name__}", hint='write cursor.execute("SELECT ...")')
