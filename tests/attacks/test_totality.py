"""Rule 39: whatever the data holds, the engine does not raise, because a failure is an event that no loss covers.

Every function, operator and cast that the planner accepts meets the extremes of its argument types, alone and inside one another,
in the SELECT list, in WHERE, in GROUP BY and inside sums. Hard limits, which overflow checks rely on, are compared with the values.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.expressions.scalar import Scalar
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope, scope_of
from dpsql.relations.declared import scan
from dpsql.schema.model import Schema
from tests.attacks.expressions import BINARY, UNARY, columns
from tests.support import extremes
from tests.support.planning import compile_statement
from tests.support.totality import is_inside
from tests.support.trees import SECRET
from tests.support.trees import text as text_of

TEMPLATES = [parse(f"SELECT COUNT(*), {t.format('a', 'b')}").tree.expressions[-1] for t in (*UNARY, *BINARY)]  # type: ignore[union-attr]
BATCH = 25


@dataclass(frozen=True, slots=True)
class World:
    """The extremes in an engine, and their columns."""

    connection: duckdb.DuckDBPyConnection
    schema: Schema
    scope: Scope

    def build(self, template: int, first: Scalar, second: Scalar) -> Scalar | None:
        """A template over two scalars; None where the planner refuses it."""
        names = {("t", "a"): first, ("t", "b"): second}
        try:
            return scalar(TEMPLATES[template], Scope(names))
        except Error:
            return None

    @property
    def columns(self) -> dict[str, Scalar]:
        return {name: found for (_, name), found in self.scope.columns.items()}

    def failures(self, found: list[Scalar]) -> list[str]:
        """The statements on which the engine raises, and those that leave their hard limits."""
        problems: list[str] = []
        for start in range(0, len(found), BATCH):
            problems += self._failures(found[start : start + BATCH])
        return problems

    def _failures(self, found: list[Scalar]) -> list[str]:
        items = ", ".join(f"CAST(min({text_of(s)}) AS VARCHAR), CAST(max({text_of(s)}) AS VARCHAR)" for s in found)
        try:
            row = self.connection.execute(f"SELECT {items} FROM extreme").fetchone()
        except duckdb.Error as raised:
            if len(found) == 1:
                return [f"{raised} ON {text_of(found[0])}"]
            half = len(found) // 2
            return self._failures(found[:half]) + self._failures(found[half:])
        assert row is not None
        return [p for i, s in enumerate(found) for p in _outside(s, row[2 * i : 2 * i + 2])]


def _outside(found: Scalar, extremes_seen: tuple[str | None, ...]) -> Iterator[str]:
    if found.limits is None or found.sqltype.is_boolean:
        return
    for text in extremes_seen:
        if text in ("nan", "inf", "-inf") and found.sqltype.is_float:
            continue
        if not is_inside(text, found.limits):
            yield f"{text} is outside {found.limits} ON {text_of(found)}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    connection = duckdb.connect(config={"threads": "1"})
    extremes.fill(connection)
    schema = extremes.schema(tmp_path_factory.mktemp("extremes"))
    table = schema.tables[0]
    yield World(connection, schema, scope_of(scan(schema, table, table.name)))
    connection.close()


@pytest.mark.slow
def test_every_function_of_one_argument(world: World) -> None:
    """A function that raises on an extreme of its argument tells whether someone has it."""
    names = [*columns(), *(name.replace("l_", "r_", 1) for name in columns())]
    pool = [world.columns[name] for name in names]
    built = [world.build(i, column, column) for i in range(len(UNARY)) for column in pool]
    accepted = {text_of(s): s for s in built if s is not None}
    assert len(accepted) > 1000
    assert world.failures(list(accepted.values())) == []


@pytest.mark.slow
def test_every_operator_over_the_ends_of_the_integers(world: World) -> None:
    """A constant has its type by how it is written: the ends of one type are inside of the next."""
    ends = [str(end) for bits in (7, 15, 31, 63) for end in (-(2**bits), 2**bits - 1, 2**bits)]
    ends += [str(2**127 - 1), f"-{2**127 - 1} - 1"]
    constants = [scalar(parse(f"SELECT COUNT(*), {end}").tree.expressions[-1], world.scope) for end in ends]  # type: ignore[union-attr]
    columns = [world.columns[name] for name in ("l_integer", "l_bigint", "r_hugeint")]
    pairs = [(a, b) for a in constants for b in (*constants, *columns)] + [(b, a) for a in constants for b in columns]
    built = [world.build(i, a, b) for a, b in pairs for i in range(len(TEMPLATES)) if i >= len(UNARY) or a is b]
    accepted = {text_of(s): s for s in built if s is not None}
    assert len(accepted) > 1000
    assert world.failures(list(accepted.values())) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_every_operator_over_every_pair_of_types(world: World, part: int) -> None:
    """Two ordinary values may still have no sum, no quotient or no common type."""
    pool = world.columns
    accepted: dict[str, Scalar] = {}
    for left in columns()[part::4]:
        for right in columns():
            for i in range(len(UNARY), len(TEMPLATES)):
                found = world.build(i, pool[left], pool[right.replace("l_", "r_", 1)])
                if found is not None:
                    accepted[text_of(found)] = found
    assert len(accepted) > 500
    assert world.failures(list(accepted.values())) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_functions_of_functions(world: World, seed: int) -> None:
    """One function gives values that the next one's author did not think of."""
    chance = random.Random(seed)
    levels = [list(world.columns.values())]
    for _ in range(3):
        found: dict[str, Scalar] = {}
        for _ in range(1500):
            first, second = _pick(chance, levels[-1]), _pick(chance, chance.choice(levels))
            built = world.build(chance.randrange(len(TEMPLATES)), first, second)
            if built is not None and len(text_of(built)) < 5000:
                found[text_of(built)] = built
        levels.append(list(found.values()))
        assert len(found) > 150
        assert world.failures(list(found.values())) == []


def _pick(chance: random.Random, pool: list[Scalar]) -> Scalar:
    """One of a type that is chosen first, so that rare types come up as often."""
    name = (
        chance.choice(pool).sqltype.name
        if chance.random() < 0.3
        else chance.choice(sorted({s.sqltype.name for s in pool}))
    )
    return chance.choice([s for s in pool if s.sqltype.name == name])


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["row", "person.id"])
def test_conditions_keys_and_sums_of_every_function(world: World, unit: str, tmp_path: Path) -> None:
    """The whole engine SQL: the optimizer rewrites conditions, and clamps and keys cast once more."""
    schema = extremes.schema(tmp_path, unit=unit)
    ran = 0
    for i, template in enumerate(UNARY):
        for name in columns()[i % 4 :: 4]:
            column = world.columns[name]
            built = world.build(i, column, column)
            if built is None:
                continue
            for sql in _statements(template.format(name), built):
                ran += _ran(world, schema, sql)
    assert ran > 200


def _statements(expression: str, built: Scalar) -> Iterator[str]:
    condition = expression if built.sqltype.is_boolean else f"({expression}) IS NOT NULL"
    asked = f"COUNT({expression})"
    if built.sqltype.is_number:
        asked += f", dp_sum({expression}, lower := -5.5, upper := 7), AVG(LEAST(GREATEST({expression}, 0), 9))"
    yield f"SELECT {asked}, COUNT(*) FROM extreme WHERE {condition}"
    yield f"SELECT {expression} AS k, {asked} FROM extreme GROUP BY 1"


def _ran(world: World, schema: Schema, sql: str) -> bool:
    """Tell whether the planner took the statement; then the engine must, too."""
    try:
        compiled = compile_statement(parse(sql), Options(), schema)
    except Error as refused:
        assert refused.code != "DPSQL-901", sql
        return False
    for part in compiled.releases:
        problem = ""
        try:
            world.connection.execute(part.sql.replace(SECRET, "'secret'")).fetchall()
        except duckdb.Error as raised:
            problem = str(raised)
        assert not problem, f"{problem} ON {sql}"
    return True
