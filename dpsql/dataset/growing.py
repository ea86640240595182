"""Changes of some data since a version was approved: of which tables, and to which of them files were only added."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import approved_files
from dpsql.accounting.versions import Versions
from dpsql.core.errors import error
from dpsql.engines.base import Engine
from dpsql.engines.signature import Digests, content
from dpsql.engines.structure import canonical_table
from dpsql.schema.model import Schema, Table


def taken(engine: Engine, ledger: Ledger) -> Digests:
    """Digests of an engine's contents. Raises 707."""
    try:
        return engine.signature.digests(ledger.secret)
    except OSError:
        pass
    raise error(707, "a data file cannot be read to its end", hint="see that it is readable and on a healthy disk")


def moved_since(version: str, schema: Schema, ledger: Ledger, digests: Digests) -> tuple[Table, ...]:
    """The declared tables whose contents or structure are other ones than in an approved version."""
    now, known = contents_of_tables(schema, ledger, digests), Versions(ledger).contents(version)
    return tuple(table for table in schema.tables if now[table.name] != known.get(table.name))


def contents_of_tables(schema: Schema, ledger: Ledger, digests: Digests) -> dict[str, str]:
    """Text that stands for the contents and the declared structure of each table; without the ledger's key it says nothing."""
    return {t.name: content(digests.tables[t.name], ledger.secret, canonical_table(schema, t)) for t in schema.tables}


def contents_of_files(schema: Schema, ledger: Ledger, digests: Digests) -> dict[str, dict[str, str]]:
    """The same of each file of every table that has several, by its name."""
    return {
        t.name: {
            file: content(digest, ledger.secret, canonical_table(schema, t))
            for file, digest in digests.files[t.name].items()
        }
        for t in schema.tables
        if t.name in digests.files
    }


def only_added_to(version: str, schema: Schema, ledger: Ledger, digests: Digests) -> Mapping[str, frozenset[str]]:
    """By table to which files were only added since a version, the names of those that it had.

    Why  each of them is there under its name with every byte that was approved, for the same structure (rule 63)
    """
    now, known = contents_of_files(schema, ledger, digests), approved_files(ledger, version)
    return {
        table: frozenset(known[table])
        for table, files in now.items()
        if known.get(table) and known[table].items() < files.items()
    }
