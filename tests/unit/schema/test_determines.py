"""Declared dependences: how they are read, what follows of them, and what is a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.schema.dependences import deriving, determined, structural
from dpsql.schema.model import Dependence
from dpsql.schema.paths import HeldKey, held_keys, held_parts, named_keys
from dpsql.schema.toml import to_toml
from tests.unit.schema.schema_files import mistakes, read

SCHEMA = """
[dataset]
name = "shop"
source = "shop.duckdb"
[privacy]
unit = "customer.customer_id"
epsilon = 1.0
delta = 1e-6
[tables.customer]
key = ["customer_id"]
[tables.customer.columns]
customer_id = { type = "BIGINT" }
[tables.sale]
references = { customer_id = "customer.customer_id" }
determines = { Order_No = ["basket"], basket = ["CUSTOMER_ID"], customer_id = ["region"], "region, till" = ["customer_id"] }
[tables.sale.columns]
order_no = { type = "BIGINT" }
basket = { type = "VARCHAR" }
region = { type = "BIGINT", domain = [0, 1] }
till = { type = "BIGINT" }
amount = { type = "DOUBLE", bounds = [0, 9] }
[tables.product]
public = true
determines = { product = ["kind"] }
"""


def test_dependences_are_read_and_followed(tmp_path: Path) -> None:
    schema = read(tmp_path, SCHEMA)
    sale = schema.table("sale")
    assert sale is not None
    assert sale.determines[1:3] == (
        Dependence(("basket",), ("customer_id",)),
        Dependence(("customer_id",), ("region",)),
    )
    assert determined(["order_no"], sale.determines) == {"order_no", "basket", "customer_id", "region"}
    assert deriving(schema, sale) == (("order_no",), ("basket",), ("region", "till"))
    assert [d.columns for d in structural(schema, sale)] == [("order_no",), ("basket",), ("region", "till")]
    path = schema.path_to_unit(sale)
    assert HeldKey("sale", ("order_no",), path) in held_keys(schema, sale)["order_no"]
    assert set(held_parts(schema, sale, "s")) == {"region", "till"}
    assert set(named_keys(schema, sale)) == {"order_no", "basket", "customer_id", "till"}
    roles = {c.name: c.role for c in sale.columns}
    identifiers = {name for name, role in roles.items() if role == "identifier"}
    assert identifiers == {"order_no", "basket", "customer_id", "till"}, "a region is many people's"


def test_a_written_schema_reads_back_and_differs_from_one_without(tmp_path: Path) -> None:
    schema = read(tmp_path, SCHEMA)
    again = read(tmp_path, to_toml(schema))
    assert again.tables == schema.tables and again.unshown == schema.unshown
    other = read(tmp_path, SCHEMA.replace('customer_id = ["region"], ', ""))
    assert other.unshown != schema.unshown


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["basket"]', '["bag"]', "determines names bag, which is not a declared column"),
        ("Order_No = ", "number = ", "determines names number, which is not a declared column"),
        ("Order_No = ", "amount = ", "determines is by amount, and DOUBLE is never compared exactly"),
        ('["basket"]', "[]", "needs a list of different column names"),
        ('["basket"]', '"basket"', "needs a list of different column names"),
        ('basket = { type = "VARCHAR" }', 'basket = { type = "VARCHAR[]", length = 2 }', "is a list, by which rows are not told apart"),
        ('unit = "customer.customer_id"', 'unit = "row"', 'determines makes no sense with unit = "row"'),
    ],
)  # fmt: skip
def test_a_mistake_is_told(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert SCHEMA.count(old) == 1
    assert any(said in line for line in mistakes(tmp_path, SCHEMA.replace(old, new)))
