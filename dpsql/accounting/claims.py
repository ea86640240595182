"""Who is working out a release that was charged: whoever asks for the same meanwhile waits for the stored answer.

A claim names its process, by number and start, and until when it may last. It holds as long as the process lives, and within
the process as long as the statement runs, but no longer than that. Whoever was killed or stopped, or hangs, holds nothing in the
end: the next one pays.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache

_FIND = "SELECT holder FROM claim WHERE fingerprint = ?"
_PUT = "INSERT OR REPLACE INTO claim VALUES (?, ?)"
_DROP = "DELETE FROM claim WHERE holder = ?"
_DONE = "DELETE FROM claim WHERE fingerprint = ?"
_HOLDS = "SELECT 1 FROM claim WHERE holder = ? LIMIT 1"
MARGIN_SECONDS = 30.0
"""What a statement may take beyond its engine: noise, and writing it down."""
_held: set[str] = set()
"""The claims of this process."""


def new_holder(seconds: float) -> str:
    """A name for one statement's claims, until it is let go.

    seconds  [s] until it is taken for lost
    """
    holder = f"{os.getpid()} {_started(os.getpid())} {secrets.token_hex(8)} {time.time() + seconds:.3f}"
    _held.add(holder)
    return holder


@contextlib.contextmanager
def released(holder: str) -> Iterator[None]:
    """Let go of a holder's claims in this process, whatever happens."""
    try:
        yield
    finally:
        _held.discard(holder)


def is_taken(connection: sqlite3.Connection, fingerprint: str) -> bool:
    """Whether somebody who lives is working this release out."""
    row = connection.execute(_FIND, (fingerprint,)).fetchone()
    return row is not None and _lives(str(row[0]))


def holds(connection: sqlite3.Connection, holder: str) -> bool:
    """Whether a holder has claims: then what they are for was charged."""
    return connection.execute(_HOLDS, (holder,)).fetchone() is not None


def take(connection: sqlite3.Connection, fingerprints: Sequence[str], holder: str) -> None:
    """Claim releases; what this process holds no more, and could not let go of when it should have, goes too."""
    for (other,) in connection.execute("SELECT DISTINCT holder FROM claim").fetchall():
        if not _lives(str(other)):
            drop(connection, str(other))
    connection.executemany(_PUT, [(fingerprint, holder) for fingerprint in fingerprints])


def done(connection: sqlite3.Connection, fingerprint: str) -> None:
    """The release is stored: nobody has to wait for it."""
    connection.execute(_DONE, (fingerprint,))


def drop(connection: sqlite3.Connection, holder: str) -> None:
    connection.execute(_DROP, (holder,))


def _lives(holder: str) -> bool:
    process, start, until = _parts(holder)
    if process is None or not time.time() <= until:
        return False
    if process == os.getpid():
        return holder in _held
    return _runs(process) and _start_of(process) == start


def _parts(holder: str) -> tuple[int | None, str, float]:
    """Number and start of a holder's process, and until when it may hold; no number where the text is none of ours."""
    try:
        process, start, _, until = holder.split(" ")
        return int(process) if process.isdecimal() else None, start, float(until)
    except ValueError:
        return None, "", 0.0


def _runs(process: int) -> bool:
    """Whether there is such a process; where that cannot be asked, nobody is waited for."""
    if os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


@lru_cache(maxsize=8)
def _started(process: int) -> str:
    return _start_of(process)


def _start_of(process: int) -> str:
    """When a process began, in the system's own count; "-" where it cannot be told, "ended" where it only waits to be buried."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            return "ended" if fields[0] in (b"Z", b"X") else fields[19].decode("ascii")
    except (OSError, IndexError, UnicodeDecodeError):
        return "-"
