"""One person changes no more groups than a narrowed list has: rows off the list go in the engine, before anything is cut."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pytest

from dpsql.aggregates.base import Limits
from dpsql.core.sqltypes import BOOLEAN
from dpsql.engines.duckdb.loading import load_beside
from dpsql.plan.compiled import Compiled
from dpsql.planner import lower
from dpsql.planner.lower import cutting, rows
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema
from dpsql.sql.nodes import Literal
from tests.support import clinic, staging
from tests.support.neighbours import check
from tests.support.planning import compile_statement
from tests.support.violation import Violation

Patch = pytest.MonkeyPatch
STATEMENTS = [
    "SELECT year, COUNT(*), SUM(cost) FROM visit WHERE year % 2 = 0 GROUP BY 1",
    "SELECT year, COUNT(*) FROM visit WHERE year = 1 OR days > 3 GROUP BY 1",
    """SELECT site, year, COUNT(*) FROM visit JOIN patient USING (patient_id)
        WHERE (site = 1 AND year = 2) OR (site = 2 AND year = 4) GROUP BY ALL""",
    "SELECT site, COUNT(*) FROM visit JOIN patient USING (patient_id) WHERE site % 3 <> 1 AND year > 1 GROUP BY 1",
    "SELECT days // 10, year, COUNT(*) FROM visit WHERE days // 10 + year = 3 GROUP BY ALL",
    "SELECT year * year, COUNT(*), COUNT(DISTINCT patient_id) FROM visit GROUP BY 1",
    "SELECT label, COUNT(*) FROM item JOIN drug USING (drug) WHERE drug.drug > 1 GROUP BY 1",
    "SELECT label, item.drug, COUNT(*) FROM item LEFT JOIN drug ON item.drug = drug.drug WHERE label IS NULL GROUP BY ALL",
    """SELECT town, region, year, COUNT(*) FROM visit JOIN patient USING (patient_id) JOIN place USING (site)
        WHERE region = 1 GROUP BY ALL""",
    "SELECT city, female, COUNT(*) FROM patient WHERE city = 'a' OR female IS NULL GROUP BY ALL",
]


@dataclass(slots=True)
class Bench:
    schema: Schema
    types: staging.Types
    connection: duckdb.DuckDBPyConnection

    def compiled(self, sql: str) -> Compiled:
        return compile_statement(parse(sql), Options(), self.schema, self.types, self.types.sandbox)

    def check(self, sql: str, databases: int, turn: int = 0) -> None:
        """The statement as it runs, and on verified data, on neighbouring databases, in each turn on others. Raises Violation."""
        compiled, chance = self.compiled(sql), random.Random(f"{sql}{turn}")
        for bound in compiled.bounds:
            load_beside(self.connection, self.types.sandbox.table(bound.name, bound.sql))
        (part,) = compiled.releases
        for _ in range(databases):
            check(self.connection, [(sql, part)], clinic.database(chance), chance, self.schema)
        for short in part.verified:
            data = clinic.database(chance, wild=False)
            check(
                self.connection, [(sql, replace(part, sql=short.sql, verified=()))], within(data), chance, self.schema
            )


def within(data: clinic.Database) -> clinic.Database:
    """The database with no more rows of a person than are declared, as a verified one has."""
    kept: list[clinic.Row] = []
    for row in data["visit"]:
        if sum(row[1] == other[1] for other in kept) < 3:
            kept.append(row)
    return {**data, "visit": kept, "item": []}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    schema = staging.schema(tmp_path)
    connection = staging.opened(schema, threads=1)
    yield Bench(schema, staging.Types(), connection)
    connection.close()


@pytest.mark.parametrize("sql", STATEMENTS)
@pytest.mark.few(1)
def test_one_person_changes_no_more_than_is_claimed(sql: str, bench: Bench) -> None:
    bench.check(sql, 25)


def test_lists_are_narrowed_at_all(bench: Bench) -> None:
    """Whatever the data: planning has no way to it."""
    counts = [bench.compiled(sql).releases[0].release.limited.block.groups for sql in STATEMENTS]
    assert counts == [2, 4, 2, 2, 3, 4, 2, 3, 4, 6]


# --- faults -------------------------------------------------------------------------------------------------------


def rows_off_the_list_stay(patch: Patch) -> None:
    """The price is for the narrowed list, and the engine knows the declared one."""
    patch.setattr(rows, "declared", lambda key: Literal(True, BOOLEAN))
    patch.setattr(rows, "_on_list", lambda release, listed: Literal(True, BOOLEAN))
    for room in (rows, lower):
        patch.setattr(room, "only_declared", lambda keys: None)


def the_cut_knows_no_list(patch: Patch) -> None:
    """As many groups as the narrowed list has are paid for, and every one is kept, listed or not."""
    rows_off_the_list_stay(patch)
    original = cutting._kept
    patch.setattr(cutting, "_kept", lambda sql, limits, parts: original(sql, Limits(limits.rows, 1000), parts))


def verified_data_need_no_cut(patch: Patch) -> None:
    """A short list counts as what a unit's rows can be in, where rows off the list are not left out."""
    rows_off_the_list_stay(patch)
    patch.setattr(cutting, "groups_kept", lambda release: True)


@pytest.mark.parametrize(
    "fault",
    [rows_off_the_list_stay, the_cut_knows_no_list, verified_data_need_no_cut],
    ids=lambda fault: fault.__name__,
)
@pytest.mark.few(1)
def test_a_planted_fault_is_caught(fault: Callable[[Patch], None], bench: Bench, monkeypatch: Patch) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation):
        for turn in range(12):
            for sql in STATEMENTS:
                bench.check(sql, 5, turn)
