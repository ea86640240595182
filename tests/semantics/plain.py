"""dpsql without noise beside plain DuckDB on the same rows, under the same guards."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

import duckdb
from sqlglot import exp

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.joint import Joint
from dpsql.aggregates.sum import Total
from dpsql.planner.parse import DUCKDB, parse
from dpsql.session.opening import open_session
from dpsql.session.result import Answer
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise
from tests.support.planning import compiled_by

UNLIMITED = (
    (clinic.UNIT + clinic.PATIENT + clinic.VISIT + clinic.PUBLIC)
    .replace("max_rows_per_unit = 3", "max_rows_per_unit = 1000")
    .replace("max_rows_per_unit = 4", "max_rows_per_unit = 1000")
    .replace("max_groups_per_unit = 2", "max_groups_per_unit = 1000")
    .replace("epsilon = 1000000.0", "epsilon = 1e12")
    .replace("query = { epsilon = 1.0,", "query = { epsilon = 10000.0,")
)
"""Limits that no generated patient reaches, and a price at which a group of two people passes the threshold."""

Row = tuple[object, ...]
Parameters = Sequence[object] | dict[str, object]


@dataclass(slots=True)
class Beside:
    """One database, asked both ways."""

    session: Session
    plain: duckdb.DuckDBPyConnection
    rows: int

    def close(self) -> None:
        self.session.close()
        self.plain.close()

    def ask(self, sql: str, parameters: Parameters = ()) -> Answer:
        return self.session.execute(sql, parameters)

    def expect(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return self.plain.execute(guarded(sql), parameters or None).fetchall()

    def check(
        self,
        sql: str,
        parameters: Parameters = (),
        *,
        plain: str | None = None,
        ordered: bool = False,
    ) -> Answer:
        """The answer, after its rows, names and types were compared with DuckDB's own."""
        answer = self.ask(sql, parameters)
        own = plain if plain is not None else sql
        expected = self.expect(own, parameters)
        allowed = tolerances(self.session, sql, parameters, self.rows, len(answer.columns))
        assert same(answer.rows, expected, allowed, ordered=ordered), f"{sql}\n{answer.rows}\n{expected}"
        assert answer.columns == described(own, parameters), sql
        return answer


def beside(
    folder: Path, data: clinic.Database, *, text: str = UNLIMITED, plain: clinic.Database | None = None
) -> Beside:
    """Open both; `plain` where DuckDB must see other rows, such as NULL for NaN."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.toml").write_text(text)
    clinic.write(folder, data)
    connection = duckdb.connect()
    clinic.fill(connection, plain if plain is not None else data)
    # The lower end of the supported versions gives NULL anyway, and does not know the setting.
    with contextlib.suppress(duckdb.Error):
        connection.execute("SET error_on_division_by_zero = false")
    session = open_session(folder / "schema.toml", None, ":memory:", noise=ZeroNoise())
    # what is stored of another statement says as much, and is not asked about here
    session.execute("SET dp_buy = on")
    return Beside(session, connection, max(len(rows) for rows in data.values()))


def guarded(sql: str) -> str:
    """The statement with the guards that dpsql puts around what DuckDB would raise."""

    def replaced(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            return exp.TryCast(this=node.this, to=node.args["to"])
        called = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
        if called in ("sqrt", "ln"):
            zero, compared = exp.Literal.number(0), exp.GTE if called == "sqrt" else exp.GT
            inside = compared(this=node.expressions[0].copy(), expression=zero)
            return exp.Case(ifs=[exp.If(this=inside, true=node)])
        return node

    if not any(word in sql.upper() for word in ("CAST", "::", "SQRT", "LN(")):
        return sql
    tree = parse(sql).tree
    assert tree is not None
    return DUCKDB.generate(tree.transform(replaced))


def described(sql: str, parameters: Parameters) -> tuple[tuple[str, str], ...]:
    """Names and types as DuckDB gives them to the statement on empty tables."""
    found = _empty_tables().execute(sql, parameters or None).description or []
    return tuple((str(c[0]), str(c[1])) for c in found)


@cache
def _empty_tables() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    clinic.fill(connection, {name: [] for name in clinic.DDL})
    return connection


def tolerances(session: Session, sql: str, parameters: Parameters, rows: int, width: int = 0) -> list[float]:
    """Per output column: n * quantum / 2 for a sum on a grid, 0 for what is exact; the most of them for what is computed.

    width  how many columns there are, where the answer may be computed from several releases
    """
    compiled = compiled_by(session, parse(sql, parameters))
    grid: dict[str, float] = {}
    for part in compiled.releases:
        for output in part.release.outputs:
            statistic = part.release.measures[output.measure].statistic
            terms = statistic.terms if isinstance(statistic, Pair | Total | Joint) else ()
            quanta = [float(term.quantum) for term in terms if term.scalar.sqltype.is_float]
            grid[output.name] = rows * max(quanta, default=0.0) / 2
    most = max(grid.values(), default=0.0) * 100
    direct = compiled.plan.post_query.direct or (None,) * (width if compiled.releases else 0)
    return [grid.get(source[1], 0.0) if source is not None else most for source in direct]


def close(found: object, expected: object, allowed: float) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        if math.isnan(found) or math.isnan(expected):
            return math.isnan(found) and math.isnan(expected)
        return abs(found - expected) <= allowed + 1e-9 * max(abs(found), abs(expected))
    if isinstance(found, int | Decimal) and isinstance(expected, int | Decimal):
        return found == expected
    return found == expected and type(found) is type(expected)


def same(found: list[Row], expected: list[Row], allowed: list[float], *, ordered: bool) -> bool:
    """Tell whether the rows agree, in their order or in any."""
    if len(found) != len(expected):
        return False
    if not ordered:
        found, expected = sorted(found, key=_order), sorted(expected, key=_order)
    margins = allowed if allowed else [0.0] * (len(expected[0]) if expected else 0)
    return all(
        len(a) == len(b) and all(close(x, y, t) for x, y, t in zip(a, b, margins, strict=True))
        for a, b in zip(found, expected, strict=True)
    )


def _order(row: Row) -> list[tuple[str, str]]:
    return [(type(v).__name__, f"{v:.3f}" if isinstance(v, float) else str(v)) for v in row]
