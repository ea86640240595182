"""SQL texts of conditions: columns in them replaced, named as keys, and shown to people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256

TOKEN = re.compile(r"""'(?:[^']|'')*'|(?P<name>"(?:[^"]|"")*"(?:\."(?:[^"]|"")*")*)""")
RELEASED = re.compile(r'\(SELECT "?c0"? FROM "[0-9a-f]{24}"[^)]*\)|"[0-9a-f]{24}"(\."?c[0-9]+"?)?')
_PLAIN = (
    (re.compile(r"(?:TRY_)?CAST\(((?:[^()]|\([^()]*\))*) AS [A-Z]+(?:\([0-9, ]*\))?\)"), r"\1"),
    (re.compile(r"CASE WHEN ([\w.]+) BETWEEN [^()]+(?: AND NOT isnan\([\w.]+\)[^()]+)?? END"), r"\1"),
    (re.compile(r"\((sum\([\w.]+\)) \* [0-9.e-]+\)"), r"\1"),
)
"""What a text for people is without: conversions, clamps and quanta."""


def replaced(text: str, names: Mapping[str, str]) -> str:
    """SQL with columns replaced, outside of texts."""
    return TOKEN.sub(lambda found: names.get(found[0], found[0]), text) if names else text


def declares(text: str, found: re.Match[str]) -> bool:
    """Whether a name in a text is an alias where it is given."""
    return text.endswith(" AS ", 0, found.start())


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:24]


def short(text: str) -> str:
    """A text for people, without what only makes it safe, and not too long."""
    plain, before = text.partition(" of ")[0].replace('"', ""), ""
    while plain != before:
        before = plain
        for pattern, kept in _PLAIN:
            plain = pattern.sub(kept, plain)
    return plain if len(plain) <= 60 else plain[:57] + "..."
