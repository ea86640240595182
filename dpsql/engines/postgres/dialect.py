"""PostgreSQL's dialect: checked statements, and the words of the owner's questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.core.sqltypes import SqlType
from dpsql.engines.postgres.queries import written
from dpsql.engines.postgres.words import ENGINE, name, refused
from dpsql.plan.checked import Checked


@dataclass(frozen=True, slots=True)
class PostgresDialect:
    """See base.Dialect. It has no guard: what was not proved total is refused."""

    engine: str = ENGINE
    guards: bool = False
    verbatim: bool = False

    def write(self, statement: Checked) -> str:
        tried = statement.tree.find(exp.Try)
        if tried is not None:
            raise refused(
                f"{_called(tried.this)} of values that may not fit its type", "narrow the bounds of its columns"
            )
        return written(statement)

    def relation(self, table: str) -> str:
        return name(table)

    def is_nan(self, column: str) -> str:
        return f"({column} = 'NaN'::float8)"

    def is_infinite(self, column: str, sqltype: SqlType) -> str:
        if sqltype.is_float:
            return f"({column} IN ('Infinity'::float8, '-Infinity'::float8))"
        return f"(NOT isfinite({column}))"

    def measured(self, column: str, sqltype: SqlType) -> str:
        if sqltype.is_float:
            return f"(CASE WHEN {column} NOT IN ('NaN'::float8, 'Infinity'::float8, '-Infinity'::float8) THEN {column} END)"
        if sqltype.name == "DATE":
            return f"(CASE WHEN isfinite({column}) THEN ({column} - DATE '1970-01-01')::bigint END)"
        if sqltype.name == "TIMESTAMP":
            return f"(CASE WHEN isfinite({column}) THEN (extract(epoch FROM {column}) * 1000000)::bigint END)"
        if sqltype.name == "TIME":
            return f"(extract(epoch FROM {column}) * 1000000)::bigint"
        return f"({column})::text" if sqltype.is_decimal else column

    def hashed(self, columns: Sequence[str]) -> str:
        return f"sum(hashtext(ROW({', '.join(columns)})::text)::bigint)"


def _called(node: exp.Expression) -> str:
    """Name of what may fail, in a refusal."""
    return node.name.upper() if isinstance(node, exp.Anonymous) else type(node).__name__


DIALECT = PostgresDialect()
