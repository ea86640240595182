"""PostgreSQL's types for those of dpsql, and which one a parameter is of."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.clients.dbapi.types import ResultType, read_type
from dpsql.clients.server.codec import Field


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of PostgreSQL's.

    oid, array  its number, and that of lists of it
    size        [bytes] of a value; -1: any
    """

    name: str
    oid: int
    array: int
    size: int


_ALL = (
    PgType("bool", 16, 1000, 1), PgType("bytea", 17, 1001, -1), PgType("int8", 20, 1016, 8), PgType("int2", 21, 1005, 2),
    PgType("int4", 23, 1007, 4), PgType("text", 25, 1009, -1), PgType("float4", 700, 1021, 4), PgType("float8", 701, 1022, 8),
    PgType("varchar", 1043, 1015, -1), PgType("date", 1082, 1182, 4), PgType("time", 1083, 1183, 8),
    PgType("timestamp", 1114, 1115, 8), PgType("timestamptz", 1184, 1185, 8), PgType("interval", 1186, 1187, 16),
    PgType("numeric", 1700, 1231, -1),
)  # fmt: skip
BY_NAME = {one.name: one for one in _ALL}
BY_OID = {one.oid: one for one in _ALL}
TEXT = BY_NAME["text"]
UNTYPED = (0, 705)
"""Numbers by which a client says that it does not know a parameter's type."""
_SAME = {18: TEXT, 19: TEXT, 1042: TEXT}
"""Other types of text: "char", name, bpchar."""
_NAMES = {
    "BOOLEAN": "bool", "TINYINT": "int2", "SMALLINT": "int2", "INTEGER": "int4", "BIGINT": "int8", "HUGEINT": "numeric",
    "UTINYINT": "int2", "USMALLINT": "int4", "UINTEGER": "int8", "UBIGINT": "numeric", "UHUGEINT": "numeric", "FLOAT": "float4",
    "DOUBLE": "float8", "DECIMAL": "numeric", "VARCHAR": "text", "BLOB": "bytea", "DATE": "date", "TIME": "time",
    "TIMESTAMP": "timestamp", "TIMESTAMP_S": "timestamp", "TIMESTAMP_MS": "timestamp", "TIMESTAMP_NS": "timestamp",
    "INTERVAL": "interval",
}  # fmt: skip
_HEADER = 4
"""Bytes that PostgreSQL adds to the modifier of a numeric."""


def pg_type(kind: ResultType) -> PgType:
    """The type of a column, or of a list's elements; what PostgreSQL has no like of is text."""
    return BY_NAME[_NAMES.get(kind.name, "text")]


def field(name: str, sqltype: str, binary: bool) -> Field:
    """A column of a result as clients see it.

    >>> field("n", "DECIMAL(18,3)", False).modifier == (18 << 16 | 3) + 4
    True
    """
    kind = read_type(sqltype)
    if kind.item is not None:
        return Field(name, pg_type(kind.item).array if kind.item.item is None else TEXT.oid, -1, -1, binary)
    found = pg_type(kind)
    modifier = -1
    if kind.precision is not None:
        modifier = (kind.precision << 16 | (kind.scale or 0)) + _HEADER
    return Field(name, found.oid, found.size, modifier, binary)


def of_parameter(sqltype: str | None) -> int:
    """The number of a parameter's type, as it follows from where it stands; text where nothing does."""
    if sqltype is None:
        return TEXT.oid
    kind = read_type(sqltype)
    if kind.name in ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"):
        # a comparison with a number that the column cannot hold is none that is wrong
        return BY_NAME["int8"].oid
    if kind.name == "FLOAT":
        return BY_NAME["float8"].oid
    return pg_type(kind).oid


def known(oid: int) -> PgType | None:
    """The type of a number; None where no parameter may be of it."""
    return BY_OID.get(oid) or _SAME.get(oid)
