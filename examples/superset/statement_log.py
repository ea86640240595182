"""Writes down every statement that Superset sends, as a line of JSON, with its price or the refusal."""

import json
import threading
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.pool import Pool

import dpsql

_writing = threading.Lock()


def start(path: Path) -> None:
    """From now on, every connection to dpsql writes to a file."""

    @event.listens_for(Pool, "connect")
    def connected(connection: Any, record: Any) -> None:
        if isinstance(connection, dpsql.Connection):
            connection.cursor = lambda: LoggedCursor(connection, path)


class LoggedCursor(dpsql.Cursor):
    """A cursor that writes down what it is asked."""

    def __init__(self, connection: dpsql.Connection, path: Path) -> None:
        super().__init__(connection)
        self._path = path

    def execute(self, sql: str, parameters: Any = None) -> dpsql.Cursor:
        try:
            super().execute(sql, parameters)
        except dpsql.Error as problem:
            self._write(sql, code=problem.code, message=problem.message, hint=problem.hint)
            raise
        cost = self.privacy
        self._write(sql, epsilon=float(cost.epsilon), delta=float(cost.delta), stored=cost.cached)
        return self

    def _write(self, sql: str, **outcome: object) -> None:
        with _writing, self._path.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"sql": sql, **outcome}) + "\n")
