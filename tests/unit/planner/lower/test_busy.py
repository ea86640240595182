"""Units with more rows than any may bring, summed apart from all others: the same sums, and what one unit changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import duckdb
import pytest

from dpsql.plan.compiled import CompiledRelease
from dpsql.planner.lower import cutting
from dpsql.planner.options import Options
from dpsql.planner.parse import Query, parse
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.sql.nodes import Number
from dpsql.sql.queries import Common, Select
from tests.support.planning import compile_statement

LIMIT = 4
DECLARED = f"""
[dataset]
name = "visits"
source = "."
[privacy]
unit = "person.id"
epsilon = 1
delta = 1e-6
caps = {{ epsilon = 1, delta = 1e-7 }}
[tables.person]
source = "person.csv"
key = ["id"]
[tables.person.columns]
id = {{ type = "BIGINT", role = "identifier" }}
[tables.visit]
source = "visit.csv"
references = {{ id = "person.id" }}
max_rows_per_unit = {LIMIT}
[tables.visit.columns]
id = {{ type = "BIGINT" }}
year = {{ type = "INTEGER", domain = [1, 2, 3] }}
kind = {{ type = "VARCHAR", domain = ["p", "q"] }}
cost = {{ type = "DECIMAL(9,2)", bounds = [-20, 50], nullable = true }}
days = {{ type = "INTEGER", bounds = [0, 9], nullable = true }}
score = {{ type = "DOUBLE", bounds = [-1, 1], step = 0.25, nullable = true }}
"""
STATEMENTS = (
    "SELECT year, COUNT(*), AVG(cost), SUM(cost), AVG(days) FROM visit GROUP BY year",
    "SELECT year, kind, AVG(score), AVG(cost), SUM(days), COUNT(*) FROM visit WHERE days > 1 GROUP BY year, kind",
    "SELECT kind, AVG(cost) FILTER (WHERE days < 5), AVG(score), SUM(days), COUNT(cost) FROM visit GROUP BY kind",
)
Row = tuple[object, ...]
Sums = dict[Row, tuple[int, ...]]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    path = tmp_path_factory.mktemp("visits") / "schema.toml"
    path.write_text(DECLARED)
    return read_schema(path)


def visits(seed: int) -> list[Row]:
    """Of people with 1 to 9 visits, about half of whom have more than the limit; values beyond bounds, NULL, NaN, undeclared keys."""
    chance = random.Random(seed)
    return [
        (
            person,
            chance.choice((1, 2, 3, 3, 4, None)),
            chance.choice(("p", "q", "q", "z", None)),
            chance.choice((None, Fraction(chance.randint(-9000, 9000), 100))),
            chance.choice((None, *range(-2, 12))),
            chance.choice((None, float("nan"), chance.uniform(-2, 2), chance.uniform(-1, 1))),
        )
        for person in range(40)
        for _ in range(chance.randint(1, 9))
    ]


def release_of(sql: str, schema: Schema) -> CompiledRelease:
    query = parse(sql)
    assert isinstance(query, Query)
    (found,) = compile_statement(query, Options(), schema).releases
    return found


def sums(part: CompiledRelease, rows: list[Row], *without: int) -> list[Sums]:
    """The exact sums of each declared group, over all the rows and then without each of some people."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE every (id BIGINT, year INTEGER, kind VARCHAR, cost DECIMAL(9,2), days INTEGER, score DOUBLE)"
        )
        values = [[float(v) if isinstance(v, Fraction) else v for v in row] for row in rows]
        connection.executemany("INSERT INTO every VALUES (?, ?, ?, ?, ?, ?)", values)
        return [_sums(part, connection, gone) for gone in (-1, *without)]


def _sums(part: CompiledRelease, connection: duckdb.DuckDBPyConnection, gone: int) -> Sums:
    connection.execute(f"CREATE OR REPLACE TABLE visit AS FROM every WHERE id <> {gone}")
    (statement,) = connection.extract_statements(part.sql)
    named = {"cut": "secret"} if statement.named_parameters else None
    found = connection.execute(statement, named).fetchall()
    return {tuple(row[: part.key_columns]): tuple(map(int, row[part.key_columns :])) for row in found}


def is_apart(part: CompiledRelease) -> bool:
    return "busy" in part.sql


@pytest.mark.few(3)
@pytest.mark.parametrize("sql", STATEMENTS)
@pytest.mark.parametrize("seed", range(3))
def test_the_sums_are_those_of_every_unit_by_itself(
    sql: str, seed: int, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, apart = visits(seed), release_of(sql, schema)
    monkeypatch.setattr(cutting, "MANY", 10**9)
    each = release_of(sql, schema)
    assert is_apart(apart) and not is_apart(each)
    assert sums(apart, rows) == sums(each, rows) != [{}]


def changes(part: CompiledRelease, rows: list[Row]) -> list[tuple[Fraction, Fraction]]:
    """For each person what leaving them out changes, in parts of what is claimed: of L1, and of the square of L2."""
    measure = part.release.measures
    whole, *others = sums(part, rows, *sorted({int(str(row[0])) for row in rows}))
    found = []
    for other in others:
        start, l1, l2 = 0, Fraction(0), Fraction(0)
        for one in measure:
            end = start + one.statistic.sums
            groups = sorted({*whole, *other}, key=str)
            before, after = (
                one.statistic.to_cells(
                    [[g.get(k, (0,) * part.sum_columns)[i] for k in groups] for i in range(start, end)]
                )
                for g in (whole, other)
            )
            moved = [abs(a - b) for x, y in zip(before, after, strict=True) for a, b in zip(x, y, strict=True)]
            l1 = max(l1, Fraction(sum(moved)) / one.sensitivity.l1)
            l2 = max(l2, Fraction(sum(m * m for m in moved)) / one.sensitivity.l2_squared)
            start = end
        found.append((l1, l2))
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("sql", STATEMENTS)
def test_one_unit_changes_no_more_than_is_claimed(sql: str, schema: Schema) -> None:
    part = release_of(sql, schema)
    assert is_apart(part)
    assert all(l1 <= 1 and l2 <= 1 for l1, l2 in changes(part, visits(7)))


def nobody_is_busy(found: Common) -> Common:
    assert isinstance(found.query, Select)
    return replace(found, query=replace(found.query, limit=0))


def busy_from_one_row_more(found: Common) -> Common:
    """The limit is off by one, or by more."""
    assert isinstance(found.query, Select)
    having = found.query.having
    moved = replace(having, inner=replace(having.inner, right=Number(2 * LIMIT)))  # type: ignore[type-var,union-attr,attr-defined]
    return replace(found, query=replace(found.query, having=moved))


@pytest.mark.slow
@pytest.mark.parametrize("fault", [nobody_is_busy, busy_from_one_row_more])
def test_a_busy_unit_among_the_others_would_be_caught(
    fault: Callable[[Common], Common], schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = cutting.busy_units

    def faulty(*args: object) -> Common | None:
        found = original(*args)  # type: ignore[arg-type]
        return fault(found) if found is not None else None

    monkeypatch.setattr("dpsql.planner.lower.busy_units", faulty)
    assert any(l1 > 1 or l2 > 1 for sql in STATEMENTS for l1, l2 in changes(release_of(sql, schema), visits(7)))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT year, COUNT(*), AVG(cost) FROM visit GROUP BY year",
        "SELECT AVG(cost), AVG(days), SUM(score) FROM visit",
        "/* dpsql: max_groups=2 */ SELECT year, kind, AVG(cost), AVG(days), SUM(score) FROM visit GROUP BY year, kind",
        "SELECT year, COUNT(DISTINCT id), AVG(cost), AVG(days), SUM(score) FROM visit GROUP BY year",
        "SELECT year, AVG(cost), AVG(days), VAR_SAMP(score) FROM visit GROUP BY year",
    ],
)
def test_units_are_summed_one_by_one_where_it_does_not_pay_or_is_not_the_same(sql: str, schema: Schema) -> None:
    """Few sums; no keys; a unit's groups may be cut; units are counted; a cut moment is no sum."""
    assert not is_apart(release_of(sql, schema))
