"""pricing: what prices are divided in. Epsilon; or rho, for Gaussian noise where the accountant adds rho or mu squared up.

"epsilon = 0.1" of Gaussian noise means rho = epsilon tanh(epsilon / 2): what any mechanism with that epsilon may have. So both kinds of
noise cost the same where rho is added up, and prices of both are asked in one unit. Where the accountant knows epsilon alone, Gaussian
noise has the rho that its share of epsilon and delta can be converted from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context
from fractions import Fraction
from functools import lru_cache
from math import exp, log

from dpsql.accountants.filters import Account, filter_of, gaussian_event
from dpsql.aggregates.base import Limits, Sensitivity, Statistic
from dpsql.aggregates.histogram import OverHistogram, Terms
from dpsql.core.cancellation import check
from dpsql.core.errors import Error, error
from dpsql.core.events import Event
from dpsql.core.loss import EpsilonDelta, total
from dpsql.core.spans import Span
from dpsql.mechanisms.calibration import BY_NAME, GAUSSIAN, LAPLACE, Moved, Target
from dpsql.mechanisms.conversions import (
    PURE,
    epsilon_at_least_rho,
    epsilon_at_most_rho,
    pure,
    rho_at_most,
)
from dpsql.mechanisms.exact_choice import Kind
from dpsql.mechanisms.threshold import threshold
from dpsql.plan.releases import NoisyStatistic, Selection
from dpsql.schema.model import Privacy

MECHANISMS = (LAPLACE.name, GAUSSIAN.name)
"""The mechanisms that "auto" chooses from, the first of two that err alike."""
_DIGITS = Context(prec=12, rounding=ROUND_FLOOR)
_LEAST = Fraction(1, 10**15)


@dataclass(frozen=True, slots=True)
class Accounted:
    """Accounting of the dataset's losses, as far as prices depend on it.

    epsilon  the dataset's total
    by_rho   whether rho or mu squared is added up, so that Gaussian noise is priced in rho
    auto     the mechanisms that "auto" chooses from, the first where nothing is added
    """

    epsilon: Fraction
    by_rho: bool = False
    auto: tuple[str, ...] = MECHANISMS


@lru_cache(maxsize=64)
def accounted(privacy: Privacy) -> Accounted:
    """From the declared schema alone.

    Why  the first release priced in rho ends the accountants that know epsilon alone. Joined with others one of them is the best for a
         few dear statements: then "auto" stays with Laplace noise, and Gaussian noise that is asked for is converted to epsilon and
         delta. Where more statements of the default price fit with Gaussian noise, "auto" may take either
    """
    epsilon, price = privacy.budget.epsilon, privacy.query.epsilon
    accounts = filter_of(privacy.budget, privacy.accounting).accounts
    ended = [account for account in accounts if account.measure.gaussian is None]
    others = [account for account in accounts if account.measure.gaussian is not None]
    if not others:
        return Accounted(epsilon)
    if not ended or _fit(others, gaussian_event(rho_at_most(price))) >= _fit(ended, PURE.event(price)):
        return Accounted(epsilon, True, ("gaussian", "laplace"))
    return Accounted(epsilon, False, ("laplace",))


def accounts_for_rho(privacy: Privacy) -> bool:
    """True if some accountant adds up what Gaussian noise costs, so that it may be charged by its rho."""
    return any(one.measure.gaussian is not None for one in filter_of(privacy.budget, privacy.accounting).accounts)


def _fit(accounts: Sequence[Account], event: Event) -> Fraction:
    """The number of such events that the best of some accountants admits."""
    amounts = [(account.most, account.measure.adds(event)) for account in accounts]
    return max((most / amount for most, amount in amounts if amount), default=Fraction(0))


@dataclass(frozen=True, slots=True)
class Pricing:
    """Amounts of one release: of rho, or of epsilon.

    mechanism  by its name
    by_rho     whether amounts are rho
    delta      [probability] of each part that spends some
    for_grid   [probability] the most that the grid of Gaussian noise may spend in a part; where it needs more, no mu is claimed
    most       the dataset's epsilon
    """

    mechanism: str
    by_rho: bool
    delta: Fraction
    for_grid: Fraction
    most: Fraction

    @property
    def kind(self) -> Kind:
        """Kind of selection among several candidates."""
        return BY_NAME[self.mechanism].kind

    def of_epsilon(self, epsilon: Fraction) -> Fraction:
        """The amount that a price of epsilon is."""
        return rho_at_most(epsilon) if self.by_rho else epsilon

    def epsilon(self, amounts: Iterable[Fraction]) -> Fraction:
        """The price that amounts add up to."""
        whole = sum(amounts, Fraction(0))
        return epsilon_at_least_rho(whole) if self.by_rho else whole

    def measured(self, name: str, statistic: Statistic, limits: Limits, amount: Fraction) -> NoisyStatistic:
        """A statistic with the noise that costs an amount."""
        check()
        sensitivity = statistic.sensitivity(limits)
        target = Target(amount, self.by_rho, self.delta, self.for_grid, self.most)
        noise, loss = BY_NAME[self.mechanism].calibrate(moved(sensitivity), target)
        return NoisyStatistic(name, statistic, sensitivity, noise, loss)

    def terms(self, over_histogram: OverHistogram, limits: Limits, amount: Fraction) -> Terms:
        """The terms on which something is released of a histogram for an amount."""
        check()
        if not self.by_rho:
            return Terms(limits, amount, self.kind)
        guess, wanted = log(epsilon_at_most_rho(amount) or _LEAST), log(amount)
        slope, before = 2.0, (0.0, 0.0)
        for step in range(8):
            # rho is about a power of epsilon, between the first and the second: nearer along the last slope
            found = log(_rho(over_histogram, Terms(limits, _short(guess), self.kind)))
            if step and guess != before[0]:
                slope = min(2.0, max(1.0, (found - before[1]) / (guess - before[0])))
            before = (guess, found)
            if abs(found - wanted) < 1e-9:
                break
            guess += (wanted - found) / slope
        epsilon, less = _short(guess), 1e-9
        while _rho(over_histogram, Terms(limits, epsilon, self.kind)) > amount:
            guess, less = guess - less, 2 * less
            epsilon = _short(guess)
        return Terms(limits, epsilon, self.kind)


def _rho(over_histogram: OverHistogram, terms: Terms) -> Fraction:
    return total(event.loss for event in over_histogram.events(terms)).rho


def _short(logarithm: float) -> Fraction:
    """Twelve digits of an epsilon, rounded down."""
    return Fraction(_DIGITS.create_decimal_from_float(exp(logarithm)))


WIDEST_SCALE = 2**52


def noisy(name: str, statistic: Statistic, limits: Limits, amount: Fraction, pricing: Pricing) -> NoisyStatistic:
    """A statistic with the noise that costs an amount. Raises 202 where the noise would be too wide."""
    measure = pricing.measured(name, statistic, limits, amount)
    if measure.noise.squared_scale > WIDEST_SCALE**2:
        raise too_wide()
    return measure


def selecting(
    name: str, units: Statistic, limits: Limits, amount: Fraction, pricing: Pricing
) -> tuple[NoisyStatistic, Selection]:
    """The number of units with its noise, and the selection of private keys by it, which spends the pricing's delta.

    Why  Laplace noise spends no delta itself, so it may be cut off instead: the noise then loses (epsilon, delta), and the
         threshold beyond its end nothing. Of the two the one that needs fewer people is taken; where the threshold of
         untruncated noise is as low, its noise is kept
    """
    measure, delta = noisy(name, units, limits, amount, pricing), pricing.delta
    tau = threshold(measure.noise, measure.sensitivity.l0, delta)
    ended = BY_NAME[pricing.mechanism].cut
    if ended is not None:
        cut = ended(measure.sensitivity.l0, EpsilonDelta(amount, delta))
        if cut.shows_from is not None and cut.shows_from < tau:
            chosen = NoisyStatistic(name, units, measure.sensitivity, cut, pure(amount, delta))
            return chosen, Selection(0, cut.shows_from, Fraction(0))
    return measure, Selection(0, tau, delta)


def moved(sensitivity: Sensitivity) -> Moved:
    return Moved(sensitivity.l1, sensitivity.l2_squared, sensitivity.l0)


def too_wide(span: Span | None = None) -> Error:
    hint = "ask at a larger epsilon, or with smaller limits"
    return error(202, "the noise would be too large to add exactly", hint=hint, span=span)
