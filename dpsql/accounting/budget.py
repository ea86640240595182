"""Checks that a charge fits: every total that applies to it, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accountants.filters import Filter, Promise
from dpsql.accounting.amounts import at_least, at_most
from dpsql.accounting.totals import Spent
from dpsql.core.errors import BudgetError, Error, error
from dpsql.core.loss import LOSS, Amount, EpsilonDelta, PrivacyLoss, Sums, added
from dpsql.mechanisms.events import of_loss
from dpsql.mechanisms.prices import nominal
from dpsql.plan.charges import Budget, Receipt, ReservedBudget

MOST_COUNTED = 2**40
"""Limit up to which what is left is counted in statements."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One total that charges must stay within.

    holder  whose total, as a message names it
    total   as the owner wrote it
    keeps   whether a sum keeps it
    spent   so far, what is kept for others included
    asked   what is to be added now
    charged of `spent`, without what is kept for others
    scope   whose total, as the ledger keeps it: ("dataset", ""), or an "entry", "analyst" or "role" by its name
    """

    holder: str
    total: EpsilonDelta
    keeps: Filter
    spent: Sums
    asked: Sums
    charged: Sums
    scope: tuple[str, str] = ("dataset", "")

    @property
    def after(self) -> Limit:
        """The limit once what is asked is spent."""
        return replace(self, spent=added(self.spent, self.asked), asked=Sums.nothing(self.asked.names[len(LOSS) :]))

    @property
    def admits(self) -> bool:
        return self.keeps.admits(added(self.spent, self.asked))

    @property
    def admits_without_delta(self) -> bool:
        return bool(self.keeps.alive(added(self.spent, self.asked)))

    def epsilon_left(self, like: Sums | None = None) -> Fraction:
        """The largest epsilon that one more release like this may cost; 0 for none."""
        return self.keeps.price_left(self.spent, like)

    @property
    def delta_left(self) -> Fraction:
        return self.keeps.delta_left(self.spent)

    def count_left(self, like: Sums) -> int:
        """The number of further releases like this, which is not nothing, that would be admitted one after another."""
        fits, too_many = 0, 1
        while too_many <= MOST_COUNTED and self._admits(like, too_many):
            fits, too_many = too_many, 2 * too_many
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            fits, too_many = (middle, too_many) if self._admits(like, middle) else (fits, middle)
        return fits

    def _admits(self, like: Sums, count: int) -> bool:
        return self.keeps.admits(added(self.spent, times(like, count)))


def dataset(budget: Budget) -> str:
    """The dataset's total, as a message names it."""
    return f"the dataset's total{_each(budget)}"


def capped(scope: str, name: str, budget: Budget) -> str:
    """The cap of an analyst or a role, as a message names it."""
    return f"the cap of {scope} {name!r}{_each(budget)}"


def _each(budget: Budget) -> str:
    return f" of this {budget.window}" if budget.window is not None else ""


def kept_for_others(budget: Budget, analyst: str, promise: Promise, spent_of: Callable[[str], Sums]) -> Sums:
    """Amounts reserved for other analysts and not spent by them.

    spent_of  what an analyst spent
    """
    kept = promise.nothing
    for held in budget.held:
        if held.analyst != analyst:
            kept = added(kept, unspent(held, promise, spent_of(held.analyst)))
    return kept


def reserved(held: ReservedBudget, promise: Promise) -> Sums:
    """The amounts that a reservation kept before anything was spent of it."""
    return times(promise.sums(held.refresh, (of_loss(held.refresh),)), held.refreshes)


def unspent(held: ReservedBudget, promise: Promise, spent: Sums) -> Sums:
    """Rest of a reservation, amount by amount; nothing is kept in one where the analyst has no finite amount."""
    return reserved(held, promise).beside(spent, _rest)


def refreshes_left(held: ReservedBudget, promise: Promise, spent: Sums) -> int:
    """Number of refreshes that a reservation still pays for."""
    rest = unspent(held, promise, spent).loss
    parts = [rest.rho / held.refresh.rho] if held.refresh.rho else []
    if rest.epsilon is not None and held.refresh.epsilon and spent["epsilon"] is not None:
        parts.append(rest.epsilon / held.refresh.epsilon)
    return int(min(parts, default=Fraction(held.refreshes)))


def times(sums: Sums, count: int) -> Sums:
    """The sums of `count` equal releases; their delta stays below 1."""
    epsilon, delta, *others = (None if amount is None else count * amount for amount in sums.amounts)
    return Sums(sums.names, (epsilon, min(delta or Fraction(0), 1 - Fraction(1, 2**64)), *others))


def _rest(whole: Amount, spent: Amount) -> Amount:
    return Fraction(0) if whole is None or spent is None else max(whole - spent, Fraction(0))


def remaining(applying: Iterable[Limit]) -> EpsilonDelta:
    """The largest epsilon that one more release may cost, and the largest delta; never below 0."""
    found = tuple(applying)
    return EpsilonDelta(min(limit.epsilon_left() for limit in found), min(limit.delta_left for limit in found))


def receipt(
    applying: Sequence[Limit], promise: Promise, budget: Budget, loss: PrivacyLoss, charge: int | None = None
) -> Receipt:
    """Receipt of a statement, and what is left of the totals that apply.

    Why  where some total adds up epsilons no more, what one statement may cost says little of what is left: it is told how many of the
         default price fit
    """
    left: int | None = None
    if any(limit.spent["epsilon"] is None for limit in applying):
        usual = promise.sums(budget.usual, (of_loss(budget.usual),))
        left = min(limit.count_left(usual) for limit in applying) if not usual.empty else None
    return Receipt(charge, loss, remaining(applying), left)


def refusal(applying: Sequence[Limit], least: Fraction = Fraction(0)) -> Error | None:
    """None if what is asked fits every limit, else error 501: what it costs, what is left of which total, what would fit.

    least  no statement may cost a smaller epsilon
    """
    exceeded = [limit for limit in applying if not limit.asked.empty and not limit.admits]
    if not exceeded:
        return None
    tightest = min(exceeded, key=lambda limit: (limit.epsilon_left(limit.asked), limit.delta_left))
    loss, left = tightest.asked, tightest.epsilon_left(tightest.asked)
    shortfalls, fits = [], []
    if not tightest.admits_without_delta:
        shortfalls.append(
            f"epsilon {at_least(nominal(loss.loss))}, {at_most(left)} is left of {tightest.holder} {at_most(tightest.total.epsilon)}"
        )
        fits.append(("epsilon", left))
    if tightest.spent.delta + loss.delta > tightest.keeps.delta:
        rest = tightest.delta_left
        whole = f"{tightest.holder} {at_most(tightest.total.delta)}"
        share = (
            "" if tightest.keeps.delta == tightest.total.delta else f" ({at_most(tightest.keeps.delta)} of it for this)"
        )
        shortfalls.append(f"delta {at_least(loss.delta)}, {at_most(rest)} is left of {whole}{share}")
        fits.append(("delta", rest))
    refused = error(501, f"this costs {' and '.join(shortfalls)}", hint=_what_fits(fits, tightest, least))
    if isinstance(refused, BudgetError) and [name for name, _ in fits] == ["epsilon"] and left > 0 and left >= least:
        refused.fits = Fraction(at_most(left))
    return refused


def refusal_of_version(price: Fraction, left: Fraction, most: Fraction) -> Error | None:
    """None if a price fits what is left of the most that one version of the data may cost, else error 501 [nats]."""
    if price <= left:
        return None
    what = f"this costs epsilon {at_least(price)}, {at_most(left)} is left of the {at_most(most)} that one version may cost"
    return error(501, what, hint="the owner may raise epsilon in [refresh]")


def _what_fits(fits: Sequence[tuple[str, Fraction]], tightest: Limit, least: Fraction) -> str:
    if all(rest > 0 and (name != "epsilon" or rest >= least) for name, rest in fits):
        return ", ".join(f"{name}={at_most(rest)}" for name, rest in fits) + " would fit"
    if [name for name, _ in fits] == ["delta"] and tightest.spent.delta <= tightest.keeps.delta:
        return "a statement whose delta is 0 would fit"
    return "nothing more fits until the owner raises it"


def of_window(spent: Spent, budget: Budget, now: str) -> Sums:
    """Amounts that count against the totals of a budget."""
    return spent.within(budget.window, now)
