"""Connections to a PostgreSQL server: settings that leave nothing to chance, transactions that only read, errors of constant text."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

from dpsql.core.cancellation import run
from dpsql.core.errors import error
from dpsql.engines.served import outlive_forks

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"

Rows = list[tuple[object, ...]]
_SETTINGS = (
    "SET search_path = pg_catalog",
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO, YMD'",
    "SET IntervalStyle = 'postgres'",
    "SET extra_float_digits = 1",
    "SET bytea_output = 'hex'",
    "SET standard_conforming_strings = on",
    "SET client_min_messages = error",
    "SET row_security = off",
    # what is shown of a column hides its statistics, and a loop over what was thought to be few rows takes for ever
    "SET enable_nestloop = off",
    'CREATE TEMP TABLE "dpsql secret" ("cut" text, "rows" text)',
)
_BEGIN = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Server:
    """Connections of one process to one database, each used by one statement at a time.

    Errors  707 where it cannot be reached
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._free: list[Connection] = []
        self._closed = False

    def __repr__(self) -> str:
        return "<Server>"

    @contextmanager
    def transaction(self, seconds: float | None = None) -> Iterator[Transaction]:
        """One transaction that reads one version of all tables.

        seconds  [s] after which the server ends a question by itself
        """
        connection = self._taken()
        whole = False
        try:
            connection.execute(_BEGIN)
            connection.execute(f"SET LOCAL statement_timeout = {0 if seconds is None else int(seconds * 1000) + 2000}")
            yield Transaction(connection)
            connection.execute("ROLLBACK")
            whole = True
        finally:
            self._given_back(connection, whole)

    def _taken(self) -> Connection:
        with self._lock:
            if self._free:
                return self._free.pop()
        return _connected(self._source)

    def _given_back(self, connection: Connection, whole: bool) -> None:
        """One that failed is not used again."""
        with self._lock:
            if whole and not self._closed:
                self._free.append(connection)
                return
        with suppress(Exception):
            connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for connection in free:
            with suppress(Exception):
                connection.close()


class Transaction:
    """A transaction that is open: its questions are ended with the statement that they are of."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def keep(self, cut: str, rows: str) -> None:
        """Put the key of the cut, and that of row hashes, where questions find them: in a table of the connection's own, so in no text
        and no log (rule 49). COPY is logged without its rows."""
        self._connection.execute('DELETE FROM pg_temp."dpsql secret"')
        with self._connection.cursor() as cursor, cursor.copy('COPY pg_temp."dpsql secret" FROM STDIN') as copy:
            copy.write_row((cut, rows))

    def rows(self, sql: str) -> Rows:
        """Raises psycopg's exceptions, and what ends the statement: callers keep it inside their wall."""
        return run(self._interrupt, lambda: self._connection.execute(sql.encode()).fetchall())

    def _interrupt(self) -> None:
        with suppress(Exception):
            self._connection.cancel_safe(timeout=1.0)


def driver() -> None:
    """Raise 707 where psycopg is missing."""
    try:
        import psycopg  # noqa: F401

        return
    except ImportError:
        pass
    raise error(707, "PostgreSQL is read with psycopg, which is missing", hint="pip install 'dpsql[postgres]'")


def parts(source: str) -> dict[str, str]:
    """The parts of a source: host, port, dbname, user and so on. Raises 707."""
    driver()
    from psycopg.conninfo import conninfo_to_dict

    found: dict[str, str] | None = None
    with suppress(Exception):
        found = {key: str(value) for key, value in conninfo_to_dict(source).items() if value is not None}
    if found is None:
        raise error(
            707, "[dataset] source is no address of a database", hint="write postgresql://user@host:5432/database"
        )
    return found


def _connected(source: str) -> Connection:
    driver()
    import psycopg

    connection: Connection | None = None
    problem = "the database cannot be reached"
    hint = "see that the server runs and lets this user in; keep the password in ~/.pgpass or PGPASSWORD"
    try:
        connection = psycopg.connect(source, autocommit=True, application_name="dpsql", connect_timeout=10)
        outlive_forks(connection)
        if connection.info.parameter_status("server_encoding") == "UTF8" and connection.info.server_version >= 130000:
            connection.execute("SET client_encoding = 'UTF8'")
            for setting in _SETTINGS:
                connection.execute(setting)
            return connection
        problem, hint = "the database is not of PostgreSQL 13 or newer in UTF-8", "use one that is"
    except psycopg.errors.InsufficientPrivilege:
        problem, hint = (
            "the user may not make temporary tables, where secrets are kept from the logs",
            "GRANT TEMPORARY",
        )
    except psycopg.Error:
        pass
    if connection is not None:
        with suppress(Exception):
            connection.close()
    raise error(707, f"[dataset] source: {problem}", hint=hint)
