"""Session on a server, over HTTP: the same answers, prices, errors and notes as of one in this process, which holds no data.

Each statement carries a key of its own. Where the connection breaks, it is asked again with that key, and is charged once at most.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from dpsql.clients.dbapi.address import ServerAddress
from dpsql.clients.dbapi.declared_json import read_schema
from dpsql.clients.dbapi.packed import (
    Json,
    Values,
    pack_parameters,
    read_columns,
    read_error,
    read_receipt,
    read_rows,
    read_texts,
    reader,
)
from dpsql.clients.dbapi.types import read_type
from dpsql.core.cancellation import Task
from dpsql.core.errors import Error, error
from dpsql.plan.charges import Receipt
from dpsql.plan.tables import Accuracy
from dpsql.release.staging import Accuracies
from dpsql.schema.model import Schema
from dpsql.session.result import Answer

Message = dict[str, Json]
ATTEMPTS = 4
"""Times that a statement is asked where the connection breaks."""
PAUSE_SECONDS = 0.2
CONNECT_SECONDS = 20.0
LOOK_SECONDS = 0.1
Row = tuple[Accuracy | None, ...]


class RemoteSession:
    """One analyst's session on a dataset that a server holds."""

    def __init__(self, address: ServerAddress) -> None:
        """Raises 715 where the server cannot be reached, 803 where it does not know the token."""
        self._link = _Link(address)
        self._settings: dict[str, str] = {}
        self._turn = threading.Lock()
        self._running = ""
        found = self._link.ask("GET", "schema", None)
        self.schema: Schema = read_schema(found.get("schema"))
        self.analyst = str(found.get("analyst"))
        self.told = read_texts(found.get("told"))
        self.in_memory = found.get("in_memory") is True

    def execute(self, sql: str, parameters: Values = ()) -> Answer:
        """Answer one statement, or raise an Error that says why not."""
        found = self._ask("execute", sql, parameters, accuracy=True)
        setting = found.get("setting")
        if isinstance(setting, list) and len(setting) == 2:
            self._settings.pop(str(setting[0]), None)
            if setting[1] is True:
                self._settings[str(setting[0])] = sql
        return read_answer(found)

    def explain(self, sql: str, parameters: Values = ()) -> str:
        return str(self._ask("explain", sql, parameters).get("text"))

    def describe(self, sql: str, parameters: Values = ()) -> tuple[tuple[str, str], ...]:
        return read_columns(self._ask("describe", sql, parameters).get("columns"))

    def price(self, sql: str, parameters: Values = ()) -> tuple[Receipt, int]:
        found = self._ask("price", sql, parameters).get("price")
        cost = found if isinstance(found, dict) else {}
        return read_receipt(cost), int(str(cost.get("releases", 0)))

    def certificates(self, fingerprints: Sequence[str]) -> list[dict[str, object]]:
        tickets: list[Json] = list(fingerprints)
        found = self._ask("certificates", "", (), tickets=tickets).get("certificates")
        return [dict(one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def interrupt(self) -> None:
        """End the statement that is running, from any thread; nothing where none is, or where the server cannot be reached."""
        key = self._running
        if key:
            self._link.cancel(key)

    def close(self) -> None:
        self._link.close()

    def _ask(self, op: str, sql: str, parameters: Values, **more: Json) -> Message:
        """Ask in a thread of its own: so that Ctrl-C reaches this one, and ends the statement as it does in a process. Raises 802 where
        another statement is running."""
        if not self._turn.acquire(blocking=False):
            raise error(802, "another statement is running on this connection", hint="open one connection per thread")
        try:
            settings: list[Json] = list(self._settings.values())
            body: Message = {"sql": sql, "parameters": pack_parameters(parameters), "settings": settings, **more}
            key = self._running = secrets.token_hex(16)
            task = Task(lambda: self._link.ask("POST", op, body, key))
            task.begin()
            pressed = False
            while not task.done.is_set():
                try:
                    task.done.wait(LOOK_SECONDS)
                except KeyboardInterrupt:
                    pressed = True
                # again and again: the server may not know of it yet
                if pressed:
                    self._link.cancel(key)
            if task.fault is None:
                return task.result()
            problem = (
                task.fault if isinstance(task.fault, Error) else error(901, "an answer of the server cannot be read")
            )
            raise problem.located(sql).with_traceback(None)
        finally:
            self._running = ""
            self._turn.release()


class _Link:
    """Connection to a server, opened anew where it broke, and in a process that forked."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._context = ssl.create_default_context() if address.secure else None
        self._open: http.client.HTTPConnection | None = None
        self._process = os.getpid()

    def ask(self, method: str, what: str, body: Message | None, key: str = "") -> Message:
        """Raises the server's error; 715 where it cannot be reached."""
        if self._process != os.getpid():
            self._open, self._process = None, os.getpid()
        said = None if body is None else json.dumps(body)
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE_SECONDS * 2**attempt)
            try:
                if self._open is None:
                    self._open = self._connection()
                return self._exchange(self._open, method, what, said, key)
            except (OSError, http.client.HTTPException):
                self.close()
        hint = "see that `dpsql serve --http` runs there; what was charged stays charged, and its answer is stored"
        raise error(715, f"the server at {self._address.place} does not answer", hint=hint)

    def cancel(self, key: str) -> None:
        """On a connection of its own: the other one waits for what is to end."""
        connection = self._connection()
        try:
            self._exchange(connection, "DELETE", f"statements/{key}", None, "")
        except (OSError, http.client.HTTPException, Error):
            pass
        finally:
            connection.close()

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, what: str, body: str | None, key: str
    ) -> Message:
        headers = {"Authorization": f"Bearer {self._address.token}", "Accept": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        connection.request(method, f"{self._address.path}/{what}", body, headers)
        response = connection.getresponse()
        return _read(response.status, response.read())

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._address.host, self._address.port
        if self._context is None:
            made = http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)
        else:
            made = http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=self._context)
        made.connect()
        # from here on a statement may take as long as the owner lets it
        made.sock.settimeout(None)
        return made

    def close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()


def _read(status: int, body: bytes) -> Message:
    """The object in a response. Raises the error that it tells; 715 for one of something else than a server of dpsql."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        problem = found.get("error")
        if isinstance(problem, dict):
            raise read_error(problem)
        if status == 200:
            return found
    raise error(715, f"what answers is no server of dpsql: HTTP {status}", hint="write https://HOST:8439/DATASET")


# --- answers --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GivenAccuracies(Accuracies):
    """Intervals that a server told. given  per row and cell; may_have  of each column whether its values may have one"""

    given: Sequence[Row] = ()
    may_have: tuple[bool, ...] = ()

    @property
    def noisy(self) -> tuple[bool, ...]:
        return self.may_have

    def __len__(self) -> int:
        return len(self.given)

    @overload
    def __getitem__(self, i: int) -> Row: ...
    @overload
    def __getitem__(self, i: slice) -> list[Row]: ...
    def __getitem__(self, i: int | slice) -> Row | list[Row]:
        return list(self.given[i]) if isinstance(i, slice) else self.given[i]


def read_answer(found: Message) -> Answer:
    """An answer as the server packed it."""
    columns, cost = read_columns(found.get("columns")), found.get("price")
    price = cost if isinstance(cost, dict) else {}
    packed = found.get("rows")
    rows = read_rows(columns, packed) if isinstance(packed, list) else []  # type: ignore[arg-type]
    noisy = found.get("noisy")
    may_have = tuple(one is True for one in noisy) if isinstance(noisy, list) else (False,) * len(columns)
    return Answer(
        columns,
        rows,
        GivenAccuracies({}, (), (), None, _intervals(columns, found.get("accuracy"), len(rows)), may_have),
        read_receipt(price),
        price.get("cached") is True,
        int(str(price.get("releases", 0))),
        read_texts(found.get("notes")),
        read_texts(found.get("tickets")),
        (),
        read_texts(found.get("remarks")),
        str(price.get("as_of", "")),
    )


def _intervals(columns: Sequence[tuple[str, str]], packed: Json, rows: int) -> list[Row]:
    if not isinstance(packed, list) or len(packed) != rows:
        return [(None,) * len(columns)] * rows
    kinds = [read_type(text) for _, text in columns]
    ends = [reader(kind if kind.name in ("DATE", "TIMESTAMP", "TIME") else read_type("DOUBLE")) for kind in kinds]

    def cell(at: int, one: Json) -> Accuracy | None:
        if not isinstance(one, list) or len(one) != 3:
            return None
        return Accuracy(ends[at](one[0]), ends[at](one[1]), float(str(one[2])))  # type: ignore[arg-type]

    return [tuple(cell(at, one) for at, one in enumerate(row if isinstance(row, list) else ())) for row in packed]
