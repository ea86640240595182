"""From a path to a session: the schema is read, ledger and data are opened, the analyst is found."""

from __future__ import annotations

from pathlib import Path

from dpsql.accounting.charging import budget_of
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import error
from dpsql.dataset.sharing import SHARED
from dpsql.mechanisms.source import NoiseSource
from dpsql.schema.model import RESERVED, Analyst, Schema
from dpsql.schema.toml import read_schema
from dpsql.session.commons import Commons
from dpsql.session.session import Session


def default_ledger(schema: Schema) -> Path:
    """Default path of a dataset's ledger."""
    return schema.folder / (schema.ledger if schema.ledger is not None else f"{schema.name}.ledger")


def ledger_identity(schema: Schema) -> str:
    """Identity that a ledger is bound to."""
    return f"{schema.name} ({schema.privacy.unit})"


def find_analyst(schema: Schema, name: str | None) -> Analyst:
    """The analyst of that name; without declared analysts any name is a label."""
    if name is not None and name.startswith(RESERVED):
        what = f"names that begin with {RESERVED!r} are dpsql's own: what is charged under them is the owner's"
        raise error(803, what, hint="choose another name")
    if schema.analysts is None:
        return Analyst(name or "default")
    found = next((a for a in schema.analysts if a.name == name), None)
    if found is None:
        who = f"{name!r} is not a declared analyst" if name else "this dataset is open to declared analysts only"
        raise error(803, who, hint="ask the owner, or name a declared analyst: analyst=NAME, --analyst NAME in a shell")
    return found


def open_session(
    schema: str | Path | Schema,
    analyst: str | None,
    ledger: str | Path | None,
    noise: NoiseSource | None = None,
    commons: Commons | None = None,
    keeps_head: bool = True,
) -> Session:
    """Read the schema, open the ledger and the data, and find the analyst.

    noise   where randomness comes from; tests alone pass one
    commons of the sessions of this thread; None: it keeps its own
    keeps_head as of Ledger.open
    Errors  504 the ledger keeps its promise by another accounting; else as Sharing.open
    """
    declared = schema if isinstance(schema, Schema) else read_schema(schema)
    who = find_analyst(declared, analyst)
    file = ledger if ledger is not None else default_ledger(declared)
    opened = Ledger.open(file, ledger_identity(declared), keeps_head=keeps_head)
    try:
        opened.look(
            budget_of(declared), lambda books: None
        )  # the ledger counts as the schema says, or nothing is answered
        dataset = SHARED.open(declared, opened, approve=declared.analysts is None)
    except BaseException:
        opened.close()
        raise
    try:
        return Session(dataset, opened, who, noise, commons)
    except BaseException:
        dataset.close()
        opened.close()
        raise
