"""The process that holds one dataset: it answers one statement at a time, for whichever analyst the front names, and reaches nothing
but the data, and the ledger's files.

Why     who asks is settled by the front; what they may spend, and whether it is private, by the session, as in any other process
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from dpsql.clients.server import frames
from dpsql.clients.server.confinement import Reach, confine
from dpsql.clients.server.frames import Lost, Message

POLL = 0.02  # [seconds] between two interrupts of a statement that is to end


def main(arguments: list[str]) -> int:
    """One worker, from its confinement to the end of the front.

    arguments  number of the socket to the front; JSON of the schema's path, and of what the process may reach
    """
    link = socket.socket(fileno=int(arguments[0]))
    told = frames.read(arguments[1].encode())
    reach = reach_of(told)
    missing = confine(reach)
    serve(link, str(told["schema"]), missing)
    return 0


def reach_of(told: Message) -> Reach:
    paths = {name: list(map(Path, map(str, found))) for name, found in told.items() if isinstance(found, list)}
    return Reach(**paths, network=told.get("network") is True)


def serve(link: socket.socket, schema: str, missing: tuple[str, ...]) -> None:
    """Answer what the front asks, until it is gone: a statement that was begun is finished even then, and its answer stored."""
    # only now: what comes with it is large, and runs confined
    from dpsql.clients.server.answering import Answering

    with Answering(Path(schema)) as answering:
        try:
            frames.send(link, {"ready": True, "missing": list(missing), **answering.shape()})
            Turns(link, answering.answer, answering.interrupt).run()
        except Lost:
            pass


class Turns:
    """Requests of the front in their order, and interrupts, which come between.

    answer     answers one request by sending messages; all but the last have "more"
    interrupt  ends what runs, nothing where nothing does
    """

    def __init__(
        self,
        link: socket.socket,
        answer: Callable[[Message, Callable[[Message], None]], None],
        interrupt: Callable[[], None],
    ) -> None:
        self._link, self._answer, self._interrupt = link, answer, interrupt
        self._asked: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._running: int | None = None
        self._turn = threading.Lock()

    def run(self) -> None:
        """Raises Lost where the front is gone."""
        threading.Thread(target=self._listen, daemon=True).start()
        while (asked := self._asked.get()) is not None:
            try:
                self._answer(asked, self._numbered(asked))
            finally:
                with self._turn:
                    self._running = None
        raise Lost

    def _numbered(self, asked: Message) -> Callable[[Message], None]:
        """Sender of the parts of an answer, the first with the number of what it answers."""
        number = [asked.get("number")]

        def send(part: Message) -> None:
            frames.send(self._link, {"number": number.pop(), **part} if number else part)

        return send

    def _listen(self) -> None:
        try:
            while True:
                asked = frames.receive(self._link)
                if asked.get("op") == "cancel":
                    self._cancel(asked.get("number"))
                    continue
                number = asked.get("number")
                with self._turn:
                    self._running = number if isinstance(number, int) else None
                self._asked.put(asked)
        except Lost:
            self._asked.put(None)

    def _cancel(self, number: object) -> None:
        """Interrupt a statement until it has ended: an interrupt that comes before it begins would else be lost."""
        while True:
            with self._turn:
                if self._running is None or self._running != number:
                    return
            self._interrupt()
            threading.Event().wait(POLL)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
