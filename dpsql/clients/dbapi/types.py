"""PEP 249's type objects and constructors, and the types of result columns."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


class TypeObject:
    """One of PEP 249's groups of types. It equals the names of the types in it, which `cursor.description` shows.

    >>> "DECIMAL(18,3)" == NUMBER, "BIGINT" == STRING, "BIGINT[]" == NUMBER
    (True, False, False)
    """

    def __init__(self, name: str, *types: str) -> None:
        self.name = name
        self.types = frozenset(types)

    def __repr__(self) -> str:
        return f"dpsql.{self.name}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return read_type(other).name in self.types
        return self is other

    # what is equal to several texts has no hash that is theirs
    __hash__ = None  # type: ignore[assignment]


STRING = TypeObject("STRING", "VARCHAR", "ENUM", "UUID")
"""Texts."""
BINARY = TypeObject("BINARY", "BLOB", "BIT")
"""Bytes and bits."""
NUMBER = TypeObject(
    "NUMBER",
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL"),
)
"""Numbers, and booleans."""
DATETIME = TypeObject(
    "DATETIME",
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"),
    "INTERVAL",
)
"""Dates, times, timestamps and intervals."""
ROWID = TypeObject("ROWID")
"""No column is of it: rows have no ids."""

Date = datetime.date
"""Constructor of a day."""
Time = datetime.time
"""Constructor of a time of day."""
Timestamp = datetime.datetime
"""Constructor of a day with its time."""
Binary = bytes
"""Constructor of bytes."""
DateFromTicks = datetime.date.fromtimestamp
"""The day of a moment [seconds since 1970], where this program runs."""
TimestampFromTicks = datetime.datetime.fromtimestamp
"""Day and time of a moment [seconds since 1970], where this program runs."""


def TimeFromTicks(ticks: float) -> datetime.time:
    """The time of day of a moment [seconds since 1970], where this program runs."""
    return datetime.datetime.fromtimestamp(ticks).time()


@dataclass(frozen=True, slots=True)
class ResultType:
    """The type of a result column.

    name              as DuckDB writes it, without arguments; LIST for a list
    precision, scale  [digits] of DECIMAL
    item              of what a list is made
    """

    name: str
    precision: int | None = None
    scale: int | None = None
    item: ResultType | None = None


def read_type(text: str) -> ResultType:
    """A type as DuckDB writes it.

    >>> read_type("DECIMAL(18,3)[]").item
    ResultType(name='DECIMAL', precision=18, scale=3, item=None)
    """
    if text.endswith("]"):
        return ResultType("LIST", item=read_type(text[: text.rindex("[")]))
    match = _DECIMAL.fullmatch(text)
    if match:
        return ResultType("DECIMAL", int(match[1]), int(match[2]))
    return ResultType(text.strip('"').partition("(")[0])
