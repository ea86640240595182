"""Layout of a ledger's file: how it is made and recognised."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from dpsql.accounting import problems
from dpsql.core.errors import Error

LAYOUT = 6
SECRET_BYTES = 32
_DRAFT = re.compile(r"\.(ledger|head)-[0-9a-f]{16}(-wal|-shm|-journal)?")
_OLD = 3600  # seconds

META = "INSERT INTO meta (layout, identity, ledger, secret, created, promise) VALUES (?, ?, ?, ?, ?, '')"

META_TABLE = """
CREATE TABLE meta (
    layout INTEGER NOT NULL, identity TEXT NOT NULL, ledger TEXT NOT NULL, secret BLOB NOT NULL, created TEXT NOT NULL,
    promise TEXT NOT NULL
)"""
_TABLES = """
CREATE TABLE charge (
    id INTEGER PRIMARY KEY, time TEXT NOT NULL, analyst TEXT NOT NULL, role TEXT, version TEXT NOT NULL, statement TEXT NOT NULL,
    fingerprints TEXT NOT NULL, mechanisms TEXT NOT NULL, portions TEXT NOT NULL, certificates TEXT NOT NULL,
    asked TEXT NOT NULL, events TEXT NOT NULL, form INTEGER NOT NULL, link BLOB NOT NULL
);
CREATE INDEX charge_of_analyst ON charge (analyst);
CREATE TABLE total (
    scope TEXT NOT NULL, name TEXT NOT NULL, charges INTEGER NOT NULL, spent TEXT NOT NULL, seal BLOB NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;
CREATE TABLE claim (fingerprint TEXT PRIMARY KEY, holder TEXT NOT NULL, taken TEXT NOT NULL, until TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE answer (
    fingerprint TEXT PRIMARY KEY, charge INTEGER NOT NULL REFERENCES charge (id),
    digest BLOB NOT NULL, payload BLOB NOT NULL
);
CREATE TABLE vector (
    fingerprint TEXT NOT NULL, place INTEGER NOT NULL, question TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (fingerprint, place)
) WITHOUT ROWID;
CREATE INDEX vector_of_question ON vector (question);
CREATE TABLE version (
    id TEXT PRIMARY KEY, content TEXT NOT NULL UNIQUE, facts TEXT NOT NULL,
    approval INTEGER NOT NULL, time TEXT NOT NULL
);
CREATE TABLE version_of_table (
    version TEXT NOT NULL REFERENCES version (id), name TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (version, name)
) WITHOUT ROWID;
CREATE TABLE signature (signature TEXT PRIMARY KEY, version TEXT NOT NULL REFERENCES version (id));
CREATE TABLE failure (
    id INTEGER PRIMARY KEY, charge INTEGER NOT NULL REFERENCES charge (id), analyst TEXT NOT NULL, time TEXT NOT NULL,
    kind TEXT NOT NULL, cleared TEXT
);
CREATE TABLE switch (name TEXT PRIMARY KEY, time TEXT NOT NULL) WITHOUT ROWID
"""
_GUARD_TABLES = """
CREATE TABLE size (
    name TEXT PRIMARY KEY, charge INTEGER NOT NULL REFERENCES charge (id), digest BLOB NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE forgotten (charge INTEGER PRIMARY KEY REFERENCES charge (id), time TEXT NOT NULL);
CREATE TABLE evaluated (charge INTEGER PRIMARY KEY REFERENCES charge (id), asked TEXT NOT NULL)
"""


def now() -> str:
    """The time in UTC, as the ledger writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def fill(connection: sqlite3.Connection, identity: str) -> None:
    """Lay out an empty database as the ledger of one dataset, with nothing spent and a fresh secret."""
    lay_out(connection)
    secret = secrets.token_bytes(SECRET_BYTES)
    connection.execute(META, (LAYOUT, identity, secrets.token_hex(16), secret, now()))


def lay_out(connection: sqlite3.Connection) -> None:
    """Make the tables, empty; in a transaction of the caller's, if there is one."""
    for statement in (META_TABLE, *_TABLES.split(";")):
        connection.execute(statement)
    add_guard_tables(connection)


def add_guard_tables(connection: sqlite3.Connection) -> None:
    """Make the tables that layout 4 did not have, empty."""
    for statement in _GUARD_TABLES.split(";"):
        connection.execute(statement)


def create(path: Path, identity: str) -> None:
    """Put a new ledger at `path`, unless another process was first.

    Why     it is made under a draft name and linked into place when complete: nobody ever sees half a ledger, a crash
            leaves no empty file that could pass for one in which nothing is spent, and the first of two creators wins
    Errors  OSError, sqlite3.Error
    """
    draft = path.with_name(f".ledger-{secrets.token_hex(8)}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        _fill_file(draft, identity)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{draft}{suffix}").unlink(missing_ok=True)
    _sync_folder(path.parent)


def sweep(folder: Path) -> None:
    """Remove the drafts of ledgers and heads that killed processes left, once they are old. What goes wrong is no error."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if _DRAFT.fullmatch(name) and time.time() - (folder / name).stat().st_mtime > _OLD:
                (folder / name).unlink(missing_ok=True)


def layout_of(connection: sqlite3.Connection, path: str, known: Collection[int]) -> int | Error:
    """The layout of a ledger, if it is this one or a known one; else the error to raise."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'").fetchone() is None:
        return problems.foreign(path)
    layout = _single(connection, "SELECT layout FROM meta")
    if layout is None:
        return problems.damaged(path)
    return (
        layout
        if isinstance(layout, int) and layout in (LAYOUT, *known)
        else problems.other_layout(path, problems.shown(str(layout)))
    )


def secret_of(connection: sqlite3.Connection, path: str, identity: str) -> bytes | Error:
    """The secret of a ledger of this layout if it is a whole one of that dataset, else the error to raise; in constant time."""
    theirs = _single(connection, "SELECT identity FROM meta")
    if theirs != identity:
        return problems.other_dataset(path, str(theirs), identity)
    secret = _single(connection, "SELECT secret FROM meta")
    return secret if isinstance(secret, bytes) and len(secret) == SECRET_BYTES else problems.damaged(path)


def ledger_of(connection: sqlite3.Connection) -> str:
    """The random id that the ledger was made with."""
    return str(_single(connection, "SELECT ledger FROM meta"))


def touch(connection: sqlite3.Connection) -> None:
    """Ask to write, and write nothing: fails where a charge would."""
    connection.execute("UPDATE meta SET layout = layout WHERE 0")


def _single(connection: sqlite3.Connection, query: str) -> object:
    row: tuple[object] | None = connection.execute(query).fetchone()
    return row[0] if row else None


def _fill_file(path: Path, identity: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        fill(connection, identity)


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where the system lets folders be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
