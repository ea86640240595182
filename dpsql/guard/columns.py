"""columns: a column without a list or bounds -> values around the constants of a statement.

Nothing says what such a column holds, so a fixed place of each row in [0, 1) becomes, for this statement, one of its constants or a
value right beside one, a small whole number, or a text that no statement has. The part of the places that a constant has is found by
its hash, so that two statements that name it mean the same rows by it; what a column is compared with itself comes first.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from string import ascii_letters

from dpsql.core.domains import Categories, Interval, Value
from dpsql.core.sqltypes import SqlType
from dpsql.expressions.scalar import Scalar
from dpsql.guard.sizes import Share
from dpsql.schema.model import Column
from dpsql.sql.duckdb import literal_sql, quoted

Constants = dict[str, tuple[Value, ...]]
"""Of a statement: its numbers and texts, by the column "table.column" that they are compared with; "" for all of them."""
CONSTANT = 0.8
"""Of the places, those that constants have and what is beside them; the rest is for other values."""
FEWEST, MOST = 8, 16
"""Parts of these."""
ENOUGH = 10
"""Times k: the people of a part. Half of them have the constant, the others what is right beside it."""
MOST_CONSTANTS = 500
FINEST = 12
"""Constants of one part that are looked up together; where there are more, or others, they are compared with the place."""
SMALL = 20
"""Whole numbers from 0 that other values are."""
DIFFERENT, LONGEST = 4, 20
"""Elements of one list that are drawn, and elements that it has at most."""
MOST_DRAWN = 200
"""Declared values of elements that are drawn one by one; of more, only the constants of a statement are."""
_FURTHER = (9_973, 7_919, 6_007, 5_003, 3_001)
"""Primes: times a place, the digits behind are another place."""


def constants(expressions: Iterable[Scalar]) -> Constants:
    """The constants of a statement; those of patterns without their wildcards."""
    found: dict[str, dict[Value, None]] = {"": {}}
    for part in (part for expression in expressions for part in expression.walk()):
        values = dict.fromkeys(_values(part))
        found[""] |= values
        if values and part.sqltype.is_boolean:
            for origin in {leaf.origin for leaf in part.leaves() if leaf.origin}:
                found[origin] = found.get(origin, {}) | values
    return {origin: tuple(values) for origin, values in found.items()}


def _values(part: Scalar) -> Iterator[Value]:
    for value in (arg.value for arg in part.args if arg.is_literal):
        if isinstance(value, str):
            yield value.replace("%", "").replace("_", "-") if part.function in ("like", "ilike") else value
        elif isinstance(value, int | Fraction) and not isinstance(value, bool):
            yield value


def compared(known: Constants, origin: str) -> tuple[Value, ...]:
    """The constants that a column may have: its own, then those of others, not too many."""
    return tuple(dict.fromkeys((*known.get(origin, ()), *known.get("", ()))))[:MOST_CONSTANTS]


def parts(people: float, k: int) -> int:
    """Into how many the places of constants are cut, so that each part is enough people."""
    return int(min(max(FEWEST, CONSTANT * people / (ENOUGH * k)), MOST))


def sql(
    place: str, sqltype: SqlType, known: Sequence[Value], slots: int, usual: Sequence[Share] = (), other: str = ""
) -> str:
    """The value of a column at a place; NULL where that is NULL.

    known  the constants that it may have
    slots  parts of the places that they have
    usual  the values that are taken for granted: they have the first places
    other  a column that has the other values; "" where there is none yet
    """
    rest = _rest(place, usual)
    return _after(place, usual, sqltype, _around(rest, sqltype, known, slots, other or _other(rest, sqltype)))


def item(array: str, sqltype: SqlType) -> str:
    """SQL that makes a value of a drawn number: days and microseconds are dates and timestamps."""
    if sqltype.name == "DATE":
        return f"DATE '1970-01-01' + CAST({array} AS INTEGER)"
    if sqltype.name == "TIMESTAMP":
        return f"make_timestamp(CAST({array} AS BIGINT))"
    if sqltype.name == "TIME":
        return f"CAST(make_timestamp(CAST({array} AS BIGINT)) AS TIME)"
    return f"{array} <> 0" if sqltype.is_boolean else f"TRY_CAST({array} AS {sqltype})"


def others(place: str, sqltype: SqlType, usual: Sequence[Share]) -> str:
    """The value at a place that is none of a constant."""
    return _other(_rest(place, usual), sqltype)


def _rest(place: str, usual: Sequence[Share]) -> str:
    """The place among those that the values taken for granted leave."""
    begun = sum(cell.weight for cell in usual)
    return f"(({place} - {begun!r}) / {1 - begun!r})" if usual and begun < 1 else place


def _after(place: str, usual: Sequence[Share], sqltype: SqlType, rest: str) -> str:
    arms, begun = [], 0.0
    for cell in usual:
        begun += cell.weight
        arms.append(f"WHEN {place} < {begun!r} THEN {literal_sql(cell.value, sqltype)}")
    return f"CASE {' '.join(arms)} ELSE {rest if begun < 1 else 'NULL'} END" if arms else rest


def _other(place: str, sqltype: SqlType) -> str:
    """A value that has no constant: every boolean, day and time."""
    if sqltype.is_boolean:
        return f"{place} < 0.5"
    if sqltype.is_temporal:
        return f"TRY_CAST(DATE '2000-01-01' + floor({place} * 10000)::INTEGER AS {sqltype})"
    if sqltype.name == "TIME":
        return f"TIME '00:00:00' + to_seconds(floor({place} * 86399)::INTEGER)"
    number = f"floor({place} * 1000)::INTEGER"
    letter = f"substr('{ascii_letters}', 1 + {number} % {len(ascii_letters)}, 1)"
    return f"{letter} || ' value ' || {number}" if sqltype.is_text else f"{number} % {SMALL}"


def _around(place: str, sqltype: SqlType, known: Sequence[Value], slots: int, other: str) -> str:
    """A value around the constants. The quarters of their parts are looked up, which costs the engine a third of comparing."""
    if sqltype.is_boolean or sqltype.is_temporal or sqltype.name == "TIME":
        return other
    placed = _placed([v for v in known if isinstance(v, str) == sqltype.is_text], slots)
    fine = 1
    for many in sorted({len(shared) for _, shared in placed}):
        fine = math.lcm(fine, many) if math.lcm(fine, many) <= FINEST else fine
    found, arms = ["NULL"] * (4 * slots * fine), []
    for slot, shared in placed:
        quarter, uneven = divmod(fine, len(shared))
        for i, value in enumerate(shared):
            (below, above), its = _beside(value), _text(value)
            if not uneven:
                begun = 4 * (slot * fine + i * quarter)
                found[begun : begun + 4 * quarter] = [*[below] * quarter, *[above] * quarter, *[its] * (2 * quarter)]
                continue
            width = CONSTANT / slots / len(shared)
            low = slot * CONSTANT / slots + i * width
            beside = (
                f"CASE WHEN {place} < {low + width / 4!r} THEN {below} WHEN {place} < {low + width / 2!r} THEN {above}"
            )
            arms.append(f"WHEN {place} >= {low!r} AND {place} < {low + width!r} THEN {beside} ELSE {its} END")
    rest = f"CASE {' '.join(arms)} ELSE {other} END" if arms else other
    if any(one != "NULL" for one in found):
        rest = f"COALESCE([{', '.join(found)}][1 + floor({place} * {len(found) / CONSTANT!r})::INTEGER], {rest})"
    return f"TRY_CAST({rest} AS {sqltype})"


def _placed(values: Sequence[Value], slots: int) -> list[tuple[int, list[Value]]]:
    """The constants of each part: that of its hash, or the next one that is free; where none is, it shares one."""
    found: dict[int, list[Value]] = {}
    for value in values:
        first = hashlib.sha256(f"{'text' if isinstance(value, str) else 'number'} {value}".encode()).digest()[0]
        every = [i % slots for i in range(first, first + slots)]
        found.setdefault(next((i for i in every if i not in found), every[0]), []).append(value)
    return sorted(found.items())


def _beside(value: Value) -> tuple[str, str]:
    """Values right below and right above a constant."""
    if isinstance(value, str):
        return _text(value[:-1]), _text(f"{value} ")
    return repr(float(value) - 1), repr(float(value) + 1)


def _text(value: Value) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(float(value))


def listed(place: str, element: Column, length: int, known: Sequence[Value], slots: int) -> str:
    """The list of a few elements at a place, each as a value of a column of its own; NULL where that is NULL.

    Why  how many there are, and what they are, are digits of the place, further and further behind. A longer list repeats its first
         element: only constants are looked for in it, and elements are not told apart otherwise

    length  the most elements, as declared
    """
    count, *places = (f"(({place} * {prime}) % 1)" for prime in _FURTHER)
    different, most = min(DIFFERENT, length), min(LONGEST, length)
    drawn = [_element(here, element, known, slots) for here in places[:different]]
    size = f"floor({count} * {most + 1})::INTEGER"
    every = f"CAST([{', '.join(drawn)}] AS {element.sqltype}[])"
    found = f"list_resize(list_slice({every}, 1, {size}), {size}, {every}[1])"
    return f"CASE WHEN {place} IS NOT NULL THEN {found} END"


def _element(place: str, element: Column, known: Sequence[Value], slots: int) -> str:
    match element.domain:
        case Categories(values=values) if len(values) <= MOST_DRAWN:
            listed = ", ".join(literal_sql(value, element.sqltype) for value in values)
            return f"[{listed}][1 + floor({place} * {len(values)})::INTEGER]"
        case Interval(lower=lower, upper=upper):
            whole = element.sqltype.is_integer or element.sqltype.is_counted
            number = f"({float(lower)!r} + {place} * {float(upper - lower + whole)!r})"
            return item(f"floor({number})" if whole else number, element.sqltype)
    return sql(place, element.sqltype, known, slots)


def shown(table: str, source: str, columns: list[tuple[str, str]]) -> str:
    """A query of WITH that shows a table's columns, those without a list or bounds as this statement means them."""
    items = ", ".join(f"{text} AS {quoted(column)}" for column, text in columns)
    return f"{quoted(table)} AS (SELECT {items} FROM main.{quoted(source)})"
