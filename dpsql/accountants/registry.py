"""Every accountant, and which ones the schema's `accounting` joins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

from dpsql.accountants.advanced import ADVANCED
from dpsql.accountants.gdp import GDP
from dpsql.accountants.pure import PURE
from dpsql.accountants.rdp import RDP
from dpsql.accountants.record import Accountant, Measure
from dpsql.accountants.zcdp import ZCDP
from dpsql.core.events import Event
from dpsql.core.loss import Amount, PrivacyLoss, Sums

ACCOUNTANTS: tuple[Accountant, ...] = (PURE, ADVANCED, ZCDP, GDP, RDP)
AUTO = "auto"
_JOINED = (PURE, ZCDP, GDP)


def accountings() -> tuple[str, ...]:
    """The words that the schema may name, the default first."""
    return (AUTO, *(each.accounting for each in ACCOUNTANTS))


def joined(accounting: str) -> tuple[Accountant, ...]:
    """The accountants that keep the promise. Raises KeyError for a word that is none of `accountings`."""
    found = _JOINED if accounting == AUTO else tuple(each for each in ACCOUNTANTS if each.accounting == accounting)
    if not found:
        raise KeyError(accounting)
    return found


def just_adds_up(accounting: str) -> bool:
    """Decide whether a total is the sum of the epsilons and deltas that are written, and nothing else."""
    return joined(accounting) == (PURE,)


@lru_cache(maxsize=256)
def measure(name: str) -> Measure:
    """The measure of a name. Raises KeyError where no accountant adds up such a thing."""
    found = next((known for each in ACCOUNTANTS for known in each.of((name,))), None)
    if found is None:
        raise KeyError(name)
    return found


def sums_of(loss: PrivacyLoss, events: Iterable[Event], more: Sequence[str] = ()) -> Sums:
    """The amounts that are charged: a loss, and what its events add to what a ledger adds up beside.

    more  names of measures that are none of a loss
    """
    ran = tuple(events) if more else ()
    return Sums.of(loss, {name: _all(measure(name), ran) for name in more})


def _all(adding: Measure, events: Sequence[Event]) -> Amount:
    amounts = [adding.adds(event) for event in events]
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Fraction(0)) if len(known) == len(amounts) else None
