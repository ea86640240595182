"""Results that are taller than the screen, in the reader's pager; and texts in the reader's editor."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dpsql.clients.repl.screen import Screen


class HeldText(io.StringIO):
    """Text that is on its way to the screen, in the characters that the screen has."""

    encoding = "utf-8"

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self.encoding = screen.out.encoding or "utf-8"


def pager_command() -> list[str]:
    """The pager: $PAGER, else less; [] where there is none, or where it is cat."""
    words = shlex.split(os.environ.get("PAGER", "less"))
    return words if words and Path(words[0]).name != "cat" and shutil.which(words[0]) else []


def page(text: str, screen: Screen) -> None:
    """Write a text to the screen, through the pager where it is taller than the screen and the screen can be moved in."""
    command = pager_command() if screen.moves and sys.stdin.isatty() and text.count("\n") >= screen.lines else []
    if not command:
        screen.out.write(text)
        screen.out.flush()
        return
    settings = {**os.environ, "LESS": os.environ.get("LESS", "FRSX")}
    # whoever leaves the pager early has seen enough: communicate takes no notice of a pipe that is closed
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=settings) as pager:
        pager.communicate(text.encode(screen.out.encoding or "utf-8", errors="replace"))


def edited(text: str) -> str:
    """A text as it comes back from $VISUAL, $EDITOR or vi. Raises OSError where none can be started, or it says that it failed."""
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="dpsql-") as folder:
        # a folder that nobody else may read
        path = Path(folder) / "statement.sql"
        path.write_text(text, encoding="utf-8")
        if subprocess.run([*words, str(path)], check=False).returncode:
            raise OSError(0, "the editor ended with an error")
        return path.read_text(encoding="utf-8")
