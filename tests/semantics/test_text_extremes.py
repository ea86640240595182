"""MIN and MAX of texts: with a list, and among the values that are selected privately; as plain DuckDB where all have enough people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.planner.resolve.text_extremes import NOTE
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise

SCHEMA = """
[dataset]
name = "shop"
source = "."
[privacy]
unit = "customer.id"
epsilon = 1e9
delta = 1e-3
units = 600
least = 0.1
caps = { epsilon = 1e6, delta = 1e-4 }
query = { epsilon = 1e5, delta = 1e-6 }
[guard]
mode = "off"
[tables.customer]
source = "customer.parquet"
key = ["id"]
[tables.customer.columns]
id = { type = "BIGINT" }
site = { type = "INTEGER", domain = [1, 2, 3] }
plan = { type = "VARCHAR", domain = ["silver", "basic", "gold"], nullable = true }
city = { type = "VARCHAR", nullable = true }
age = { type = "INTEGER", bounds = [0, 100] }
[tables.line]
source = "line.parquet"
key = ["line"]
references = { id = "customer.id" }
max_rows_per_unit = 4
[tables.line.columns]
line = { type = "BIGINT" }
id = { type = "BIGINT" }
item = { type = "VARCHAR" }
half = { type = "INTEGER", domain = [0, 1] }
"""
CUSTOMER = """SELECT i::BIGINT AS id, (i % 3 + 1)::INTEGER AS site,
    CASE WHEN i % 7 = 0 THEN NULL WHEN i % 2 = 0 THEN 'basic' ELSE 'gold' END AS plan,
    CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN 'Oslo' WHEN 2 THEN 'Bern' WHEN 3 THEN 'Århus' ELSE 'Wien' END AS city,
    (i % 90)::INTEGER AS age FROM range(600) AS r(i)"""
LINE = """SELECT i::BIGINT AS line, (i % 600)::BIGINT AS id, chr((97 + i % 5)::INTEGER) AS item, (i // 600)::INTEGER AS half
    FROM range(1200) AS r(i)"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, duckdb.DuckDBPyConnection]]:
    folder = tmp_path_factory.mktemp("shop")
    plain = duckdb.connect()
    for name, rows in (("customer", CUSTOMER), ("line", LINE)):
        plain.execute(f"CREATE TABLE {name} AS {rows}")
        plain.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")
    (folder / "schema.toml").write_text(SCHEMA)
    session = open_session(folder / "schema.toml", None, ":memory:", noise=ZeroNoise())
    yield session, plain
    session.close()
    plain.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT MIN(plan), MAX(plan), COUNT(*) FROM customer WHERE age > 30",
        "SELECT site, MAX(plan), MIN(plan) AS m FROM customer GROUP BY site ORDER BY MIN(plan), site",
        "SELECT site FROM customer GROUP BY site HAVING MAX(plan) = 'gold' ORDER BY site",
        "SELECT MAX(CASE WHEN age > 30 THEN 'old' ELSE 'young' END) FROM customer WHERE site = 1",
        "SELECT MIN(m), MAX(m) FROM (SELECT id, MAX(item) AS m FROM line GROUP BY id) AS per_person",
        "SELECT MIN(city), MAX(city) FROM customer",
        "SELECT MAX(city), COUNT(*) FROM customer WHERE site = 2",
        "SELECT site, MAX(city), MIN(city) FILTER (WHERE age > 50) AS m FROM customer GROUP BY site ORDER BY 2, 1",
        "SELECT site FROM customer GROUP BY site HAVING MIN(city) = 'Bern' ORDER BY site",
        "SELECT city, MAX(UPPER(city)) FROM customer GROUP BY city ORDER BY city NULLS FIRST",
        "SELECT MAX(m) FROM (SELECT site, MIN(city) AS m FROM customer GROUP BY site) AS sites",
        "SELECT COUNT(*) FROM customer WHERE city = (SELECT MAX(city) FROM customer)",
        "SELECT MAX(city) || '!' AS x FROM customer HAVING COUNT(*) > 5",
        "SELECT DISTINCT MAX(item) FROM line",
        "SELECT c.site, MIN(item), COUNT(*) FROM line JOIN customer AS c USING (id) GROUP BY c.site ORDER BY 1",
    ],
)
def test_texts_have_the_extremes_of_plain_sql(opened: tuple[Session, duckdb.DuckDBPyConnection], sql: str) -> None:
    session, plain = opened
    assert list(session.execute(sql).rows) == plain.execute(sql).fetchall()


def test_what_is_selected_says_so_and_both_ends_are_bought_once(
    opened: tuple[Session, duckdb.DuckDBPyConnection],
) -> None:
    session, _ = opened
    both = session.execute("/* dpsql: fresh */ SELECT MIN(city), MAX(city), MIN(city) || MAX(city) FROM customer")
    assert (both.remarks, both.releases) == ((NOTE,), 1)
    assert NOTE not in session.execute("SELECT MAX(plan) FROM customer WHERE age > 3").remarks


def test_a_value_of_few_people_is_no_extreme(opened: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    session, _ = opened
    cheap = "/* dpsql: epsilon=0.2, delta=1e-6 */ SELECT MAX(UPPER(city)), COUNT(*) FROM customer WHERE age < 5"
    assert session.execute(cheap).rows[0][0] is None


def test_nobody_has_no_text(opened: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    session, _ = opened
    for sql, rows in (
        ("SELECT MAX(city) FROM customer WHERE site = 9", [(None,)]),
        ("SELECT MAX(plan), MIN(city), COUNT(*) FROM customer WHERE site = 9", [(None, None, 0)]),
        ("SELECT site, MAX(city) FROM customer WHERE site = 9 GROUP BY site", []),
    ):
        answer = session.execute(sql)
        assert (list(answer.rows), answer.receipt.loss.epsilon) == (rows, 0), sql


ONE_VALUE = """/* dpsql: max_groups=1 */ SELECT age, MAX(CASE WHEN half = 0 THEN item END) FROM line JOIN customer AS c USING (id)
    WHERE c.id < 180 GROUP BY age ORDER BY age"""
"""Of each age there are two people, with one item each, and as many rows without any."""


def test_null_takes_no_place_of_a_value(
    opened: tuple[Session, duckdb.DuckDBPyConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, plain = opened
    expected = [(age, item) for age, item in plain.execute(ONE_VALUE).fetchall()]
    assert len(expected) == 90 and None not in dict(expected).values()
    shown = [row for row in session.execute(ONE_VALUE).rows if row[0] < 90]
    assert shown == expected
    monkeypatch.setattr("dpsql.planner.resolve.text_extremes._with_value", lambda source, value: source)
    fault = session.execute(ONE_VALUE.replace("/*", "/* dpsql: fresh */ /*")).rows
    assert [row for row in fault if row[0] < 90] != expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT MIN(city) FILTER (WHERE site = 9) AS m FROM customer",
        "SELECT MAX(CASE WHEN site = 9 THEN city END) AS m FROM customer WHERE age > 3",
        "SELECT plan, MAX(city) FILTER (WHERE plan = 'lead') AS m FROM customer GROUP BY plan ORDER BY plan",
    ],
)
def test_a_text_that_no_declared_value_can_have_is_free(
    opened: tuple[Session, duckdb.DuckDBPyConnection], sql: str
) -> None:
    session, plain = opened
    answer = session.execute(sql)
    found = [row for row in answer.rows if row[0] != "silver"]
    assert (found, answer.receipt.loss.epsilon) == (plain.execute(sql).fetchall(), 0)
    assert any("so nobody is counted in" in note for note in (*answer.notes, *answer.remarks))


def test_a_text_that_somebody_may_have_is_bought_alone(opened: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    session, plain = opened
    sql = "SELECT MIN(city) FILTER (WHERE site = 9) AS none, MIN(city) FILTER (WHERE site = 2) AS some, COUNT(*) AS n FROM customer"
    assert list(session.execute(sql).rows) == plain.execute(sql).fetchall()
    bought = [line for line in session.explain(sql).splitlines() if line.startswith("release_")]
    assert [line.partition(":")[2] for line in bought] == [
        " the number of people, for each city",
        " the number of rows",
    ]


def test_the_limit_is_that_of_groups_and_values_together(opened: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    """Rule 59: four rows of a person may be four items, and each may be the one that puts an item over the threshold."""
    session, _ = opened
    plan = session.explain("SELECT MAX(item) FROM line")
    assert "4 groups" in plan


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT MAX(CAST(id AS VARCHAR)) FROM customer", "DPSQL-302"),
        ("SELECT MAX(DISTINCT city) FROM customer", "DPSQL-102"),
        ("SELECT site, MAX(city) FROM customer GROUP BY ROLLUP (site)", "DPSQL-102"),
    ],
)
def test_refused(opened: tuple[Session, duckdb.DuckDBPyConnection], sql: str, code: str) -> None:
    with pytest.raises(Error) as refused:
        opened[0].execute(sql)
    assert refused.value.code == code


def test_a_value_that_the_guard_suppresses_is_no_extreme(tmp_path: Path) -> None:
    """Fourteen people have the greatest note, and the owner's minimum cell size is 20."""
    for mode, greatest in (("off", "zrare"), ("block", "common")):
        rows = "SELECT i::BIGINT AS id, 1::INTEGER AS site, NULL::VARCHAR AS plan, 30::INTEGER AS age"
        rows += ", CASE WHEN i < 586 THEN 'common' ELSE 'zrare' END AS city FROM range(600) AS r(i)"
        with duckdb.connect() as plain:
            plain.execute(f"COPY ({rows}) TO '{tmp_path / 'customer.parquet'}' (FORMAT parquet)")
            plain.execute(f"COPY ({LINE}) TO '{tmp_path / 'line.parquet'}' (FORMAT parquet)")
        (tmp_path / "schema.toml").write_text(SCHEMA.replace('mode = "off"', f'mode = "{mode}"\nk = 20'))
        session = open_session(tmp_path / "schema.toml", None, ":memory:", noise=ZeroNoise())
        assert session.execute("/* dpsql: epsilon=5 */ SELECT MAX(city) FROM customer").rows == [(greatest,)]
        session.close()


def test_noise_for_each_value_of_each_group_has_a_limit(tmp_path: Path) -> None:
    days = ", ".join(f'"{i:05}"' for i in range(500))
    many = SCHEMA.replace('"silver", "basic", "gold"', days).replace(
        "bounds = [0, 100] }", "bounds = [0, 99999], step = 1 }"
    )
    (tmp_path / "schema.toml").write_text(many)
    for name, rows in (
        ("customer", CUSTOMER.replace("'basic'", "'00001'").replace("'gold'", "'00002'")),
        ("line", LINE),
    ):
        with duckdb.connect() as plain:
            plain.execute(f"COPY ({rows}) TO '{tmp_path / name}.parquet' (FORMAT parquet)")
    session = open_session(tmp_path / "schema.toml", None, ":memory:", noise=ZeroNoise())
    with pytest.raises(Error, match="DPSQL-304: MAX of 500 values would draw noise for each in 100,000 groups"):
        session.execute("SELECT age, MAX(plan) FROM customer GROUP BY age")
    assert session.execute("SELECT age // 10000, MAX(plan) FROM customer GROUP BY 1").rows
    session.close()


def test_keys_alone_that_are_selected_are_paid_beside_another_release(
    opened: tuple[Session, duckdb.DuckDBPyConnection], tmp_path: Path
) -> None:
    """Listed keys of more groups than are allowed: selected privately, and so a release that shares the price."""
    (tmp_path / "schema.toml").write_text(SCHEMA.replace("[privacy]", "[privacy]\nmax_cells = 2"))
    for name, rows in (("customer", CUSTOMER), ("line", LINE)):
        with duckdb.connect() as plain:
            plain.execute(f"COPY ({rows}) TO '{tmp_path / name}.parquet' (FORMAT parquet)")
    session = open_session(tmp_path / "schema.toml", None, ":memory:", noise=ZeroNoise())
    sql = "SELECT site, (SELECT COUNT(*) FROM line) AS n FROM customer GROUP BY site ORDER BY site"
    assert list(session.execute(sql).rows) == opened[1].execute(sql).fetchall()
    session.close()
