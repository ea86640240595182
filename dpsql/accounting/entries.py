"""Charges as the ledger gives them out: to the owner, and to the guard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpsql.core.loss import PrivacyLoss


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge, as the owner reads it. time: UTC, ISO 8601. releases: how many were bought. version: of the data."""

    id: int
    time: str
    analyst: str
    role: str | None
    loss: PrivacyLoss
    releases: int
    statement: str
    version: str


@dataclass(frozen=True, slots=True)
class GuardEntry:
    """Whom a charged statement was about, as the guard keeps it."""

    charge: int
    analyst: str
    statement: str
    asked: str


Decide = Callable[[], None]
"""Looks at what was charged since it looked last, in the transaction of a charge; raises what refuses it."""
