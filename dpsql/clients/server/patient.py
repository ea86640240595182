"""uvicorn's side of one connection, with an end to the patience for whoever says too little."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from dpsql.clients.server.login import LOGIN_SECONDS


class PatientProtocol(H11Protocol):  # type: ignore[misc]
    """A connection that is closed where the head of a request does not come within LOGIN_SECONDS.

    Why  each connection is one of a number that all clients share
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Bytes of a head do not begin its time anew: letter by letter a connection would be held for days."""
        try:
            super().data_received(data)
        except Exception:
            # such as letters in a path that no URL has: it ends itself alone
            self._stop()
            self.transport.abort()
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._late is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._late = self.loop.call_later(LOGIN_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
