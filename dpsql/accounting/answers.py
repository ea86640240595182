"""Stored answers: a release that was paid for is given again for nothing."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence

from dpsql.accounting import claims, layout, payload, switches, vectors
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import clean
from dpsql.accounting.vectors import Vector
from dpsql.core.errors import error
from dpsql.plan.tables import NoisyTable

_GET = "SELECT digest, payload FROM answer WHERE fingerprint = ?"
_CHARGE = "SELECT charge FROM answer WHERE fingerprint = ?"
_BUYER = "SELECT analyst FROM charge JOIN answer ON answer.charge = charge.id WHERE fingerprint = ?"
_PUT = "INSERT INTO answer VALUES (?, ?, ?, ?) ON CONFLICT (fingerprint) DO NOTHING"
_NEWEST = "SELECT max(time) FROM charge JOIN answer ON answer.charge = charge.id"
_REPLACE = "INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?)"


class Answers:
    """The answers stored in one ledger, by the fingerprint of their release.

    Why     the same noise twice tells nothing new, fresh noise would: a fingerprint keeps its first answer
    Errors  704, 705, 802 as the ledger's; 705 too where a stored answer is damaged
    """

    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store

    def get(self, fingerprint: str) -> NoisyTable | None:
        """The stored answer, exactly as it was released; None if there is none."""
        name = clean(fingerprint)
        rows = self._store.rows(_GET, name)
        if not rows:
            return None
        digest, stored = rows[0]
        table = payload.decode(stored) if isinstance(stored, bytes) and digest == self._digest(name, stored) else None
        if table is None:
            raise self._store.damaged()
        return table

    def charges_of(self, fingerprints: Sequence[str]) -> list[int | None]:
        """The charge that bought each stored answer; None where there is none."""

        def work(connection: sqlite3.Connection) -> list[int | None]:
            rows = [connection.execute(_CHARGE, (clean(each),)).fetchone() for each in fingerprints]
            return [row[0] if row is not None else None for row in rows]

        return self._store.read(work)

    def are_of(self, analyst: str, fingerprints: Sequence[str]) -> bool:
        """True if one analyst bought all of some stored answers."""

        def work(connection: sqlite3.Connection) -> bool:
            rows = [connection.execute(_BUYER, (clean(each),)).fetchone() for each in fingerprints]
            return all(row == (analyst,) for row in rows)

        return self._store.read(work)

    def is_charged(self, analyst: str, key: str) -> bool:
        """True if an analyst's request with this key was charged; False where it has no key."""
        return bool(key) and self._store.read(lambda connection: switches.is_charged(connection, analyst, key))

    def asks_anew(self, fingerprints: str) -> bool:
        """True if all stored answers are of another way to tell questions apart, so that each is bought once more.

        fingerprints  the way of now; from the first time that it is named on the ledger knows since when
        """
        since = self._store.read(lambda connection: switches.thrown(connection, fingerprints))
        if since is None:
            self._store.write(lambda connection: switches.throw(connection, fingerprints, layout.now()))
        ((newest,),) = self._store.rows(_NEWEST)
        return newest is not None and (since is None or newest < since)

    def put(
        self,
        charge_id: int,
        fingerprint: str,
        table: NoisyTable,
        *,
        fresh: bool = False,
        of: Sequence[Vector] = (),
    ) -> NoisyTable:
        """Store what the charge bought, and return what is stored: this table, or one that was there first.

        Who claimed the release lets it go with it.

        Why     the disk is not waited for: an answer that a crash of the machine loses costs budget, since the next who asks pays anew,
                and never privacy, since its charge is durable

        fresh   it takes the place of one that is there
        of      what its cells are, where others can be read off them
        Errors  901 no such charge, or a table that holds anything but integers, text, booleans and NULL
        """
        name, stored = clean(fingerprint), payload.encode(table)
        if stored is None:
            raise error(901, "a released table cannot be stored")
        row = (name, charge_id, self._digest(name, stored), stored)
        if self._store.keep(lambda connection: self._inserted(connection, row, fresh, of)):
            return table
        first = self.get(fingerprint)
        return table if first is None else first

    def _inserted(
        self, connection: sqlite3.Connection, row: tuple[str, int, bytes, bytes], fresh: bool, of: Sequence[Vector]
    ) -> bool:
        claims.done(connection, row[0])
        is_new = connection.execute(_REPLACE if fresh else _PUT, row).rowcount == 1
        if is_new:
            vectors.write(connection, self._store.secret, row[0], of)
        return is_new

    def _digest(self, fingerprint: str, stored: bytes) -> bytes:
        """Ties the bytes to their fingerprint, so that damage and a row moved to another name are both noticed."""
        keyed = hashlib.blake2b(fingerprint.encode("utf-8"), key=self._store.secret, digest_size=16)
        keyed.update(b"\0")
        keyed.update(stored)
        return keyed.digest()
