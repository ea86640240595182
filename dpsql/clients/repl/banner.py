"""Banner of a session, and its page of help."""

from __future__ import annotations

from collections.abc import Sequence

import dpsql
from dpsql.clients.declared import table_sql
from dpsql.clients.output.prices import budget_left, number
from dpsql.clients.repl.desk import Desk

KEYS = """Enter sends a statement that ends with ; and else begins a new line. Esc Enter sends at once.
Tab completes, Ctrl-R searches what was asked before, Ctrl-C cancels, Ctrl-D leaves."""
PRICES = """Every question about people has a price, epsilon, out of a budget that does not come back. The answer carries noise: the 95 % error says how far a number may be off, in 95 of 100 cases. A higher price buys a smaller error. The same statement again, and what follows from answers that are there, is free. A refusal costs nothing."""  # noqa: E501


def banner(desk: Desk) -> str:
    """Dataset, analyst, budget, and what to write next."""
    privacy, left = desk.schema.privacy, desk.left()
    window = f" a {privacy.window}" if privacy.window is not None else ""
    lines = [
        f"dpsql {dpsql.__version__}: {desk.schema.name}, asked by {desk.analyst}",
        f"Budget: {budget_left(left, f' of {number(privacy.budget.epsilon)}{window}')}; "
        f"a statement costs {number(privacy.query.epsilon)} unless it says otherwise.",
        f"Write SQL that ends with ; such as: {example(desk)}",
        "Answers carry noise and say how much. \\d lists the tables, \\explain tells a price before it is paid, \\? helps, \\q leaves.",
    ]
    return "\n".join(lines)


def example(desk: Desk) -> str:
    """A statement that this dataset answers."""
    table = next((t for t in desk.schema.tables if not t.public), None)
    return f"SELECT COUNT(*) FROM {table_sql(table.name)};" if table is not None else "SHOW TABLES;"


def help_text(desk: Desk, listed: Sequence[tuple[str, str]]) -> str:
    """Every command, keys, and what the numbers mean.

    listed  how each command is written, and what it is for
    """
    width = max(len(shown) for shown, _ in listed) + 2
    narrow = desk.screen.width < 2 * width
    lines = [f"{shown}\n    {about}" if narrow else f"  {shown:<{width}}{about}" for shown, about in listed]
    first = f"Next: \\d, then {example(desk)} and \\explain before a price is paid."
    return "\n".join(["Commands (a point does as well as the backslash: .tables):", *lines, KEYS, PRICES, first])
