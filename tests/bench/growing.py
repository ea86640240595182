"""Data that grows: what a month of daily refreshes costs eight tiles, and what `refresh` takes beside `check`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import duckdb

import dpsql
from dpsql.accounting import layout
from dpsql.accounting.ledger import Ledger
from dpsql.core.domains import Interval
from dpsql.core.errors import BudgetError
from dpsql.core.loss import EpsilonDelta
from dpsql.core.sqltypes import parse_type
from dpsql.dataset import owner
from dpsql.schema.model import Column, Schema, Table
from dpsql.schema.periods import Period
from dpsql.schema.purchases import Purchases
from dpsql.session.opening import ledger_identity
from dpsql.session.refreshing import buy
from tests.bench.small import example
from tests.bench.timing import Times, heading, ms, show

DAYS = 30
SHOWN = (1, 15, 30)
BUDGET = EpsilonDelta(Fraction(5), Fraction(1, 10**6))
TILES = {
    "people": "SELECT COUNT(*) AS v FROM person",
    "people, by site": "SELECT site, COUNT(*) AS v FROM person GROUP BY site",
    "income, by plan": "SELECT plan, AVG(income) AS v FROM person GROUP BY plan",
    "health": "SELECT AVG(mental_health_index) AS v FROM person",
    "years": "SELECT COUNT(*) AS v FROM person_year",
    "visits, by year": "SELECT year, SUM(md_visits) AS v FROM person_year GROUP BY year",
    "drugs, by year": "SELECT year, AVG(drug_usd) AS v FROM person_year GROUP BY year",
    "admissions": "SELECT SUM(admissions) AS v FROM person_year",
}
"""Four about a table that stays, four about one that gets rows every day."""


CUBES = (
    """CREATE PRIVATE CUBE people OPTIONS (epsilon = 1, delta = 1e-6) AS
    SELECT site, plan, COUNT(*), SUM(income), SUM(mental_health_index) FROM person GROUP BY CUBE (site, plan)""",
    """CREATE PRIVATE CUBE years OPTIONS (epsilon = 0.5, delta = 1e-6) AS
    SELECT year, COUNT(*), SUM(drug_usd), SUM(admissions) FROM person_year GROUP BY CUBE (year)""",
)
"""They hold all tiles but the visits, whose sum has bounds of a person's total."""


def measure(rounds: int) -> None:
    """Print both."""
    ways = {
        "each tile asked every day": None,
        "a refresh buys two cubes and what they do not hold": Purchases(Fraction(2), (*CUBES, *TILES.values())),
    }
    for way, purchases in ways.items():
        with TemporaryDirectory() as scratch:
            _month(Path(scratch), way, purchases)
    for way, periods in {"without periods": None, "periods of a week": Period("seen", "week")}.items():
        with TemporaryDirectory() as scratch:
            _weeks(Path(scratch), way, periods)
    with TemporaryDirectory() as scratch:
        _beside_check(Path(scratch), rounds)


def _month(folder: Path, way: str, purchases: Purchases | None) -> None:
    schema = example("randhie", folder)
    privacy = replace(schema.privacy, budget=BUDGET, cube=EpsilonDelta(Fraction(1), BUDGET.delta))
    schema = replace(schema, privacy=privacy, guard=replace(schema.guard, mode="off"), refresh=purchases)
    whole = folder / "whole.parquet"
    (folder / "randhie" / "person_year.parquet").rename(whole)
    heading(f"{DAYS} appends, {len(TILES)} tiles, epsilon {BUDGET.epsilon}, delta {float(BUDGET.delta):g}: {way}")
    days: list[tuple[str, ...]] = []
    errors: dict[str, list[str]] = {tile: [] for tile in TILES}
    for day in range(1, DAYS + 1):
        _written(whole, folder / "randhie" / "person_year.parquet", Fraction(day, DAYS))
        with closing(Ledger.open(folder / "ledger", ledger_identity(schema))) as ledger:
            (owner.check if day == 1 else owner.refresh)(schema, ledger)
            of_day = [one for one in buy(schema, ledger).purchases if one.is_paid and one.problem is None]
        price, left, found = _opened(schema, folder / "ledger")
        price += sum((one.price for one in of_day), Fraction(0))
        answered = str(sum(e != "-" for e in found))
        days.append((str(day), str(len(of_day)), f"{float(price):.3g}", f"{float(left):.3g}", answered))
        if day in SHOWN:
            for tile, error in zip(TILES, found, strict=True):
                errors[tile].append(error)
    show(("day", "bought by the refresh", "epsilon spent", "largest epsilon left", "tiles of this day's rows"), days)
    show(("95 % error of a tile", *(f"day {day}" for day in SHOWN)), [(tile, *found) for tile, found in errors.items()])


BEGINS = date(2026, 1, 5)
"""A Monday."""


def _weeks(folder: Path, way: str, period: Period | None) -> None:
    """The four tiles of the table that grows, each day for every week that is over."""
    schema = example("randhie", folder)
    schema = replace(schema, privacy=replace(schema.privacy, budget=BUDGET), guard=replace(schema.guard, mode="off"))
    seen = Column("seen", parse_type("DATE"), _days(), False, "quasi")
    schema = replace(schema, tables=tuple(_dated(table, seen, period) for table in schema.tables))
    whole, target = folder / "whole.parquet", folder / "randhie" / "person_year.parquet"
    target.rename(whole)
    heading(f"{DAYS} appends, 4 tiles of each week that is over, asked every day, epsilon {BUDGET.epsilon}: {way}")
    spent, days, found = Fraction(0), list[tuple[str, ...]](), list[str]()
    for day in range(1, DAYS + 1):
        with patch.object(layout, "now", lambda day=day: f"{BEGINS + timedelta(days=day)}T01:00:00.000+00:00"):
            _written(
                whole,
                target,
                Fraction(day, DAYS),
                f"DATE '{BEGINS}' + (file_row_number * {DAYS} // rows)::INTEGER AS seen",
            )
            with closing(Ledger.open(folder / "ledger", ledger_identity(schema))) as ledger:
                owner.check(schema, ledger, prepare=True) if day == 1 else owner.refresh(schema, ledger)
            weeks = [BEGINS + timedelta(days=7 * week) for week in range(day // 7)]
            tiles = [_of_week(sql, week) for week in weeks for sql in TILES.values() if "person_year" in sql]
            price, left, found = _opened(schema, folder / "ledger", tiles)
        spent += price
        if day in (*SHOWN, 8, 14, 21, 28):
            answered = f"{sum(e != '-' for e in found)} of {len(tiles)}"
            days.append((str(day), f"{float(price):.3g}", f"{float(spent):.3g}", f"{float(left):.3g}", answered))
    show(("day", "epsilon spent", "in all", "largest epsilon left", "tiles of this day's rows"), sorted(days, key=_day))


def _day(row: tuple[str, ...]) -> int:
    return int(row[0])


def _days() -> Interval:
    """Days of the month's rows."""
    first = (BEGINS - date(1970, 1, 1)).days
    return Interval(Fraction(first), Fraction(first + DAYS))


def _dated(table: Table, seen: Column, period: Period | None) -> Table:
    if table.name != "person_year":
        return table
    return replace(table, key=(), columns=(*table.columns, seen), period=period)


def _of_week(sql: str, week: date) -> str:
    inside = f"FROM person_year WHERE seen >= '{week}' AND seen < '{week + timedelta(days=7)}'"
    return sql.replace("FROM person_year", inside)


def _opened(
    schema: Schema, ledger: Path, tiles: Iterable[str] = TILES.values()
) -> tuple[Fraction, Fraction, list[str]]:
    """(epsilon spent, largest that is left, the error of each tile: "-" where nothing is left for it) of one opening."""
    found, spent = [], Fraction(0)
    with closing(dpsql.connect(schema, ledger=ledger)) as connection:
        for sql in tiles:
            try:
                cursor = connection.execute(sql)
            except BudgetError:
                found.append("-")
                continue
            spent += cursor.privacy.epsilon
            found.append(f"{max(e for e in cursor.errors if e is not None):,.3g}")
        return spent, connection.execute("SELECT 1").privacy.remaining, found


def _written(source: Path, target: Path, share: Fraction, more: str = "") -> None:
    """The first rows of a table, as its file; `more`: a column that it does not have."""
    read = duckdb.connect()
    ((rows,),) = read.execute(f"SELECT count(*) FROM '{source}'").fetchall()
    kept = f"FROM read_parquet('{source}', file_row_number = true) WHERE file_row_number < {int(rows * share)}"
    items = "* EXCLUDE (file_row_number)" + (f", {more.replace('rows', str(rows))}" if more else "")
    read.execute(f"COPY (SELECT {items} {kept}) TO '{target}.new' (FORMAT parquet)").close()
    Path(f"{target}.new").replace(target)


ROWS = {"one file, written anew": 3_000_000, "a file more": 3_000_000, "one CSV file, rows appended": 1_000_000}
SOURCES = ("person_year.parquet", "years/*.parquet", "person_year.csv")
VALUES = """i // 5 AS person_id, i % 5 + 1 AS year, 30.0 AS age, 3 AS family_size, false AS child, i % 7 AS md_visits,
    0 AS other_visits, 0 AS mental_visits, 0 AS admissions, 1.5 AS outpatient_usd, 0.5 AS drug_usd, 0.0 AS inpatient_usd,
    2.0 AS medical_usd"""


def _rows(since: int, to: int, target: Path) -> None:
    """Rows of whole units, as a file."""
    form = "parquet" if target.suffix == ".parquet" else "csv"
    sql = f"COPY (SELECT {VALUES} FROM range({since}, {to}) t(i)) TO '{target}' (FORMAT {form})"
    duckdb.connect().execute(sql).close()


def _begun(folder: Path, source: str, rows: int) -> None:
    """A table as it is checked."""
    (folder / "years" / "2.parquet").unlink(missing_ok=True)
    _rows(0, rows, folder / source.replace("*", "1"))


def _more(folder: Path, source: str, rows: int) -> None:
    """A hundredth of its rows anew: at the end of its text, as a file beside the others, or in its one file."""
    more = rows * 101 // 100
    if source.endswith(".csv"):
        _rows(rows, more, folder / "more.csv")
        with open(folder / source, "a") as file:
            file.write((folder / "more.csv").read_text().partition("\n")[2])
    elif "*" in source:
        _rows(rows, more, folder / source.replace("*", "2"))
    else:
        _rows(0, more, folder / source)


def _beside_check(folder: Path, rounds: int) -> None:
    heading(f"refresh of 1 % new rows beside check; rows before: {', '.join(f'{w}: {n:,}' for w, n in ROWS.items())}")
    schema, place = example("randhie", folder), folder / "randhie"
    (place / "years").mkdir()
    steps = ("check", "refresh", "refresh, nothing new")
    times = {(way, step): Times() for way in ROWS for step in steps}
    for turn in range(rounds):
        for (way, rows), source in zip(ROWS.items(), SOURCES, strict=True):
            tables = (replace(t, source=source) if t.name == "person_year" else t for t in schema.tables)
            declared = replace(schema, tables=tuple(tables))
            with closing(Ledger.open(folder / f"ledger {way} {turn}", ledger_identity(declared))) as ledger:
                _begun(place, source, rows)
                times[way, "check"].run(partial(owner.check, declared, ledger, new_ledger=True))
                _more(place, source, rows)
                for step in steps[1:]:
                    times[way, step].run(partial(owner.refresh, declared, ledger))
    middle = {key: sorted(found.passed)[rounds // 2] for key, found in times.items()}
    used = {key: sorted(found.processor)[rounds // 2] for key, found in times.items()}
    show(
        ("", "", "time", "share of check", "processor time", "share of check"),
        [
            (
                way,
                step,
                ms(middle[way, step]),
                f"{middle[way, step] / middle[way, 'check']:.0%}",
                ms(used[way, step]),
                f"{used[way, step] / used[way, 'check']:.0%}",
            )
            for way, step in times
        ],
    )
