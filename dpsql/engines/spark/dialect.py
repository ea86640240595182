"""Spark's dialect: checked statements, and the words of the owner's questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.core.sqltypes import SqlType
from dpsql.engines.dialects.queries import written
from dpsql.engines.spark.words import WORDS
from dpsql.plan.checked import Checked


@dataclass(frozen=True, slots=True)
class SparkDialect:
    """See base.Dialect. It has no guard: what was not proved total is refused."""

    engine: str = WORDS.engine
    guards: bool = False
    verbatim: bool = False

    def write(self, statement: Checked) -> str:
        return written(WORDS, statement)

    def relation(self, table: str) -> str:
        return WORDS.name(table)

    def is_nan(self, column: str) -> str:
        return WORDS.is_nan(column)

    def is_infinite(self, column: str, sqltype: SqlType) -> str:
        return f"({column} IN ({WORDS.infinities()}))" if sqltype.is_float else f"({column} <> {column})"

    def measured(self, column: str, sqltype: SqlType) -> str:
        if sqltype.is_float:
            return f"(CASE WHEN NOT ({WORDS.is_nan(column)} OR {column} IN ({WORDS.infinities()})) THEN {column} END)"
        if sqltype.name == "DATE":
            return f"CAST(unix_date({column}) AS BIGINT)"
        if sqltype.name == "TIMESTAMP":
            return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {column})"
        return WORDS.cast(column, SqlType("VARCHAR")) if sqltype.is_decimal else column

    def hashed(self, columns: Sequence[str]) -> str:
        return f"bit_xor(xxhash64({', '.join(columns)}))"


DIALECT = SparkDialect()
