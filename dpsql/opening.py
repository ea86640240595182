"""From a declared schema to data that may be asked: the files, what is public in them, and the approved version."""

from __future__ import annotations

import json
from dataclasses import dataclass

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.versions import Versions
from dpsql.engines.duckdb import DuckDBEngine
from dpsql.engines.public import fill
from dpsql.engines.structure import canonical, verify
from dpsql.errors import error
from dpsql.schema.model import Schema


@dataclass(frozen=True, slots=True)
class Dataset:
    """Opened data.

    schema   as declared, with the columns of public tables and the domains they list filled in
    engine   reads the data, and only as long as it is this version
    version  random id of the approved contents: it tells nothing about them
    """

    schema: Schema
    engine: DuckDBEngine
    version: str


def open_dataset(schema: Schema, ledger: Ledger, *, approve: bool) -> Dataset:
    """Open the data of a schema, provided that its contents and declared structure were approved.

    approve  verify and approve here what was not approved before: where no analysts are declared (rule 36)
    Errors   707 a file is missing or cannot be read; 804 the data does not have the declared structure; 708 it is not
             approved, or changed while it was opened; 704, 705 the ledger's
    """
    engine = DuckDBEngine.open(schema)
    try:
        filled = fill(engine, schema)
        version = approved_version(engine, schema, ledger)
        if version is None and approve:
            version = approve_version(engine, filled, ledger)
        if version is None:
            raise error(
                708,
                "the data, or the structure declared for it, is not approved",
                hint="its owner must run `dpsql check` with this schema",
            )
        require_unchanged(engine)
    except BaseException:
        engine.close()
        raise
    return Dataset(filled, engine, version)


def approved_version(engine: DuckDBEngine, schema: Schema, ledger: Ledger) -> str | None:
    """The version under which these contents and this structure were approved; None if they were not.

    Unchanged files are recognised by their signature; else every byte is read, once.
    """
    versions, structure = Versions(ledger), canonical(schema)
    signature = engine.signature.keyed(ledger.secret, structure)
    known = versions.by_signature(signature)
    if known is not None:
        return known
    version = versions.by_content(_content(engine, ledger, structure))
    if version is not None:
        require_unchanged(engine)
        versions.record_signature(version, signature)
    return version


def approve_version(engine: DuckDBEngine, schema: Schema, ledger: Ledger) -> str:
    """Verify the structure and approve the contents; equal contents keep their version, whoever approves first.

    Raises 804 where the structure is not as declared, 708 where the data changed meanwhile.
    """
    verified = verify(engine, schema)
    structure = canonical(schema)
    content = _content(engine, ledger, structure)
    require_unchanged(engine)
    signature = engine.signature.keyed(ledger.secret, structure)
    return Versions(ledger).approve(content, signature, json.dumps({"verified": verified}))


def require_unchanged(engine: DuckDBEngine) -> None:
    """Raise 708 unless the files are still those that were opened."""
    if not engine.unchanged():
        raise error(708, "the data changed while it was opened", hint="open it again when nothing writes to it")


def _content(engine: DuckDBEngine, ledger: Ledger, structure: str) -> str:
    try:
        return engine.signature.content(ledger.secret, structure)
    except OSError:
        pass
    raise error(707, "a data file cannot be read to its end", hint="see that it is readable and on a healthy disk")
