"""Error bars as text: of one value, and of a whole result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from dpsql.clients.output.cells import brief_text

if TYPE_CHECKING:
    from dpsql.plan.tables import Accuracy

NOISE = "noise > value"


def error_bars(names: Sequence[str], accuracy: Iterable[Sequence[Accuracy | None]]) -> str | None:
    """One line: per column the widest 95 % interval, as plus or minus."""
    widest: list[float | None] = [None] * len(names)
    for row in accuracy:
        for i, cell in enumerate(row):
            if cell is not None:
                widest[i] = max(widest[i] or 0.0, (cell.high - cell.low) / 2)
    parts = [f"{name} +-{rounded_up(width)}" for name, width in zip(names, widest, strict=True) if width is not None]
    return "95 % error: " + ", ".join(parts) if parts else None


def with_bar(value: object, accuracy: Accuracy | None) -> tuple[str, str, str]:
    """A value as the text of itself, of its error, and of what is to be said of both; what has no error is itself alone.

    The value has the decimals of its error; where its interval is lopsided, the error is the longer side.
    """
    if accuracy is None or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return brief_text(value), "", ""
    number = float(value)
    error = max(accuracy.high - number, number - accuracy.low)
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
