"""A result as notebooks and print() show it: a table with what the noise may be off by in every cell."""

from __future__ import annotations

import math
from decimal import Decimal
from html import escape

from dpsql.clients.output.bars import MARKED, is_marked, rounded_up, with_bar
from dpsql.clients.output.cells import brief_text
from dpsql.clients.output.prices import StatementPrice, left, price
from dpsql.clients.output.table import fitted
from dpsql.core.escaping import harmless
from dpsql.plan.tables import Accuracy
from dpsql.session.result import Answer

MOST_ROWS = 60
MOST_COLUMNS = 40
LONGEST = 200  # characters of a cell
_DIM = "opacity: 0.6"


def html(answer: Answer, privacy: StatementPrice) -> str:
    """The first rows of a result, its price and what is left. Every text in it is escaped."""
    names = [name for name, _ in answer.columns[:MOST_COLUMNS]]
    rows = answer.rows[:MOST_ROWS]
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    body = "\n".join(
        f"<tr>{''.join(_cell(*pair) for pair in zip(row[:MOST_COLUMNS], accuracy[:MOST_COLUMNS], strict=True))}</tr>"
        for row, accuracy in zip(rows, answer.accuracy[: len(rows)], strict=True)
    )
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    return f'{table}\n<p style="{_DIM}">{escape(harmless("; ".join(_status(answer, privacy))))}</p>'


def plain(answer: Answer, privacy: StatementPrice) -> str:
    """The same as text, as wide as it is."""
    names = [name for name, _ in answer.columns[:MOST_COLUMNS]]
    rows = [row[:MOST_COLUMNS] for row in answer.rows[:MOST_ROWS]]
    accuracy = [cells[:MOST_COLUMNS] for cells in answer.accuracy[: len(rows)]]
    table = fitted(names, rows, accuracy, bars=True)
    return f"{table}\n{harmless('; '.join(_status(answer, privacy)).replace('±', '+-'))}"


def _cell(value: object, accuracy: Accuracy | None) -> str:
    if value is None:
        return f'<td style="{_DIM}">NULL</td>'
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return f'<td style="text-align: left">{_text(brief_text(value))}</td>'
    bar = f' <span style="{_DIM}">{error_bar(float(value), accuracy)}</span>' if accuracy is not None else ""
    return f'<td style="text-align: right">{_text(with_bar(value, accuracy)[0])}{bar}</td>'


def error_bar(value: float, accuracy: Accuracy) -> str:
    """Plus or minus, rounded up; both ends where they are not equally far; nothing where one of them is not finite.

    >>> error_bar(1164, Accuracy(1134.0, 1194.0, 0.95)), error_bar(0, Accuracy(0.0, 12.3, 0.95))
    ('± 30', '[0, 12.3]')
    """
    low, high = accuracy.ends
    if not all(map(math.isfinite, (value, low, high))):
        return ""
    below, above = value - low, high - value
    if abs(above - below) > 0.05 * (above + below):
        return f"[{low:,.4g}, {high:,.4g}]"
    return f"± {rounded_up(max(below, above))}"


def _status(answer: Answer, privacy: StatementPrice) -> list[str]:
    """Rows, what the bars mean, price and what is left, as under a result of the command line."""
    count = len(answer.rows)
    said = [f"{count:,} row{'s' * (count != 1)}"]
    if count > MOST_ROWS:
        said.append(f"the first {MOST_ROWS} are shown")
    if len(answer.columns) > MOST_COLUMNS:
        said.append(f"the first {MOST_COLUMNS} of {len(answer.columns)} columns are shown")
    accuracy = answer.accuracy[:MOST_ROWS]
    if any(cell is not None for row in accuracy for cell in row):
        said.append("± is the 95 % error of the noise")
    if any(map(is_marked, answer.rows, accuracy)):
        said.append(MARKED)
    return [*said, price(privacy), f"remaining: {left(privacy)}", *answer.notes, *answer.remarks]


def _text(text: str) -> str:
    return escape(harmless(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…", kept="\n\t"))
