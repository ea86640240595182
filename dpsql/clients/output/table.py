"""A result as a table, or as one line a value, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from dpsql.clients.output.bars import with_bar
from dpsql.clients.output.cells import columns_of, cut
from dpsql.core.escaping import harmless

if TYPE_CHECKING:
    from dpsql.plan.tables import Accuracy

MOST_ROWS = 10_000
NARROWEST = 8  # columns that a text is cut to at most
GAP = "  "
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"

Row = Sequence[object]
Accuracies: TypeAlias = "Sequence[Sequence[Accuracy | None]]"


def fitted(
    names: Sequence[str],
    rows: Sequence[Row],
    accuracy: Accuracies | None = None,
    width: int | None = None,
    *,
    bars: bool = False,
    colour: bool = False,
    mark: str = "...",
) -> str | None:
    """A header, a rule and the rows; numbers to the right. None where it cannot be as narrow as asked.

    accuracy  parallel to the rows: no value has more digits than it supports
    bars      each value is drawn with its error
    width     columns that there are; names and texts are cut to fit, numbers never
    mark      what stands where something was cut
    """
    right = [bool(rows) and _is_numeric(rows, i) for i in range(len(names))]
    grid = _cells(rows, accuracy, bars)
    heads = [harmless(name) for name in names]
    widths = _widths(heads, grid, right, width)
    if widths is None:
        return None

    def line(texts: Sequence[str]) -> str:
        return GAP.join(_padded(cut(t, w, mark), w, r) for t, w, r in zip(texts, widths, right, strict=True)).rstrip()

    paint = _painter(colour)
    lines = [paint(line(heads), _BOLD), paint(GAP.join("-" * w for w in widths), _DIM)]
    lines += [line(texts) for texts in grid]
    return "\n".join(lines)


def vertical(
    names: Sequence[str],
    rows: Sequence[Row],
    accuracy: Accuracies | None = None,
    *,
    bars: bool = False,
    colour: bool = False,
) -> Iterator[str]:
    """Each row as a text: one line a value, under the number of the row."""
    heads = [harmless(name) for name in names]
    width = max(columns_of(head) for head in heads)
    paint = _painter(colour)
    for i, row in enumerate(rows):
        texts = _cells([row], accuracy[i : i + 1] if accuracy is not None else None, bars)[0]
        lines = [paint(f"-- row {i + 1:,} --", _DIM)]
        for head, text in zip(heads, texts, strict=True):
            lines.append(f"{paint(_padded(head, width, False), _BOLD)}{GAP}{text}".rstrip())
        yield "\n".join(lines) + "\n"


def _cells(rows: Sequence[Row], accuracy: Accuracies | None, bars: bool) -> list[list[str]]:
    """The values as text for people; with their errors, values and errors below one another."""
    known = accuracy if accuracy is not None else [(None,) * len(row) for row in rows]
    parts = [[with_bar(*cell) for cell in zip(*both, strict=True)] for both in zip(rows, known, strict=True)]
    if not bars:
        return [[harmless(text) for text, _ in row] for row in parts]
    columns = range(len(rows[0]) if rows else 0)
    widest = [[max(len(row[i][part]) for row in parts) for part in (0, 1)] for i in columns]
    return [[harmless(_joined(texts, widest[i])) for i, texts in enumerate(row)] for row in parts]


def _is_numeric(rows: Sequence[Row], column: int) -> bool:
    """True if every value of a column is a number, or NULL."""
    return all(row[column] is None or isinstance(row[column], int | float | Decimal) for row in rows)


def _joined(texts: tuple[str, str], widest: Sequence[int]) -> str:
    """A value and its error; where no value of the column has one, the value alone."""
    return f"{texts[0]:>{widest[0]}} {texts[1]:<{widest[1]}}" if widest[1] else texts[0]


def _widths(
    heads: Sequence[str], grid: Sequence[Sequence[str]], right: Sequence[bool], width: int | None
) -> list[int] | None:
    """Columns of each column. What is too wide is taken from the widest that may be cut, until it fits."""
    needed = [max([0, *(columns_of(row[i]) for row in grid)]) for i in range(len(heads))]
    widths = [max(columns_of(head), most) for head, most in zip(heads, needed, strict=True)]
    if width is None:
        return widths
    least = [min(w, max(n if number else 0, NARROWEST)) for w, n, number in zip(widths, needed, right, strict=True)]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    if sum(widths) - sum(least) < excess:
        return None
    while excess > 0:
        i = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i])
        widths[i] -= 1
        excess -= 1
    return widths


def _padded(text: str, width: int, right: bool) -> str:
    blank = " " * (width - columns_of(text))
    return blank + text if right else text + blank


def _painter(colour: bool) -> Callable[[str, str], str]:
    return (lambda text, code: f"{code}{text}{_PLAIN}") if colour else (lambda text, code: text)
