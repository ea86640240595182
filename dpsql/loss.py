"""What a release costs: privacy loss, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """Loss of one release or of a sum of releases under add/remove of one privacy unit.

    epsilon  [nats]         exact
    delta    [probability]  exact

    Losses add up (basic composition; Rogers et al. 2016, Lemma 3.5, for prices chosen adaptively).

    >>> PrivacyLoss(Fraction(1, 10), Fraction(0)) + PrivacyLoss(Fraction(1, 5), Fraction(0))
    PrivacyLoss(epsilon=Fraction(3, 10), delta=Fraction(0, 1))
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if self.epsilon < 0 or not 0 <= self.delta < 1:
            raise ValueError("a privacy loss needs epsilon >= 0 and 0 <= delta < 1")

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        return PrivacyLoss(self.epsilon + other.epsilon, self.delta + other.delta)

    def fits(self, budget: PrivacyLoss) -> bool:
        """Whether this loss stays within a budget in both coordinates."""
        return self.epsilon <= budget.epsilon and self.delta <= budget.delta


NO_LOSS = PrivacyLoss(Fraction(0), Fraction(0))


def total(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """The sum of some losses; NO_LOSS for none."""
    result = NO_LOSS
    for loss in losses:
        result = result + loss
    return result
