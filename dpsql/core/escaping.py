"""Text that a terminal shows and does not obey: the one place that every report, error and line for people goes through.

Statements, names and values are others' text. A terminal would take some of their characters for commands: move the cursor, rewrite a
line, set the title or the clipboard, hide text or show it in another order.
"""

from __future__ import annotations

import re

# C0 and C1 controls, DEL, separators of lines, marks of direction, what has no width, surrogates.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def harmless(text: str, kept: str = "") -> str:
    """The text with every character that a terminal would obey written as an escape.

    kept  characters that stay

    >>> harmless("a\\x1b]0;title\\x07\\n"), harmless("two\\nlines\\x9b", kept="\\n")
    ('a\\\\x1b]0;title\\\\x07\\\\n', 'two\\nlines\\\\x9b')
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(lambda found: found[0] if found[0] in kept else _escape(found[0]), text)


def harmless_json(text: str, kept: str = "") -> str:
    """The same of JSON, which stays the same JSON: what an encoder leaves of such characters stands inside its strings."""
    return _UNSAFE.sub(lambda found: found[0] if found[0] in kept else f"\\u{ord(found[0]):04x}", text)


def _escape(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
