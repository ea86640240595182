"""An accountant, as one record: what it adds up of the events that ran, and the most of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from dpsql.core.events import Event
from dpsql.core.loss import EpsilonDelta


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """Something that is added up.

    name      as the ledger keeps it
    adds      what an event adds, beside its delta; None: no finite amount
    most      how much of it there may be within a total, delta being this accountant's share
    costs     about what a release of an epsilon adds
    price     the largest epsilon of a release without Gaussian noise that adds at most so much
    gaussian  the same with Gaussian noise alone, whose rho is that of its nominal epsilon; None: none
    """

    name: str
    adds: Callable[[Event], Fraction | None]
    most: Callable[[EpsilonDelta], Fraction]
    costs: Callable[[float], float]
    price: Callable[[Fraction], Fraction]
    gaussian: Callable[[Fraction], Fraction] | None


@dataclass(frozen=True, slots=True, eq=False)
class Accountant:
    """A valid filter: what it adds up may reach the most of it, prices being chosen after seeing earlier answers.

    name        as reports name it
    accounting  the schema's word for it alone
    shares      of delta, where several are joined: 0 for one that needs none
    names       the measures that a ledger adds up for it, made under a total: the first for the total itself, others for caps
    measure     the one of that name; None where it has none
    """

    name: str
    accounting: str
    shares: int
    names: Callable[[EpsilonDelta], tuple[str, ...]]
    measure: Callable[[str], Measure | None]

    def of(self, names: Iterable[str]) -> list[Measure]:
        """Its measures among those that a ledger adds up."""
        return [found for found in map(self.measure, names) if found is not None]


def of_one(name: str, accounting: str, measure: Measure, shares: int = 1) -> Accountant:
    """An accountant that adds up the same whatever the total is."""
    return Accountant(
        name, accounting, shares, lambda _: (measure.name,), lambda wanted: measure if wanted == measure.name else None
    )
