"""reckoning: what all charges add up to, from their rows: as it was promised, or as another accounting would have it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from dpsql.accountants.filters import Promise
from dpsql.accounting import layout, problems, ran, rows
from dpsql.accounting.books import Books
from dpsql.accounting.chain import NO_HEAD, Head, read_head
from dpsql.accounting.rows import Charged
from dpsql.accounting.store import Store
from dpsql.accounting.totals import Spent
from dpsql.plan.charges import Budget

CHARGES = f"SELECT {rows.FIELDS}, link FROM charge ORDER BY id"

Totals = dict[tuple[str, str], Spent]


def count(store: Store, totals: Totals, row: Sequence[object], portions: Sequence[Charged], promise: Promise) -> None:
    """Add what a row charged to totals. Raises 705 where it adds up something else than was promised."""
    nothing, analyst, role = promise.nothing, str(row[2]), None if row[3] is None else str(row[3])
    if any(portion.sums.names != nothing.names for portion in portions):
        raise store.damaged()
    for scope, name, sums in rows.scopes(analyst, role, portions, nothing):
        totals[scope, name] = totals.get((scope, name), Spent.nothing(nothing)).plus(sums, str(row[1]))


def as_if(store: Store, connection: sqlite3.Connection, budget: Budget) -> Books:
    """The totals that the accounting of a budget would have of all that ran: a report, and no promise. Raises 705."""
    promise, totals = Promise.under(budget.total, budget.accounting), Totals()
    for *row, _ in connection.execute(CHARGES):
        portions = ran.recharged(row, promise)
        if portions is None:
            raise store.damaged()
        count(store, totals, row, portions, promise)
    return Books(store, connection, layout.now(), promise, totals)


def remembered(file: Path | None) -> Head:
    """The head in the file beside a ledger. Raises 704, 705."""
    if file is None:
        return NO_HEAD
    problem = problems.bad_head(str(file))
    try:
        found = read_head(file)
    except OSError as caught:
        found, problem = None, problems.from_system(str(file), caught)
    if found is None:
        raise problem
    return found
