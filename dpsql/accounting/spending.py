"""spending: what was spent as rows, for SQL and for the owner's report alike. Reads the ledger and the declared schema alone.

An analyst sees the totals that apply to them, their own charges and themself; the owner sees everything.

Amounts in SQL are short decimals: what is left is rounded down, so that a price that is copied from there fits, and what was spent up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accounting import budget as budgets
from dpsql.accounting import layout
from dpsql.accounting.amounts import at_least, at_most
from dpsql.accounting.books import Books
from dpsql.accounting.budget import Limit
from dpsql.accounting.charging import budget_of
from dpsql.accounting.entries import Entry
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import clean
from dpsql.core.errors import error
from dpsql.core.loss import Amount, EpsilonDelta, PrivacyLoss, Sums
from dpsql.mechanisms.conversions import epsilon_at_most_rho
from dpsql.mechanisms.events import of_loss
from dpsql.mechanisms.prices import nominal
from dpsql.plan.charges import Budget, ReservedBudget
from dpsql.plan.tables import PublicTable
from dpsql.planner.partition import in_full
from dpsql.schema import spent
from dpsql.schema.model import Analyst, Privacy, Schema

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class BudgetTotal:
    """One total that charges must stay within, and what is spent of it in the present window.

    scope       "dataset", "analyst", "role", "reservation", or "entry" for a value of the partition
    name        of the analyst, role or reservation; "person.site = 3"; "" for the dataset
    alive       the accountants that still carry the promise
    remaining   the largest epsilon and delta that one more statement may cost
    statements  how many more statements of the default price fit; None where this total refuses nobody
    refreshes   of a reservation, how many more it pays for
    """

    scope: str
    name: str
    total: EpsilonDelta
    spent: Sums
    remaining: EpsilonDelta
    alive: tuple[str, ...] = ()
    statements: int | None = None
    refreshes: int | None = None

    @property
    def holder(self) -> str:
        """As SQL shows it: "analyst alice"."""
        return self.name if self.scope == "entry" else f"{self.scope} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class Spender:
    """One analyst, what they ever spent, the caps that the owner wrote for them, None where there is none, and what is left to them."""

    name: str
    role: str | None
    epsilon: Fraction | None
    delta: Fraction | None
    spent: Sums
    charges: int
    remaining: EpsilonDelta


# --- what applies to whom; analyst None is the owner ------------------------------------------------------------------


def totals(schema: Schema, ledger: Ledger, analyst: Analyst | None = None) -> list[BudgetTotal]:
    """Every total that applies to an analyst, or all: the dataset's, those of values of the partition, caps, reservations."""
    budget = budget_of(schema, analyst) if analyst is not None else _all_caps(schema)
    own = [held for held in budget.held if analyst is None or held.analyst == analyst.name]
    loss = budget.usual

    def found(books: Books) -> list[BudgetTotal]:
        one = books.promise.sums(loss, (of_loss(loss),))
        applying = books.limits(budget, clean(analyst.name) if analyst is not None else "")
        shared = [limit for limit in applying if limit.scope[0] in ("dataset", "entry")]
        totals = [_total(("dataset", ""), shared, one)]
        totals += [_total(limit.scope, [limit], one) for limit in applying if limit.scope[0] != "dataset"]
        return totals + [_reservation(held, books, budget) for held in own]

    return ledger.reckon(budget, found) if analyst is None else ledger.look(budget, found)


def spenders(schema: Schema, ledger: Ledger, analyst: Analyst | None = None) -> list[Spender]:
    """An analyst alone; or the declared ones, and whoever else was charged."""
    if analyst is not None:
        return [_spender(schema, ledger.look, analyst)]
    declared = {a.name: a for a in schema.analysts or ()}
    others = sorted({entry.analyst for entry in ledger.history()} - set(declared))
    return [_spender(schema, ledger.reckon, each) for each in (*declared.values(), *map(Analyst, others))]


def charges(ledger: Ledger, analyst: Analyst | None = None) -> list[Entry]:
    """An analyst's own charges, or all, oldest first."""
    return ledger.history(analyst.name if analyst is not None else None)


def _all_caps(schema: Schema) -> Budget:
    """The caps of every analyst and role."""
    asking = [*(schema.analysts or ()), *(Analyst("", role=role.name) for role in schema.roles)]
    caps = dict.fromkeys(cap for who in asking for cap in budget_of(schema, who).caps)
    in_order = sorted(caps, key=lambda cap: cap.scope != "role")
    return replace(budget_of(schema), caps=tuple(in_order))


def _total(whose: tuple[str, str], limits: Sequence[Limit], one: Sums) -> BudgetTotal:
    """Of several, what is spent on those whom most was charged to, and what a statement about all of them may cost."""
    most = max(limits, key=lambda limit: _in_order(limit.charged.loss))
    alive = [limit.keeps.alive(limit.spent) for limit in limits]
    everywhere = tuple(name for name in alive[0] if all(name in others for others in alive))
    statements = min(limit.count_left(one) for limit in limits)
    scope, name = whose
    shown = in_full(name) if scope == "entry" else name
    return BudgetTotal(scope, shown, most.total, most.charged, budgets.remaining(limits), everywhere, statements)


def _in_order(loss: PrivacyLoss) -> tuple[Fraction, Fraction, Fraction]:
    return nominal(loss), loss.rho, loss.delta


def _reservation(held: ReservedBudget, books: Books, budget: Budget) -> BudgetTotal:
    """Amounts kept for one analyst, and what they spent of them."""
    used = budgets.of_window(books.spent("analyst", clean(held.analyst)), budget, layout.now())
    whole, rest = budgets.reserved(held, books.promise), budgets.unspent(held, books.promise, used)
    # of what the analyst spent without a finite amount nothing is kept, and it is told as such
    spent_of_it = whole.beside(rest, _less).beside(used, lambda left, own: None if own is None else left)
    left = epsilon_at_most_rho(rest.loss.rho) if used["epsilon"] is None else rest["epsilon"] or Fraction(0)
    return BudgetTotal(
        "reservation",
        held.name,
        EpsilonDelta(whole["epsilon"] or Fraction(0), whole.delta),
        spent_of_it,
        EpsilonDelta(left, rest.delta),
        refreshes=budgets.refreshes_left(held, books.promise, used),
    )


def _less(whole: Amount, rest: Amount) -> Amount:
    return None if whole is None or rest is None else whole - rest


_Look = Callable[[Budget, Callable[[Books], Spender]], Spender]


def _spender(schema: Schema, look: _Look, analyst: Analyst) -> Spender:
    budget, name = budget_of(schema, analyst), clean(analyst.name)

    def found(books: Books) -> Spender:
        ever, left = books.spent("analyst", name), budgets.remaining(books.limits(budget, name))
        return Spender(analyst.name, analyst.role, analyst.epsilon, analyst.delta, ever.ever, ever.charges, left)

    return look(budget, found)


# --- as tables for SQL ------------------------------------------------------------------------------------------------


def tables(names: Iterable[str], schema: Schema, ledger: Ledger, analyst: Analyst) -> list[PublicTable]:
    """Some of dpsql.budget, dpsql.ledger and dpsql.analysts, as an analyst sees them now."""
    return [_table(name, rows(name, schema, ledger, analyst)) for name in names]


def rows(name: str, schema: Schema, ledger: Ledger, analyst: Analyst | None = None) -> list[Row]:
    """The rows of one of the tables, in the order of its columns (schema/spent.py)."""
    match name:
        case "budget":
            return [total_row(each, schema.privacy) for each in totals(schema, ledger, analyst)]
        case "ledger":
            return [charge_row(each) for each in charges(ledger, analyst)]
        case "analysts":
            return [spender_row(each) for each in spenders(schema, ledger, analyst)]
    raise error(901, f"the ledger has no table {name}")


def _table(name: str, found: Sequence[Row]) -> PublicTable:
    columns = spent.TABLES[name]
    return PublicTable(name, columns, tuple([row[i] for row in found] for i in range(len(columns))))


def total_row(each: BudgetTotal, privacy: Privacy) -> Row:
    whole = (_down(each.total.epsilon), _down(each.total.delta))
    left = (_down(each.remaining.epsilon), _down(each.remaining.delta))
    words = (each.holder, privacy.accounting, privacy.window)
    return (*words, *whole, *_loss(each.spent.loss), *left, each.statements, each.refreshes)


def charge_row(entry: Entry) -> Row:
    # UTC, as a TIMESTAMP without a zone
    moment = entry.time.partition("+")[0]
    return (
        entry.id,
        moment,
        entry.analyst,
        entry.role,
        *_loss(entry.loss),
        entry.releases,
        entry.statement,
        entry.version,
    )


def spender_row(each: Spender) -> Row:
    caps = tuple(None if cap is None else _down(cap) for cap in (each.epsilon, each.delta))
    return (each.name, each.role, *caps, *_loss(each.spent.loss), each.charges, _down(each.remaining.epsilon))


def _loss(loss: PrivacyLoss) -> tuple[float, float, float]:
    return _up(nominal(loss)), _up(loss.delta), _up(loss.rho)


def _down(amount: Fraction) -> float:
    return float(at_most(amount))


def _up(amount: Fraction) -> float:
    return float(at_least(amount))
