"""Price of a statement and remaining budget, in words."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.mechanisms.prices import nominal
from dpsql.plan.charges import Receipt


@dataclass(frozen=True, slots=True)
class StatementPrice:
    """Privacy that one statement cost.

    epsilon, delta    of this statement; 0 where it was free or stored. Gaussian noise has no epsilon without a delta: of it, the
                      epsilon that a pure mechanism of the same rho may have, as it was asked
    remaining         [nats] the largest epsilon that one more statement may cost, of the dataset's total and the analyst's caps
    remaining_delta   [probability] the same for the delta of thresholds
    cached            whether everything came from stored answers
    releases          how many releases were charged
    rho               [zCDP] of this statement
    statements        how many more of the default price fit, where epsilons are added up no more; None where they are
    as_of             when the version was approved that the answer is of, where a table changed since; else ""
    """

    epsilon: Fraction
    delta: Fraction
    remaining: Fraction
    remaining_delta: Fraction
    cached: bool
    releases: int
    rho: Fraction = Fraction(0)
    as_of: str = ""
    statements: int | None = None


def priced(receipt: Receipt, cached: bool, releases: int, as_of: str = "") -> StatementPrice:
    """The price of a statement by its receipt."""
    loss, left = receipt.loss, receipt.remaining
    amounts = (nominal(loss), loss.delta, left.epsilon, left.delta)
    return StatementPrice(*amounts, cached, releases, loss.rho, as_of, receipt.statements)


def number(value: Fraction) -> str:
    """A short decimal of an amount of budget."""
    return f"{float(value):.6g}"


def price(privacy: StatementPrice) -> str:
    """Price of a statement, in words."""
    dated = f"; as of {privacy.as_of}" if privacy.as_of else ""
    if privacy.releases:
        return f"price: {amounts(privacy)}{dated}"
    return f"stored answer, free{dated}" if privacy.cached else "free"


def amounts(privacy: StatementPrice) -> str:
    """Epsilon, and delta where there is any."""
    return f"epsilon {number(privacy.epsilon)}" + (f", delta {number(privacy.delta)}" if privacy.delta else "")


def left(privacy: StatementPrice) -> str:
    """Largest price of one more statement, in words; where epsilons are added up no more, first how many still fit."""
    one = f"epsilon {number(privacy.remaining)}, delta {number(privacy.remaining_delta)}"
    return one if privacy.statements is None else f"{fitting(privacy.statements)} (one may cost {one})"


def fitting(statements: int) -> str:
    """A number of statements of the default price."""
    return f"{statements:,} statement{'s' * (statements != 1)} at the default price"


def budget_left(privacy: StatementPrice, of: str = "") -> str:
    """Rest of the budget, as a short sentence.

    of  the total, in words
    """
    if privacy.statements is None:
        return f"epsilon {number(privacy.remaining)}{of} is left"
    return f"{fitting(privacy.statements)} {'is' if privacy.statements == 1 else 'are'} left"
