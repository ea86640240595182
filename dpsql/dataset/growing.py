"""Changes of some data since a version was approved: of which tables, and to which of them rows were only added, as files or at the end
of one."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import ApprovedFile, ApprovedFiles, approved_files
from dpsql.accounting.versions import Versions
from dpsql.core.errors import error
from dpsql.dataset.closing import NO_PERIODS, Periods, canonical_table_with, kept_in
from dpsql.engines.base import Engine
from dpsql.engines.signature import Digests, FileParts, FileStart, Lengths, content
from dpsql.engines.structure import canonical_table
from dpsql.schema.model import Schema, Table


def taken(engine: Engine, ledger: Ledger, version: str | None = None) -> Digests:
    """Digests of an engine's contents; with those of as many bytes of each file as an approved version had. Raises 707."""
    try:
        return engine.signature.digests(ledger.secret, _lengths(ledger, version))
    except OSError:
        pass
    raise error(707, "a data file cannot be read to its end", hint="see that it is readable and on a healthy disk")


def _lengths(ledger: Ledger, version: str | None) -> Lengths:
    files = approved_files(ledger, version) if version is not None else {}
    return {table: {name: file.length for name, file in each.items()} for table, each in files.items()}


def moved_since(version: str, schema: Schema, ledger: Ledger, digests: Digests) -> tuple[Table, ...]:
    """The declared tables whose contents or structure are other ones than in an approved version."""
    now, known = (
        contents_of_tables(schema, ledger, digests, kept_in(ledger, version)),
        Versions(ledger).contents(version),
    )
    return tuple(table for table in schema.tables if now[table.name] != known.get(table.name))


def contents_of_tables(schema: Schema, ledger: Ledger, digests: Digests, kept: Periods = NO_PERIODS) -> dict[str, str]:
    """Text that stands for the contents and the declared structure of each table; without the ledger's key it says nothing.

    kept  see closing.py
    """
    return {
        t.name: content(digests.tables[t.name], ledger.secret, canonical_table_with(schema, t, kept))
        for t in schema.tables
    }


def contents_of_files(schema: Schema, ledger: Ledger, digests: Digests) -> ApprovedFiles:
    """The same of each file of every private table that is read from files, by its name."""
    return _approved(schema, ledger, digests.files)


def _approved(schema: Schema, ledger: Ledger, files: Mapping[str, Mapping[str, FileStart]]) -> ApprovedFiles:
    return {
        t.name: {
            name: ApprovedFile(content(one.digest, ledger.secret, canonical_table(schema, t)), one.length)
            for name, one in files[t.name].items()
        }
        for t in schema.tables
        if t.name in files and not t.public
    }


def only_added_to(version: str, schema: Schema, ledger: Ledger, digests: Digests) -> FileParts:
    """By table that has more files since a version, or files with more bytes at their end, the approved files, and of those that have
    more the bytes that were approved.

    digests  as `taken` gives them for this version

    Why  each of them is there under its name and begins with every byte that was approved, for the same structure (rule 63)
    """
    known = approved_files(ledger, version)
    whole, starts = contents_of_files(schema, ledger, digests), _approved(schema, ledger, digests.starts)
    found: dict[str, dict[str, FileStart | None]] = {}
    for table, now in whole.items():
        approved = known.get(table, {})
        same = {name for name, file in approved.items() if name in now and now[name].content == file.content}
        longer = {name for name, file in approved.items() if starts[table].get(name) == file}
        if approved and same | longer == approved.keys() and (longer or len(now) > len(same)):
            found[table] = {name: digests.starts[table][name] if name in longer else None for name in approved}
    return found
