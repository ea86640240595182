"""By what files are recognised: without reading them, and by their contents."""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

CHUNK = 1 << 20  # [bytes]
TICK_NS = 20_000_000
"""Longer than one tick of a file system's clock: two writes within one tick have the same times."""


@dataclass(frozen=True, slots=True)
class Signature:
    """State of some files in the file system: path, size [bytes], mtime and ctime [ns], inode.

    All are -1 where there is no file. The modification time alone would not do: it can be set to any value, the change
    time and the inode cannot.
    """

    files: tuple[tuple[str, int, int, int, int], ...]

    @staticmethod
    def take(paths: Iterable[Path]) -> Signature:
        """Look at the files; a file that was changed in this very tick is looked at again after it."""
        listed = tuple(paths)
        files = tuple(_look(path) for path in listed)
        newest = max((max(mtime, ctime) for _, _, mtime, ctime, _ in files), default=-1)
        if 0 <= time.time_ns() - newest < TICK_NS:
            time.sleep(TICK_NS / 1e9)
            files = tuple(_look(path) for path in listed)
        return Signature(files)

    def holds(self) -> bool:
        """True if the files still look the same."""
        return all(_look(file[0]) == file for file in self.files)

    def keyed(self, secret: bytes, structure: str) -> str:
        """Text that stands for these files and for what is declared about them; without the key it says nothing."""
        return hmac.new(secret, f"signature\n{structure}\n{self.files}".encode(), hashlib.sha256).hexdigest()

    def digests(self) -> dict[str, bytes]:
        """A hash of each of these files by its path, in their order. Reads every byte. Raises OSError where a file cannot be read."""
        return {path: _digest(Path(path)) for path, size, *_ in self.files if size >= 0}


@dataclass(frozen=True, slots=True)
class Digests:
    """Hashes that change with any byte: of all contents, of what each declared table is read from, and, by name, of each file of a
    table that has several."""

    whole: bytes
    tables: Mapping[str, bytes]
    files: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeclaredFiles:
    """Files of declared tables, as an identity of their contents.

    of       by table, the paths of its files
    several  by table that is read from all files of a pattern, that pattern
    """

    signature: Signature
    of: tuple[tuple[str, tuple[str, ...]], ...]
    several: tuple[tuple[str, Path], ...] = ()

    def keyed(self, secret: bytes, structure: str) -> str:
        return self.signature.keyed(secret, structure)

    def holds(self) -> bool:
        """See Identity; a file more that a pattern names makes other contents."""
        of = dict(self.of)
        return self.signature.holds() and all(tuple(map(str, matching(p))) == of[table] for table, p in self.several)

    def digests(self, secret: bytes) -> Digests:
        """See Identity; hashes that are kept under a key need none of their own."""
        found, of = self.signature.digests(), dict(self.of)
        tables = {table: b"".join(found.get(path, b"") for path in paths) for table, paths in self.of}
        files = {t: {Path(path).name: found[path] for path in of[t] if path in found} for t, _ in self.several}
        # which of several files are whose counts: one that moves from a table's folder to the next table's changes both
        each = (hashlib.sha256(tables[table]).digest() for table in tables) if self.several else found.values()
        return Digests(b"".join(each), tables, files)


def matching(pattern: Path) -> tuple[Path, ...]:
    """The files that a pattern with * in its last part names, by their names; hidden ones are what somebody is still writing."""
    found = (path for path in pattern.parent.glob(pattern.name) if not path.name.startswith(".") and path.is_file())
    return tuple(sorted(found))


def content(digests: bytes, secret: bytes, structure: str) -> str:
    """Text that stands for contents, by their digests, and for what is declared about them; without the key it says nothing."""
    return hmac.new(secret, f"content\n{structure}\n".encode() + digests, hashlib.sha256).hexdigest()


def _look(path: str | Path) -> tuple[str, int, int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return str(path), -1, -1, -1, -1
    return str(path), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _digest(path: Path) -> bytes:
    """SHA-256 of one file, so that the border between two files counts."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.digest()
