"""Types and names of dpsql as PostgreSQL is told them, and refusals of what it lacks."""

from __future__ import annotations

import hashlib

from dpsql.core.domains import Interval
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import BIGINT, INTEGER_BITS, SqlType
from dpsql.engines.writing import name as quoted
from dpsql.expressions.known import Known

ENGINE = "PostgreSQL"
LONGEST = 60
"""[bytes] of a name; PostgreSQL cuts longer ones off at 63, and two could become one."""
_NARROW = frozenset(set(INTEGER_BITS) - {"HUGEINT", "UBIGINT"})
_OTHERS = {
    "BOOLEAN": "boolean",
    "DOUBLE": "double precision",
    "FLOAT": "double precision",
    "VARCHAR": "text",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIME": "time",
}


def refused(what: str, hint: str = "ask without it, or of data that DuckDB reads") -> Error:
    """The refusal of what PostgreSQL has no surely equal form of."""
    return error(102, f"{what} has no form in {ENGINE} that is surely equal on every value", hint=hint)


def stored(sqltype: SqlType) -> str:
    """The type that holds every value of one of dpsql's exactly: whole numbers of up to 64 bits as bigint, wider ones as numeric."""
    if sqltype.name in _NARROW:
        return "bigint"
    if sqltype.is_integer or sqltype.is_decimal:
        return "numeric"
    if sqltype.name not in _OTHERS:
        raise refused(f"a value of type {sqltype}")
    return _OTHERS[sqltype.name]


def is_narrow(sqltype: SqlType) -> bool:
    """True of what is stored as bigint."""
    return sqltype.name in _NARROW


def name(identifier: str) -> str:
    """An identifier as PostgreSQL is told it: small letters, since names do not depend on case here, and not too long."""
    small = identifier.lower()
    if len(small.encode("utf-8", "backslashreplace")) > LONGEST:
        small = f"dpsql {hashlib.sha256(small.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}"
    return quoted(small)


def text(value: str) -> str:
    """A text constant; compared by its bytes."""
    if "\0" in value:
        raise refused("the character NUL", "write a text without it")
    doubled = value.replace("'", "''")
    escaped = "E'" + doubled.replace("\\", "\\\\") + "'" if "\\" in value else f"'{doubled}'"
    return f'({escaped}::text COLLATE "C")'


def cast(value: str, sqltype: SqlType) -> str:
    """A value in the type that holds another of dpsql's."""
    written = stored(sqltype)
    return f'(({value})::text COLLATE "C")' if written == "text" else f"({value})::{written}"


def whole(limits: Interval | None, largest: int) -> bool:
    """True where every value is at most so large, either way."""
    return limits is not None and -largest <= limits.lower and limits.upper <= largest


def fits_bigint(known: Known) -> bool:
    """True where every value, rounded, is a bigint."""
    held = BIGINT.range
    return (
        known.limits is not None
        and held is not None
        and held.lower <= known.limits.lower
        and known.limits.upper <= held.upper
    )


_FIRST, _LAST = -719_162, 2_932_896
"""[days] since 1970 of the first day of the year 1 and of the last of the year 9999."""
_DAY = 86_400_000_000
"""[microseconds]"""


def within_years(known: Known) -> bool:
    """True of a date or timestamp that is known to be in the years 1 to 9999."""
    unit = _DAY if known.sqltype.name == "TIMESTAMP" else 1
    limits = known.limits
    return limits is not None and _FIRST * unit <= limits.lower and limits.upper < (_LAST + 1) * unit
