"""The statements of a text, and where in it an error is."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.core.errors import error
from dpsql.core.spans import Span, caret

if TYPE_CHECKING:
    from dpsql.core.errors import Error

_MARK = re.compile(
    r"""
      (?P<line>--[^\n]*)
    | (?P<comment>/\*)
    | (?P<text>(?<!\w)[eE]'(?:[^'\\]|\\.?|'')*+(?:'|\Z) | '[^']*(?:'|\Z) | "[^"]*(?:"|\Z)
      | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z) )
    | (?P<word>// | (?<!\w)[^\W\d]\w*\$[\w$]*)
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Pieces that may hold a semicolon which ends nothing; a division and a name with a dollar in it, which look like their openings
and are none; and the semicolon that ends a statement."""
_COMMENT_MARK = re.compile(r"/\*|\*/")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class TypedStatement:
    """One statement of a text.

    sql    with the comments that stand before it and without the semicolon behind it
    start  where in the text it begins
    word   where its first word is
    text   all of it
    name   of the file that the text is of, or None
    """

    sql: str
    start: int
    word: int
    text: str
    name: str | None = None

    @property
    def explains(self) -> bool:
        """True if it is an EXPLAIN."""
        word = _WORD.match(self.text, self.word)
        return word is not None and word[0].upper() == "EXPLAIN"

    def message(self, problem: Error) -> str:
        """An error as text, with the place in the whole text."""
        line = f"{problem.code}: {problem.message}" + (f"; {problem.hint}" if problem.hint else "")
        named = f"{self.name}, " if self.name else ""
        if problem.span is not None:
            span = Span(self.start + problem.span.start, self.start + problem.span.end)
            return f"{line}\n  {named}{caret(self.text, span).lstrip()}"
        alone = not self.name and not self.text[: self.start].strip()
        return line if alone else f"{line}\n  {named}line {self.text.count(chr(10), 0, self.word) + 1}"


def read_text(path: str) -> str:
    """The text of a file. Raises 802."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as problem:
        why, hint = f"{path} cannot be read: {os.strerror(problem.errno or errno.EIO)}", "name a file that is there"
    except UnicodeDecodeError:
        why, hint = f"{path} is no text in UTF-8", "name a text file"
    raise error(802, why, hint=hint)


def split(text: str, name: str | None = None) -> list[TypedStatement]:
    """The statements that semicolons divide a text into: not those in strings, quoted names, dollar quotes and comments.

    What is blank, or comments alone, is no statement; of a text without any, the text is the one (and is refused as empty).
    """
    found = [one for one in _pieces(text, name) if one.word < one.start + len(one.sql)]
    return found or [TypedStatement(text, 0, 0, text, name)]


def _pieces(text: str, name: str | None) -> Iterator[TypedStatement]:
    """Split a text at its semicolons; the word of a piece without any is at its end."""
    begin = at = 0
    word: int | None = None
    while (found := _MARK.search(text, at)) is not None:
        word = _word_in(text, at, found.start()) if word is None else word
        at = found.end() if found["comment"] is None else _behind_comment(text, found.end())
        never_closed = found["comment"] is not None and at == len(text) and not text.endswith("*/")
        if found["end"] is not None:
            yield _piece(text, begin, found.start(), word, name)
            begin, word = at, None
        elif word is None and (found["text"] or found["word"] or never_closed):
            word = found.start()
    yield _piece(text, begin, len(text), _word_in(text, at, len(text)) if word is None else word, name)


def _word_in(text: str, begin: int, end: int) -> int | None:
    """The place of the first word of a part without strings and comments; None where it is blank."""
    words = text[begin:end].lstrip()
    return end - len(words) if words else None


def _piece(text: str, begin: int, end: int, word: int | None, name: str | None) -> TypedStatement:
    sql = text[begin:end]
    start = begin + len(sql) - len(sql.lstrip())
    return TypedStatement(sql.strip(), start, word if word is not None else max(start, end), text, name)


def _behind_comment(text: str, at: int) -> int:
    """Behind a comment, which may hold others."""
    depth = 1
    for mark in _COMMENT_MARK.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)
