"""What the owner of a dataset can do: draft a schema, check and approve the data, read what was spent."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from dpsql.accounting.ledger import Entry, Ledger
from dpsql.accounting.record import read_record, write_record
from dpsql.domains import Interval
from dpsql.engines.drafting import describe
from dpsql.engines.duckdb import DuckDBEngine
from dpsql.engines.facts import ColumnFacts, TableFacts, UnitFacts, table_facts, verified
from dpsql.engines.public import fill
from dpsql.engines.snapshot import Snapshot
from dpsql.engines.structure import declared
from dpsql.loss import PrivacyLoss
from dpsql.opening import approve_version, require_unchanged
from dpsql.plan import Budget
from dpsql.preparing import prepare as prepare_snapshot
from dpsql.preparing import require_place
from dpsql.schema.draft import draft
from dpsql.schema.mistakes import printable
from dpsql.schema.model import Schema, Table

OUTSIDE_THE_PROMISE = (
    "These are exact facts about people, for the owner's eyes. A bound, a list or a limit chosen after seeing them is\n"
    "itself a function of the data, and what it gives away is outside the promise: choose limits from what is known\n"
    "of the subject."
)
MOST_CHARGES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check` found: exact, so never for an analyst. str() is the text for the owner."""

    dataset: str
    version: str
    tables: tuple[TableFacts, ...]
    public: tuple[Table, ...]
    snapshot: Snapshot | None = None

    def __str__(self) -> str:
        parts = [f"{printable(self.dataset)}: the data has the declared structure and is approved."]
        parts += [_table_text(facts) for facts in self.tables]
        if self.public:
            parts.append(f"public: {', '.join(printable(t.name) for t in self.public)}")
        if self.snapshot is not None:
            parts.append(
                f"prepared: {self.snapshot.folder}, {self.snapshot.size:,} bytes; as private as the data itself"
            )
        return "\n\n".join([*parts, OUTSIDE_THE_PROMISE])


@dataclass(frozen=True, slots=True)
class Spender:
    """One analyst: what they spent, and the caps that the owner declared for them, None where there is none."""

    name: str
    spent: PrivacyLoss
    epsilon: Fraction | None
    delta: Fraction | None


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """What the ledger says. str() is the text for the owner. latest: the newest charges, newest first."""

    dataset: str
    total: PrivacyLoss
    spent: PrivacyLoss
    remaining: PrivacyLoss
    analysts: tuple[Spender, ...]
    charges: int
    latest: tuple[Entry, ...]

    def __str__(self) -> str:
        rows = [("total", self.total), ("spent", self.spent), ("remaining", self.remaining)]
        lines = [f"{printable(self.dataset)}: budget"]
        lines += [f"  {word:<10} {_loss(loss)}" for word, loss in rows]
        if self.analysts:
            lines += ["", "by analyst", *(f"  {_spender(a)}" for a in self.analysts)]
        if self.latest:
            shown = f"last {len(self.latest)} of {self.charges:,} charges, newest first"
            lines += ["", shown, *(f"  {_charge(entry)}" for entry in self.latest)]
        return "\n".join(lines)


def init(source: str | os.PathLike[str]) -> str:
    """A first schema for a folder of Parquet and CSV files, or for a DuckDB file: names and types, nothing of rows.

    The text names the source by its absolute path. Raises 707.
    """
    path = Path(source).resolve()
    return draft(path.stem if path.is_file() else path.name, str(path), describe(path))


def check(schema: Schema, ledger: Ledger, *, prepare: bool = False) -> CheckReport:
    """Verify what is declared and cannot be enforced, approve this version of the data, and show exact facts.

    prepare  write the prepared snapshot of this version too, beside the ledger
    Errors   707 a file is missing or cannot be read; 804 the data has not the declared structure and is not approved; 704
             the snapshot cannot be written, the approval stands; 801, 802 there is nothing to prepare, or no place for it
    """
    if prepare:
        require_place(schema, ledger)
    engine = DuckDBEngine.open(schema)
    try:
        filled = fill(engine, schema)
        version = approve_version(engine, filled, ledger)
        facts = tuple(table_facts(engine, filled, t) for t in filled.tables if not t.public)
        require_unchanged(engine)
    finally:
        engine.close()
    _record(schema, ledger, version, verified(filled, facts))
    snapshot = prepare_snapshot(schema, ledger, version) if prepare else None
    return CheckReport(schema.name, version, facts, tuple(t for t in filled.tables if t.public), snapshot)


def _record(schema: Schema, ledger: Ledger, version: str, facts: frozenset[str]) -> None:
    """Write into the ledger what was verified, for these declarations; a snapshot that was prepared for them stays."""
    about = declared(schema)
    write_record(ledger, version, replace(read_record(ledger, version, about), declared=about, facts=facts))


def budget(schema: Schema, ledger: Ledger) -> BudgetReport:
    """What was spent, by whom, and what is left. Reads no data."""
    history = ledger.history()
    declared = {a.name: a for a in schema.analysts or ()}
    names = [*declared, *sorted({entry.analyst for entry in history} - set(declared))]
    spenders = (
        Spender(n, ledger.spent(n), declared[n].epsilon, declared[n].delta)
        if n in declared
        else Spender(n, ledger.spent(n), None, None)
        for n in names
    )
    total = schema.privacy.budget
    return BudgetReport(
        dataset=schema.name,
        total=total,
        spent=ledger.spent(),
        remaining=ledger.remaining(Budget(total), ""),
        analysts=tuple(spenders),
        charges=len(history),
        latest=tuple(reversed(history[-MOST_CHARGES_SHOWN:])),
    )


# --- text ---------------------------------------------------------------------------------------------------------


def _table_text(facts: TableFacts) -> str:
    lines = [f"table {printable(facts.table.name)}: {facts.rows:,} rows"]
    if facts.unit is not None:
        lines += [f"  {line}" for line in _unit_lines(facts.unit, facts.table.max_rows_per_unit, facts.unique)]
    for reference, count in facts.dangling:
        if count:
            target = f"{printable(reference.table)}.{printable(reference.target)}"
            lines.append(f"  {count:,} rows refer by {printable(reference.column)} to no row of {target}")
    width = max((len(printable(c.column.name)) for c in facts.columns), default=0)
    lines += [f"  {printable(c.column.name):<{width}}  {_column_text(c)}" for c in facts.columns]
    return "\n".join(lines)


def _unit_lines(unit: UnitFacts, limit: int | None, unique: bool) -> list[str]:
    declared = f"the declared limit is {limit:,}" if limit is not None else "no limit is declared"
    declared = "the key allows one" if unique else declared
    lines = [f"{unit.units:,} units with 1 to {unit.most:,} rows, {float(unit.mean):.4g} on average; {declared}"]
    if unit.over:
        lines.append(f"the limit cuts {unit.cut:,} rows of {unit.over:,} units")
    if unit.ownerless:
        lines.append(f"{unit.ownerless:,} rows belong to no unit and are left out of every answer")
    return lines if unit.units else [f"no units; {declared}", *lines[1:]]


def _column_text(facts: ColumnFacts) -> str:
    column = facts.column
    parts = [str(column.sqltype)]
    if facts.nulls:
        parts.append(f"{facts.nulls:,} NULL" + ("" if column.nullable else " (not declared nullable)"))
    if facts.nans:
        parts.append(f"{facts.nans:,} NaN, treated as NULL in sums")
    if facts.outside:
        clamped = isinstance(column.domain, Interval)
        parts.append(f"{facts.outside:,} {'clamped to the bounds' if clamped else 'outside the domain'}")
    elif facts.outside is None and not column.sqltype.is_boolean:
        parts.append("no bounds or domain")
    return ", ".join(parts)


def _loss(loss: PrivacyLoss) -> str:
    return f"epsilon {float(loss.epsilon):.6g}, delta {float(loss.delta):.3g}"


def _spender(analyst: Spender) -> str:
    caps = [("epsilon", analyst.epsilon), ("delta", analyst.delta)]
    capped = " and ".join(f"{word} {float(cap):.6g}" for word, cap in caps if cap is not None)
    return f"{printable(analyst.name)}: {_loss(analyst.spent)}" + (f" (cap: {capped})" if capped else "")


def _charge(entry: Entry) -> str:
    statement = " ".join(entry.statement.split())
    shown = statement if len(statement) <= 100 else statement[:97] + "..."
    loss = _loss(PrivacyLoss(entry.epsilon, entry.delta))
    return f"{entry.id}  {entry.time}  {printable(entry.analyst)}  {loss}  {shown}"
