"""A result as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpsql.plan import Accuracy

MOST_ROWS = 10_000


def cell_text(value: object) -> str:
    """One value as text; NULL as an empty cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value).replace("\n", "\\n").replace("\t", "\\t").replace("\x1b", "\\e")


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A header, a rule and the rows; numbers to the right."""
    shown = [[cell_text(value) for value in row] for row in rows[:MOST_ROWS]]
    numeric = [all(isinstance(row[i], int | float) or row[i] is None for row in rows) for i in range(len(names))]
    widths = [max([len(name), *(len(row[i]) for row in shown)]) for i, name in enumerate(names)]
    right = [number and bool(rows) for number in numeric]

    def line(cells: Sequence[str]) -> str:
        padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
        return "  ".join(padded).rstrip()

    lines = [line(names), "  ".join("-" * width for width in widths), *(line(row) for row in shown)]
    if len(rows) > MOST_ROWS:
        lines.append(f"... {len(rows) - MOST_ROWS:,} more rows")
    return "\n".join(lines)


def number(value: Fraction) -> str:
    """A short decimal of an amount of budget."""
    return f"{float(value):.6g}"


def error_bars(names: Sequence[str], accuracy: Sequence[Sequence[Accuracy | None]]) -> str | None:
    """One line: per column the widest 95 % interval, as plus or minus."""
    parts = []
    for i, name in enumerate(names):
        widths = [(cell.high - cell.low) / 2 for row in accuracy if i < len(row) and (cell := row[i]) is not None]
        if widths:
            parts.append(f"{name} +-{_rounded_up(max(widths))}")
    return "95 % error: " + ", ".join(parts) if parts else None


def _rounded_up(width: float) -> str:
    """Two significant digits, never less than the width."""
    if width <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(width)) - 1)
    return f"{math.ceil(width / unit - 1e-9) * unit:,.6g}"
