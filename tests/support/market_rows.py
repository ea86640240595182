"""Generated rows of the second family of datasets (market.py), their neighbours, and how they are stored."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb

from tests.support.market import COLUMNS, NAMES, NOBODY, REGIONS, TARGETS, Database, Market, Row


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
