# mypy: disable-error-code="import-not-found"
"""Harlequin's window, from where an adapter is called.

A Harlequin connection is not given the application, so nothing of it is ever told "a statement was run". But the application calls
adapters from Textual's workers, and a worker knows the application; without one, as in `hsql`, there is no window and nothing is shown.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from dpsql.core.escaping import harmless

if TYPE_CHECKING:
    from harlequin.app import Harlequin


class WindowScreen:
    """Shows short texts in one Harlequin window.

    A window that cannot show them, because it is closing or of another version, loses them in silence: an answer that was paid for is
    not to be lost with its price.
    """

    def __init__(self, app: Harlequin) -> None:
        self._app = app

    def announce(self, text: str) -> None:
        """A notification; from any thread."""
        from harlequin.driver import HarlequinDriver

        with suppress(Exception):
            HarlequinDriver(self._app).notify(plain(text))

    def refresh_label(self) -> None:
        """Have the connection's transaction mode read again, as a click on it does; from any thread."""
        with suppress(Exception):
            self._app.call_later(self._app.action_toggle_transaction_mode)


def current_screen() -> WindowScreen | None:
    """The window on whose behalf this thread works, if there is one."""
    worker = sys.modules.get("textual.worker")  # never imported here: hsql starts without Textual
    if worker is None:
        return None
    try:
        return WindowScreen(worker.get_current_worker().node.app)
    except (worker.NoActiveWorker, AttributeError):
        return None


def plain(text: str) -> str:
    """Text that Rich and Textual show as it is, where they would read `[...]` as markup, and that no terminal obeys."""
    text = harmless(text, kept="\n\t")
    return text.replace("\\", "\\\\").replace("[", "\\[") if "[" in text else text
