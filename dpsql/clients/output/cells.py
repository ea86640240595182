"""One value as text: as files hold it, as JSON holds it, and as a terminal may show it."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from dpsql.core.escaping import harmless_json

_ENCODER = json.JSONEncoder(ensure_ascii=False).encode


NUMBERS = frozenset((int, float, Decimal))


def exact_text(value: object) -> str:
    """A value for a file, without loss; the caller writes NULL."""
    write = _EXACT.get(type(value))
    return write(value) if write is not None else str(value)


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else repr(value).replace("inf", "Infinity").replace("nan", "NaN")


def _decimal(value: Decimal) -> str:
    return format(value, "f") if value.is_finite() else _float(float(value))


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _blob(value: bytes) -> str:
    return "\\x" + value.hex()


def brief_text(value: object) -> str:
    """A value for people: ten digits of a float, NULL as an empty cell."""
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) and math.isfinite(value) else exact_text(value)


def json_text(value: object) -> str:
    """A value as JSON: numbers with all their digits, NaN and infinities as strings, all that is no JSON type as its text."""
    write = _JSON.get(type(value))
    return write(value) if write is not None else json_string(exact_text(value))


def _json_float(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'"{_float(value)}"'


def _json_decimal(value: Decimal) -> str:
    return _decimal(value) if value.is_finite() else f'"{_decimal(value)}"'


def _json_list(value: Sequence[object]) -> str:
    return f"[{', '.join([json_text(item) for item in value])}]"


def _json_object(value: Mapping[object, object]) -> str:
    return "{" + ", ".join([f"{json_string(exact_text(k))}: {json_text(v)}" for k, v in value.items()]) + "}"


def json_string(text: str) -> str:
    """A JSON string that a terminal may show too: what json.dumps leaves of control characters is escaped."""
    return harmless_json(_ENCODER(text))


def columns_of(text: str) -> int:
    """Number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut(text: str, width: int, mark: str) -> str:
    """The text in at most so many columns; where something is left out, the mark stands last."""
    if columns_of(text) <= width:
        return text
    left, kept = width - columns_of(mark), ""
    for character in text:
        left -= _columns(character)
        if left < 0:
            break
        kept += character
    return kept + mark


# By exact type: what DuckDB gives is of no subclasses, and a million rows ask here for each value.
_EXACT: dict[type, Callable[..., str]] = {
    str: str,
    int: str,
    float: _float,
    bool: _truth,
    Decimal: _decimal,
    bytes: _blob,
    list: _json_list,
    tuple: _json_list,
    dict: _json_object,
}
_JSON: dict[type, Callable[..., str]] = {
    **_EXACT,
    type(None): lambda value: "null",
    str: json_string,
    float: _json_float,
    Decimal: _json_decimal,
}
del _JSON[bytes]
