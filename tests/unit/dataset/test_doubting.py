"""Doubts of a check: each of several likely mistakes is told, and what is as declared is not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.dataset import owner
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity

SCHEMA = """
[dataset]
name = "shop"
source = "."
[privacy]
unit = "customers.id"
epsilon = 4.0
delta = 1e-6
units = 100
[tables.customers]
source = "customers.csv"
key = ["id"]
[tables.customers.columns]
id = { type = "INTEGER" }
region = { type = "VARCHAR", domain = ["north", "south"] }
age = { type = "INTEGER", bounds = [0, 120] }
[tables.orders]
source = "orders.csv"
references = { id = "customers.id" }
max_rows_per_unit = 3
[tables.orders.columns]
id = { type = "INTEGER" }
amount = { type = "DOUBLE", bounds = [0, 500] }
"""


@pytest.fixture
def notes(tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    people = [(i, ("north", "south")[i % 2], i % 80) for i in range(100)]
    (tmp_path / "customers.csv").write_text("id,region,age\n" + "".join(f"{i},{r},{a}\n" for i, r, a in people))
    (tmp_path / "orders.csv").write_text("id,amount\n" + "".join(f"{i % 100},{i}\n" for i in range(300)))

    def checked(old: str = "", new: str = "", file: str = "", text: tuple[str, str] = ("", "")) -> tuple[str, ...]:
        assert old in SCHEMA
        (tmp_path / "schema.toml").write_text(SCHEMA.replace(old, new) if old else SCHEMA)
        if file:
            (tmp_path / file).write_text((tmp_path / file).read_text().replace(*text))
        schema = read_schema(tmp_path / "schema.toml")
        with closing(Ledger.open(tmp_path / "shop.ledger", ledger_identity(schema))) as ledger:
            return owner.check(schema, ledger).warnings

    return checked


def test_what_is_as_declared_is_not_told(notes: Callable[..., tuple[str, ...]]) -> None:
    assert notes() == ()
    assert notes("units = 100", "units = 200") == () == notes("units = 100", "units = 50")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[0, 500]", "[0, 100]", "the bounds of orders.amount clamp 66% of its values"),
        ('["north", "south"]', '["North", "south"]', "the list of customers.region leaves out 50% of its values"),
        ("max_rows_per_unit = 3", "max_rows_per_unit = 2", "max_rows_per_unit of orders cuts 33% of its rows"),
        ("units = 100", "units = 201", "units says 201, and there are 100"),
        ("units = 100", "units = 49", "units says 49, and there are 100"),
        (
            'region = { type = "VARCHAR", domain = ["north", "south"] }',
            'region = { type = "INTEGER", domain = [1, 2] }',
            "100 values of customers.region are no INTEGER",
        ),
    ],
)
def test_likely_mistakes(notes: Callable[..., tuple[str, ...]], old: str, new: str, told: str) -> None:
    (note,) = notes(old, new)
    assert note.startswith(told)


def test_one_value_that_cannot_be_read(notes: Callable[..., tuple[str, ...]]) -> None:
    (note,) = notes(file="orders.csv", text=("7,107\n", "7,n/a\n"))
    assert note.startswith("1 value of orders.amount is no DOUBLE, and counted as NULL")


def test_a_few_beyond_a_limit_are_left(notes: Callable[..., tuple[str, ...]]) -> None:
    assert notes("[0, 500]", "[0, 284]") == () and len(notes("[0, 500]", "[0, 283]")) == 1


def test_numbers_declared_as_text_are_told(notes: Callable[..., tuple[str, ...]]) -> None:
    old, new = 'amount = { type = "DOUBLE", bounds = [0, 500] }', 'amount = { type = "VARCHAR" }'
    (said,) = notes(old, new)
    assert said.startswith("every value of orders.amount is a number, and is declared as text")
    assert notes(old, new, "orders.csv", ("7,7\n", "7,none\n")) == ()


def test_codes_and_keys_are_no_numbers(notes: Callable[..., tuple[str, ...]]) -> None:
    old = 'amount = { type = "DOUBLE", bounds = [0, 500] }'
    assert notes(old, 'amount = { type = "VARCHAR", role = "identifier" }') == ()
    assert notes(old, 'amount = { type = "VARCHAR" }', "orders.csv", ("\n0,0\n", "\n0,007\n")) == ()
