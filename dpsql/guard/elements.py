"""elements: a column of lists -> lists of a few elements, each drawn as a value of a column of its own.

How many elements a row has, and what they are, are digits of its one place, further and further behind. A longer list repeats its first
element: only constants are looked for in it, and elements are not told apart otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.core.domains import Categories, Interval, Value
from dpsql.guard import columns
from dpsql.schema.model import Column
from dpsql.sql.duckdb import literal_sql

DIFFERENT = 4
"""Elements of one list that are drawn."""
MOST = 20
"""Elements of one list."""
MOST_LISTED = 200
"""Declared values that are drawn one by one; of more, only the constants of a statement are."""
_FURTHER = (9_973, 7_919, 6_007, 5_003, 3_001)
"""Primes: times a place, the digits behind are another place."""


def sql(place: str, element: Column, length: int, known: Sequence[Value], slots: int) -> str:
    """The list at a place; NULL where that is NULL.

    length  the most elements, as declared
    """
    count, *places = (f"(({place} * {prime}) % 1)" for prime in _FURTHER)
    different, most = min(DIFFERENT, length), min(MOST, length)
    drawn = [_element(here, element, known, slots) for here in places[:different]]
    size = f"floor({count} * {most + 1})::INTEGER"
    listed = f"CAST([{', '.join(drawn)}] AS {element.sqltype}[])"
    found = f"list_resize(list_slice({listed}, 1, {size}), {size}, {listed}[1])"
    return f"CASE WHEN {place} IS NOT NULL THEN {found} END"


def _element(place: str, element: Column, known: Sequence[Value], slots: int) -> str:
    match element.domain:
        case Categories(values=values) if len(values) <= MOST_LISTED:
            listed = ", ".join(literal_sql(value, element.sqltype) for value in values)
            return f"[{listed}][1 + floor({place} * {len(values)})::INTEGER]"
        case Interval(lower=lower, upper=upper):
            whole = element.sqltype.is_integer or element.sqltype.is_counted
            number = f"({float(lower)!r} + {place} * {float(upper - lower + whole)!r})"
            return columns.item(f"floor({number})" if whole else number, element.sqltype)
    return columns.sql(place, element.sqltype, known, slots)
