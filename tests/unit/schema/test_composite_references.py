"""References over several columns: how they are written, what is a mistake, and what they say of columns and paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.schema.model import Reference
from dpsql.schema.paths import HeldKey, HeldPart, held_keys, held_parts, named_keys
from dpsql.schema.toml import to_toml
from tests.unit.schema.schema_files import mistakes, read

SCHEMA = """
[dataset]
name = "chain"
source = "chain.duckdb"
[privacy]
unit = "customer.customer_id"
epsilon = 1.0
delta = 1e-6
[tables.customer]
key = ["customer_id"]
[tables.customer.columns]
customer_id = { type = "BIGINT" }
[tables.orders]
key = ["store_id", "order_no"]
references = { customer_id = "customer.customer_id", seller_id = "customer.customer_id" }
unit_path = ["customer_id"]
[tables.orders.columns]
store_id = { type = "BIGINT", domain = [1, 2] }
order_no = { type = "VARCHAR" }
[tables.line]
references = { "Number,shop" = ["orders.ORDER_NO", "orders.store_id"] }
unit_path = ["number, shop", "customer_id"]
[tables.line.columns]
shop = { type = "BIGINT", domain = [1, 2] }
amount = { type = "DOUBLE", bounds = [0, 9] }
[tables.shelf]
public = true
key = ["shop", "place"]
[tables.pick]
references = { customer_id = "customer.customer_id", "shop, place" = ["shelf.shop", "shelf.place"] }
[tables.pick.columns]
shop = { type = "BIGINT" }
place = { type = "BIGINT" }
"""


def test_a_reference_over_several_columns_is_read(tmp_path: Path) -> None:
    schema = read(tmp_path, SCHEMA)
    line, orders = schema.table("line"), schema.table("orders")
    assert line is not None and orders is not None
    over = Reference(("Number", "shop"), "orders", ("order_no", "store_id"))
    assert line.references == (over,)
    assert schema.path_to_unit(line) == (over, Reference(("customer_id",), "customer", ("customer_id",)))
    assert schema.unit_column(line) is None
    assert [(c.name, str(c.sqltype), c.role) for c in line.columns] == [
        ("shop", "BIGINT", "dimension"),
        ("amount", "DOUBLE", "measure"),
        ("Number", "VARCHAR", "identifier"),
    ], "the type is that of the key; what is not listed is an identifier"
    assert [c.role for c in orders.columns][:2] == ["dimension", "identifier"]
    pick = schema.table("pick")
    assert pick is not None and [c.role for c in pick.columns] == ["measure", "measure", "identifier"]


def test_columns_hold_the_key_together(tmp_path: Path) -> None:
    schema = read(tmp_path, SCHEMA)
    line, orders = schema.table("line"), schema.table("orders")
    assert line is not None and orders is not None
    key = HeldKey("orders", ("order_no", "store_id"), schema.path_to_unit(orders))
    assert held_keys(schema, line) == {}
    assert held_parts(schema, line, "l") == {
        "Number": frozenset({HeldPart(key, "order_no", "l")}),
        "shop": frozenset({HeldPart(key, "store_id", "l")}),
    }
    assert held_parts(schema, orders, "o")["store_id"] == frozenset({HeldPart(key, "store_id", "o")})
    assert named_keys(schema, line) == {"Number": frozenset({("orders", "order_no")})}, "a store is no identifier"
    assert named_keys(schema, orders)["order_no"] == frozenset({("orders", "order_no")})


def test_a_written_schema_reads_back(tmp_path: Path) -> None:
    schema = read(tmp_path, SCHEMA)
    assert read(tmp_path, to_toml(schema)).tables == schema.tables


def test_a_reference_of_one_column_is_known_as_it_always_was() -> None:
    """Stored answers and verified facts are known by this text."""
    known = "Reference(column='a', table='t', target='b')"
    assert repr(Reference(("a",), "t", ("b",))) == known


WRONG = 'needs one table.column for each of its columns, all of one table; write "store_id, order_no" = '


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["orders.ORDER_NO", "orders.store_id"]', '["orders.order_no"]', WRONG),
        ('["orders.ORDER_NO", "orders.store_id"]', '["orders.order_no", "customer.customer_id"]', WRONG),
        ('["orders.ORDER_NO", "orders.store_id"]', '["orders.order_no", "orders.order_no"]', WRONG),
        ('["orders.ORDER_NO", "orders.store_id"]', '["order_no", "store_id"]', WRONG),
        ('["orders.ORDER_NO", "orders.store_id"]', "[]", WRONG),
        ('"Number,shop"', '"Number,"', WRONG),
        (
            'key = ["store_id", "order_no"]',
            'key = ["order_no"]',
            'which is not the key of that table; write key = ["order_no", "store_id"] for table orders if that is unique there',
        ),
        ('shop = { type = "BIGINT", domain = [1, 2] }', 'shop = { type = "VARCHAR" }', "the type of orders.store_id"),
        ('["number, shop", "customer_id"]', '["number", "customer_id"]', 'write unit_path = ["Number, shop", "customer_id"]'),
        ('unit_path = ["number, shop", "customer_id"]', "", 'write unit_path = ["Number, shop", "customer_id"]'),
        ("shelf.shop", "shelf.place", WRONG),
    ],
)  # fmt: skip
def test_a_mistake_says_what_to_write(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert SCHEMA.count(old) == 1
    assert any(said in line for line in mistakes(tmp_path, SCHEMA.replace(old, new)))
