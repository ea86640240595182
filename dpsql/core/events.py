"""Events: runs of a mechanism, in the numbers that its loss follows from: the ledger keeps it, for every accountant to
read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpsql.core.loss import PrivacyLoss


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of mechanism, as events name it.

    numbers  what its loss follows from, by name
    loss     of them, in that order
    renyi    of an order above 1 and them: a bound of the Renyi divergences of that order, beside the delta, that the loss does not
             give (mechanisms/renyi.py); None: no other is known
    """

    name: str
    numbers: tuple[str, ...]
    loss: Callable[..., PrivacyLoss]
    renyi: Callable[..., Fraction] | None = None

    def event(self, *values: Fraction | int) -> Event:
        return Event(self, tuple(map(Fraction, values)))


@dataclass(frozen=True, slots=True)
class Event:
    """One run of a mechanism. values: exact, in the order of the kind's numbers."""

    kind: Kind
    values: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.kind.numbers):
            raise ValueError("an event has a value for each number of its kind")

    @property
    def loss(self) -> PrivacyLoss:
        return self.kind.loss(*self.values)

    @property
    def fields(self) -> dict[str, str]:
        """As the ledger and certificates show it: exact text."""
        return {"kind": self.kind.name, **dict(zip(self.kind.numbers, map(str, self.values), strict=True))}

    @property
    def text(self) -> str:
        return json.dumps(self.fields)


def read(fields: object, kinds: Mapping[str, Kind]) -> Event | None:
    """The event that was shown so; None where it is none of these kinds."""
    if not isinstance(fields, dict):
        return None
    kind = kinds.get(str(fields.get("kind")))
    if kind is None or set(fields) != {"kind", *kind.numbers}:
        return None
    try:
        return Event(kind, tuple(Fraction(fields[name]) for name in kind.numbers))
    except (ValueError, TypeError, ZeroDivisionError):
        return None
