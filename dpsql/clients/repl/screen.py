"""The terminal that is written to: how wide it is, whether it shows colours, and a line that tells how long something takes; results
that are taller, in the reader's pager; and texts in the reader's editor."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from dpsql.core.escaping import harmless

NARROWEST = 20
PATIENCE = 0.3
"""[s] after which a running query shows that it runs."""
_STYLES = {"bold": "1", "faint": "2", "error": "1;31", "good": "32"}
_FRAMES, _PLAIN_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"


@dataclass(frozen=True, slots=True)
class Screen:
    """Screen that the prompt writes to.

    colour  whether colours may be used
    moves   whether the cursor can be moved: a line is written over
    """

    out: TextIO
    colour: bool
    moves: bool

    @staticmethod
    def here() -> Screen:
        """Standard output, as far as the environment says what it can do."""
        moves = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
        if hasattr(sys.stdout, "reconfigure"):
            # What the terminal's encoding does not have is no reason to end a session.
            sys.stdout.reconfigure(errors="replace")
        return Screen(sys.stdout, moves and not os.environ.get("NO_COLOR"), moves)

    @property
    def width(self) -> int:
        return max(shutil.get_terminal_size().columns, NARROWEST)

    @property
    def lines(self) -> int:
        return shutil.get_terminal_size().lines

    def say(self, text: str = "", style: str = "") -> None:
        """One or more lines, as they are."""
        if style and self.colour and text:
            text = f"\x1b[{_STYLES[style]}m{text}\x1b[0m"
        self.out.write(f"{text}\n")
        self.out.flush()

    def tell(self, text: str, style: str = "") -> None:
        """Prose, folded to the width, without what a terminal would obey; lines that are indented stay behind their indent."""
        for line in harmless(text, kept="\n").split("\n"):
            indent = " " * (len(line) - len(line.lstrip()))
            folded = textwrap.fill(line, self.width, subsequent_indent=indent, break_on_hyphens=False)
            self.say(folded, style)

    def running(self, seconds: float) -> None:
        """That something runs, since when, and how to stop it. No share of the work: that would be a fact about the data."""
        if self.moves and seconds >= PATIENCE:
            frames = _FRAMES if (self.out.encoding or "").lower().startswith("utf") else _PLAIN_FRAMES
            frame = frames[int(seconds * 10) % len(frames)]
            text = f"{frame} {seconds:.1f} s   Ctrl-C cancels"
            self.out.write(f"\r\x1b[K{text[: self.width - 1]}")
            self.out.flush()

    def stopped(self) -> None:
        """Take the line of `running` away."""
        if self.moves:
            self.out.write("\r\x1b[K")
            self.out.flush()


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
