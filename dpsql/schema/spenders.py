"""Roles, analysts and reservations: who may ask, and what part of the total is theirs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Role:
    """Several analysts, and the most that they may spend together; None is no cap below the dataset's total."""

    name: str
    epsilon: Fraction | None = None
    delta: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Analyst:
    """A declared analyst and the most they may spend; None is no cap below the dataset's total.

    role       the name of the Role they have, whose cap holds as well, or None
    dashboard  [nats] of a dashboard's login: the most that one statement may cost, and what is kept from it by `reserve` is not its to
               spend; None of who is none
    """

    name: str
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    role: str | None = None
    dashboard: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """A part of the total that is kept for one analyst, so that others cannot spend it.

    refreshes  how often the analyst is sure to be answered [count]
    epsilon    price of one refresh  [nats]
    delta      price of one refresh  [probability]
    """

    name: str
    analyst: str
    refreshes: int
    epsilon: Fraction
    delta: Fraction = Fraction(0)
