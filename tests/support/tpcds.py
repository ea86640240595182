"""TPC-DS: tiny data made of the constants that its queries compare, the declared schema over it, and queries of the specification.

The calendar and the clock are whole, so that what is said of one day in several columns agrees; everything else is drawn. Every sale is
somebody's, every return is one of a sale, and nobody passes a limit, so that nothing that is declared changes an answer. Customers are
twins, who buy and return the same on the same days, so that no group is of one person alone, whom no threshold may show.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb

from dpsql.core.domains import Categories, Interval
from dpsql.schema.model import Column, Schema, Table
from dpsql.schema.toml import read_schema
from tests.support.compared import compared_with

FIXTURES = Path(__file__).parents[1] / "fixtures" / "published" / "tpcds"
ROWS = {
    "customer": 60, "customer_address": 40, "customer_demographics": 100, "household_demographics": 50, "item": 300, "store": 6,
    "store_sales": 8000, "catalog_sales": 6000, "web_sales": 5000, "store_returns": 3000, "catalog_returns": 2000, "web_returns": 1600,
    "inventory": 2000, "promotion": 6, "warehouse": 4, "income_band": 20,
}  # fmt: skip
FEW = 5
"""Rows of every other table."""
FIRST, LAST = datetime.date(1998, 1, 1), datetime.date(2002, 12, 31)
SALES = {"sr": ("store_sales", "ss"), "cr": ("catalog_sales", "cs"), "wr": ("web_sales", "ws")}
SOLD = ("item_sk", "ticket_number", "order_number")
"""The columns that a return has in common with its sale."""
TWIN = 1_000_000
"""The amount by which the twin's tickets have been raised."""
Row = dict[str, object]


def queries() -> dict[int, str]:
    """The queries by their numbers."""
    parted = re.split(r"(?m)^-- Q(\d+)\n", (FIXTURES / "queries.sql").read_text())
    return {int(number): text.strip().rstrip(";") for number, text in zip(parted[1::2], parted[2::2], strict=True)}


def schema(folder: Path) -> Schema:
    """The declared schema over the data of that folder."""
    return replace(read_schema(FIXTURES / "schema.toml"), folder=folder)


def generate(folder: Path, texts: Sequence[str]) -> duckdb.DuckDBPyConnection:
    """Plain DuckDB with tiny tables, and the same as Parquet in the folder's `rows`."""
    (folder / "rows").mkdir(parents=True)
    declared, constants, chance = schema(folder), compared_with(texts), random.Random(20)
    plain = duckdb.connect()
    plain.execute((FIXTURES / "tables.sql").read_text())
    shown = "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY table_name, ordinal_position"
    types: dict[str, dict[str, str]] = {}
    for table, column, kind in plain.execute(shown).fetchall():
        types.setdefault(table, {})[column] = kind
    made: dict[str, list[Row]] = {}
    for name in sorted(types, key=lambda name: ("_returns" in name, name)):
        table = declared.table(name)
        assert table is not None
        made[name] = _rows(table, types[name], constants, made, chance)
        _insert(plain, name, types[name], made[name])
        plain.execute(f"COPY {name} TO '{folder / 'rows' / name}.parquet' (FORMAT parquet)")
    return plain


def _insert(plain: duckdb.DuckDBPyConnection, name: str, types: Mapping[str, str], rows: Sequence[Row]) -> None:
    columns = {column: [None if row[column] is None else str(row[column]) for row in rows] for column in types}
    lists = ", ".join(f"unnest(?::VARCHAR[]) AS {column}" for column in columns)
    cast = ", ".join(f"CAST({column} AS {kind})" for column, kind in types.items())
    plain.execute(f"INSERT INTO {name} SELECT {cast} FROM (SELECT {lists})", list(columns.values()))


def _rows(
    table: Table,
    types: Mapping[str, str],
    constants: Mapping[str, set[str]],
    made: Mapping[str, list[Row]],
    chance: random.Random,
) -> list[Row]:
    if table.name == "date_dim":
        return [{column: day.get(column) for column in types} for day in _calendar()]
    if table.name == "time_dim":
        return [{column: minute.get(column) for column in types} for minute in _clock(sorted(constants["t_meal_time"]))]
    values = {c: _values(table.column(c), kind, constants.get(c, set())) for c, kind in types.items()}
    nullable = [c.name for c in table.columns if c.nullable and table.reference(c.name)]
    rows: list[Row] = []
    for number in range(ROWS.get(table.name, FEW) // (1 if table.public else 2)):
        row: Row = {column: chance.choice(values[column]) for column in types}
        row |= {column: _referred(column, chance) for column in types if column.endswith("_sk")}
        row |= {key: number + 1 for key in table.key if key == "i_item_sk" or not key.endswith("_item_sk")}
        row |= {
            column: f"{column}{number // 2}"
            for column, kind in types.items()
            if kind == "VARCHAR" and column.endswith("_id")
        }
        row |= {column: None for column in nullable if chance.random() < 0.03}
        rows += [row] if table.public else _twins(_of_a_sale(row, made, chance) if "_returns" in table.name else row)
    return list({tuple(row[key] for key in table.key): row for row in rows}.values())


def _twins(row: Row) -> list[Row]:
    """The rows that one customer has, and the next one alike."""
    held = [column for column in row if column.endswith("customer_sk")]
    # who pays for a sale is also who it is sent to; customers come in pairs, of which the first has an odd number
    one = int(str(row[held[0]]))
    first: Row = row | dict.fromkeys(held, 2 * one - 1 if held[0] == "c_customer_sk" else (one - 1) // 2 * 2 + 1)
    raised = {c: int(str(v)) + TWIN for c, v in first.items() if c.endswith(("ticket_number", "order_number"))}
    return [first, first | raised | {column: int(str(first[column])) + 1 for column in held}]


def _values(column: Column | None, kind: str, constants: set[str]) -> list[str]:
    """The values that a column is drawn from: the constants that it may hold, and a few others."""
    if kind == "VARCHAR":
        listed = column.domain.values if column is not None and isinstance(column.domain, Categories) else ()
        return [str(value) for value in listed] or [*sorted(constants)[:10], "other"]
    if kind == "DATE":
        return ["1999-06-01", "2001-03-15"]
    bounds = column.domain if column is not None and isinstance(column.domain, Interval) else Interval(0, 100)  # type: ignore[arg-type]
    numbers = [float(text) for text in constants if re.fullmatch(r"-?\d+(\.\d+)?", text)]
    inside = [number for number in numbers if bounds.lower <= number <= bounds.upper]
    least, most = float(bounds.lower), min(float(bounds.upper), float(bounds.lower) + 300)
    spread = [least + (most - least) * i // 12 for i in range(13)]
    drawn = [*inside * (1 + len(spread) // len(inside)), *spread] if inside else spread
    return [f"{number:.2f}" if kind.startswith("DECIMAL") else str(int(number)) for number in drawn]


def _referred(column: str, chance: random.Random) -> int:
    """A key of the table that a column points at, by its name."""
    if column.endswith("date_sk"):
        return _number(FIRST) + chance.randrange((LAST - FIRST).days)
    if column.endswith("time_sk"):
        return chance.randrange(24 * 60) * 60
    ends = {
        "customer_sk": "customer", "addr_sk": "customer_address", "address_sk": "customer_address",
        "cdemo_sk": "customer_demographics", "hdemo_sk": "household_demographics", "item_sk": "item", "store_sk": "store",
        "promo_sk": "promotion", "warehouse_sk": "warehouse", "income_band_sk": "income_band",
    }  # fmt: skip
    return 1 + chance.randrange(next((ROWS[table] for end, table in ends.items() if column.endswith(end)), FEW))


def _of_a_sale(row: Row, made: Mapping[str, list[Row]], chance: random.Random) -> Row:
    """The return, of a sale that was made: the same item and ticket, by the same customer."""
    prefix = next(iter(row)).partition("_")[0]
    table, theirs = SALES[prefix]
    # every other row is a twin's
    sale = made[table][2 * chance.randrange(len(made[table]) // 2)]
    sold = sale[f"{theirs}_sold_date_sk"]
    for column in row:
        own = column.partition("_")[2]
        if own in SOLD:
            row[column] = sale[f"{theirs}_{own}"]
        elif own.endswith("customer_sk"):
            row[column] = sale[f"{theirs}_customer_sk" if prefix == "sr" else f"{theirs}_bill_customer_sk"]
        elif own.endswith("returned_date_sk"):
            row[column] = None if sold is None else int(str(sold)) + chance.randrange(1, 100)
    return row


def _number(day: datetime.date) -> int:
    return 2415022 + (day - datetime.date(1900, 1, 2)).days


def _calendar() -> Iterator[Row]:
    day = FIRST
    # a return is up to 100 days later than its sale
    while day <= LAST + datetime.timedelta(days=120):
        month, weekday = (day.year - 1900) * 12 + day.month - 1, day.isoweekday() % 7
        quarter = (day.month + 2) // 3
        yield {
            "d_date_sk": _number(day), "d_date_id": str(day), "d_date": day, "d_month_seq": month,
            "d_week_seq": (_number(day) - 2415021) // 7, "d_quarter_seq": month // 3, "d_year": day.year, "d_dow": weekday,
            "d_moy": day.month, "d_dom": day.day, "d_qoy": quarter,
            "d_day_name": day.strftime("%A"), "d_quarter_name": f"{day.year}Q{quarter}",
        }  # fmt: skip
        day += datetime.timedelta(days=1)


def _clock(meals: Sequence[str]) -> Iterator[Row]:
    for minute in range(24 * 60):
        hour = minute // 60
        yield {
            "t_time_sk": minute * 60, "t_time": minute * 60, "t_hour": hour, "t_minute": minute % 60, "t_second": 0,
            "t_meal_time": meals[hour % len(meals)] if hour % 4 and meals else None,
        }  # fmt: skip
