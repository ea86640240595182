"""Memory of the guard in the ledger beside the charges: bought sizes, the charges that it is to forget, and whom those
are about that were evaluated anew, on other sample units.

Why  all of it decides nothing but which statements the guard lets through: charges, totals, answers and the chain are as if there were
     none of it
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping

from dpsql.accounting import layout
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import Store, clean

_SIZES = "SELECT name, digest, body FROM size ORDER BY name"
_PUT = "INSERT OR REPLACE INTO size VALUES (?, ?, ?, ?)"
_ASKED = "SELECT statement, coalesce((SELECT asked FROM evaluated WHERE charge = id), asked) FROM charge WHERE id = ?"
_EVALUATED = "INSERT OR REPLACE INTO evaluated VALUES (?, ?)"
_FORGOTTEN = "SELECT count(*) FROM forgotten"
_FORGET = """INSERT INTO forgotten SELECT id, ? FROM charge
WHERE id = ? AND asked <> '' AND id NOT IN (SELECT charge FROM forgotten)"""


def sizes(ledger: Ledger) -> dict[str, str]:
    """The bought sizes by name, as they were written. Raises 705 where one was edited."""
    rows = ledger.store.read(lambda connection: connection.execute(_SIZES).fetchall())
    for name, digest, body in rows:
        if digest != _digest(ledger.store, name, body):
            raise ledger.store.damaged()
    return {name: body for name, _, body in rows}


def keep_sizes(ledger: Ledger, charge: int, bodies: Mapping[str, str]) -> None:
    """Keep sizes that a charge has bought, in place of those of the same name."""
    store = ledger.store
    rows = [(clean(name), charge, _digest(store, clean(name), body), body) for name, body in bodies.items()]
    store.write(lambda connection: connection.executemany(_PUT, rows))


def forget(ledger: Ledger, charges: list[int]) -> int:
    """Let the guard forget whom some charged statements were about; how many it remembered until now."""

    def work(connection: sqlite3.Connection) -> int:
        now = layout.now()
        return sum(connection.execute(_FORGET, (now, charge)).rowcount for charge in charges)

    return ledger.store.write(work)


def asked_of(ledger: Ledger, charge: int) -> tuple[str, str]:
    """A charged statement, and whom it was about as that is kept now; "" where there is none."""
    row = ledger.store.read(lambda connection: connection.execute(_ASKED, (charge,)).fetchone())
    return (str(row[0]), str(row[1])) if row is not None else ("", "")


def keep_evaluated(ledger: Ledger, asked: Mapping[int, str]) -> None:
    """Keep whom charged statements were about, in place of what was kept."""
    ledger.store.write(lambda connection: connection.executemany(_EVALUATED, list(asked.items())))


def forgotten(ledger: Ledger) -> int:
    """Number of charges that the guard is to forget."""
    return int(ledger.store.read(lambda connection: connection.execute(_FORGOTTEN).fetchone()[0]))


def _digest(store: Store, name: str, body: str) -> bytes:
    """Ties what was bought to its name."""
    return hashlib.blake2b(f"{name}\0{body}".encode(), key=store.secret, digest_size=16, person=b"dpsql sizes").digest()
