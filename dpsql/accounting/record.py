"""Records of a data version beside its approval: verified facts, and the prepared snapshot."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import MEMORY
from dpsql.accounting.versions import Versions


class ApprovedFile(NamedTuple):
    """A file as it was approved.

    content  text that stands for its contents and the structure of its table
    length   [bytes] of it; 0 where an earlier version of dpsql approved it
    """

    content: str
    length: int = 0


ApprovedFiles = Mapping[str, Mapping[str, ApprovedFile]]
"""By table, by the name of each of its files."""


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """Facts verified of one data version.

    structure  one line for each key that was verified
    declared   the declarations that facts and snapshot are about; "" where there are neither
    facts      names, as schema/model.py gives them
    snapshot   (signature, content) of the prepared snapshot's files, keyed with the ledger's secret; None: there is none
    files      by table that is read from files, by the name of each: see ApprovedFile
    kept       by table and declared periods, the versions of those whose rows are those of an earlier one, by the period's name
    """

    structure: tuple[str, ...] = ()
    declared: str = ""
    facts: frozenset[str] = frozenset()
    snapshot: tuple[str, str] | None = None
    files: ApprovedFiles = field(default_factory=dict)
    kept: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As the ledger keeps it."""
        found = {"verified": self.structure, "declared": self.declared, "facts": sorted(self.facts)}
        periods = {"kept": self.kept} if self.kept else {}
        return json.dumps({**found, "snapshot": self.snapshot, "files": self.files, **periods})


def read_record(ledger: Ledger, version: str, declared: str) -> VersionRecord:
    """Read the facts verified of a data version; without facts and snapshot where they are about other declarations."""
    stored = stored_record(ledger, version)
    return stored if stored.declared == declared else replace(stored, declared="", facts=frozenset(), snapshot=None)


def stored_record(ledger: Ledger, version: str) -> VersionRecord:
    """The record as it was written, whatever declarations it is about."""
    return _read(Versions(ledger).facts(version) or "")


def approved_files(ledger: Ledger, version: str) -> ApprovedFiles:
    """See VersionRecord.files; nothing where they are not known any more."""
    return _read(Versions(ledger).facts(version) or "").files


def keep_files(ledger: Ledger, version: str, before: str | None, files: ApprovedFiles) -> None:
    """Know the files of a version that is approved now, and no longer those of the one before: a folder may have thousands."""
    for each, known in {before or version: {}, version: files}.items():
        stored = _read(Versions(ledger).facts(each) or "")
        if stored.files != known:
            write_record(ledger, each, replace(stored, files=known))


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
        files = {str(table): _files(files) for table, files in dict(found.get("files", {})).items()}
        kept = {str(table): dict(periods) for table, periods in dict(found.get("kept", {})).items()}
        verified, facts = tuple(map(str, found["verified"])), frozenset(found["facts"])
        return VersionRecord(verified, str(found["declared"]), facts, pair, files, kept)
    except (ValueError, TypeError, KeyError, AttributeError):
        return VersionRecord()


def _files(found: Mapping[str, object]) -> dict[str, ApprovedFile]:
    """The files of a table; an earlier version of dpsql kept no lengths."""
    return {
        name: ApprovedFile(str(one[0]), int(one[1])) if isinstance(one, list) else ApprovedFile(str(one))
        for name, one in dict(found).items()
    }
