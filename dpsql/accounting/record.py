"""Records of a data version beside its approval: verified facts, and the prepared snapshot."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import MEMORY
from dpsql.accounting.versions import Versions


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """Facts verified of one data version.

    structure  one line for each key that was verified
    declared   the declarations that facts and snapshot are about; "" where there are neither
    facts      names, as schema/model.py gives them
    snapshot   (signature, content) of the prepared snapshot's files, keyed with the ledger's secret; None: there is none
    """

    structure: tuple[str, ...] = ()
    declared: str = ""
    facts: frozenset[str] = frozenset()
    snapshot: tuple[str, str] | None = None

    @property
    def text(self) -> str:
        """As the ledger keeps it."""
        found = {"verified": self.structure, "declared": self.declared, "facts": sorted(self.facts)}
        return json.dumps({**found, "snapshot": self.snapshot})


def read_record(ledger: Ledger, version: str, declared: str) -> VersionRecord:
    """Read the facts verified of a data version; without facts and snapshot where they are about other declarations."""
    stored = _read(Versions(ledger).facts(version) or "")
    return stored if stored.declared == declared else VersionRecord(stored.structure)


def write_record(ledger: Ledger, version: str, record: VersionRecord) -> None:
    Versions(ledger).record_facts(version, record.text)


def snapshot_folder(ledger: Ledger) -> Path | None:
    """Folder of the prepared snapshots of a ledger's versions; None for a ledger in memory."""
    path = ledger.store.path
    return None if path == MEMORY else Path(os.path.realpath(path) + ".prepared")


def _read(text: str) -> VersionRecord:
    """The record in a text; an empty one where it is none of ours."""
    try:
        found = json.loads(text)
        snapshot = found["snapshot"]
        signature, content = snapshot if snapshot is not None else ("", "")
        pair = (str(signature), str(content)) if snapshot is not None else None
        return VersionRecord(
            tuple(map(str, found["verified"])), str(found["declared"]), frozenset(found["facts"]), pair
        )
    except (ValueError, TypeError, KeyError):
        return VersionRecord()
