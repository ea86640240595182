"""Declared names with an SQL schema: what they mean in FROM and before columns, and how catalogs and tools show them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.clients.dbapi.connection import Connection
from dpsql.clients.repl.commands import candidates
from dpsql.clients.repl.completion import complete
from dpsql.clients.sqlalchemy import reflection
from dpsql.core.errors import Error
from dpsql.dataset.owner import init
from dpsql.schema import qualifiers
from dpsql.schema.toml import read_schema, to_toml
from tests.unit.schema.schema_files import mistakes

SCHEMA = """
[dataset]
name = "shop"
source = "shop.duckdb"
[privacy]
unit = "sales.customer.customer_id"
epsilon = 1e9
buy_again = true
delta = 1e-3
query = { epsilon = 1000000.0, delta = 1e-9 }
caps = { epsilon = 1000000.0, delta = 1e-8 }
[guard]
mode = "off"
[tables."sales.customer"]
key = ["customer_id"]
[tables."sales.customer".columns]
customer_id = { type = "BIGINT" }
store = { type = "BIGINT", domain = { from = "Geo.store.store" } }
[tables."sales.orders"]
key = ["order_id"]
references = { customer_id = "sales.customer.customer_id" }
max_rows_per_unit = 5
[tables."sales.orders".columns]
order_id = { type = "BIGINT" }
price = { type = "DOUBLE", bounds = [0, 50], step = 1 }
[tables."hr.orders"]
references = { customer_id = "sales.customer.customer_id" }
max_rows_per_unit = 5
[tables."hr.orders".columns]
price = { type = "DOUBLE", bounds = [0, 50], step = 1 }
[tables."Geo.store"]
public = true
key = ["store"]
[tables.note]
references = { customer_id = "sales.customer.customer_id" }
max_rows_per_unit = 1
"""
STORED = """
CREATE SCHEMA sales; CREATE SCHEMA hr; CREATE SCHEMA geo;
CREATE TABLE sales.customer AS SELECT i::BIGINT AS customer_id, (i % 3)::BIGINT AS store FROM range(60) AS t(i);
CREATE TABLE sales.orders AS
SELECT i::BIGINT AS order_id, (i % 60)::BIGINT AS customer_id, (i % 50)::DOUBLE AS price FROM range(180) AS t(i);
CREATE TABLE hr.orders AS SELECT (i % 60)::BIGINT AS customer_id, (i % 40)::DOUBLE AS price FROM range(120) AS t(i);
CREATE TABLE geo.store AS SELECT i::BIGINT AS store, 'n' || i AS name FROM range(3) AS t(i);
CREATE TABLE note AS SELECT i::BIGINT AS customer_id FROM range(7) AS t(i);
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("shop")
    with duckdb.connect(str(found / "shop.duckdb")) as stored:
        stored.execute(STORED)
    (found / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def connection(folder: Path) -> Iterator[Connection]:
    found = dpsql.connect(folder / "schema.toml", ledger=":memory:")
    yield found
    found.close()


SALES = "SELECT COUNT(*), SUM(price) FROM {}"
ANSWERED = [
    *(SALES.format(way) for way in ("sales.orders", "shop.sales.orders", 'SALES."Orders"', '"sales.orders"', "hr.orders")),
    *(f"SELECT SUM({way}.price) FROM sales.orders" for way in ("orders", "sales.orders", "shop.Sales.orders")),
    'SELECT SUM("sales.orders".price), SUM(orders.price), SUM(sales.orders.price) FROM "sales.orders"',
    "SELECT COUNT(customer.store) FROM customer",
    "SELECT COUNT(*) FROM main.note JOIN sales.customer ON shop.main.note.customer_id = sales.customer.customer_id",
    "SELECT name, COUNT(*) FROM sales.customer JOIN geo.store ON customer.store = geo.store.store GROUP BY 1 ORDER BY geo.store.name",
    "SELECT store.* FROM geo.store ORDER BY store.store",
    "SELECT COUNT(*) FROM customer "
    "WHERE EXISTS (SELECT 1 FROM hr.orders WHERE hr.orders.customer_id = sales.customer.customer_id AND price > 30)",
    "SELECT COUNT(*) FROM sales.orders WHERE customer_id IN (SELECT customer_id FROM hr.orders WHERE orders.price > 30)",
    "WITH orders AS (SELECT * FROM sales.orders WHERE orders.price > 3) SELECT COUNT(orders.price) FROM orders",
    "SELECT AVG(orders.n) FROM (SELECT customer_id, COUNT(*) AS n FROM sales.orders GROUP BY customer_id) AS orders",
    "SELECT SUM(sales.orders.price) FROM sales.orders UNION ALL SELECT SUM(orders.price) FROM hr.orders ORDER BY 1",
    "SELECT SUM(sales.orders.price), SUM(hr.orders.price) "
    "FROM sales.orders JOIN hr.orders ON sales.orders.customer_id = hr.orders.customer_id",
    "SELECT COUNT(*) FROM sales.orders o JOIN hr.orders AS orders ON o.customer_id = orders.customer_id AND orders.price > o.price",
]  # fmt: skip


@pytest.mark.parametrize("sql", ANSWERED)
def test_a_name_with_a_schema_means_what_duckdb_takes_it_for(connection: Connection, folder: Path, sql: str) -> None:
    plain = sql.replace('"sales.orders"', "sales.orders")
    for short in ("customer", "note"):
        plain = plain.replace(f"FROM {short}", f"FROM {'sales' if short == 'customer' else 'main'}.{short}")
    with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as stored:
        expected = stored.execute(plain).fetchall()
    shown = connection.execute(sql).fetchall()
    assert [tuple(map(str, row)) for row in shown] == [tuple(map(str, row)) for row in expected]


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT COUNT(*) FROM orders", "write sales.orders or hr.orders"),
        ("DESCRIBE shop.orders", "did you mean sales.orders or hr.orders?"),
        ("DESCRIBE orders", "write sales.orders or hr.orders"),
        ("SELECT COUNT(*) FROM main.orders", "did you mean sales.orders or hr.orders?"),
        ("SELECT COUNT(*) FROM sale.orders", "did you mean sales.orders or hr.orders?"),
        ("SELECT COUNT(*) FROM sales.ordres", "did you mean sales.orders?"),
        ("SELECT COUNT(*) FROM hr.customer", "did you mean sales.customer?"),
        ("SELECT COUNT(sales.orders.price) FROM note", "add sales.orders to FROM"),
        ("SELECT SUM(sales.orders.price) FROM sales.orders AS o", "write o.price"),
        (
            "SELECT SUM(orders.price) FROM sales.orders JOIN hr.orders USING (customer_id)",
            "write sales.orders.price or hr.orders.price",
        ),
    ],
)  # fmt: skip
def test_a_name_that_means_nothing_or_several_tables_is_refused(connection: Connection, sql: str, hint: str) -> None:
    with pytest.raises(Error) as found:
        connection.execute(sql)
    assert (found.value.code, found.value.hint) == ("DPSQL-105", hint)
    if hint.startswith("write") and "FROM orders" in sql:
        connection.execute(sql.replace("FROM orders", f"FROM {hint.split()[-1]}"))
    if " or hr.orders.price" in hint:
        connection.execute(sql.replace("orders.price", hint.split()[-1], 1))


def test_catalogs_show_each_table_in_its_schema(connection: Connection) -> None:
    listed = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema <> 'dpsql' ORDER BY ALL"
    tables = [("Geo", "store"), ("hr", "orders"), ("main", "note"), ("sales", "customer"), ("sales", "orders")]
    assert connection.execute(listed).fetchall() == tables
    columns = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'hr' ORDER BY 1"
    )
    assert columns.fetchall() == [("customer_id",), ("price",)]
    assert ("sales",) in connection.execute("SELECT schema_name FROM information_schema.schemata").fetchall()
    for (name,) in connection.execute("SHOW TABLES").fetchall():
        assert connection.execute(f"DESCRIBE {name}").fetchall()
    assert [row[0] for row in connection.execute("DESCRIBE shop.sales.orders").fetchall()] == [
        "order_id",
        "price",
        "customer_id",
    ]
    assert connection.execute("SELECT epsilon FROM dpsql.budget").fetchall(), "what was spent beside them"


def test_reflection_and_completion_show_the_schema(folder: Path) -> None:
    schema = read_schema(folder / "schema.toml")
    assert qualifiers.sql_schemas(schema) == ["main", "sales", "hr", "Geo"]
    assert reflection.names(schema, "sales") == ["customer", "orders"]
    assert reflection.names(schema, None) == ["note"]
    (leads,) = reflection.relation(schema, "orders", "hr").foreign_keys("hr")
    assert (leads["referred_schema"], leads["referred_table"]) == ("sales", "customer")
    for text, found in [
        ("SELECT COUNT(*) FROM ord", {"sales.orders", "hr.orders"}),
        ("SELECT COUNT(*) FROM hr.", {"orders"}),
        ("SELECT COUNT(*) FROM shop.geo.", {"store"}),
        ("SELECT COUNT(*) FROM sales.orders WHERE orders.pr", {"price"}),
        ("DESCRIBE sal", {"sales.customer", "sales.orders"}),
    ]:
        assert {c.text for c in complete(text, len(text), schema, candidates)} == found


def test_a_draft_names_tables_of_other_schemas(folder: Path) -> None:
    text = init(folder / "shop.duckdb")
    assert '[tables."sales.orders"]' in text and '[tables."hr.orders"]' in text and "[tables.note]" in text
    assert "left out" not in text


def test_a_written_schema_reads_back(folder: Path, tmp_path: Path) -> None:
    schema = read_schema(folder / "schema.toml")
    (tmp_path / "again.toml").write_text(to_toml(schema), encoding="utf-8")
    assert read_schema(tmp_path / "again.toml").tables == schema.tables


@pytest.mark.parametrize("name", ["dpsql.note", "information_schema.note", "main.note", "temp.note", "sales."])
def test_a_schema_that_is_taken_is_a_mistake(tmp_path: Path, name: str) -> None:
    found = mistakes(tmp_path, SCHEMA.replace("[tables.note]", f'[tables."{name}"]'))
    assert len(found) == 1 and "SQL schema" in found[0]
