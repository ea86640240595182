"""Error bars as text: of one value, and of a whole result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from dpsql.clients.output.cells import brief_text

if TYPE_CHECKING:
    from dpsql.plan.tables import Accuracy

NOISE = "noise > value"


def error_bars(names: Sequence[str], accuracy: Iterable[Sequence[Accuracy | None]]) -> str | None:
    """One line: per column the widest 95 % interval, as plus or minus."""
    known = zip(names, widest(len(names), accuracy), strict=True)
    parts = [f"{name} +-{width}" for name, width in known if width is not None]
    return "95 % error: " + ", ".join(parts) if parts else None


def widest(columns: int, accuracy: Iterable[Sequence[Accuracy | None]]) -> list[str | None]:
    """Of each column half the width of its widest interval, rounded up, with its unit where that is not the column's own."""
    found: list[tuple[float, str] | None] = [None] * columns
    for row in accuracy:
        for i, cell in enumerate(row[:columns]):
            if cell is not None:
                one = cell.half_width, " days" if isinstance(cell.low, date) else ""
                found[i] = max(found[i] or one, one)
    return [None if one is None else rounded_up(one[0]) + one[1] for one in found]


def with_bar(value: object, accuracy: Accuracy | None) -> tuple[str, str, str]:
    """A value as the text of itself, of its error, and of what is to be said of both; what has no error is itself alone.

    The value has the decimals of its error; where its interval is lopsided, the error is the longer side.
    """
    if accuracy is None or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return brief_text(value), "", ""
    number = float(value)
    low, high = accuracy.ends
    error = max(high - number, number - low)
    if not math.isfinite(error) or not math.isfinite(number):
        return brief_text(value), "+-inf", NOISE
    decimals = max(0, -_place(error)) if error > 0 else 10
    text = str(value) if isinstance(value, int) else f"{value:.{decimals}f}" if error > 0 else brief_text(value)
    return text, f"+-{rounded_up(error)}", NOISE if abs(number) < error else ""


def rounded_up(width: float) -> str:
    """Two significant digits, never less than the width."""
    if width <= 0:
        return "0"
    if not math.isfinite(width):
        return "inf"
    unit = 10.0 ** _place(width)
    return f"{math.ceil(width / unit - 1e-9) * unit:,.6g}"


def _place(width: float) -> int:
    """The power of ten of the second digit of a width."""
    return math.floor(math.log10(width)) - 1
