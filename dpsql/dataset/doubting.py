"""doubting: where exact facts say that a declaration is most likely a mistake. For the owner's eyes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.core.domains import Categories, Interval
from dpsql.core.wording import counted
from dpsql.engines.facts import ColumnFacts, TableFacts
from dpsql.schema.mistakes import printable
from dpsql.schema.model import ROW, Schema

FEW = 20
"""A limit that cuts one in so many, or fewer, is left without a word."""
FAR = 2
"""The factor by which the declared number of people may differ from the true one."""


def doubts(schema: Schema, tables: Sequence[TableFacts]) -> list[str]:
    """Warn of limits that cut much, of values that no declared type reads, and of a number of people that is far off.

    schema  with its public facts filled in
    tables  the facts of every private table
    """
    found = [*_people(schema, tables), *_published(schema)]
    for facts in tables:
        found += _row_limit(facts)
        for column in facts.columns:
            place = f"{printable(facts.table.name)}.{printable(column.column.name)}"
            found += _column(column, place, facts.rows - column.nulls)
    return found


def _people(schema: Schema, tables: Sequence[TableFacts]) -> Iterator[str]:
    declared = schema.privacy.units
    counts = [t.rows if schema.privacy.unit == ROW else t.unit.units if t.unit is not None else 0 for t in tables]
    there = max(counts, default=0)
    if declared is not None and there and not declared <= FAR * there <= FAR * FAR * declared:
        yield (
            f"units says {declared:,}, and there are {there:,}: the errors that EXPLAIN expects of averages, and whom the guard "
            "takes to be asked about, go by the declared number"
        )


def _published(schema: Schema) -> Iterator[str]:
    """Warn of public tables with a column that is called like the privacy unit, since everything in a public table is published."""
    unit = schema.privacy.unit_column
    for table in schema.tables:
        named = next((c.name for c in table.columns if table.public and unit and c.name.lower() == unit.lower()), None)
        if named is not None:
            yield (
                f"table {printable(table.name)} is public, and has a column {printable(named)} like the privacy unit: all of it is "
                "published, exactly and free; if its rows are about people, write references in place of public = true"
            )


def _row_limit(facts: TableFacts) -> Iterator[str]:
    if facts.unit is not None and facts.unit.cut * FEW > facts.rows:
        yield f"max_rows_per_unit of {printable(facts.table.name)} cuts {facts.unit.cut / facts.rows:.0%} of its rows"


def _column(facts: ColumnFacts, place: str, values: int) -> Iterator[str]:
    """values  that are there, and fit their type [rows]"""
    if facts.unfit:
        what = f"{counted(facts.unfit, 'value')} of {place}"
        yield f"{what} {'is' if facts.unfit == 1 else 'are'} no {facts.column.sqltype}, and counted as NULL: correct them, or the type"
    if facts.numeric == values >= FEW:
        yield (
            f'every value of {place} is a number, and is declared as text: it can be counted, never summed; write type = "DOUBLE" '
            "and bounds"
        )
    if not facts.outside or facts.outside * FEW <= values:
        return
    share = f"{facts.outside / values:.0%}"
    if isinstance(facts.column.domain, Interval):
        yield f"the bounds of {place} clamp {share} of its values, and every sum and average is of what they leave"
    if isinstance(facts.column.domain, Categories):
        yield f"the list of {place} leaves out {share} of its values, and their rows are in no group of it"
