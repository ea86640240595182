"""recount: what the charges add up to, by the name of each amount, compared at every opening with the totals that are kept.

Why not verify()  the chain and each rounding of a sum take 0.4 ms a charge. Here equal charges of a day are counted, and each measure
                  is added up in integers by its denominator: some 15 microseconds a charge that is like no other
Why at least      a kept sum is rounded up where its fraction grew too long, and a clock that went back adds a charge to a later
                  window: so what is kept may be more, and never less. That it is not more than it should be is what verify() sees
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from dpsql.accounting.rows import EVERYBODY
from dpsql.accounting.totals import INFINITE, WINDOWS, Spent, start_of
from dpsql.core.loss import LOSS, Sums

_CHARGES = "SELECT analyst, role, portions, substr(time, 1, 10) FROM charge"

Scope = tuple[str, str]
Written = list[tuple[str, str]]
"""Amounts of a portion, each with its name, as texts."""


class _Sum:
    """Amounts added up: of each name the numerators by their denominator, and whether one of them is infinite."""

    __slots__ = ("charges", "infinite", "parts")

    def __init__(self) -> None:
        self.charges = 0
        self.infinite: set[str] = set()
        self.parts: dict[str, dict[int, int]] = {}

    def add(self, written: Written, count: int) -> None:
        for name, text in written:
            parts = self.parts.setdefault(name, {})
            if text == INFINITE:
                self.infinite.add(name)
                continue
            above, _, below = text.partition("/")
            denominator = int(below or 1)
            parts[denominator] = parts.get(denominator, 0) + count * int(above)

    def join(self, other: _Sum) -> None:
        self.charges += other.charges
        self.infinite |= other.infinite
        for name, parts in other.parts.items():
            own = self.parts.setdefault(name, {})
            for denominator, numerator in parts.items():
                own[denominator] = own.get(denominator, 0) + numerator

    def within(self, kept: Sums) -> bool:
        """True if what is kept is at least this, under the same names."""
        amounts = dict(zip(kept.names, kept.amounts, strict=True))
        return self.parts.keys() <= amounts.keys() and all(self._covered(*each) for each in amounts.items())

    def _covered(self, name: str, kept: Fraction | None) -> bool:
        if kept is None or name in self.infinite:
            return kept is None
        return sum((Fraction(n, d) for d, n in self.parts.get(name, {}).items()), Fraction(0)) <= kept


def agrees(connection: sqlite3.Connection, kept: Mapping[Scope, Spent]) -> bool:
    """True if the totals are those of exactly these scopes, each of as many charges, and at least what the charges add up to."""
    try:
        found = _by_day(connection)
    except (ValueError, TypeError, LookupError, RecursionError, ZeroDivisionError):
        return False
    return found.keys() == kept.keys() and all(_covers(kept[scope], days) for scope, days in found.items())


def _by_day(connection: sqlite3.Connection) -> dict[Scope, dict[str, _Sum]]:
    found: dict[Scope, dict[str, _Sum]] = defaultdict(lambda: defaultdict(_Sum))
    for (analyst, role, text, day), count in Counter(connection.execute(_CHARGES)).items():
        portions = [_portion(*parts) for parts in json.loads(text)]
        for scope, losses in _scopes(analyst, role, portions):
            days = found[scope][day]
            days.charges += count
            for written in losses:
                days.add(written, count)
    return found


def _portion(
    texts: list[str], entries: list[str] | None, more: Mapping[str, str] | None = None
) -> tuple[Written, list[str] | None]:
    return [*zip(LOSS, texts, strict=True), *(more or {}).items()], entries


def _scopes(
    analyst: str, role: str | None, portions: list[tuple[Written, list[str] | None]]
) -> Iterator[tuple[Scope, list[Written]]]:
    """Amounts that a charge adds to each total, as rows.scopes has it."""
    whole = [written for written, _ in portions]
    yield ("dataset", EVERYBODY), [written for written, entries in portions if entries is None]
    for name in {name for _, entries in portions for name in entries or ()}:
        yield ("entry", name), [written for written, entries in portions if entries is not None and name in entries]
    yield ("analyst", analyst), whole
    if role is not None:
        yield ("role", role), whole


def _covers(kept: Spent, days: Mapping[str, _Sum]) -> bool:
    ever = _joined(days.values())
    if ever.charges != kept.charges or not ever.within(kept.ever):
        return False
    for name, window in zip(WINDOWS, kept.windows, strict=True):
        starts = {day: start_of(name, day) for day in days}
        newest = max(starts.values())
        present = _joined(each for day, each in days.items() if starts[day] == newest)
        if window.start != newest or not present.within(window.spent):
            return False
    return True


def _joined(sums: Iterable[_Sum]) -> _Sum:
    whole = _Sum()
    for each in sums:
        whole.join(each)
    return whole
