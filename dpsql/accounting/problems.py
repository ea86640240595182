"""Problems of a ledger's file, each as one line with the path and what to do.

SQLite's own text and the system's never reach the user: callers raise what these functions return *outside* their
except block, so that `__context__` is empty too.
"""

from __future__ import annotations

import errno
import sqlite3

from dpsql.core.errors import Error, error

_DAMAGED = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_SCHEMA})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_FORBIDDEN = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN_BY_SYSTEM = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def shown(text: str) -> str:
    """A path or a name as a message prints it: as it is, or escaped where it would break the line."""
    return text if text.isprintable() else ascii(text)


def is_busy(caught: sqlite3.Error) -> bool:
    """True if another process holds a lock, so that trying again may succeed."""
    return getattr(caught, "sqlite_errorcode", 0) & 0xFF in _BUSY


def from_sqlite(path: str, caught: sqlite3.Error) -> Error:
    """The error of the ledger that a failure of SQLite stands for."""
    code: int | None = getattr(caught, "sqlite_errorcode", None)
    if code is None:  # raised by the binding itself: stored text that is not UTF-8, or a mistake of ours
        return damaged(path) if isinstance(caught, sqlite3.OperationalError) else misused()
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_NOTADB:
        return foreign(path)
    if primary in _DAMAGED or code == sqlite3.SQLITE_IOERR_SHORT_READ:
        return damaged(path)
    if primary in _BUSY:
        return error(704, f"the ledger {shown(path)} is locked by another process", hint="wait for it and ask again")
    if primary in _FORBIDDEN:
        return forbidden(path)
    if primary == sqlite3.SQLITE_FULL:
        return no_room(path)
    if primary == sqlite3.SQLITE_CONSTRAINT:
        return misused()
    return unreachable(path)


def from_system(path: str, caught: OSError | ValueError) -> Error:
    """The error of the ledger that a failure of the system stands for; ValueError is an impossible path."""
    number = caught.errno if isinstance(caught, OSError) else None
    if number in (errno.ENOENT, errno.ENOTDIR):
        return error(
            704,
            f"the ledger {shown(path)} cannot be created: its folder does not exist",
            hint="create the folder first",
        )
    if number in _FORBIDDEN_BY_SYSTEM:
        return forbidden(path)
    return no_room(path) if number in _NO_ROOM else unreachable(path)


def misused() -> Error:
    """Error 901: an operation that contradicts what the ledger holds."""
    return error(901, "the ledger was asked for something that contradicts it")


def forbidden(path: str) -> Error:
    """Error 704: no permission, or a read-only medium."""
    return error(
        704, f"the ledger {shown(path)} cannot be written", hint="allow this user to write the file and its folder"
    )


def no_room(path: str) -> Error:
    """Error 704: a full disk, a quota or a limit on the size of files."""
    return error(704, f"the ledger {shown(path)} has no room on its disk", hint="make room and ask again")


def unreachable(path: str) -> Error:
    """Error 704: whatever else the disk or its permissions do."""
    return error(
        704, f"the ledger {shown(path)} cannot be read or written", hint="check the path, its permissions and its disk"
    )


def not_a_file(path: str) -> Error:
    """Error 704: a folder or a device."""
    return error(704, f"the ledger {shown(path)} is a folder or a device", hint="name a file")


def foreign(path: str) -> Error:
    """Error 705: some other file."""
    return error(705, f"the file {shown(path)} is not a ledger of dpsql", hint="name another file for the ledger")


def damaged(path: str) -> Error:
    """Error 705: a ledger that no longer reads as one."""
    return error(705, f"the ledger {shown(path)} is damaged", hint="restore its newest backup")


def edited(path: str, charge: object) -> Error:
    """Error 705: a charge, or a total, that is not what was written."""
    return error(
        705, f"the ledger {shown(path)} was edited, at or before charge {charge}", hint="restore its newest backup"
    )


def older(path: str, charge: int) -> Error:
    """Error 705: an older copy, or another line of charges, than what is known."""
    return error(
        705,
        f"the ledger {shown(path)} is older than it was: charge {charge:,} is known and not in it",
        hint="put the newest copy back where it was",
    )


def bad_head(path: str) -> Error:
    """Error 705: the file beside the ledger that says how far it went."""
    return error(
        705,
        f"{shown(path)} does not say how far the ledger went",
        hint="restore it; if the ledger beside it is the newest there is, remove it",
    )


def gone(path: str) -> Error:
    """Error 705: the file was deleted or replaced, and what it remembered with it."""
    return error(705, f"the ledger {shown(path)} was removed or replaced", hint="put the file back where it was")


def missing(path: str, head: str) -> Error:
    """Error 705: no ledger, but a head that says that there was one."""
    return error(
        705,
        f"the ledger {shown(path)} was removed",
        hint=f"put the file back where it was; to begin with nothing spent, remove {shown(head)} too",
    )


def other_layout(path: str, layout: object) -> Error:
    """Error 705: written by another version of dpsql."""
    return error(
        705,
        f"the ledger {shown(path)} has layout {shown(str(layout))}, which this version of dpsql does not know",
        hint="open it with the version that wrote it",
    )


def other_dataset(path: str, theirs: str, ours: str) -> Error:
    """Error 705: the ledger of another dataset."""
    return error(
        705,
        f"the ledger {shown(path)} belongs to the dataset {theirs!r}, not to {ours!r}",
        hint="give every dataset a ledger of its own",
    )
