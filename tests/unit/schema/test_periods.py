"""Declared periods: which there are, how they are read and written, and what is a mistake."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from dpsql.schema.by_period import count, days
from dpsql.schema.periods import EVERY, MOST, Period
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
max_rows_per_unit = 3
period = "SOLD"
every = "quarter"
[tables.sale.columns]
sold = { type = "TIMESTAMP", bounds = [2024-11-05T12:00:00, 2025-06-30T23:59:59] }
amount = { type = "DOUBLE", bounds = [0, 9] }
"""


@pytest.mark.parametrize("every", EVERY)
def test_every_day_is_in_one_period_which_its_name_is_of(every: str) -> None:
    period, day = Period("d", every), date(1999, 12, 25)
    firsts, counted = set[date](), period.within((day, day + timedelta(days=2_000)))
    for _ in range(2_000):
        first = period.first(day)
        assert first <= day < period.after(first) and period.begin(period.name(first)) == first
        firsts.add(first)
        day += timedelta(days=1)
    assert sorted(firsts) == [first for first in counted if first in firsts] and len(counted) - len(firsts) in (0, 1)
    assert all(period.after(one) == other for one, other in pairwise(counted))
    assert period.count((date(2, 1, 1), date(1, 1, 1))) == 0


def test_they_are_read_and_written(tmp_path: Path) -> None:
    schema = read(tmp_path, SCHEMA)
    sale = schema.table("sale")
    assert sale is not None and sale.period == Period("sold", "quarter")
    assert days(sale) == (date(2024, 11, 5), date(2025, 6, 30)) and count(sale) == 3
    assert to_toml(read(tmp_path, to_toml(schema))) == to_toml(schema)
    assert 'period = "sold"\nevery = "quarter"\n' in to_toml(schema)


@pytest.mark.parametrize(
    "old, new, line",
    [
        ('every = "quarter"\n', "", "period is declared without every"),
        ('period = "SOLD"\n', "", "every is declared without period"),
        ('"quarter"', '"hour"', 'every "hour" is unknown'),
        ('"SOLD"', '"bought"', "period names bought, which is not a declared column"),
        ('"SOLD"', '"amount"', "period is by amount, which is no DATE or TIMESTAMP with bounds"),
        (", bounds = [2024-11-05T12:00:00, 2025-06-30T23:59:59]", "", "period is by sold, which is no DATE"),
        (
            "23:59:59]",
            "23:59:59], nullable = true",
            "period is by sold, which is no DATE or TIMESTAMP with bounds, or is nullable",
        ),
        ('"SOLD"', '"SOLD"\nkey = ["sold"]', "key cannot be verified of rows that closed periods keep"),
        ('"SOLD"', '"SOLD"\ndetermines = { sold = ["amount"] }', "determines cannot be verified"),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, line: str) -> None:
    assert SCHEMA.count(old) == 1
    assert any(line in found for found in mistakes(tmp_path, SCHEMA.replace(old, new)))


def test_too_many_periods(tmp_path: Path) -> None:
    text = SCHEMA.replace("2024-11-05", "0001-01-01").replace('"quarter"', '"day"')
    assert any(f"bounds are of more than {MOST:,} periods" in found for found in mistakes(tmp_path, text))


def test_no_table_is_reached_over_one_with_periods(tmp_path: Path) -> None:
    text = SCHEMA.replace('period = "SOLD"', 'key = ["sale_id"]\nperiod = "SOLD"').replace(
        "amount =", 'sale_id = { type = "BIGINT" }\namount ='
    )
    line = '\n[tables.item]\nreferences = { sale_id = "sale.sale_id" }\n[tables.item.columns]\nprice = { type = "BIGINT" }\n'
    found = mistakes(tmp_path, text + line)
    assert any("item refers to it, and rows that closed periods keep lead nowhere else" in one for one in found)


def test_rows_that_are_units_have_none(tmp_path: Path) -> None:
    text = SCHEMA.replace('customer.customer_id"\nepsilon', 'row"\nepsilon')
    assert any("period makes no sense with unit" in found for found in mistakes(tmp_path, text))
