"""The values that pass between a session and the ledger. Exact: losses and totals are fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.core.events import Event
from dpsql.core.loss import NO_LOSS, EpsilonDelta, PrivacyLoss, total


@dataclass(frozen=True, slots=True)
class Receipt:
    """Receipt of the ledger for one charged statement. id is None where nothing was charged.

    remaining   the largest epsilon and delta that one more statement may cost
    statements  how many more of the default price fit, where epsilons are added up no more: one alone may then cost much less than the
                total without what was spent; None where they are
    """

    id: int | None
    loss: PrivacyLoss
    remaining: EpsilonDelta
    statements: int | None = None


@dataclass(frozen=True, slots=True)
class Portion:
    """Cost of one release, and the units that it is about: those with one of these values of the partition column;
    None: everybody.

    events  what runs, and loses that; () where only the loss is known
    """

    loss: PrivacyLoss
    entries: tuple[str, ...] | None = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class ChargeRequest:
    """Request to charge one statement, on which the ledger decides.

    statement     canonical text, for the history
    fingerprints  of the releases that are bought
    mechanisms    one line per measure: name and parameters
    portions      what each release costs
    role          of the analyst, or None
    certificates  one JSON text for each release
    fresh         whether stored answers are asked anew
    asked         whom the releases are about, as the guard keeps it (guard/record.py); "" where it is off
    key           that a client gave the request, which is charged once at most; "" where it has none
    """

    analyst: str
    data_version: str
    statement: str
    fingerprints: tuple[str, ...]
    mechanisms: tuple[str, ...]
    portions: tuple[Portion, ...]
    role: str | None = None
    certificates: tuple[str, ...] = ()
    fresh: bool = False
    asked: str = ""
    key: str = ""

    @property
    def loss(self) -> PrivacyLoss:
        """Of all releases together, as if they were about the same people."""
        return total(portion.loss for portion in self.portions)


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that one analyst, or all analysts of one role together, may spend. scope is "analyst" or "role"."""

    scope: str
    name: str
    total: EpsilonDelta


@dataclass(frozen=True, slots=True)
class ReservedBudget:
    """A reservation: what is kept for one analyst, `refreshes` times `refresh`."""

    name: str
    analyst: str
    refreshes: int
    refresh: PrivacyLoss


@dataclass(frozen=True, slots=True)
class Budget:
    """Budget that a charge is checked against.

    total       the dataset's, for all analysts together
    accounting  as the schema names it
    caps        of the analyst who asks, and of their role
    held        for analysts by name
    window      "day", "week" or "month": the total and the caps are for each; None: they never refill
    least       the least epsilon that a statement may cost: less than that fits nobody
    usual       the loss of a statement of the default price
    a_version   [nats] the most that the prices of this analyst add up to in one version of the data; None: as far as the totals go
    """

    total: EpsilonDelta
    accounting: str = "sequential"
    caps: tuple[Cap, ...] = ()
    held: tuple[ReservedBudget, ...] = ()
    window: str | None = None
    least: Fraction = Fraction(0)
    usual: PrivacyLoss = NO_LOSS
    a_version: Fraction | None = None
