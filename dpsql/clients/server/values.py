"""Values as PostgreSQL's protocol writes them, as text and as bytes, and parameters read from either."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation, localcontext

from dpsql.clients.dbapi.types import ResultType
from dpsql.clients.output.cells import exact_text
from dpsql.clients.server.pgtypes import PgType, pg_type
from dpsql.core.errors import error

Writer = Callable[[object], bytes | None]
EPOCH, MIDNIGHT = datetime(2000, 1, 1), datetime.min
DAY_ZERO = date(2000, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_NEEDS_QUOTES = re.compile(r'[\s{}",\\]|^$|^null$', re.IGNORECASE)


def writer(kind: ResultType, binary: bool) -> Writer:
    """Function that writes the values of a type; None is NULL. It raises 802 for what the type's bytes cannot hold."""
    if kind.item is not None:
        if kind.item.item is not None:
            return _nullable(lambda value: str(value).encode())
        return _nullable(_binary_list(kind.item) if binary else lambda value: _text_list(value).encode())
    found = pg_type(kind)
    write = _BINARY[found.name] if binary else lambda value: _text(value).encode("utf-8", "replace")
    return _nullable(lambda value: _walled(write, value))


def _nullable(write: Callable[[object], bytes]) -> Writer:
    return lambda value: None if value is None else write(value)


def _walled(write: Callable[..., bytes], value: object) -> bytes:
    try:
        return write(value)
    except (struct.error, ValueError, TypeError, OverflowError, InvalidOperation, AttributeError, LookupError):
        pass
    raise error(802, "a value of the result has no binary form of its column's type", hint="cast the column to VARCHAR")


# --- text -----------------------------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    match value:
        case bool():
            return "t" if value else "f"
        case timedelta():
            return _interval(value)
    return exact_text(value)


def _interval(value: timedelta) -> str:
    """Days and a time of day, both with the sign of the whole."""
    size = abs(value)
    whole, minute = divmod(size.seconds, 3600)
    sign, rest = "-" if value < timedelta() else "", f".{size.microseconds:06}" if size.microseconds else ""
    days = f"{sign}{size.days} days " if size.days else ""
    return f"{days}{sign}{whole:02}:{minute // 60:02}:{minute % 60:02}{rest}"


def _text_list(value: object) -> str:
    items = [_item(item) for item in value] if isinstance(value, list | tuple) else [_item(value)]
    return "{" + ",".join(items) + "}"


def _item(value: object) -> str:
    if value is None:
        return "NULL"
    text = _text(value)
    if not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- bytes ----------------------------------------------------------------------------------------------------------------


def _microseconds(value: datetime) -> int:
    return (value - EPOCH) // _MICROSECOND


def _counted(form: str, bits: int, count: Callable[..., int]) -> Callable[[object], bytes]:
    """Writer of days or moments as a number; infinity is the largest."""
    ends = {"infinity": 2 ** (bits - 1) - 1, "-infinity": -(2 ** (bits - 1))}
    return lambda value: struct.pack(form, count(value) if isinstance(value, date) else ends[str(value)])


def _binary_time(value: time) -> bytes:
    return struct.pack("!q", (datetime.combine(date.min, value) - MIDNIGHT) // _MICROSECOND)


def _binary_interval(value: timedelta) -> bytes:
    return struct.pack("!qii", value.seconds * 10**6 + value.microseconds, value.days, 0)


def _binary_numeric(value: object) -> bytes:
    """Digits of base 10,000; the weight is of the first of them, and the scale is of decimal digits."""
    number = Decimal(repr(value) if isinstance(value, float) else str(value))
    if not number.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale, whole = max(0, -exponent), int("".join(map(str, digits)) or "0")
    whole *= 10 ** (max(0, exponent) + -scale % 4)
    groups: list[int] = []
    while whole:
        whole, group = divmod(whole, 10_000)
        groups.append(group)
    weight = len(groups) - (scale + -scale % 4) // 4 - 1
    while groups and not groups[0]:
        del groups[0]
    groups.reverse()
    return struct.pack(f"!HhHH{len(groups)}H", len(groups), weight, 0x4000 if sign and groups else 0, scale, *groups)


def _binary_list(item: ResultType) -> Callable[[object], bytes]:
    write, oid = writer(item, True), pg_type(item).oid

    def listed(value: object) -> bytes:
        items = [write(one) for one in value] if isinstance(value, list | tuple) else []
        if not items:
            return struct.pack("!iiI", 0, 0, oid)
        parts = [struct.pack("!i", -1) if one is None else struct.pack("!i", len(one)) + one for one in items]
        return struct.pack("!iiIii", 1, int(None in items), oid, len(items), 1) + b"".join(parts)

    return listed


_FORMS = {"int2": "!h", "int4": "!i", "int8": "!q", "float4": "!f", "float8": "!d"}


def _packed(form: str) -> Callable[[object], bytes]:
    return lambda value: struct.pack(form, value)


def _unpacked(form: str) -> Callable[[bytes], object]:
    return lambda value: struct.unpack(form, value)[0]


_BINARY: dict[str, Callable[..., bytes]] = {
    **{name: _packed(form) for name, form in _FORMS.items()},
    "bool": lambda value: b"\1" if value else b"\0",
    "bytea": bytes,
    "text": lambda value: _text(value).encode("utf-8", "replace"),
    "date": _counted("!i", 32, lambda value: (value - DAY_ZERO).days),
    "time": _binary_time,
    "timestamp": _counted("!q", 64, _microseconds),
    "interval": _binary_interval,
    "numeric": _binary_numeric,
}

# --- parameters -----------------------------------------------------------------------------------------------------------


def read_parameter(value: bytes | None, kind: PgType, binary: bool, place: int) -> object:
    """A parameter as a value of Python's. Raises 108 for what is none of its type.

    place  of the parameter, from 1
    """
    if value is None:
        return None
    read = (_FROM_BYTES if binary else _FROM_TEXT).get(kind.name)
    if read is None:
        raise error(
            108, f"parameter {place} is of the type {kind.name}", hint="give a number, text, date, boolean or None"
        )
    try:
        return read(value)
    except (ValueError, struct.error, InvalidOperation, OverflowError, UnicodeDecodeError, LookupError):
        pass
    form = "bytes" if binary else "text"
    raise error(
        108,
        f"the {form} of parameter {place} cannot be read as {kind.name}",
        hint="give a value of that type, or cast it",
    )


_MOST_GROUPS = 200
"""Of four digits each, more than DOUBLE's range has: with many thousands the front would be busy for seconds, and nobody served."""
_TRUTHS = {"t": True, "true": True, "on": True, "yes": True, "y": True, "1": True,
           "f": False, "false": False, "off": False, "no": False, "n": False, "0": False}  # fmt: skip


def _moment(text: str) -> datetime:
    """A moment without a zone; where one is written it is that moment in UTC."""
    found = datetime.fromisoformat(text.strip())
    return found if found.tzinfo is None else (found - (found.utcoffset() or timedelta())).replace(tzinfo=None)


def _day(text: str) -> date:
    return _moment(text).date()


def _after(count: int) -> timedelta:
    return timedelta(microseconds=count)


def _read_numeric(value: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack_from("!HhHH", value)
    if count > _MOST_GROUPS:
        raise ValueError
    digits = struct.unpack(f"!{count}H", value[8:])
    if sign not in (0, 0x4000) or any(digit > 9999 for digit in digits):
        raise ValueError
    whole = 0
    for digit in digits:
        whole = whole * 10_000 + digit
    with localcontext(prec=4 * _MOST_GROUPS):
        found = Decimal(whole).scaleb(4 * (weight + 1 - count))
        return (-found if sign else found).quantize(Decimal(1).scaleb(-scale)) if whole else Decimal(0)


_FROM_TEXT: dict[str, Callable[[bytes], object]] = {
    "bool": lambda value: _TRUTHS[value.decode().strip().lower()],
    **{name: lambda value: int(value.decode()) for name in ("int2", "int4", "int8")},
    **{name: lambda value: float(value.decode()) for name in ("float4", "float8")},
    "numeric": lambda value: Decimal(value.decode().strip()),
    **{name: lambda value: value.decode("utf-8") for name in ("text", "varchar")},
    "date": lambda value: _day(value.decode()),
    "time": lambda value: time.fromisoformat(value.decode().strip()),
    **{name: lambda value: _moment(value.decode()) for name in ("timestamp", "timestamptz")},
}
_FROM_BYTES: dict[str, Callable[[bytes], object]] = {
    "bool": lambda value: bool(_unpacked("!?")(value)),
    **{name: _unpacked(form) for name, form in _FORMS.items()},
    "numeric": _read_numeric,
    **{name: lambda value: value.decode("utf-8") for name in ("text", "varchar")},
    "date": lambda value: DAY_ZERO + timedelta(days=struct.unpack("!i", value)[0]),
    "time": lambda value: (MIDNIGHT + _after(struct.unpack("!q", value)[0])).time(),
    **{name: lambda value: EPOCH + _after(struct.unpack("!q", value)[0]) for name in ("timestamp", "timestamptz")},
}
