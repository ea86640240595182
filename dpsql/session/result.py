"""The answer to one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.plan.charges import Receipt
from dpsql.plan.tables import Accuracy


@dataclass(frozen=True, slots=True)
class Answer:
    """What one statement gave.

    columns   (name, DuckDB type)
    rows      in the order of the statement
    accuracy  parallel to the rows: one Accuracy or None per cell, made when it is read
    receipt   what it cost and what is left
    cached    True only where everything came from stored answers
    releases  how many releases were charged
    notes     what the guard warns of, and what was noticed of stored answers
    fingerprints  of the paid releases, under which they are stored
    public    the public tables that it was made of
    """

    columns: tuple[tuple[str, str], ...]
    rows: list[tuple[object, ...]]
    accuracy: Sequence[tuple[Accuracy | None, ...]]
    receipt: Receipt
    cached: bool = False
    releases: int = 0
    notes: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
