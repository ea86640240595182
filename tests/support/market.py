"""A second family of declared datasets: two ways to the unit, keys of many types, three hops, and references that lead nowhere.

An order has a buyer and a seller, a line belongs to an order and has a seller of its own, a mark stands on a line, a parcel has a key
of two columns, and a card is its person's only one. Which of the ways to a person a table takes is its path: `ways` chooses some. Rows
and neighbours: market_rows.py.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema

Row = tuple[object, ...]
Database = dict[str, list[Row]]
Ways = tuple[tuple[str, tuple[str, ...]], ...]
UNITS = ("BIGINT", "VARCHAR", "HUGEINT", "DECIMAL(38,10)")
"""Types of the unit's key."""
NOBODY = -1
"""The number of a person and of an order that no row has."""

HEAD = """
[dataset]
name = "market"
source = {source}

[guard]
mode = "off"

[privacy]
unit = {unit}
accounting = "{accounting}"
epsilon = {epsilon}
delta = 0.5
query = {{ epsilon = 1.0, delta = 1e-3 }}
caps = {{ epsilon = {epsilon}, delta = 0.4 }}

[tables.region]
{file[region]}public = true
key = ["region"]
"""
PERSON = """
[tables.person]
{file[person]}key = ["p_id"]
[tables.person.columns]
p_id = {{ type = "{type}", role = "{role}" }}
region = {{ type = "INTEGER", domain = [1, 2, 3] }}
age = {{ type = "INTEGER", bounds = [0, 90] }}
wealth = {{ type = "HUGEINT", bounds = [-1000, 1000000], nullable = true }}
rate = {{ type = "DECIMAL(38,10)", bounds = [-5, 5] }}
"""
OTHERS = """
[tables.card]
{file[card]}key = ["p_id"]
references = {{ p_id = "person.p_id" }}
[tables.card.columns]
p_id = {{ type = "{type}" }}
kind = {{ type = "VARCHAR", domain = ["a", "b"] }}
ceiling = {{ type = "HUGEINT", bounds = [0, 500] }}

[tables.orders]
{file[orders]}key = ["o_id"]
references = {{ o_buyer = "person.p_id", o_seller = "person.p_id" }}
unit_path = {paths[orders]}
max_rows_per_unit = 3
[tables.orders.columns]
o_id = {{ type = "{orders}" }}
o_buyer = {{ type = "{type}" }}
o_seller = {{ type = "{type}" }}
o_day = {{ type = "INTEGER", domain = [1, 2, 3, 4] }}
price = {{ type = "DECIMAL(38,10)", bounds = [-20, 50] }}

[tables.line]
{file[line]}key = ["l_id"]
references = {{ o_id = "orders.o_id", l_seller = "person.p_id" }}
unit_path = {paths[line]}
max_rows_per_unit = 4
max_groups_per_unit = 2
[tables.line.columns]
l_id = {{ type = "BIGINT" }}
o_id = {{ type = "{orders}" }}
l_seller = {{ type = "{type}" }}
l_kind = {{ type = "VARCHAR", domain = ["x", "y"], nullable = true }}
quantity = {{ type = "HUGEINT", bounds = [0, 100] }}

[tables.mark]
{file[mark]}references = {{ l_id = "line.l_id" }}
unit_path = {paths[mark]}
max_rows_per_unit = 5
[tables.mark.columns]
l_id = {{ type = "BIGINT" }}
grade = {{ type = "INTEGER", domain = [1, 2, 3] }}
size = {{ type = "DECIMAL(38,10)", bounds = [0, 9], nullable = true }}

[tables.parcel]
{file[parcel]}key = ["o_id", "number"]
references = {{ o_id = "orders.o_id" }}
unit_path = {paths[parcel]}
max_rows_per_unit = 4
[tables.parcel.columns]
o_id = {{ type = "{orders}" }}
number = {{ type = "INTEGER", domain = [1, 2, 3] }}
mass = {{ type = "DOUBLE", bounds = [0, 30] }}
"""
COLUMNS = {
    "person": "p_id {type}, region INTEGER, age INTEGER, wealth HUGEINT, rate DECIMAL(38,10)",
    "card": "p_id {type}, kind VARCHAR, ceiling HUGEINT",
    "orders": "o_id {orders}, o_buyer {type}, o_seller {type}, o_day INTEGER, price DECIMAL(38,10)",
    "line": "l_id BIGINT, o_id {orders}, l_seller {type}, l_kind VARCHAR, quantity HUGEINT",
    "mark": "l_id BIGINT, grade INTEGER, size DECIMAL(38,10)",
    "parcel": 'o_id {orders}, "number" INTEGER, mass DOUBLE',
    "region": "region INTEGER, name VARCHAR",
}
REGIONS: list[Row] = [(1, "north"), (2, "south"), (3, None)]
NAMES = {name: [c.strip().split(" ")[0].strip('"') for c in columns.split(", ")] for name, columns in COLUMNS.items()}
TARGETS = {
    "o_buyer": ("person", "p_id"),
    "o_seller": ("person", "p_id"),
    "l_seller": ("person", "p_id"),
    "o_id": ("orders", "o_id"),
    "l_id": ("line", "l_id"),
    "p_id": ("person", "p_id"),
}
"""The target of a reference, by its column."""

KEYS: dict[str, dict[str, str]] = {
    "person": {"p_id": "person"},
    "card": {"p_id": "person"},
    "orders": {"o_id": "orders", "o_buyer": "person", "o_seller": "person"},
    "line": {"l_id": "line", "o_id": "orders", "l_seller": "person"},
    "mark": {"l_id": "line"},
    "parcel": {"o_id": "orders"},
}
"""The columns of each table that are a key or refer to one, and whose."""
NUMBERS = {
    "person": ["age", "wealth", "rate"],
    "card": ["ceiling"],
    "orders": ["price", "o_day"],
    "line": ["quantity"],
    "mark": ["size", "grade"],
    "parcel": ["mass", "number"],
}
GROUPS = {
    "person": ["region"],
    "card": ["kind"],
    "orders": ["o_day"],
    "line": ["l_kind"],
    "mark": ["grade"],
    "parcel": ["number"],
}
CONDITIONS = {
    "person": ["region = 2", "age > 40", "wealth > 0", "rate IS NOT NULL"],
    "card": ["kind = 'a'", "ceiling < 250"],
    "orders": ["o_day > 1", "price > 0", "o_day IN (1, 2)"],
    "line": ["l_kind = 'x'", "l_kind IS NULL", "quantity > 10"],
    "mark": ["grade = 1", "size > 2", "size IS NULL"],
    "parcel": ["number = 1", "mass < 20"],
}


@dataclass(frozen=True)
class Market:
    """One schema of the family.

    type    of the unit's key, one of UNITS
    orders  the type of an order's key
    ways    the path of each table
    level   "person", or "row": the table of people alone, each row its own unit
    """

    type: str = "BIGINT"
    orders: str = "BIGINT"
    ways: Ways = ()
    level: str = "person"

    @property
    def paths(self) -> dict[str, tuple[str, ...]]:
        return {"person": (), "card": ("p_id",), **dict(self.ways)}

    @property
    def tables(self) -> tuple[str, ...]:
        return ("person", "region") if self.level == "row" else tuple(COLUMNS)

    def text(
        self, source: str = "market.duckdb", files: str = "", accounting: str = "zcdp", epsilon: str = "20.0"
    ) -> str:
        """The schema's file; `files` is how the names of the tables' files end, where the source is a folder."""
        filled = {
            "source": f'"{source}"',
            "unit": '"row"' if self.level == "row" else '"person.p_id"',
            "role": "measure" if self.level == "row" else "identifier",
            "accounting": accounting,
            "epsilon": epsilon,
            "type": self.type,
            "orders": self.orders,
            "paths": {t: "[" + ", ".join(f'"{c}"' for c in path) + "]" for t, path in self.ways},
            "file": {t: f'source = "{t}{files}"\n' if files else "" for t in COLUMNS},
        }
        return "".join(part.format(**filled) for part in (HEAD, PERSON, *(() if self.level == "row" else (OTHERS,))))

    def schema(self, folder: Path, **changed: str) -> Schema:
        """The schema as it is read. Raises SchemaError 801 where its paths disagree."""
        path = folder / "market.toml"
        path.write_text(self.text(**changed), encoding="utf-8")
        return read_schema(path)


BUYERS = (
    ("orders", ("o_buyer",)),
    ("line", ("o_id", "o_buyer")),
    ("mark", ("l_id", "o_id", "o_buyer")),
    ("parcel", ("o_id", "o_buyer")),
)
"""All of it belongs to the buyer of the order: up to three hops."""
TWO = (*BUYERS[:1], ("line", ("l_seller",)), ("mark", ("l_id", "l_seller")), BUYERS[3])
"""Orders and parcels belong to the buyer, lines and their marks to the seller of the line: two ways that do not meet."""
SOLD = (("orders", ("o_seller",)), *TWO[1:3], ("parcel", ("o_id", "o_seller")))
"""The same, with orders of the seller."""
CROSSED = (*BUYERS[:1], ("line", ("o_id", "o_seller")), ("mark", ("l_id", "o_id", "o_seller")), BUYERS[3])
"""Lines belong to the seller of an order whose row belongs to its buyer: refused."""


def ways(chance: random.Random) -> Ways:
    """A path for each table, whether they agree or not."""
    orders = chance.choice([("o_buyer",), ("o_seller",)])
    over = [("o_id", *orders), ("o_id", *orders), ("o_id", "o_buyer"), ("o_id", "o_seller")]
    line = chance.choice([("l_seller",), ("l_seller",), *over])
    mark = chance.choice([line, line, line, ("l_seller",), *over])
    return (("orders", orders), ("line", line), ("mark", ("l_id", *mark)), ("parcel", chance.choice(over)))
