"""Workers of one dataset, as the front has them: each answers one statement at a time, and is replaced where it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import socket
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dpsql.clients.dbapi.packed import Json, read_error
from dpsql.clients.server import frames
from dpsql.clients.server.frames import Lost, Message
from dpsql.core.errors import Error, error

PACKET = 65536
START_SECONDS = 120.0
GRACE_SECONDS = 100.0
"""Beyond the owner's limits: waiting for somebody who works out the same, noise, and writing it down."""
MOST_LOST = 2
"""Times that a statement may have ended its worker; the next one is refused."""
MOST_KNOWN = 1000
CHANGED = "DPSQL-708"
LOOK_SECONDS = 0.05
_STATEMENT = ("op", "analyst", "sql", "parameters", "settings")


class Control:
    """The front's way to the supervisor: one request at a time, in a thread of its own."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._turn = link, asyncio.Lock()

    async def ask(self, content: Message) -> tuple[Message, list[int]]:
        """The answer, and descriptors that came with it. Raises Lost where the supervisor is gone."""
        async with self._turn:
            return await asyncio.to_thread(self._asked, content)

    async def link(self, content: Message) -> tuple[Message, asyncio.StreamReader, asyncio.StreamWriter]:
        """The answer, and the way to a process that was started for it. Raises Lost where none was."""
        told, passed = await self.ask(content)
        if len(passed) != 1:
            raise Lost
        link = socket.socket(fileno=passed[0])
        link.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=link, limit=2**20)
        return told, reader, writer

    def _asked(self, content: Message) -> tuple[Message, list[int]]:
        try:
            self._link.sendall(json.dumps(content).encode())
            packet, passed, _, _ = socket.recv_fds(self._link, PACKET, 4)
        except OSError:
            packet, passed = b"", []
        if not packet:
            raise Lost
        return frames.read(packet), list(passed)


class Asked:
    """One request of a client, which may be cancelled wherever it is."""

    def __init__(self) -> None:
        self.cancelled = False
        self._worker: WorkerLink | None = None

    def cancel(self) -> None:
        """End it: while it waits for a worker at once, while it runs as an interrupt does."""
        self.cancelled = True
        if self._worker is not None:
            self._worker.cancel()

    def begun(self, worker: WorkerLink) -> None:
        """Raises 703 where it was cancelled before."""
        if self.cancelled:
            raise error(703, "interrupted; nothing was charged")
        self._worker = worker


Place = tuple[str, str, str]
"""Dataset, user, and the key of the request."""


class Statements:
    """Statements that run now. Several may have one key: a client whose connection broke asks again."""

    def __init__(self) -> None:
        self._running: dict[Place, list[Asked]] = {}

    @contextmanager
    def running(self, place: Place) -> Iterator[Asked]:
        """One more, as long as it runs."""
        asked = Asked()
        self._running.setdefault(place, []).append(asked)
        try:
            yield asked
        finally:
            left = [one for one in self._running[place] if one is not asked]
            if left:
                self._running[place] = left
            else:
                del self._running[place]

    def cancel(self, place: Place) -> None:
        """End all that run with a key."""
        for asked in self._running.get(place, []):
            asked.cancel()


@dataclass(slots=True)
class Reply:
    """Answer of a worker: all but the rows, and these in chunks, as JSON, each read when it is sent."""

    head: Message
    chunks: list[bytes] = field(default_factory=list)

    @property
    def epsilon(self) -> str:
        """The price as text; "" where there is none."""
        cost = self.head.get("price")
        return str(cost.get("epsilon")) if isinstance(cost, dict) else ""

    def parts(self) -> Iterator[tuple[list[list[Json]], list[Json]]]:
        """Chunks of rows, and of their intervals where these were asked for; each is let go of once it was given."""
        chunks, self.chunks = self.chunks, []
        for at, chunk in enumerate(chunks):
            chunks[at] = b""
            found = frames.read(chunk)
            rows, intervals = found.get("rows"), found.get("accuracy")
            if isinstance(rows, list):
                yield rows, intervals if isinstance(intervals, list) else []  # type: ignore[misc]

    def rows(self) -> Iterator[list[list[Json]]]:
        """Chunks of rows."""
        for rows, _ in self.parts():
            yield rows


class WorkerLink:
    """The front's end of one worker."""

    def __init__(self, process: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.process, self._reader, self._writer = process, reader, writer
        self._number = 0

    @property
    def is_gone(self) -> bool:
        """True if the process is known to have ended: nothing that is asked of it now is begun."""
        return self._reader.at_eof()

    async def opened(self) -> Message:
        """Message of a worker whose data is open. Raises dpsql's error where it cannot be, Lost."""
        async with asyncio.timeout(START_SECONDS):
            found = await frames.receive_async(self._reader)
        _raise(found)
        return found

    async def ask(self, content: Message, asked: Asked, seconds: float) -> Reply:
        """Raises dpsql's errors, Lost where it ended, takes too long, or answers something else.

        Why  what was sent is answered, whoever waits for it: nothing is sent of what was cancelled before, and an answer says of what
             it is, so that nobody is given another's
        """
        self._number += 1
        asked.begun(self)
        try:
            self._writer.write(frames.written({**content, "number": self._number}))
            async with asyncio.timeout(seconds):
                reply = Reply(await frames.receive_async(self._reader))
                if reply.head.pop("number", None) != self._number:
                    raise Lost
                more = reply.head.pop("more", None)
                while more:
                    part = await frames.receive_bytes(self._reader)
                    more = part != b"{}"
                    reply.chunks += [part] if more else []
        except TimeoutError:
            raise Lost from None
        finally:
            asked._worker = None
        _raise(reply.head)
        return reply

    def cancel(self) -> None:
        self._writer.write(frames.written({"op": "cancel", "number": self._number}))

    def close(self) -> None:
        self._writer.close()


class Pool:
    """The workers of one dataset.

    seconds  the most that a statement may take before its worker is ended
    """

    def __init__(self, control: Control, dataset: int, workers: int, seconds: float) -> None:
        self._control, self._dataset, self._seconds = control, dataset, seconds + GRACE_SECONDS
        self._workers = workers
        self._free: asyncio.Queue[WorkerLink | None] = asyncio.Queue()
        for _ in range(workers):
            self._free.put_nowait(None)
        self._lost: OrderedDict[bytes, int] = OrderedDict()

    async def start(self) -> tuple[str, ...]:
        """Start a first worker. Output: what its kernel could not confine. Raises dpsql's error where the data cannot be opened."""
        await self._free.get()
        worker, missing = None, None
        try:
            worker, missing = await self._new()
        except Lost:
            pass
        finally:
            self._free.put_nowait(worker)
        if missing is None:
            raise error(707, "a worker process could not be started", hint="see that dpsql can be imported")
        return missing

    async def ask(self, content: Message, asked: Asked) -> Reply:
        """Have a worker answer. Raises dpsql's errors; 701 where the worker was lost.

        Why  708 says that the data changed since a worker opened it: nothing was charged, and each is replaced by one that opens
             what is approved now
        """
        name = _fingerprint(content)
        if self._lost.get(name, 0) >= MOST_LOST:
            what = "the statement has ended its worker twice, and is not begun again; nothing was charged"
            raise error(709, what, hint="ask for less at once")
        for _ in range(self._workers):
            try:
                return await self._ask(content, asked, name)
            except Error as raised:
                if raised.code != CHANGED:
                    raise
        return await self._ask(content, asked, name)

    async def _ask(self, content: Message, asked: Asked, name: bytes) -> Reply:
        """Whatever comes in between, a free place is given back: with the worker while it is sound, else empty."""
        worker, keep, begun = await self._take(asked), False, False
        try:
            if worker is not None and worker.is_gone:
                await self._end(worker)
                worker = None
            if worker is None:
                worker = (await self._new())[0]
            begun = True
            reply = await worker.ask(content, asked, self._seconds)
            keep = True
            return reply
        except Error as raised:
            keep = begun and raised.code != CHANGED
            raise
        except Lost:
            pass
        finally:
            if not keep and worker is not None:
                await asyncio.shield(self._end(worker))
            self._free.put_nowait(worker if keep else None)
        if not begun:
            raise error(707, "no process could be started for the statement; nothing was charged", hint="ask again")
        self._remember(name)
        what = "the process that ran the statement was ended; what was charged stays charged"
        raise error(701, what, hint="ask for less at once")

    async def _take(self, asked: Asked) -> WorkerLink | None:
        """A free place. Raises 703 where the request is cancelled before there is one."""
        waiting = asyncio.ensure_future(self._free.get())
        try:
            while not waiting.done():
                await asyncio.wait([waiting], timeout=LOOK_SECONDS)
                if asked.cancelled and not waiting.done():
                    raise error(703, "interrupted; nothing was charged")
        finally:
            if not waiting.done():
                waiting.cancel()
        return waiting.result()

    async def _new(self) -> tuple[WorkerLink, tuple[str, ...]]:
        told, reader, writer = await self._control.link({"op": "worker", "dataset": self._dataset})
        worker = WorkerLink(int(str(told["process"])), reader, writer)
        try:
            opened = await worker.opened()
        except BaseException:
            await self._end(worker)
            raise
        missing = opened.get("missing")
        return worker, tuple(map(str, missing)) if isinstance(missing, list) else ()

    async def _end(self, worker: WorkerLink) -> None:
        worker.close()
        with contextlib.suppress(Lost):
            await self._control.ask({"op": "kill", "process": worker.process})

    def _remember(self, name: bytes) -> None:
        self._lost[name] = self._lost.pop(name, 0) + 1
        if len(self._lost) > MOST_KNOWN:
            self._lost.popitem(last=False)


def _raise(found: Message) -> None:
    problem = found.get("error")
    if isinstance(problem, dict):
        raise read_error(problem)


def _fingerprint(content: Message) -> bytes:
    """A statement whoever asks it in which way: a client that asks again has another key."""
    asked = [content.get(name) for name in _STATEMENT]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()
