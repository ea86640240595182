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
        return {path: whole.digest for path, (whole, _) in self.read({}).items()}

    def read(self, lengths: Mapping[str, int]) -> dict[str, tuple[FileStart, FileStart | None]]:
        """The same with the length of each file, and beside it the first bytes of those that have more than so many [bytes]."""
        return {path: _read(Path(path), lengths.get(path, 0)) for path, size, *_ in self.files if size >= 0}


@dataclass(frozen=True, slots=True)
class FileStart:
    """The first bytes of a file, or all: how many, and their SHA-256."""

    length: int
    digest: bytes


FileParts = Mapping[str, Mapping[str, FileStart | None]]
"""By table that is read from files, the names of those that are meant; of one that has more bytes than that, the first ones."""
ALL_FILES: FileParts = {}
"""Every table is read from all its files."""
Lengths = Mapping[str, Mapping[str, int]]
"""By table and the name of a file, a number of bytes."""
NO_LENGTHS: Lengths = {}


@dataclass(frozen=True, slots=True)
class Digests:
    """Hashes that change with any byte.

    whole   of all contents
    tables  of what each declared table is read from
    files   by table that is read from files of its own, of each of these by its name
    starts  of those files that have more bytes than they were asked about, the first ones
    """

    whole: bytes
    tables: Mapping[str, bytes]
    files: Mapping[str, Mapping[str, FileStart]] = field(default_factory=dict)
    starts: Mapping[str, Mapping[str, FileStart]] = field(default_factory=dict)


UNREAD = Digests(b"", {})
"""Of contents that were recognised without reading them."""


@dataclass(frozen=True, slots=True)
class DeclaredFiles:
    """Files of declared tables, as an identity of their contents.

    of   by table, the paths of its files
    own  by table that is read from files of its own, the pattern that names them; None where its path does
    """

    signature: Signature
    of: tuple[tuple[str, tuple[str, ...]], ...]
    own: tuple[tuple[str, Path | None], ...] = ()

    def keyed(self, secret: bytes, structure: str) -> str:
        return self.signature.keyed(secret, structure)

    def holds(self) -> bool:
        """See Identity; a file more that a pattern names makes other contents."""
        of = dict(self.of)
        return self.signature.holds() and all(tuple(map(str, matching(p))) == of[table] for table, p in self._several)

    @property
    def _several(self) -> list[tuple[str, Path]]:
        return [(table, pattern) for table, pattern in self.own if pattern is not None]

    def digests(self, secret: bytes, lengths: Lengths = NO_LENGTHS) -> Digests:
        """See Identity; hashes that are kept under a key need none of their own."""
        of = dict(self.of)
        asked = {path: lengths.get(table, {}).get(Path(path).name, 0) for table, _ in self.own for path in of[table]}
        read = self.signature.read(asked)
        found = {path: whole.digest for path, (whole, _) in read.items()}
        tables = {table: b"".join(found.get(path, b"") for path in paths) for table, paths in self.of}
        each_of = {table: {Path(path).name: read[path] for path in of[table] if path in read} for table, _ in self.own}
        files = {table: {name: whole for name, (whole, _) in each.items()} for table, each in each_of.items()}
        starts = {t: {name: start for name, (_, start) in each.items() if start} for t, each in each_of.items()}
        # which of several files are whose counts: one that moves from a table's folder to the next table's changes both
        parts = (hashlib.sha256(tables[table]).digest() for table in tables) if self._several else found.values()
        return Digests(b"".join(parts), tables, files, starts)


def matching(pattern: Path) -> tuple[Path, ...]:
    """The files that a pattern with * in its last part names, by their names; hidden ones are what somebody is still writing."""
    found = (path for path in pattern.parent.glob(pattern.name) if not path.name.startswith(".") and path.is_file())
    return tuple(sorted(found))


def within(folder: Path, path: Path) -> Path:
    """The place in a private folder for a part of a file; its name, and so its form, stay."""
    return folder / hashlib.sha256(os.fsencode(path)).hexdigest()[:16] / path.name


def content(digests: bytes, secret: bytes, structure: str) -> str:
    """Text that stands for contents, by their digests, and for what is declared about them; without the key it says nothing."""
    return hmac.new(secret, f"content\n{structure}\n".encode() + digests, hashlib.sha256).hexdigest()


def _look(path: str | Path) -> tuple[str, int, int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return str(path), -1, -1, -1, -1
    return str(path), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _read(path: Path, length: int) -> tuple[FileStart, FileStart | None]:
    """One file, so that the border between two files counts, and its first bytes; None where it has no more than these, or 0."""
    digest, read, start = hashlib.sha256(), 0, None
    with open(path, "rb") as file:
        # up to the end of the first bytes, and on
        while chunk := file.read(min(CHUNK, length - read) if read < length else CHUNK):
            start = FileStart(length, digest.digest()) if length and read == length else start
            digest.update(chunk)
            read += len(chunk)
    return FileStart(read, digest.digest()), start
