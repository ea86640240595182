"""From the TOML document to a Schema: every value is read, every wrong one is reported, nothing is guessed.

A value that is wrong reads as a stand-in, so that the rest of the file can still be judged; toml.read_schema raises
before any of it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dpsql.schema.checks import check
from dpsql.schema.limits import read_limits
from dpsql.schema.mistakes import Mistakes, shown, suggestion
from dpsql.schema.model import GUARD_MODES, Guard, Privacy, Schema, Table
from dpsql.schema.partition import check_partition
from dpsql.schema.people import check_people, read_analysts, read_reservations, read_roles
from dpsql.schema.privacy import read_privacy
from dpsql.schema.roles import default_role
from dpsql.schema.section import Section
from dpsql.schema.tables import Declared, read_columns, read_tables, spelt_column

TOP = dict.fromkeys(("dataset", "privacy", "guard", "limits", "roles", "analysts", "reservations", "tables"), "{ ... }")
DATASET = {"name": '"clinic"', "source": '"."', "ledger": '"clinic.ledger"'}
GUARD = {"mode": '"block"', "k": "20", "readable": "10"}
NOT_IN_A_FILE_NAME = '/\\:*?"<>|'


def read(document: Mapping[str, object], folder: Path, mistakes: Mistakes) -> Schema:
    """The schema of a document; all that is wrong with it is added to `mistakes`."""
    top = Section(document, "the file", TOP, mistakes)
    top.refuse_unknown()
    name, source, ledger = _dataset(top)
    privacy, guard = read_privacy(top), _guard(top)
    roles, analysts, reservations = read_roles(top), read_analysts(top), read_reservations(top)
    declared = read_tables(top, source)
    tables = tuple(read_columns(declared))
    privacy = _spelt(privacy, declared)
    limits = read_limits(top)
    schema = Schema(name, source or "", ledger, privacy, guard, tables, analysts, roles, reservations, folder, limits)
    schema = replace(schema, tables=tuple(_with_roles(schema, t) for t in tables))
    check_people(schema, mistakes)
    check(schema, frozenset(d.table.name for d in declared if d.broken), mistakes)
    check_partition(schema, mistakes)
    return schema


def _spelt(privacy: Privacy, declared: list[Declared]) -> Privacy:
    """The names of the unit and of the partition as they are declared."""
    if privacy.partition is not None:
        privacy = replace(privacy, partition=spelt_column(*privacy.partition, declared))
    if not privacy.unit or privacy.unit_table is None or privacy.unit_column is None:
        return privacy
    return replace(privacy, unit=".".join(spelt_column(privacy.unit_table, privacy.unit_column, declared)))


def _with_roles(schema: Schema, table: Table) -> Table:
    columns = (replace(c, role=c.role or default_role(schema, table, c)) for c in table.columns)
    return replace(table, columns=tuple(columns))


def _dataset(top: Section) -> tuple[str, str | None, str | None]:
    """Name, source and ledger; the name becomes part of a file's name, so it may not lead elsewhere."""
    section = top.inner("dataset", DATASET, "[dataset]")
    if section is None:
        if "dataset" not in top:
            top.wrong("[dataset] is missing", 'write [dataset] with name = "clinic", source = "."')
        return "", None, None
    section.require("name", "source")
    name = section.text("name") or ""
    if name.startswith(".") or any(c in NOT_IN_A_FILE_NAME for c in name):
        section.misfit("name", "a name that can begin a file's name")
    return name, section.text("source"), section.text("ledger")


def _guard(top: Section) -> Guard:
    section = top.inner("guard", GUARD, "[guard]")
    if section is None:
        return Guard()
    mode = section.text("mode") or Guard().mode
    if mode not in GUARD_MODES:
        section.wrong(f"mode {shown(mode)} is unknown", suggestion(mode, list(GUARD_MODES)))
    return Guard(mode, section.count("k") or Guard().k, section.positive("readable") or Guard().readable)
