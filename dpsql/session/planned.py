"""Planned statements: up to their noise, before anything is charged."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.cubes import StoredCube
from dpsql.core.loss import PrivacyLoss
from dpsql.guard.record import Judged
from dpsql.mechanisms.prices import nominal
from dpsql.plan.compiled import Compiled
from dpsql.planner.parse import Query


@dataclass(frozen=True, slots=True)
class Planned:
    """A query up to its noise."""

    query: Query
    judged: Judged
    plan: Compiled


@dataclass(frozen=True, slots=True)
class Prospect:
    """The price that a statement would have.

    losses  of each of its charges
    cube    that it buys, or names anew
    off     cubes, not bought yet, that it would be read off
    """

    losses: tuple[PrivacyLoss, ...] = ()
    cube: StoredCube | None = None
    off: tuple[str, ...] = ()

    @property
    def price(self) -> Fraction:
        """[nats] Its charges one by one, as they count in what a version of the data may cost."""
        return sum(map(nominal, self.losses), Fraction(0))


@dataclass(frozen=True, slots=True)
class About:
    """A statement as the ledger keeps it, and the tables and periods that its answers depend on: see Release.reads."""

    written: str
    reads: frozenset[tuple[str, ...]]
