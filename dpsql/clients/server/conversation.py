"""One client who has logged in: messages in, messages out. Simple questions, and those in parts: Parse, Bind, Describe, Execute.

Parse keeps a text; Describe plans it, free; Execute alone may charge. What a client sends after an error is passed over up to Sync.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from dpsql.clients.server import codec
from dpsql.clients.server.asking import Asking, Result
from dpsql.clients.server.codec import Broken, Fields
from dpsql.clients.server.habits import REPORTED, ClientState, plain
from dpsql.clients.server.pgtypes import UNTYPED, known, of_parameter
from dpsql.clients.server.values import read_parameter
from dpsql.clients.terminal.statements import split
from dpsql.core.errors import Error, error

MOST_HELD = 1000
"""Statements, and portals, that a client may have prepared at once."""
MOST_STATEMENTS = 10_000
"""Semicolons of a text that is sent as a whole."""
TEXT_OID = 25


@dataclass(slots=True)
class Prepared:
    """A text with the types of its parameters as the client gave them; 0 where it did not, and they are inferred when asked for."""

    sql: str
    oids: list[int]
    inferred: bool = False


@dataclass(slots=True)
class Portal:
    """A statement with its values.

    result     once it was executed
    described  whether a Describe waits for the columns, which come with the execution if that is what follows
    """

    prepared: Prepared
    values: list[object]
    formats: list[int]
    result: Result | None = None
    described: bool = False


@dataclass(slots=True)
class Conversation:
    """One client's conversation."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    client: ClientState
    asking: Asking
    statements: dict[str, Prepared] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    _passing: bool = False

    async def run(self) -> None:
        """Until the client leaves. Raises Broken, OSError, IncompleteReadError."""
        while True:
            await self.writer.drain()
            kind, body = await codec.read_message(self.reader, codec.AFTER_LOGIN)
            if kind == b"X":
                return
            await self._message(kind, Fields(body))

    def begin(self, process: int, secret: int) -> None:
        """Tell a client that has logged in what there is."""
        parts = [codec.parameter(name, self.client.value(name.lower()) or "") for name in REPORTED]
        self.writer.write(b"".join([*parts, codec.key(process, secret)]))
        self._ready()

    def _ready(self) -> None:
        self.writer.write(codec.ready(b"T" if self.client.in_transaction else b"I"))

    async def _message(self, kind: bytes, fields: Fields) -> None:
        if kind == b"S":
            await self._sync()
            return
        if self._passing and kind != b"Q":
            return
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise Broken("a message of a kind that is not spoken here", "0A000")
        try:
            if kind not in b"EC":
                await self._tell_columns()
            await handler(self, fields)
        except Error as problem:
            self.writer.write(codec.refusal(problem, self.asking.offset))
            self._passing = kind != b"Q"
            if kind == b"Q":
                self._ready()

    # --- simple questions -----------------------------------------------------------------------------------------------

    async def _query(self, fields: Fields) -> None:
        text = fields.text()
        fields.end()
        self._passing = False
        self.asking.offset = 0
        if text.count(";") > MOST_STATEMENTS:
            what = f"a text holds more than {MOST_STATEMENTS:,} semicolons"
            raise error(107, what, hint="send its statements one by one")
        if not plain(text):
            self.writer.write(codec.EMPTY)
        else:
            for one in split(text):
                # others have their turn, also where none of these asks a worker
                await asyncio.sleep(0)
                self.asking.offset = one.start
                result = await self.asking.execute(one.sql, [], self.client)
                if result.fields is not None:
                    self.writer.write(codec.row_description(result.fields([])))
                await result.send(self.writer, [], 0)
                self._finish(result)
        self._ready()

    def _finish(self, result: Result) -> None:
        for one in result.told(self.client.quiet):
            self.writer.write(one)
        self.writer.write(codec.complete(result.tag))

    # --- questions in parts ---------------------------------------------------------------------------------------------

    async def _parse(self, fields: Fields) -> None:
        name, sql = fields.text(), fields.text()
        oids = [fields.int32() for _ in range(fields.int16())]
        fields.end()
        if len(self.statements) >= MOST_HELD:
            raise error(107, f"more than {MOST_HELD} statements are prepared", hint="close some of them")
        self.statements[name] = Prepared(sql, oids)
        self.writer.write(codec.PARSED)

    async def _bind(self, fields: Fields) -> None:
        portal, name = fields.text(), fields.text()
        formats = [fields.int16() for _ in range(fields.int16())]
        values = [fields.value() for _ in range(fields.int16())]
        shown = [fields.int16() for _ in range(fields.int16())]
        fields.end()
        prepared = self._prepared(name)
        if any(one not in (0, 1) for one in (*formats, *shown)) or len(formats) not in (0, 1, len(values)):
            raise Broken("Bind names a format that there is not")
        binary = [bool(formats[at if len(formats) > 1 else 0]) if formats else False for at in range(len(values))]
        await self._infer(prepared, len(values))
        read = [self._value(prepared, at, value, binary[at]) for at, value in enumerate(values)]
        if len(self.portals) >= MOST_HELD:
            raise error(107, f"more than {MOST_HELD} portals are open", hint="close some of them")
        self.portals[portal] = Portal(prepared, read, shown)
        self.writer.write(codec.BOUND)

    async def _infer(self, prepared: Prepared, count: int) -> None:
        """The types that the client left open, where a value is given for one of them."""
        given = prepared.oids
        if prepared.inferred or (len(given) >= count and not any(oid in UNTYPED for oid in given[:count])):
            return
        if count:
            self._merge(prepared, await self.asking.types(prepared.sql, self.client))

    @staticmethod
    def _merge(prepared: Prepared, types: list[str | None]) -> None:
        own = prepared.oids + [0] * (len(types) - len(prepared.oids))
        # 0 stays where nothing says a type: as text it may be sent, as bytes not
        prepared.oids = [
            of_parameter(t) if oid in UNTYPED and t is not None else oid for oid, t in zip(own, types, strict=False)
        ]
        prepared.inferred = True

    @staticmethod
    def _value(prepared: Prepared, at: int, value: bytes | None, binary: bool) -> object:
        oid = prepared.oids[at] if at < len(prepared.oids) else 0
        if oid in UNTYPED:
            if binary and value is not None:
                what = f"nothing says of what type parameter {at + 1} is, and bytes of an unknown type are not read"
                raise error(108, what, hint=f"write CAST(${at + 1} AS DOUBLE), or send it as text")
            oid = TEXT_OID
        kind = known(oid)
        if kind is None:
            raise error(
                108,
                f"parameter {at + 1} is of a type that statements do not take",
                hint="cast it to a number, text or date",
            )
        return read_parameter(value, kind, binary, at + 1)

    async def _describe(self, fields: Fields) -> None:
        what, name = fields.take(1), fields.text()
        fields.end()
        if what == b"P":
            self._portal(name).described = True
            return
        if what != b"S":
            raise Broken("Describe names neither a statement nor a portal")
        prepared = self._prepared(name)
        types, described = await self.asking.prepare(prepared.sql, self.client)
        self._merge(prepared, types)
        oids = [oid if oid not in UNTYPED else TEXT_OID for oid in prepared.oids]
        self.writer.write(codec.parameter_description(oids))
        self.writer.write(codec.NO_DATA if described is None else codec.row_description(described([])))

    async def _tell_columns(self, other: Portal | None = None) -> None:
        """Answer a Describe of a portal that no Execute followed."""
        for portal in self.portals.values():
            if portal.described and portal is not other:
                portal.described = False
                described = await self.asking.describe(portal.prepared.sql, portal.values, self.client)
                self.writer.write(
                    codec.NO_DATA if described is None else codec.row_description(described(portal.formats))
                )

    async def _execute(self, fields: Fields) -> None:
        portal, most = self._portal(fields.text()), fields.int32()
        fields.end()
        await self._tell_columns(portal)
        if not plain(portal.prepared.sql):
            self.writer.write(codec.NO_DATA * portal.described + codec.EMPTY)
            portal.described = False
            return
        if portal.result is None:
            portal.result = await self.asking.execute(portal.prepared.sql, portal.values, self.client)
        result = portal.result
        if portal.described:
            portal.described = False
            self.writer.write(
                codec.NO_DATA if result.fields is None else codec.row_description(result.fields(portal.formats))
            )
        if await result.send(self.writer, portal.formats, max(0, most)):
            self.writer.write(codec.SUSPENDED)
        else:
            self._finish(result)

    async def _close(self, fields: Fields) -> None:
        what, name = fields.take(1), fields.text()
        fields.end()
        await self._tell_columns()
        (self.statements if what == b"S" else self.portals).pop(name, None)
        self.writer.write(codec.CLOSED)

    async def _flush(self, fields: Fields) -> None:
        fields.end()

    async def _sync(self) -> None:
        try:
            if not self._passing:
                await self._tell_columns()
        except Error as problem:
            self.writer.write(codec.refusal(problem))
        self._passing = False
        if not self.client.in_transaction:
            self.portals.clear()
        self._ready()

    def _prepared(self, name: str) -> Prepared:
        if name not in self.statements:
            raise error(802, f"there is no prepared statement {name[:60]!r}", hint="prepare it first")
        self.asking.offset = 0
        return self.statements[name]

    def _portal(self, name: str) -> Portal:
        if name not in self.portals:
            raise error(802, f"there is no portal {name[:60]!r}", hint="bind a statement first")
        self.asking.offset = 0
        return self.portals[name]


_HANDLERS = {
    b"Q": Conversation._query,
    b"P": Conversation._parse,
    b"B": Conversation._bind,
    b"D": Conversation._describe,
    b"E": Conversation._execute,
    b"C": Conversation._close,
    b"H": Conversation._flush,
}
