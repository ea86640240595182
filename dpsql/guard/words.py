"""A region in words, as a condition that could stand in WHERE."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from fractions import Fraction

from dpsql.core.domains import Value
from dpsql.expressions.literals import days
from dpsql.expressions.temporal import DAY
from dpsql.guard.regions import Box, Region
from dpsql.guard.values import Listed, Piece, Ranged, Values
from dpsql.sql.duckdb import EPOCH

MOST_VALUES = 5
MOST_BOXES = 3


def of_region(region: Region) -> str:
    """The condition that selects a region."""
    if not region:
        return "nobody"
    texts = [of_box(box) for box in region[:MOST_BOXES]]
    return " or ".join(texts if len(texts) == 1 else [f"({text})" for text in texts]) + (
        " or ..." if len(region) > MOST_BOXES else ""
    )


def of_box(box: Box, beside: Box | None = None) -> str:
    """The condition that selects a box; only what it has beyond another, where one is given."""
    parts = [of_values(values) for key, values in box.items() if beside is None or beside.get(key) != values]
    return " and ".join(parts) or "everybody"


def of_values(values: Values) -> str:
    name = values.axis.name
    if values.axis.opaque and isinstance(values, Listed):
        return {1: f"not {name}", 2: name}.get(values.bits, f"{name} is not true")
    if isinstance(values, Ranged):
        parts = [_piece(name, piece, values) for piece in values.pieces[:MOST_VALUES] if piece]
        parts += ["..."] if len(values.pieces) > MOST_VALUES else []
        parts += [f"{name} is null"] if values.null and values.axis.nullable else []
        parts = [part for part in parts if part] or [f"{name} is null" if values.null else f"{name} is not null"]
        return parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"
    return _listed(name, values)


def _listed(name: str, values: Listed) -> str:
    count = len(values.axis.values)
    inside = [v for i, v in enumerate(values.axis.values) if values.bits >> i & 1]
    outside = [v for i, v in enumerate(values.axis.values) if not values.bits >> i & 1]
    rest = bool(values.bits >> (count + 1))
    null = bool(values.bits >> count & 1) and values.axis.nullable
    odd = sorted(values.odd, key=str)
    if rest and (len(outside) + len(odd) <= len(inside) or not inside):
        missing = [*outside, *odd]
        text = f"{name} is not null" if not missing else _among(name, missing, "<>", "not in")
        return text if not null or not missing else f"({text} or {name} is null)"
    kept = [*inside, *([] if rest else odd)]
    if not kept:
        return f"{name} is null"
    text = _among(name, kept, "=", "in")
    return f"({text} or {name} is null)" if null else text


def _among(name: str, values: list[Value], one: str, several: str) -> str:
    if len(values) == 1:
        return f"{name} {one} {_value(values[0])}"
    listed = ", ".join(_value(v) for v in values[:MOST_VALUES])
    return f"{name} {several} ({listed}{', ...' if len(values) > MOST_VALUES else ''})"


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else _number(Fraction(value), "")


def _piece(name: str, piece: Piece, values: Ranged) -> str:
    (a, above), (b, over) = piece
    kind = values.axis.temporal
    if values.axis.integral and not isinstance(b, float):
        # the last that is inside, in place of the first that is beyond
        b, over = b - (values.axis.step or 1), 1
    low = None if isinstance(a, float) else f"{name} {'>' if above else '>='} {_number(Fraction(a), kind)}"
    high = None if isinstance(b, float) else f"{name} {'<=' if over else '<'} {_number(Fraction(b), kind)}"
    if low and high and a == b:
        return f"{name} = {_number(Fraction(a), kind)}"
    return " and ".join(part for part in (low, high) if part)


def _number(number: Fraction, kind: str) -> str:
    if not kind:
        return str(int(number)) if number.denominator == 1 else f"{float(number):.15g}"
    day, part = (int(number), 0) if kind == "DATE" else divmod(int(number), DAY)
    if not days(date.min) <= day <= days(date.max):
        return "'infinity'" if day > 0 else "'-infinity'"
    when = datetime.combine(EPOCH + timedelta(days=day), time()) + timedelta(microseconds=part)
    return f"'{when if part else when.date()}'"
