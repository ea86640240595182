"""Privacy filters: whether what was spent still keeps a promise of (epsilon, delta), prices being chosen after seeing earlier answers.

An *accountant* adds up one measure of what ran and may reach so much of it. Each is a valid filter by itself:

    pure      the epsilons added up                            Rogers, Roth, Ullman, Vadhan 2016, section 3
    advanced  sqrt(2 ln(1 / delta) S) + S / 2, S the squares   Whitehouse, Ramdas, Rogers, Wu 2023, theorem 1
    zcdp      rho added up, converted tightly                  Feldman, Zrnic 2021, remark 4.4; Canonne, Kamath, Steinke 2020
    gdp       mu squared added up                              Smith, Thakurta 2022; Koskela, Tobaben, Honkela 2023
    rdp       the Renyi divergences of one order, fixed        Feldman, Zrnic 2021, theorem 4.3
              before the first charge

The *union filter* admits a charge while one accountant that was never exceeded still fits, each with its own share of delta.

Why   stop the session where accountant c would be exceeded: that is (epsilon, delta_c)-DP by c's theorem. Give every transcript to one
      accountant that is alive at its end; on those that c has, the session and the stopped one have equal probabilities. So
      P(S) = sum_c P_c(S and T_c) <= sum_c (e^epsilon Q_c(S and T_c) + delta_c) = e^epsilon Q(S) + delta.
      Sums only grow, and what is refused is not added: an accountant was never exceeded if and only if it is within its total now.
      What fails with a probability (a threshold; noise that stands for other noise) is (1 - d) ideal + d something: the d of all of
      them are added up ONCE, beside the accountants, and the argument is about the ideal session.
      Which accountants there are, their shares, and the order of rdp may not depend on answers: another choice afterwards would be one
      more accountant, without a share. So a ledger names them with its first charge (Promise), and they stay. A cap is no promise, but
      an end of spending: it may be checked by any of the measures that the ledger adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpsql.accountants.record import Accountant, Measure
from dpsql.accountants.registry import joined, sums_of
from dpsql.core.events import Event
from dpsql.core.loss import LOSS, EpsilonDelta, PrivacyLoss, Sums
from dpsql.mechanisms.conversions import GAUSSIAN


@dataclass(frozen=True, slots=True)
class Account:
    """One measure that is added up, by whom, and the most of it."""

    accountant: str
    measure: Measure
    most: Fraction

    def left(self, spent: Sums) -> Fraction | None:
        """The amount that may still be added; None where the accountant is exceeded."""
        amount = spent[self.measure.name]
        return None if amount is None or amount > self.most else self.most - amount


@dataclass(frozen=True, slots=True)
class Filter:
    """Accountants joined, and the share of delta that is for what fails with a probability."""

    accounts: tuple[Account, ...]
    delta: Fraction

    def admits(self, spent: Sums) -> bool:
        """Decide whether this sum keeps the promise."""
        return spent.delta <= self.delta and bool(self.alive(spent))

    def alive(self, spent: Sums) -> tuple[str, ...]:
        """The accountants that are not exceeded."""
        return tuple(a.accountant for a in self.accounts if a.left(spent) is not None)

    def price_left(self, spent: Sums, like: Sums | None = None) -> Fraction:
        """The largest epsilon of one more release that is admitted, with mechanisms like those of other sums; 0 for none."""
        gaussian = like is not None and like["epsilon"] is None
        best = Fraction(0)
        for account in self.accounts:
            left, measure = account.left(spent), account.measure
            price = measure.gaussian if gaussian else measure.price
            if left is None or price is None:
                continue
            if like is not None and gaussian:
                best = max(best, price(left / _beside_gaussian(like, measure)))
            # what is much too dear here need not be worked out
            elif not best or measure.costs(float(best)) < 1.001 * float(left):
                best = max(best, price(left))
        return best

    def delta_left(self, spent: Sums) -> Fraction:
        return max(self.delta - spent.delta, Fraction(0))


def _beside_gaussian(like: Sums, measure: Measure) -> Fraction:
    """The factor by which some releases add more than Gaussian noise of their rho alone: beside it there may be choices, whose mu is
    larger than their rho says."""
    rho = like.loss.rho
    if not rho:
        return Fraction(1)
    amount, alone = like[measure.name], measure.adds(gaussian_event(rho))
    more = amount / alone if amount is not None and alone else Fraction(1)
    return max(Fraction(1), like.loss.mu_squared / (2 * rho), more)


def gaussian_event(rho: Fraction) -> Event:
    """Gaussian noise that is exactly what it stands for."""
    return GAUSSIAN.event(rho, 0, 2 * rho)


@dataclass(frozen=True, slots=True)
class Promise:
    """The way a ledger adds up, named with its first charge and for good.

    accounting  as the schema named it then
    more        what is added up beside the measures of a loss
    """

    accounting: str
    more: tuple[str, ...] = ()

    @staticmethod
    @lru_cache(maxsize=256)
    def under(total: EpsilonDelta, accounting: str) -> Promise:
        """The promise of a ledger that is new, under the total that is declared then."""
        parts = _shares(total, joined(accounting))
        names = dict.fromkeys(name for each, share in parts for name in each.names(share))
        return Promise(accounting, tuple(name for name in names if name not in LOSS))

    @property
    def nothing(self) -> Sums:
        return Sums.nothing(self.more)

    def sums(self, loss: PrivacyLoss, events: Sequence[Event]) -> Sums:
        """The amounts that a charge adds, as they are kept."""
        return sums_of(loss, events, self.more).kept

    def keeps(self, total: EpsilonDelta) -> Filter:
        """The filter of the dataset's total, whatever it is by now."""
        return _keeps(total, self)

    def caps(self, total: EpsilonDelta) -> Filter:
        """The filter of a cap: of what an accountant adds up, by what admits most."""
        return _caps(total, self)


def filter_of(total: EpsilonDelta, accounting: str) -> Filter:
    """The filter that an owner asks for by `accounting`, of a ledger that is new."""
    return Promise.under(total, accounting).keeps(total)


@lru_cache(maxsize=256)
def _keeps(total: EpsilonDelta, promise: Promise) -> Filter:
    return _filter(total, promise, lambda measures, share: measures[0])


@lru_cache(maxsize=256)
def _caps(total: EpsilonDelta, promise: Promise) -> Filter:
    return _filter(total, promise, lambda measures, share: max(measures, key=lambda measure: measure.most(share)))


_Pick = Callable[[Sequence[Measure], EpsilonDelta], Measure]


def _filter(total: EpsilonDelta, promise: Promise, pick: _Pick) -> Filter:
    found, names = [], (*LOSS, *promise.more)
    accountants = joined(promise.accounting)
    for each, share in _shares(total, accountants):
        measure = pick(each.of(names), share)
        found.append(Account(each.name, measure, measure.most(share)))
    return Filter(tuple(found), total.delta / 2 if any(each.shares for each in accountants) else total.delta)


def _shares(total: EpsilonDelta, accountants: Sequence[Accountant]) -> list[tuple[Accountant, EpsilonDelta]]:
    """The part of a total that each may promise. Where none needs a delta, all of it is for what fails with a probability; else half of
    it, and the rest is theirs, by their shares."""
    whole = sum(each.shares for each in accountants)
    return [
        (each, EpsilonDelta(total.epsilon, total.delta / 2 * each.shares / whole if whole else Fraction(0)))
        for each in accountants
    ]
