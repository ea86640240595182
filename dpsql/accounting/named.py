"""Everything that a ledger keeps under names: cubes and models. Each says how a stored answer is read. They give nothing back.

Why  the numbers are a stored answer like any other (answers.py), and the charge stands in the chain: what is dropped, or whose name
     is lost, is made anew free as long as its answer is stored. So the table is made when it is first written to, and no layout
     speaks of it
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import clean


class HasName(Protocol):
    """Object that is kept under a name."""

    @property
    def name(self) -> str: ...


Kept = TypeVar("Kept", bound=HasName)


@dataclass(frozen=True, slots=True)
class Register(Generic[Kept]):
    """One kind of what is kept: its table, and how it is written and read; None is anything else."""

    table: str
    written: Callable[[Kept], str]
    read: Callable[[str], Kept | None]


class Names(Generic[Kept]):
    """Everything of one kind in one ledger, each read once. Errors  704, 705, 802 as the ledger's; 705 too where an entry was edited.

    whose  the analyst whose answers are shared with nobody; else "": names do not depend on case
    """

    def __init__(self, ledger: Ledger, kind: Register[Kept], whose: str) -> None:
        self._store, self._kind, self._whose = ledger.store, kind, clean(whose)
        self._read: dict[bytes, Kept] = {}

    def all(self) -> list[Kept]:
        """Every one, by name."""
        return [self._opened(*row) for row in self._store.read(self._rows)]

    def _rows(self, connection: sqlite3.Connection) -> list[tuple[str, bytes, str]]:
        there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        if connection.execute(there, (self._kind.table,)).fetchone() is None:
            return []
        found = f"SELECT name, digest, body FROM {self._kind.table} WHERE whose = ? ORDER BY name"
        return connection.execute(found, (self._whose,)).fetchall()

    def get(self, name: str) -> Kept | None:
        return next((one for one in self.all() if one.name.lower() == clean(name).lower()), None)

    def keep(self, one: Kept) -> None:
        """Keep one under its name, in place of another that has it."""
        name, body = clean(one.name).lower(), self._kind.written(one)
        row = (name, self._whose, self._digest(name, body), body)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._kind.table} (name TEXT NOT NULL, whose TEXT NOT NULL, "
                "digest BLOB NOT NULL, body TEXT NOT NULL, PRIMARY KEY (name, whose)) WITHOUT ROWID"
            )
            connection.execute(f"INSERT OR REPLACE INTO {self._kind.table} VALUES (?, ?, ?, ?)", row)

        self._store.write(work)

    def drop(self, name: str) -> None:
        """Forget a name; charge and answer stay."""
        row = (clean(name).lower(), self._whose)
        dropped = f"DELETE FROM {self._kind.table} WHERE name = ? AND whose = ?"
        self._store.write(lambda connection: connection.execute(dropped, row))

    def _opened(self, name: str, digest: bytes, body: str) -> Kept:
        if digest not in self._read:
            one = self._kind.read(body) if digest == self._digest(name, body) else None
            if one is None:
                raise self._store.damaged()
            self._read[digest] = one
        return self._read[digest]

    def _digest(self, name: str, body: str) -> bytes:
        """Ties what is kept to its name and kind."""
        tied, person = f"{name}\0{self._whose}\0{body}".encode(), f"dpsql {self._kind.table}s".encode()
        return hashlib.blake2b(tied, key=self._store.secret, digest_size=16, person=person).digest()
