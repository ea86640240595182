"""The prepared snapshot: the private tables once more in their declared types, for faster statements; where people are units, each row
with its unit and sorted by it.

It holds what the engine's views show of one approved version, so that no answer depends on whether it is there.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpsql.core.errors import error
from dpsql.engines.signature import Signature
from dpsql.schema.model import Schema

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one snapshot, one a private table in the schema's order."""

    files: tuple[Path, ...]
    signature: Signature

    @property
    def folder(self) -> Path:
        return self.files[0].parent

    @property
    def size(self) -> int:
        """[bytes]"""
        return sum(size for _, size, *_ in self.signature.files)


# --- reading ------------------------------------------------------------------------------------------------------


def files(folder: Path, schema: Schema) -> tuple[Path, ...]:
    """The file of every private table."""
    private = [t.name for t in schema.tables if not t.public]
    names = (table if _PLAIN.fullmatch(table) else f"table {i}" for i, table in enumerate(private))
    return tuple(folder / f"{file}.parquet" for file in names)


def look(root: Path, version: str, schema: Schema) -> Snapshot | None:
    """The files that stand where a version's snapshot is kept; None where one is missing or cannot be read."""
    return at(place(root, version), schema)


def at(folder: Path, schema: Schema) -> Snapshot | None:
    """The same of a folder."""
    listed = files(folder, schema)
    if not listed or not all(os.access(file, os.R_OK) for file in listed):
        return None
    return Snapshot(listed, Signature.take(listed))


# --- writing ------------------------------------------------------------------------------------------------------


def place(root: Path, version: str) -> Path:
    """The folder of one version's snapshot."""
    return root / version


def before(root: Path, version: str) -> Path:
    """The folder of a snapshot that another one of the same version takes the place of, while its rows are still needed."""
    return root / f"{version}.before"


@contextmanager
def draft(root: Path, schema: Schema) -> Iterator[Path]:
    """A private folder with an empty private file for every table; what is not published is removed. Raises 704."""
    failed = False
    folder = root / f".draft-{secrets.token_hex(8)}"
    held: int | None = None
    try:
        _private_folder(root)
        folder.mkdir(mode=0o700)
        held = _held(folder)
        for file in files(folder, schema):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        failed = True
    try:
        _raise_if(failed)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def publish(folder: Path, root: Path, version: str, source: Path | None = None) -> None:
    """Make a complete draft the snapshot of a version, durably; others stay until it is recorded. Raises 704.

    source  the folder of another snapshot, whose rows are in this one and nowhere else; it is found until the next one is recorded
    """
    failed, here, aside = False, place(root, version), before(root, version)
    try:
        for path in (*folder.iterdir(), folder):
            _sync(path)
        if here.exists() and here == source:
            if aside.exists():
                aside.rename(root / f".old-{secrets.token_hex(8)}")
            here.rename(aside)
        elif here.exists():
            here.rename(root / f".old-{secrets.token_hex(8)}")
        folder.rename(here)
        _sync(root)
    except OSError:
        failed = True
    _raise_if(failed)


def remove_others(root: Path, version: str) -> None:
    """Remove what is not this version's: snapshots of older versions that nobody reads any more, and what was left by a crash."""
    for path in root.iterdir():
        if path.name != version and not _is_read(path):
            shutil.rmtree(path, ignore_errors=True)


def hold(folder: Path) -> int | None:
    """A descriptor that keeps a snapshot in place while it is open: who reads one goes on when the next is published. None where the
    system has no locks, or the snapshot is gone."""
    descriptor, _ = _locked(folder, alone=False)
    return descriptor


def _is_read(folder: Path) -> bool:
    """True if a process that lives holds it."""
    descriptor, locked = _locked(folder, alone=True)
    if descriptor is not None:
        os.close(descriptor)
    return locked is False


def remove_left(root: Path) -> None:
    """Remove drafts that nobody writes any more: a process that was killed leaves one, and it holds people's rows."""
    with contextlib.suppress(OSError):
        for path in (*root.glob(".draft-*"), *root.glob(".old-*")):
            held = _held(path)
            if held is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(held)


def _held(folder: Path) -> int | None:
    """A descriptor with a lock on a folder, which the system takes back from who dies; None where another has it, or none can."""
    descriptor, locked = _locked(folder, alone=True)
    if descriptor is None or locked:
        return descriptor
    os.close(descriptor)
    return None


def _locked(folder: Path, *, alone: bool) -> tuple[int | None, bool | None]:
    """A descriptor of a folder, None where it is gone or the system has no locks, and whether it has a lock, with others who read it or
    alone: False where another's keeps it from one, None where there can be none."""
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None, None
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return descriptor, False
    except OSError:
        return descriptor, None
    return descriptor, True


def _private_folder(root: Path) -> None:
    """Make the folder of all snapshots, or take one that is there; OSError where it is something else."""
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700)
    if not stat.S_ISDIR(root.lstat().st_mode):
        raise NotADirectoryError
    root.chmod(0o700)


def _sync(path: Path) -> None:
    if path.is_dir() and not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise_if(failed: bool) -> None:
    if failed:
        raise error(704, "the prepared snapshot cannot be written beside the ledger", hint="see that its disk has room")
