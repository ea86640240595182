"""DuckDB's words: a checked statement is in them as it is, and values cross in forms that Python holds exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.core.sqltypes import SqlType
from dpsql.engines.writing import name
from dpsql.plan.checked import Checked


def measured(column: str, sqltype: SqlType) -> str:
    """SQL of the value in its domain's unit; NULL where it is infinite or NaN."""
    if sqltype.is_float:
        return f"CASE WHEN isfinite({column}) THEN CAST({column} AS DOUBLE) END"
    if sqltype.name == "DATE":
        return f"CASE WHEN isfinite({column}) THEN date_diff('day', DATE '1970-01-01', {column}) END"
    if sqltype.name == "TIMESTAMP":
        return f"CASE WHEN isfinite({column}) THEN epoch_us({column}) END"
    if sqltype.name == "TIME":
        return f"date_diff('microsecond', TIME '00:00:00', {column})"
    return f"CAST({column} AS VARCHAR)" if sqltype.is_decimal else column


def portable(column: str, sqltype: SqlType) -> str:
    """SQL of a value in a form that Python holds exactly."""
    exact = (sqltype.is_integer and sqltype.name not in ("HUGEINT", "UBIGINT")) or sqltype.is_float
    return column if exact or sqltype.is_boolean or sqltype.is_text else f"CAST({column} AS VARCHAR)"


@dataclass(frozen=True, slots=True)
class DuckDBDialect:
    """See base.Dialect."""

    engine: str = "DuckDB"
    guards: bool = True
    verbatim: bool = True

    def write(self, statement: Checked) -> str:
        return statement.text

    def relation(self, table: str) -> str:
        return f"main.{name(table)}"

    def is_nan(self, column: str) -> str:
        return f"isnan({column})"

    def is_infinite(self, column: str, sqltype: SqlType) -> str:
        return f"isinf({column})" if sqltype.is_float else f"NOT isfinite({column})"

    def measured(self, column: str, sqltype: SqlType) -> str:
        return measured(column, sqltype)

    def hashed(self, columns: Sequence[str]) -> str:
        return f"bit_xor(hash({', '.join(columns)}))"


DIALECT = DuckDBDialect()
