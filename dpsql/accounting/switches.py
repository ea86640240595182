"""Switches of a dataset: each is thrown once, for good, with the time at which it was. A request of a client that has a key throws one
with its charge, in the same transaction."""

from __future__ import annotations

import hashlib
import sqlite3

GUARDED = "guarded"
"""Every row expression is printed with a guard: the engine failed although the text was proved total."""

_FIND = "SELECT time FROM switch WHERE name = ?"
_THROW = "INSERT INTO switch VALUES (?, ?) ON CONFLICT (name) DO NOTHING"


def thrown(connection: sqlite3.Connection, name: str) -> str | None:
    """Time at which a switch was thrown; None where it was not."""
    row = connection.execute(_FIND, (name,)).fetchone()
    return None if row is None else str(row[0])


def throw(connection: sqlite3.Connection, name: str, time: str) -> None:
    """Throw a switch, in a transaction of the caller's; one that was thrown keeps its time."""
    connection.execute(_THROW, (name, time))


def is_charged(connection: sqlite3.Connection, analyst: str, key: str) -> bool:
    """True if an analyst's request with this key was charged. key  "" where it has none"""
    return bool(key) and thrown(connection, _of_request(analyst, key)) is not None


def charge(connection: sqlite3.Connection, analyst: str, key: str, time: str) -> None:
    """Note that a request is charged, in the transaction of its charge; nothing where it has no key.

    Why  the same key is the same charge (rule 73): a client whose connection broke asks again with it, and pays once at most
    """
    if key:
        throw(connection, _of_request(analyst, key), time)


def _of_request(analyst: str, key: str) -> str:
    """The switch of a request. A key is of any length, and two analysts may choose the same."""
    said = f"{len(analyst)} {analyst} {key}".encode("utf-8", "backslashreplace")
    return f"request {hashlib.sha256(said).hexdigest()}"
