"""References over several columns in a dataset: the owner's check, the prepared snapshot, answers, the guard, and other tools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.clients.dbapi.connection import Connection
from dpsql.clients.sqlalchemy import reflection
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.schema.toml import read_schema
from dpsql.session.opening import default_ledger, ledger_identity
from tests.support.opened import Data

SCHEMA = """
[dataset]
name = "chain"
source = "chain.duckdb"
[privacy]
unit = "customer.customer_id"
epsilon = 1e9
delta = 1e-3
units = 200
query = { epsilon = 1000000.0, delta = 1e-9 }
caps = { epsilon = 1000000.0, delta = 1e-8 }
[guard]
k = 2
[tables.customer]
key = ["customer_id"]
[tables.customer.columns]
customer_id = { type = "BIGINT" }
[tables.orders]
key = ["store_id", "order_no"]
references = { customer_id = "customer.customer_id" }
max_rows_per_unit = 5
[tables.orders.columns]
store_id = { type = "BIGINT", domain = [0, 1, 2, 3, 4, 5] }
order_no = { type = "BIGINT" }
[tables.line]
references = { "store_id, order_no" = ["orders.store_id", "orders.order_no"] }
max_rows_per_unit = 20
[tables.line.columns]
store_id = { type = "BIGINT", domain = [0, 1, 2, 3, 4, 5] }
line_no = { type = "BIGINT", domain = [0, 1, 2] }
amount = { type = "DOUBLE", bounds = [0, 50], step = 1 }
[tables.shelf]
public = true
key = ["store_id", "line_no"]
"""
STORED = """
CREATE TABLE customer AS SELECT i::BIGINT AS customer_id FROM range(200) AS t(i);
CREATE TABLE orders AS SELECT (i % 6)::BIGINT AS store_id, (i // 6)::BIGINT AS order_no, (i % 200)::BIGINT AS customer_id FROM range(600) AS t(i);
CREATE TABLE line AS SELECT (i % 6)::BIGINT AS store_id, (i // 6)::BIGINT AS order_no, j::BIGINT AS line_no, (i % 40)::DOUBLE AS amount
FROM range(600) AS t(i), range(3) AS u(j);
CREATE TABLE shelf AS SELECT (i % 6)::BIGINT AS store_id, (i // 6)::BIGINT AS line_no, 's' || (i % 2) AS label FROM range(18) AS t(i);
"""  # noqa: E501
ODD = "INSERT INTO line VALUES (NULL, 3, 0, 9), (1, NULL, 0, 9), (5, 999, 0, 9), (5, 999, 1, 9)"
"""Four rows of nobody: two refer to no order, two say nothing."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made(tmp_path)


def made(folder: Path) -> Path:
    with duckdb.connect(str(folder / "chain.duckdb")) as stored:
        stored.execute(STORED)
        stored.execute(ODD)
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Data]:
    with closing(Data(made(tmp_path_factory.mktemp("chain")) / "schema.toml")) as found:
        yield found


@pytest.fixture
def connection(data: Data) -> Iterator[Connection]:
    with closing(data.connection()) as found:
        yield found


ANSWERED = [
    "SELECT COUNT(*), SUM(amount) FROM line JOIN orders USING (store_id, order_no)",
    "SELECT store_id, COUNT(*) FROM line JOIN orders USING (order_no, store_id) GROUP BY 1 ORDER BY 1",
    "SELECT COUNT(*), SUM(n) FROM "
    "(SELECT store_id, order_no, COUNT(*) AS n FROM line JOIN orders USING (store_id, order_no) GROUP BY ALL)",
    "SELECT COUNT(*) FROM orders o WHERE EXISTS "
    "(SELECT 1 FROM line l WHERE l.store_id = o.store_id AND l.order_no = o.order_no AND amount > 20)",
    "SELECT label, COUNT(*) FROM line l JOIN orders USING (store_id, order_no) "
    "JOIN shelf s ON s.store_id = l.store_id AND s.line_no = l.line_no GROUP BY 1 ORDER BY 1",
]


@pytest.mark.parametrize("sql", ANSWERED)
@pytest.mark.few(5)
def test_answers_are_those_of_plain_sql(connection: Connection, folder: Path, sql: str) -> None:
    with duckdb.connect(str(folder / "chain.duckdb"), read_only=True) as stored:
        assert connection.execute(sql).fetchall() == stored.execute(sql).fetchall()


def test_rows_that_refer_to_nothing_are_of_nobody(connection: Connection) -> None:
    assert connection.execute("SELECT COUNT(*) FROM line").fetchall() == [(1800,)]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT COUNT(*) FROM line l JOIN orders o ON l.order_no = o.order_no", "DPSQL-402"),
        ("SELECT COUNT(*) FROM line l JOIN shelf s ON s.store_id = l.store_id", "DPSQL-402"),
        ("SELECT store_id, order_no, COUNT(*) FROM line GROUP BY ALL", "DPSQL-302"),
        ("SELECT COUNT(*) FROM line WHERE order_no = 3", "DPSQL-601"),
    ],
)
def test_a_part_of_a_key_is_no_key(connection: Connection, sql: str, code: str) -> None:
    with pytest.raises(Error) as found:
        connection.execute(sql)
    assert found.value.code == code
    if found.value.hint.startswith("add "):
        wanted = found.value.hint.removeprefix("add ").removesuffix(" as AND parts of ON")
        assert connection.execute(f"SELECT COUNT(*) FROM line l JOIN orders o ON {wanted}").fetchall() == [(1800,)]


def test_the_owner_sees_what_refers_to_nothing(folder: Path) -> None:
    schema = read_schema(folder / "schema.toml")
    with closing(Ledger.open(default_ledger(schema), ledger_identity(schema))) as ledger:
        told = str(owner.check(schema, ledger, prepare=True))
    assert "2 rows refer by store_id, order_no to no row of orders.store_id, order_no" in told
    assert "4 rows belong to no unit" in told
    with closing(dpsql.connect(folder / "schema.toml")) as prepared:
        assert prepared.execute(ANSWERED[0]).fetchall() == [(1800, 35100.0)]


def test_a_key_that_repeats_is_refused(folder: Path) -> None:
    with duckdb.connect(str(folder / "chain.duckdb")) as stored:
        stored.execute("INSERT INTO orders VALUES (5, 99, 7)")
    with pytest.raises(Error) as found:
        dpsql.connect(folder / "schema.toml", ledger=":memory:")
    assert found.value.code == "DPSQL-804" and "rows repeat in (store_id, order_no)" in found.value.message


def test_tools_see_the_reference(folder: Path) -> None:
    (leads,) = reflection.relation(read_schema(folder / "schema.toml"), "line", None).foreign_keys(None)
    assert leads["constrained_columns"] == leads["referred_columns"] == ["store_id", "order_no"]
    assert leads["referred_table"] == "orders"
