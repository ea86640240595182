"""reporting: what the owner reads of the budget, as text and as JSON, and what the declared promise means for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.amounts import at_most, to_text
from dpsql.accounting.charging import budget_of, named
from dpsql.accounting.entries import Entry
from dpsql.accounting.failures import Failure
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.spending import (
    BudgetTotal,
    Row,
    Spender,
    charge_row,
    charges,
    spender_row,
    spenders,
    total_row,
    totals,
)
from dpsql.core.escaping import harmless, harmless_json
from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.core.wording import counted, listed
from dpsql.mechanisms.prices import nominal
from dpsql.schema import spent
from dpsql.schema.advice import guess, of_declarations
from dpsql.schema.mistakes import printable
from dpsql.schema.model import ROW, Privacy, Schema

MOST_CHARGES_SHOWN = 10
LONGEST_STATEMENT = 100
_WORDS = {
    "engine": "the engine did not finish it",
    "crossing": "the engine gave something that is no integer",
    "release": "no noise could be added",
}
_TITLES = {"entry": "by value of the partition", "role": "by role", "reservation": "reserved"}
_OF_A_YEAR = {"day": 365, "week": 52, "month": 12}


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """Spending and remaining budget, as the ledger tells them. str() is the text for the owner.

    totals    the dataset's, of values of the partition, of roles and analysts, reservations: see spending.Total
    spenders  every analyst who is declared or was charged
    charges   all of them, oldest first
    failures  statements that failed and that the owner has not looked at
    kept_by   the accounting that the ledger's promise is kept by, where that is another one than the schema's: then all of this is
              what the schema's would say
    """

    dataset: str
    privacy: Privacy
    totals: tuple[BudgetTotal, ...]
    spenders: tuple[Spender, ...]
    charges: tuple[Entry, ...]
    failures: tuple[Failure, ...] = ()
    kept_by: str | None = None

    def __str__(self) -> str:
        parts = [self._dataset(), *self._others(), self._analysts(), self._latest(), self._failed()]
        return "\n\n".join("\n".join(map(harmless, part)) for part in parts if part)

    @property
    def json(self) -> str:
        """Everything: the rows that SQL shows, each with its amounts as exact text."""
        whole = self.totals[0]
        found = {
            "dataset": self.dataset,
            "accounting": self.privacy.accounting,
            "accountants": list(whole.alive),
            "kept_by": self.kept_by if self.kept_by is not None else self.privacy.accounting,
            "window": self.privacy.window,
            "budget": [_object("budget", total_row(t, self.privacy), _exact_total(t)) for t in self.totals],
            "analysts": [_object("analysts", spender_row(s), named(s.spent)) for s in self.spenders],
            "ledger": [{**_object("ledger", charge_row(e), named(e.loss)), "time": e.time} for e in self.charges],
            "failures": [
                {"charge": f.charge, "analyst": f.analyst, "time": f.time, "kind": f.kind} for f in self.failures
            ],
        }
        return harmless_json(json.dumps(found, indent=2, ensure_ascii=False), kept="\n")

    def _dataset(self) -> list[str]:
        whole, window = self.totals[0], self.privacy.window
        lines = [
            f"{printable(self.dataset)}: budget",
            f"  total      {amounts(whole.total)}" + (f" for each {window}" if window else ""),
            f"  spent      {loss_text(whole.spent.loss)}" + (f" in this {window}" if window else ""),
            f"  remaining  {amounts(whole.remaining)} for one more statement; {_statements(whole, self.privacy)}",
        ]
        kept = ", ".join(whole.alive) if whole.alive else "nobody: nothing more can be answered"
        promise = f"  promise    {self.privacy.accounting} accounting, kept by {kept}"
        if self.kept_by is not None:
            promise = (
                f"  promise    this ledger's is kept by {self.kept_by} accounting, and nothing is answered under another; the above "
                f"is what {self.privacy.accounting} says of the same charges"
            )
        return [*lines, promise, f"  a guess    {guess(self.privacy)}"]

    def _others(self) -> Iterable[list[str]]:
        for scope, title in _TITLES.items():
            found = [each for each in self.totals if each.scope == scope]
            if found:
                yield [title, *(f"  {_line(each)}" for each in found)]

    def _analysts(self) -> list[str]:
        return ["by analyst", *(f"  {_spender(each)}" for each in self.spenders)] if self.spenders else []

    def _failed(self) -> list[str]:
        count = len(self.failures)
        return [f"{_counted_failures(count)}: look at them with `dpsql budget SCHEMA --failures`"] if count else []

    def _latest(self) -> list[str]:
        latest = self.charges[-MOST_CHARGES_SHOWN:]
        title = f"last {len(latest)} of {len(self.charges):,} charges, newest first"
        return [title, *(f"  {_charge(entry)}" for entry in reversed(latest))] if latest else []


def report(schema: Schema, ledger: Ledger) -> BudgetReport:
    """Report what was spent, by whom, and what is left. Reads no data."""
    return BudgetReport(
        schema.name,
        schema.privacy,
        tuple(totals(schema, ledger)),
        tuple(spenders(schema, ledger)),
        tuple(charges(ledger)),
        tuple(each for each in ledger.failures() if each.cleared is None),
        (ledger.accounting or "an earlier")
        if ledger.reckon(budget_of(schema), lambda books: books.is_report)
        else None,
    )


@dataclass(frozen=True, slots=True)
class FailureReport:
    """Statements that failed after they were charged. str() is the text for the owner: statements and kinds, no values.

    unseen  those that the owner has not looked at, oldest first
    seen    how many were looked at before
    """

    unseen: tuple[Failure, ...]
    seen: int

    def __str__(self) -> str:
        before = f"; {self.seen:,} looked at before" if self.seen else ""
        lines = [f"{_counted_failures(len(self.unseen))}{before}", *map(_failure, self.unseen)]
        return "\n".join(map(harmless, lines))

    @property
    def last(self) -> int:
        """The newest one that is shown; 0 for none."""
        return max((each.id for each in self.unseen), default=0)


def failures(ledger: Ledger) -> FailureReport:
    """Report what failed. Reads no data, and clears nothing: Ledger.clear_failures does, once it is shown."""
    found = ledger.failures()
    unseen = tuple(each for each in found if each.cleared is None)
    return FailureReport(unseen, len(found) - len(unseen))


def warnings(schema: Schema) -> list[str]:
    """Warn of declarations about the budget that nobody can verify, or that promise less than they may seem to."""
    privacy, found = schema.privacy, []
    who, them = ("a row", "a row that stays") if privacy.unit == ROW else ("a person", "a person who stays")
    if privacy.window is not None:
        count, most = _OF_A_YEAR[privacy.window], privacy.budget
        found.append(
            f"the total is for each {privacy.window}: n {privacy.window}s lose n times as much, and {them} for a year may lose "
            f"{count} times epsilon {at_most(most.epsilon)}, delta {at_most(most.delta)}"
        )
    if privacy.partition is not None:
        column = ".".join(map(printable, privacy.partition))
        found.append(
            f"each value of {column} has a total of its own: the owner promises that {column} never changes for {who}, "
            f"who could else lose several totals"
        )
    kept_from = [printable(one.name) for one in schema.analysts or () if one.dashboard is not None]
    if privacy.reserve is not None and kept_from:
        found.append(
            f"kept from {listed(kept_from)}: a statement of epsilon {at_most(privacy.reserve)}, which others can ask"
        )
    for held in schema.reservations:
        price = f"{held.refreshes:,} refreshes of {amounts(EpsilonDelta(held.epsilon, held.delta))}"
        found.append(
            f"reserved for {printable(held.analyst)} ({printable(held.name)}): {price}, which nobody else can spend"
        )
    return found + of_declarations(schema)


# --- text ---------------------------------------------------------------------------------------------------------


def amounts(given: EpsilonDelta) -> str:
    return _amounts(given.epsilon, given.delta)


def loss_text(loss: PrivacyLoss) -> str:
    rho = "" if loss.epsilon is not None else f" (rho {float(loss.rho):.6g})"
    return _amounts(nominal(loss), loss.delta) + rho


def _amounts(epsilon: Fraction, delta: Fraction) -> str:
    return f"epsilon {float(epsilon):.6g}, delta {float(delta):.3g}"


def _statements(total: BudgetTotal, privacy: Privacy) -> str:
    count = total.statements or 0
    return f"{count:,} more of epsilon {at_most(privacy.query.epsilon)} fit{'s' * (count == 1)}"


def _line(total: BudgetTotal) -> str:
    refreshes = "" if total.refreshes is None else f"{counted(total.refreshes, 'refresh', 'refreshes')} left; "
    spent_of = f"spent {loss_text(total.spent.loss)} of {amounts(total.total)}"
    return f"{printable(total.name)}: {refreshes}{spent_of}; remaining {amounts(total.remaining)}"


def _spender(analyst: Spender) -> str:
    caps = [("epsilon", analyst.epsilon), ("delta", analyst.delta)]
    capped = " and ".join(f"{word} {float(cap):.6g}" for word, cap in caps if cap is not None)
    cap = f" (cap: {capped})" if capped else ""
    count = counted(analyst.charges, "charge")
    left = f"remaining epsilon {float(analyst.remaining.epsilon):.6g}"
    return f"{printable(analyst.name)}: {loss_text(analyst.spent.loss)}{cap}; {count}; {left}"


def _charge(entry: Entry) -> str:
    statement = " ".join(entry.statement.split())
    shown = statement if len(statement) <= LONGEST_STATEMENT else statement[: LONGEST_STATEMENT - 3] + "..."
    return f"{entry.id}  {entry.time}  {printable(entry.analyst)}  {loss_text(entry.loss)}  {shown}"


def _counted_failures(count: int) -> str:
    return f"{counted(count, 'statement')} failed after the charge and not looked at yet"


def _failure(failure: Failure) -> str:
    statement = printable(" ".join(failure.statement.split()))
    return f"  charge {failure.charge}  {failure.time}  {printable(failure.analyst)}  {_WORDS[failure.kind]}\n    {statement}"


# --- JSON ---------------------------------------------------------------------------------------------------------


def _object(table: str, row: Row, exact: object) -> dict[str, object]:
    names: Sequence[str] = [name for name, _ in spent.TABLES[table]]
    return {**dict(zip(names, row, strict=True)), "exact": exact}


def _exact_total(total: BudgetTotal) -> dict[str, object]:
    return {
        "epsilon": to_text(total.total.epsilon),
        "delta": to_text(total.total.delta),
        "spent": named(total.spent),
        "remaining_epsilon": to_text(total.remaining.epsilon),
        "remaining_delta": to_text(total.remaining.delta),
    }
