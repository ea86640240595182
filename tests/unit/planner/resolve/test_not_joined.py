"""Refusals of joins name the two sides that are people's, and say what to write."""

from __future__ import annotations

import pytest

from dpsql.core.errors import Error
from dpsql.planner.parse import Query, parse
from dpsql.planner.resolve import resolve
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema

SCHEMA = """
[dataset]
name = "shop"
source = "shop.duckdb"

[privacy]
unit = "customer.customer_id"
epsilon = 10.0
delta = 1e-6

[tables.customer]
key = ["customer_id"]
[tables.customer.columns]
customer_id = { type = "BIGINT", role = "identifier" }

[tables.sale]
key = ["sale_id"]
references = { bought_by = "customer.customer_id", sent_to = "customer.customer_id" }
unit_path = ["bought_by"]
max_rows_per_unit = 5
[tables.sale.columns]
sale_id = { type = "BIGINT", role = "identifier" }
bought_by = { type = "BIGINT" }
sent_to = { type = "BIGINT" }

[tables.returned]
references = { sale_id = "sale.sale_id", returned_by = "customer.customer_id" }
unit_path = ["sale_id", "bought_by"]
max_rows_per_unit = 5
[tables.returned.columns]
sale_id = { type = "BIGINT" }
returned_by = { type = "BIGINT" }
loss = { type = "DOUBLE", bounds = [0, 100] }

[tables.day]
public = true
key = ["day_id"]
"""
OF_THE_SALE = (
    "join sale ON r.sale_id = sale.sale_id too, by which its rows belong to people, and equate the privacy units"
)


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    path = tmp_path_factory.mktemp("shop") / "schema.toml"
    path.write_text(SCHEMA)
    return read_schema(path)


def asked(sql: str, schema: Schema) -> None:
    query = parse(sql)
    assert isinstance(query, Query)
    resolve(query, schema)


@pytest.mark.parametrize(
    ("sql", "sides", "hint"),
    [
        ("customer c JOIN returned r ON c.customer_id = r.returned_by", "c and r", OF_THE_SALE),
        ("returned r JOIN customer c ON c.customer_id = r.returned_by", "c and r", OF_THE_SALE),
        ("sale s JOIN customer c ON s.sent_to = c.customer_id", "c and s", "add s.bought_by = c.customer_id as an AND part of ON"),
    ],
)  # fmt: skip
def test_the_sides_and_the_way_to_people_are_named(sql: str, sides: str, hint: str, schema: Schema) -> None:
    with pytest.raises(Error, match=f"the join of {sides} does not equate their privacy units") as refused:
        asked(f"SELECT COUNT(*) FROM {sql}", schema)
    assert refused.value.hint == hint


def test_the_way_that_is_named_is_accepted(schema: Schema) -> None:
    asked(
        "SELECT SUM(loss) FROM returned r JOIN sale ON r.sale_id = sale.sale_id JOIN customer c ON sale.bought_by = c.customer_id",
        schema,
    )


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        (
            "SELECT COUNT(*) FROM customer c WHERE EXISTS (SELECT 1 FROM sale s WHERE s.sent_to = c.customer_id)",
            "add c.customer_id = s.bought_by as an AND part of the subquery's WHERE",
        ),
        (
            "SELECT COUNT(*) FROM customer WHERE customer_id IN (SELECT sent_to FROM sale WHERE sale_id > 0)",
            "add customer.customer_id = sale.bought_by as an AND part of the subquery's WHERE",
        ),
    ],
)
def test_what_a_subquery_is_to_be_tied_by_is_named_and_accepted(sql: str, hint: str, schema: Schema) -> None:
    with pytest.raises(Error, match="this would look at other people's rows") as refused:
        asked(sql, schema)
    assert refused.value.hint == hint
    asked(sql[:-1] + " AND " + hint.removeprefix("add ").partition(" as ")[0] + ")", schema)


def test_names_that_are_the_same_inside_and_outside_tie_nothing(schema: Schema) -> None:
    with pytest.raises(Error, match="this would look at other people's rows") as refused:
        asked("SELECT COUNT(*) FROM sale WHERE sent_to IN (SELECT sent_to FROM sale WHERE sale_id > 0)", schema)
    assert refused.value.hint is not None and refused.value.hint.startswith("compare the privacy unit of both sides")
