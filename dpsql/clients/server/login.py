"""The way into the server: TLS, the startup message, the password. Whoever does not get in is told the same, whatever was wrong."""

from __future__ import annotations

import asyncio
import re
import ssl
import struct
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dpsql.clients.server import codec, scram
from dpsql.clients.server.codec import Broken, Fields
from dpsql.clients.server.scram import Exchange, NotAuthenticated, Verifier

LOGIN_SECONDS = 10.0
LONGEST_PAUSE, FIRST_PAUSE, MOST_PAUSED = 8.0, 0.5, 10_000
_OPTION = re.compile(r"(?:-c\s*|--)(\w+)=((?:\\.|\S)+)")


@dataclass(frozen=True, slots=True)
class Cancel:
    """Request of another connection to end what a client runs."""

    process: int
    secret: int


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who says who they are, before they show it.

    parameters  of the startup message, and of its `options`
    """

    user: str
    database: str
    parameters: dict[str, str]


class Pauses:
    """Pauses after failed logins: longer with each one of a name, and forgotten with a right one."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, int] = OrderedDict()

    def after_failure(self, user: str) -> float:
        """[seconds] to wait before the failure is told."""
        count = self._failed.pop(user, 0)
        self._failed[user] = count + 1
        if len(self._failed) > MOST_PAUSED:
            self._failed.popitem(last=False)
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(count, 10))

    def forget(self, user: str) -> None:
        self._failed.pop(user, None)


async def greet(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext | None, required: bool
) -> Visitor | Cancel:
    """Read up to the startup message, with TLS where it is asked for and there is a certificate.

    required  whether nobody gets further without TLS
    Errors    Broken, OSError, IncompleteReadError
    """
    secure = False
    for _ in range(3):
        code, body = await codec.read_opening(reader)
        if code == codec.SSL_REQUEST and not body:
            secure = await _secure(reader, writer, context) or secure
        elif code == codec.GSS_REQUEST and not body:
            writer.write(b"N")
        elif code == codec.CANCEL_REQUEST and len(body) == 8:
            return Cancel(*struct.unpack("!II", body))
        elif code >> 16 == codec.VERSION_3:
            if required and not secure:
                raise Broken("this server is reached with TLS alone: connect with sslmode=require", "28000")
            return _visitor(codec.startup_parameters(body), code & 0xFFFF, writer)
        else:
            raise Broken("only version 3 of PostgreSQL's protocol is spoken")
    raise Broken("the first message asks for TLS again and again")


async def _secure(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext | None) -> bool:
    """Begin TLS where there is a certificate. What came before it, in plain text, ends the
    connection: it would be believed to have come inside."""
    if context is None:
        writer.write(b"N")
        return False
    transport = writer.transport
    assert isinstance(transport, asyncio.ReadTransport)
    transport.pause_reading()
    if getattr(reader, "_buffer", b""):
        raise Broken("something came before TLS began")
    writer.write(b"S")
    await writer.start_tls(context)
    return True


def _visitor(given: dict[str, str], minor: int, writer: asyncio.StreamWriter) -> Visitor:
    if not given.get("user"):
        raise Broken("the startup message names no user", "28000")
    if given.get("replication", "off").lower() not in ("off", "false", "0", "no"):
        raise Broken("there is nothing to replicate here", "0A000")
    unknown = [name for name in given if name.startswith("_pq_.")]
    if minor or unknown:
        writer.write(codec.protocol_version(unknown))
    options = {
        name.lower(): re.sub(r"\\(.)", r"\1", value) for name, value in _OPTION.findall(given.get("options", ""))
    }
    others = {
        name.lower(): value
        for name, value in given.items()
        if name not in ("user", "database", "options", "replication")
    }
    return Visitor(given["user"], given.get("database") or given["user"], {**options, **others})


async def authenticate(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    verifier_of: Callable[[Visitor], Awaitable[Verifier]],
    visitor: Visitor,
    pauses: Pauses,
) -> None:
    """Let a visitor show that they know the password. Raises Broken, the same for whoever does not get in."""
    writer.write(codec.sasl(10, scram.MECHANISM.encode() + b"\0\0"))
    exchange = Exchange(await verifier_of(visitor))
    try:
        fields = Fields(await _response(reader))
        if fields.text() != scram.MECHANISM:
            raise NotAuthenticated
        first = exchange.first((fields.value() or b"").decode("utf-8", "replace"))
        writer.write(codec.sasl(11, first.encode()))
        final = exchange.final((await _response(reader)).decode("utf-8", "replace"))
        writer.write(codec.sasl(12, final.encode()))
        pauses.forget(visitor.user)
        return
    except NotAuthenticated:
        pass
    await asyncio.sleep(pauses.after_failure(visitor.user))
    raise Broken(f'password authentication failed for user "{visitor.user[:63]}"', "28P01")


async def _response(reader: asyncio.StreamReader) -> bytes:
    kind, body = await codec.read_message(reader, codec.BEFORE_LOGIN)
    if kind != b"p":
        raise Broken("an answer to the question for a password was expected", "28000")
    return body
