"""Lines from a terminal that knows no codes, or without prompt_toolkit."""

from __future__ import annotations

import signal

from dpsql.clients.repl.interrupts import Interrupts
from dpsql.clients.repl.scanner import is_complete


class Plain:
    """Python's own prompt: no keys, no colours, nothing remembered after the session."""

    def __init__(self, prompt: str, interrupts: Interrupts) -> None:
        self._prompt = prompt
        self._interrupts = interrupts
        self._more = f"{'... ':>{len(prompt)}}"
        self._entries: list[str] = []

    def read(self) -> str:
        # a signal that restarts what it interrupts would be heard after the next line only
        signal.siginterrupt(signal.SIGINT, True)
        with self._interrupts.raised():
            text = input(self._prompt)
            while not is_complete(text):
                text += "\n" + input(self._more)
        self._entries += [text] if text.strip() else []
        return text

    def remembered(self) -> list[str]:
        return self._entries

    def confirm(self, question: str) -> bool:
        try:
            with self._interrupts.raised():
                return input(question).strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            return False
