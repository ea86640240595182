"""Problems of a ledger's file, each as one line with the path and what to do.

SQLite's own text and the system's never reach the user: callers raise what these functions return *outside* their
except block, so that `__context__` is empty too.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable

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
        return _busy(path)
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
        return _no_folder(path)
    if number in _FORBIDDEN_BY_SYSTEM:
        return forbidden(path)
    return no_room(path) if number in _NO_ROOM else unreachable(path)


def misused() -> Error:
    """Error 901: an operation that contradicts what the ledger holds."""
    return error(901, "the ledger was asked for something that contradicts it")


def _at_path(code: int, what: str, hint: str) -> Callable[..., Error]:
    """An error with the path of a file, {0}, and what else is said of it, {1} and {2}."""

    def made(path: str, *words: object) -> Error:
        said = (shown(path), *words)
        return error(code, what.format(*said), hint=hint.format(*said))

    return made


# --- 704: it cannot be reached, read or written -------------------------------------------------------------------

_busy = _at_path(704, "the ledger {0} is locked by another process", "wait for it and ask again")
_no_folder = _at_path(704, "the ledger {0} cannot be created: its folder does not exist", "create the folder first")
forbidden = _at_path(704, "the ledger {0} cannot be written", "allow this user to write the file and its folder")
no_room = _at_path(704, "the ledger {0} has no room on its disk", "make room and ask again")
unreachable = _at_path(704, "the ledger {0} cannot be read or written", "check the path, its permissions and its disk")
not_a_file = _at_path(704, "the ledger {0} is a folder or a device", "name a file")

# --- 705: it is no ledger, or not the one that it was -------------------------------------------------------------

foreign = _at_path(705, "the file {0} is not a ledger of dpsql", "name another file for the ledger")
damaged = _at_path(705, "the ledger {0} is damaged", "restore its newest backup")
edited = _at_path(705, "the ledger {0} was edited, at or before charge {1}", "restore its newest backup")
older = _at_path(
    705,
    "the ledger {0} is older than it was: charge {1:,} is known and not in it",
    "put the newest copy back where it was",
)
bad_head = _at_path(
    705,
    "{0} does not say how far the ledger went",
    "restore it; if the ledger beside it is the newest there is, remove it",
)
"""Of the file beside the ledger that says so."""
gone = _at_path(705, "the ledger {0} was removed or replaced", "put the file back where it was")
missing = _at_path(
    705,
    "the ledger {0} was removed",
    "put the file back where it was; to begin with nothing spent, remove {1} too",
)
"""There is none, but a head says that there was one."""
other_layout = _at_path(
    705,
    "the ledger {0} has layout {1}, which this version of dpsql does not know",
    "open it with the version that wrote it",
)
other_dataset = _at_path(
    705, "the ledger {0} belongs to the dataset {1!r}, not to {2!r}", "give every dataset a ledger of its own"
)
