"""Columns without a list or bounds have the constants of a statement, and what is right beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import duckdb
import pytest

from dpsql.core.domains import Value
from dpsql.core.errors import Error
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DATE, VARCHAR, SqlType
from dpsql.guard.columns import CONSTANT, FEWEST, MOST, compared, others, parts, sql
from dpsql.guard.sizes import Share
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise

UNDECLARED = """
[dataset]
name = "shop"
source = "."
[privacy]
unit = "row"
epsilon = 1000.0
delta = 1e-5
units = 20000
query = { epsilon = 1.0, delta = 1e-9 }
caps = { epsilon = 10.0, delta = 1e-8 }
[tables.sold]
source = "sold.parquet"
[tables.sold.columns]
state = { type = "VARCHAR", nullable = true }
kind = { type = "VARCHAR" }
amount = { type = "DOUBLE" }
day = { type = "DATE", bounds = [2000-01-01, 2025-12-31] }
size = { type = "VARCHAR", domain = ["small", "large", "x_large"] }
sold_at = { type = "TIMESTAMP", bounds = [2000-01-01T00:00:00, 2025-12-31T00:00:00] }
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("sold")
    columns = "'a' AS state, 'b' AS kind, 1e0 AS amount, 'small' AS size, DATE '2020-01-01' AS day, TIMESTAMP '2020-01-01' AS sold_at"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {columns}) TO '{folder}/sold.parquet'")
    (folder / "schema.toml").write_text(UNDECLARED)
    with closing(open_session(folder / "schema.toml", None, ":memory:", ZeroNoise())) as found:
        yield found


def values(known: tuple[Value, ...], sqltype: SqlType, slots: int = MOST) -> Counter[object]:
    """Of 10,000 places."""
    text = sql("p", sqltype, known, slots)
    rows = duckdb.connect().execute(f"SELECT {text} FROM (SELECT i / 10000 AS p FROM range(10000) t(i))").fetchall()
    return Counter(row[0] for row in rows)


@pytest.mark.parametrize("many", [1, 3, MOST, 40])
def test_every_constant_is_that_of_some_and_so_is_what_is_beside_it(many: int) -> None:
    known = tuple(f"kind {i:02}" for i in range(many))
    found = values(known, VARCHAR)
    least = 10_000 * CONSTANT / MOST / 2 * min(1, MOST / many / 2)
    assert all(found[one] >= least * 0.9 for one in known)
    assert all(any(other < one for other in found) and found[f"{one} "] >= least / 2 * 0.9 for one in known)
    numbers = values((70, 90), BIGINT)
    assert all(numbers[n] >= 10_000 * CONSTANT / MOST / 4 * 0.9 for n in (69, 70, 71, 89, 90, 91))


def test_a_constant_has_the_same_places_beside_others() -> None:
    def places(known: tuple[Value, ...]) -> list[int]:
        text = sql("p", VARCHAR, known, MOST)
        rows = duckdb.connect().execute(
            f"SELECT i FROM (SELECT i, i / 1000 AS p FROM range(1000) t(i)) WHERE {text} = 'one'"
        )
        return sorted(row[0] for row in rows.fetchall())

    assert places(("one",)) == places(("one", "two", "three")) != []


def test_the_other_values_are_the_same_where_a_column_has_them() -> None:
    usual = (Share("often", 0.5),)
    for sqltype in (VARCHAR, BIGINT, DATE, BOOLEAN):
        shares = usual if sqltype is VARCHAR else ()
        source = f"(SELECT p, {others('p', sqltype, shares)} AS o FROM (SELECT i / 1000 AS p FROM range(1000) t(i)))"
        ways = [sql("p", sqltype, ("one", 70), MOST, shares, other) for other in ("", "o")]
        (differing,) = (
            duckdb.connect()
            .execute(f"SELECT COUNT(*) FROM {source} WHERE {ways[0]} IS DISTINCT FROM {ways[1]}")
            .fetchone()
            or ()
        )
        assert differing == 0


def test_there_are_as_many_parts_as_each_is_enough_people() -> None:
    assert [parts(people, 20) for people in (100, 6_000, 10**9)] == [FEWEST, MOST, MOST]
    assert compared({"": (1, 2, 3), "sold.amount": (3,)}, "sold.amount") == (3, 1, 2)


@pytest.mark.parametrize(
    "where",
    [
        # what another column is compared with takes no place
        f"kind NOT IN ({', '.join(repr(f'kind {i}') for i in range(30))}) AND state NOT IN ('cancelled', 'created')",
        "state >= 'AC' AND state <= 'TO'",
        "state <> 'DC'",
        "NOT (state IN ('NOT_THERE', 'LEFT_EARLY') OR state IS NULL)",
        # what others say of the same column, of which nothing is declared
        "state IN ('AK', 'AL', 'WY') AND state >= 'AA' AND state <= 'ZZ' AND state <> 'DC'",
        "amount > 10 AND amount >= 5 AND amount <> 7",
        "size LIKE '%l%' AND size NOT LIKE 'x_larger' AND kind <> 'b'",
        # the same in days, months and years
        "CAST(sold_at AS DATE) >= DATE '1995-01-01' AND CAST(sold_at AS DATE) <= DATE '2015-03-31'"
        " AND EXTRACT(YEAR FROM sold_at) IN (2012, 2013)",
        "EXTRACT(YEAR FROM day) >= 2010 AND EXTRACT(YEAR FROM day) <= 2015 AND EXTRACT(YEAR FROM day) = 2015",
        "EXTRACT(MONTH FROM day) >= 1 AND EXTRACT(QUARTER FROM day) = 2 AND EXTRACT(MONTH FROM day) <= 9",
        # a day beside a time
        "sold_at >= DATE '2000-01-01' AND sold_at < DATE '2026-01-01' AND sold_at <= DATE '2025-12-31'",
        "EXTRACT(YEAR FROM sold_at) = 2015 AND sold_at >= DATE '2015-01-01'",
        "EXTRACT(YEAR FROM day) = 2015 AND day < TIMESTAMP '2015-12-31 00:00:01'",
    ],
)
def test_what_dashboards_write_beside_each_other_is_answered(session: Session, where: str) -> None:
    assert session.execute(f"SELECT COUNT(*) FROM sold WHERE {where}").rows


@pytest.mark.parametrize(
    "where",
    [
        "EXTRACT(YEAR FROM day) = 2015 AND day <= DATE '2015-12-30'",
        "EXTRACT(YEAR FROM sold_at) = 2015 AND sold_at <> TIMESTAMP '2015-03-31 10:00:00'",
        "EXTRACT(MONTH FROM day) <= 9 OR day < DATE '2025-12-31'",
        "sold_at < DATE '2025-12-31'",
        "sold_at <> DATE '2015-03-31'",
        "EXTRACT(YEAR FROM sold_at) = 2015 AND sold_at >= DATE '2015-01-02'",
        "day < TIMESTAMP '2025-12-31 00:00:00'",
        "CAST(CAST(sold_at AS DATE) AS TIMESTAMP) <> TIMESTAMP '2015-03-31 00:00:00'",
        "amount > 10 AND NOT isnan(amount)",
        "amount > 10 AND amount + 0.5 <> 77.25",
        "state IN ('AK', 'AL', 'WY') AND state || kind <> 'ALkind 3'",
    ],
)
def test_a_few_are_left_out_all_the_same(session: Session, where: str) -> None:
    with pytest.raises(Error, match="DPSQL-602"):
        session.execute(f"SELECT COUNT(*) FROM sold WHERE {where}")
