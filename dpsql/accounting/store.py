"""The ledger's file: one connection a process, one transaction at a time, every failure as an error of our own."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dpsql.accounting import chain, layout, migration, problems
from dpsql.core.errors import Error, error

MEMORY = ":memory:"
TIMEOUT_SECONDS = 10.0
PAUSE_SECONDS = (
    0.002  # SQLite's own waiting pauses for up to 0.1 s, and a process that charges without rest starves others
)

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
_Place = tuple[int, int]


class Store:
    """The SQLite file behind ledger, answers and versions.

    Threads    share the one connection, in turn
    Processes  take turns by SQLite's locks, waiting up to TIMEOUT_SECONDS
    Forks      SQLite forbids a connection, even an idle one, to live through a fork: its locks would be believed and
               not held. So it is closed before every fork and opened again by whoever needs it; a ledger in memory
               does not follow into the child
    file       where it is; None: in memory
    Errors     704 the file cannot be reached, read or written; 705 it is damaged, removed or another dataset's; 802 it
               is closed
    """

    def __init__(self, path: str, identity: str) -> None:
        self.path = path
        self.file: Path | None = None
        self._log: Path | None = None
        self._identity = identity
        self._lock = threading.RLock()  # the guard looks into a charge while it is decided
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._forking = False
        self._process = os.getpid()
        self._opened: tuple[_Place | None, _Place | None] | None = None
        self.secret = b""

    @staticmethod
    def open(path: str | Path, identity: str) -> Store:
        """Open the ledger at `path`, or make it; MEMORY gives one that ends with the process."""
        store = Store(str(path), clean(identity))
        store._prepare()
        try:
            store.write(layout.touch)  # a ledger that cannot be written is refused now
        except BaseException:
            store.close()
            raise
        _follow_forks(store)
        return store

    def read(self, work: Work[T]) -> T:
        """Run `work` on the connection; one SELECT sees one moment."""
        with self._lock:
            outcome = self._attempt(work)
        if isinstance(outcome, _Failed):
            raise outcome.problem
        return outcome

    def rows(self, query: str, *values: object) -> list[Any]:
        """The rows of one SELECT."""
        return self.read(lambda connection: connection.execute(query, values).fetchall())

    def moment(self, work: Work[T]) -> T:
        """Run `work` on the connection as it is at one moment: its SELECTs, and what it reads through this store, all see the same.
        Within another `moment` it is the same one."""
        return self.read(lambda c: work(c) if c.in_transaction else _transaction(c, work, "BEGIN", ""))

    def write(self, work: Work[T]) -> T:
        """Run `work` in one durable transaction: all of it, or on any exception none of it."""
        return self.read(lambda connection: _transaction(connection, work, synchronous="FULL"))

    def keep(self, work: Work[T]) -> T:
        """The same without waiting for the disk, for what may be lost: if the machine goes down, and only then, the newest of it may be
        gone, whole. It lies behind every charge before it, and the next `write` makes it durable too."""
        return self.read(lambda connection: _transaction(connection, work, synchronous="NORMAL"))

    def damaged(self) -> Error:
        """Error 705, for a stored value that cannot be what was written."""
        return problems.damaged(self.path)

    def close(self) -> None:
        """Close the file; what was charged stays charged."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def _attempt(self, work: Work[T]) -> T | _Failed:
        if self._connection is not None and self._connection.in_transaction:
            # within the moment or the charge that asks: the file was seen to be there as that began
            return work(self._connection)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                return work(self._connected())
            except sqlite3.Error as caught:
                if not problems.is_busy(caught) or time.monotonic() >= deadline:
                    return _Failed(problems.from_sqlite(self.path, caught))
            time.sleep(PAUSE_SECONDS)

    def _prepare(self) -> None:
        """Make the file if there is none; refuse what cannot be a ledger before SQLite would take it for a new one."""
        if self.path == MEMORY:
            return
        found = _prepared(self.path, self._identity)
        if isinstance(found, Error):
            raise found
        self.file, self._log = found, found.with_name(found.name + "-wal")

    def _connected(self) -> sqlite3.Connection:
        if self._closed:
            raise error(802, "the ledger is closed", hint="open the connection again")
        if self.file is None and self._process != os.getpid():
            raise error(
                802, "a ledger in memory does not follow into another process", hint="name a file for the ledger"
            )
        if self._connection is None:
            self._connection = self._connect()
        elif self._places() != self._opened:
            raise problems.gone(self.path)
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        if self._opened is not None and self._opened[0] != _place(self.file):
            raise problems.gone(self.path)
        connection = _new_connection(self.file)
        try:
            self.secret = self._recognised(connection)
        except BaseException:
            connection.close()
            raise
        self._opened = self._places()
        return connection

    def _places(self) -> tuple[_Place | None, _Place | None]:
        """Identities of the files that stand at the paths of the ledger and of its log now: SQLite keeps the log for as
        long as somebody reads."""
        return _place(self.file), _place(self._log)

    def _recognised(self, connection: sqlite3.Connection) -> bytes:
        connection.execute("PRAGMA synchronous = FULL")
        if self.file is None:
            layout.fill(connection, self._identity)
        known = layout.layout_of(connection, self.path, migration.KNOWN)
        found = known if isinstance(known, Error) else layout.secret_of(connection, self.path, self._identity)
        if isinstance(found, Error):
            raise found
        if known != layout.LAYOUT and not migration.migrate(connection):
            raise problems.damaged(self.path)
        connection.execute("PRAGMA foreign_keys = ON")
        return found

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _before_fork(self) -> None:
        self._lock.acquire()
        self._forking = True
        if self.file is not None:
            self._disconnect()

    def _after_fork(self) -> None:
        if self._forking:
            self._forking = False
            self._lock.release()


class _Failed:
    """Carries an error out of an except block."""

    def __init__(self, problem: Error) -> None:
        self.problem = problem


def clean(text: str) -> str:
    """Text that SQLite can hold: half characters, which no encoding has, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _transaction(
    connection: sqlite3.Connection, work: Work[T], begin: str = "BEGIN IMMEDIATE", synchronous: str = "FULL"
) -> T:
    try:
        if synchronous:
            # of each that writes by itself: no failure of another leaves a charge without its sync
            connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(begin)
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise
    return result


def _new_connection(file: Path | None) -> sqlite3.Connection:
    """A connection in autocommit that never creates a file; None is memory."""
    uri = "file::memory:" if file is None else file.as_uri() + "?mode=rw"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=0, check_same_thread=False)


def _prepared(path: str, identity: str) -> Path | Error:
    """The absolute place of a file that may be a ledger, after making one if need be; else what is wrong.

    The file is looked at from outside only: opening and closing it here would drop the locks that another connection
    of this process holds on it (POSIX).
    """
    try:
        file = Path(os.path.realpath(path))
        layout.sweep(file.parent)
        orphan = file.with_name(file.name + "-wal").exists()  # asked first: a ledger that is being made has none yet
        if not file.exists():
            if orphan:
                return problems.gone(path)
            if chain.read_head(chain.head_file(file)) != chain.NO_HEAD:
                return problems.missing(path, problems.shown(str(chain.head_file(file))))
            layout.create(file, identity)
        found = file.stat()
    except sqlite3.Error as caught:
        return problems.from_sqlite(path, caught)
    except (OSError, ValueError) as caught:
        return problems.from_system(path, caught)
    if stat.S_ISREG(found.st_mode):
        return file if found.st_size else problems.damaged(path)
    return problems.not_a_file(path)


def _place(file: Path | None) -> _Place | None:
    """Identity of the file that stands at the path now; None for none."""
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _follow_forks(store: Store) -> None:
    """Close the connection around every fork, for as long as the store lives."""
    known = weakref.ref(store)

    def before() -> None:
        alive = known()
        if alive is not None:
            alive._before_fork()

    def after() -> None:
        alive = known()
        if alive is not None:
            alive._after_fork()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)
