"""Whether a charge fits: every limit that applies to it, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dpsql.accounting.amounts import at_least, at_most, bounded
from dpsql.errors import Error, error
from dpsql.loss import PrivacyLoss
from dpsql.plan import Budget

_COORDINATES: tuple[Literal["epsilon"], Literal["delta"]] = ("epsilon", "delta")


@dataclass(frozen=True, slots=True)
class Limit:
    """One coordinate of one total that charges must stay within.

    holder  whose total, as a message names it
    cap     allowed  [nats or probability]
    spent   so far   [nats or probability]
    """

    coordinate: Literal["epsilon", "delta"]
    holder: str
    cap: Fraction
    spent: Fraction

    @property
    def left(self) -> Fraction:
        """What may still be spent; never below 0, even when the owner lowered the cap below what is spent."""
        return max(self.cap - self.spent, Fraction(0))

    def admits(self, loss: PrivacyLoss) -> bool:
        """Whether spent + loss stays within the cap."""
        return bounded(self.spent + part_of(loss, self.coordinate)) <= self.cap


def part_of(loss: PrivacyLoss, coordinate: Literal["epsilon", "delta"]) -> Fraction:
    """One coordinate of a loss."""
    return loss.epsilon if coordinate == "epsilon" else loss.delta


def limits(budget: Budget, analyst: str, dataset_spent: PrivacyLoss, analyst_spent: PrivacyLoss) -> tuple[Limit, ...]:
    """The dataset's two limits, and those that the owner set for this analyst."""
    found = [
        Limit("epsilon", "the dataset's total", budget.total.epsilon, dataset_spent.epsilon),
        Limit("delta", "the dataset's total", budget.total.delta, dataset_spent.delta),
    ]
    holder = f"the cap of analyst {analyst!r}"
    if budget.analyst_epsilon is not None:
        found.append(Limit("epsilon", holder, budget.analyst_epsilon, analyst_spent.epsilon))
    if budget.analyst_delta is not None:
        found.append(Limit("delta", holder, budget.analyst_delta, analyst_spent.delta))
    return tuple(found)


def remaining(applying: Iterable[Limit]) -> PrivacyLoss:
    """The smallest rest of each coordinate; never below 0."""
    found = tuple(applying)
    return PrivacyLoss(_tightest(found, "epsilon").left, _tightest(found, "delta").left)


def refusal(loss: PrivacyLoss, applying: Sequence[Limit]) -> Error | None:
    """None if the loss fits every limit, else error 501: what it costs, what is left of which total, what would fit."""
    exceeded = [_tightest(applying, each) for each in _COORDINATES if not _admitted(loss, applying, each)]
    if not exceeded:
        return None
    message = " and ".join(_shortfall(limit, part_of(loss, limit.coordinate)) for limit in exceeded)
    return error(501, f"this costs {message}", hint=_what_fits(exceeded))


def _admitted(loss: PrivacyLoss, applying: Iterable[Limit], coordinate: Literal["epsilon", "delta"]) -> bool:
    return all(limit.admits(loss) for limit in applying if limit.coordinate == coordinate)


def _tightest(applying: Iterable[Limit], coordinate: Literal["epsilon", "delta"]) -> Limit:
    return min(
        (limit for limit in applying if limit.coordinate == coordinate), key=lambda limit: limit.cap - limit.spent
    )


def _shortfall(limit: Limit, cost: Fraction) -> str:
    return f"{limit.coordinate} {at_least(cost)}, {at_most(limit.left)} is left of {limit.holder} {at_most(limit.cap)}"


def _what_fits(exceeded: Sequence[Limit]) -> str:
    if all(limit.left > 0 for limit in exceeded):
        return ", ".join(f"{limit.coordinate}={at_most(limit.left)}" for limit in exceeded) + " would fit"
    if [limit.coordinate for limit in exceeded] == ["delta"] and exceeded[0].spent <= exceeded[0].cap:
        return "a statement whose delta is 0 would fit"
    return "nothing more fits until the owner raises it"
