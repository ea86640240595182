"""SQL as words, also while it is being written: an open quote or comment is a token like any other.

The planner's tokenizer refuses what is not finished, and a prompt holds little else. What is sent is read again by the planner, so
a difference between the two costs an error message and nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<text>'(?:[^']+|'')*(?:'|\Z)|\$\$.*?(?:\$\$|\Z))
    | (?P<name>"(?:[^"]+|"")*(?:"|\Z))
    | (?P<number>\d[\w.]*|\.\d[\w.]*)
    | (?P<word>[^\W\d]\w*)
    | (?P<space>\s+)
    | (?P<mark>::|:=|<=|>=|<>|!=|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LEAVING = ("exit", "quit", "help")
"""Words that are understood without a backslash, as other prompts do."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text: kind is comment, text, name, number, word, space or mark; [start, end) is where it stands."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        return self.text.upper()

    @property
    def is_open(self) -> bool:
        """True if a quote or a comment is not closed yet."""
        match self.kind:
            case "comment":
                return self.text.startswith("/*") and (len(self.text) < 4 or not self.text.endswith("*/"))
            case "text" if self.text.startswith("$$"):
                return len(self.text) < 4 or not self.text.endswith("$$")
            case "text" | "name":
                return self.text.count(self.text[0]) % 2 == 1
        return False

    @property
    def value(self) -> str:
        """Value of a quoted piece; else the piece itself."""
        if self.kind not in ("text", "name") or self.text.startswith("$$"):
            return self.text
        quote = self.text[0]
        inner = self.text[1:] if self.is_open else self.text[1:-1]
        return inner.replace(quote * 2, quote)


def tokens(text: str) -> list[Token]:
    """Every piece of the text, in order; together they are the text."""
    return [Token(found.lastgroup or "mark", found[0], *found.span()) for found in _TOKEN.finditer(text)]


def meaning(pieces: list[Token]) -> list[Token]:
    """Without spaces and comments."""
    return [token for token in pieces if token.kind not in ("space", "comment")]


def is_command(text: str) -> bool:
    r"""True if this is for the prompt itself: `\d`, `.tables`, or the bare word exit, quit or help."""
    text = text.strip()
    return bool(re.match(r"\\|\.[^\W\d]|\.\?", text)) or text.rstrip("; \n").lower() in _LEAVING


def is_complete(text: str) -> bool:
    """True if Enter sends it: nothing, a command, or SQL that ends with a semicolon outside quotes and comments."""
    if not text.strip() or is_command(text):
        return True
    pieces = tokens(text)
    words = meaning(pieces)
    return bool(words) and words[-1].text == ";" and not pieces[-1].is_open


def entries(text: str) -> Iterator[str]:
    """Split a file or a pipe, as it would be typed: commands by the line, SQL up to its semicolon."""
    waiting = ""
    for line in text.splitlines(keepends=True):
        waiting += line
        if is_complete(waiting):
            if waiting.strip():
                yield waiting.strip()
            waiting = ""
    if waiting.strip():
        yield waiting.strip()
