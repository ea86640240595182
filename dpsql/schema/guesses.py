"""Guesses at what a source does not declare, from names alone: keys, references, and bounds that a name implies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dpsql.core.sqltypes import SqlType
from dpsql.schema.drafted import DraftTable, ForeignKey, alike, sayable, usable

_BOUNDS = (
    (r"age(_(in_)?years?)?|years?_old", "[0, 120]"),
    (r".*(percent|pct|percentage)", "[0, 100]"),
    (r".*(share|ratio|fraction|probability|rate)", "[0, 1]"),
    (r".*month(_of_year)?", "[1, 12]"),
    (r".*day_of_month", "[1, 31]"),
    (r".*(day_of_week|weekday)", "[0, 7]"),
    (r".*hour(_of_day)?", "[0, 23]"),
    (r".*minute", "[0, 59]"),
    (r"birth_?year|year_of_birth", "[1900, 2030]"),
    (r".*(rating|stars)", "[0, 5]"),
    (r"lat(itude)?", "[-90, 90]"),
    (r"(lon|lng|longitude)", "[-180, 180]"),
    (r"height(_cm)?", "[50, 250]"),
    (r"weight(_.*)?_kg|weight", "[0, 300]"),
    (r".*children|.*household_size|family_size", "[0, 20]"),
)
"""Names of columns, and the bounds that follow from what is so called, whatever the data is."""


def with_guesses(tables: Sequence[DraftTable]) -> list[DraftTable]:
    """The tables with a key and references where the source declares none and names tell; they are marked as guessed."""
    keyed = [_keyed(table) for table in tables]
    return [_referring(table, keyed) for table in keyed]


def bounds_of(name: str, sqltype: SqlType) -> str | None:
    """Bounds that a name implies, as a schema writes them; None where it implies none, and of what is no number."""
    if not sqltype.is_number:
        return None
    lower = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return next((bounds for pattern, bounds in _BOUNDS if re.fullmatch(pattern, lower)), None)


def singular(name: str) -> str:
    """A word of a table's name as its columns say it.

    >>> singular("customers"), singular("categories"), singular("addresses"), singular("main.person")
    ('customer', 'category', 'address', 'person')
    """
    word = name.rpartition(".")[2].lower()
    for plural, one in (("people", "person"), ("children", "child")):
        if word == plural:
            return one
    for end, one in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if word.endswith(end) and len(word) > len(end) + 2 and not word.endswith("ss" if end == "s" else "\0"):
            return word[: -len(end)] + one
    return word


def _own(table: DraftTable) -> set[str]:
    """Names of a column that is the table's own key: id, customer_id, customerid."""
    return {"id", *_called(table)}


def _called(table: DraftTable) -> set[str]:
    """Names that another table's column has which refers to this one."""
    words = {singular(table.name), table.name.rpartition(".")[2].lower()}
    return {f"{word}{mark}id" for word in words for mark in ("_", "")}


def _keyed(table: DraftTable) -> DraftTable:
    if table.key:
        return table
    # a dot could not be told from the one in table.column
    own = [name for name in usable(table) if name.lower() in _own(table) and "." not in name]
    return replace(table, key=(own[0],), guessed_key=True) if own and sayable(table.name) else table


def _referring(table: DraftTable, tables: Sequence[DraftTable]) -> DraftTable:
    """The table with references to keys of others that a column is called like, and has a type like."""
    if table.foreign_keys:
        return table
    columns = usable(table)
    found = [
        ForeignKey((name,), other.source, other.key)
        for name, sqltype in columns.items()
        if (name,) != table.key
        for other in tables
        if other is not table and len(other.key) == 1 and _refers(name, other)
        if alike(sqltype, usable(other)[other.key[0]])
    ]
    return replace(table, foreign_keys=tuple(found), guessed_references=bool(found))


def _refers(name: str, other: DraftTable) -> bool:
    key = other.key[0].lower()
    return name.lower() in _called(other) or (name.lower() == key and key != "id")
