"""columns: a column without a list or bounds -> values around the constants of a statement.

Nothing says what such a column holds, so a fixed place of each row in [0, 1) becomes, for this statement, one of its constants, a
number beside one, a small whole number, or a text that no statement has. The part of the places that a constant has is found by its
hash, so that two statements that name it mean the same rows by it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from fractions import Fraction

from dpsql.core.domains import Value
from dpsql.core.sqltypes import SqlType
from dpsql.expressions.scalar import Scalar
from dpsql.guard.sizes import Share
from dpsql.sql.duckdb import literal_sql, quoted

Constants = dict[str, tuple[Value, ...]]
"""Of a statement: its numbers, its texts."""
SLOTS = 8
"""Parts of the places that constants have, a tenth each; the rest is for other values."""
SMALL = 20
"""Whole numbers from 0 that other values are."""


def constants(expressions: Iterable[Scalar]) -> Constants:
    """The constants of a statement: its numbers and its texts, those of patterns without their wildcards."""
    found: dict[str, dict[Value, None]] = {"number": {}, "text": {}}
    for expression in expressions:
        for part in expression.walk():
            if part.is_literal and isinstance(part.value, str):
                found["text"][part.value.replace("%", "").replace("_", "-")] = None
            elif part.is_literal and isinstance(part.value, int | Fraction) and not isinstance(part.value, bool):
                found["number"][part.value] = None
    return {kind: tuple(values) for kind, values in found.items()}


def sql(place: str, sqltype: SqlType, known: Constants, usual: Sequence[Share] = ()) -> str:
    """The value of a column at a place; NULL where that is NULL.

    usual  the values that are taken for granted: they have the first places
    """
    arms, begun = [], 0.0
    for cell in usual:
        begun += cell.weight
        arms.append(f"WHEN {place} < {begun!r} THEN {literal_sql(cell.value, sqltype)}")
    if not arms:
        return _around(place, sqltype, known)
    rest = _around(f"(({place} - {begun!r}) / {1 - begun!r})", sqltype, known) if begun < 1 else "NULL"
    return f"CASE {' '.join(arms)} ELSE {rest} END"


def _around(place: str, sqltype: SqlType, known: Constants) -> str:
    """A value around the constants."""
    kind = "text" if sqltype.is_text else "number"
    slots: dict[int, str] = {}
    for value in known.get(kind, ()):
        slot = hashlib.sha256(f"{kind} {value}".encode()).digest()[0] % SLOTS
        if slot not in slots:
            slots[slot] = _text(str(value)) if kind == "text" else repr(float(value))
    arms = []
    for slot, value in sorted(slots.items()):
        if kind == "number":
            value = f"{value} + CASE WHEN {place} * 30 % 3 < 1 THEN -1 WHEN {place} * 30 % 3 < 2 THEN 1 ELSE 0 END"
        arms.append(f"WHEN {place} < {(slot + 1) / 10} AND {place} >= {slot / 10} THEN {value}")
    if sqltype.is_boolean:
        return f"{place} < 0.5"
    other = f"'value ' || floor({place} * 1000)::INTEGER" if kind == "text" else f"floor({place} * 1000) % {SMALL}"
    chosen = f"CASE {' '.join(arms)} ELSE {other} END" if arms else other
    if sqltype.is_temporal:
        return f"TRY_CAST(DATE '2000-01-01' + floor({place} * 10000)::INTEGER AS {sqltype})"
    return f"TRY_CAST({chosen} AS {sqltype})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def shown(table: str, source: str, columns: list[tuple[str, str]]) -> str:
    """A query of WITH that shows a table's columns, those without a list or bounds as this statement means them."""
    items = ", ".join(f"{text} AS {quoted(column)}" for column, text in columns)
    return f"{quoted(table)} AS (SELECT {items} FROM main.{quoted(source)})"
