"""Error bars as text: of one value, and of a whole result. Both are the longer side of an interval, rounded up to two digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, time
from decimal import Decimal
from typing import TYPE_CHECKING

from dpsql.clients.output.cells import brief_text

if TYPE_CHECKING:
    from dpsql.plan.tables import Accuracy

MARK = "~"
"""Before a value that is smaller than its error."""
MARKED = f"{MARK} marks a value that is smaller than its 95 % error"


def error_bars(columns: Sequence[Sequence[object]], errors: Sequence[float | None]) -> str | None:
    """One line: the largest error of each column, as plus or minus."""
    parts = [f"{column[0]} +-{width}" for column, width in zip(columns, widths(columns, errors), strict=True) if width]
    return "95 % error: " + ", ".join(parts) if parts else None


def widths(columns: Sequence[Sequence[object]], errors: Sequence[float | None]) -> list[str | None]:
    """The errors of a result's columns, each with its unit where that is not the column's own.

    columns  begin with a name and a type
    """
    days = [str(column[1]).startswith(("DATE", "TIME")) for column in columns]
    return [None if e is None else rounded_up(e) + " days" * d for e, d in zip(errors, days, strict=True)]


def with_bar(value: object, accuracy: Accuracy | None) -> tuple[str, str]:
    """A value as text, rounded to the second digit of its error and marked where it is smaller, and the error; "" without one."""
    error = accuracy.error(value) if accuracy is not None else None
    if error is None:
        return brief_text(value), ""
    bar = f"+-{rounded_up(error)}"
    if isinstance(value, date | time):
        return brief_text(value), f"{bar} days"
    assert isinstance(value, int | float | Decimal)
    if not math.isfinite(error):
        return MARK + brief_text(value), "+-inf"
    text = _rounded(value, _place(error)) if error > 0 else brief_text(value)
    return MARK * (abs(float(value)) < error) + text, bar


def is_marked(row: Sequence[object], accuracy: Sequence[Accuracy | None]) -> bool:
    """True if a value of a row is smaller than its error."""
    return any(with_bar(*cell)[0].startswith(MARK) for cell in zip(row, accuracy, strict=True) if cell[1] is not None)


def _rounded(value: float | Decimal, place: int) -> str:
    """A number without the digits below a power of ten."""
    if isinstance(value, int):
        return str(round(value, -max(0, place)))
    return f"{round(value, -place):.{max(0, -place)}f}"


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
