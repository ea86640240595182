"""The rows of a result in any of the modes, and the line under them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO, TypeGuard

from dpsql.clients.output.bars import MARKED, error_bars, is_marked, with_bar
from dpsql.clients.output.prices import left, price
from dpsql.clients.output.table import MOST_ROWS, fitted, vertical
from dpsql.clients.terminal import streams
from dpsql.core.errors import Error
from dpsql.core.escaping import harmless

if TYPE_CHECKING:
    from dpsql.clients.dbapi.cursor import Cursor
    from dpsql.plan.tables import Accuracy

FOR_PEOPLE = ("table", "vertical")
"""The line under the rows belongs to the result; in the others a result is its rows alone."""
MODES: tuple[str, ...] = (*FOR_PEOPLE, *streams.WRITERS)
FOR_PROGRAMS = ("csv", "tsv", "json", "jsonl", "insert")
BATCH = 1000  # rows that are text at once


@dataclass(frozen=True, slots=True)
class ResultStyle:
    """Settings of what is drawn.

    bars    each noisy value with its 95 % error; in the modes that programs read, x_low and x_high stand beside x
    width   columns of the terminal: a table is cut to it, or drawn one line a value where that would leave nothing to read
    colour  with ANSI colours
    most    rows of a table
    auto    a table that is wider than the terminal is drawn one line a value, with nothing cut
    """

    bars: bool = False
    width: int | None = None
    colour: bool = False
    most: int = MOST_ROWS
    auto: bool = False


def show(cursor: Cursor, mode: str, out: TextIO, how: ResultStyle = ResultStyle()) -> int:
    """Write the rows that the cursor still has, and return their number. A statement without a result writes nothing."""
    bars = how.bars
    if bars and mode in FOR_PROGRAMS and cursor.description:
        cursor = cursor.with_ends()
    names = [column[0] for column in cursor.description or []]
    if not names:
        return 0
    if mode in FOR_PEOPLE:
        return _draw(cursor, names, mode, out, how)
    counted = _Counted(cursor, bars)
    # a terminal is given no character that it would obey
    write = (lambda text: out.write(harmless(text, kept="\n\t"))) if out.isatty() else out.write
    columns = [(str(column[0]), str(column[1])) for column in cursor.description or []]
    batches = counted.rows() if mode in FOR_PROGRAMS else counted.texts()
    streams.WRITERS[mode](columns, batches, write)
    return counted.count


def status(cursor: Cursor, rows: int, seconds: float | None = None) -> str:
    """Status line under a result: error bars; rows, time, price, and what is left.

    rows  of the result, as `show` counted them
    """
    privacy = cursor.privacy
    # what was free has no errors, and may have a million rows
    paid = privacy.releases or privacy.cached
    lines = [error_bars(cursor.description or [], cursor.errors) if paid else None]
    counted = f"{rows:,} row{'s' * (rows != 1)}" + (f" in {seconds:.2f} s" if seconds is not None else "")
    lines.append(
        f"{counted}; {price(privacy)}; remaining: {left(privacy)}"
        f"{'; the ledger is in memory' * cursor.connection.in_memory}"
    )
    return "\n".join(harmless(line) for line in lines if line)


def _draw(cursor: Cursor, names: Sequence[str], mode: str, out: TextIO, how: ResultStyle) -> int:
    rows = cursor.fetchall()
    shown = rows if mode == "vertical" else rows[: how.most]
    start = cursor.rowcount - len(rows)
    accuracy = cursor._intervals(start, start + len(shown))
    drawn = _table(names, shown, accuracy, out, how) if mode == "table" else None
    if drawn is not None:
        out.write(drawn + "\n")
    else:
        for text in vertical(names, shown, accuracy, bars=how.bars, colour=how.colour):
            out.write(text)
    if any(map(is_marked, shown, accuracy)):
        out.write(MARKED + "\n")
    if len(shown) < len(rows):
        out.write(f"... {len(rows) - len(shown):,} more rows\n")
    return len(rows)


def _table(
    names: Sequence[str],
    rows: Sequence[Sequence[object]],
    accuracy: Sequence[Sequence[Accuracy | None]],
    out: TextIO,
    how: ResultStyle,
) -> str | None:
    """The rows as a table; None where one line a value is better."""
    mark = "…" if can_show(out, "…") else "..."
    if how.auto and how.width is not None:
        whole = fitted(names, rows, accuracy, None, bars=how.bars)
        # the rule below the names is as wide as the table
        if whole is not None and len(whole.split("\n")[1]) > how.width:
            return None
    return fitted(names, rows, accuracy, how.width, bars=how.bars, colour=how.colour, mark=mark)


def is_asked_back(problem: BaseException | None) -> TypeGuard[Error]:
    """True of the error that asks whether a statement is to be bought; nothing was charged for it."""
    return isinstance(problem, Error) and problem.code == "DPSQL-505" and "buy=on" in (problem.hint or "")


def question(problem: Error) -> str:
    """The question, whose usual answer costs nothing."""
    return f"{problem.message[:1].upper()}{problem.message[1:]}. Buy it? [y/N, which reads it off] "


def answered(sql: str, *, bought: bool) -> str:
    """The statement with what was said."""
    return f"/* dpsql: buy={'on' if bought else 'off'} */ {sql}"


class _Counted:
    """The rows that a cursor still has, in batches, counted."""

    def __init__(self, cursor: Cursor, bars: bool) -> None:
        self.count = 0
        self._cursor = cursor
        self._bars = bars

    def rows(self) -> Iterator[list[tuple[object, ...]]]:
        while batch := self._cursor.fetchmany(BATCH):
            self.count += len(batch)
            yield batch

    def texts(self) -> Iterator[list[list[str]]]:
        """The values as text for people, with their errors where these are drawn."""
        start = self._cursor.rownumber or 0
        for batch in self.rows():
            accuracy = self._cursor._intervals(start, start + len(batch))
            start += len(batch)
            yield [
                [self._text(*cell) for cell in zip(*both, strict=True)] for both in zip(batch, accuracy, strict=True)
            ]

    def _text(self, value: object, accuracy: Accuracy | None) -> str:
        text, bar = with_bar(value, accuracy)
        return f"{text} {bar}" if self._bars and bar else text


def can_show(out: TextIO, text: str) -> bool:
    """True if an output has the characters of a text."""
    try:
        text.encode(getattr(out, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
