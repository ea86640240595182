"""Status that Harlequin shows beside the rows: types, error bars, prices and what is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpsql.clients.dbapi.cursor import Cursor
from dpsql.clients.output import prices
from dpsql.clients.output.bars import widths
from dpsql.clients.output.prices import StatementPrice
from dpsql.core.escaping import harmless

_TYPES = {
    "BOOLEAN": "t/f", "TINYINT": "#", "SMALLINT": "#", "INTEGER": "#", "UTINYINT": "u#", "USMALLINT": "u#", "UINTEGER": "u#",
    "BIGINT": "##", "UBIGINT": "u##", "HUGEINT": "###", "FLOAT": "#.#", "DOUBLE": "#.#", "DECIMAL": "#.#", "VARCHAR": "s",
    "DATE": "d", "TIME": "t", "TIMESTAMP": "ts", "INTERVAL": "|-|", "STRUCT": "{}",
}  # fmt: skip


def short_type(sqltype: str) -> str:
    """A type in the few characters that Harlequin's own adapters write.

    >>> short_type("BIGINT"), short_type("DECIMAL(15,2)"), short_type("INTEGER[]"), short_type("BLOB")
    ('##', '#.#', '[]', '?')
    """
    if sqltype.endswith("]"):
        return "[]"
    return _TYPES.get(sqltype.partition("(")[0].strip(), "?")


def column_labels(cursor: Cursor) -> list[tuple[str, str]]:
    """Name and label of each column: its short type, and plus or minus its largest 95 % error where it has one."""
    columns = cursor.description or []
    # What was free has no errors, and may have a million rows.
    bought = cursor.privacy.releases or cursor.privacy.cached
    known = widths(columns, cursor.errors if bought else [None] * len(columns))
    return [
        (harmless(name), short_type(str(kind)) + (f" ±{width}" if width is not None else ""))
        for (name, kind, *_), width in zip(columns, known, strict=True)
    ]


def left(privacy: StatementPrice) -> str:
    """Largest price of one more statement, rounded down to the few digits that the label has room for."""
    if privacy.statements is not None:
        return f"{privacy.statements:,} statements left"
    remaining = privacy.remaining
    if remaining <= 0:
        return "ε 0 left"
    unit = Fraction(10) ** (math.floor(math.log10(remaining)) - 3)
    return f"ε {prices.number(remaining // unit * unit)} left"


def price(privacy: StatementPrice, notes: Sequence[str]) -> str | None:
    """Price of a statement, the remaining budget, and the warnings of the guard; None where there is nothing to
    tell."""
    lines = [f"note: {note}" for note in notes]
    if privacy.releases or privacy.cached:
        lines.append(f"{prices.price(privacy)}; remaining: {prices.left(privacy)}")
    return "\n".join(lines) or None


def greeting(dataset: str, who: str, privacy: StatementPrice, usual: str) -> str:
    """Greeting that Harlequin shows once it is connected.

    usual  the price of a statement that names none
    """
    return f"{dataset}, as {who}; remaining: {prices.left(privacy)}. A question costs epsilon {usual} unless it says otherwise."
