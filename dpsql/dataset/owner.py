"""Verbs of a dataset's owner: draft a schema, check and approve the data, read what was spent."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from dpsql.accounting.chain import Head, certified
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import read_record, snapshot_folder, write_record
from dpsql.accounting.reporting import failures, report, warnings
from dpsql.accounting.versions import Versions
from dpsql.core.domains import Interval
from dpsql.core.errors import error
from dpsql.core.escaping import harmless
from dpsql.dataset import binding
from dpsql.dataset.closing import NextVersion, by_period, next_of_check, next_version
from dpsql.dataset.doubting import doubts
from dpsql.dataset.growing import moved_since, only_added_to, taken
from dpsql.dataset.opening import approve_version, recognised, require_unchanged
from dpsql.dataset.preparing import prepare as prepare_snapshot
from dpsql.dataset.preparing import remove_left, require_place
from dpsql.engines.base import Engine
from dpsql.engines.facts import (
    ColumnFacts,
    TableFacts,
    UnitFacts,
    added_facts,
    still_verified,
    table_facts,
    verified,
)
from dpsql.engines.public import fill
from dpsql.engines.registry import kind_for, kind_of
from dpsql.engines.signature import Digests, FileParts, FileStart
from dpsql.engines.snapshot import Snapshot, remove_others
from dpsql.engines.structure import Added, declared, grouping
from dpsql.schema.advice import OUTSIDE_THE_PROMISE
from dpsql.schema.draft import draft
from dpsql.schema.drafted import NOTHING_ASKED, DraftAnswers, DraftTable
from dpsql.schema.mistakes import printable
from dpsql.schema.model import Schema, Table, facts_about, unit_fact

__all__ = ["CheckReport", "budget", "certificate", "check", "failures", "init", "refresh"]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Findings of `check`: exact, so never for an analyst. str() is the text for the owner."""

    dataset: str
    version: str
    tables: tuple[TableFacts, ...]
    public: tuple[Table, ...]
    snapshot: Snapshot | None = None
    charges: int = 0
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"ledger: {self.charges:,} charge{'s' * (self.charges != 1)}, whole"]
        parts += [f"{printable(self.dataset)}: the data has the declared structure and is approved."]
        parts += [_table_text(facts) for facts in self.tables]
        if self.public:
            parts.append(f"public: {', '.join(printable(t.name) for t in self.public)}")
        if self.snapshot is not None:
            parts.append(
                f"prepared: {self.snapshot.folder}, {self.snapshot.size:,} bytes; as private as the data itself"
            )
        parts += [f"note: {warning}" for warning in self.warnings]
        return harmless("\n\n".join([*parts, OUTSIDE_THE_PROMISE]), kept="\n")


def init(
    source: str | os.PathLike[str],
    *,
    sniff: bool = False,
    ask: Callable[[list[DraftTable]], DraftAnswers] = lambda tables: NOTHING_ASKED,
) -> str:
    """A first schema for a source: a folder of Parquet and CSV files, a DuckDB file, a database. Names and types, nothing of rows.

    sniff  read the values of CSV files, for the types in which all of them are written
    ask    the owner's answers about the tables that were found

    The text names a path by its absolute one. Raises 707, also where there is no table.
    """
    name, place, tables = kind_of(os.fspath(source)).describe(os.fspath(source), sniff=sniff)
    if not tables:
        raise error(707, f"{place} holds no table", hint="write a source that holds some")
    return draft(name, place, tables, ask([table for table in tables if not table.problem]), sniffed=sniff)


def check(
    schema: Schema,
    ledger: Ledger,
    *,
    prepare: bool = False,
    certificates: Sequence[Head] = (),
    new_ledger: bool = False,
    told: Callable[[str, int, int], None] = lambda step, done, total: None,
) -> CheckReport:
    """Verify the ledger, and what is declared and cannot be enforced; approve this version of the data, and show exact facts.

    prepare       write the prepared snapshot of this version too, beside the ledger
    certificates  the places of charges that are known from certificates, and must be in the ledger
    new_ledger    the data was bound to another ledger, and is to this one from now on
    told          is called with each step that begins, the steps that are done, and all of them
    Errors   705 the ledger is damaged; 707 a file is missing or cannot be read; 804 the data has not the declared structure
             and is not approved; 704 the snapshot cannot be written, the approval stands; 801, 802 there is nothing to
             prepare, or no place for it; 714 the data is bound to another ledger
    """
    if not new_ledger:
        binding.require(schema, ledger)
    if prepare := prepare or bool(by_period(schema)):
        require_place(schema, ledger)
    private = sum(not t.public for t in schema.tables)
    begin = _steps(told, 2 + private * (2 if prepare else 1))
    begin("the ledger")
    remove_left(ledger)
    charges = ledger.verify()
    for head in certificates:
        ledger.require(head)
    begin("the structure")
    with closing(kind_for(schema).begin(schema, lambda _: None)) as engine:
        filled = fill(engine, schema)
        version, next_one, notes = _approved(engine, filled, ledger, new_ledger)
        facts = tuple(_facts(engine, filled, t, begin) for t in filled.tables if not t.public)
        require_unchanged(engine)
    _record(schema, ledger, version, next_one.holding(verified(filled, facts), schema, ledger))
    snapshot = prepare_snapshot(schema, ledger, version, begin) if prepare else None
    public, told_of = tuple(t for t in filled.tables if t.public), (*warnings(schema), *doubts(filled, facts), *notes)
    return CheckReport(schema.name, version, facts, public, snapshot, charges, told_of)


def _approved(
    engine: Engine, schema: Schema, ledger: Ledger, new_ledger: bool
) -> tuple[str, NextVersion, tuple[str, ...]]:
    """The version that the check approves, closed periods that it keeps, and what has to be told of the ledger."""
    digests = taken(engine, ledger)

    def moved(version: str) -> set[str]:
        return {table.name for table in moved_since(version, schema, ledger, digests)}

    next_one = next_of_check(schema, ledger, moved)
    version, notes = approve_version(engine, schema, ledger, new_ledger=new_ledger, digests=digests, kept=next_one.kept)
    return version, next_one, notes


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """Tables that `refresh` found changed, in the version that is approved now. str() is "" where none is: for a timetable.

    changed    names of tables whose contents or structure are other ones than before
    unchanged  those whose stored answers stay, as far as they are about no other table
    before     the version that was approved before, where it is another; else None
    """

    dataset: str
    version: str
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    notes: tuple[str, ...] = ()
    before: str | None = None

    def __str__(self) -> str:
        if not self.changed:
            return harmless("\n".join(f"note: {note}" for note in self.notes), kept="\n")
        changed = ", ".join(map(printable, self.changed))
        lines = [f"{printable(self.dataset)}: approved; changed: {changed}; what is asked about them is charged anew"]
        return harmless("\n".join([*lines, *(f"note: {note}" for note in self.notes)]), kept="\n")

    @property
    def json(self) -> str:
        found = {"dataset": self.dataset, "version": self.version, "changed": self.changed, "unchanged": self.unchanged}
        return json.dumps({**found, "notes": self.notes}, indent=2)


def refresh(schema: Schema, ledger: Ledger, revise: Sequence[str] = ()) -> RefreshReport:
    """Approve what the data are now, as `check` does, and verify of it the tables that changed; shows no facts. A prepared snapshot is
    followed by the new version's, which takes its place at once; whoever reads the old one goes on.

    revise  names of closed periods that are taken from the source again, or "all"
    Why     a table with the contents and the structure that were verified keeps what was found of it, where none on its way to the
            unit changed
    Errors  as `check`; 708 where no version was approved before, or rows of closed periods are lost; 802 for a name of no period
    """
    binding.require(schema, ledger)
    latest = Versions(ledger).latest()
    if latest is None:
        raise error(708, "no version of the data was approved yet", hint="run `dpsql check` with this schema")
    with closing(kind_for(schema).begin(schema, lambda _: None)) as engine:
        filled = fill(engine, schema)
        digests = taken(engine, ledger, latest[0])
        moved = {table.name for table in moved_since(latest[0], filled, ledger, digests)}
        next_one = next_version(schema, ledger, moved, revise)
        moved |= next_one.revised
        names = [table.name for table in schema.tables]
        unchanged = tuple(name for name in names if name not in moved)
        if not moved and recognised(engine, schema, ledger, digests)[0] == latest[0]:
            _prepared_on(schema, ledger, latest[0])
            return RefreshReport(schema.name, latest[0], (), unchanged)
        known = {table.name for table in filled.tables if table.name not in moved and not table.public}
        added = _shown(engine, filled, digests, only_added_to(latest[0], filled, ledger, digests))
        version, notes = approve_version(
            engine, filled, ledger, known=known, added=added, digests=digests, kept=next_one.kept
        )
        before = read_record(ledger, latest[0], declared(schema)).facts
        facts = next_one.holding(_facts_anew(engine, filled, moved, before, added), schema, ledger)
        require_unchanged(engine)
    _record(schema, ledger, version, facts)
    _prepared_on(schema, ledger, version)
    changed = tuple(name for name in names if name in moved)
    return RefreshReport(schema.name, version, changed, unchanged, notes, latest[0])


def _shown(engine: Engine, schema: Schema, digests: Digests, approved: FileParts) -> Added:
    """The added rows of each table that has the approved parts of its files, and others, where these can be told from those."""
    of = {table.name: table for table in schema.tables}
    asked = {name: (of[name], _since(parts, digests.files[name])) for name, parts in approved.items()}
    found = {name: engine.show_added(table, since, grouping(schema, table)) for name, (table, since) in asked.items()}
    return {name: shown for name, shown in found.items() if shown is not None}


def _since(approved: Mapping[str, FileStart | None], now: Collection[str]) -> dict[str, int]:
    """By the name of each file with rows that were not approved, the bytes before them."""
    longer = {name: start.length for name, start in approved.items() if start is not None}
    return {**{name: 0 for name in now if name not in approved}, **longer}


def _prepared_on(schema: Schema, ledger: Ledger, version: str) -> None:
    """Prepare a version where the owner had another one prepared: one that was killed in between is followed up."""
    root = snapshot_folder(ledger)
    remove_left(ledger)
    held = [path.name for path in root.iterdir()] if root is not None and root.is_dir() else []
    if (held or by_period(schema)) and read_record(ledger, version, declared(schema)).snapshot is None:
        prepare_snapshot(schema, ledger, version)
    elif root is not None and version in held:
        remove_others(root, version)


def _facts_anew(
    engine: Engine, schema: Schema, moved: Collection[str], before: frozenset[str], added: Added
) -> frozenset[str]:
    """Facts of tables that changed or lead to one that did, verified now, and the others' as they were; public tables may bound any.

    before  facts of the version that was approved last
    added   see verify: of these only the added files are read, and the rows of units that have some there

    Why     a row whose way led to a unit leads to the same one when rows are added on that way, for their keys are unique
    """
    private = [table for table in schema.tables if not table.public]
    ways = {table.name: {r.table for r in schema.path_to_unit(table)} for table in private}
    found: dict[str, frozenset[str]] = {}
    bound = not any(t.public and t.name in moved for t in schema.tables)
    for table in sorted(private, key=lambda t: len(schema.path_to_unit(t))) if bound else ():
        way = ways[table.name].intersection(moved)
        led = all(name in added and unit_fact(name) in found.get(name, ()) for name in way)
        if way and not (led and unit_fact(table.name) in before):
            continue
        if table.name not in moved:
            found[table.name] = before & facts_about(table)
        elif table.name in added:
            facts = added_facts(engine, schema, table, added[table.name])
            found[table.name] = still_verified(schema, facts, before)
    asked = {name for table in private if table.name not in found for name in {table.name, *ways[table.name]}}
    read = tuple(table_facts(engine, schema, table) for table in private if table.name in asked)
    return verified(schema, read).union(*found.values())


def _steps(told: Callable[[str, int, int], None], total: int) -> Callable[[str], None]:
    """Callback that is given the name of each step, and counts them."""
    done = itertools.count()
    return lambda step: told(step, next(done), total)


def _facts(engine: Engine, schema: Schema, table: Table, begin: Callable[[str], None]) -> TableFacts:
    begin(f"reading {printable(table.name)}")
    return table_facts(engine, schema, table)


def certificate(text: str) -> list[Head]:
    """The places in the ledger that a certificate, or a JSON list of them, names. Raises 802."""
    found = certified(text)
    if found is None:
        raise error(802, "this is no certificate", hint="give the JSON of cursor.certificates, or of one of them")
    return found


def _record(schema: Schema, ledger: Ledger, version: str, facts: frozenset[str]) -> None:
    """Write into the ledger what was verified, for these declarations; a snapshot that was prepared for them stays."""
    about = declared(schema)
    write_record(ledger, version, replace(read_record(ledger, version, about), declared=about, facts=facts))


budget = report


# --- text ---------------------------------------------------------------------------------------------------------


def _table_text(facts: TableFacts) -> str:
    lines = [f"table {printable(facts.table.name)}: {facts.rows:,} rows"]
    if facts.unit is not None:
        lines += [f"  {line}" for line in _unit_lines(facts.unit, facts.table, facts.unique)]
    for reference, count in facts.dangling:
        if count:
            leads = f"{reference.table}.{', '.join(reference.targets)}"
            lines.append(f"  {count:,} rows refer by {printable(reference.name)} to no row of {printable(leads)}")
    for dependence, count in facts.divided:
        if count:
            named, told = (printable(", ".join(part)) for part in (dependence.columns, dependence.determined))
            lines.append(
                f"  {count:,} values of {named} do not determine {told}: rows beyond one group of a unit are cut"
            )
    width = max((len(printable(c.column.name)) for c in facts.columns), default=0)
    lines += [f"  {printable(c.column.name):<{width}}  {_column_text(c)}" for c in facts.columns]
    return "\n".join(lines)


def _unit_lines(unit: UnitFacts, table: Table, unique: bool) -> list[str]:
    limit, each = table.max_rows_per_unit, f" a {table.period.every}" if table.period is not None else ""
    declared = f"the declared limit is {limit:,}{each}" if limit is not None else "no limit is declared"
    declared = "the key allows one" if unique else declared
    lines = [f"{unit.units:,} units with 1 to {unit.most:,} rows{each}, {float(unit.mean):.4g} on average; {declared}"]
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
    if facts.unfit:
        parts.append(f"{facts.unfit:,} of them no {column.sqltype}")
    if facts.too_long:
        most = f"{column.length:,} elements" if column.sqltype.element is not None else f"{column.longest:,} characters"
        parts.append(f"{facts.too_long:,} of them longer than {most}")
    if facts.nans:
        parts.append(f"{facts.nans:,} NaN, treated as NULL in sums")
    if facts.outside:
        clamped = isinstance(column.domain, Interval)
        named = ", ".join(f"{printable(value)!r} {count:,}" for value, count in facts.off)
        off = f"outside the domain ({named})" if named else "outside the domain"
        parts.append(f"{facts.outside:,} {'clamped to the bounds' if clamped else off}")
    elif facts.outside is None and not (column.sqltype.is_boolean or column.sqltype.element is not None):
        parts.append("no bounds or domain")
    return ", ".join(parts)
