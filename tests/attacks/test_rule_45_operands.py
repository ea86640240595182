"""Rule 45 (a): what is printed is total because each operand fits, not only the result.

An engine that raises on somebody's value tells it without noise: "an error or an answer" gave the maximum of a column in 36 questions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.core.errors import Error
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.model import Guard, Schema
from dpsql.schema.toml import read_schema
from tests.support import extremes
from tests.support.planning import compile_statement
from tests.support.trees import SECRET

RANDHIE = Path(__file__).parents[2] / "examples" / "randhie" / "schema.toml"
WIDE = (
    "r_hugeint",
    "l_hugeint",
    "CAST(r_double AS HUGEINT)",
    "CAST(r_double * 1e30 AS HUGEINT)",
    "CAST(r_varchar AS HUGEINT)",
    "r_hugeint * 1",
    "r_hugeint + 0",
    "r_hugeint + r_integer",
    "r_hugeint // 1",
    "COALESCE(r_hugeint, 0)",
    "r_ubigint * r_bigint",
    "r_decimal_38_0",
    "r_decimal_38_10",
)
TIMES = (
    "{} * 0.0",
    "0.0 * {}",
    "{} * (0.0 * r_integer)",
    "{} * (0.5 - 0.5)",
    "{} * 1.0 * 0.0",
    "{} * CAST(0 AS DECIMAL(38,1))",
)
ELSE = (
    "{} + 0.0", "0.0 - {}", "{} - {}", "{} % 1.0", "1.0 % {}", "-{}", "ABS({})", "{} * {}", "{} // -1", "{} % -1",
    "ROUND({}, -2)", "ROUND({} * 0.0, 1)", "FLOOR({} * 0.0)", "{} = 0.5", "LEAST({}, 0.5)", "{} BETWEEN -0.5 AND 0.5",
    "{} IN (0.5, 1.5)", "CASE WHEN {} > 0 THEN {} ELSE 0.5 END", "NULLIF({}, 0.5)",
)  # fmt: skip
CLAUSES = (
    "SELECT dp_sum({x}, lower := -1, upper := 1) FROM extreme",
    "SELECT COUNT({x}) FROM extreme",
    "SELECT COUNT(*) FROM extreme WHERE {x} = 0",
    "SELECT COUNT(*) FROM extreme WHERE ({x}) IS NOT NULL",
    "SELECT COUNT(CASE WHEN l_integer > 3 THEN {x} END) FROM extreme",
    "SELECT COUNT(*) FROM (SELECT person_id, MAX({x}) AS m FROM extreme GROUP BY person_id) AS p WHERE m > 0",
    "SELECT COUNT(*) FILTER (WHERE {x} > 0) FROM extreme",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[duckdb.DuckDBPyConnection, Schema]]:
    connection = duckdb.connect(config={"threads": "1"})
    extremes.fill(connection)
    yield connection, extremes.schema(tmp_path_factory.mktemp("extremes"), unit="person.id")
    connection.close()


def test_an_operand_of_a_product_with_zero_must_fit() -> None:
    """The attack as it was: K = 1e38 / a fails exactly where somebody's income is in [a, 1.7 a)."""
    connection = dpsql.connect(replace(read_schema(RANDHIE), guard=Guard("off")), ledger=":memory:")
    cursor = connection.cursor()
    for k in (1e30, 1e34, 4e34):
        sql = f"/* dpsql: epsilon=0.001 */ SELECT SUM(CAST(income * {k} AS HUGEINT) * 0.0) FROM person"
        assert len(cursor.execute(sql).fetchall()) == 1
    connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("clause", CLAUSES)
def test_every_form_of_the_oracle(world: tuple[duckdb.DuckDBPyConnection, Schema], clause: str) -> None:
    """Whatever the planner takes, the engine runs, over the extremes of every type."""
    connection, schema = world
    taken = 0
    for form, x in itertools.product((*TIMES, *ELSE), WIDE):
        sql = clause.format(x=form.format(*[x] * form.count("{}")))
        try:
            compiled = compile_statement(parse(sql), Options(), schema)
        except Error as refused:
            assert not refused.code.startswith("DPSQL-9"), sql
            continue
        taken += 1
        for text in (text for part in compiled.releases for text in part.texts):
            problem = ""
            try:
                connection.execute(text, {"cut": "00"} if SECRET in text else {}).fetchall()
            except duckdb.Error as raised:
                problem = str(raised)
            assert not problem, f"{problem} ON {sql}"
    assert taken > 20
