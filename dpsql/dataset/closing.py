"""Closed periods of tables that have some (rule 62): whose rows a version keeps as an earlier one had them.

A period is closed in a version of its table that was approved on or after the day after it. The next version of the table keeps its
rows: they are copied from the prepared snapshot, and what the source has of that period is not taken until it is revised. Periods that
are open are taken from the source whole.

Why     which periods a version keeps is decided by the days on which versions were approved, by the declarations, and by the periods
        that the owner names: by no row
Limit   the rows of closed periods are in the prepared snapshot alone; where that is lost, the owner's `check` begins anew
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import read_record, snapshot_folder, stored_record
from dpsql.accounting.versions import Versions
from dpsql.core.errors import error
from dpsql.core.wording import listed
from dpsql.engines import snapshot
from dpsql.engines.signature import content
from dpsql.engines.snapshot import Snapshot
from dpsql.engines.structure import canonical, canonical_table, declared
from dpsql.schema.by_period import days, key
from dpsql.schema.mistakes import printable
from dpsql.schema.model import Schema, Table, facts_about

Periods = Mapping[str, Mapping[str, str]]
NO_PERIODS: Periods = {}
LOST = "the prepared snapshot is not there, and rows of closed periods are nowhere else"
BEGIN_ANEW = (
    "its owner may run `dpsql check`, which takes every period from the source again: what is stored is asked anew"
)
ALL = "all"
"""In place of the names of periods: every closed one."""
WAY, REVISED = "way", "revised"
"""In place of a period's name: how the table's rows reach their units, and the version after which periods were revised last."""


def by_period(schema: Schema) -> list[Table]:
    """The tables with periods."""
    return [table for table in schema.tables if table.period is not None]


def kept_in(ledger: Ledger, version: str) -> Periods:
    """The periods that a version keeps, with the version of each: see VersionRecord."""
    return stored_record(ledger, version).kept


def closed_in(schema: Schema, ledger: Ledger, version: str) -> dict[str, dict[str, str]]:
    """The periods that are closed in a version, with the version of each: those that it keeps, and those that its own rows are of."""
    versions, kept = Versions(ledger), kept_in(ledger, version)
    own, times = versions.of_tables(version), versions.first_times()
    found: dict[str, dict[str, str]] = {}
    for table in by_period(schema):
        # rows that were read otherwise, or as other units', are not these rows
        if kept.get(key(table), {}).get(WAY) == _way(schema, table):
            day = date.fromisoformat(times[own[table.name]][:10])
            closed = dict.fromkeys(_ended(table, day), own[table.name])
            found[key(table)] = closed | dict(named_periods(kept, table))
    return found


def _way(schema: Schema, table: Table) -> str:
    return repr([(r.name, r.table, r.targets) for r in schema.path_to_unit(table)])


def _ended(table: Table, day: date) -> Iterator[str]:
    """The names of the periods that ended before a day began."""
    assert table.period is not None
    first, last = days(table)
    for period in table.period.within((first, min(last, day - timedelta(days=1)))):
        if table.period.after(period) <= day:
            yield table.period.name(period)


def _kept_next(
    schema: Schema, ledger: Ledger, latest: str, base: str, moved: Collection[str], revised: Periods
) -> Periods:
    """The periods that the next version is to keep.

    latest   that was approved last
    base     whose rows it keeps: see `base_of`
    moved    tables that are other ones than in the latest
    revised  periods that are taken from the source again
    """
    closed, before = closed_in(schema, ledger, base), kept_in(ledger, latest)
    found: dict[str, Mapping[str, str]] = {}
    for table in by_period(schema):
        of = key(table)
        known = closed.get(of, {}) if table.name in moved or of in revised else before.get(of, {})
        left = {name: version for name, version in known.items() if name not in revised.get(of, {})}
        # a revision makes another version, whether any row differs or not
        found[of] = {WAY: _way(schema, table), **left, **({REVISED: latest} if of in revised else {})}
    return found


def _anew(schema: Schema) -> NextVersion:
    """A version that keeps nothing."""
    return NextVersion({key(table): {WAY: _way(schema, table)} for table in by_period(schema)})


def named_periods(kept: Periods, table: Table) -> list[tuple[str, str]]:
    """The periods of a table that are kept, by their names and in their order, with the version of each."""
    return _periods(kept.get(key(table), {})) if table.period is not None else []


def keeps_any(kept: Periods) -> bool:
    """True if rows of some period are kept."""
    return any(_periods(found) for found in kept.values())


def _periods(found: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted((name, version) for name, version in found.items() if name not in (WAY, REVISED))


def _revised(schema: Schema, ledger: Ledger, base: str, names: Sequence[str]) -> Periods:
    """The closed periods that an owner names. Raises 802 for a name that none has."""
    closed = closed_in(schema, ledger, base)
    known = {name for periods in closed.values() for name in periods}
    unknown = [name for name in names if name not in known and name != ALL]
    if unknown:
        last = ", ".join(sorted(known)[-3:]) or "none yet"
        what = f"no closed period is called {listed([printable(name) for name in unknown])}"
        raise error(802, what, hint=f"write one of the closed periods (the last ones: {last}), or all")
    chosen = {t: {n: v for n, v in periods.items() if n in names or ALL in names} for t, periods in closed.items()}
    return {table: periods for table, periods in chosen.items() if periods}


@dataclass(frozen=True, slots=True)
class NextVersion:
    """The version that is to be approved, of tables with periods.

    kept     see VersionRecord
    base     whose prepared snapshot the kept rows are in; "" where nothing is kept
    revised  tables of which periods are taken from the source again
    """

    kept: Periods = field(default_factory=dict)
    base: str = ""
    revised: frozenset[str] = frozenset()

    def holding(self, facts: frozenset[str], schema: Schema, ledger: Ledger) -> frozenset[str]:
        """Facts of the source that hold of the kept rows too.

        Why  a fact about each row, or about the rows of a unit in one period, holds of all periods where it does of either part
        """
        if not self.base:
            return facts
        before = read_record(ledger, self.base, declared(schema)).facts
        doubtful = frozenset[str]().union(*(facts_about(t) for t in by_period(schema) if named_periods(self.kept, t)))
        return facts - (doubtful - before)


def next_version(schema: Schema, ledger: Ledger, moved: Collection[str], revise: Sequence[str] = ()) -> NextVersion:
    """The version after the one that was approved last, where some tables moved or periods are revised. Raises 708 where the rows of
    closed periods are lost, 802 for a name of no period."""
    latest = Versions(ledger).latest()
    if latest is None or not by_period(schema):
        if revise:
            raise error(802, "no table has periods", hint="leave --revise out")
        return _anew(schema)
    base = base_of(schema, ledger, latest[0])
    if base is None:
        kept, prepared = kept_in(ledger, latest[0]), stored_record(ledger, latest[0]).snapshot is not None
        if not kept or not (prepared or keeps_any(kept) or revise):
            return _anew(schema)
        raise error(708, LOST, hint=BEGIN_ANEW)
    revised = _revised(schema, ledger, base[0], revise) if revise else NO_PERIODS
    found = _kept_next(schema, ledger, latest[0], base[0], moved, revised)
    return NextVersion(found, base[0], frozenset(t.name for t in by_period(schema) if key(t) in revised))


def next_of_check(schema: Schema, ledger: Ledger, moved: Callable[[str], Collection[str]]) -> NextVersion:
    """The same for the owner's check, which begins anew from the source where no version was approved, or the kept rows are lost.

    moved  the tables that are other ones than in a version
    """
    latest = Versions(ledger).latest()
    if latest is None or not by_period(schema) or base_of(schema, ledger, latest[0]) is None:
        return _anew(schema)
    return next_version(schema, ledger, moved(latest[0]))


# --- identities -------------------------------------------------------------------------------------------------------


def canonical_with(schema: Schema, kept: Periods) -> str:
    """`canonical`, of rows of which some are kept: contents are the same only where these are."""
    return canonical(schema) + (repr(sorted((of, sorted(found.items())) for of, found in kept.items())) if kept else "")


def canonical_table_with(schema: Schema, table: Table, kept: Periods) -> str:
    """`canonical_table`, in the same way."""
    found = kept.get(key(table)) if table.period is not None else None
    return canonical_table(schema, table) + (repr(sorted(found.items())) if found else "")


def latest_kept(schema: Schema, ledger: Ledger) -> Periods:
    """The periods that the version which was approved last keeps."""
    latest = Versions(ledger).latest() if by_period(schema) else None
    return kept_in(ledger, latest[0]) if latest is not None else NO_PERIODS


# --- snapshots ----------------------------------------------------------------------------------------------------------


def base_of(schema: Schema, ledger: Ledger, version: str) -> tuple[str, Snapshot] | None:
    """A version and its prepared snapshot, byte for byte as it was written, which holds the rows that another version keeps: this one's
    own, or, where a refresh was killed before that was there, an earlier one's; None where all are lost."""
    kept = kept_in(ledger, version)
    for one in prepared_versions(ledger, version):
        closed = closed_in(schema, ledger, one)
        holds = all({*closed.get(of, {}).items()} >= {*_periods(found)} for of, found in kept.items())
        snapshot_of_one = _written(schema, ledger, one) if one == version or holds else None
        if snapshot_of_one is not None:
            return one, snapshot_of_one
    return None


def prepared_versions(ledger: Ledger, first: str) -> list[str]:
    """The versions that have a prepared snapshot: `first`, then the others, the latest before."""
    root, times = snapshot_folder(ledger), Versions(ledger).times()
    there = {path.name.partition(".")[0] for path in root.iterdir()} if root is not None and root.is_dir() else set()
    return [first, *sorted(there.intersection(times) - {first}, key=lambda version: times[version], reverse=True)]


def _written(schema: Schema, ledger: Ledger, version: str) -> Snapshot | None:
    root, record = snapshot_folder(ledger), stored_record(ledger, version)
    if root is None or record.snapshot is None:
        return None
    for folder in (snapshot.place(root, version), snapshot.before(root, version)):
        found = snapshot.at(folder, schema)
        if found is not None and bytes_of(found, ledger, record.declared) == record.snapshot[1]:
            return found
    return None


def bytes_of(found: Snapshot, ledger: Ledger, declared: str) -> str | None:
    """Text that stands for the bytes of a snapshot; None where they cannot be read."""
    try:
        return content(b"".join(found.signature.digests().values()), ledger.secret, declared)
    except OSError:
        return None


def file_of(found: Snapshot, schema: Schema, table: Table) -> Path:
    """The file of a table in a snapshot."""
    private = [t.name for t in schema.tables if not t.public]
    return found.files[private.index(table.name)]
