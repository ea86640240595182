"""The ledger: what was spent, decided and written in one durable transaction."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dpsql.accounting import amounts, layout
from dpsql.accounting import budget as budgets
from dpsql.accounting.store import Store, clean
from dpsql.errors import error
from dpsql.loss import NO_LOSS, PrivacyLoss
from dpsql.plan import Budget, ChargeRequest, Receipt

_CHARGE = """INSERT INTO charge (time, analyst, version, statement, fingerprints, mechanisms, epsilon, delta)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_TOTAL = """INSERT INTO total VALUES (?, ?, 1, ?, ?)
ON CONFLICT (scope, name) DO UPDATE SET charges = charges + 1, epsilon = excluded.epsilon, delta = excluded.delta"""
_TOTALS = """SELECT scope, charges, epsilon, delta FROM total
WHERE (scope = 'dataset' AND name = '') OR (scope = 'analyst' AND name = ?)"""
_HISTORY = "SELECT id, time, analyst, epsilon, delta, statement FROM charge"


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge, as the owner reads it.

    time     UTC, ISO 8601
    epsilon  [nats]
    delta    [probability]
    """

    id: int
    time: str
    analyst: str
    epsilon: Fraction
    delta: Fraction
    statement: str


@dataclass(frozen=True, slots=True)
class _Totals:
    """The running totals that one charge adds to. charges counts all charges of the dataset."""

    charges: int
    dataset: PrivacyLoss
    analyst: PrivacyLoss


class Ledger:
    """What was spent on one dataset, in a file that several threads and processes share.

    A charge is decided on exact fractions, written and made durable in one transaction, and never given back.

    Errors  704 the file cannot be reached, read or written; 705 it is damaged, removed or another dataset's; 802 it is
            closed
    Source  Rogers et al. 2016, Privacy Odometers and Filters, section 3 (losses may be chosen adaptively)

    >>> ledger = Ledger.open(":memory:", "example")
    >>> ledger.spent()
    PrivacyLoss(epsilon=Fraction(0, 1), delta=Fraction(0, 1))
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    @staticmethod
    def open(path: str | Path, identity: str) -> Ledger:
        """Open the ledger of the dataset that `identity` names, or make it; ":memory:" ends with the process."""
        return Ledger(Store.open(path, identity))

    @property
    def secret(self) -> bytes:
        """32 random bytes, made with the ledger: the key of content hashes and of contribution cuts."""
        return self.store.secret

    def charge(self, request: ChargeRequest, budget: Budget) -> Receipt:
        """Charge one statement, or refuse it and change nothing.

        Errors  501 it does not fit; 901 it costs nothing, so it must not come here
        """
        if request.loss == NO_LOSS:
            raise error(901, "a charge of nothing reached the ledger")
        return self.store.write(lambda connection: self._charge(connection, request, budget))

    def remaining(self, budget: Budget, analyst: str) -> PrivacyLoss:
        """What this analyst may still spend: the smaller rest of the total and of their cap, never below 0."""
        totals = self.store.read(lambda connection: self._totals(connection, clean(analyst)))
        return budgets.remaining(_limits(budget, clean(analyst), totals))

    def spent(self, analyst: str | None = None) -> PrivacyLoss:
        """What was charged to one analyst, or to all together."""
        totals = self.store.read(lambda connection: self._totals(connection, clean(analyst or "")))
        return totals.dataset if analyst is None else totals.analyst

    def history(self, analyst: str | None = None) -> list[Entry]:
        """Every charge, or every charge of one analyst, oldest first."""
        where, values = ("", ()) if analyst is None else (" WHERE analyst = ?", (clean(analyst),))
        rows = self.store.read(
            lambda connection: connection.execute(f"{_HISTORY}{where} ORDER BY id", values).fetchall()
        )
        return [
            Entry(number, time, who, self._amount(epsilon), self._amount(delta), statement)
            for number, time, who, epsilon, delta, statement in rows
        ]

    def close(self) -> None:
        """Close the file; what was charged stays charged."""
        self.store.close()

    def _charge(self, connection: sqlite3.Connection, request: ChargeRequest, allowed: Budget) -> Receipt:
        analyst = clean(request.analyst)
        before = self._totals(connection, analyst)
        refused = budgets.refusal(request.loss, _limits(allowed, analyst, before))
        if refused is not None:
            raise refused
        after = _Totals(before.charges + 1, _sum(before.dataset, request.loss), _sum(before.analyst, request.loss))
        self._append(connection, request, after.charges)
        connection.execute(_TOTAL, ("dataset", "", *_texts(after.dataset)))
        connection.execute(_TOTAL, ("analyst", analyst, *_texts(after.analyst)))
        return Receipt(after.charges, request.loss, budgets.remaining(_limits(allowed, analyst, after)))

    def _append(self, connection: sqlite3.Connection, request: ChargeRequest, expected: int) -> None:
        words = map(clean, (request.analyst, request.data_version, request.statement))
        lists = (json.dumps(request.fingerprints), json.dumps(request.mechanisms))
        row = (layout.now(), *words, *lists, *_texts(_sum(NO_LOSS, request.loss)))
        if connection.execute(_CHARGE, row).lastrowid != expected:
            raise self.store.damaged()

    def _totals(self, connection: sqlite3.Connection, analyst: str) -> _Totals:
        rows = connection.execute(_TOTALS, (analyst,)).fetchall()
        found = {scope: self._loss(epsilon, delta) for scope, _, epsilon, delta in rows}
        charges = next((charges for scope, charges, _, _ in rows if scope == "dataset"), None)
        if not isinstance(charges, int):
            raise self.store.damaged()
        return _Totals(charges, found["dataset"], found.get("analyst", NO_LOSS))

    def _loss(self, epsilon: object, delta: object) -> PrivacyLoss:
        if self._amount(delta) >= 1:
            raise self.store.damaged()
        return PrivacyLoss(self._amount(epsilon), self._amount(delta))

    def _amount(self, text: object) -> Fraction:
        amount = amounts.from_text(text)
        if amount is None:
            raise self.store.damaged()
        return amount


def _limits(allowed: Budget, analyst: str, totals: _Totals) -> tuple[budgets.Limit, ...]:
    return budgets.limits(allowed, analyst, totals.dataset, totals.analyst)


def _sum(spent: PrivacyLoss, loss: PrivacyLoss) -> PrivacyLoss:
    return PrivacyLoss(amounts.bounded(spent.epsilon + loss.epsilon), amounts.bounded(spent.delta + loss.delta))


def _texts(loss: PrivacyLoss) -> tuple[str, str]:
    return amounts.to_text(loss.epsilon), amounts.to_text(loss.delta)
