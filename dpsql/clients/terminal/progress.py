"""Progress of a long job of the owner, on a terminal; elsewhere nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from dpsql.clients.output.cells import cut
from dpsql.core.escaping import harmless

Told = Callable[[str, int, int], None]
BAR = 20  # columns


@contextmanager
def progress(out: TextIO | None) -> Iterator[Told]:
    """A bar that is drawn as long as the job lasts, and then taken away.

    Yields  what is called with the step that begins, the steps that are done, and all of them
    """
    if out is None or not out.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield lambda what, done, total: None
        return

    def told(what: str, done: int, total: int) -> None:
        filled = BAR * done // max(total, 1)
        text = f"[{'#' * filled}{'.' * (BAR - filled)}] {done}/{total} {harmless(what)}"
        out.write("\r\x1b[K" + cut(text, shutil.get_terminal_size().columns - 1, "..."))
        out.flush()

    try:
        yield told
    finally:
        out.write("\r\x1b[K")
        out.flush()
