"""Messages between the processes of a server: a length and JSON, over a socket of the two."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct

from dpsql.clients.dbapi.packed import Json

LONGEST = 64 * 1024 * 1024
"""[bytes] of one message."""
Message = dict[str, Json]


class Lost(Exception):
    """The other process is gone, or says what is no message."""


def written(content: Message) -> bytes:
    body = json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return struct.pack("!I", len(body)) + body


def read(body: bytes) -> Message:
    """Raises Lost."""
    found = object_of(body)
    if found is None:
        raise Lost
    return found


def object_of(body: bytes) -> Message | None:
    """The JSON object that some bytes are; None where they are none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def send(link: socket.socket, content: Message) -> None:
    """Raises Lost."""
    try:
        link.sendall(written(content))
        return
    except OSError:
        pass
    raise Lost


def receive(link: socket.socket) -> Message:
    """Raises Lost."""
    return read(_exactly(link, _length(_exactly(link, 4))))


async def receive_async(reader: asyncio.StreamReader) -> Message:
    """Raises Lost."""
    return read(await receive_bytes(reader))


async def receive_bytes(reader: asyncio.StreamReader) -> bytes:
    """A message that is not read yet. Raises Lost."""
    body = None
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        body = await reader.readexactly(_length(await reader.readexactly(4)))
    if body is None:
        raise Lost
    return body


def _length(header: bytes) -> int:
    length = int(struct.unpack("!I", header)[0])
    if length > LONGEST:
        raise Lost
    return length


def _exactly(link: socket.socket, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        try:
            part = link.recv(min(count, 2**20))
        except OSError:
            part = b""
        if not part:
            break
        parts.append(part)
        count -= len(part)
    if count:
        raise Lost
    return b"".join(parts)
