"""Answers, parameters and errors as JSON, exactly: between the processes of a server, and between it and a client of ours."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from dpsql.clients.dbapi.types import ResultType, read_type
from dpsql.clients.output.prices import StatementPrice, priced
from dpsql.core.errors import CODES, Error, error
from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.core.spans import Span
from dpsql.plan.charges import Receipt

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Values = Sequence[object] | Mapping[str, object]
CHUNK = 500
_ZERO = Fraction(0)
"""[rows] that travel together."""

# --- values of results: read back by the type of their column -------------------------------------------------------------


def pack(value: object) -> Json:
    """A value of a result as JSON; NaN and infinities as text, since JSON has none."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else repr(value)
        case bytes():
            return value.hex()
        case timedelta():
            return [value.days, value.seconds, value.microseconds]
        case list() | tuple():
            return [pack(item) for item in value]
    # days, moments and times as ISO 8601 writes them
    return str(value)


def reader(kind: ResultType) -> Callable[[Json], object]:
    """Function that reads the packed values of a type back; what it cannot read stays text, as days beyond Python's are."""
    if kind.item is not None:
        item = reader(kind.item)
        return lambda value: [item(one) for one in value] if isinstance(value, list) else value
    read = _READERS.get(kind.name)
    if read is None:
        return lambda value: value

    def lenient(value: Json) -> object:
        if value is None:
            return None
        try:
            return read(value)
        except (ValueError, TypeError, InvalidOperation):
            return value

    return lenient


def _days(value: object) -> timedelta:
    assert isinstance(value, list)
    return timedelta(*value)


_READERS: dict[str, Callable[..., object]] = {
    "FLOAT": float,
    "DOUBLE": float,
    "DECIMAL": Decimal,
    "DATE": date.fromisoformat,
    "TIMESTAMP": datetime.fromisoformat,
    "TIME": time.fromisoformat,
    "INTERVAL": _days,
    "BLOB": bytes.fromhex,
}


def packed_rows(rows: Sequence[tuple[object, ...]]) -> Iterator[list[Json]]:
    """Rows in chunks."""
    for begin in range(0, len(rows), CHUNK):
        yield [[pack(value) for value in row] for row in rows[begin : begin + CHUNK]]


def read_columns(found: Json) -> tuple[tuple[str, str], ...]:
    return (
        tuple((str(one[0]), str(one[1])) for one in found if isinstance(one, list)) if isinstance(found, list) else ()
    )


def read_texts(found: Json) -> tuple[str, ...]:
    return tuple(map(str, found)) if isinstance(found, list) else ()


def read_rows(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Json]]) -> list[tuple[object, ...]]:
    readers = [reader(read_type(sqltype)) for _, sqltype in columns]
    return [tuple(read(value) for read, value in zip(readers, row, strict=True)) for row in rows]


# --- parameters: each says its own type -------------------------------------------------------------------------------------

_FRACTION = re.compile(r"-?\d{1,400}(?:/\d{1,400})?")


def _fraction(text: str) -> Fraction:
    """A fraction as Python writes it. Why  a few characters with an exponent name more digits than there is memory for"""
    if _FRACTION.fullmatch(text) is None:
        raise ValueError
    return Fraction(text)


def _spaced(value: datetime) -> str:
    return value.isoformat(sep=" ")


_TAGGED: dict[str, tuple[type, Callable[..., str], Callable[[str], object]]] = {
    "float": (float, repr, float),
    "decimal": (Decimal, str, Decimal),
    "fraction": (Fraction, str, _fraction),
    "timestamp": (datetime, _spaced, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
}
"""By its tag a type, how it is written, and how it is read; the first that fits is taken."""


def pack_parameter(value: object) -> Json:
    """A parameter as JSON. Raises 108 for what is of no type that a statement takes."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    for tag, (kind, write, _) in _TAGGED.items():
        if isinstance(value, kind):
            return {tag: write(value)}
    raise error(
        108, f"a parameter is of the type {type(value).__name__}", hint="give a number, text, date, boolean or None"
    )


def pack_parameters(values: Values) -> Json:
    if isinstance(values, Mapping):
        return {name: pack_parameter(value) for name, value in values.items()}
    return [pack_parameter(value) for value in values]


def read_parameters(packed: Json) -> Values:
    """Raises 108 for what is no packed parameter."""
    if isinstance(packed, dict):
        return {name: _parameter(value) for name, value in packed.items()}
    return [_parameter(value) for value in packed] if isinstance(packed, list) else ()


def _parameter(packed: Json) -> object:
    if isinstance(packed, dict) and len(packed) == 1:
        ((tag, text),) = packed.items()
        if tag in _TAGGED and isinstance(text, str):
            try:
                return _TAGGED[tag][2](text)
            except (ValueError, InvalidOperation, ZeroDivisionError):
                pass
    elif packed is None or isinstance(packed, bool | int | str | float):
        return packed
    raise error(
        108, "a parameter is no value that a statement takes", hint="give a number, text, date, boolean or None"
    )


# --- prices ---------------------------------------------------------------------------------------------------------------


def read_receipt(packed: Mapping[str, Json]) -> Receipt:
    """The receipt that was packed; 901 where it was none."""
    loss = packed.get("loss")
    try:
        left = EpsilonDelta(Fraction(str(packed["remaining"])), Fraction(str(packed["remaining_delta"])))
        epsilon, delta, squares, rho, mu = (
            None if one is None else Fraction(str(one)) for one in (loss if isinstance(loss, list) else ())
        )
        statements = packed.get("statements")
        more = statements if isinstance(statements, int) else None
        return Receipt(None, PrivacyLoss(epsilon, delta or _ZERO, squares, rho or _ZERO, mu or _ZERO), left, more)
    except (ValueError, KeyError, ZeroDivisionError):
        pass
    raise error(901, "an answer of the server cannot be read")


def read_price(packed: Mapping[str, Json]) -> StatementPrice:
    """The price that was packed; 901 where it was none."""
    releases = int(str(packed.get("releases", 0)))
    return priced(read_receipt(packed), packed.get("cached") is True, releases, str(packed.get("as_of") or ""))


# --- errors ---------------------------------------------------------------------------------------------------------------


def pack_error(problem: Error) -> dict[str, Json]:
    span: list[Json] | None = None if problem.span is None else [problem.span.start, problem.span.end]
    return {"code": problem.code, "message": problem.message, "hint": problem.hint, "span": span}


def read_error(packed: Mapping[str, Json]) -> Error:
    """The error that was packed; 901 where it was none."""
    code = str(packed.get("code", "")).removeprefix("DPSQL-")
    hint, span = packed.get("hint"), packed.get("span")
    if not code.isdecimal() or int(code) not in CODES:
        return error(901, "an answer of the server cannot be read")
    place = None
    if isinstance(span, list) and len(span) == 2 and isinstance(span[0], int) and isinstance(span[1], int):
        place = Span(span[0], span[1])
    return error(int(code), str(packed.get("message")), hint=str(hint) if hint is not None else None, span=place)
