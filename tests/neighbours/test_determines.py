"""Declared dependences: one person moves answers by no more than is claimed, whatever the data say, and faults are caught.

An order's number determines its customer, which is verified, so it holds here. That a customer has one region is only declared, and
enforced: here it is wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import BIGINT
from dpsql.expressions.scalar import Scalar
from dpsql.relations import joins
from dpsql.relations.relations import Relation
from dpsql.schema import paths
from dpsql.schema.model import Column, Schema
from dpsql.schema.toml import read_schema
from tests.support import clinic
from tests.support.market_cases import Pair, check
from tests.support.neighbours import accepted
from tests.support.violation import Violation

Patch = pytest.MonkeyPatch
Database = dict[str, list[tuple[object, ...]]]
SCHEMA = """
[dataset]
name = "shop"
source = "shop.duckdb"
[privacy]
unit = "customer.customer_id"
epsilon = 20.0
delta = 0.5
query = { epsilon = 1.0, delta = 1e-3 }
caps = { epsilon = 20.0, delta = 0.4 }
[guard]
mode = "off"
[tables.customer]
key = ["customer_id"]
[tables.customer.columns]
customer_id = { type = "BIGINT" }
favourite = { type = "BIGINT", domain = [0, 1, 2] }
[tables.sale]
references = { customer_id = "customer.customer_id" }
determines = { customer_id = ["region"], order_no = ["customer_id"] }
max_rows_per_unit = 4
[tables.sale.columns]
order_no = { type = "BIGINT" }
region = { type = "BIGINT", domain = [0, 1, 2] }
product = { type = "BIGINT", domain = [0, 1, 2] }
amount = { type = "BIGINT", bounds = [0, 9] }
[tables.product]
public = true
multiplicity = { product = 2 }
determines = { product = ["kind"] }
"""
TABLES = {
    "customer": "customer_id BIGINT, favourite BIGINT",
    "sale": "order_no BIGINT, region BIGINT, product BIGINT, amount BIGINT, customer_id BIGINT",
    "product": "product BIGINT, variant BIGINT, kind BIGINT",
}
PRODUCTS: list[tuple[object, ...]] = [(p, v, p % 2) for p in (0, 1, 2) for v in (0, 1)]
STATEMENTS = [
    "SELECT region, COUNT(*), SUM(amount) FROM sale GROUP BY region",
    "SELECT region + 1 AS r, COUNT(*) FROM sale WHERE amount > 2 GROUP BY region + 1",
    "SELECT COUNT(*), SUM(n) FROM (SELECT customer_id, region, COUNT(*) AS n FROM sale GROUP BY ALL)",
    "SELECT COUNT(*), SUM(n) FROM (SELECT order_no, COUNT(*) AS n FROM sale GROUP BY order_no)",
    "SELECT region, SUM(n) FROM (SELECT order_no, region, SUM(amount) AS n FROM sale GROUP BY ALL) GROUP BY region",
    "SELECT COUNT(*) FROM sale a JOIN sale b ON a.order_no = b.order_no AND a.amount > b.amount",
    "SELECT COUNT(*) FROM sale a WHERE NOT EXISTS (SELECT 1 FROM sale b WHERE a.order_no = b.order_no AND b.amount > a.amount)",
    "SELECT SUM(r) FROM (SELECT rank() OVER (PARTITION BY order_no ORDER BY amount) AS r FROM sale) WHERE r BETWEEN 0 AND 4",
    "SELECT SUM(n) FROM (SELECT customer_id, kind, COUNT(*) AS n FROM sale JOIN product USING (product) GROUP BY ALL)",
    "SELECT SUM(n) FROM (SELECT customer_id, kind, COUNT(*) AS n FROM customer JOIN product ON favourite = product GROUP BY ALL)",
    "SELECT SUM(n) FROM (SELECT customer_id, variant, COUNT(*) AS n FROM customer JOIN product ON favourite = product GROUP BY ALL)",
    # refused, unless a fault takes a product for its buyer
    "SELECT COUNT(*) FROM sale a JOIN sale b ON a.product = b.product AND a.amount > b.amount",
]


def schema(folder: Path) -> Schema:
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    listed = tuple(Column(name, BIGINT, UNBOUNDED, True, "") for name in ("product", "variant", "kind"))
    read = read_schema(folder / "schema.toml")
    return replace(read, tables=tuple(replace(t, columns=listed) if t.public else t for t in read.tables))


def database(chance: random.Random) -> Database:
    people = list(range(chance.choice([1, 3, 6])))
    orders = {number: chance.choice([*people, None]) for number in (1, 2, 3, 4, 5, None)}
    sales = [
        (number, chance.randint(0, 3), chance.randint(0, 2), chance.randint(-1, 12), orders[number])
        for number in chance.choices(list(orders), k=20)
    ]
    return {"customer": [(p, chance.randint(0, 2)) for p in people], "sale": [*sales], "product": PRODUCTS}


def without(data: Database, person: object) -> Database:
    place = {"customer": 0, "sale": 4}
    return {
        name: [row for row in rows if name not in place or row[place[name]] != person] for name, rows in data.items()
    }


@pytest.fixture
def pair() -> Iterator[Pair]:
    found = duckdb.connect(config={"threads": "1"}), duckdb.connect(config={"threads": "2"})
    for connection in found:
        for name, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
    yield found
    for connection in found:
        connection.close()


def run(folder: Path, pair: Pair, rounds: int) -> set[str]:
    """Check every statement that is accepted on pairs of neighbours; those that were. Raises Violation."""
    known, chance = schema(folder), random.Random(3)
    asked = {sql: compiled for sql in STATEMENTS if (compiled := accepted(sql, known)) is not None}
    for _ in range(rounds):
        data = database(chance)
        gone = chance.choice(data["customer"])[0]
        for connection, rows in zip(pair, (data, without(data, gone)), strict=True):
            for name, held in rows.items():
                connection.execute(f"DELETE FROM {name}")
                if held:
                    connection.execute(f"INSERT INTO {name} VALUES {clinic.listed(held)}")
        for sql, compiled in asked.items():
            check(sql, compiled, pair, gone, known)
    return set(asked)


@pytest.mark.slow
def test_one_person_moves_answers_by_no_more_than_is_claimed(tmp_path: Path, pair: Pair) -> None:
    assert run(tmp_path, pair, 15) == set(STATEMENTS[:-1])


def test_a_dependence_of_the_unit_is_one_group(tmp_path: Path) -> None:
    compiled = accepted(STATEMENTS[0], schema(tmp_path))
    assert compiled is not None and compiled.releases[0].release.limited.limits.groups == 1


def a_declaration_is_taken_for_a_fact(patch: Patch) -> None:
    patch.setattr(Scalar, "is_constant", Scalar.is_steady)


def what_is_not_verified_is_held_like_a_key(patch: Patch) -> None:
    patch.setattr(paths, "deriving", lambda schema, table: (("product",),) if table.name == "sale" else ())


def a_public_side_is_one_row(patch: Patch) -> None:
    def fixed(right: Relation, equalities: object) -> Relation:
        return replace(right, columns=tuple(replace(c, scalar=replace(c.scalar, constant=True)) for c in right.columns))

    patch.setattr(joins, "_determined", fixed)


FAULTS: list[Callable[[Patch], None]] = [
    a_declaration_is_taken_for_a_fact,
    what_is_not_verified_is_held_like_a_key,
    a_public_side_is_one_row,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.few(2)
def test_a_planted_fault_is_caught(
    fault: Callable[[Patch], None], tmp_path: Path, pair: Pair, monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation):
        run(tmp_path, pair, 15)
