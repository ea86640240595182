"""Running totals: what one scope spent, ever and in the present day, week and month, as the ledger keeps it.

A *scope* is the dataset, one value of the partition column, an analyst or a role. Windows begin at midnight UTC, on Monday for a week.
A clock that goes back opens no new window: the later one stays.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from functools import lru_cache

from dpsql.accounting.amounts import from_text, to_text
from dpsql.accounting.filters import added
from dpsql.core.loss import NO_LOSS, PrivacyLoss

WINDOWS = ("day", "week", "month")
INFINITE = "inf"


@dataclass(frozen=True, slots=True)
class Window:
    """What was spent in the window that begins at `start` (ISO 8601 date)."""

    start: str
    spent: PrivacyLoss


@dataclass(frozen=True, slots=True)
class Spent:
    """What one scope spent. charges counts those that named it."""

    charges: int
    ever: PrivacyLoss
    windows: tuple[Window, ...]

    def within(self, window: str | None, now: str) -> PrivacyLoss:
        """What counts against a total: everything, or that of the present window."""
        if window is None:
            return self.ever
        kept = self.windows[WINDOWS.index(window)]
        return kept.spent if kept.start >= start_of(window, now) else NO_LOSS

    def plus(self, loss: PrivacyLoss, now: str) -> Spent:
        """The same after one more charge."""
        sums = {self.ever: added(self.ever, loss)}  # most windows hold the same
        windows = []
        for name, kept in zip(WINDOWS, self.windows, strict=True):
            start = start_of(name, now)
            before = kept.spent if kept.start >= start else NO_LOSS
            after = sums[before] if before in sums else sums.setdefault(before, added(before, loss))
            windows.append(Window(max(kept.start, start), after))
        return Spent(self.charges + 1, sums[self.ever], tuple(windows))

    @property
    def text(self) -> str:
        """As the ledger keeps it."""
        windows = [[window.start, loss_texts(window.spent)] for window in self.windows]
        return json.dumps([self.charges, loss_texts(self.ever), windows], separators=(",", ":"))


NOTHING = Spent(0, NO_LOSS, tuple(Window("", NO_LOSS) for _ in WINDOWS))


def spent_of(text: object) -> Spent | None:
    """What was kept; None if the text is anything else."""
    return _spent_of(text) if isinstance(text, str) else None


@lru_cache(maxsize=256)
def _spent_of(text: str) -> Spent | None:
    try:
        charges, ever, windows = json.loads(text)
        found = tuple(Window(str(start), _loss(texts)) for start, texts in windows)
        if type(charges) is not int or charges < 0 or len(found) != len(WINDOWS):
            return None
        return Spent(charges, _loss(ever), found)
    except (ValueError, TypeError, RecursionError):
        return None


def loss_texts(loss: PrivacyLoss) -> list[str]:
    """A loss as exact texts."""
    measures = (loss.epsilon, loss.delta, loss.squares, loss.rho, loss.mu_squared)
    return [INFINITE if measure is None else to_text(measure) for measure in measures]


def loss_of(texts: object) -> PrivacyLoss | None:
    """The loss that `loss_texts` wrote; None if this is anything else."""
    try:
        return _loss(texts)
    except (ValueError, TypeError):
        return None


def _loss(texts: object) -> PrivacyLoss:
    if not isinstance(texts, list) or len(texts) != 5:
        raise ValueError
    epsilon, delta, squares, rho, mu_squared = texts
    return PrivacyLoss(_open(epsilon), _amount(delta), _open(squares), _amount(rho), _amount(mu_squared))


def _open(text: object) -> Fraction | None:
    return None if text == INFINITE else _amount(text)


def _amount(text: object) -> Fraction:
    amount = from_text(text)
    if amount is None:
        raise ValueError
    return amount


def start_of(window: str, now: str) -> str:
    """The day on which the window of a moment (ISO 8601, UTC) begins.

    >>> start_of("week", "2026-11-21T12:00:00.000+00:00"), start_of("month", "2026-11-21T12:00:00.000+00:00")
    ('2026-11-16', '2026-11-01')
    """
    return _start_of(window, now[:10])


@lru_cache(maxsize=64)
def _start_of(window: str, day: str) -> str:
    found = date.fromisoformat(day)
    if window == "week":
        return (found - timedelta(days=found.weekday())).isoformat()
    return (found.replace(day=1) if window == "month" else found).isoformat()


def combined(one: Spent, other: Spent, now: str) -> Spent:
    """What was spent on those whom both are about."""
    windows = tuple(
        Window(start_of(name, now), added(one.within(name, now), other.within(name, now))) for name in WINDOWS
    )
    return replace(one, ever=added(one.ever, other.ever), windows=windows)


def largest(several: Sequence[Spent], now: str) -> Spent:
    """The largest amounts of several scopes, measure by measure."""
    windows = tuple(
        Window(start_of(name, now), _largest([spent.within(name, now) for spent in several])) for name in WINDOWS
    )
    return Spent(max(spent.charges for spent in several), _largest([spent.ever for spent in several]), windows)


def _largest(losses: Sequence[PrivacyLoss]) -> PrivacyLoss:
    open_ended = any(loss.epsilon is None for loss in losses)
    return PrivacyLoss(
        None if open_ended else max(loss.epsilon or Fraction(0) for loss in losses),
        max(loss.delta for loss in losses),
        None if open_ended else max(loss.squares or Fraction(0) for loss in losses),
        max(loss.rho for loss in losses),
        max(loss.mu_squared for loss in losses),
    )
