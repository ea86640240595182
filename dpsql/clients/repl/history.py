"""File of the statements that were typed, for one person alone."""

from __future__ import annotations

import os
from pathlib import Path


def history_file() -> Path | None:
    """The file, made where it is not there yet; None where it cannot be written: then a session remembers itself alone."""
    try:
        home = os.environ.get("XDG_STATE_HOME")
        folder = (Path(home) if home else Path.home() / ".local/state") / "dpsql"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "history"
        # A statement may hold what is nobody else's business.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600))
        return path
    except (OSError, RuntimeError):
        return None
