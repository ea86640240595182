"""A ledger's sum of losses, as its accountants would have it where nothing but the loss is known."""

from __future__ import annotations

from dpsql.accountants.filters import Promise
from dpsql.core.loss import EpsilonDelta, PrivacyLoss, Sums
from dpsql.mechanisms.events import of_loss


def sums(loss: PrivacyLoss, promise: Promise) -> Sums:
    """A loss, and what it adds beside in a ledger with this promise."""
    return promise.sums(loss, (of_loss(loss),))


class Adding:
    """Losses as the sums of one accounting."""

    def __init__(self, whole: EpsilonDelta, accounting: str) -> None:
        self.promise = Promise.under(whole, accounting)
        self.keeps, self.nothing = self.promise.keeps(whole), self.promise.nothing

    def __call__(self, loss: PrivacyLoss) -> Sums:
        return sums(loss, self.promise)

    def all(self, losses: list[PrivacyLoss]) -> Sums:
        return sum(map(self, losses), self.nothing)
