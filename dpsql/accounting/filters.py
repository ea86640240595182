"""Filters: whether what was spent still keeps a promise of (epsilon, delta), prices being chosen after seeing earlier answers.

An *accountant* adds up one measure of the loss and may reach so much of it. Each is a valid filter by itself:

    pure      the epsilons added up                            Rogers, Roth, Ullman, Vadhan 2016, section 3
    advanced  sqrt(2 ln(1 / delta) S) + S / 2, S the squares   Whitehouse, Ramdas, Rogers, Wu 2023, theorem 1
    zcdp      rho added up, converted tightly                  Feldman, Zrnic 2021, remark 4.4; Canonne, Kamath, Steinke 2020
    gdp       mu squared added up                              Smith, Thakurta 2022; Koskela, Tobaben, Honkela 2023

The *union filter* admits a charge while one accountant that was never exceeded still fits, each with its own share of delta.

Why   stop the session where accountant c would be exceeded: that is (epsilon, delta_c)-DP by c's theorem. Give every transcript to one
      accountant that is alive at its end; on those that c has, the session and the stopped one have equal probabilities. So
      P(S) = sum_c P_c(S and T_c) <= sum_c (e^epsilon Q_c(S and T_c) + delta_c) = e^epsilon Q(S) + delta.
      Sums only grow, and what is refused is not added: an accountant was never exceeded if and only if it is within its total now.
      What fails with a probability (a threshold; noise that stands for other noise) is (1 - d) ideal + d something: the d of all of
      them are added up ONCE, beside the accountants, and the argument is about the ideal session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt, tanh

from dpsql.accounting.amounts import bounded
from dpsql.core.loss import NO_LOSS, EpsilonDelta, PrivacyLoss
from dpsql.mechanisms.conversions import epsilon_at_most_mu, epsilon_at_most_rho
from dpsql.mechanisms.reach import largest_mu_squared, largest_rho, largest_squares


@dataclass(frozen=True, slots=True)
class Accountant:
    """One measure of the loss, and the most of it.

    name     as the schema names it: "pure", "advanced", "zcdp" or "gdp"
    measure  what is added up of a loss; None: no finite amount
    most     how much of it there may be
    costs    about what a release of an epsilon adds
    price    the largest epsilon of a release without Gaussian noise that adds at most so much
    gaussian the same with Gaussian noise alone; None: none
    """

    name: str
    measure: Callable[[PrivacyLoss], Fraction | None]
    most: Fraction
    costs: Callable[[float], float]
    price: Callable[[Fraction], Fraction]
    gaussian: Callable[[Fraction], Fraction] | None

    def left(self, spent: PrivacyLoss) -> Fraction | None:
        """What may still be added; None where the accountant is exceeded."""
        amount = self.measure(spent)
        return None if amount is None or amount > self.most else self.most - amount


@dataclass(frozen=True, slots=True)
class Filter:
    """Accountants joined, and the share of delta that is for what fails with a probability."""

    accountants: tuple[Accountant, ...]
    delta: Fraction

    def admits(self, spent: PrivacyLoss) -> bool:
        """Whether this sum keeps the promise."""
        return spent.delta <= self.delta and bool(self.alive(spent))

    def alive(self, spent: PrivacyLoss) -> tuple[str, ...]:
        """The accountants that are not exceeded."""
        return tuple(a.name for a in self.accountants if a.left(spent) is not None)

    def price_left(self, spent: PrivacyLoss, like: PrivacyLoss = NO_LOSS) -> Fraction:
        """The largest epsilon of one more release that is admitted, with mechanisms like those of a loss; 0 for none."""
        gaussian = like.epsilon is None
        # beside Gaussian noise there may be choices, whose mu is larger than their rho says
        more = max(Fraction(1), like.mu_squared / (2 * like.rho)) if gaussian and like.rho else Fraction(1)
        best = Fraction(0)
        for accountant in self.accountants:
            left, price = accountant.left(spent), accountant.gaussian if gaussian else accountant.price
            if left is None or price is None:
                continue
            # what is much too dear here need not be worked out
            if gaussian or not best or accountant.costs(float(best)) < 1.001 * float(left):
                best = max(best, price(left / more))
        return best

    def delta_left(self, spent: PrivacyLoss) -> Fraction:
        return max(self.delta - spent.delta, Fraction(0))


@lru_cache(maxsize=256)
def filter_of(total: EpsilonDelta, accounting: str) -> Filter:
    """The filter that an owner asks for by `accounting`.

    "sequential" gives all of delta to what fails with a probability; the others half of it, and the rest to their accountants in equal
    parts. "auto" joins pure, zcdp and gdp.
    """
    if accounting == "sequential":
        return Filter((_pure(total),), total.delta)
    names = ("zcdp", "gdp") if accounting == "auto" else (accounting,)
    half = total.delta / 2
    share = EpsilonDelta(total.epsilon, half / len(names))
    joined = tuple(_MADE[name](share) for name in names)
    return Filter((_pure(total), *joined) if accounting == "auto" else joined, half)


def added(spent: PrivacyLoss, loss: PrivacyLoss) -> PrivacyLoss:
    """The sum, each measure rounded up where it grew too long to keep."""
    both = spent + loss
    return PrivacyLoss(
        None if both.epsilon is None else bounded(both.epsilon),
        bounded(both.delta),
        None if both.squares is None else bounded(both.squares),
        bounded(both.rho),
        bounded(both.mu_squared),
    )


def _pure(total: EpsilonDelta) -> Accountant:
    return Accountant("pure", lambda loss: loss.epsilon, total.epsilon, lambda e: e, lambda left: left, None)


def _advanced(total: EpsilonDelta) -> Accountant:
    return Accountant("advanced", lambda loss: loss.squares, largest_squares(total), lambda e: e * e, _root, None)


def _zcdp(total: EpsilonDelta) -> Accountant:
    most = largest_rho(total)
    return Accountant("zcdp", lambda loss: loss.rho, most, _about_rho, epsilon_at_most_rho, epsilon_at_most_rho)


def _gdp(total: EpsilonDelta) -> Accountant:
    most = largest_mu_squared(total)
    return Accountant(
        "gdp",
        lambda loss: loss.mu_squared,
        most,
        # mu squared is never below twice rho
        lambda epsilon: 2 * _about_rho(epsilon),
        epsilon_at_most_mu,
        lambda left: epsilon_at_most_rho(left / 2),
    )


def _about_rho(epsilon: float) -> float:
    return epsilon * tanh(epsilon / 2)


_MADE: dict[str, Callable[[EpsilonDelta], Accountant]] = {"advanced": _advanced, "zcdp": _zcdp, "gdp": _gdp}
_PLACES = 10**12


def _root(square: Fraction) -> Fraction:
    """The largest epsilon of twelve places whose square is at most this."""
    return Fraction(isqrt(square.numerator * _PLACES**2 // square.denominator), _PLACES)
