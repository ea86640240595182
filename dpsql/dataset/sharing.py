"""Opened data that the sessions of a process share: one engine, with its files and its memory, however many connections there are.

Why     what is shared reads one approved version and knows nothing of who asks; each statement is ended by itself, and each session has
        its own sandbox, options and view of the ledger
Limit   the memory that the owner allows the engine is that of all statements which run at once
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import VersionRecord, read_record
from dpsql.dataset import binding
from dpsql.dataset.opening import Dataset, asked_anew, open_dataset
from dpsql.engines.structure import declared
from dpsql.schema.model import Schema


@dataclass(slots=True, eq=False)
class _Held:
    """Data that some sessions of a process have open: whose, and what the ledger said of it then."""

    process: int
    schema: Schema
    ledger: str
    file: Path
    record: VersionRecord
    dataset: Dataset
    users: int = 1


class Sharing:
    """The opened data of this process.

    Threads  from any
    Forks    a child opens its own: what its parent holds is left to it
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[_Held] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def open(self, schema: Schema, ledger: Ledger, *, approve: bool) -> Dataset:
        """As open_dataset; what another session has open is not opened again while it is this version, for this ledger and schema.

        Whoever is done with it closes the dataset, which closes the engine after the last of them.
        """
        file = ledger.store.file
        if file is None:
            return open_dataset(schema, ledger, approve=approve)
        binding.require(schema, ledger)
        held = self._taken(schema, ledger, file)
        if held is not None:
            try:
                notes = (*(binding.mark(schema, ledger) if approve else ()), *asked_anew(ledger))
            except BaseException:
                self._release(held)
                raise
        else:
            opened = open_dataset(schema, ledger, approve=approve)
            if opened.moved or opened.older:
                # what is approved next is for the sessions after it
                return opened
            record = read_record(ledger, opened.version, declared(schema))
            held, notes = _Held(os.getpid(), schema, ledger.id, file, record, opened), opened.notes
            with self._lock:
                self._held.append(held)
        return replace(held.dataset, notes=notes, release=lambda: self._release(held))

    def _taken(self, schema: Schema, ledger: Ledger, file: Path) -> _Held | None:
        """Open data that may be shared; one more uses it."""
        here = (os.getpid(), ledger.id, file)
        with self._lock:
            alike = [h for h in self._held if (h.process, h.ledger, h.file) == here and h.schema == schema]
            for held in alike:
                held.users += 1
        found: _Held | None = None
        try:
            about = declared(schema) if alike else ""
            for held in alike:
                known = read_record(ledger, held.dataset.version, about)
                engine = held.dataset.engine
                # the declared files too: a session that begins now is of what they hold now
                if known == held.record and engine.signature.holds() and engine.unchanged():
                    found = held
        finally:
            for held in alike:
                if held is not found:
                    self._release(held)
        return found

    def _release(self, held: _Held) -> None:
        """One less uses it; the last one closes the engine."""
        if held.process != os.getpid():
            return
        with self._lock:
            held.users -= 1
            last = held.users == 0
            if last:
                self._held.remove(held)
        if last:
            held.dataset.engine.close()

    def _in_child(self) -> None:
        """The lock may be held by a thread that only the parent has; what is listed stays, for it must not end here."""
        self._lock = threading.Lock()


SHARED = Sharing()
