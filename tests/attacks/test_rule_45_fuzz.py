"""Rule 45 (c): random expression trees over the extremes of every type, zero and point intervals among them, run as they are printed.

Each text goes through the checker, as it does before it runs; the engine must not raise, no value may leave the limits that the algebra
and the checker derived, and guards around every operator must change nothing. `python -m tests.long totality` runs many more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.planner.total import tables_of, total
from tests.support.cases import some
from tests.support.totality import World, expressions, statements

EXPRESSIONS, PARTS = 20_000, 40
STATEMENTS, STATEMENT_PARTS = 40, 8
"""Of all parts; a statement is an expression in each of 13 clauses."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("extremes"))
    yield found
    found.close()


@pytest.mark.slow
@pytest.mark.parametrize("part", some(range(PARTS)))
def test_random_expressions(world: World, part: int) -> None:
    assert expressions(world, part, EXPRESSIONS // PARTS) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", some(range(STATEMENT_PARTS)))
def test_random_statements(world: World, part: int) -> None:
    """In every clause, on all rows, without one person and without anybody: the engine never raises."""
    taken, problems = statements(world, 100 + part, STATEMENTS // STATEMENT_PARTS)
    assert problems == []
    assert taken > 4 * STATEMENTS // STATEMENT_PARTS


@pytest.mark.slow
def test_the_fuzzer_finds_a_missing_operand_proof(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the cast that decides by the result alone, and a checker that believes everything."""
    monkeypatch.setattr("dpsql.expressions.conversion.holds", lambda sqltype, limits: True)
    monkeypatch.setattr("dpsql.expressions.arithmetic.holds", lambda sqltype, limits: True)
    monkeypatch.setattr("tests.support.totality.derived", lambda text, tables: (text, {}))
    monkeypatch.setattr("tests.support.totality.total", lambda text, tables, everywhere=False: text)
    assert any("Conversion" in problem for problem in expressions(world, 1, 3_000))


@pytest.mark.slow
def test_the_checker_alone_stops_a_missing_operand_proof(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the printer wrong and the checker right nothing raises: the guards are where the proofs are missing."""
    monkeypatch.setattr("dpsql.expressions.conversion.holds", lambda sqltype, limits: True)
    monkeypatch.setattr("dpsql.expressions.arithmetic.holds", lambda sqltype, limits: True)
    found = expressions(world, 1, 600)
    assert not [problem for problem in found if "leaves the limits of the algebra" not in problem], found
    text = 'SELECT CAST(r_hugeint AS DECIMAL(38,0)) * CAST(0.0 AS DECIMAL(2,1)) AS x FROM "extreme" AS "extreme"'
    assert "TRY(" in total(text, tables_of(world.schema))
