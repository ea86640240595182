"""A ledger of an earlier layout, brought to this one. What was spent stays, to the digit; claims end.

Layout 1 kept sums of epsilon and delta, and no chain; 2 brought losses in every measure, links and vectors; 3 what the guard remembers
of a charge; 4 events, failures, switches, versions of tables, the times of claims, and an id of the ledger; 5 bought sizes, what
the guard is to forget, and what it has evaluated anew; 6 the promise, and totals of whatever is added up, by name. A ledger of an
earlier layout has named no accounting: the next charge does, one of those that add up the measures of a loss.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable
from fractions import Fraction

from dpsql.accounting import chain, layout, rows
from dpsql.accounting.amounts import from_text
from dpsql.accounting.rows import Charged
from dpsql.accounting.totals import Spent
from dpsql.core.loss import LOSS, Sums
from dpsql.mechanisms.conversions import pure

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

KNOWN = frozenset({*_TABLES_OF, 4, 5})
"""The layouts that can be brought to this one."""


def migrate(connection: sqlite3.Connection) -> bool:
    """Bring a ledger of a known layout to this one, in one transaction; one that has it already stays as it is.

    Why     a process that is killed leaves the old ledger, whole; of two that open it at once the second finds it done. A program of an
            earlier version that still has it open can store what it has paid for, and charge nothing more
    Output  whether this is now a whole ledger; False: it was damaged, and is as it was
    Errors  sqlite3.Error
    """
    connection.execute("PRAGMA foreign_keys = OFF")  # tables that refer to each other are made again
    connection.execute("BEGIN IMMEDIATE")
    try:
        ((version,),) = connection.execute("SELECT layout FROM meta")
        done = version == layout.LAYOUT or (_with_a_promise if version in (4, 5) else _rebuilt)(connection, version)
        done = done and (version in (1, layout.LAYOUT) or _with_names(connection))
        connection.execute("COMMIT" if done else "ROLLBACK")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return done


def _with_a_promise(connection: sqlite3.Connection, version: int) -> bool:
    """Make room for it, and for what layout 4 did not have. Output: whether there was none yet."""
    if version == 4:
        layout.add_guard_tables(connection)
    if any(name == "promise" for _, name, *_ in connection.execute("PRAGMA table_info(meta)")):
        return False
    connection.execute("ALTER TABLE meta RENAME TO old_meta")
    connection.execute(layout.META_TABLE)
    rest = connection.execute("SELECT identity, ledger, secret, created FROM old_meta").fetchone()
    connection.execute(layout.META, (layout.LAYOUT, *rest))
    connection.execute("DROP TABLE old_meta")
    return True


def _with_names(connection: sqlite3.Connection) -> bool:
    """Write the names of the amounts into the totals, which had five. Output: whether each was what had been sealed."""
    ((secret,),) = connection.execute("SELECT secret FROM meta")
    for scope, name, text, seal in connection.execute("SELECT scope, name, spent, seal FROM total").fetchall():
        found = rows.read(text)
        if not isinstance(found, list) or len(found) != 3 or seal != chain.sealed(secret, scope, name, text):
            return False
        named = json.dumps([found[0], LOSS, *found[1:]], separators=(",", ":"))
        row = (named, chain.sealed(secret, scope, name, named), scope, name)
        connection.execute("UPDATE total SET spent = ?, seal = ? WHERE scope = ? AND name = ?", row)
    return True


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
        portions = [Charged(Sums.of(pure(amounts[0], amounts[1])).kept)]
        row = (number, time, analyst, None, *words, rows.written(portions), json.dumps([]), "", "[]", rows.FORM)
        tied = rows.link(secret, before, row)
        if tied is None:
            return False
        connection.execute(_APPEND, (*row, tied))
        before = tied
        for scope, name, sums in rows.scopes(analyst, None, portions, Sums.nothing()):
            books[scope, name] = books.get((scope, name), Spent.nothing(Sums.nothing())).plus(sums, time)
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
    most = spent.ever["epsilon"] or Fraction(0)
    return spent.charges == charges and epsilon <= most and delta <= spent.ever.delta


def _forget_unreadable(connection: sqlite3.Connection) -> None:
    """Leave out stored answers whose form is no longer known: they are asked anew."""
    from dpsql.accounting import payload

    for fingerprint, stored in connection.execute("SELECT fingerprint, payload FROM answer").fetchall():
        if not isinstance(stored, bytes) or payload.decode(stored) is None:
            connection.execute("DELETE FROM vector WHERE fingerprint = ?", (fingerprint,))
            connection.execute("DELETE FROM answer WHERE fingerprint = ?", (fingerprint,))
