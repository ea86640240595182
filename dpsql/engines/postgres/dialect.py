"""PostgreSQL's dialect: checked statements, and the words of the owner's questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.core.sqltypes import SqlType
from dpsql.engines.dialects.queries import written
from dpsql.engines.postgres.words import WORDS
from dpsql.plan.checked import Checked


@dataclass(frozen=True, slots=True)
class PostgresDialect:
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
        if sqltype.is_float:
            return f"({column} IN ({WORDS.infinities()}))"
        return f"(NOT isfinite({column}))"

    def measured(self, column: str, sqltype: SqlType) -> str:
        if sqltype.is_float:
            return f"(CASE WHEN {column} NOT IN ('NaN'::float8, {WORDS.infinities()}) THEN {column} END)"
        if sqltype.name == "DATE":
            return f"(CASE WHEN isfinite({column}) THEN ({column} - DATE '1970-01-01')::bigint END)"
        if sqltype.name == "TIMESTAMP":
            return f"(CASE WHEN isfinite({column}) THEN (extract(epoch FROM {column}) * 1000000)::bigint END)"
        if sqltype.name == "TIME":
            return f"(extract(epoch FROM {column}) * 1000000)::bigint"
        return f"({column})::text" if sqltype.is_decimal else column

    def hashed(self, columns: Sequence[str]) -> str:
        return f"sum(hashtext(ROW({', '.join(columns)})::text)::bigint)"


DIALECT = PostgresDialect()
