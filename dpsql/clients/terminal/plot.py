"""A plot in a terminal: one amount that grows over time, as columns of text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate

HEIGHT = 6  # lines
NARROWEST = 12  # columns of the plot itself
EIGHTHS = " ▁▂▃▄▅▆▇█"
PLAIN = " ....####"


def plot(moments: Sequence[datetime], amounts: Sequence[float], width: int, *, plain: bool = False) -> str:
    """Plot the sum up to each moment, from the first to the last.

    amounts  what each moment added; at least 0
    width    columns that may be used
    plain    with ASCII characters alone
    """
    sums = list(accumulate(amounts))
    if not sums:
        return ""
    top = f"{sums[-1]:.4g}"
    columns = max(width - len(top) - 2, NARROWEST)
    levels = _levels(moments, sums, columns)
    glyphs = PLAIN if plain else EIGHTHS
    edge = "|" if plain else "│"
    lines = []
    for row in range(HEIGHT - 1, -1, -1):
        label = top if row == HEIGHT - 1 else "0" if row == 0 else ""
        cells = "".join(glyphs[min(max(level - 8 * row, 0), 8)] for level in levels)
        lines.append(f"{label:>{len(top)}} {edge}{cells}".rstrip())
    return "\n".join([*lines, " " * (len(top) + 2) + _axis(moments[0], moments[-1], columns)])


def _levels(moments: Sequence[datetime], sums: Sequence[float], columns: int) -> list[int]:
    """Height of each column, in eighths of a line; what is above zero is seen."""
    first, span = moments[0], (moments[-1] - moments[0]).total_seconds()
    passed = [(moment - first).total_seconds() for moment in moments]
    found = []
    for column in range(columns):
        until = span * (column + 1) / columns
        done = bisect_right(passed, until) if column < columns - 1 else len(sums)
        amount = sums[done - 1] if done else 0.0
        share = amount / sums[-1] if sums[-1] > 0 else 0.0
        found.append(max(round(share * 8 * HEIGHT), int(amount > 0)))
    return found


def _axis(first: datetime, last: datetime, columns: int) -> str:
    """The first and the last moment: days, or times of one day."""
    if first.date() == last.date():
        start, end = first.strftime("%Y-%m-%d %H:%M"), last.strftime("%H:%M")
    else:
        start, end = first.date().isoformat(), last.date().isoformat()
    gap = columns - len(start) - len(end)
    return f"{start}{' ' * gap}{end}" if gap > 0 else start[:columns]
