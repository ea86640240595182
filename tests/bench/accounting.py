"""Statements that each accountant admits under one total, and the time of joining accountants; then ledgers and a dashboard."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from dpsql.accountants.filters import Account, Filter, Promise
from dpsql.accounting.budget import Limit
from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.mechanisms.conversions import gaussian, pure, rho_at_most
from tests.bench import dashboard, ledgers
from tests.bench.timing import heading, show
from tests.support.accounts import sums

EPSILON = Fraction(1)
DELTAS = (Fraction(1, 10**6), Fraction(1, 10**9))
PRICES = (Fraction(1, 10), Fraction(1, 20), Fraction(1, 100))
NAMES = ("advanced", "zcdp", "gdp", "rdp")
"""The accountants that need a delta, as the schema names them."""
NOISES: tuple[tuple[str, Callable[[Fraction], PrivacyLoss]], ...] = (
    ("Laplace", pure),
    ("Gaussian of that price", lambda price: gaussian(rho_at_most(price), Fraction(0))),
    ("Gaussian of Laplace's variance", lambda price: gaussian(price**2 / 4, Fraction(0))),
)


def measure() -> None:
    """Print all of it."""
    _admitted()
    ledgers.measure()
    dashboard.measure()


def _admitted() -> None:
    """The table. Every number is what dpsql's own filters admit, but those of PLD."""
    heading(f"statements of one price within epsilon {EPSILON}")
    print(
        "all: an accountant alone, with all of delta; share: with the delta that it has in dpsql; union: accounting = auto"
    )
    print("over best: what the union admits less than the best of the accountants that had all of delta")
    static = _static()
    body = []
    for name, loss_of in NOISES:
        for delta in DELTAS:
            for price in PRICES:
                total = EpsilonDelta(EPSILON, delta)
                about = (name, f"{float(delta):g}", f"{float(price):g}")
                body.append((*about, *_line(total, loss_of(price)), static(name, price, delta), ""))
    shares = tuple(f"{name} share" for name in NAMES)
    columns = ("pure", *(f"{name} all" for name in NAMES), *shares, "union", "over best", "PLD, static")
    show(("noise", "delta", "price", *columns, ""), body)
    print("PLD, static: dp_accounting; not valid where prices are chosen after seeing answers, as in a session")
    if static is _nothing:
        print("(dp_accounting is not importable here: no such column)")


def _line(total: EpsilonDelta, one: PrivacyLoss) -> tuple[str, ...]:
    auto = Promise.under(total, "auto")
    by_name = {account.accountant: account for account in auto.keeps(total).accounts}
    everything = {name: _count(total, *_alone(total, name), one) for name in NAMES}
    shares = [
        _count(total, auto, (by_name[name],), one) if name in by_name else _count(total, *_only(total, name), one)
        for name in NAMES
    ]
    unjoined = _count(total, auto, (by_name["pure"],), one)
    union = _count(total, auto, auto.keeps(total).accounts, one)
    best = max(unjoined, *everything.values())
    cost = f"{100 * (1 - union / best):.1f} %" if best else ""
    return (_shown(unjoined), *map(_shown, everything.values()), *map(_shown, shares), _shown(union), cost)


Counted = tuple[Promise, tuple[Account, ...]]


def _alone(total: EpsilonDelta, name: str) -> Counted:
    """One accountant with all of delta: half of it is kept for what fails with a probability, so it is given twice as much."""
    return _only(EpsilonDelta(total.epsilon, 2 * total.delta), name)


def _only(total: EpsilonDelta, name: str) -> Counted:
    """An accountant that "auto" does not join, as it is where the owner asks for it by name."""
    promise = Promise.under(total, name)
    return promise, promise.keeps(total).accounts


def _count(total: EpsilonDelta, promise: Promise, accounts: tuple[Account, ...], one: PrivacyLoss) -> int:
    none = promise.nothing
    return Limit("", total, Filter(accounts, total.delta), none, none, none).count_left(sums(one, promise))


def _shown(count: int) -> str:
    return f"{count:,}" if count else "-"


def _static() -> Callable[[str, Fraction, Fraction], str]:
    """The column of dp_accounting's privacy loss distributions."""
    try:
        import dp_accounting
        from dp_accounting.pld import PLDAccountant
    except ImportError:
        return _nothing

    def epsilon(event: object, delta: Fraction, count: int) -> float:
        accountant = PLDAccountant()
        accountant.compose(dp_accounting.SelfComposedDpEvent(event, count))
        return float(accountant.get_epsilon(float(delta)))

    def column(name: str, price: Fraction, delta: Fraction) -> str:
        rho = dict(NOISES)[name](price).rho
        laplace = dp_accounting.LaplaceDpEvent(1 / float(price))
        event = laplace if name == "Laplace" else dp_accounting.GaussianDpEvent((2 * float(rho)) ** -0.5)
        return f"{_most(partial(epsilon, event, delta)):,}"

    return column


def _nothing(name: str, price: Fraction, delta: Fraction) -> str:
    return ""


def _most(epsilon: Callable[[int], float]) -> int:
    """The largest count whose epsilon is within the total; its last digits of rounding are let pass."""
    within, beyond = 0, 1
    while epsilon(beyond) <= EPSILON * (1 + 1e-9):
        within, beyond = beyond, 2 * beyond
    while beyond - within > 1:
        middle = (within + beyond) // 2
        within, beyond = (middle, beyond) if epsilon(middle) <= EPSILON * (1 + 1e-9) else (within, middle)
    return within
