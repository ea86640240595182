"""From the TOML document to a Schema: every value is read, every wrong one is reported, nothing is guessed.

A value that is wrong reads as a stand-in, so that the rest of the file can still be judged; toml.read_schema raises
before any of it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from dpsql.core.domains import Categories, Interval
from dpsql.schema.checks import check, placed
from dpsql.schema.mistakes import Mistakes, place_of, printable, shown
from dpsql.schema.model import GUARD_MODES, ROW, Column, Guard, Privacy, Schema, StatementLimits, Table
from dpsql.schema.people import check_people, read_analysts, read_reservations, read_roles
from dpsql.schema.privacy import read_privacy
from dpsql.schema.purchases import Purchases
from dpsql.schema.roles import default_role
from dpsql.schema.section import Section
from dpsql.schema.sizes import size
from dpsql.schema.tables import Declared, read_columns, read_tables, spelt_column
from dpsql.schema.write import quoted

TOP = dict.fromkeys(
    ("dataset", "privacy", "guard", "limits", "refresh", "roles", "analysts", "reservations", "tables"), "{ ... }"
)
DATASET = {"name": '"clinic"', "source": '"."', "ledger": '"clinic.ledger"'}
GUARD = {"mode": '"block"', "k": "20", "readable": "10"}
PURCHASES = {"epsilon": "0.5", "statements": '["SELECT COUNT(*) FROM person"]'}
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
    schema = Schema(name, source or "", ledger, privacy, guard, tables, analysts, roles, reservations, folder)
    schema = replace(schema, limits=read_limits(top), refresh=_purchases(top))
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
    mode = section.one_of("mode", GUARD_MODES) or Guard().mode
    return Guard(mode, section.count("k") or Guard().k, section.positive("readable") or Guard().readable)


def _purchases(top: Section) -> Purchases | None:
    section = top.inner("refresh", PURCHASES, "[refresh]")
    if section is None:
        return None
    section.require("epsilon", "statements")
    return Purchases(section.positive("epsilon") or Fraction(1), section.texts("statements"))


LIMITS = {"seconds": "60", "memory": '"2GB"', "rows": "1000000", "plan_seconds": "5"}
LEAST_MEMORY, MOST_MEMORY = 64 * 10**6, 10**15
"""[bytes] with less DuckDB opens next to nothing."""


def read_limits(top: Section) -> StatementLimits:
    """The limits as they are written; each that is not has its default."""
    section = top.inner("limits", LIMITS, "[limits]")
    if section is None:
        return StatementLimits()
    own = StatementLimits()
    return StatementLimits(
        section.positive("seconds") or own.seconds,
        _memory(section) or own.memory,
        section.count("rows") or own.rows,
        section.positive("plan_seconds") or own.plan_seconds,
    )


def _memory(section: Section) -> int | None:
    """[bytes]; None where it is absent or wrong (reported)."""
    written = section.text("memory")
    if written is None:
        return None
    found = size(written)
    if found is None or not LEAST_MEMORY <= found <= MOST_MEMORY:
        section.misfit("memory", "a size, 64MB or more")
        return None
    return found


MOST_VALUES = 1000


def check_partition(schema: Schema, mistakes: Mistakes) -> None:
    """Add what is wrong with the partition: the first thing, since the rest depends on it.

    A unit has one row and so one value; what is released of one value then loses nothing of the units of another.
    """
    if schema.privacy.partition is None or all(t.public for t in schema.tables):
        return
    found = placed(schema, "partition", schema.privacy.partition, "write a column of a private table", mistakes)
    if found is None:
        return
    (table, column), written = found, f"partition is {quoted('.'.join(schema.privacy.partition))}"
    if _may_repeat(schema, table, mistakes):
        what = f"{written}, but one unit can have several rows there"
        mistakes.add("[privacy]", what, f"write a column of {printable(schema.privacy.unit_table or '')}")
    elif not mistakes.at(place_of(table.name, column.name)):
        _check_column(written, column, mistakes)


def _may_repeat(schema: Schema, table: Table, mistakes: Mistakes) -> bool:
    """True if a unit can have several rows; false where the unit or the table is wrong already, and nobody can tell."""
    if schema.privacy.unit == ROW or mistakes.at("[privacy]") or mistakes.at(place_of(table.name)):
        return False
    return not schema.one_row_per_unit(table)


def _check_column(written: str, column: Column, mistakes: Mistakes) -> None:
    """The values must be few, and stay the same: people who moved to another total could lose both."""
    values = how_many(column)
    if column.role == "identifier":
        mistakes.add("[privacy]", f"{written}, whose role is identifier", "write a column that many people share")
    elif column.domain_from is not None:
        what = f"{written}, whose values a public table lists and may change"
        mistakes.add("[privacy]", what, "write its domain = [...] here")
    elif values is None:
        mistakes.add("[privacy]", f"{written}, which has no finite domain", "write its domain = [...]")
    elif values > MOST_VALUES:
        what = f"{written}, which has {shown(values)} values"
        mistakes.add("[privacy]", what, f"write a column with at most {MOST_VALUES} values")


def how_many(column: Column) -> int | None:
    """Number of values other than NULL that a column can have; None where nothing finite is declared."""
    match column.domain:
        case Categories(values=values):
            return len(values)
        case Interval(lower=lower, upper=upper) if column.sqltype.is_integer:
            return int(upper - lower) + 1
        case _:
            return None
