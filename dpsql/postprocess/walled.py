"""A DuckDB that holds nothing private and reaches nothing; what goes wrong in it is constant text."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

import duckdb

from dpsql.core import cancellation
from dpsql.core.errors import Error, error
from dpsql.engines.locked import ending, one_select, require_process, run

Typed = tuple[str, str]
"""(name, type as DuckDB writes it)"""

_TEXTS = {
    106: "the statement does not fit together: a function, operator or clause meets a type that it does not take",
    706: "the released result could not be post-processed; what was charged stays charged",
    707: "a public table cannot be read",
}

Result = TypeVar("Result")


class Walled:
    """One database, used by one statement at a time, whose errors are constant text.

    Errors     703, 710, 711, 712 and 110 where the statement was ended; 802 in a fork of the process; 901 for anything but one question

    make  the database
    rows  [rows] the most that a question may give; None: no limit
    """

    def __init__(self, make: Callable[[], duckdb.DuckDBPyConnection], rows: int | None) -> None:
        self._process = os.getpid()
        self._make, self._most = make, rows
        self._held: duckdb.DuckDBPyConnection | None = None
        self._turn = threading.RLock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """The database; made when it is first needed."""
        if self._held is None:
            self._held = self._make()
        return self._held

    def describe(self, sql: str) -> tuple[Typed, ...]:
        """The columns that a question over the tables in it would have; it is not run. Raises 106."""
        with self._turn:
            return self._walled(lambda: run(self._connection, lambda: _describe(self._connection, sql)), 106)

    def close(self) -> None:
        """Let go of it; a fork of the process leaves that to it."""
        if self._held is not None and self._process == os.getpid():
            self._held.close()

    def _read(self, result: duckdb.DuckDBPyConnection) -> tuple[list[Typed], list[tuple[object, ...]]]:
        """Columns and rows of a result that is made while it is read."""
        columns = [(str(c[0]), str(c[1])) for c in result.description or []]
        if self._most is None:
            return columns, result.fetchall()
        rows = result.fetchmany(self._most + 1)
        self._require_few(len(rows))
        return columns, rows

    def _require_few(self, rows: int) -> None:
        if self._most is not None and rows > self._most:
            raise error(cancellation.COUNTED, "more rows than the limits allow")

    def _walled(self, work: Callable[[], Result], code: int) -> Result:
        """Raise what goes wrong as constant text, outside of any except block: DuckDB's messages quote values."""
        require_process(self._process)
        try:
            return work()
        except (Exception, KeyboardInterrupt) as fault:
            known = 901 if isinstance(fault, Error) else code
            problem = ending(fault) or error(
                known, _TEXTS.get(known, "something other than one question reached the sandbox")
            )
        raise problem


def _describe(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[Typed, ...]:
    one_select(connection, sql)
    relation = connection.query(sql)
    return tuple((str(n), str(t)) for n, t in zip(relation.columns, relation.types, strict=True))
