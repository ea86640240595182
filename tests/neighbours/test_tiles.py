"""NTILE over people: with the cuts that are released, one person moves the answer by no more than is claimed of their rows."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp

from dpsql.core.errors import Error
from dpsql.engines.duckdb.loading import load_beside
from dpsql.plan.compiled import Compiled
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.planner.resolve import tiles
from tests.support import staging
from tests.support.neighbours import accepted, modest
from tests.support.nested_neighbours import Bench
from tests.support.noise import ZeroNoise
from tests.support.planning import compile_statement
from tests.support.violation import Violation

STATEMENTS = [
    "SELECT part, COUNT(*), SUM(age) FROM (SELECT age, NTILE(3) OVER (ORDER BY age) AS part FROM patient) GROUP BY part",
    "SELECT part, COUNT(*) FROM (SELECT NTILE(2) OVER (ORDER BY cost DESC) AS part FROM visit WHERE year > 1) GROUP BY part",
    "SELECT part, COUNT(*), SUM(age) FROM (SELECT age, NTILE(3) OVER (PARTITION BY site ORDER BY age) AS part FROM patient) "
    "GROUP BY part",
    "SELECT part, COUNT(*), SUM(cost) FROM (SELECT cost, NTILE(2) OVER (PARTITION BY site ORDER BY cost) AS part FROM patient p, visit "
    "v WHERE p.patient_id = v.patient_id) GROUP BY part",
    "SELECT AVG(age) FROM (SELECT age FROM patient QUALIFY NTILE(4) OVER (ORDER BY age) IN (1, 4))",
]


class Beside(Bench):
    """Planted: each database has cuts of its own, as if they were numbered in it."""

    def bound(self, sql: str, compiled: Compiled, pair: tuple[duckdb.DuckDBPyConnection, ...]) -> None:
        for connection in pair:
            exact = lambda part, bound, here=connection: staging.exact(here, part, bound)  # noqa: E731
            for table in staging.input_tables(compiled, exact, self.types, ZeroNoise()).values():
                load_beside(connection, table)


def run(bench: Bench, rounds: int) -> None:
    """Check every statement on pairs of neighbours. Raises Violation."""
    with bench:
        for _ in range(rounds):
            bench.refill()
            for sql in STATEMENTS:
                compiled = accepted(sql, bench.schema, bench.types, bench.types.sandbox)
                assert compiled is not None and len(compiled.releases) == 2
                bench.check(sql, compiled)


@pytest.mark.slow
def test_one_person_moves_the_parts_by_no_more_than_is_claimed(tmp_path: Path) -> None:
    run(Bench(modest(staging.schema(tmp_path)), random.Random(3)), 12)


def test_cuts_that_are_not_released_are_caught(tmp_path: Path) -> None:
    with pytest.raises(Violation):
        run(Beside(modest(staging.schema(tmp_path)), random.Random(3)), 12)


def test_cuts_that_are_values_of_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a cut is the value of some row, and no quantile."""
    monkeypatch.setattr(
        tiles, "_quantile", lambda value, share, parts, name: exp.alias_(value.copy(), name, quoted=True)
    )
    with pytest.raises(Error, match="rows of people"):
        compile_statement(parse(STATEMENTS[0]), Options(), staging.schema(tmp_path))
