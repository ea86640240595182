"""The totals of what was spent, as one transaction sees them and writes them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

from dpsql.accountants.filters import Promise
from dpsql.accounting import budget as budgets
from dpsql.accounting import chain, rows
from dpsql.accounting.problems import shown
from dpsql.accounting.rows import EVERYBODY, Charged
from dpsql.accounting.store import Store, clean
from dpsql.accounting.totals import Spent, combined, largest, spent_of
from dpsql.core.errors import Error, error
from dpsql.core.loss import Sums, added, total, whole
from dpsql.mechanisms.prices import nominal
from dpsql.plan.charges import Budget, ChargeRequest

_TOTAL = "SELECT charges, spent, seal FROM total WHERE scope = ? AND name = ?"
_ENTRIES = "SELECT name, charges, spent, seal FROM total WHERE scope = 'entry'"
_TOTALS = "SELECT scope, name, charges, spent, seal FROM total"
_KEEP = """INSERT INTO total VALUES (?, ?, ?, ?, ?)
ON CONFLICT (scope, name) DO UPDATE SET charges = excluded.charges, spent = excluded.spent, seal = excluded.seal"""
_READ = "SELECT promise FROM meta"
_NAME = "UPDATE meta SET promise = ?"
_CHARGED = "SELECT 1 FROM charge"
_OF_VERSION = "SELECT portions FROM charge WHERE analyst = ? AND version = ?"


class Books:
    """The totals as one transaction sees them, and writes them.

    promise  what the ledger adds up
    instead  totals that stand for those of the ledger: what another promise would say of its charges
    """

    def __init__(
        self,
        store: Store,
        connection: sqlite3.Connection,
        now: str,
        promise: Promise,
        instead: Mapping[tuple[str, str], Spent] | None = None,
    ) -> None:
        self._store, self._connection, self._now, self._instead = store, connection, now, instead
        self.promise, self._nothing = promise, Spent.nothing(promise.nothing)
        self._known: dict[tuple[str, str], Spent] = {}
        """Totals that were read, and written: nobody else writes while this transaction does."""

    @property
    def is_report(self) -> bool:
        return self._instead is not None

    def spent(self, scope: str, name: str) -> Spent:
        if self._instead is not None:
            return self._instead.get((scope, name), self._nothing)
        found = self._known.get((scope, name))
        if found is None:
            row = self._connection.execute(_TOTAL, (scope, name)).fetchone()
            found = self._known[scope, name] = self._nothing if row is None else self._read(scope, name, row)
        return found

    def all(self) -> dict[tuple[str, str], Spent]:
        """Every total, by its scope and name."""
        found = self._connection.execute(_TOTALS)
        return {(scope, name): self._read(scope, name, rest) for scope, name, *rest in found}

    def _read(self, scope: str, name: str, row: Sequence[object]) -> Spent:
        """Raises 705 where a total is not what was sealed, or adds up something else than was promised."""
        charges, text, seal = row
        found = spent_of(text)
        secret = self._store.secret
        if found is None or found.ever.names != self._nothing.ever.names:
            raise self._store.damaged()
        if found.charges != charges or seal != chain.sealed(secret, scope, name, str(text)):
            raise self._store.damaged()
        return found

    def add(self, scope: str, name: str, charged: Sums) -> None:
        after = self.spent(scope, name).plus(charged, self._now)
        text = after.text
        seal = chain.sealed(self._store.secret, scope, name, text)
        self._connection.execute(_KEEP, (scope, name, after.charges, text, seal))
        self._known[scope, name] = after

    def groups(self, asked: Collection[str] = ()) -> list[tuple[str | None, Spent]]:
        """Amounts spent on units with each value of the partition column that was ever charged alone or is in `asked`;
        and, as None, on all the others.

        Why  an entry names its column and the list of values. Where there are several, a unit has a value in each: beside those of
             one, the largest amounts of the others are added
        """
        everybody = self.spent("dataset", EVERYBODY)
        columns: dict[str, dict[str, Spent]] = {_column(name): {} for name in sorted(asked)}
        for name, spent in self._entries():
            columns.setdefault(_column(name), {})[name] = spent
        found: list[tuple[str | None, Spent]] = [] if columns else [(None, everybody)]
        for column, own in columns.items():
            base = everybody
            for other in (other for name, other in columns.items() if name != column and other):
                base = combined(base, largest(list(other.values()), self._now), self._now)
            found.append((None, base))
            wanted = dict.fromkeys(name for name in sorted(asked) if _column(name) == column)
            found += [(name, combined(base, own.get(name, self._nothing), self._now)) for name in {**own, **wanted}]
        return found

    def _entries(self) -> Iterator[tuple[str, Spent]]:
        if self._instead is not None:
            return ((name, spent) for (scope, name), spent in self._instead.items() if scope == "entry")
        return ((name, self._read("entry", name, rest)) for name, *rest in self._connection.execute(_ENTRIES))

    def most(self) -> Sums:
        """Amounts spent on the units that most was charged to, measure by measure."""
        return largest([spent for _, spent in self.groups()], self._now).ever

    def refusal_of_version(self, request: ChargeRequest, most: Fraction | None) -> Error | None:
        """None if what is asked fits what its analyst may spend in its version of the data, else error 501.

        Why  the charges of all processes are read in the transaction that writes this one: two at once have one total
        """
        if most is None:
            return None
        whose = (clean(request.analyst), clean(request.data_version))
        found = [rows.portions(text) for (text,) in self._connection.execute(_OF_VERSION, whose)]
        if None in found:
            raise self._store.damaged()
        paid = (nominal(total(portion.loss for portion in bought or ())) for bought in found)
        return budgets.refusal_of_version(nominal(request.loss), most - sum(paid, Fraction(0)), most)

    def fitting(
        self, request: ChargeRequest, portions: Sequence[Charged], allowed: Budget
    ) -> tuple[budgets.Limit, ...]:
        """Every total that applies to a request. Raises 501 where it does not fit one of them."""
        limits = self.limits(allowed, clean(request.analyst), portions)
        refused = budgets.refusal(limits, allowed.least) or self.refusal_of_version(request, allowed.a_version)
        if refused is not None:
            raise refused
        return limits

    def limits(self, allowed: Budget, analyst: str, portions: Sequence[Charged] = ()) -> tuple[budgets.Limit, ...]:
        """Every total that applies to what an analyst asks.

        Why  units with different values of the partition column are different units, and a release that selects some of the
             values is the same for two databases that differ in a unit with another one. So each value has a sum of its own, and
             the loss of a unit is that of its value (parallel composition). What is charged to everybody is in every sum
        """
        kept = budgets.kept_for_others(
            allowed,
            analyst,
            self.promise,
            lambda name: budgets.of_window(self.spent("analyst", clean(name)), allowed, self._now),
        )
        found = []
        for name, spent in self.groups({name for portion in portions for name in portion.entries or ()}):
            on_them = whole((p.sums for p in portions if p.entries is None or name in p.entries), self.promise.nothing)
            charged = budgets.of_window(spent, allowed, self._now)
            scope, keeps = (
                ("dataset", EVERYBODY) if name is None else ("entry", name),
                self.promise.keeps(allowed.total),
            )
            holder, spent_of_it = budgets.dataset(allowed), added(charged, kept)
            found.append(budgets.Limit(holder, allowed.total, keeps, spent_of_it, on_them, charged, scope))
        everything = whole((p.sums for p in portions), self.promise.nothing)
        for cap in allowed.caps:
            spent_by = budgets.of_window(self.spent(cap.scope, clean(cap.name)), allowed, self._now)
            holder, keeps = budgets.capped(cap.scope, cap.name, allowed), self.promise.caps(cap.total)
            scope = (cap.scope, cap.name)
            found.append(budgets.Limit(holder, cap.total, keeps, spent_by, everything, spent_by, scope))
        return tuple(found)


# --- the promise: the accountants that a ledger names with its first charge, and for good (accountants/filters.py says why) -----


def promised(connection: sqlite3.Connection, store: Store) -> Promise | None:
    """The promise of a ledger; None before its first charge, or the first since an earlier layout. Raises 705 where it was edited."""
    (text,) = connection.execute(_READ).fetchone()
    found = _read(str(text), store.secret) if text else None
    if text and found is None:
        raise store.damaged()
    return found


def promise_for_good(connection: sqlite3.Connection, store: Store, promise: Promise) -> None:
    """Name it, in the transaction of a first charge; what is named stays."""
    if promised(connection, store) is not None:
        return
    words = json.dumps([promise.accounting, promise.more])
    connection.execute(_NAME, (json.dumps([words, _seal(words, store.secret)]),))


def promise_of(connection: sqlite3.Connection, store: Store, budget: Budget) -> Promise | Error:
    """The promise that a charge under this budget is counted by; error 504 where the ledger counts otherwise.

    Why  charges from before the promise was named are there in the measures of a loss alone: what adds up something else would miss
         them
    """
    found = promised(connection, store)
    if found is None:
        found = Promise.under(budget.total, budget.accounting)
        if found.more and connection.execute(_CHARGED).fetchone() is not None:
            return _unnamed(store.path, budget.accounting)
    if found.accounting != budget.accounting:
        return _other(store.path, found.accounting, budget.accounting)
    return found


def _other(path: str, kept: str, wanted: str) -> Error:
    """Error 504: the schema names another accounting than the ledger did."""
    return error(
        504,
        f"the ledger {shown(path)} keeps its promise by {kept} accounting, and the schema names {wanted}",
        hint=f'write accounting = "{kept}"; `dpsql budget` reports what {wanted} says of the charges so far; {_ANEW}',
    )


def _unnamed(path: str, wanted: str) -> Error:
    """Error 504: charges of an earlier layout were never added up by this accounting."""
    return error(
        504,
        f"the ledger {shown(path)} has charges from before {wanted} accounting, which cannot go on with them",
        hint=f'write accounting = "auto"; `dpsql budget` reports what {wanted} says of the charges so far; {_ANEW}',
    )


_ANEW = (
    "to begin with nothing spent, which adds to what was spent here, run `dpsql check SCHEMA --ledger NEW --new-ledger`"
)


@lru_cache(maxsize=16)
def _read(text: str, secret: bytes) -> Promise | None:
    try:
        words, seal = json.loads(text)
        accounting, more = json.loads(words)
        return Promise(str(accounting), tuple(map(str, more))) if seal == _seal(words, secret) else None
    except (ValueError, TypeError, RecursionError):
        return None


def _seal(words: str, secret: bytes) -> str:
    return chain.sealed(secret, "promise", words).hex()


def _column(entry: str) -> str:
    """The partition that an entry belongs to."""
    found = rows.read(entry)
    return str(found[0]) if isinstance(found, list) and found else entry
