"""Rows that the statement writes out: one person moves answers by no more than is claimed, by however many of them a row meets, and
faults are caught. With them the outer joins that keep public rows, which are planned as inner joins.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import BIGINT, VARCHAR
from dpsql.plan.tables import PublicTable
from dpsql.relations import written
from dpsql.schema.model import Column, Schema
from dpsql.schema.toml import read_schema
from tests.support import clinic, staging
from tests.support.market_cases import Pair, check
from tests.support.neighbours import accepted
from tests.support.violation import Violation

Patch = pytest.MonkeyPatch
SCHEMA = """
[dataset]
name = "branches"
source = "branches.duckdb"
[privacy]
unit = "client.client_id"
epsilon = 20.0
delta = 0.5
query = { epsilon = 1.0, delta = 1e-3 }
caps = { epsilon = 20.0, delta = 0.4 }
[guard]
mode = "off"
[tables.branch]
public = true
key = ["branch"]
[tables.client]
key = ["client_id"]
[tables.client.columns]
client_id = { type = "BIGINT" }
branch = { type = "BIGINT", domain = { from = "branch.branch" } }
age = { type = "BIGINT", bounds = [0, 9] }
[tables.visit]
references = { client_id = "client.client_id" }
max_rows_per_unit = 3
[tables.visit.columns]
day = { type = "DATE", bounds = [2025-01-01, 2025-01-09] }
paid = { type = "DOUBLE", bounds = [0, 9] }
"""
TABLES = {
    "branch": "branch BIGINT, town VARCHAR",
    "client": "client_id BIGINT, branch BIGINT, age BIGINT",
    "visit": "client_id BIGINT, day DATE, paid DOUBLE",
}
BRANCHES: list[tuple[object, ...]] = [(b, "north" if b < 2 else "south") for b in range(4)]
BANDS = "(VALUES (0, 2), (3, 6), (7, 9)) AS b(lo, hi)"
NESTED = "(VALUES (0, 9), (1, 8), (2, 3)) AS b(lo, hi)"
MET = {
    f"SELECT COUNT(*), SUM(age) FROM client JOIN {BANDS} ON age BETWEEN b.lo AND b.hi": 1,
    f"SELECT b.lo, COUNT(*) FROM client JOIN {BANDS} ON age BETWEEN b.lo AND b.hi GROUP BY b.lo": 1,
    f"SELECT COUNT(*) FROM client JOIN {BANDS} ON age >= b.lo AND age <= b.hi + 1": 3,
    f"SELECT COUNT(*) FROM client JOIN {NESTED} ON age BETWEEN b.lo AND b.hi": 3,
    "SELECT COUNT(*) FROM client JOIN (VALUES (0, 3), (3, 6)) AS b(lo, hi) ON age >= b.lo AND age <= b.hi": 2,
    "SELECT COUNT(*) FROM client JOIN (VALUES (0, 3), (3, 6)) AS b(lo, hi) ON age >= b.lo AND age < b.hi": 1,
    "SELECT COUNT(*) FROM client JOIN (VALUES (2), (4), (6), (NULL)) AS b(lo) ON age >= b.lo": 4,
    "SELECT COUNT(*) FROM client JOIN (VALUES (1, 2), (1, 4), (2, 0)) AS b(k, v) ON branch = k AND age < 7": 2,
    "SELECT COUNT(*) FROM client JOIN (VALUES (1, 0, 4), (1, 5, 9), (2, 0, 9)) AS b(k, lo, hi) ON branch = k AND age >= lo "
    "AND age <= hi": 1,
    "SELECT COUNT(*) FROM client CROSS JOIN (VALUES (1), (2)) AS b(x)": 2,
    "SELECT g.x, COUNT(*) FROM client, generate_series(1, 5) AS g(x) WHERE age > g.x GROUP BY g.x": 5,
    f"SELECT COUNT(*), COUNT(b.lo) FROM client LEFT JOIN {NESTED} ON age BETWEEN b.lo AND b.hi": 3,
    "SELECT COUNT(*), SUM(paid) FROM visit JOIN (VALUES (DATE '2025-01-02', 1), (DATE '2025-01-02', 2)) AS b(d, x) ON day = d": 2,
    "SELECT COUNT(*) FROM visit JOIN (VALUES (0.0, 2.5), (2.5, 9.9)) AS b(lo, hi) ON paid >= lo AND paid < hi": 1,
    "SELECT b.d, COUNT(paid) FROM generate_series(DATE '2025-01-01', DATE '2025-01-04', INTERVAL 1 DAY) AS b(d) "
    "LEFT JOIN visit ON day = b.d GROUP BY b.d": 1,
    "SELECT branch.branch, COUNT(client_id), SUM(age) FROM branch LEFT JOIN client ON client.branch = branch.branch GROUP BY 1": 1,
    "SELECT town, COUNT(client_id), SUM(CASE WHEN age > 3 THEN 1 ELSE 0 END) "
    "FROM client RIGHT JOIN branch ON client.branch = branch.branch GROUP BY town": 1,
}
"""By statement, of how many rows of the public side one row of a person is met at most."""


def schema(folder: Path) -> Schema:
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    listed = tuple(Column(n, t, UNBOUNDED, True, "") for n, t in (("branch", BIGINT), ("town", VARCHAR)))
    read = read_schema(folder / "schema.toml")
    return replace(read, tables=tuple(replace(t, columns=listed) if t.public else t for t in read.tables))


def database(chance: random.Random) -> dict[str, list[tuple[object, ...]]]:
    people = range(chance.choice([1, 3, 6]))
    days = [f"2025-01-0{n}" for n in range(1, 10)]
    visits = [
        (p, chance.choice(days), chance.choice([0.0, 2.5, 7.25])) for p in people for _ in range(chance.randint(0, 5))
    ]
    clients = [(p, chance.randint(0, 4), chance.choice([*range(10), None])) for p in people]
    return {"client": [*clients], "visit": [*visits], "branch": BRANCHES}


@pytest.fixture
def pair() -> Iterator[Pair]:
    found = duckdb.connect(config={"threads": "1"}), duckdb.connect(config={"threads": "2"})
    for connection in found:
        for name, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
    yield found
    for connection in found:
        connection.close()


def run(folder: Path, pair: Pair, rounds: int) -> dict[str, int | None]:
    """Check every statement that is accepted on pairs of neighbours; the rows of a person in each. Raises Violation."""
    known, chance = schema(folder), random.Random(5)
    types = staging.Types()
    columns = (("branch", BIGINT), ("town", VARCHAR))
    types.sandbox.load(PublicTable("branch", columns, tuple([row[i] for row in BRANCHES] for i in range(2))))
    asked = {sql: compiled for sql in MET if (compiled := accepted(sql, known, types, types.sandbox)) is not None}
    for _ in range(rounds):
        data = database(chance)
        gone = chance.choice(data["client"])[0]
        for connection, without in zip(pair, (False, True), strict=True):
            for name, held in data.items():
                rows = [row for row in held if name == "branch" or not without or row[0] != gone]
                connection.execute(f"DELETE FROM {name}")
                if rows:
                    connection.execute(f"INSERT INTO {name} VALUES {clinic.listed(rows)}")
        for sql, compiled in asked.items():
            for bound in (b for b in compiled.bounds if not b.public):
                for connection in pair:
                    connection.execute(f'CREATE OR REPLACE TABLE "{bound.name}" AS {bound.sql}')
            check(sql, compiled, pair, gone, known)
    units = {sql: compiled.releases[0].release.limited.block.source.unit for sql, compiled in asked.items()}
    return {sql: unit.max_rows for sql, unit in units.items() if unit is not None}


@pytest.mark.slow
def test_one_person_moves_answers_by_no_more_than_is_claimed(tmp_path: Path, pair: Pair) -> None:
    rows = run(tmp_path, pair, 15)
    assert rows == {sql: met * (3 if "visit" in sql else 1) for sql, met in MET.items()}


def intervals_end_before_their_upper_end(patch: Patch) -> None:
    patch.setattr(written, "_BESIDE", {**written._BESIDE, "<=": -1})


def one_interval_is_met(patch: Patch) -> None:
    patch.setattr(written, "_overlap", lambda rows, ends: 1)


def every_value_is_written_once(patch: Patch) -> None:
    meeting = written.meeting

    def met(left: object, right: object, conditions: object, equated: object) -> object:
        found = meeting(left, right, conditions, equated)  # type: ignore[arg-type]
        return replace(found, met=1) if list(equated) else found  # type: ignore[call-overload]

    patch.setattr(written, "meeting", met)


FAULTS: list[Callable[[Patch], None]] = [
    intervals_end_before_their_upper_end,
    one_interval_is_met,
    every_value_is_written_once,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.few(1)
def test_a_planted_fault_is_caught(
    fault: Callable[[Patch], None], tmp_path: Path, pair: Pair, monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation):
        run(tmp_path, pair, 15)


def test_intervals_overlap_as_their_values_do() -> None:
    chance = random.Random(1)
    for _ in range(300):
        ends = [(chance.choice([">", ">="]), 0), (chance.choice(["<", "<="]), 1)][: chance.choice([1, 2, 2])]
        rows = [tuple(chance.choice([*range(4), None]) for _ in range(2)) for _ in range(chance.randint(1, 5))]
        compare = {">": float.__gt__, ">=": float.__ge__, "<": float.__lt__, "<=": float.__le__}
        most = max(
            sum(
                all(r is None or compare[w](x / 2, float(r)) for w, r in ((w, row[i]) for w, i in ends)) for row in rows
            )
            for x in range(-3, 10)
        )
        found = written._overlap(rows, ends)
        # an interval without a value is met by nobody, and may be counted
        assert found >= most, (rows, ends)
        assert found == most or any(a is not None and b is not None and a > b for a, b in rows), (rows, ends)
