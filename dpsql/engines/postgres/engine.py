"""The engine that reads a PostgreSQL database: each statement in its own transaction, which first sees that the data is approved."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TypeVar

from dpsql.core import cancellation
from dpsql.core.cancellation import require_process
from dpsql.core.errors import Error, error
from dpsql.engines.base import ExactTable, Sieve, answer
from dpsql.engines.postgres.dialect import DIALECT, PostgresDialect
from dpsql.engines.postgres.server import Server, Transaction
from dpsql.engines.postgres.shown import show, stored_again, values
from dpsql.engines.postgres.words import WORDS
from dpsql.engines.served import TEXTS, Rows, ServedEngine, told
from dpsql.engines.signature import NO_LENGTHS, Digests, Lengths
from dpsql.plan.tables import PublicTable
from dpsql.schema.model import Schema

Result = TypeVar("Result")
_MACHINE = ("08", "25", "40", "42501", "53", "54", "57", "58")
"""Beginnings of the codes of what the server lacks, whatever the values are."""
_HINT = """SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::text, coalesce(sum(c.relfilenode::bigint), 0)::text
FROM pg_class AS c LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid WHERE c.oid IN ({})"""


class Checksums:
    """By what the contents are known again: a keyed checksum of each table. Nothing says it without reading.

    pinned  by table, what was approved; empty before `digests`
    """

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine
        self.pinned: dict[str, bytes] = {}
        self.key = ""

    def keyed(self, secret: bytes, structure: str) -> str:
        return ""

    def holds(self) -> bool:
        return self._engine.unchanged()

    def digests(self, secret: bytes, lengths: Lengths = NO_LENGTHS) -> Digests:
        self.key = hmac.new(secret, b"rows of a database", hashlib.sha256).hexdigest()
        self.pinned = self._engine.hashed([t.name for t in self._engine.tables.values()])
        return Digests(b"".join(self.pinned[name] for name in sorted(self.pinned)), dict(self.pinned))


class PostgresEngine(ServedEngine):
    """The declared tables of one schema as relations over those of a database.

    Why     a REPEATABLE READ transaction reads one version of all tables; in it, before the question, the keyed checksums of the tables
            that the question reads are compared with the approved ones (rules 61, 63)
    Errors  707 the database cannot be reached; 804 it does not have the declared columns; else as Engine
    """

    def __init__(self, schema: Schema) -> None:
        self._process = os.getpid()
        self._server = Server(schema.source)
        self._seconds = float(schema.limits.seconds)
        self._limited, self._moved, self._hint = False, False, ("", "")
        self._opening = ExitStack()
        self._first: Transaction | None = None
        self.dialect: PostgresDialect = DIALECT
        self.signature = Checksums(self)
        self.words = WORDS
        try:
            self._shown, self._stored = self._walled(lambda reading: show(reading, schema), 707)
        except BaseException:
            self.close()
            raise
        self.tables = {t.name: t for t in self._shown.tables}

    def __repr__(self) -> str:
        return "<PostgresEngine>"

    def limit(self, memory: int | None) -> None:
        """See Engine; what the server holds in memory is the server's own setting."""
        self._ended()
        self._limited = True
        self._hint = self._looked()

    def exact(
        self,
        sql: str,
        keys: int,
        sums: int,
        bound: Sequence[PublicTable] = (),
        cut: str = "",
        sieve: Sieve | None = None,
    ) -> ExactTable:
        if not self._limited or not self.signature.pinned:
            raise error(901, "a statement was about to run before the engine was limited")

        def read(reading: Transaction) -> ExactTable:
            self._require(reading, self._shown.read(sql))
            rows = reading.rows(self._asked(sql, bound))
            width = len(rows[0]) if rows else keys + sums
            return answer([[[row[i] for row in rows] for i in range(width)]], keys, sums, sieve)

        return self._walled(read, 701, cut=cut)

    def owner_rows(self, sql: str) -> Rows:
        def read(reading: Transaction) -> Rows:
            self._require(reading, self._shown.read(sql))
            return reading.rows(self._asked(sql))

        return self._walled(read, 707)

    def _asked(self, sql: str, bound: Sequence[PublicTable] = ()) -> str:
        held = {table.name: values(table) for table in bound}
        return self._shown.asked(sql, held, "MATERIALIZED ", "NOT MATERIALIZED ")

    @property
    def is_pinned(self) -> bool:
        return True

    def unchanged(self) -> bool:
        """True while nothing was seen to change: the server's counters say so early, the checksums for sure."""
        if self._moved:
            return False
        found = self._looked()
        if self._limited and found != self._hint:
            held = self.hashed(list(self.tables)) == self.signature.pinned
            self._moved, self._hint = not held, found
        return not self._moved

    def hashed(self, tables: Sequence[str]) -> dict[str, bytes]:
        """The checksums of some tables as they are now."""
        return self._walled(lambda reading: self._hashes(reading, tables), 707)

    def close(self) -> None:
        if self._process == os.getpid():
            self._ended()
            self._server.close()

    def _ended(self) -> None:
        """End the transaction in which it was opened."""
        self._first = None
        with suppress(Exception):
            self._opening.close()

    def _looked(self) -> tuple[str, str]:
        """Counts that the server keeps of writes to the tables: a hint, which comes late and may be lost."""
        places = ", ".join(f"{WORDS.text(one.relation)}::regclass" for one in self._stored)
        rows = self._walled(lambda reading: reading.rows(_HINT.format(places)), 707)
        return str(rows[0][0]), str(rows[0][1])

    def _hashes(self, reading: Transaction, tables: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for table in tables:
            text = repr(reading.rows(self._shown.hashes[table])[0])
            found[table] = hashlib.sha256(f"{table}\n{text}\n{self._stored}".encode()).digest()
        return found

    def _require(self, reading: Transaction, tables: Sequence[str]) -> None:
        """Raise 702 unless this transaction reads the approved contents of these tables."""
        if not self.signature.pinned:
            return
        same = stored_again(reading, self._stored)
        if not same or any(self.signature.pinned[t] != h for t, h in self._hashes(reading, tables).items()):
            self._moved = True
            raise error(702, TEXTS[702])

    def _in_opening(self) -> Transaction:
        """The transaction in which it is opened: what is verified, listed and approved is of one version."""
        if self._first is None:
            self._first = self._opening.enter_context(self._server.transaction())
        self._first.keep("", self.signature.key)
        return self._first

    def _walled(self, read: Callable[[Transaction], Result], code: int, *, cut: str = "") -> Result:
        """Run something in a transaction; raise what goes wrong as constant text, outside of any except block."""
        require_process(self._process)
        try:
            if not self._limited:
                return read(self._in_opening())
            with self._server.transaction(self._seconds) as reading:
                reading.keep(cut, self.signature.key)
                return read(reading)
        except (Exception, KeyboardInterrupt) as fault:
            problem = _ending(fault) or told(fault, code, _is_of_machine)
        raise problem


def _ending(fault: BaseException) -> Error | None:
    """The error to raise where a statement was ended, by its limits or from outside; None for any other fault."""
    statement = cancellation.current()
    if isinstance(fault, Error):
        return statement.ended(int(fault.code[-3:])) if fault.code in cancellation.ENDED else None
    if isinstance(fault, KeyboardInterrupt):
        return statement.ended(cancellation.INTERRUPTED)
    state = str(getattr(fault, "sqlstate", None) or "")
    if state == "53200" or isinstance(fault, MemoryError):
        return statement.ended(cancellation.FILLED)
    if state == "57014":
        return statement.problem() or statement.ended(cancellation.TIMED)
    return None


def _is_of_machine(fault: BaseException) -> bool:
    return str(getattr(fault, "sqlstate", None) or "08").startswith(_MACHINE)
