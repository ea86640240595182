"""Spans: places in the user's text, and how to show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.core.escaping import harmless

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets [start, end) in one statement's text."""

    start: int
    end: int

    def __or__(self, other: Span) -> Span:
        return Span(min(self.start, other.start), max(self.end, other.end))


def span_of(node: exp.Expression) -> Span | None:
    """The hull of the positions of a node and its descendants; None where the parser kept none.

    sqlglot records positions on identifiers, literals and function names only, so an operator is located by its operands.
    """
    starts, ends, waiting = [], [], [node]
    for part in waiting:
        meta = part.meta
        if "start" in meta and "end" in meta:
            starts.append(meta["start"])
            ends.append(meta["end"] + 1)
        waiting += part.iter_expressions()
    return Span(min(starts), max(ends)) if starts else None


def caret(sql: str, span: Span) -> str:
    """Two lines under a `line L, column C` heading: the text of the line, without what a terminal would obey, and carets beneath
    the span."""
    start = max(0, min(span.start, len(sql)))
    first = sql.rfind("\n", 0, start) + 1
    last = sql.find("\n", start)
    line = sql[first : last if last >= 0 else len(sql)]
    column = start - first
    width = max(1, min(_closed(sql, start, span.end) - start, len(line) - column))
    shift = max(0, column - 60)
    shown = line[shift : shift + 110] + ("…" if len(line) > shift + 110 else "")
    heading = f"  line {sql.count(chr(10), 0, start) + 1}, column {column + 1}"
    parts = shown[: column - shift], shown[column - shift : column - shift + width], shown[column - shift + width :]
    before, marked, after = (harmless(part, kept="\t") for part in parts)
    # a tab beneath a tab: the carets stand where the text does
    indent = "".join("\t" if character == "\t" else " " for character in before)
    return f"{heading}\n    {before}{marked}{after}\n    {indent}{'^' * max(1, len(marked))}"


def _closed(sql: str, start: int, end: int) -> int:
    """The end moved right to the parentheses that the span opens: the parser keeps no positions of them."""
    if sql[end : end + 1] == "(" or sql[start:end].count("(") > sql[start:end].count(")"):
        depth = sql[start:end].count("(") - sql[start:end].count(")")
        for position in range(end, len(sql)):
            depth += (sql[position] == "(") - (sql[position] == ")")
            if depth == 0:
                return position + 1
    return end
