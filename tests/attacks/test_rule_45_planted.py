"""Rule 45: faults planted in the printing, the guards and the sums; each must be stopped before the engine runs or be harmless."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.planner.total import tables_of, total
from tests.support.planning import compile_statement
from tests.support.totality import World
from tests.support.trees import SECRET

ROOT = Path(__file__).parents[2] / "dpsql"
JOINED = 'FROM "person" AS p LEFT JOIN (SELECT person_id AS i, {x} AS x FROM "extreme" AS "extreme") AS e ON e.i = p.id'
OVERFLOW = '("extreme"."r_bigint" * "extreme"."r_bigint")'


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("extremes"))
    yield found
    found.close()


def _outcomes(world: World, text: str) -> list[str]:
    """The outcomes on all rows, without one person, and without anybody."""
    found = []
    for connection in world.connections:
        try:
            connection.execute(text, {"cut": "00"} if SECRET in text else {}).fetchall()
            found.append("ran")
        except duckdb.Error:
            found.append("raised")
    return found


def _compiled(world: World, sql: str) -> str:
    (part,) = compile_statement(parse(sql), Options(), world.by_person).releases
    return part.sql


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "text",
    [
        # COUNT leaves the product out, and a column beside it does not
        f'SELECT count({OVERFLOW}) AS a FROM "extreme" AS "extreme"',
        f'SELECT count({OVERFLOW}) AS a, max({OVERFLOW}) AS b FROM "extreme" AS "extreme"',
        # on the side of a LEFT JOIN that nobody reads
        f"SELECT count(*) AS n {JOINED.format(x=OVERFLOW)}",
        f"SELECT count(x) AS n {JOINED.format(x=OVERFLOW)}",
        f"SELECT count(*) AS n {JOINED.format(x=OVERFLOW)} AND x > 0",
    ],
)  # fmt: skip
def test_an_overflow_is_guarded_whether_or_not_the_engine_would_leave_it_out(world: World, text: str) -> None:
    """COUNT(x * y) answers and MAX(x * y) raises, of the same rows: by guards both are functions of the rows."""
    guarded = total(text, tables_of(world.by_person))
    assert "TRY(" in guarded
    assert _outcomes(world, guarded) == ["ran"] * 3


def test_one_person_would_decide_whether_an_unguarded_one_fails(world: World) -> None:
    text = f'SELECT max({OVERFLOW}) AS b FROM "extreme" AS "extreme"'
    assert _outcomes(world, text) == ["raised", "raised", "ran"]


@pytest.mark.parametrize(
    "planted",
    [
        # a unit's sum of HUGEINT, unbounded
        ("sum(CASE WHEN x0 BETWEEN", 'sum("r_hugeint") + sum(CASE WHEN x0 BETWEEN'),
        # the clamp of a unit's total left out
        (r"GREATEST(CAST(0 AS HUGEINT) * c0, LEAST(CAST(40 AS HUGEINT) * c0,", "GREATEST(c0, GREATEST(total0 * total0,"),
        # the cut's cast before its clamp
        ("CAST(GREATEST(0, LEAST(r0, 3 - before0)) AS BIGINT)", "CAST(r0 * r0 * r0 * r0 * r0 AS BIGINT)"),
    ],
)  # fmt: skip
def test_a_sum_that_could_overflow_is_refused_before_it_runs(world: World, planted: tuple[str, str]) -> None:
    """Aggregates have no guard, and what is above them has none either."""
    text = _compiled(world, "SELECT SUM(l_integer) FROM extreme")
    assert total(text, tables_of(world.by_person)) == text
    assert planted[0] in text
    with pytest.raises(Error, match="not known to be total"):
        total(text.replace(*planted), tables_of(world.by_person))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(m) FROM (SELECT person_id, SUM(r_hugeint) AS m FROM extreme GROUP BY person_id) AS p",
        "SELECT COUNT(*) FROM (SELECT person_id, SUM(r_hugeint) AS m FROM extreme GROUP BY person_id) AS p WHERE m > 0",
        "SELECT COUNT(*) FROM (SELECT SUM(r_decimal_38_0) OVER (PARTITION BY person_id) AS m FROM extreme) AS p WHERE m > 0",
    ],
)
def test_a_unit_s_sum_that_could_overflow_is_refused_with_what_to_declare(world: World, sql: str) -> None:
    with pytest.raises(Error) as caught:
        _compiled(world, sql)
    assert caught.value.code in ("DPSQL-201", "DPSQL-202")


def test_guards_stay_where_they_were_printed(world: World) -> None:
    """With every guard taken out of a guarded text its tree is that of the text before: nothing moved over the cut."""
    sql = (
        "SELECT l_boolean, SUM(l_integer * 2 + 1), COUNT(r_double * 3) FROM extreme WHERE l_smallint + 1 > 3 GROUP BY 1"
    )
    text = _compiled(world, sql)
    tables = tables_of(world.by_person)
    everywhere = total(text, tables, everywhere=True)
    assert everywhere.count("TRY(") > 3
    cut = everywhere.index("turn <=")
    assert "TRY(" not in everywhere[cut:]
    assert _tree(everywhere) == _tree(text)


def _tree(text: str) -> object:
    import sqlglot
    from sqlglot import exp

    tree = sqlglot.parse_one(text, dialect="duckdb")
    while (guard := tree.find(exp.Try)) is not None:
        guard.replace(guard.this)
    return tree


def test_a_cast_that_may_raise_is_made_in_one_place() -> None:
    """Only cast_tree decides whether a cast tries where expressions are made. Others that do not are of constants, to DOUBLE, to a
    value's own type, or inside a condition that it fits."""
    found = [
        f"{path.name}: {line.strip()}"
        for room in ("expressions", "relations")
        for path in sorted((ROOT / room).rglob("*.py"))
        for line in path.read_text().splitlines()
        if "tries=" in line
    ]
    assert set(found) == {
        "conversion.py: return Cast(tree, sqltype, tries=not holds(sqltype, limits))",
        'scalar.py: nan, zero = Cast(Literal("nan", VARCHAR), t, tries=False), Cast(Number(0), t, tries=False)',
        "division.py: zero = Cast(Number(0), both, tries=False)",
        "temporal.py: tree = guarded(scalar, Cast(start, scalar.sqltype, tries=False))",
        'temporal.py: return Call(f"to_{name}", (Cast(Number(amount.value * months), number, tries=False),))',
        "temporal.py: tree: Node = Cast(amount.tree, number, tries=False)",
        'calendar.py: Call("time_bucket", (temporal.span(integer_literal(amount), unit), scalar.tree)), scalar.sqltype, tries=False',
        'text.py: letter = Call("chr", (Cast(number.tree, INTEGER, tries=False),))',
        "buckets.py: number, low, high = (Cast(part, DOUBLE, tries=False) for part in (x, lower, upper))",
    }
