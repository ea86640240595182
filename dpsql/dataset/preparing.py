"""The owner's side of the prepared snapshot: writing it once for an approved version (see engines/snapshot.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import read_record, snapshot_folder, write_record
from dpsql.core.errors import error
from dpsql.dataset.closing import (
    BEGIN_ANEW,
    LOST,
    base_of,
    by_period,
    bytes_of,
    file_of,
    keeps_any,
    kept_in,
    named_periods,
)
from dpsql.dataset.opening import dated, recognised, require_unchanged
from dpsql.engines import snapshot
from dpsql.engines.base import Kept
from dpsql.engines.registry import kind_for
from dpsql.engines.snapshot import Snapshot
from dpsql.engines.structure import declared
from dpsql.schema.model import Schema


def require_place(schema: Schema, ledger: Ledger) -> Path:
    """The folder of all snapshots. Raises 802 for a ledger in memory, 801 where the engine makes none."""
    kind_for(schema).require_copies(schema)
    root = snapshot_folder(ledger)
    if root is None:
        raise error(802, "a ledger in memory has no place for a prepared snapshot", hint="name a file for the ledger")
    return root


def prepare(schema: Schema, ledger: Ledger, version: str, begin: Callable[[str], None] = lambda step: None) -> Snapshot:
    """Write the snapshot of an approved version, or keep the one that is there, and remove those of other versions.

    Nothing half is ever found: the files are written apart and moved into place together, and recorded after that.

    begin   is called with each step that begins: one a private table, where they are written
    Errors  704 it cannot be written; 708 the data is no longer this version; 801, 802 as `require_place`
    """
    root = require_place(schema, ledger)
    found = _kept(root, schema, ledger, version)
    if found is None:
        _write(root, schema, ledger, version, begin)
        found = snapshot.look(root, version, schema)
    about = declared(schema)
    whole = bytes_of(found, ledger, about) if found is not None else None
    if found is None or whole is None:
        raise error(704, "the prepared snapshot cannot be read back", hint="run the check again")
    pair = (found.signature.keyed(ledger.secret, about), whole)
    write_record(ledger, version, replace(read_record(ledger, version, about), declared=about, snapshot=pair))
    # not before it is recorded: rows of closed periods are in the older ones alone
    snapshot.remove_others(root, version)
    return found


def remove_left(ledger: Ledger) -> None:
    """Remove what a preparation that was killed has left beside the ledger."""
    root = snapshot_folder(ledger)
    if root is not None:
        snapshot.remove_left(root)


def _kept(root: Path, schema: Schema, ledger: Ledger, version: str) -> Snapshot | None:
    """The snapshot that is there, if its bytes are those that were written: connections that read it are not disturbed."""
    record = read_record(ledger, version, declared(schema))
    found = snapshot.look(root, version, schema)
    if found is None or record.snapshot is None or bytes_of(found, ledger, declared(schema)) != record.snapshot[1]:
        return None
    snapshot.remove_others(root, version)
    return found


def _write(root: Path, schema: Schema, ledger: Ledger, version: str, begin: Callable[[str], None]) -> None:
    kept = kept_in(ledger, version)
    base = base_of(schema, ledger, version) if by_period(schema) else None
    if keeps_any(kept) and base is None:
        raise error(708, LOST, hint=BEGIN_ANEW)
    with snapshot.draft(root, schema) as folder:
        outputs, read = snapshot.files(folder, schema), base[1].files if base is not None else ()
        engine = kind_for(schema).begin(schema, lambda _: None, (*outputs, *read))
        try:
            if recognised(engine, schema, ledger)[0] != version:
                raise error(
                    708, "the data changed while it was prepared", hint="check it again when nothing writes to it"
                )
            filled = dated(schema, ledger, version)[1]
            private = (t for t in filled.tables if not t.public)
            for table, file in zip(private, outputs, strict=True):
                begin(f"writing {table.name}")
                periods = tuple(name for name, _ in named_periods(kept, table))
                older = Kept(file_of(base[1], schema, table), periods) if base is not None and periods else None
                engine.copy(filled, table, file, older)
            require_unchanged(engine)
        finally:
            engine.close()
        snapshot.publish(folder, root, version, base[1].folder if base is not None else None)
