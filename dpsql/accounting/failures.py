"""Failures of the engine after a charge that no declared limit explains: the owner has to look at them."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

KINDS = ("engine", "crossing", "release")
"""engine: it did not finish the statement. crossing: what it gave is no integer. release: no noise could be added to it."""
MOST = 3
"""So many that the owner has not seen end an analyst's new statements."""

_PUT = "INSERT INTO failure (charge, analyst, time, kind) VALUES (?, ?, ?, ?)"
_ALL = """SELECT failure.id, charge, failure.analyst, failure.time, kind, statement, cleared
FROM failure JOIN charge ON charge.id = failure.charge"""
_UNSEEN = "SELECT count(*) FROM failure WHERE cleared IS NULL"
_CLEAR = "UPDATE failure SET cleared = ? WHERE cleared IS NULL AND id <= ?"


@dataclass(frozen=True, slots=True)
class Failure:
    """One statement that was charged and failed. time, cleared: UTC, ISO 8601; cleared: when the owner had seen it, or None."""

    id: int
    charge: int
    analyst: str
    time: str
    kind: str
    statement: str
    cleared: str | None


def record(connection: sqlite3.Connection, charge: int, analyst: str, time: str, kind: str) -> None:
    """Write that the statement of a charge failed."""
    connection.execute(_PUT, (charge, analyst, time, kind))


def found(connection: sqlite3.Connection, analyst: str | None) -> list[Failure]:
    """Every failure, or those of one analyst, oldest first."""
    where, values = ("", ()) if analyst is None else (" WHERE failure.analyst = ?", (analyst,))
    return [Failure(*row) for row in connection.execute(f"{_ALL}{where} ORDER BY failure.id", values)]


def unseen(connection: sqlite3.Connection, analyst: str | None) -> int:
    """Number of failures that the owner has not seen: of one analyst, or of all."""
    where, values = ("", ()) if analyst is None else (" AND analyst = ?", (analyst,))
    ((count,),) = connection.execute(f"{_UNSEEN}{where}", values)
    return int(count)


def clear(connection: sqlite3.Connection, last: int, time: str) -> None:
    """Write that the owner has seen the failures up to one."""
    connection.execute(_CLEAR, (time, last))
