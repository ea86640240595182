"""Tables as a source shows them, for a first schema: what is declared of keys, and the guess at the privacy unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dpsql.core.sqltypes import SqlType, parse_type

_PEOPLE = re.compile(
    r"(person|people|patient|user|customer|client|member|employee|student|subject|participant|resident)s?",
    re.IGNORECASE,
)


UNTYPED = tuple(f".{form}{packed}" for packed in ("", ".gz") for form in ("csv", "tsv", "json", "jsonl", "ndjson"))
"""Suffixes of files whose values have no types of their own."""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key that the source declares: columns, and what they hold of another table, which is named by its source."""

    columns: tuple[str, ...]
    source: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DraftTable:
    """A table as the source shows it.

    source        file or table name inside the dataset's source
    columns       (name, type as DuckDB writes it), in their order
    key           the primary key that the source declares; () where it declares none
    foreign_keys  those that the source declares
    required      columns that are never NULL; None where the source does not say
    guessed_key, guessed_references  whether these are guesses at names, and not the source's
    problem       why it cannot be read, of one that is left out
    """

    name: str
    source: str
    columns: list[tuple[str, str]]
    key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    required: frozenset[str] | None = None
    guessed_key: bool = False
    guessed_references: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DraftAnswers:
    """Answers of an owner who was asked; a draft without them is made of names and types alone.

    unit       (table, column) whose privacy counts, or None: guessed
    units      the public estimate of the number of people, or None
    public     names of tables that are about nobody
    rows       by table, the most rows that count for one person
    bounds     by table and column, what stands behind the type: bounds = [0, 120]
    """

    unit: tuple[str, str] | None = None
    units: int | None = None
    public: frozenset[str] = frozenset()
    rows: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[tuple[str, str], str] = field(default_factory=dict)


NOTHING_ASKED = DraftAnswers()


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key that can be a reference: a column that holds the one-column key of another table, and has its type."""

    column: str
    table: str
    target: str
    sqltype: SqlType


Links: TypeAlias = Mapping[str, tuple[Link, ...]]
"""By table."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The guess at the privacy unit."""

    table: str
    column: str
    sqltype: SqlType


def sayable(name: str) -> bool:
    return bool(name.strip()) and name.isprintable()


def usable(table: DraftTable) -> dict[str, SqlType]:
    """The columns that dpsql computes with; of two names that differ in case only, the first."""
    found: dict[str, SqlType] = {}
    for name, text in table.columns:
        sqltype = parse_type(text)
        if sqltype is not None and sayable(name) and name.lower() not in {n.lower() for n in found}:
            found[name] = sqltype
    return found


def key_of(table: DraftTable) -> tuple[str, ...]:
    """The declared key, where all its columns can be."""
    return table.key if all(column in usable(table) for column in table.key) else ()


def links_of(tables: list[DraftTable]) -> Links:
    """The foreign keys that can be references; one that would close a circle is none, nor is one from a table to itself."""
    by_source = {table.source: table for table in tables}
    found: dict[str, tuple[Link, ...]] = {table.name: () for table in tables}
    for table in tables:
        for foreign in table.foreign_keys:
            link = _link(table, foreign, by_source)
            taken = link is None or any(link.column == known.column for known in found[table.name])
            if link is not None and not taken and table.name not in _reached(link.table, found):
                found[table.name] += (link,)
    return found


def _link(table: DraftTable, foreign: ForeignKey, by_source: Mapping[str, DraftTable]) -> Link | None:
    target = by_source.get(foreign.source)
    if target is None or len(foreign.columns) > 1 or foreign.targets != key_of(target):
        return None
    (column,), (far,) = foreign.columns, foreign.targets
    here, there = usable(table).get(column), usable(target)[far]
    # a dot could not be told from the one in table.column
    return Link(column, target.name, far, there) if here is not None and alike(here, there) and "." not in far else None


def alike(here: SqlType, there: SqlType) -> bool:
    """True where a column of one type can refer to a key of the other; integers of two widths can, declared as the key is."""
    return here == there or (here.is_integer and there.is_integer)


def _reached(table: str, links: Links) -> set[str]:
    """The tables that links lead to from a table, itself among them; there are no circles."""
    return {table}.union(*(_reached(link.table, links) for link in links[table]))


def guess_unit(tables: list[DraftTable], links: Links) -> Unit | None:
    """The one-column key of a table called like people, or that most tables lead to; without one, what is called so."""
    single = [t for t in tables if len(key_of(t)) == 1 and "." not in t.key[0]]
    if not single:
        return _by_name(tables[0]) if tables else None
    leading = {t.name: sum(t.name in _reached(other.name, links) for other in tables) for t in single}
    best = max(single, key=lambda t: (_PEOPLE.fullmatch(t.name) is not None, leading[t.name]))
    return Unit(best.name, best.key[0], usable(best)[best.key[0]])


def _by_name(table: DraftTable) -> Unit | None:
    """The first column called like an identifier: id, person_id, personId, and only then anything that ends in id."""
    columns = usable(table)
    for pattern in (r"(.*_)?id$|.*[a-z0-9]I[dD]$", r".*id$"):
        for name, sqltype in columns.items():
            # a dot could not be told from the one in table.column
            if "." not in name and (re.match(pattern, name) or re.match(pattern, name.lower())):
                return Unit(table.name, name, sqltype)
    return None


def ways_to(table: str, links: Links, unit: Unit | None) -> list[tuple[str, ...]]:
    """The paths from a table to the unit, as reference columns: first the shortest that goes on by the own way of the table that it
    leads over, since rows must be of one person's by either (rule 46)."""
    if unit is None:
        return []
    own: list[tuple[str, ...]] = []
    others: list[tuple[str, ...]] = []
    for link in links[table]:
        if link.table == unit.table:
            own.append((link.column,))
            continue
        onward = ways_to(link.table, links, unit)
        own += [(link.column, *way) for way in onward[:1]]
        others += [(link.column, *way) for way in onward[1:]]
    return [*sorted(own, key=len), *others]
