"""Statements of HTTP that run now, by their keys, for another request to cancel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpsql.clients.server.pool import Asked

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
