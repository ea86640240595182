"""Memory of the guard in the ledger beside the charges: bought sizes, the charges that it is to forget, whom those are about that were
evaluated anew, on other sample units, and what was read of many charges, packed.

Why  all of it decides nothing but which statements the guard lets through: charges, totals, answers and the chain are as if there were
     none of it
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dpsql.accounting import layout
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import Store, clean

_SIZES = "SELECT name, digest, body FROM size ORDER BY name"
_PUT = "INSERT OR REPLACE INTO size VALUES (?, ?, ?, ?)"
_ASKED = "SELECT statement, coalesce((SELECT asked FROM evaluated WHERE charge = id), asked) FROM charge WHERE id = ?"
_EVALUATED = "INSERT OR REPLACE INTO evaluated VALUES (?, ?)"
_CHANGED = "SELECT (SELECT count(*) FROM forgotten), user_version FROM pragma_user_version"
_PACKED = "SELECT since, last, digest, body FROM packed WHERE whose = ? AND form = ? ORDER BY last"
_IS_PACKED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'packed'"
_PACKS = """CREATE TABLE IF NOT EXISTS packed (
    whose TEXT NOT NULL, form TEXT NOT NULL, since INTEGER NOT NULL, last INTEGER NOT NULL, digest BLOB NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (whose, last)
)"""
_UNPACK = "DELETE FROM packed WHERE last >= ?"
_OTHERWISE = "DELETE FROM packed WHERE whose = ? AND (form <> ? OR last > ?)"
_PACK = "INSERT OR REPLACE INTO packed VALUES (?, ?, ?, ?, ?, ?)"
_FORGET = """INSERT INTO forgotten SELECT id, ? FROM charge
WHERE id = ? AND asked <> '' AND id NOT IN (SELECT charge FROM forgotten)"""


def sizes(ledger: Ledger) -> dict[str, str]:
    """The bought sizes by name, as they were written. Raises 705 where one was edited."""
    rows = ledger.store.rows(_SIZES)
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
    return next(((str(statement), str(asked)) for statement, asked in ledger.store.rows(_ASKED, charge)), ("", ""))


def keep_evaluated(ledger: Ledger, asked: Mapping[int, str]) -> None:
    """Keep whom charged statements were about, in place of what was kept."""
    ledger.store.write(lambda connection: connection.executemany(_EVALUATED, list(asked.items())))


def correct(ledger: Ledger, charge: int, asked: str) -> None:
    """Keep whom a charged statement was about, now that the values that it reads are known; in the transaction that decides it.

    Why  others may have read what was kept of it, and packed that: they read it again once the number of corrections is another
    """

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(_EVALUATED, (charge, asked))
        connection.execute(f"PRAGMA user_version = {_changed(connection)[1] + 1}")
        if connection.execute(_IS_PACKED).fetchone() is not None:
            connection.execute(_UNPACK, (charge,))

    ledger.store.read(work)


def changed(ledger: Ledger) -> tuple[int, int]:
    """Number of charges that the guard is to forget, and of corrections: whom a known charge is about is told anew by either."""
    return ledger.store.read(_changed)


def _changed(connection: sqlite3.Connection) -> tuple[int, int]:
    forgotten, corrected = connection.execute(_CHANGED).fetchone()
    return int(forgotten), int(corrected)


@dataclass(frozen=True, slots=True)
class Packing:
    """Kind of what is packed.

    whose  the analyst; "" where no analysts are told apart
    form   of what it is made, by which version: equal forms of equal charges are equal bytes
    """

    whose: str
    form: str


def packed(ledger: Ledger, kind: Packing) -> Iterator[tuple[int, int, bytes]]:
    """Parts that were packed, each of the charges after one up to another, oldest first; up to the first that was edited.

    Why  of what is packed all stands in the charges too, where it is read as far as there is nothing here. So the table is made when it
         is first written to, and no layout speaks of it
    """

    def work(connection: sqlite3.Connection) -> list[tuple[int, int, bytes, bytes]]:
        if connection.execute(_IS_PACKED).fetchone() is None:
            return []
        return connection.execute(_PACKED, (kind.whose, kind.form)).fetchall()

    for since, last, digest, body in ledger.store.moment(work):
        if not isinstance(body, bytes) or digest != _tied(ledger.store, kind, since, last, body):
            return
        yield since, last, body


def keep_packed(ledger: Ledger, kind: Packing, since: int, last: int, body: bytes, known: tuple[int, int]) -> None:
    """Keep what was packed of the charges after one up to another, in place of all later parts and those of other forms; nothing where
    another process has packed otherwise meanwhile, or any were told anew since `known`."""
    row = (kind.whose, kind.form, since, last, _tied(ledger.store, kind, since, last, body), body)

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(_PACKS)
        ends = {end for _, end, _, _ in connection.execute(_PACKED, (kind.whose, kind.form))}
        if max(ends, default=0) <= last and (since in ends or not since) and _changed(connection) == known:
            connection.execute(_OTHERWISE, (kind.whose, kind.form, since))
            connection.execute(_PACK, row)

    ledger.store.write(work)


def _tied(store: Store, kind: Packing, since: int, last: int, body: bytes) -> bytes:
    """Ties what was packed to what it is of."""
    tied = hashlib.blake2b(key=store.secret, digest_size=16, person=b"dpsql packed")
    tied.update(repr((kind.whose, kind.form, since, last)).encode())
    tied.update(body)
    return tied.digest()


def _digest(store: Store, name: str, body: str) -> bytes:
    """Ties what was bought to its name."""
    return hashlib.blake2b(f"{name}\0{body}".encode(), key=store.secret, digest_size=16, person=b"dpsql sizes").digest()
