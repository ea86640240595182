"""A session of the prompt in a pseudo-terminal, and the screen that a person would see."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pexpect
import pyte

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0
"""[s] for anything, on a machine that does much else."""
CLEAR, TAB, ENTER, ESCAPE, UP, CTRL_C, CTRL_D, CTRL_R = "\x0c", "\t", "\r", "\x1b", "\x1b[A", "\x03", "\x04", "\x12"


class Terminal:
    """`dpsql SCHEMA` on a screen of its own.

    schema  path of the schema; its ledger is beside it
    state   XDG_STATE_HOME
    """

    def __init__(
        self,
        schema: Path,
        state: Path,
        *,
        columns: int = 120,
        lines: int = 60,
        prompt: str = "",
        more: list[str] | None = None,
        **env: str,
    ) -> None:
        self.prompt = prompt or f"{schema.parent.name}>"
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.written = b""
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        known = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = pexpect.spawn(
            sys.executable,
            ["-m", "dpsql", str(schema), *(more or [])],
            cwd=str(schema.parent),
            dimensions=(lines, columns),
            env={
                **known,
                "PYTHONPATH": path,
                "PYTHONDONTWRITEBYTECODE": "",
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "PROMPT_TOOLKIT_NO_CPR": "1",
                "PAGER": "cat",
                "XDG_STATE_HOME": str(state),
                **env,
            },
        )
        # pexpect waits a moment before each line that it sends; here every line is waited for.
        self.process.delaybeforesend = None

    def __enter__(self) -> Terminal:
        self.until(self.is_ready)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.close(force=True)

    # --- what is seen ---------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    @property
    def line(self) -> str:
        """The line that the cursor is in."""
        return self.screen.display[self.screen.cursor.y].rstrip()

    def is_ready(self) -> bool:
        """Tell whether an empty prompt waits."""
        return self.line == self.prompt and self.screen.cursor.x > len(self.prompt)

    # --- what is done ---------------------------------------------------------------------------------------------------

    def send(self, text: str) -> None:
        self.process.send(text)

    def until(self, seen: Callable[[], bool] | str) -> str:
        """Read until something is seen; the screen then."""
        end = time.monotonic() + PATIENCE
        while not (seen in self.text if isinstance(seen, str) else seen()):
            try:
                self._feed(self.process.read_nonblocking(1 << 16, 0.2))
            except pexpect.TIMEOUT:
                assert time.monotonic() < end, f"waited for {seen} in vain:\n{self.text}"
            except pexpect.EOF:
                raise AssertionError(f"ended before {seen}:\n{self.text}") from None
        return self.text

    def interrupt(self, seen: str) -> None:
        """Ctrl-C, until something is seen: plain input may miss one that comes just before it waits."""
        end = time.monotonic() + PATIENCE
        while seen not in self.text:
            assert time.monotonic() < end, f"waited for {seen} in vain:\n{self.text}"
            self.send(CTRL_C)
            with contextlib.suppress(pexpect.TIMEOUT):
                self._feed(self.process.read_nonblocking(1 << 16, 0.5))

    def _feed(self, data: bytes) -> None:
        self.written += data
        self.stream.feed(data)

    def clear(self) -> None:
        """An empty screen with the prompt at the top."""
        self.send(CLEAR)
        self.until(lambda: self.is_ready() and self.screen.cursor.y == 0)

    def ask(self, entry: str) -> str:
        """Send one entry, and wait for the next prompt; what stands between."""
        self.clear()
        self.send(entry + ENTER)
        return self.answered()

    def answered(self) -> str:
        """The lines on the screen above the next prompt."""
        self.until(lambda: self.is_ready() and self.screen.cursor.y > 0)
        return self.text[: self.text.rindex(self.prompt)].rstrip()

    def ended(self) -> int:
        """Wait for the end of the session; its exit code."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                self._feed(self.process.read_nonblocking(1 << 16, 0.2))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                self.process.wait()
                return int(self.process.exitstatus)
        raise AssertionError(f"the session goes on:\n{self.text}")
