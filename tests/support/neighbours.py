"""Does one person change a statement's exact vectors by no more than its plan claims? On generated databases and statements.

`check` raises Violation with what was found. It needs no noise and no session: it compiles the statement, runs the engine SQL on D and
on D without one person, and compares the cells of every measure with the claimed l0, linf, l1 and l2. Beside that it checks what
sensitivity rests on: keys are those declared, rows inside the declarations are not changed by the clamp, values that are NULL or NaN
add nothing, a threshold holds its delta exactly, other people's contributions do not move.

Nested statements are asked more: other people's rows stay as they are, bit for bit, in another order of rows and on other threads;
public tables are as unique as the plan says; the shorter SQL for verified data gives the same sums; every release that is read is
charged once. What a release reads of earlier ones is the same on both databases (adaptive composition). Of tallies the same is asked
(tallies.py).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import duckdb

from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.plan.compiled import Compiled
from dpsql.plan.resolved import PublicTuples
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.postprocess.sandbox import Sandbox
from dpsql.schema.model import Schema
from tests.support import clinic, staging, tallies
from tests.support.differences import check_alone, check_inside, check_noise, check_selection, compare_all
from tests.support.generate import statement
from tests.support.planning import compile_statement
from tests.support.vectors import Part, exact
from tests.support.violation import Violation

ACCOUNTINGS = ("sequential", "zcdp")
"""With which Gaussian noise is charged an epsilon and a delta, or rho."""


@dataclass(slots=True)
class Cases:
    """A stream of generated cases over one table; `refused` counts statements that the planner did not take."""

    folder: Path
    seed: int
    refused: int = 0
    checked: int = 0
    lists: Sandbox = field(default_factory=Sandbox)

    def run(self, count: int) -> None:
        """Check `count` accepted cases. Raises Violation."""
        chance = random.Random(self.seed)
        schemas = {
            (unit, accounting): modest(clinic.schema(self.folder, unit=unit, accounting=accounting))
            for unit in ("patient", "row")
            for accounting in ACCOUNTINGS
        }
        connections = {unit: staging.opened(schemas[unit, "zcdp"], threads=1) for unit in ("patient", "row")}
        while self.checked < count:
            unit = chance.choice(["patient", "patient", "patient", "row"])
            schema = schemas[unit, chance.choice(ACCOUNTINGS)]
            parts = self._compiled(chance, schema, row_level=unit == "row")
            check(connections[unit], parts, clinic.database(chance, wild=chance.random() < 0.7), chance, schema)
            self.checked += len(parts)
        for connection in connections.values():
            connection.close()

    def _compiled(self, chance: random.Random, schema: Schema, *, row_level: bool) -> list[Part]:
        parts: list[Part] = []
        for _ in range(8):
            sql = statement(chance, row_level=row_level)
            compiled = accepted(sql, schema, lists=self.lists)
            # what reads tables of key lists is checked among the nested ones
            if compiled is None or compiled.bounds:
                self.refused += 1
            else:
                parts += [(sql, part) for part in compiled.releases]
        return parts


def modest(schema: Schema) -> Schema:
    """The same with a total under which Gaussian noise has a mu."""
    return replace(schema, privacy=replace(schema.privacy, budget=EpsilonDelta(Fraction(20), Fraction(1, 2))))


def accepted(
    sql: str, schema: Schema, types: staging.Types | None = None, lists: PublicTuples | None = None
) -> Compiled | None:
    """A compiled statement; None where it is refused. Raises Violation where an invariant of the planner fails."""
    try:
        return compile_statement(parse(sql), Options(), schema, types, lists)
    except Error as refused:
        if refused.code == "DPSQL-901":
            raise Violation(f"an invariant failed in {sql}: {refused}") from refused
    except (AssertionError, IndexError, KeyError, AttributeError, TypeError, ValueError) as fault:
        raise Violation(f"the planner failed on {sql}: {fault!r}") from fault
    return None


def check(
    connection: duckdb.DuckDBPyConnection,
    parts: list[Part],
    data: clinic.Database,
    chance: random.Random,
    schema: Schema,
) -> None:
    """Some statements on one database, with one person removed."""
    neighbour = neighbour_of(data, chance, schema)
    clinic.fill(connection, data)
    before = [exact(connection, part, sql) for sql, part in parts]
    clinic.fill(connection, neighbour)
    after = [exact(connection, part, sql) for sql, part in parts]
    for (sql, part), one, other in zip(parts, before, after, strict=True):
        compare_all(part, one, other, sql)
        check_noise(part, sql)
        tallies.check_choices(part, sql)
        check_selection(part, sql)
    clinic.fill(connection, clinic.database(chance, wild=False))
    for sql, part in parts:
        check_inside(connection, part, sql)
    check_alone(connection, parts, before, data, schema)


def neighbour_of(data: clinic.Database, chance: random.Random, schema: Schema) -> clinic.Database:
    people = data["patient"]
    if not people:
        return data
    if schema.privacy.unit == "row":
        return clinic.without_row(data, chance.randrange(len(people)))
    # Heavy patients are where limits matter.
    heaviest = max(people, key=lambda row: sum(visit[1] == row[0] for visit in data["visit"]))
    return clinic.without(data, chance.choice([*people, heaviest, heaviest])[0])
