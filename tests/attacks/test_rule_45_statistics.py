"""Rule 45: no condition is decided by what the engine keeps of a column, where one row beyond the others would decide for all.

DuckDB 2.0.0 infers of ABS over floats, none of them above zero, limits that hold nothing; joined with a constant's in COALESCE or CASE
they are the constant alone. A value above zero anywhere in the table then turned an exact count from nobody to everybody.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpsql.core.sqltypes import DOUBLE, FLOAT, INTEGER
from dpsql.expressions.known import of_type
from dpsql.planner.total import total
from tests.attacks.expressions import BINARY, UNARY
from tests.support.sides import SIDES
from tests.support.totality import World, printed
from tests.support.versions import infers_abs_wrongly

TABLES = {"t": {"v": of_type(DOUBLE), "f": of_type(FLOAT), "g": of_type(INTEGER)}}
ROWS = "SELECT CASE WHEN i % 7 > 0 THEN -CAST(i % 4 AS DOUBLE) END AS v, CAST(v AS FLOAT) AS f, i % 50 AS g FROM range(2000) AS r(i)"
FORMS = (
    "COALESCE(ABS({v}), 0.25)", "COALESCE(ABS({v}) * 2, 0.25)", "COALESCE(ABS(-{v}), 0.25)", "COALESCE(ABS(ABS({v})), 0.25)",
    "CASE WHEN g % 3 = 0 THEN 0.25 ELSE ABS({v}) END", "COALESCE(GREATEST(ABS({v}), 0.25), 0.25)", "COALESCE(LEAST(ABS({v}), 9), 0.25)",
)  # fmt: skip
QUERIES = (
    'SELECT count(*) AS n FROM "t" AS "t" WHERE {x} > 1',
    'SELECT count(*) FILTER (WHERE {x} > 1) AS n FROM "t" AS "t"',
    'SELECT sum(CASE WHEN {x} > 1 THEN 1 ELSE 0 END) AS n FROM "t" AS "t"',
    'SELECT count(CASE WHEN {x} > 1 THEN g END) AS n FROM "t" AS "t"',
    'SELECT count(*) AS n FROM (SELECT {x} AS x FROM "t" AS "t") AS s WHERE x > 1',
    'SELECT max(n) AS n FROM (SELECT {x} > 1 AS k, count(*) AS n FROM "t" AS "t" GROUP BY {x} > 1) AS s WHERE k',
)
OF_GROUPS = ("max", "min")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("extremes"))
    yield found
    found.close()


def _answer(sql: str, more: str = "") -> int:
    """A query's answer, of all rows and of one more."""
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE t AS {ROWS} {more}")
        (found,) = engine.execute(sql).fetchall()
    return int(found[0] or 0)


def _neighbours(sql: str) -> int:
    return abs(_answer(sql) - _answer(sql, "UNION ALL SELECT 9, 9, 1"))


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column", ["v", "f"])
@pytest.mark.few(20)
def test_one_value_above_zero_changes_one_row(column: str, form: str, query: str) -> None:
    assert _neighbours(total(query.format(x=form.format(v=column)), TABLES)) <= 1


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("of", OF_GROUPS)
def test_one_value_above_zero_changes_one_group(of: str, query: str) -> None:
    groups = f'(SELECT g, COALESCE(ABS({of}(v)), 0.25) AS x FROM "t" AS "t" GROUP BY g)'
    assert _neighbours(total(query.format(x="x").replace('"t" AS "t"', f"{groups} AS t"), TABLES)) <= 1


@infers_abs_wrongly
def test_one_value_above_zero_would_change_hundreds() -> None:
    """Planted: the same text, as it was printed before."""
    found = [_neighbours(query.format(x=FORMS[0].format(v="v"))) for query in QUERIES]
    assert sorted(found)[1] > 100


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
def test_every_function_has_the_same_answers_without_statistics(world: World, side: str) -> None:
    texts = printed(world, (*UNARY, *BINARY))
    assert len(texts) > 1000
    for start in range(0, len(texts), 200):
        assert world.sides.problems(texts[start : start + 200], side, where=200) == []


@pytest.mark.parametrize("side", SIDES)
def test_some_functions_have_the_same_answers_without_statistics(world: World, side: str) -> None:
    assert world.sides.problems(printed(world, ("ABS({0})", "-{0}", "SIGN({0})", "SQRT({0})")), side) == []


@infers_abs_wrongly
def test_the_sweep_finds_wrong_statistics(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: no zero is added."""
    monkeypatch.setattr("dpsql.planner.total.walk.Walk._veiled", lambda walk, node, sqltype: node)
    found = world.sides.problems(printed(world, ("ABS({0})",)), "low")
    assert {text.rpartition(" OF ")[2] for text in found} == {'abs("extreme"."l_double")', 'abs("extreme"."l_float")'}
