"""The SQL types that dpsql computes with, named and ordered as DuckDB names them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpsql.core.domains import Interval

INTEGER_BITS: dict[str, tuple[int, bool]] = {
    "TINYINT": (8, True),
    "SMALLINT": (16, True),
    "INTEGER": (32, True),
    "BIGINT": (64, True),
    "HUGEINT": (128, True),
    "UTINYINT": (8, False),
    "USMALLINT": (16, False),
    "UINTEGER": (32, False),
    "UBIGINT": (64, False),
}
OTHER_TYPES = ("BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "DATE", "TIMESTAMP", "TIME")
_SYNONYMS = {
    "INT": "INTEGER", "INT1": "TINYINT", "INT2": "SMALLINT", "INT4": "INTEGER", "INT8": "BIGINT", "LONG": "BIGINT",
    "SHORT": "SMALLINT", "BOOL": "BOOLEAN", "LOGICAL": "BOOLEAN", "REAL": "FLOAT", "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE", "NUMERIC": "DECIMAL", "STRING": "VARCHAR", "TEXT": "VARCHAR", "CHAR": "VARCHAR",
    "BPCHAR": "VARCHAR", "DATETIME": "TIMESTAMP", "UTINYINT": "UTINYINT",
}  # fmt: skip

LIST = "[]"
"""Ending of the name of a list's type, after that of its elements."""
NO_ELEMENTS = ("HUGEINT", "DECIMAL")
"""Simple types of which there are no lists here: Parquet has no HUGEINT, and a list of decimals is not read digit by digit."""


@dataclass(frozen=True, slots=True)
class SqlType:
    """One SQL type; width and scale only for DECIMAL."""

    name: str
    width: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.width},{self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGER_BITS

    @property
    def is_float(self) -> bool:
        return self.name in ("FLOAT", "DOUBLE")

    @property
    def is_decimal(self) -> bool:
        return self.name == "DECIMAL"

    @property
    def is_number(self) -> bool:
        return self.is_integer or self.is_float or self.is_decimal

    @property
    def is_temporal(self) -> bool:
        return self.name in ("DATE", "TIMESTAMP")

    @property
    def is_counted(self) -> bool:
        """True if a value is held as a whole number: of days since 1970, or of microseconds since then or since midnight."""
        return self.is_temporal or self.name == "TIME"

    @property
    def is_text(self) -> bool:
        return self.name == "VARCHAR"

    @property
    def is_boolean(self) -> bool:
        return self.name == "BOOLEAN"

    @property
    def element(self) -> SqlType | None:
        """The type of a list's elements; None of what is no list.

        >>> str(SqlType("VARCHAR[]").element), SqlType("VARCHAR").element
        ('VARCHAR', None)
        """
        return SqlType(self.name.removesuffix(LIST)) if self.name.endswith(LIST) else None

    @property
    def range(self) -> Interval | None:
        """Every value that the type can hold [its own unit]; None where a value may be infinite, NaN or not a number."""
        return _range(self)


@lru_cache(1000)
def _range(sqltype: SqlType) -> Interval | None:
    if sqltype.is_integer:
        bits, signed = INTEGER_BITS[sqltype.name]
        low = -(2 ** (bits - 1)) if signed else 0
        high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
        return Interval(Fraction(low), Fraction(high))
    if sqltype.is_decimal:
        most = Fraction(10**sqltype.width - 1, 10**sqltype.scale)
        return Interval(-most, most)
    return None


BOOLEAN, VARCHAR, DATE, TIMESTAMP = SqlType("BOOLEAN"), SqlType("VARCHAR"), SqlType("DATE"), SqlType("TIMESTAMP")
TIME = SqlType("TIME")
INTEGER, BIGINT, HUGEINT = SqlType("INTEGER"), SqlType("BIGINT"), SqlType("HUGEINT")
FLOAT, DOUBLE = SqlType("FLOAT"), SqlType("DOUBLE")
COMBINATION = SqlType("ROW")
"""Several values as one, (a, b): only counted."""
_DECIMAL = re.compile(r"(?:DECIMAL|NUMERIC)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?$")


def decimal(width: int, scale: int) -> SqlType:
    return SqlType("DECIMAL", width, scale)


def parse_type(text: str) -> SqlType | None:
    """The type that a declaration or a cast names; None where dpsql does not compute with it.

    >>> str(parse_type("numeric(15, 2)")), str(parse_type("int")), parse_type("BLOB")
    ('DECIMAL(15,2)', 'INTEGER', None)
    """
    name = text.strip().upper()
    match = _DECIMAL.match(name)
    if match:
        width, scale = int(match[1] or 18), int(match[2] or 0) if match[1] else 3
        return decimal(width, scale) if 1 <= width <= 38 and scale <= width else None
    name = re.sub(r"\(\s*\d+\s*\)$", "", name) if name.startswith(("VARCHAR", "CHAR", "TEXT")) else name
    name = _SYNONYMS.get(name, name)
    return SqlType(name) if name in INTEGER_BITS or name in OTHER_TYPES else None


def parse_column_type(text: str) -> SqlType | None:
    """The type that a private column is declared to have: one to compute with, or a list of such.

    >>> str(parse_column_type("text[]")), parse_column_type("INTEGER[][]"), parse_column_type("DECIMAL(4, 1)[]")
    ('VARCHAR[]', None, None)
    """
    name = text.strip()
    if not name.endswith(LIST):
        return parse_type(name)
    element = parse_type(name.removesuffix(LIST))
    return SqlType(f"{element}{LIST}") if element is not None and element.name not in NO_ELEMENTS else None


def smallest_integer(interval: Interval) -> SqlType | None:
    """The narrowest of BIGINT and HUGEINT that holds an interval; None if neither does."""
    for candidate in (BIGINT, HUGEINT):
        limits = candidate.range
        if limits is not None and limits.lower <= interval.lower and interval.upper <= limits.upper:
            return candidate
    return None
