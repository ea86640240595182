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
from functools import lru_cache, reduce

from dpsql.accounting.amounts import from_text, to_text
from dpsql.core.loss import LOSS, Amount, Sums, added

WINDOWS = ("day", "week", "month")
INFINITE = "inf"


@dataclass(frozen=True, slots=True)
class Window:
    """Amounts spent in the window that begins at `start` (ISO 8601 date)."""

    start: str
    spent: Sums


@dataclass(frozen=True, slots=True)
class Spent:
    """Amounts that one scope spent. charges counts those that named it."""

    charges: int
    ever: Sums
    windows: tuple[Window, ...]

    @staticmethod
    def nothing(nothing: Sums) -> Spent:
        """Of no charge, in a ledger that adds up the same as these sums."""
        return Spent(0, nothing, (Window("", nothing),) * len(WINDOWS))

    def within(self, window: str | None, now: str) -> Sums:
        """Amounts that count against a total: everything, or that of the present window."""
        if window is None:
            return self.ever
        kept = self.windows[WINDOWS.index(window)]
        return kept.spent if kept.start >= start_of(window, now) else self._none

    @property
    def _none(self) -> Sums:
        return Sums.nothing(self.ever.names[len(LOSS) :])

    def plus(self, charged: Sums, now: str) -> Spent:
        """The same after one more charge."""
        known = [(self.ever, added(self.ever, charged))]  # most windows hold the same
        windows = []
        for name, kept in zip(WINDOWS, self.windows, strict=True):
            start = start_of(name, now)
            before = kept.spent if kept.start >= start else self._none
            after = next((found for sums, found in known if sums == before), None)
            if after is None:
                after = added(before, charged)
                known.append((before, after))
            windows.append(Window(max(kept.start, start), after))
        return Spent(self.charges + 1, known[0][1], tuple(windows))

    @property
    def text(self) -> str:
        """As the ledger keeps it: names once, then their amounts."""
        windows = [[window.start, texts(window.spent)] for window in self.windows]
        return json.dumps([self.charges, self.ever.names, texts(self.ever), windows], separators=(",", ":"))


def spent_of(text: object) -> Spent | None:
    """Read an amount that was kept; None if the text is anything else."""
    return _spent_of(text) if isinstance(text, str) else None


@lru_cache(maxsize=256)
def _spent_of(text: str) -> Spent | None:
    try:
        charges, names, ever, windows = json.loads(text)
        found = tuple(Window(str(start), _sums(names, each)) for start, each in windows)
        if type(charges) is not int or charges < 0 or len(found) != len(WINDOWS):
            return None
        return Spent(charges, _sums(names, ever), found)
    except (ValueError, TypeError, RecursionError):
        return None


def texts(sums: Sums) -> list[str]:
    """Amounts as exact texts."""
    return [INFINITE if amount is None else to_text(amount) for amount in sums.amounts]


def sums_of(names: object, found: object) -> Sums | None:
    """The sums of these names that `texts` wrote; None if this is anything else."""
    try:
        return _sums(names, found)
    except (ValueError, TypeError):
        return None


def _sums(names: object, found: object) -> Sums:
    if not isinstance(names, list) or not isinstance(found, list) or not all(isinstance(name, str) for name in names):
        raise ValueError
    sums = Sums(tuple(names), tuple(map(_open, found)))
    if len(set(names)) != len(names) or sums.loss is None:
        raise ValueError
    return sums


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
    """Amounts spent on the units that both are about."""
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


def _largest(several: Sequence[Sums]) -> Sums:
    return reduce(lambda one, other: one.beside(other, _larger), several)


def _larger(one: Amount, other: Amount) -> Amount:
    return None if one is None or other is None else max(one, other)
