"""Privacy loss of a release, in every accountant's measure and in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import is_


@dataclass(frozen=True, slots=True)
class EpsilonDelta:
    """Privacy loss (epsilon, delta) that is promised, asked for or allowed: a total, a cap, a price.

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
        """True if this is at most the other loss in every measure."""
        pairs = ((self.epsilon, other.epsilon), (self.squares, other.squares))
        finite = all(theirs is None or (mine is not None and mine <= theirs) for mine, theirs in pairs)
        return finite and self.delta <= other.delta and self.rho <= other.rho and self.mu_squared <= other.mu_squared


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    if one is None or other is None:
        return None
    # most measures of most charges are zero
    return one + other if one.numerator and other.numerator else one if one.numerator else other


NO_LOSS = PrivacyLoss(Fraction(0), Fraction(0), Fraction(0), Fraction(0), Fraction(0))


def total(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """The sum of some losses; NO_LOSS for none."""
    found = list(losses)
    return sum(found[1:], found[0]) if found else NO_LOSS


def only_delta(delta: Fraction) -> PrivacyLoss:
    """The loss of what fails with a probability and else tells nothing: a threshold."""
    return PrivacyLoss(Fraction(0), delta, Fraction(0), Fraction(0), Fraction(0))


# --- sums by name -------------------------------------------------------------------------------------------------------

LOSS = ("epsilon", "delta", "epsilon_squared", "rho", "mu_squared")
"""The names that every ledger adds up: the measures of a loss, in the order of its fields."""
_WIDEST_DENOMINATOR = 512  # bits
_GRID = 2**_WIDEST_DENOMINATOR

Amount = Fraction | None
"""None: no finite one."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Amounts by name: those of LOSS, then what else a ledger adds up.

    Why     only sums of the same names add up: none of them is ever left out, nor taken for zero

    >>> one = Sums.of(PrivacyLoss(Fraction(1, 10), Fraction(0), Fraction(1, 100), Fraction(1, 200), Fraction(1, 64)))
    >>> one["rho"], (one + one)["epsilon"]
    (Fraction(1, 200), Fraction(1, 5))
    """

    names: tuple[str, ...]
    amounts: tuple[Amount, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.amounts) or self.names[: len(LOSS)] != LOSS:
            raise ValueError("sums have an amount for each name, and those of a loss")
        for amount in self.amounts:
            if amount is not None and amount.numerator < 0:
                raise ValueError("an amount is at least 0")

    @staticmethod
    def of(loss: PrivacyLoss, more: Mapping[str, Amount] | None = None) -> Sums:
        """A loss, and what else is added up."""
        beside = more or {}
        measures = (loss.epsilon, loss.delta, loss.squares, loss.rho, loss.mu_squared)
        return Sums((*LOSS, *beside), (*measures, *beside.values()))

    @staticmethod
    def nothing(more: Iterable[str] = ()) -> Sums:
        names = (*LOSS, *more)
        return Sums(names, (_ZERO,) * len(names))

    def __getitem__(self, name: str) -> Amount:
        return self.amounts[self.names.index(name)]

    @property
    def loss(self) -> PrivacyLoss:
        epsilon, delta, squares, rho, mu_squared = self.amounts[: len(LOSS)]
        if delta is None or rho is None or mu_squared is None:
            raise ValueError("rho and mu are finite")
        return PrivacyLoss(epsilon, delta, squares, rho, mu_squared)

    @property
    def delta(self) -> Fraction:
        return self.amounts[1] or _ZERO

    @property
    def empty(self) -> bool:
        return all(amount == 0 for amount in self.amounts)

    def __add__(self, other: Sums) -> Sums:
        if self.names != other.names:
            raise ValueError("other amounts are added up there")
        return Sums(self.names, tuple(map(_sum, self.amounts, other.amounts)))

    def beside(self, other: Sums, both: Callable[[Amount, Amount], Amount]) -> Sums:
        """Amount by amount with those of another."""
        if self.names != other.names:
            raise ValueError("other amounts are added up there")
        return Sums(self.names, tuple(map(both, self.amounts, other.amounts)))

    @property
    def kept(self) -> Sums:
        """As it is kept: each amount rounded up where it grew too long."""
        found = [None if amount is None else bounded(amount) for amount in self.amounts]
        same = all(map(is_, found, self.amounts))
        return self if same else Sums(self.names, tuple(found))


def added(spent: Sums, more: Sums) -> Sums:
    """The sum, as it is kept."""
    return (spent + more).kept


def bounded(amount: Fraction) -> Fraction:
    """The amount itself, or, when its denominator passes 512 bits, the next multiple of 2^-512 above it.

    Why  sums of odd prices would otherwise grow without end, a charge with them; rounding up spends more
    """
    if amount.denominator.bit_length() <= _WIDEST_DENOMINATOR:
        return amount
    return Fraction(-(-amount.numerator * _GRID // amount.denominator), _GRID)


def whole(several: Iterable[Sums], nothing: Sums) -> Sums:
    """All of them together; `nothing` of none."""
    found = list(several)
    return sum(found[1:], found[0]) if found else nothing
