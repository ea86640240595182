"""From a declared schema to data that may be asked: the files, what is public in them, and the approved version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import date

from dpsql.accounting.answers import Answers
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import VersionRecord, keep_files, read_record, snapshot_folder
from dpsql.accounting.versions import TableVersions, Versions
from dpsql.core.errors import Error, error
from dpsql.dataset import binding
from dpsql.dataset.closing import (
    NO_PERIODS,
    Periods,
    by_period,
    canonical_with,
    kept_in,
    latest_kept,
    named_periods,
    prepared_versions,
)
from dpsql.dataset.growing import contents_of_files, contents_of_tables, moved_since, only_added_to, taken
from dpsql.engines import snapshot
from dpsql.engines.base import Engine, Identity
from dpsql.engines.public import fill
from dpsql.engines.registry import kind_for
from dpsql.engines.signature import UNREAD, Digests, FileParts, content
from dpsql.engines.snapshot import Snapshot
from dpsql.engines.structure import NONE_ADDED, Added, declared, verify, verify_public
from dpsql.plan.tables import PublicTable
from dpsql.schema import spent
from dpsql.schema.model import Schema
from dpsql.schema.moving import until
from dpsql.sql import trees

VERSIONS_TABLE = "versions"
ASKED_ANEW = "the stored answers are of an earlier version of dpsql: each question is charged once more"


@dataclass(frozen=True, slots=True)
class Dataset:
    """Opened data.

    schema   as declared, with the columns of public tables and the domains they list filled in
    engine   reads the data, and only as long as it is this version
    version  random id of the approved contents: it tells nothing about them
    tables   the same of each table's own
    moved    private tables whose contents are other ones now, and not approved; and when those that `tables` names were. Nothing reads
             them: what is stored is answered, and what would have to be bought is refused
    older    such tables that are read all the same, as they were approved: from the prepared snapshot
    periods  the versions of closed periods that are older than their table's own: see closing.py
    facts    what was verified of this version, named by schema/model.py: only ever to skip what is then the identity; none where the
             engine cannot tell any other contents from it
    notes    what whoever opened it has to be told, once
    release  takes the engine back, where others use it too; None: it is closed
    """

    schema: Schema
    engine: Engine
    version: str
    tables: Mapping[str, str]
    facts: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    release: Callable[[], None] | None = None
    moved: Mapping[str, str] = field(default_factory=dict)
    older: Mapping[str, str] = field(default_factory=dict)
    periods: Periods = field(default_factory=dict)

    @property
    def versions(self) -> TableVersions:
        return TableVersions(self.tables, self.periods)

    def close(self) -> None:
        """Let go of it; call once."""
        (self.release or self.engine.close)()


def open_dataset(schema: Schema, ledger: Ledger, *, approve: bool) -> Dataset:
    """Open the data of a schema, provided that its contents and declared structure were approved.

    approve  verify and approve here what was not approved before, as the owner's `check` does, without the limits of statements:
             where no analysts are declared (rule 36); of tables with periods the owner approves, since a snapshot is written then
    Errors   707 a file is missing or cannot be read; 804 the data does not have the declared structure; 708 it is not
             approved, or changed while it was opened; 704, 705 the ledger's; 714 it is bound to another ledger
    """
    approve = approve and not by_period(schema)
    binding.require(schema, ledger)
    notes: tuple[str, ...] = (binding.IN_MEMORY,) if ledger.store.file is None else ()
    engine = _begun(schema, ledger, approve)
    try:
        filled = fill(engine, schema)
        version, digests = recognised(engine, schema, ledger)
        engine, version, moved, older = _found(engine, schema, ledger, version, None if approve else digests)
        if version is not None:
            verify_public(engine, filled)
            notes += binding.mark(schema, ledger) if approve else ()
        else:
            version, told = approve_version(engine, filled, ledger, digests=digests)
            notes += told
        notes += asked_anew(ledger)
        # a file may be another one and look the same: then every limit and bound is enforced on it (rule 63)
        facts = read_record(ledger, version, declared(schema)).facts if engine.is_pinned else frozenset[str]()
        tables, filled = dated(filled, ledger, version)
        engine.limit(engine_memory(schema))
        require_unchanged(engine)
    except BaseException:
        engine.close()
        raise
    return Dataset(filled, engine, version, tables, facts, notes, None, moved, older, kept_in(ledger, version))


Found = tuple[Engine, str | None, dict[str, str], dict[str, str]]


def _found(engine: Engine, schema: Schema, ledger: Ledger, version: str | None, digests: Digests | None) -> Found:
    """The engine over an approved version, that version, and the tables that moved or are older: see Dataset. None for a version that
    is to be approved.

    version  as whose contents the files are recognised
    digests  of the files; None where what is no version yet is to be one
    """
    moved, older = dict[str, str](), dict[str, str]()
    if version is None and digests is not None:
        version, moved = _approved_before(schema, ledger, digests)
        served = engine if engine.is_pinned else _from_snapshot(engine, version, schema, ledger)
        only = only_added_to(version, schema, ledger, digests) if served is None and not by_period(schema) else {}
        if served is not None:
            engine, moved, older = served, older, moved
        elif only:
            engine = _from_files(engine, only, schema)
            older = {table: moved.pop(table) for table in only}
    if by_period(schema) and version is not None and not engine.is_pinned:
        return _with_periods(engine, schema, ledger, version)
    return engine, version, moved, older


def _begun(schema: Schema, ledger: Ledger, approve: bool) -> Engine:
    """The engine over the declared files, or over the snapshot of the version that these are known to hold.

    Where files of private tables are gone it is over the snapshot of the version that was approved last; not where the owner approves.
    """
    try:
        return kind_for(schema).begin(schema, find=lambda signature: _snapshot(signature, schema, ledger))
    except Error as problem:
        fault = problem
    latest = Versions(ledger).latest() if fault.code == "DPSQL-707" and not approve else None
    found = _snapshot_of(latest[0], schema, ledger) if latest is not None else None
    if found is None:
        raise fault
    return kind_for(schema).begin(schema, find=lambda _: found)


def _approved_before(schema: Schema, ledger: Ledger, digests: Digests) -> tuple[str, dict[str, str]]:
    """The version that was approved last, and the private tables that are other ones now. Raises 708 where public tables are too, or
    where there is none.

    Why  which tables changed is public (rule 61). A table that did not is the one that was verified, with its structure; what depends
         on one that did is read off stored answers alone. Public tables are read when a statement is planned, before anything is bought
    """
    latest = Versions(ledger).latest()
    if latest is not None:
        moved = moved_since(latest[0], schema, ledger, digests)
        if not any(table.public for table in moved):
            times, tables = Versions(ledger).times(), versions_of_tables(ledger, latest[0], schema)
            return latest[0], {table.name: times[tables[table.name]] for table in moved}
    raise error(
        708,
        "the data, or the structure declared for it, is not approved",
        hint="its owner must run `dpsql check` with this schema",
    )


def _from_snapshot(engine: Engine, version: str, schema: Schema, ledger: Ledger) -> Engine | None:
    """The engine over an approved version's prepared snapshot, in place of one over files that hold another version now; None where
    there is none.

    Why  its rows are those that were approved, whatever is written to the declared files. Public tables are read from these: they were
         the approved ones, and must be the same until the new engine watches them
    """
    found = _snapshot_of(version, schema, ledger)
    if found is None:
        return None
    served = _in_place_of(engine, kind_for(schema).begin(schema, find=lambda _: found))
    # a snapshot that lacks columns is not read
    if served.is_pinned:
        engine.close()
        return served
    served.close()
    return None


def _with_periods(engine: Engine, schema: Schema, ledger: Ledger, version: str) -> Found:
    """The same over a version's prepared snapshot, or, where none is written yet, over the one before. Raises 708 where there is none.

    Why  rows of closed periods are those of the snapshot, whatever the source has (rule 62)
    """
    digests = taken(engine, ledger)
    for one in prepared_versions(ledger, version):
        served = _from_snapshot(engine, one, schema, ledger)
        if served is not None:
            times, tables = Versions(ledger).times(), versions_of_tables(ledger, one, schema)
            moved = moved_since(one, schema, ledger, digests)
            return served, one, {}, {table.name: times[tables[table.name]] for table in moved}
    raise error(
        708,
        "the prepared snapshot of a table with periods is not there, or is of other declarations",
        hint="its owner must run `dpsql refresh` with this schema, or `dpsql check` where that says so",
    )


def _from_files(engine: Engine, only: FileParts, schema: Schema) -> Engine:
    """The engine over the approved files, or first bytes of them, of tables to which rows were only added, in place of one over all.

    Why  it is known by them alone: before it was opened they were the approved ones, and must be the same after; first bytes are
         compared when they are copied, and from then on nothing else reads the file
    """
    served = _in_place_of(engine, kind_for(schema).begin(schema, lambda _: None, only=only))
    engine.close()
    return served


def _in_place_of(engine: Engine, served: Engine) -> Engine:
    """The second engine, if what the first one was opened on is still the same."""
    try:
        require_unchanged(engine)
    except BaseException:
        served.close()
        raise
    return served


def versions_of_tables(ledger: Ledger, version: str, schema: Schema) -> Mapping[str, str]:
    """Version of each declared table in a data version: equal while its contents and structure are."""
    known = Versions(ledger).of_tables(version)
    return {table.name: known.get(table.name, version) for table in schema.tables}


def table_versions(ledger: Ledger, version: str, schema: Schema) -> TableVersions:
    """The same, with the periods that it keeps."""
    return TableVersions(versions_of_tables(ledger, version, schema), kept_in(ledger, version))


def dated(schema: Schema, ledger: Ledger, version: str) -> tuple[Mapping[str, str], Schema]:
    """Version of each table, and the schema with the bounds that end on the day of the first approval of that, UTC."""
    tables, times = versions_of_tables(ledger, version, schema), Versions(ledger).first_times()
    return tables, until(schema, {name: date.fromisoformat(times[own][:10]) for name, own in tables.items()})


def versions_table(dataset: Dataset, ledger: Ledger) -> PublicTable:
    """dpsql.versions: of each declared table the version that is read, and when it was approved; then of closed periods with an
    earlier one."""
    times, rows = Versions(ledger).times(), [(name, version, "") for name, version in dataset.tables.items()]
    for table in by_period(dataset.schema):
        rows += [(table.name, version, name) for name, version in named_periods(dataset.periods, table)]
    # UTC, as a TIMESTAMP without a zone
    approved = [times[version].partition("+")[0] for _, version, _ in rows]
    data = (
        list[object](name for name, _, _ in rows),
        list[object](version for _, version, _ in rows),
        list[object](approved),
        list[object](period or None for _, _, period in rows),
    )
    return PublicTable(VERSIONS_TABLE, spent.TABLES[VERSIONS_TABLE], data)


def asked_anew(ledger: Ledger) -> tuple[str, ...]:
    """Notes where stored answers are of an earlier version."""
    return (ASKED_ANEW,) if Answers(ledger).asks_anew(trees.VERSION) else ()


def engine_memory(schema: Schema) -> int:
    """[bytes] of the owner's limit that the engine has; each of the sandbox's two databases, of which one works at a time, has a
    quarter."""
    return schema.limits.memory // 2


def sandbox_memory(schema: Schema) -> int:
    """[bytes] of the owner's limit that each of the sandbox's databases has."""
    return schema.limits.memory // 4


def recognised(
    engine: Engine, schema: Schema, ledger: Ledger, digests: Digests | None = None
) -> tuple[str | None, Digests]:
    """The version under which these contents and this structure were approved, None if they were not; and the digests of the contents,
    which tell what became of those that were approved last.

    digests  of the engine's contents, where they were taken already

    Unchanged files are recognised by their signature, and have none; else every byte is read, once.
    """
    versions, structure = Versions(ledger), canonical_with(schema, latest_kept(schema, ledger))
    signature = engine.signature.keyed(ledger.secret, structure)
    known = versions.by_signature(signature) if signature else None
    if known is not None:
        return known, digests or UNREAD
    latest = versions.latest()
    digests = digests or taken(engine, ledger, latest[0] if latest is not None else None)
    version = versions.by_content(content(digests.whole, ledger.secret, structure))
    if version is not None:
        require_unchanged(engine)
        if signature:
            versions.record_signature(version, signature)
    return version, digests


def approve_version(
    engine: Engine,
    schema: Schema,
    ledger: Ledger,
    *,
    new_ledger: bool = False,
    known: Collection[str] = (),
    added: Added = NONE_ADDED,
    digests: Digests | None = None,
    kept: Periods = NO_PERIODS,
) -> tuple[str, tuple[str, ...]]:
    """Verify the structure, bind the data to its ledger and approve the contents; equal contents keep their version, whoever approves
    first.

    new_ledger  this ledger takes the place of another one that the data is bound to
    known       private tables that the last approved version had with the same contents and structure: verified then
    added       those to which files were only added since
    digests     of the engine's contents, where they were taken already: they are of what is verified, for the contents must be the same
                after it as when they were opened
    kept        closed periods that it keeps the rows of
    Output      the version, and what has to be told of the ledger
    Errors      804 where the structure is not as declared, 708 where the data changed meanwhile, 714 as `binding`
    """
    verified, latest = verify(engine, schema, known, added), Versions(ledger).latest()
    structure = canonical_with(schema, kept)
    digests = digests or taken(engine, ledger)
    require_unchanged(engine)
    told = (
        *binding.mark(schema, ledger, anew=new_ledger),
        *binding.copies(schema, ledger, digests.whole, anew=new_ledger),
    )
    signature = engine.signature.keyed(ledger.secret, structure)
    text = content(digests.whole, ledger.secret, structure)
    tables, files = contents_of_tables(schema, ledger, digests, kept), contents_of_files(schema, ledger, digests)
    version = Versions(ledger).approve(text, signature, VersionRecord(verified, files=files, kept=kept).text, tables)
    keep_files(ledger, version, latest[0] if latest is not None else None, files)
    return version, told


def require_unchanged(engine: Engine) -> None:
    """Raise 708 unless the files are still those that were opened."""
    if not engine.unchanged():
        raise error(708, "the data changed while it was opened", hint="open it again when nothing writes to it")


def _snapshot(signature: Identity, schema: Schema, ledger: Ledger) -> Snapshot | None:
    """The prepared snapshot of the version that these files are known to hold, if it is there just as it was written.

    Anything else is no error: the same answers come from the declared files.
    """
    structure = canonical_with(schema, latest_kept(schema, ledger))
    version = Versions(ledger).by_signature(signature.keyed(ledger.secret, structure))
    return _snapshot_of(version, schema, ledger) if version is not None else None


def _snapshot_of(version: str, schema: Schema, ledger: Ledger) -> Snapshot | None:
    """The prepared snapshot of an approved version, if it is there just as it was written."""
    root = snapshot_folder(ledger)
    if root is None:
        return None
    about = declared(schema)
    record = read_record(ledger, version, about)
    found = snapshot.look(root, version, schema) if record.snapshot is not None else None
    if found is None or record.snapshot is None or found.signature.keyed(ledger.secret, about) != record.snapshot[0]:
        return None
    return found
