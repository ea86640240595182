"""Messages of PostgreSQL's protocol, version 3: their frames, read within a limit before anything is kept, and the answers to them.

Source  PostgreSQL's documentation, Frontend/Backend Protocol: Message Formats
Why     own  a codec for both sides knows replication, copies and every way to log in, and lets a frame grow to a gigabyte; of all that
        a stranger who has not logged in would reach what a server of questions never needs
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpsql.core.errors import Error

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST, VERSION_3 = 80877103, 80877104, 80877102, 3
BEFORE_LOGIN, AFTER_LOGIN = 16 * 1024, 1024 * 1024
"""[bytes] of one message at most."""


class Broken(Exception):
    """A client that does not keep to the protocol, in constant text; the connection ends.

    state  SQLSTATE
    """

    def __init__(self, text: str, state: str = "08P01") -> None:
        super().__init__(text)
        self.text, self.state = text, state


# --- what a client sends ------------------------------------------------------------------------------------------------


async def read_opening(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The first message, which has no kind: its code, and what follows. Raises Broken, IncompleteReadError."""
    length, code = struct.unpack("!II", await reader.readexactly(8))
    if not 8 <= length <= BEFORE_LOGIN:
        raise Broken("the first message is no message of PostgreSQL's protocol")
    return code, await reader.readexactly(length - 8)


async def read_message(reader: asyncio.StreamReader, most: int) -> tuple[bytes, bytes]:
    """The next message: its kind and its body. Raises Broken, IncompleteReadError."""
    kind, length = struct.unpack("!cI", await reader.readexactly(5))
    if not 4 <= length <= most:
        raise Broken(f"a message is longer than {most:,} bytes", "54000")
    return kind, await reader.readexactly(length - 4)


class Fields:
    """Fields of one message, read in order. Raises Broken where they end too early."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def text(self) -> str:
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise Broken("a text in a message has no end")
        found, self._at = self._body[self._at : end], end + 1
        try:
            return found.decode("utf-8")
        except UnicodeDecodeError:
            pass
        raise Broken("a text in a message is not UTF-8", "22021")

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._body):
            raise Broken("a message is shorter than what it says")
        found, self._at = self._body[self._at : self._at + count], self._at + count
        return found

    def int16(self) -> int:
        return int(struct.unpack("!H", self.take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack("!i", self.take(4))[0])

    def value(self) -> bytes | None:
        """Bytes with their count before them; None for NULL."""
        count = self.int32()
        return None if count == -1 else self.take(count)

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._at)

    def end(self) -> None:
        if self._at != len(self._body):
            raise Broken("a message is longer than what it says")


def startup_parameters(body: bytes) -> dict[str, str]:
    """Names and values of a startup message. Raises Broken."""
    fields, found = Fields(body), dict[str, str]()
    while name := fields.text():
        found[name] = fields.text()
    fields.end()
    return found


# --- what a server sends ------------------------------------------------------------------------------------------------


def message(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return kind + struct.pack("!I", len(body) + 4) + body


def _text(value: str) -> bytes:
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


AUTHENTICATED = message(b"R", struct.pack("!I", 0))
PARSED, BOUND, CLOSED = message(b"1"), message(b"2"), message(b"3")
NO_DATA, EMPTY, SUSPENDED = message(b"n"), message(b"I"), message(b"s")


def sasl(code: int, body: bytes) -> bytes:
    """AuthenticationSASL (10), -Continue (11) and -Final (12)."""
    return message(b"R", struct.pack("!I", code), body)


def ready(state: bytes) -> bytes:
    """state  I idle, T in a transaction"""
    return message(b"Z", state)


def parameter(name: str, value: str) -> bytes:
    return message(b"S", _text(name), _text(value))


def key(process: int, secret: int) -> bytes:
    return message(b"K", struct.pack("!II", process, secret))


def protocol_version(unknown: Sequence[str]) -> bytes:
    """3.0 is spoken, and these options of the startup message are not known."""
    return message(b"v", struct.pack("!II", 0, len(unknown)), *map(_text, unknown))


def complete(tag: str) -> bytes:
    return message(b"C", _text(tag))


@dataclass(frozen=True, slots=True)
class Field:
    """One column as a client sees it: its name, PostgreSQL's number of its type, bytes of a value (-1: any), modifier, and format."""

    name: str
    oid: int
    size: int = -1
    modifier: int = -1
    binary: bool = False


def row_description(fields: Iterable[Field]) -> bytes:
    parts = [_text(f.name) + struct.pack("!IHIhiH", 0, 0, f.oid, f.size, f.modifier, int(f.binary)) for f in fields]
    return message(b"T", struct.pack("!H", len(parts)), *parts)


def parameter_description(oids: Sequence[int]) -> bytes:
    return message(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def data_row(values: Sequence[bytes | None]) -> bytes:
    parts = [struct.pack("!i", -1) if v is None else struct.pack("!I", len(v)) + v for v in values]
    return message(b"D", struct.pack("!H", len(parts)), *parts)


def _told(kind: bytes, fields: Mapping[str, str | None]) -> bytes:
    parts = [letter.encode() + _text(value) for letter, value in fields.items() if value]
    return message(kind, *parts, b"\0")


def failure(
    state: str, text: str, *, hint: str | None = None, position: int | None = None, fatal: bool = False
) -> bytes:
    """position  [characters] from 1"""
    severity, place = "FATAL" if fatal else "ERROR", None if position is None else str(position)
    return _told(b"E", {"S": severity, "V": severity, "C": state, "M": text, "H": hint, "P": place})


def notice(text: str, *, detail: str | None = None, severity: str = "NOTICE") -> bytes:
    return _told(
        b"N", {"S": severity, "V": severity, "C": "DP000" if severity == "NOTICE" else "DP001", "M": text, "D": detail}
    )


def refusal(problem: Error, offset: int = 0) -> bytes:
    """An error of dpsql's own, with SQLSTATE DPnnn.

    offset  [characters] of the statement in the text that the client sent
    """
    position = None if problem.span is None else problem.span.start + offset + 1
    return failure(state_of(problem), problem.message, hint=problem.hint, position=position)


def state_of(problem: Error) -> str:
    """SQLSTATE of an error.

    >>> from dpsql.core.errors import error
    >>> state_of(error(201, "no bounds"))
    'DP201'
    """
    return "DP" + problem.code.removeprefix("DPSQL-")
