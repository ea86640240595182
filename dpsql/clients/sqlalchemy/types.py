# mypy: disable-error-code="misc"
"""Declared types as SQLAlchemy's; those that it lacks are named as DuckDB names them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from sqlalchemy import types
from sqlalchemy.types import TypeEngine

from dpsql.core.sqltypes import SqlType


class SizedInteger(types.Integer):
    """An integer of a size that SQLAlchemy has no name for."""

    __visit_name__ = "sized_integer"


TINYINT, HUGEINT, UTINYINT, USMALLINT, UINTEGER, UBIGINT = (
    type(name, (SizedInteger,), {"__module__": __name__})
    for name in ("TINYINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
)


class DOUBLE(types.Float):
    """64 bits; SQLAlchemy 1.4 has none."""

    __visit_name__ = "DOUBLE"


class LIST(types.UserDefinedType):
    """A list, by the name that DuckDB has for its type."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self) -> str:
        return self.name


PLAIN: dict[str, type[TypeEngine]] = {
    "BOOLEAN": types.BOOLEAN, "TINYINT": TINYINT, "SMALLINT": types.SMALLINT, "INTEGER": types.INTEGER,
    "BIGINT": types.BIGINT, "HUGEINT": HUGEINT, "UTINYINT": UTINYINT, "USMALLINT": USMALLINT, "UINTEGER": UINTEGER,
    "UBIGINT": UBIGINT, "FLOAT": types.REAL, "DOUBLE": DOUBLE, "VARCHAR": types.VARCHAR, "DATE": types.DATE,
    "TIMESTAMP": types.TIMESTAMP, "TIME": types.TIME,
}  # fmt: skip


def type_of(sqltype: SqlType) -> TypeEngine:
    """The type of a declared column."""
    if sqltype.is_decimal:
        return types.DECIMAL(sqltype.width, sqltype.scale)
    return LIST(sqltype.name) if sqltype.element is not None else PLAIN[sqltype.name]()


class DpsqlDate(types.Date):
    """A day, which can be written into the text of a statement."""

    def literal_processor(self, dialect: Any) -> Callable[[datetime.date], str]:
        return lambda value: f"DATE '{value.isoformat()}'"


class DpsqlDateTime(types.DateTime):
    """A moment without a time zone, which can be written into the text of a statement."""

    def literal_processor(self, dialect: Any) -> Callable[[datetime.datetime], str]:
        return lambda value: f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}'"


WRITTEN: dict[type[TypeEngine], type[TypeEngine]] = {types.Date: DpsqlDate, types.DateTime: DpsqlDateTime}
"""SQLAlchemy's types, and ours."""
