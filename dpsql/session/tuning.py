"""tuning: for the owner, what statements would show at several prices and how many of them fit. Nothing is charged: they run with real
noise against ledgers that are forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from statistics import median

from dpsql.accounting.charging import budget_of
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error, error
from dpsql.core.escaping import harmless, harmless_json
from dpsql.core.loss import Sums, added
from dpsql.core.wording import counted
from dpsql.dataset.opening import Dataset, open_dataset
from dpsql.engines.limits import LimitFacts, limit_facts
from dpsql.schema.advice import OUTSIDE_THE_PROMISE
from dpsql.schema.model import RESERVED, Analyst, Guard, Schema
from dpsql.schema.write import exact
from dpsql.session.opening import ledger_identity
from dpsql.session.result import Answer
from dpsql.session.session import Session

STEPS = (Fraction(1, 10), Fraction(1, 5), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(5), Fraction(10))
"""The prices that are tried, as multiples of the default one."""
DRAWS = 3
ENOUGH = 0.1
"""The share of a typical value that its error is at most where a price is called enough."""
_ALIKE = 1.1
_OWNER = Analyst(f"{RESERVED}owner")


@dataclass(frozen=True, slots=True)
class ColumnError:
    """Error of one column [its own unit; days, of dates and times]: the median over its cells, of each of several draws.

    low, high  the least and the largest of the draws; the same where the error hangs on the price alone
    """

    low: float
    high: float

    def __str__(self) -> str:
        if self.high <= self.low * _ALIKE:
            return f"+-{_short(self.high)}"
        return f"+-{_short(self.low)} to {_short(self.high)}"


@dataclass(frozen=True, slots=True)
class PricedAnswer:
    """Errors of a statement at one price.

    epsilon  [nats] of the statement
    errors   by column
    loss     what one of them adds to the ledger
    fits     how many of them fit into the dataset's total, in a ledger where nothing is spent
    """

    epsilon: Fraction
    errors: dict[str, ColumnError]
    loss: Sums
    fits: int


@dataclass(frozen=True, slots=True)
class TunedStatement:
    """One statement at several prices, or the reason why it has no answer.

    typical    of each column with an error, the median of its absolute values at the highest price; None where they are no numbers
    own_price  the statement itself names its price, and was asked at that one alone
    """

    sql: str
    typical: dict[str, float | None]
    prices: tuple[PricedAnswer, ...]
    refused: str = ""
    free: bool = False
    own_price: bool = False

    def enough(self) -> Fraction | None:
        """The least of the prices at which every error is a tenth of the typical value or less; None where none is."""
        return next((p.epsilon for p in self.prices if all(self._is_enough(p, c) for c in self.typical)), None)

    def _is_enough(self, at: PricedAnswer, column: str) -> bool:
        typical = self.typical.get(column)
        return typical is None or (column in at.errors and at.errors[column].high <= ENOUGH * typical)


@dataclass(frozen=True, slots=True)
class TuneReport:
    """Findings of `tune`: exact or almost, so never for an analyst. str() is the text for the owner.

    together  how many times all statements fit that have an answer, at each price
    limits    what the declared limits cut
    """

    dataset: str
    schema: Schema
    statements: tuple[TunedStatement, ...]
    together: tuple[tuple[Fraction, int], ...]
    limits: tuple[LimitFacts, ...]
    advice: tuple[str, ...]

    def __str__(self) -> str:
        parts = [_statement(one, self.schema) for one in self.statements]
        if self.together:
            window = self.schema.privacy.window
            title = "all of them, each once; how often that fits into the total" + (f" of a {window}" if window else "")
            lines = [f"  epsilon {exact(price):<6} {_times(fits)}" for price, fits in self.together]
            parts.append("\n".join([title, *lines]))
        if self.limits:
            parts.append("\n".join(["what limits cut", *(f"  {line}" for one in self.limits for line in one.lines())]))
        parts += [f"note: {text}" for text in self.advice]
        return harmless("\n\n".join([*parts, OUTSIDE_THE_PROMISE]), kept="\n")

    @property
    def json(self) -> str:
        found = {
            "dataset": self.dataset,
            "statements": [_statement_object(one) for one in self.statements],
            "together": [{"epsilon": float(price), "fits": fits} for price, fits in self.together],
            "limits": [one.found for one in self.limits],
            "notes": list(self.advice),
        }
        return harmless_json(json.dumps(found, indent=2, ensure_ascii=False), kept="\n")


def tune(
    schema: Schema,
    ledger: Ledger,
    statements: Sequence[str],
    told: Callable[[str, int, int], None] = lambda step, done, total: None,
) -> TuneReport:
    """Ask statements at several prices, and count what the limits cut.

    statements  SELECTs; none: those that were charged, the latest ten
    told        is called with each step that begins, the steps that are done, and all of them

    Raises 708 where the data is not approved, 802 where there is no statement.
    """
    asked = tuple(dict.fromkeys(statements)) or _charged(ledger)
    if not asked:
        raise error(802, "there is no statement to tune for", hint="give some: -f statements.sql, or -c 'SELECT ...'")
    with closing(open_dataset(schema, ledger, approve=schema.analysts is None)) as dataset:
        found = []
        for i, sql in enumerate(asked):
            told(f"statement {i + 1}", i, len(asked) + 1)
            found.append(_tuned(sql, dataset, schema))
        told("limits", len(asked), len(asked) + 1)
        limits = tuple(limit_facts(dataset.engine, dataset.schema))
    return TuneReport(
        schema.name, schema, tuple(found), _together(found, schema), limits, tuple(_advice(found, schema))
    )


def _charged(ledger: Ledger) -> tuple[str, ...]:
    latest = dict.fromkeys(entry.statement for entry in reversed(ledger.history()))
    return tuple(latest)[:MOST_CHARGED]


MOST_CHARGED = 10


def prices(schema: Schema) -> list[Fraction]:
    """The prices [nats] that are tried: round multiples of the default one, no less than the least and no more than the total."""
    privacy = schema.privacy
    tried = [step * privacy.query.epsilon for step in STEPS]
    return [price for price in tried if privacy.floor <= price <= privacy.budget.epsilon]


def _tuned(sql: str, dataset: Dataset, schema: Schema) -> TunedStatement:
    at: list[PricedAnswer] = []
    typical: dict[str, float | None] = {}
    refused = ""
    for price in prices(schema):
        try:
            draws = [_drawn(sql, price, dataset, schema) for _ in range(DRAWS)]
        except Error as problem:
            # a price may be too small, or too large, for what others are enough for
            refused = f"{problem.code}: {problem.message}" + (f"; {problem.hint}" if problem.hint else "")
            continue
        answers, loss = [answer for answer, _ in draws], draws[0][1]
        if not any(loss.amounts):
            return TunedStatement(sql, {}, (), free=True)
        errors = [_errors(answer) for answer in answers]
        columns = [name for name in errors[0] if all(name in one for one in errors)]
        spread = {c: ColumnError(min(e[c] for e in errors), max(e[c] for e in errors)) for c in columns}
        at.append(PricedAnswer(price, spread, loss, _fits(loss, schema)))
        typical = {name: _typical(answers[0], name) for name in columns}
    if at and all(one.loss == at[0].loss for one in at[1:]):
        return TunedStatement(sql, typical, tuple(at[:1]), own_price=len(at) > 1)
    return TunedStatement(sql, typical, tuple(at), refused if not at else "")


def _drawn(sql: str, price: Fraction, dataset: Dataset, schema: Schema) -> tuple[Answer, Sums]:
    """An answer with real noise at a price, and what it added to a ledger that is forgotten.

    Why  prices are the schema's own, so the noise is what an analyst would get. The guard and caps decide whether, not what
    """
    privacy = replace(dataset.schema.privacy, caps=dataset.schema.privacy.budget)
    open_to_owner = replace(dataset.schema, privacy=privacy, guard=Guard("off"), reservations=())
    kept = replace(dataset, schema=open_to_owner, release=lambda: None)
    scratch = Ledger.open(":memory:", ledger_identity(schema))
    with closing(Session(kept, scratch, _OWNER)) as session:
        session.execute(f"SET dp_epsilon = {exact(price)}")
        answer = session.execute(sql)
        return answer, scratch.scope("dataset", "").ever


def _fits(loss: Sums, schema: Schema) -> int:
    """Number of statements of such a loss that fit into the total of a new ledger."""
    budget = replace(budget_of(schema), held=())
    with closing(Ledger.open(":memory:", ledger_identity(schema))) as new:
        return new.reckon(budget, lambda books: min(limit.count_left(loss) for limit in books.limits(budget, "")))


def _together(found: Sequence[TunedStatement], schema: Schema) -> tuple[tuple[Fraction, int], ...]:
    """At each price that all of several statements have."""
    losses = [{at.epsilon: at.loss for at in one.prices} for one in found if one.prices and not one.own_price]
    if len(losses) < 2:
        return ()
    shared = [price for price in prices(schema) if all(price in one for one in losses)]
    return tuple((price, _fits(reduce(added, (one[price] for one in losses)), schema)) for price in shared)


def _errors(answer: Answer) -> dict[str, float]:
    """The median error of each column that has errors."""
    found: dict[str, float] = {}
    rows = [answer.accuracy[i] for i in range(len(answer.rows))]
    for place, (name, _) in enumerate(answer.columns):
        cells = [(row[place], answer.rows[i][place]) for i, row in enumerate(rows)]
        widths = [width for cell, value in cells if cell is not None and (width := cell.error(value)) is not None]
        if widths:
            found[name] = median(widths)
    return found


def _typical(answer: Answer, column: str) -> float | None:
    place = [name for name, _ in answer.columns].index(column)
    numbers = [row[place] for row in answer.rows]
    sizes = [abs(float(one)) for one in numbers if isinstance(one, int | float | Decimal)]
    return median(sizes) if sizes else None


# --- advice -----------------------------------------------------------------------------------------------------------


def _advice(found: Sequence[TunedStatement], schema: Schema) -> list[str]:
    """The price of a statement to write, with its reason."""
    enough = [one.enough() for one in found if one.prices and not one.own_price]
    default = schema.privacy.query.epsilon
    if not enough:
        return []
    if any(price is None for price in enough):
        count = sum(price is None for price in enough)
        return [
            f"{count} of {counted(len(enough), 'statement')} cannot be had with errors of a tenth of the typical value at any of "
            "these prices: ask for fewer groups, narrower bounds, or more rows in each group"
        ]
    price = max(p for p in enough if p is not None)
    if price == default:
        return []
    return [
        f"errors of a tenth of the typical value or less in every column need epsilon {exact(price)} a statement; the default is "
        f"{exact(default)}: write query = {{ epsilon = {exact(price)} }} in [privacy]"
    ]


# --- text -------------------------------------------------------------------------------------------------------------


def _short(value: float) -> str:
    """Two digits.

    >>> _short(1234.5), _short(0.0123), _short(0.0)
    ('1,200', '0.012', '0')
    """
    near = float(f"{value:.2g}")
    return f"{near:,.0f}" if near == int(near) else f"{near:,.6g}"


def _statement(one: TunedStatement, schema: Schema) -> str:
    lines = [" ".join(one.sql.split())]
    if one.refused or one.free:
        return "\n".join([*lines, f"  refused: {one.refused}" if one.refused else "  free: nothing of people is read"])
    names = list(one.typical)
    rows = [["price", *names, "fits"]]
    rows.append(["typical", *("" if (v := one.typical[n]) is None else _short(v) for n in names), ""])
    for at in one.prices:
        mark = " (default)" if at.epsilon == schema.privacy.query.epsilon else ""
        price = "its own price" if one.own_price else f"epsilon {exact(at.epsilon)}{mark}"
        cells = [str(at.errors[name]) if name in at.errors else "" for name in names]
        rows.append([price, *cells, _times(at.fits)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines += ["  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _times(fits: int) -> str:
    return counted(fits, "time")


def _statement_object(one: TunedStatement) -> dict[str, object]:
    at = [
        {
            "epsilon": None if one.own_price else float(each.epsilon),
            "fits": each.fits,
            "errors": {name: [error.low, error.high] for name, error in each.errors.items()},
        }
        for each in one.prices
    ]
    return {"sql": one.sql, "typical": one.typical, "prices": at, "refused": one.refused or None, "free": one.free}
