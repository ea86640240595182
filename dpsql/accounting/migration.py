"""A ledger of an earlier layout, brought to this one. What was spent stays, to the digit; claims end.

Layout 1 kept sums of epsilon and delta, and no chain; 2 brought losses in every measure, links and vectors; 3 what the guard remembers
of a charge; 4 events, failures, switches, versions of tables, the times of claims, and an id of the ledger; 5 bought sizes, what
the guard is to forget, and what it has evaluated anew.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable
from fractions import Fraction

from dpsql.accounting import chain, layout, rows
from dpsql.accounting.amounts import from_text
from dpsql.accounting.filters import added
from dpsql.accounting.totals import NOTHING, Spent
from dpsql.core.loss import NO_LOSS
from dpsql.mechanisms.conversions import pure
from dpsql.plan.charges import Portion

_TABLES_OF = {
    1: ("meta", "charge", "total", "answer", "version", "signature"),
    2: ("meta", "charge", "total", "claim", "answer", "vector", "version", "signature"),
    3: ("meta", "charge", "total", "claim", "answer", "vector", "version", "signature"),
}
_COPIED = ("version", "signature", "answer", "vector", "total")
_INDEXES = ("charge_of_analyst", "vector_of_question")
_CHARGE_OF = {
    2: f"{', '.join(rows.TIED[:10])}, '', '[]', 2, link",
    3: f"{', '.join(rows.TIED[:11])}, '[]', 3, link",
}
_FIRST = (
    "SELECT id, time, analyst, version, statement, fingerprints, mechanisms, epsilon, delta FROM old_charge ORDER BY id"
)
_APPEND = f"INSERT INTO charge ({rows.FIELDS}, link) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

KNOWN = frozenset({*_TABLES_OF, 4})
"""The layouts that can be brought to this one."""


def migrate(connection: sqlite3.Connection) -> bool:
    """Bring a ledger of a known layout to this one, in one transaction; one that has it already stays as it is.

    Why     a process that is killed leaves the old ledger, whole; of two that open it at once the second finds it done. A program of an
            earlier version that still has it open can store what it has paid for, and charge nothing more but on layout 4
    Output  whether this is now a whole ledger; False: it was damaged, and is as it was
    Errors  sqlite3.Error
    """
    connection.execute("PRAGMA foreign_keys = OFF")  # tables that refer to each other are made again
    connection.execute("BEGIN IMMEDIATE")
    try:
        ((version,),) = connection.execute("SELECT layout FROM meta")
        if version == 4:
            layout.add_guard_tables(connection)
            connection.execute("UPDATE meta SET layout = ?", (layout.LAYOUT,))
        done = version in (4, layout.LAYOUT) or _rebuilt(connection, version)
        connection.execute("COMMIT" if done else "ROLLBACK")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return done


def _rebuilt(connection: sqlite3.Connection, version: int) -> bool:
    for index in _INDEXES:
        connection.execute(f"DROP INDEX IF EXISTS {index}")
    for table in _TABLES_OF[version]:
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    layout.lay_out(connection)
    ((identity, secret, created),) = connection.execute("SELECT identity, secret, created FROM old_meta")
    connection.execute(layout.META, (layout.LAYOUT, identity, secrets.token_hex(16), secret, created))
    if version == 1:
        whole = _chained(connection, secret)
    else:
        connection.execute(f"INSERT INTO charge ({rows.FIELDS}, link) SELECT {_CHARGE_OF[version]} FROM old_charge")
        whole = True
    for table in _COPIED:
        if table in _TABLES_OF[version] and not (version == 1 and table == "total"):
            connection.execute(f"INSERT INTO {table} SELECT * FROM old_{table}")
    _forget_unreadable(connection)
    for table in reversed(_TABLES_OF[version]):
        connection.execute(f"DROP TABLE old_{table}")
    return whole


def _chained(connection: sqlite3.Connection, secret: bytes) -> bool:
    """Tie the charges of layout 1, and add them up in every measure. Output: whether that is at least what was added up then."""
    before, books = chain.FIRST, dict[tuple[str, str], Spent]()
    for number, time, analyst, *words, epsilon, delta in connection.execute(_FIRST):
        amounts = (from_text(epsilon), from_text(delta))
        if amounts[0] is None or amounts[1] is None:
            return False
        portions = [Portion(added(NO_LOSS, pure(amounts[0], amounts[1])))]
        row = (number, time, analyst, None, *words, rows.written(portions), json.dumps([]), "", "[]", rows.FORM)
        tied = rows.link(secret, before, row)
        if tied is None:
            return False
        connection.execute(_APPEND, (*row, tied))
        before = tied
        for scope, name, loss in rows.scopes(analyst, None, portions):
            books[scope, name] = books.get((scope, name), NOTHING).plus(loss, time)
    for (scope, name), spent in books.items():
        seal = chain.sealed(secret, scope, name, spent.text)
        connection.execute("INSERT INTO total VALUES (?, ?, ?, ?, ?)", (scope, name, spent.charges, spent.text, seal))
    kept = connection.execute("SELECT scope, name, charges, epsilon, delta FROM old_total").fetchall()
    return len(kept) == len(books) and all(_covers(books.get((row[0], row[1])), row[2:]) for row in kept)


def _covers(spent: Spent | None, kept: Iterable[object]) -> bool:
    charges, *texts = kept
    epsilon, delta = map(from_text, texts)
    if spent is None or epsilon is None or delta is None:
        return False
    most = spent.ever.epsilon or Fraction(0)
    return spent.charges == charges and epsilon <= most and delta <= spent.ever.delta


def _forget_unreadable(connection: sqlite3.Connection) -> None:
    """Leave out stored answers whose form is no longer known: they are asked anew."""
    from dpsql.accounting import payload

    for fingerprint, stored in connection.execute("SELECT fingerprint, payload FROM answer").fetchall():
        if not isinstance(stored, bytes) or payload.decode(stored) is None:
            connection.execute("DELETE FROM vector WHERE fingerprint = ?", (fingerprint,))
            connection.execute("DELETE FROM answer WHERE fingerprint = ?", (fingerprint,))
