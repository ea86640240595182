"""A5, A6, A11, A12: stored order, threads and grids tell nothing; what is sorted is what was returned."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.engines.base import ExactTable
from dpsql.engines.duckdb.locked import ask
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from tests.attacks.observing import SHARP, heavy, missing, opened, ordinary
from tests.support import clinic
from tests.support.cases import some
from tests.support.clinic import Database
from tests.support.planning import compile_statement

SUMS = [
    "SELECT SUM(income), AVG(weight), COUNT(*), SUM(income / 3) FROM patient",
    "SELECT year, SUM(cost), AVG(cost / 7), COUNT(*) FROM visit GROUP BY year",
    "SELECT tag, SUM(cost), COUNT(*) FROM visit GROUP BY tag",
    "/* dpsql: max_rows=2, max_groups=2 */ SELECT year, SUM(days * 0.1), COUNT(days), COUNT(*) FROM visit GROUP BY year",
]


def shuffled(data: Database, chance: random.Random) -> Database:
    return {name: chance.sample(rows, len(rows)) for name, rows in data.items()}


def uneven() -> Database:
    """Fractions whose sum in DOUBLE depends on the order, and people with more rows than their limit."""
    data = heavy(50)
    chance = random.Random(5)
    return {
        **data,
        "patient": [(*row[:3], chance.uniform(-50, 100), chance.uniform(40, 200), *row[5:]) for row in data["patient"]],
        "visit": [(*row[:3], chance.uniform(5, 50), *row[4:]) for row in data["visit"]],
    }


@pytest.mark.slow
@pytest.mark.parametrize("sql", SUMS)
def test_a5_exact_sums_do_not_depend_on_row_order_or_threads(tmp_path: Path, sql: str) -> None:
    """A DOUBLE sum differs with the order of its rows, and what differs leaks."""
    compiled = compile_statement(parse(sql), Options(), clinic.schema(tmp_path))
    chance, seen = random.Random(1), set()
    for threads in (1, 2, 8):
        connection = duckdb.connect(config={"threads": str(threads)})
        for _ in range(20):
            clinic.fill(connection, shuffled(uneven(), chance))
            for part in compiled.releases:
                seen.add(tuple(sorted(map(repr, ask(connection, part.sql, "ab").fetchall()))))
        connection.close()
    assert len(seen) == len(compiled.releases)


@pytest.mark.slow
def test_a5_the_session_hands_the_same_exact_table_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, through the whole session and its own engine."""
    opened_tables: list[object] = []
    original = ExactTable.open_exact

    def spy(table: ExactTable) -> object:
        keys, sums = original(table)
        opened_tables.append(sorted(zip(*keys, *sums, strict=True)))
        return keys, sums

    monkeypatch.setattr(ExactTable, "open_exact", spy)
    for seed in range(5):
        with opened(shuffled(uneven(), random.Random(seed))) as connection:
            connection.execute("SELECT site, SUM(income), COUNT(*) FROM patient GROUP BY site")
    assert len({repr(table) for table in opened_tables}) == 1


def _multiples(values: Iterator[object], grid: float) -> bool:
    return all(float(v) / grid == round(float(v) / grid) for v in values)  # type: ignore[arg-type]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "sql, grid",
    [
        ("SELECT year, COUNT(*) FROM visit GROUP BY 1", 1),
        ("SELECT site, SUM(weight) FROM patient GROUP BY 1", 0.5),
        ("SELECT site, SUM(score) FROM patient GROUP BY 1", 0.01),
        ("SELECT age, SUM(income) FROM patient GROUP BY 1", 2.0**-23),
        ("SELECT age, SUM(income), AVG(income), COUNT(*) FROM patient GROUP BY 1", 2.0**-23),
    ],
)
@pytest.mark.parametrize("times", some([8, 40]))
def test_a6_every_released_number_lies_on_a_public_grid(sql: str, grid: float, times: int) -> None:
    """The low bits of a DOUBLE would show which of two inputs it came from."""
    for data in (ordinary(), missing()):
        with opened(data) as connection:
            for i in range(times):
                rows = connection.execute(f"/* dpsql: epsilon=0.{i + 1:03d} */ {sql}").fetchall()
                if grid == 0.01:
                    assert all(row[1].as_tuple().exponent == -2 for row in rows)  # type: ignore[attr-defined]
                else:
                    assert _multiples((row[1] for row in rows), grid)


WITHIN = [
    "SELECT COUNT(*), SUM(s) FROM (SELECT patient_id, SUM(cost) AS s FROM visit GROUP BY patient_id HAVING SUM(cost) > 60)",
    "SELECT year, SUM(s) FROM (SELECT patient_id, year, SUM(cost * 0.1) AS s, AVG(cost) AS a FROM visit GROUP BY patient_id, year "
    "HAVING AVG(cost) < 30) GROUP BY year",
    "SELECT COUNT(*), AVG(m) FROM (SELECT patient_id, MEDIAN(cost) AS m, MAX(cost) AS x FROM visit GROUP BY "
    "patient_id) WHERE x > m + 10",
    "SELECT COUNT(*), SUM(cost) FROM (SELECT patient_id, cost FROM visit QUALIFY ROW_NUMBER() OVER (PARTITION BY "
    "patient_id ORDER BY year) = 1)",
    "SELECT SUM(d) FROM (SELECT patient_id, cost - LAG(cost) OVER (PARTITION BY patient_id ORDER BY year) AS d FROM visit)",
    "SELECT SUM(f) FROM (SELECT patient_id, FIRST_VALUE(cost) OVER (PARTITION BY patient_id ORDER BY year DESC) AS f FROM visit)",
    "SELECT SUM(a) FROM (SELECT patient_id, AVG(cost) OVER (PARTITION BY patient_id ORDER BY year ROWS BETWEEN 1 "
    "PRECEDING AND 1 FOLLOWING) AS a "
    "FROM visit)",
    "SELECT COUNT(*), SUM(v.cost) FROM visit v JOIN (SELECT patient_id, MAX(cost) AS top FROM visit GROUP BY patient_id) t "
    "ON v.patient_id = t.patient_id AND v.cost = t.top",
    "SELECT SUM(cost) FROM (SELECT DISTINCT patient_id, year, cost FROM visit)",
]
"""A25: what is computed within one person before it is added up over people."""


@pytest.mark.few(1)
@pytest.mark.parametrize("orders", some([6, 20]))
@pytest.mark.parametrize("sql", WITHIN)
def test_a25_other_peoples_rows_and_orders_change_nobodys_own_values(tmp_path: Path, sql: str, orders: int) -> None:
    """Many orders, threads 1, 2 and 8, one person removed: the exact sums differ by that person's own share, the same every time."""
    compiled = compile_statement(parse(sql), Options(), clinic.schema(tmp_path))
    (part,) = compiled.releases
    texts = [part.sql, *(one.sql for one in part.verified)]
    chance, seen = random.Random(25), {(text, gone): set() for text in texts for gone in (None, 1003, 1999)}
    connections = [duckdb.connect(config={"threads": threads}) for threads in (1, 2, 8)]
    for turn in range(orders):
        connection, data = connections[turn % 3], shuffled(uneven(), chance)
        for gone in (None, 1003, 1999):
            clinic.fill(connection, clinic.without(data, gone) if gone else data)
            for text in texts:
                rows = ask(connection, text, "ab").fetchall()
                seen[text, gone].add(repr(sorted(map(repr, rows))))
    for connection in connections:
        connection.close()
    assert all(len(found) == 1 for found in seen.values())


@pytest.mark.parametrize("orders", some([6, 20]))
def test_a25_through_the_session(orders: int) -> None:
    """A threshold on a per-person DOUBLE sum that lies between two roundings of it would count a person or not by their rows' order."""
    total = sum(row[3] for row in uneven()["visit"] if row[1] == 1004)  # type: ignore[misc]
    sql = f"SELECT COUNT(*) FROM (SELECT patient_id, SUM(cost) AS s FROM visit GROUP BY patient_id HAVING SUM(cost) >= {total!r})"
    found = set()
    for seed in range(orders):
        with opened(shuffled(uneven(), random.Random(seed))) as connection:
            found.add(repr(connection.execute(SHARP + sql).fetchall()))
    assert len(found) == 1


GROUPS = [
    "SELECT tag, COUNT(*) AS n FROM visit GROUP BY 1",
    "SELECT note, COUNT(*) AS n FROM patient GROUP BY 1",
    "SELECT code, COUNT(*) AS n FROM patient GROUP BY 1",
    "SELECT year, COUNT(*) AS n FROM visit GROUP BY 1 LIMIT 2",
    "SELECT code, COUNT(*) AS n FROM patient GROUP BY 1 ORDER BY 1 = 0",
    "SELECT DISTINCT COUNT(*) > 0 AS n FROM visit GROUP BY year",
]


@pytest.mark.slow
@pytest.mark.parametrize("orders", some([6, 20]))
def test_a11_row_order_does_not_follow_stored_order(orders: int) -> None:
    """Groups come in the order of the released keys, also where ORDER BY leaves ties."""
    found: set[str] = set()
    for seed in range(orders):
        with opened(shuffled(ordinary(40), random.Random(seed))) as connection:
            found.add(repr([connection.execute(SHARP + sql).fetchall() for sql in GROUPS]))
    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.parametrize("times", some([15, 60]))
@pytest.mark.parametrize("unit", ["patient", "row"])
def test_a12_order_limit_and_having_use_the_returned_values(unit: str, times: int) -> None:
    """An ORDER BY on exact counts would rank groups that the noisy counts do not."""
    with opened(ordinary(), unit=unit) as connection:
        for i in range(times):
            price = f"/* dpsql: epsilon=0.0{i + 10}, groups=all */"
            rows = connection.execute(
                f"{price} SELECT site, COUNT(*) AS n FROM patient GROUP BY site ORDER BY n DESC"
            ).fetchall()
            counts = [int(row[1]) for row in rows]  # type: ignore[call-overload]
            assert counts == sorted(counts, reverse=True)
            top = connection.execute(
                f"{price} SELECT site, COUNT(*) AS n FROM patient GROUP BY site ORDER BY COUNT(*) DESC LIMIT 1"
            )
            assert [row[1] for row in top.fetchall()] == counts[:1]
            kept = connection.execute(
                f"{price} SELECT site, COUNT(*) AS n FROM patient GROUP BY site HAVING COUNT(*) > 4 ORDER BY n DESC"
            )
            assert [row[1] for row in kept.fetchall()] == [n for n in counts if n > 4]
            assert kept.privacy.cached and kept.privacy.epsilon == 0
