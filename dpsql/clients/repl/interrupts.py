"""Ctrl-C in a session: it ends what may be given up, once, and never the session.

Python's own handler raises at whatever point it came, also in the middle of what is done about the one before.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupts:
    """The handler of SIGINT while a session lasts.

    pressed  whether Ctrl-C came since the last entry was read
    """

    def __init__(self) -> None:
        self.pressed = False
        self._raises = False

    def __call__(self, number: int, frame: object) -> None:
        self.pressed = True
        if self._raises:
            self._raises = False
            raise KeyboardInterrupt

    def listen(self) -> None:
        """Be the handler, from now on; in another thread than the main one nothing is to be heard."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Be the handler, and let the one before be it again in the end."""
        before = signal.getsignal(signal.SIGINT)
        self.listen()
        try:
            yield
        finally:
            if signal.getsignal(signal.SIGINT) is self:
                signal.signal(signal.SIGINT, before)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Let work be given up: the first Ctrl-C raises KeyboardInterrupt in it."""
        self._raises = True
        try:
            yield
        finally:
            self._raises = False
