"""What a release costs, in every accountant's measure and in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class EpsilonDelta:
    """What is promised, asked or allowed: a total, a cap, a price.

    epsilon  [nats]         exact
    delta    [probability]  exact
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if self.epsilon < 0 or not 0 <= self.delta < 1:
            raise ValueError("epsilon is at least 0, and delta at least 0 and below 1")


_ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """Loss of one release, or of several together, under add/remove of one privacy unit.

    epsilon     [nats]         of pure differential privacy; None: no epsilon holds without a delta
    delta       [probability]  of thresholds, and of what is not exactly what it stands for; a sum of them says nothing from 1 on
    squares     [nats^2]       the squared epsilons of the parts, added up; None as epsilon
    rho         [zCDP]
    mu_squared  [GDP]          the square of mu

    Each measure adds up under composition, also where a part is chosen after seeing the parts before it; delta adds to each of them.
    How a mechanism has which loss: mechanisms/conversions.py.

    >>> one = PrivacyLoss(Fraction(1, 10), Fraction(0), Fraction(1, 100), Fraction(1, 200), Fraction(1, 64))
    >>> (one + one).epsilon, (one + one).rho
    (Fraction(1, 5), Fraction(1, 100))
    """

    epsilon: Fraction | None
    delta: Fraction
    squares: Fraction | None
    rho: Fraction
    mu_squared: Fraction

    def __post_init__(self) -> None:
        # the numerator has the sign of the fraction, and is read much faster than it is compared
        if self.rho.numerator < 0 or self.mu_squared.numerator < 0 or self.delta.numerator < 0:
            raise ValueError("a loss is at least 0 in every measure")
        if (self.epsilon or _ZERO).numerator < 0 or (self.squares or _ZERO).numerator < 0:
            raise ValueError("a loss is at least 0 in every measure")
        if (self.epsilon is None) != (self.squares is None):
            raise ValueError("a loss has both of epsilon and its square, or neither")

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        return PrivacyLoss(
            _sum(self.epsilon, other.epsilon),
            self.delta + other.delta,
            _sum(self.squares, other.squares),
            self.rho + other.rho,
            self.mu_squared + other.mu_squared,
        )

    def within(self, other: PrivacyLoss) -> bool:
        """Whether this is at most the other loss in every measure."""
        pairs = ((self.epsilon, other.epsilon), (self.squares, other.squares))
        finite = all(theirs is None or (mine is not None and mine <= theirs) for mine, theirs in pairs)
        return finite and self.delta <= other.delta and self.rho <= other.rho and self.mu_squared <= other.mu_squared


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else one + other


NO_LOSS = PrivacyLoss(Fraction(0), Fraction(0), Fraction(0), Fraction(0), Fraction(0))


def total(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """The sum of some losses; NO_LOSS for none."""
    result = NO_LOSS
    for loss in losses:
        result = result + loss
    return result


def only_delta(delta: Fraction) -> PrivacyLoss:
    """The loss of what fails with a probability and else tells nothing: a threshold."""
    return PrivacyLoss(Fraction(0), delta, Fraction(0), Fraction(0), Fraction(0))
