"""The totals of what was spent, as one transaction sees them and writes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import replace

from dpsql.accounting import budget as budgets
from dpsql.accounting import chain, rows
from dpsql.accounting.filters import added
from dpsql.accounting.rows import EVERYBODY
from dpsql.accounting.store import Store, clean
from dpsql.accounting.totals import NOTHING, Spent, combined, largest, spent_of
from dpsql.core.loss import PrivacyLoss, total
from dpsql.plan.charges import Budget, Portion

_TOTAL = "SELECT charges, spent, seal FROM total WHERE scope = ? AND name = ?"
_ENTRIES = "SELECT name, charges, spent, seal FROM total WHERE scope = 'entry'"
_TOTALS = "SELECT scope, name, charges, spent, seal FROM total"
_KEEP = """INSERT INTO total VALUES (?, ?, ?, ?, ?)
ON CONFLICT (scope, name) DO UPDATE SET charges = excluded.charges, spent = excluded.spent, seal = excluded.seal"""


class Books:
    """The totals as one transaction sees them, and writes them."""

    def __init__(self, store: Store, connection: sqlite3.Connection, now: str) -> None:
        self._store, self._connection, self._now = store, connection, now

    def spent(self, scope: str, name: str) -> Spent:
        row = self._connection.execute(_TOTAL, (scope, name)).fetchone()
        return NOTHING if row is None else self._read(scope, name, row)

    def all(self) -> dict[tuple[str, str], Spent]:
        """Every total, by its scope and name."""
        found = self._connection.execute(_TOTALS)
        return {(scope, name): self._read(scope, name, rest) for scope, name, *rest in found}

    def _read(self, scope: str, name: str, row: Sequence[object]) -> Spent:
        """Raises 705 where a total is not what was sealed."""
        charges, text, seal = row
        found = spent_of(text)
        secret = self._store.secret
        if found is None or found.charges != charges or seal != chain.sealed(secret, scope, name, str(text)):
            raise self._store.damaged()
        return found

    def add(self, scope: str, name: str, loss: PrivacyLoss) -> None:
        after = self.spent(scope, name).plus(loss, self._now)
        seal = chain.sealed(self._store.secret, scope, name, after.text)
        self._connection.execute(_KEEP, (scope, name, after.charges, after.text, seal))

    def groups(self, asked: Collection[str] = ()) -> list[tuple[str | None, Spent]]:
        """What was spent on units with each value of the partition column that was ever charged alone or is in `asked`; and, as
        None, on all the others.

        Why  an entry names its column and the list of values. Where there are several, a unit has a value in each: beside those of
             one, the largest amounts of the others are added
        """
        everybody = self.spent("dataset", EVERYBODY)
        columns: dict[str, dict[str, Spent]] = {_column(name): {} for name in sorted(asked)}
        for name, *rest in self._connection.execute(_ENTRIES):
            columns.setdefault(_column(name), {})[name] = self._read("entry", name, rest)
        found: list[tuple[str | None, Spent]] = [] if columns else [(None, everybody)]
        for column, own in columns.items():
            base = everybody
            for other in (other for name, other in columns.items() if name != column and other):
                base = combined(base, largest(list(other.values()), self._now), self._now)
            found.append((None, base))
            wanted = dict.fromkeys(name for name in sorted(asked) if _column(name) == column)
            found += [(name, combined(base, own.get(name, NOTHING), self._now)) for name in {**own, **wanted}]
        return found

    def most(self) -> PrivacyLoss:
        """What was spent on those whom most was charged to, measure by measure."""
        return largest([spent for _, spent in self.groups()], self._now).ever

    def limits(self, allowed: Budget, analyst: str, portions: Sequence[Portion] = ()) -> tuple[budgets.Limit, ...]:
        """Every total that applies to what an analyst asks.

        Why  units with different values of the partition column are different units, and a release that selects some of the
             values is the same for two databases that differ in a unit with another one. So each value has a sum of its own, and
             the loss of a unit is that of its value (parallel composition). What is charged to everybody is in every sum
        """
        kept = budgets.kept_for_others(
            allowed, analyst, lambda name: budgets.of_window(self.spent("analyst", clean(name)), allowed, self._now)
        )
        found = []
        for name, spent in self.groups({name for portion in portions for name in portion.entries or ()}):
            on_them = total(p.loss for p in portions if p.entries is None or name in p.entries)
            charged = budgets.of_window(spent, allowed, self._now)
            one = budgets.limit(budgets.dataset(allowed), allowed.total, allowed, added(charged, kept), on_them)
            scope = ("dataset", EVERYBODY) if name is None else ("entry", name)
            found.append(replace(one, scope=scope, charged=charged))
        whole = total(portion.loss for portion in portions)
        for cap in allowed.caps:
            spent_by = budgets.of_window(self.spent(cap.scope, clean(cap.name)), allowed, self._now)
            holder = budgets.capped(cap.scope, cap.name, allowed)
            one = budgets.limit(holder, cap.total, allowed, spent_by, whole)
            found.append(replace(one, scope=(cap.scope, cap.name), charged=spent_by))
        return tuple(found)


def _column(entry: str) -> str:
    """The partition that an entry belongs to."""
    found = rows.read(entry)
    return str(found[0]) if isinstance(found, list) and found else entry
