"""Long SQL on several lines: a break only ever takes the place of a space, so that joined lines are the SQL again."""

from __future__ import annotations

import re

WIDTH = 112
_PIECE = re.compile(r"(?:\"[^\"]*\"|'[^']*'|[^\s\"'])+")
_CLAUSES = ("FROM", "WHERE", "GROUP", "ORDER", "HAVING", "QUALIFY", "LIMIT")


def on_lines(sql: str) -> str:
    """`sql` with each clause of each SELECT on lines of its own, indented by the depth of its SELECT."""
    lines: list[str] = []
    line, opened = "", [True]
    for word in _PIECE.findall(sql):
        depth = sum(opened) - 1
        if line and word in _CLAUSES and opened[-1]:
            lines.append(line)
            line = "  " * depth + word
        elif line and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = "  " * (depth + 2) + word
        else:
            line = f"{line} {word}" if line else word
        _follow(word, opened)
    return "\n".join([*lines, line])


def _follow(word: str, opened: list[bool]) -> None:
    """Keep the stack of open parentheses; true ones hold a SELECT."""
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", "", word)
    for position, character in enumerate(bare):
        if character == "(":
            opened.append(bare[position + 1 :] == "SELECT")
        elif character == ")" and len(opened) > 1:
            opened.pop()


def on_one_line(text: str) -> str:
    return " ".join(_PIECE.findall(text))
