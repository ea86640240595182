"""Switches of a dataset: each is thrown once, for good, with the time at which it was."""

from __future__ import annotations

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
