"""A second family of declared datasets: two ways to the unit, keys of many types, three hops, and references that lead nowhere.

An order has a buyer and a seller, a line belongs to an order and has a seller of its own, a mark stands on a line, a parcel has a key
of two columns, and a card is its person's only one. Which of the ways to a person a table takes is its path: `ways` chooses some. A
neighbour is made by walking the paths in Python, not by what the planner thinks of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import duckdb

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


# --- data ---------------------------------------------------------------------------------------------------------


def person_key(market: Market, number: int) -> object:
    """The unit's value of the person with that number; texts look alike, and like numbers."""
    texts = ("1", "01", "a", "A", "ä", " a", "a ", "", "x'y", "NULL", "1.0", "ß")
    match market.type:
        case "VARCHAR":
            return texts[number] if 0 <= number < len(texts) else f"nobody {number}"
        case "HUGEINT":
            return 2**100 + number
        case "DECIMAL(38,10)":
            return f"{12345678901234567890 + number}.{number % 7}000000001"
        case _:
            return 1000 + number


def order_key(market: Market, number: int) -> object:
    return f"o{number}" if market.orders == "VARCHAR" else number


def database(chance: random.Random, market: Market, *, wild: bool = True) -> Database:
    """A generated database; `wild` allows values outside the declarations, and references that are NULL or lead nowhere."""
    count = chance.choice([0, 1, 2, 5, 9])
    anybody = [person_key(market, n) for n in range(count)] or [person_key(market, NOBODY)]

    def someone() -> object:
        return (
            chance.choice([None, person_key(market, NOBODY)])
            if wild and chance.random() < 0.12
            else chance.choice(anybody)
        )

    people = [_person(chance, market, n, wild) for n in range(count)]
    busy = chance.choice(anybody)
    orders: list[Row] = [
        _order(chance, order_key(market, i), busy if chance.random() < 0.3 else someone(), someone(), wild)
        for i in range(chance.choice([0, 3, 8, 20]) if count else 0)
    ]
    lines: list[Row] = []
    for _ in range(chance.choice([0, 6, 15, 30]) if count else 0):
        astray = wild and chance.random() < 0.12
        order = chance.choice([None, order_key(market, NOBODY)]) if astray or not orders else chance.choice(orders)[0]
        lines.append(_line(chance, len(lines), order, busy if chance.random() < 0.3 else someone(), wild))
    marks = [_mark(chance, chance.choice([None, NOBODY]) if wild and chance.random() < 0.1 else line[0], wild)
             for line in lines for _ in range(chance.choice([0, 1, 1, 3]))]  # fmt: skip
    parcels: list[Row] = [
        (o[0], n, chance.choice([0.0, 30.0, chance.uniform(0, 30)]))
        for o in orders
        for n in (1, 2, 3)
        if chance.random() < 0.4
    ]
    cards = [(p[0], chance.choice(["a", "b"]), chance.randint(0, 500)) for p in people if chance.random() < 0.7]
    found: Database = {
        "person": people,
        "card": cards,
        "orders": orders,
        "line": lines,
        "mark": marks,
        "parcel": parcels,
    }
    return {**{name: chance.sample(rows, len(rows)) for name, rows in found.items()}, "region": REGIONS}


def _odd(chance: random.Random, value: object, *odd: object, wild: bool) -> object:
    return chance.choice(odd) if wild and chance.random() < 0.2 else value


def _person(chance: random.Random, market: Market, number: int, wild: bool) -> Row:
    return (
        person_key(market, number),
        _odd(chance, chance.randint(1, 3), None, 7, wild=wild),
        _odd(chance, chance.choice([0, 90, chance.randint(0, 90)]), None, 2**31 - 1, wild=wild),
        _odd(chance, chance.choice([-1000, 10**6, None, chance.randint(-1000, 1000)]), 2**127 - 1, -(2**127), wild=wild),
        _odd(chance, chance.choice(["-5", "5", "0.0000000001"]), None, "9999999999999999999999999999.9999999999", wild=wild),
    )  # fmt: skip


def _order(chance: random.Random, key: object, buyer: object, seller: object, wild: bool) -> Row:
    price = _odd(chance, chance.choice(["-20", "50", "3.3333333333"]), None, "-9999999999999999999999999999", wild=wild)
    return key, buyer, seller, _odd(chance, chance.randint(1, 4), None, 99, wild=wild), price


def _line(chance: random.Random, number: int, order: object, seller: object, wild: bool) -> Row:
    kind = _odd(chance, chance.choice(["x", "y", None]), "z", wild=wild)
    return number, order, seller, kind, _odd(chance, chance.choice([0, 100, 7]), None, 2**127 - 1, -(2**127), wild=wild)


def _mark(chance: random.Random, line: object, wild: bool) -> Row:
    grade = _odd(chance, chance.randint(1, 3), None, 8, wild=wild)
    return line, grade, _odd(chance, chance.choice(["0", "9", None, "4.5"]), "-9999999999999999999999999999", wild=wild)


def owners(data: Database, market: Market, table: str) -> list[object]:
    """The owner of each row of a table, by the table's path; None where the path leads nowhere."""
    owned: list[object] = [row[NAMES[table].index("p_id")] for row in data[table]] if table == "person" else []
    for row in data[table] if table != "person" else ():
        here, found = (table, row), None
        for step, column in enumerate(path := market.paths[table]):
            found = here[1][NAMES[here[0]].index(column)]
            target, key = TARGETS[column]
            rows = [r for r in data[target] if found is not None and r[NAMES[target].index(key)] == found]
            if step < len(path) - 1:
                if not rows:
                    found = None
                    break
                here = target, rows[0]
        owned.append(found)
    return owned


def without(data: Database, market: Market, person: object) -> Database:
    """The neighbouring database: every row of one person gone, and of nobody else."""
    return {
        name: rows
        if name == "region"
        else [
            row for row, owner in zip(rows, owners(data, market, name), strict=True) if owner is None or owner != person
        ]
        for name, rows in data.items()
    }


def without_row(data: Database, position: int) -> Database:
    """The neighbour at row level."""
    return {**data, "person": [row for i, row in enumerate(data["person"]) if i != position]}


# --- where they are stored ----------------------------------------------------------------------------------------


def fill(connection: duckdb.DuckDBPyConnection, market: Market, data: Database) -> None:
    """Make the tables of `connection` hold exactly this database."""
    for name, columns in COLUMNS.items():
        declared = columns.format(type=market.type, orders=market.orders)
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({declared}); DELETE FROM {name}")
        if data[name]:
            rows = ", ".join(f"({', '.join(map(literal, row))})" for row in data[name])
            connection.execute(f"INSERT INTO {name} VALUES {rows}")


def columns_of(market: Market, table: str) -> dict[str, str]:
    """The type of each column of a table."""
    declared = (
        c.strip().split(" ", 1) for c in COLUMNS[table].format(type=market.type, orders=market.orders).split(", ")
    )
    return {name.strip('"'): sqltype for name, sqltype in declared}


def literal(value: object) -> str:
    """A stored value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return f"CAST({value} AS HUGEINT)" if abs(value) < 2**127 else f"CAST('{value}' AS HUGEINT)"
    return "'" + str(value).replace("'", "''") + "'"


def write(folder: Path, market: Market, data: Database, kind: str = "duckdb") -> None:
    """The database where a schema with that source finds it: one DuckDB file, or a CSV or Parquet file for each table.

    What is there already may be open: it is put aside, not written over.
    """
    path = folder / "market new.duckdb"
    with duckdb.connect(":memory:" if kind != "duckdb" else str(path)) as connection:
        fill(connection, market, data)
        for name in COLUMNS if kind != "duckdb" else ():
            options = "(HEADER, FORCE_QUOTE *)" if kind == "csv" else "(FORMAT parquet)"
            # Parquet has no HUGEINT, and DuckDB would round it: the text of the number is read as one.
            columns = columns_of(market, name) if kind == "parquet" else {}
            big = [f'CAST("{c}" AS VARCHAR) AS "{c}"' for c, t in columns.items() if t == "HUGEINT"]
            rows = f"(SELECT * REPLACE ({', '.join(big)}) FROM {name})" if big else name
            connection.execute(f"COPY {rows} TO '{folder / name}.{kind}' {options}")
    if kind == "duckdb":
        path.replace(folder / "market.duckdb")
