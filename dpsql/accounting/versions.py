"""Data versions: which contents the owner's check approved, under random ids that say nothing about them."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field

from dpsql.accounting import layout
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import clean

_BY_SIGNATURE = "SELECT version FROM signature WHERE signature = ?"
_BY_CONTENT = "SELECT id FROM version WHERE content = ?"
_FACTS = "SELECT facts FROM version WHERE id = ?"
_LATEST = "SELECT id, facts FROM version ORDER BY approval DESC LIMIT 1"
_APPROVE = """INSERT INTO version VALUES (?, ?, ?, (SELECT coalesce(max(approval), 0) + 1 FROM version), ?)
ON CONFLICT (content) DO UPDATE SET approval = excluded.approval, time = excluded.time"""
_TABLE = "INSERT OR IGNORE INTO version_of_table VALUES (?, ?, ?)"
_OF_TABLES = """SELECT one.name, (
    SELECT version.id FROM version_of_table AS other JOIN version ON version.id = other.version
    WHERE other.name = one.name AND other.content = one.content ORDER BY version.rowid LIMIT 1
) FROM version_of_table AS one WHERE one.version = ?"""
_CONTENTS = "SELECT name, content FROM version_of_table WHERE version = ?"
_TIMES = "SELECT id, time FROM version"
_MAKE_FIRST = "CREATE TABLE IF NOT EXISTS first_approval (version TEXT PRIMARY KEY, time TEXT NOT NULL) WITHOUT ROWID"
_KEEP_FIRST = "INSERT OR IGNORE INTO first_approval SELECT id, time FROM version"
_HAS_FIRST = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'first_approval'"
_FIRST = "SELECT version, time FROM first_approval"
_NOTE = "UPDATE version SET facts = ? WHERE id = ?"
_RECORD = "INSERT INTO signature VALUES (?, ?) ON CONFLICT (signature) DO UPDATE SET version = excluded.version"


@dataclass(frozen=True, slots=True)
class TableVersions:
    """Versions that one snapshot has of its tables.

    tables   by table
    periods  by table and declared periods, of the closed ones that are older than the table's own, by the period's name
    """

    tables: Mapping[str, str]
    periods: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of(self, table: str, periods: str = "", name: str = "") -> str:
        """The version of a table, or of one period of it: its own where that is open, or closed since."""
        return self.periods.get(periods, {}).get(name, self.tables[table])


class Versions:
    """The approved data versions of one ledger.

    content    text of an HMAC of the data, made by the caller under the ledger's secret
    signature  text by which unchanged files are recognised without reading them
    facts      text of what the check verified, the caller's to read
    Why        a version's id is random, so that what is shown of it depends on no value (rule 37)
    Errors     704, 705, 802 as the ledger's; 901 a version that was never approved
    """

    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store

    def by_signature(self, signature: str) -> str | None:
        """The version whose files bore this signature last; None if it was never recorded."""
        return self._first(_BY_SIGNATURE, signature)

    def by_content(self, content: str) -> str | None:
        """The version that has this content; None if it was never approved."""
        return self._first(_BY_CONTENT, content)

    def facts(self, version: str) -> str | None:
        """Facts verified of this data version; None if there is no such version."""
        return self._first(_FACTS, version)

    def latest(self) -> tuple[str, str] | None:
        """(version, facts) of the last approval; None before the first."""
        return next(iter(self._store.rows(_LATEST)), None)

    def of_tables(self, version: str) -> dict[str, str]:
        """Version of each table in a data version: the id of the first one that had the same contents of this table.

        Tables of a version that an earlier layout approved are missing: nothing is known of their contents by themselves.
        """
        return dict(self._store.rows(_OF_TABLES, clean(version)))

    def contents(self, version: str) -> dict[str, str]:
        """Contents of each table in a data version, as they were given to `approve`."""
        return dict(self._store.rows(_CONTENTS, clean(version)))

    def times(self) -> dict[str, str]:
        """The time of the last approval of every version: UTC, ISO 8601."""
        return dict(self._store.rows(_TIMES))

    def first_times(self) -> dict[str, str]:
        """The time of the first approval of every version, which stays when it is approved again: UTC, ISO 8601.

        Why  the table is made by the first approval that could move a time: before that, no earlier one is known
        """

        def work(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            is_there = connection.execute(_HAS_FIRST).fetchone() is not None
            return connection.execute(_FIRST).fetchall() if is_there else []

        return {**self.times(), **dict(self._store.read(work))}

    def approve(self, content: str, signature: str, facts: str, tables: Mapping[str, str]) -> str:
        """Approve this content, known by this signature too, and return its version.

        Content that was approved before keeps its id and its facts, which are about the same contents, and becomes the
        latest.

        tables  as content, by table
        """

        def work(connection: sqlite3.Connection) -> str:
            connection.execute(_MAKE_FIRST)
            connection.execute(_KEEP_FIRST)
            connection.execute(_APPROVE, (secrets.token_hex(16), clean(content), clean(facts), layout.now()))
            (version,) = connection.execute(_BY_CONTENT, (clean(content),)).fetchone()
            connection.execute(_KEEP_FIRST)
            connection.execute(_RECORD, (clean(signature), version))
            connection.executemany(_TABLE, [(version, clean(name), clean(text)) for name, text in tables.items()])
            return str(version)

        return self._store.write(work)

    def record_facts(self, version: str, facts: str) -> None:
        """Write what was verified of a version, in place of what is written; a version that was never approved has none."""
        row = (clean(facts), clean(version))
        self._store.write(lambda connection: connection.execute(_NOTE, row))

    def record_signature(self, version: str, signature: str) -> None:
        """Remember that files with this signature hold this version, in place of any that they held before."""
        row = (clean(signature), clean(version))
        self._store.write(lambda connection: connection.execute(_RECORD, row))

    def _first(self, query: str, value: str) -> str | None:
        return next((found for (found,) in self._store.rows(query, clean(value))), None)
