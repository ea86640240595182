"""A dataset of visits to three clinics, with dates, for what dashboards ask."""

from __future__ import annotations

import datetime
import random
from pathlib import Path

import duckdb

PEOPLE, VISITS = 3000, 9000
SITES, KINDS = ("north", "south", "east"), ("checkup", "emergency", "follow-up")
SCHEMA = """
[dataset]
name   = "visits"
source = "."

[privacy]
unit    = "person.person_id"
epsilon = 100.0
delta   = 1e-4
units   = 3000
query   = { epsilon = 0.5, delta = 1e-8 }

[guard]
mode = "block"
k    = 5

[tables.person]
source = "person.csv"
key    = ["person_id"]
[tables.person.columns]
person_id = { type = "BIGINT", role = "identifier" }
site      = { type = "VARCHAR", domain = ["north", "south", "east"] }
income    = { type = "DOUBLE", bounds = [0, 29999], step = 1 }
born      = { type = "DATE", bounds = [1930-01-01, 2010-12-31] }
name      = { type = "VARCHAR" }

[tables.visit]
source     = "visit.csv"
references = { person_id = "person.person_id" }
max_rows_per_unit = 10
[tables.visit.columns]
person_id = { type = "BIGINT" }
at        = { type = "TIMESTAMP", bounds = [2023-01-01T00:00:00, 2024-12-31T23:59:59] }
usd       = { type = "DOUBLE", bounds = [0, 1000] }
kind      = { type = "VARCHAR", domain = ["checkup", "emergency", "follow-up"] }
paid      = { type = "BOOLEAN" }

[tables.calendar]
public = true
source = "calendar.csv"
key    = ["month_no"]
"""


def write(folder: Path) -> Path:
    """Write the dataset into a folder; the path of its schema."""
    chance = random.Random(7)
    person = ["person_id,site,income,born,name"]
    for number in range(PEOPLE):
        born = datetime.date(1940, 1, 1) + datetime.timedelta(days=chance.randrange(24_000))
        person.append(f"{number},{chance.choice(SITES)},{chance.randrange(20_000)},{born},name {number}")
    visit = ["person_id,at,usd,kind,paid"]
    for _ in range(VISITS):
        at = datetime.datetime(2023, 1, 1) + datetime.timedelta(hours=chance.randrange(730 * 24))
        usd = chance.randrange(50_000) / 100
        visit.append(f"{chance.randrange(PEOPLE)},{at},{usd},{chance.choice(KINDS)},{chance.random() < 0.5}")
    calendar = ["month_no,label", *(f"{month},month {month}" for month in range(1, 13))]
    for name, lines in (("person", person), ("visit", visit), ("calendar", calendar)):
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    schema = folder / "schema.toml"
    schema.write_text(SCHEMA)
    return schema


def plain(folder: Path) -> duckdb.DuckDBPyConnection:
    """The same tables in plain DuckDB."""
    connection = duckdb.connect()
    for name in ("person", "visit", "calendar"):
        connection.execute(f"CREATE TABLE {name} AS FROM read_csv('{folder / name}.csv')")
    return connection
