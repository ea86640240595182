"""The engine that asks a Spark cluster: each statement reads the files that were there when it was opened, and are there after it."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from dpsql.core import cancellation
from dpsql.core.cancellation import require_process
from dpsql.core.errors import Error, error
from dpsql.engines.base import ExactTable, Find, Kept, Sieve, answer
from dpsql.engines.served import TEXTS, Rows, ServedEngine, told
from dpsql.engines.shown import shown
from dpsql.engines.signature import NO_LENGTHS, Digests, Lengths
from dpsql.engines.snapshot import Snapshot
from dpsql.engines.spark import arrow, copies
from dpsql.engines.spark.copies import Copies
from dpsql.engines.spark.dialect import DIALECT, SparkDialect
from dpsql.engines.spark.server import ENDED, SECRETS, ConnectServer, Listing, address
from dpsql.engines.spark.shown import ShowingFiles, of_owner
from dpsql.engines.spark.stored import Opened, opened
from dpsql.engines.spark.words import WORDS
from dpsql.plan.tables import PublicTable
from dpsql.schema.model import Schema, Table

Result = TypeVar("Result")
_MACHINE = ("08", "42501", "53", "54", "57", "58", "HY", "KD", "XX")
"""Beginnings of the states of what the server lacks, whatever the values are."""
_FULL = re.compile("OutOfMemory|No space left|UNABLE_TO_ACQUIRE_MEMORY|maxResultSize")
_ENDED = (ENDED, "OPERATION_ABANDONED")
RECENT = 10.0
"""[seconds] for which the listing behind one statement is that before the next.

Why  a listing is a job of the server, which takes as long as a small statement. Each statement has its own behind it, and releases
     nothing that other files gave: what this one spares is a charge, where files change in between
"""


class FileListing:
    """By what the contents are known again: paths, sizes and times of files; and, read once, a keyed checksum of each table.

    Why  the listing tells of any file that is written anew; the checksum knows the rows again where only the files are others
    """

    def __init__(self, engine: SparkEngine, files: Listing) -> None:
        self._engine, self._files = engine, files

    def keyed(self, secret: bytes, structure: str) -> str:
        listed = f"spark\n{structure}\n{self._files}".encode()
        return hmac.new(secret, listed, hashlib.sha256).hexdigest()

    def holds(self) -> bool:
        return self._engine.unchanged()

    def digests(self, secret: bytes, lengths: Lengths = NO_LENGTHS) -> Digests:
        key = hmac.new(secret, b"rows of a cluster", hashlib.sha256).hexdigest()
        found = self._engine.hashed(key)
        return Digests(b"".join(found[table] for table in sorted(found)), found)


class SparkEngine(ServedEngine):
    """The declared tables of one schema as relations over files that a cluster reads.

    Why     a relation stands for the files that were listed when it was opened, so that a statement reads no others; after it, the same
            listing says that none of them was written since (rules 61, 63)
    Errors  707 the server cannot be reached; 804 it does not have the declared columns; else as Engine
    """

    def __init__(self, schema: Schema, find: Find) -> None:
        self._process, self._schema = os.getpid(), schema
        self._limited, self._moved, self._listed_at = False, False, -RECENT
        self._renewing = threading.Lock()
        self.dialect: SparkDialect = DIALECT
        self.words = WORDS
        self._copies: Copies | None = None
        self._server = ConnectServer(schema.source)
        try:
            self._stored: Opened = self._walled(lambda: self._of_files(schema.tables), 707)
            self._shown = self._walled(lambda: shown(ShowingFiles(), schema, self._stored.tables), 707)
            self.signature = FileListing(self, self._stored.files)
            self._take(find(self.signature))
        except BaseException:
            self.close()
            raise
        self.tables = {t.name: t for t in self._shown.tables}

    def __repr__(self) -> str:
        return "<SparkEngine>"

    @property
    def files(self) -> Listing:
        """Those that are read: path, size [bytes] and time."""
        return self._stored.files

    def limit(self, memory: int | None) -> None:
        """See Engine; what the cluster holds in memory is its own setting."""
        self._limited = True

    def exact(
        self,
        sql: str,
        keys: int,
        sums: int,
        bound: Sequence[PublicTable] = (),
        cut: str = "",
        sieve: Sieve | None = None,
    ) -> ExactTable:
        if not self._limited:
            raise error(901, "a statement was about to run before the engine was limited")

        def read() -> ExactTable:
            with ExitStack() as stack:
                held = {table.name: stack.enter_context(self._server.held(arrow.table(table))) for table in bound}
                held[SECRETS] = self._server.kept(arrow.secrets(cut, ""), cut)
                found = self._server.batches(
                    self._asked(sql, held),
                    lambda batches: answer((list(map(arrow.column, b.columns)) for b in batches), keys, sums, sieve),
                )
            self._require()
            self._listed_at = time.monotonic()
            return found

        return self._walled(read, 701)

    def owner_rows(self, sql: str) -> Rows:
        def read() -> Rows:
            rows = self._server.rows(self._asked(of_owner(sql), {}))
            if self._limited:
                self._require()
            return [tuple(map(arrow.plain, row)) for row in rows]

        return self._walled(read, 707)

    def copy(self, schema: Schema, table: Table, file: Path, kept: Kept | None = None) -> None:
        self._walled(lambda: copies.write(self._server, schema, self._stored, self._shown, table, file), 704)

    def _take(self, found: Snapshot | None) -> None:
        """Read private tables from a prepared snapshot, where it is there as it was written."""
        self._copies = copies.noted(self._schema, found.files) if found is not None else None
        if self._copies is not None:
            stored = self._walled(self._copied, 707)
            if stored is None:
                self._copies = None
            else:
                queries = {**self._shown.queries, **copies.queries(self._schema, stored)}
                self._stored, self._shown = stored, replace(self._shown, queries=queries)

    def _copied(self) -> Opened | None:
        try:
            return self._opened()
        except Error:
            raise
        except Exception as fault:
            if not _is_gone(fault):
                raise
        return None

    def _opened(self) -> Opened | None:
        """All that is read, as it is now, shown to the session; None where a copy has other files than were written."""
        if self._copies is None:
            return self._of_files(self._schema.tables)
        public = self._of_files([t for t in self._schema.tables if t.public])
        return copies.opened(self._server, self._copies, public)

    def _of_files(self, declared: Sequence[Table]) -> Opened:
        return opened(self._server, address(self._schema.source), declared)

    def _asked(self, sql: str, held: Mapping[str, str]) -> str:
        """A question; held: by name of a relation the view of the session that it stands for."""
        return self._shown.asked(sql, {name: f"SELECT * FROM {WORDS.name(view)}" for name, view in held.items()})

    @property
    def is_pinned(self) -> bool:
        return self._copies is not None

    def unchanged(self) -> bool:
        """True while the files are those that were opened, as they were listed now or behind a statement shortly before."""
        if not self._moved and time.monotonic() - self._listed_at < RECENT:
            return True
        self._moved = self._moved or self._walled(self._reached, 707) != self.files
        return not self._moved

    def hashed(self, key: str) -> dict[str, bytes]:
        """Keyed checksums of the rows of all tables. Reads everything."""

        def read() -> dict[str, bytes]:
            found, secrets = {}, self._server.kept(arrow.secrets("", key), f" {key}")
            for table, query in self._shown.hashes.items():
                (row,) = self._server.rows(self._asked(query, {SECRETS: secrets}))
                stored = self._stored.tables[table].columns
                found[table] = hashlib.sha256(f"{table}\n{tuple(map(str, row))}\n{stored}".encode()).digest()
            self._require()
            return found

        return self._walled(read, 707)

    def close(self) -> None:
        if self._process == os.getpid():
            self._server.close()

    def _reached(self) -> Listing:
        """The files that are there now; where the server has closed its session, by a new one.

        Why  servers close sessions that nobody uses for an hour. Nothing of a statement was sent yet, and what the new session is shown
             is what was opened: the same files, listed before and after
        """
        session = self._server.session
        try:
            return self._listed()
        except Error:
            raise
        except Exception as fault:
            if not _is_closed(fault):
                raise
        with self._renewing:
            if self._server.session is session:
                self._server.renew()
                if self._copied() != self._stored:
                    return ()
        return self._listed()

    def _listed(self) -> Listing:
        try:
            return self._stored.listed(self._server)
        except Error:
            raise
        except Exception as fault:
            if not _is_gone(fault):
                raise
        return ()

    def _require(self) -> None:
        """Raise 702 unless the files are those that were opened: so they were while they were read."""
        if self._moved or self._listed() != self.files:
            self._moved = True
            raise error(702, TEXTS[702])

    def _walled(self, read: Callable[[], Result], code: int) -> Result:
        """Run something; raise what goes wrong as constant text, outside of any except block."""
        require_process(self._process)
        try:
            return read()
        except (Exception, KeyboardInterrupt) as fault:
            problem = _ending(fault) or told(fault, code, _is_of_machine)
        if code == 701 and not problem.code.endswith(("702", "703", "710", "711")) and self._gone():
            problem = error(702, TEXTS[702])
        raise problem

    def _gone(self) -> bool:
        """True where a failure is that of a file that is no more."""
        try:
            return self._listed() != self.files
        except (Exception, KeyboardInterrupt):
            return False


def _condition(fault: Any) -> str:
    """The name that Spark has for a failure; constant."""
    found = getattr(fault, "getCondition", None)
    return str(found() or "") if found is not None else ""


def _is_closed(fault: Any) -> bool:
    """True where the server has no such session any more."""
    return _condition(fault).startswith("INVALID_HANDLE.SESSION")


def _is_gone(fault: Any) -> bool:
    """True where the server finds a table or a folder no more."""
    told = _state(fault).startswith(("42", "22", "46")) or "NOT_FOUND" in _condition(fault)
    return told and not _is_closed(fault)


def _state(fault: Any) -> str:
    found = getattr(fault, "getSqlState", None)
    return str(found() or "") if found is not None else ""


def _ending(fault: BaseException) -> Error | None:
    """The error to raise where a statement was ended, by its limits or from outside; None for any other fault."""
    statement = cancellation.current()
    if isinstance(fault, Error):
        return statement.ended(int(fault.code[-3:])) if fault.code in cancellation.ENDED else None
    if isinstance(fault, KeyboardInterrupt):
        return statement.ended(cancellation.INTERRUPTED)
    if isinstance(fault, MemoryError) or _FULL.search(str(fault)):
        return statement.ended(cancellation.FILLED)
    if _condition(fault) in _ENDED or ENDED in str(fault):
        return statement.problem() or statement.ended(cancellation.TIMED)
    return None


def _is_of_machine(fault: BaseException) -> bool:
    state = _state(fault)
    return not state or state.startswith(_MACHINE)
