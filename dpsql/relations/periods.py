"""Periods that are read of tables which have some (rule 62).

Only top-level AND parts that compare the bare column with constants count, in the block that reads the table: for any other row such
a part is not TRUE, whatever else stands there, so that no row of another period takes part. Of a declared table no row is outside of
its bounds: none such is ever written into the snapshot that is read (engines/duckdb/prepared.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction

from dpsql.core import domains
from dpsql.core.domains import Interval
from dpsql.expressions.logic import conjuncts
from dpsql.expressions.scalar import Scalar
from dpsql.relations.relations import Relation
from dpsql.schema.by_period import days
from dpsql.schema.model import Table, with_unit
from dpsql.schema.periods import days_of
from dpsql.sql.nodes import Column, Node
from dpsql.sql.queries import Join
from dpsql.sql.queries import Table as TableNode


@dataclass(frozen=True, slots=True)
class ReadPeriods:
    """Days of a table that a block reads rows of: those of the periods that these are in, and of no other."""

    table: Table
    first: date
    last: date

    @property
    def count(self) -> int:
        """[periods]"""
        assert self.table.period is not None
        return self.table.period.count((self.first, self.last))

    @property
    def names(self) -> tuple[str, ...]:
        assert self.table.period is not None
        return tuple(map(self.table.period.name, self.table.period.within((self.first, self.last))))


def whole(table: Table) -> ReadPeriods:
    return ReadPeriods(table, *days(table))


def read_by(table: Table, alias: str, conditions: Iterable[Scalar]) -> ReadPeriods:
    """The days of a table that conditions leave, of which all are true for every row that is read.

    alias  under which they name it
    """
    assert table.period is not None
    column = Column(alias, table.period.column)
    parts = [part for part in conditions if _compares(part) and part.args[0].tree == column]
    declared = table.column(table.period.column)
    assert declared is not None and isinstance(declared.domain, Interval)
    lower, upper = declared.domain.lower, declared.domain.upper
    for part in parts:
        values = [end for value in part.args[1:] if (end := _value(value)) is not None]
        if len(values) < len(part.args) - 1:
            continue
        if part.function in (">", ">=", "=", "in"):
            lower = max(lower, min(values) + (part.function == ">"))
        if part.function in ("<", "<=", "=", "in"):
            upper = min(upper, max(values) - (part.function == "<"))
    # what nobody can be in is read of one period, so that it has a price
    first, last = days_of(Interval(lower, max(lower, upper)), declared.sqltype.name == "DATE")
    return ReadPeriods(table, min(first, days(table)[1]), min(last, days(table)[1]))


def narrowed(parts: Sequence[Relation], conditions: Iterable[Scalar]) -> list[Relation]:
    """Relations that are joined; scans of tables with periods with the rows that a unit can have in those that conditions leave.

    Stability  the limit is of each unit in each period, so a unit has at most that many times the periods that are left       [rows]
    Why        the conditions are parts of the enclosing WHERE, which every row of this side has to pass
    """
    flat = [part for condition in conditions for part in conjuncts(condition)]
    return [_narrowed(part, flat) for part in parts]


def _narrowed(part: Relation, conditions: Sequence[Scalar]) -> Relation:
    scanned, unit = _scanned(part), part.unit
    most = scanned[0].max_rows_per_unit if scanned is not None else None
    if scanned is None or unit is None or unit.max_rows is None or most is None:
        return part
    rows = most * read_by(*scanned, conditions).count
    return replace(part, unit=replace(unit, max_rows=min(unit.max_rows, rows)))


def _scanned(part: Relation) -> tuple[Table, str] | None:
    """The table with periods that a relation is a scan of, and its alias."""
    source = part.source.with_unit
    table = part.tables[0] if len(part.tables) == 1 else None
    if table is None or table.period is None or not isinstance(source, TableNode) or not isinstance(source.alias, str):
        return None
    return table, source.alias


def read_periods(source: Relation, read: Sequence[str]) -> tuple[ReadPeriods, ...]:
    """The periods that a block reads of each table which has some.

    read  a name for each place at which the block reads a table, however deep

    Why   a table that is read in several places, or beside an outer join that may have no row of it, is read whole: there the
          conditions of the block do not say which rows take part
    """
    aliases = dict(_always(source.read(True)))
    found = []
    for table in {t.name: t for t in source.tables if t.period is not None}.values():
        places = [name for name in read if name in (table.name, with_unit(table.name))]
        alias = next((aliases[name] for name in places if name in aliases), None)
        one = len(places) == 1 and alias is not None
        found.append(read_by(table, alias, source.where) if one and alias is not None else whole(table))
    return tuple(found)


def _always(node: Node) -> Iterator[tuple[str, str]]:
    """Tables of FROM, with their aliases, of which every row of it shows one: no outer join has none in its place."""
    match node:
        case TableNode():
            yield node.name, node.alias
        case Join(kind="" | "CROSS"):
            yield from _always(node.left)
            yield from _always(node.right)
        case Join(kind="LEFT"):
            yield from _always(node.left)


def _compares(part: Scalar) -> bool:
    return len(part.args) > 1 and part.function in ("=", "in", "<", "<=", ">", ">=")


def _value(constant: Scalar) -> Fraction | None:
    """A constant in the unit in which its domain counts; None for what is none, or is NULL."""
    if not constant.is_literal or constant.value is None:
        return None
    found = domains.hull(constant.domain)
    return found.lower if found is not None and found.lower == found.upper else None
