"""sizing: buys for the guard how often the values of each column occur: a statement a column, each charged and stored as any other."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accounting import remembered
from dpsql.accounting.answers import Answers
from dpsql.accounting.charging import budget_of
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.reporting import loss_text
from dpsql.core.domains import Interval, Value
from dpsql.core.errors import Error, error
from dpsql.core.escaping import harmless
from dpsql.core.loss import NO_LOSS, PrivacyLoss, total
from dpsql.dataset.opening import open_dataset
from dpsql.guard.bought import ColumnHistogram, Counted, counted, histograms, written
from dpsql.mechanisms.source import NoiseSource
from dpsql.schema.mistakes import printable
from dpsql.schema.model import RESERVED, Analyst, Column, Guard, Schema
from dpsql.schema.write import exact
from dpsql.session.session import Session
from dpsql.sql.duckdb import literal_sql

OWNER = f"{RESERVED}owner"
"""Name that is charged: nobody's cap, the dataset's total alone."""
MOST_SHOWN = 4
_DIGITS = 10**6


@dataclass(frozen=True, slots=True)
class Sizing:
    """Size that was bought: noisy, and released like any other answer.

    loss     charged now; what was stored is free
    columns  what is known of each
    left     columns that could not be asked, and why not
    stopped  what ended it before its end, or None
    """

    loss: PrivacyLoss
    columns: tuple[tuple[str, str], ...]
    left: tuple[tuple[str, str], ...]
    stopped: Error | None = None

    def __str__(self) -> str:
        wide = max((len(name) for name, _ in self.columns), default=0)
        many = f"{len(self.columns)} column{'s' * (len(self.columns) != 1)}"
        paid = f"charged: {loss_text(self.loss)}" if self.loss != NO_LOSS else "stored, nothing was charged"
        lines = [f"sizes of {many}, by which the guard tells how many people a condition is about; {paid}"]
        lines += [f"  {name:<{wide}}  {told}" for name, told in self.columns]
        lines += [f"  {name} was left out: {why}" for name, why in self.left]
        return harmless("\n".join(lines), kept="\n")


def buy_sizes(
    schema: Schema, ledger: Ledger, epsilon: Fraction | None = None, noise: NoiseSource | None = None
) -> Sizing:
    """Buy the histogram of every column that has a list or bounds, and keep them for the guard.

    epsilon  [nats] for all of them together; None: the most that one statement may spend
    noise    where randomness comes from; tests alone pass one
    Errors   802 a column's part is less than the least price of a statement, or more than the most; and those of a statement
    """
    dataset = open_dataset(schema, ledger, approve=False)
    # the guard reads these answers, so it is not asked whether they may be given
    filled = replace(dataset, schema=replace(dataset.schema, guard=Guard("off")))
    asked = histograms(filled.schema)
    left = ledger.remaining(budget_of(schema), OWNER).epsilon
    price = _price(schema, epsilon, len(asked), left)
    with closing(Session(filled, ledger, Analyst(OWNER), noise)) as session:
        told: list[tuple[str, str]] = []
        absent: list[tuple[str, str]] = []
        losses: list[PrivacyLoss] = []
        stopped: Error | None = None
        for one in asked:
            try:
                cells, charged = _bought(session, ledger, one, price)
            except Error as problem:
                if problem.code in _OF_THE_COLUMN:
                    absent.append((shown(one.name), problem.message))
                    continue
                stopped = problem
                break
            told.append((shown(one.name), _often(cells, one.column)))
            losses.append(charged)
        if stopped is not None and not told:
            raise stopped
        return Sizing(total(losses), tuple(told), tuple(absent), stopped)


_OF_THE_COLUMN = ("DPSQL-106", "DPSQL-301", "DPSQL-302", "DPSQL-303", "DPSQL-401")
"""Codes of what one column does not allow."""


def shown(name: str) -> str:
    """The name of a column as it is told: without quotes."""
    return printable(name.replace('"."', ".").strip('"'))


def _price(schema: Schema, epsilon: Fraction | None, columns: int, left: Fraction) -> Fraction:
    """[nats] of each column's part.

    left  [nats] of the dataset's total
    """
    whole = schema.privacy.caps.epsilon if epsilon is None else epsilon
    part = Fraction(int(whole / max(columns, 1) * _DIGITS), _DIGITS)
    least, most = schema.privacy.floor, schema.privacy.caps.epsilon
    if part < least:
        raise error(
            802,
            f"epsilon {exact(whole)} for {columns} columns is less than the least price of a statement for each",
            hint=f"give --epsilon {exact(least * columns)} or more",
        )
    if part > most:
        raise error(
            802,
            f"epsilon {exact(whole)} for {columns} columns is more than one statement may spend for each",
            hint=f"give --epsilon {float(min(most * columns, left)):.6g} or less",
        )
    return part


def _bought(
    session: Session, ledger: Ledger, one: ColumnHistogram, price: Fraction
) -> tuple[list[Counted], PrivacyLoss]:
    """One histogram, kept as soon as it is released."""
    answer = session.execute(f"/* dpsql: epsilon={exact(price)} */ {one.sql}")
    widths = [width for width in answer.errors()[-1:] if width is not None]
    cells = counted(one, answer.rows, max(widths, default=0.0))
    charge = next(c for c in Answers(ledger).charges_of(answer.fingerprints) if c is not None)
    remembered.keep_sizes(ledger, charge, {one.name: written(one.column, cells)})
    return cells, answer.receipt.loss if answer.receipt.id is not None else NO_LOSS


def _often(cells: list[Counted], column: Column) -> str:
    """The most frequent cells in percent; to a digit less than their noise would do."""
    rows = sum(count for _, _, count in cells)
    if rows <= 0:
        return "nothing is known: too few rows, or too little epsilon"
    often = sorted(cells, key=lambda cell: -cell[2])[:MOST_SHOWN]
    parts = [f"{_named(value, end, column)} {count / rows:.0%}" for value, end, count in often if count]
    more = sum(count > 0 for _, _, count in cells) - len(parts)
    return ", ".join(parts) + (f", and {more} more" if more else "")


def _named(value: Value | None, end: Fraction | None, column: Column) -> str:
    if value is None:
        return "NULL"
    text = _said(value, column)
    return text if end is None or end - Fraction(value) == 1 else f"{text} to {_said(end, column)}"


def _said(value: Value, column: Column) -> str:
    if column.sqltype.is_counted:
        most = column.domain.upper if isinstance(column.domain, Interval) else Fraction(value)
        day = Fraction(int(min(Fraction(value), most)))
        return literal_sql(day, column.sqltype).partition("'")[2].rstrip("'")
    return f"{float(value):g}" if isinstance(value, Fraction) else printable(str(value))
