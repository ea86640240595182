"""Claims on a release that was charged and is being worked out: whoever asks for the same meanwhile waits for the
stored answer.

A claim names its process, by number and start, and the time when it ends. It holds as long as the process lives, and within
the process as long as the statement runs, but no longer than that. Whoever was killed or stopped, or hangs, holds nothing in the
end: the next one pays.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

_FIND = "SELECT holder, until FROM claim WHERE fingerprint = ?"
_PUT = "INSERT OR REPLACE INTO claim (fingerprint, holder, taken, until) VALUES (?, ?, ?, ?)"
_DROP = "DELETE FROM claim WHERE holder = ?"
_DONE = "DELETE FROM claim WHERE fingerprint = ?"
_STORED = "SELECT 1 FROM answer WHERE fingerprint = ?"
_HOLDS = "SELECT 1 FROM claim WHERE holder = ? LIMIT 1"
MARGIN_SECONDS = 30.0
"""Time that a statement may take beyond its engine: noise, and writing it down."""
LONGEST_SECONDS = 10.0**9
_held: set[str] = set()
"""The claims of this process."""


def new_holder() -> str:
    """A name for one statement's claims, until it is let go."""
    holder = f"{os.getpid()} {_started(os.getpid())} {secrets.token_hex(8)}"
    _held.add(holder)
    return holder


@contextlib.contextmanager
def released(holder: str) -> Iterator[None]:
    """Let go of a holder's claims in this process, whatever happens."""
    try:
        yield
    finally:
        _held.discard(holder)


def is_taken(connection: sqlite3.Connection, fingerprint: str, now: str) -> bool:
    """True if somebody who lives is working this release out, and may still be.

    now  UTC, ISO 8601
    """
    row = connection.execute(_FIND, (fingerprint,)).fetchone()
    return row is not None and _holds(str(row[0]), str(row[1]), now)


def is_elsewhere(connection: sqlite3.Connection, names: Sequence[str], now: str, *, stored: bool) -> bool:
    """True if one of these releases is being worked out by somebody else, or is stored meanwhile.

    stored  whether what is stored counts
    """
    if any(is_taken(connection, name, now) for name in names):
        return True
    return stored and any(connection.execute(_STORED, (name,)).fetchone() for name in names)


def holds(connection: sqlite3.Connection, holder: str) -> bool:
    """True if a holder has claims: then what they are for was charged."""
    return connection.execute(_HOLDS, (holder,)).fetchone() is not None


def take(connection: sqlite3.Connection, fingerprints: Sequence[str], holder: str, taken: str, until: str = "") -> None:
    """Claim releases; what this process holds no more, and could not let go of when it should have, goes too.

    taken, until  UTC, ISO 8601: processes share no other clock; "": without an end
    """
    for other, last in connection.execute("SELECT DISTINCT holder, until FROM claim").fetchall():
        if not _holds(str(other), str(last), taken):
            drop(connection, str(other))
    connection.executemany(_PUT, [(name, holder, taken, until) for name in fingerprints])


def done(connection: sqlite3.Connection, fingerprint: str) -> None:
    """The release is stored: nobody has to wait for it."""
    connection.execute(_DONE, (fingerprint,))


def drop(connection: sqlite3.Connection, holder: str) -> None:
    connection.execute(_DROP, (holder,))


def until(now: str, seconds: float | None) -> str:
    """End of a claim that may last so long; "" for ever.

    >>> until("2025-01-01T00:00:00.000+00:00", 90)
    '2025-01-01T00:01:30.000+00:00'
    """
    if seconds is None:
        return ""
    end = datetime.fromisoformat(now) + timedelta(seconds=min(seconds, LONGEST_SECONDS))
    return end.isoformat(timespec="milliseconds")


def _holds(holder: str, last: str, now: str) -> bool:
    return (not last or now <= last) and _lives(holder)


def _lives(holder: str) -> bool:
    process, _, rest = holder.partition(" ")
    if not process.isdecimal():
        return False
    if int(process) == os.getpid():
        return holder in _held
    return _runs(int(process)) and _start_of(int(process)) == rest.partition(" ")[0]


def _runs(process: int) -> bool:
    """True if there is such a process; where that cannot be asked, nobody is waited for."""
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
    """Start of a process, in the system's own count; "-" where it cannot be told, "ended" where it only waits to be
    buried."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            return "ended" if fields[0] in (b"Z", b"X") else fields[19].decode("ascii")
    except (OSError, IndexError, UnicodeDecodeError):
        return "-"
