"""The extremes on one side of zero each, and conditions that an engine may decide by what it keeps of a column instead of its rows.

DuckDB keeps the least and the greatest value of a column, infers the same of what is computed of it, and leaves a condition out that
these decide. Where it infers wrongly, one row beyond the others changes the answer of every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb

from dpsql.planner.total import total
from dpsql.planner.total.relations import Tables
from tests.support import extremes

SIDES = ("low", "high", "one")
"""Only values that are not above zero, only values that are not below it, and one value alone, each with NULL."""
WITHOUT = "statistics_propagation,filter_pushdown"
"""The optimizers that read what is kept of a column."""
CONDITIONS = (
    "COALESCE({x}, {c}) > {c}",
    "CASE WHEN person_id % 3 = 0 THEN {c} ELSE {x} END <= {c}",
    "NULLIF({x}, {c}) = {d}",
)


@dataclass(slots=True)
class Sides:
    """The rows of the extremes in three tables, one for each side."""

    whole: duckdb.DuckDBPyConnection
    tables: Tables
    connections: dict[str, duckdb.DuckDBPyConnection] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for side in SIDES:
            found = self.whole.cursor()
            found.execute(f"CREATE SCHEMA {side}")
            columns = ", ".join(
                f"{_on(side, f't.{name}', sqltype)} AS {name}"
                for sqltype in extremes.TYPES
                for name in (extremes.column("l", sqltype), extremes.column("r", sqltype))
            )
            found.execute(f"CREATE TABLE {side}.extreme AS SELECT t.person_id, {columns} FROM main.extreme AS t")
            found.execute(f"SET schema = '{side}'")
            self.connections[side] = found

    def problems(self, texts: Sequence[str], side: str, where: int = 1) -> list[str]:
        """The conditions on expressions that come out otherwise once nothing that is kept of a column is read.

        where  of how many conditions one also stands in a WHERE of its own
        """
        engine, found = self.connections[side], list[str]()
        inner = self._inner(texts)
        ends = self._ends(engine, inner, len(texts))
        made = [
            (i, condition.format(x=f"c{i}", c=low, d=high))
            for i, (low, high) in enumerate(ends)
            for condition in CONDITIONS
            if low
        ]
        if not made:
            return []
        counts = ", ".join(f"count(CASE WHEN {condition} THEN 1 END)" for _, condition in made)
        sql = f"SELECT {counts} FROM ({inner})"
        read, exact = engine.execute(sql).fetchone(), self._without(sql, engine)
        assert read is not None
        for place, ((i, condition), answer, truth) in enumerate(zip(made, read, exact, strict=True)):
            answers = {answer}
            if place % where == 0:
                one = f"SELECT count(*) FROM ({inner}) WHERE {condition}"
                answers |= {n for (n,) in engine.execute(one).fetchall()}
            if answers != {truth}:
                found.append(f"{sorted(answers)} for {truth} on the {side} side ON {condition} OF {texts[i]}")
        return found

    def _inner(self, texts: Sequence[str]) -> str:
        """The expressions as columns c0, c1, ..., as they run."""
        items = ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
        return total(f'SELECT "person_id" AS person_id, {items} FROM "extreme" AS "extreme"', self.tables)

    def _ends(self, engine: duckdb.DuckDBPyConnection, inner: str, count: int) -> list[tuple[str, str]]:
        """For each expression a value in the middle and its greatest, as constants of its type; "" where it has none."""
        items = ", ".join(
            f"CAST(quantile_disc(c{i}, 0.5) AS VARCHAR), CAST(max(c{i}) AS VARCHAR), typeof(any_value(c{i}))"
            for i in range(count)
        )
        row = self._without(f"SELECT {items} FROM ({inner})", engine)
        found = []
        for i in range(count):
            low, high, sqltype = (str(v) if v is not None else None for v in row[3 * i : 3 * i + 3])
            known = low is not None and high is not None and sqltype is not None
            found.append((_constant(low, sqltype), _constant(high, sqltype)) if known else ("", ""))
        return found

    def _without(self, sql: str, engine: duckdb.DuckDBPyConnection) -> tuple[object, ...]:
        with _disabled(engine):
            row = engine.execute(sql).fetchone()
        assert row is not None
        return row


@contextmanager
def _disabled(engine: duckdb.DuckDBPyConnection) -> Iterator[None]:
    engine.execute(f"SET disabled_optimizers = '{WITHOUT}'")
    try:
        yield
    finally:
        engine.execute("SET disabled_optimizers = ''")


def _constant(text: str | None, sqltype: str | None) -> str:
    assert text is not None
    quoted = text.replace("'", "''")
    return f"CAST('{quoted}' AS {sqltype})"


def _on(side: str, column: str, sqltype: str) -> str:
    """A column's values on a side of zero, of the epoch, or of the empty text."""
    if sqltype == "BOOLEAN":
        return f"({column} AND {'false' if side == 'low' else 'NULL'})"
    middle = {
        "VARCHAR": "''",
        "DATE": "DATE '1970-01-01'",
        "TIMESTAMP": "TIMESTAMP '1970-01-01'",
        "TIME": "TIME '08:00:00'",
    }.get(sqltype, "0")
    least = f"CASE WHEN {column} <= {middle} THEN {column} END"
    if side == "one":
        return f"CASE WHEN {column} IS NOT NULL THEN CAST({middle} AS {sqltype}) END"
    return least if side == "low" and sqltype != "VARCHAR" else f"CASE WHEN {column} >= {middle} THEN {column} END"
