"""A client's statements on their way to the workers, and their results on the way back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dpsql.clients.dbapi.packed import Json, pack_parameters, read_columns, read_price, read_texts, reader
from dpsql.clients.dbapi.types import read_type
from dpsql.clients.output.bars import error_bars
from dpsql.clients.output.prices import StatementPrice, left, price
from dpsql.clients.server import codec, pgtypes
from dpsql.clients.server.activity import GOOD
from dpsql.clients.server.codec import Field
from dpsql.clients.server.frames import Message
from dpsql.clients.server.habits import ClientState, Done, habit, plain
from dpsql.clients.server.pool import Asked, Pool, Reply
from dpsql.clients.server.values import writer
from dpsql.core.errors import Error, error
from dpsql.core.escaping import harmless

Fields = Callable[[list[int]], list[Field]]
"""Columns of a result in the formats that a client asks for."""
Columns = Sequence[tuple[str, str]]
DRAIN = 256
"""[rows] between two looks at whether the client keeps up."""


@dataclass(slots=True)
class Result:
    """Result of one statement: rows that are still to be sent, and what is told after the last."""

    columns: Columns | None
    reply: Reply | None = None
    done: Done | None = None
    sent: int = 0
    _rows: Iterator[list[Json]] | None = None
    _next: list[Json] | None = None

    @property
    def fields(self) -> Fields | None:
        return None if self.columns is None else described(self.columns)

    @property
    def tag(self) -> str:
        if self.done is not None:
            return self.done.tag
        return f"SELECT {self.sent}" if self.columns is not None else "SET"

    async def send(self, out: asyncio.StreamWriter, formats: list[int], most: int) -> bool:
        """Write the next rows. Output: whether there are more.

        most  [rows]; 0: all
        """
        columns = self.columns or []
        if self._rows is None:
            self._rows = self._all()
            self._next = next(self._rows, None)
        kinds = [read_type(sqltype) for _, sqltype in columns]
        readers = [reader(kind) for kind in kinds]
        writers = [writer(kind, binary) for kind, binary in zip(kinds, binaries(formats, len(kinds)), strict=True)]
        count = 0
        while self._next is not None and not (most and count >= most):
            row = self._next
            out.write(codec.data_row([w(r(v)) for w, r, v in zip(writers, readers, row, strict=True)]))
            count += 1
            if count % DRAIN == 0:
                await out.drain()
            self._next = next(self._rows, None)
        self.sent += count
        return self._next is not None

    def _all(self) -> Iterator[list[Json]]:
        if self.done is not None and self.done.shown is not None:
            yield [self.done.shown[1]]
        if self.reply is not None:
            for chunk in self.reply.rows():
                yield from chunk

    def told(self, quiet: bool) -> Iterator[bytes]:
        """Messages after the rows: a changed setting; notes, price and error bars."""
        if self.done is not None and self.done.changed is not None:
            yield codec.parameter(*self.done.changed)
        if self.reply is None or quiet:
            return
        head = self.reply.head
        for note in read_texts(head.get("notes")):
            yield codec.notice(harmless(note), severity="WARNING")
        for note in read_texts(head.get("remarks")):
            yield codec.notice(harmless(f"note: {note}"))
        cost = head.get("price")
        if isinstance(cost, dict) and (cost.get("releases") or cost.get("cached")):
            yield _price_notice(self.columns or [], head, read_price(cost))


def described(columns: Columns) -> Fields:
    def fields(formats: list[int]) -> list[Field]:
        wanted = binaries(formats, len(columns))
        return [pgtypes.field(name, sqltype, binary) for (name, sqltype), binary in zip(columns, wanted, strict=True)]

    return fields


def binaries(formats: list[int], count: int) -> list[bool]:
    """Of each column whether it is sent as bytes. Raises 802 where the formats are of another number of columns."""
    if len(formats) == count and count != 1:
        return [one == 1 for one in formats]
    if len(formats) > 1:
        raise error(
            802, f"formats are given for {len(formats)} columns, and there are {count}", hint="give one for all of them"
        )
    return [formats == [1]] * count


def _price_notice(columns: Columns, head: Message, cost: StatementPrice) -> bytes:
    errors = read_errors(head)
    bars = error_bars(columns, errors) if len(errors) == len(columns) else None
    told = "; ".join(filter(None, [price(cost), f"remaining: {left(cost)}", bars]))
    detail = {
        "epsilon": float(cost.epsilon), "delta": float(cost.delta), "remaining_epsilon": float(cost.remaining),
        "remaining_delta": float(cost.remaining_delta), "cached": cost.cached, "releases": cost.releases, "as_of": cost.as_of,
        "remaining_statements": cost.statements,
        "error": {name: e for (name, _), e in zip(columns, errors, strict=False) if e is not None},
    }  # fmt: skip
    return codec.notice(harmless(told), detail=harmless(json.dumps(detail)))


def read_errors(head: Message) -> list[float | None]:
    """Largest error of each column; none where nothing was bought."""
    errors = head.get("errors")
    return [None if e is None else float(str(e)) for e in errors] if isinstance(errors, list) else []


@dataclass(slots=True)
class Asking:
    """The way of one client's statements.

    log      is given user, dataset and text of a statement, and the error or the price that came of it
    offset   [characters] of the statement in the text that the client sent
    current  what is asked now, for another connection to cancel
    """

    pool: Pool
    log: Callable[[str, str, str, str, str], None]
    offset: int = 0
    current: Asked | None = field(default=None)

    def cancel(self) -> None:
        if self.current is not None:
            self.current.cancel()

    async def execute(self, sql: str, values: Sequence[object], client: ClientState) -> Result:
        """Run a statement, which may charge. Raises dpsql's errors."""
        done = habit(sql, client)
        if done is not None:
            return Result([(done.shown[0], "VARCHAR")] if done.shown is not None else None, done=done)
        reply = await self._ask("execute", sql, values, client)
        self.log(client.user, client.dataset, sql, GOOD, reply.epsilon)
        _remember(reply.head.get("setting"), sql, client)
        columns = read_columns(reply.head.get("columns"))
        return Result(columns or None, reply)

    async def describe(self, sql: str, values: Sequence[object], client: ClientState) -> Fields | None:
        """The columns of a statement with its values; None where it has no result."""
        columns = self._of_habit(sql, client)
        if columns is None:
            reply = await self._ask("describe", sql, values, client)
            columns = read_columns(reply.head.get("columns"))
        return described(columns) if columns else None

    async def prepare(self, sql: str, client: ClientState) -> tuple[list[str | None], Fields | None]:
        """The types of a statement's parameters, and its columns."""
        columns = self._of_habit(sql, client)
        if columns is not None:
            return [], described(columns) if columns else None
        head = (await self._ask("prepare", sql, [], client)).head
        columns = read_columns(head.get("columns"))
        return read_types(head), described(columns) if columns else None

    async def types(self, sql: str, client: ClientState) -> list[str | None]:
        """The types of a statement's parameters alone."""
        return read_types((await self._ask("types", sql, [], client)).head)

    @staticmethod
    def _of_habit(sql: str, client: ClientState) -> Columns | None:
        """The columns of a habit, which is not followed, and of nothing; None for any other statement."""
        if not plain(sql):
            return []
        copy = ClientState(client.user, client.dataset, client.in_transaction, {}, dict(client.parameters))
        done = habit(sql, copy)
        if done is None:
            return None
        return [(done.shown[0], "VARCHAR")] if done.shown is not None else []

    async def _ask(self, op: str, sql: str, values: Sequence[object], client: ClientState) -> Reply:
        content: Message = {
            "op": op, "analyst": client.user, "sql": sql, "parameters": pack_parameters(values),
            "settings": list(client.settings.values()), "catalog": True,
        }  # fmt: skip
        asked = self.current = Asked()
        limit = client.timeout
        timer = asyncio.get_running_loop().call_later(limit, asked.cancel) if limit is not None else None
        try:
            return await self.pool.ask(content, asked)
        except Error as problem:
            self.log(client.user, client.dataset, sql, codec.state_of(problem), "")
            raise
        finally:
            self.current = None
            if timer is not None:
                timer.cancel()


def _remember(setting: Json, sql: str, client: ClientState) -> None:
    """A SET that was accepted is sent along from now on."""
    if isinstance(setting, list) and len(setting) == 2:
        client.settings.pop(str(setting[0]), None)
        if setting[1] is True:
            client.settings[str(setting[0])] = sql


def read_types(head: Message) -> list[str | None]:
    found = head.get("parameters")
    return [None if one is None else str(one) for one in found] if isinstance(found, list) else []
