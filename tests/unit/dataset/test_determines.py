"""Declared dependences in a dataset: what the owner's check refuses and tells, and what answers rest on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity

SCHEMA = """
[dataset]
name = "shop"
source = "shop.duckdb"
[privacy]
unit = "customer.customer_id"
epsilon = 1e9
delta = 1e-3
units = 200
query = { epsilon = 1000000.0, delta = 1e-9 }
caps = { epsilon = 5000000.0, delta = 1e-8 }
[guard]
k = 2
[tables.customer]
key = ["customer_id"]
[tables.customer.columns]
customer_id = { type = "BIGINT" }
[tables.sale]
references = { customer_id = "customer.customer_id" }
determines = { order_no = ["customer_id"], customer_id = ["region"] }
max_rows_per_unit = 20
[tables.sale.columns]
order_no = { type = "BIGINT" }
region = { type = "BIGINT", domain = [0, 1, 2, 3] }
product = { type = "BIGINT", domain = [0, 1, 2, 3, 4, 5, 6] }
amount = { type = "DOUBLE", bounds = [0, 50], step = 1 }
[tables.product]
public = true
multiplicity = { product = 2 }
determines = { product = ["kind"] }
"""
STORED = """
CREATE TABLE customer AS SELECT i::BIGINT AS customer_id FROM range(200) AS t(i);
CREATE TABLE sale AS SELECT i // 3 AS order_no, i // 3 % 200 AS customer_id, i // 3 % 200 % 4 AS region, i % 7 AS product,
(i % 40)::DOUBLE AS amount FROM range(1800) AS t(i);
CREATE TABLE product AS SELECT i::BIGINT AS product, j AS variant, i % 3 AS kind FROM range(7) AS t(i), range(2) AS u(j);
"""
ANSWERED = [
    "SELECT region, COUNT(*) FROM sale GROUP BY 1 ORDER BY 1",
    "SELECT COUNT(*), SUM(n) FROM (SELECT order_no, COUNT(*) AS n FROM sale GROUP BY order_no)",
    "SELECT COUNT(*) FROM sale a WHERE EXISTS (SELECT 1 FROM sale b WHERE a.order_no = b.order_no AND b.amount > a.amount)",
    "SELECT SUM(r) FROM (SELECT row_number() OVER (PARTITION BY order_no ORDER BY amount) AS r FROM sale)",
    "SELECT kind, COUNT(*) FROM sale JOIN product USING (product) GROUP BY 1 ORDER BY 1",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    changed(tmp_path, STORED)
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def changed(folder: Path, sql: str) -> None:
    with duckdb.connect(str(folder / "shop.duckdb")) as stored:
        stored.execute(sql)


@pytest.mark.parametrize("sql", ANSWERED)
@pytest.mark.few(5)
def test_answers_are_those_of_plain_sql(folder: Path, sql: str) -> None:
    with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as stored:
        expected = stored.execute(sql).fetchall()
    with closing(dpsql.connect(folder / "schema.toml", ledger=":memory:")) as connection:
        assert connection.execute(sql).fetchall() == expected


@pytest.mark.parametrize(
    "wrong",
    [
        "INSERT INTO sale VALUES (7, 8, 0, 0, 1)",
        "INSERT INTO sale VALUES (7, NULL, 0, 0, 1)",
        "INSERT INTO sale VALUES (NULL, 8, 0, 0, 1), (NULL, 9, 0, 0, 1)",
        "UPDATE product SET kind = 9 WHERE product = 3 AND variant = 1",
        "UPDATE product SET kind = NULL WHERE product = 3 AND variant = 1",
    ],
)
def test_what_whose_row_it_is_rests_on_is_verified(folder: Path, wrong: str) -> None:
    changed(folder, wrong)
    with pytest.raises(Error) as found:
        dpsql.connect(folder / "schema.toml", ledger=":memory:")
    assert found.value.code == "DPSQL-804" and "which determines says they do not" in found.value.message


def test_a_public_column_that_is_not_there_is_told(folder: Path) -> None:
    changed(folder, "ALTER TABLE product DROP kind")
    with pytest.raises(Error) as found:
        dpsql.connect(folder / "schema.toml", ledger=":memory:")
    assert found.value.code == "DPSQL-804" and "determines names kind, which it does not have" in found.value.message


def test_a_dependence_of_the_unit_is_enforced_and_its_exceptions_told(folder: Path) -> None:
    changed(folder, "INSERT INTO sale SELECT 1000, 5, 3, 0, 1 FROM range(2)")
    schema = read_schema(folder / "schema.toml")
    with closing(Ledger.open(folder / "shop.ledger", ledger_identity(schema))) as ledger:
        told = str(owner.check(schema, ledger))
    assert "1 values of customer_id do not determine region: rows beyond one group of a unit are cut" in told
    with closing(dpsql.connect(folder / "schema.toml")) as connection:
        counted = [row[1] for row in connection.execute(ANSWERED[0]).fetchall()]
        assert sum(counted) in (1791 + 2, 1791 + 9), "of one customer the rows of one region"


def test_an_approval_is_for_these_dependences(folder: Path) -> None:
    text = SCHEMA + "[analysts.alice]\n"
    (folder / "schema.toml").write_text(text.replace("order_no = [", "product = ["), encoding="utf-8")
    schema = read_schema(folder / "schema.toml")
    with closing(Ledger.open(folder / "shop.ledger", ledger_identity(schema))) as ledger, pytest.raises(Error):
        owner.check(schema, ledger)
    (folder / "schema.toml").write_text(text.replace('order_no = ["customer_id"], ', ""), encoding="utf-8")
    schema = read_schema(folder / "schema.toml")
    with closing(Ledger.open(folder / "shop.ledger", ledger_identity(schema))) as ledger:
        owner.check(schema, ledger)
    dpsql.connect(folder / "schema.toml", analyst="alice").close()
    (folder / "schema.toml").write_text(text, encoding="utf-8")
    with (
        pytest.raises(Error) as found,
        closing(dpsql.connect(folder / "schema.toml", analyst="alice")) as connection,
    ):
        connection.execute("SELECT COUNT(*) FROM sale")
    assert found.value.code == "DPSQL-708" and "sale" in found.value.message
