"""Options: from the most local to the schema's default, and never above the owner's cap."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.core.errors import BudgetError, Error
from dpsql.planner.options import NAMES, Options, read_comment, set_option
from dpsql.planner.parse import Setting, parse
from tests.support import clinic


def test_the_more_local_place_decides() -> None:
    local, base = (
        Options(epsilon=Fraction(1), max_rows=2),
        Options(epsilon=Fraction(9), delta=Fraction(1, 8), mechanism="gaussian"),
    )
    assert local.over(base) == Options(Fraction(1), Fraction(1, 8), 2, None, "gaussian")


def test_the_schema_decides_what_nobody_asked_for(tmp_path: Path) -> None:
    schema = clinic.schema(tmp_path)
    assert Options().price(schema) == schema.privacy.query
    assert Options(epsilon=Fraction(3)).price(schema).epsilon == 3
    with pytest.raises(BudgetError, match="above the owner's cap"):
        Options(epsilon=Fraction(10**9)).price(schema)
    with pytest.raises(BudgetError, match="delta"):
        Options(delta=Fraction(9, 10)).price(schema)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"weights"}))
def test_every_option_of_a_session_is_set_back(name: str) -> None:
    read = parse(f"RESET dp_{name}")
    assert isinstance(read, Setting) and (read.name, read.options) == (name, None)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("epsilon", "0.1", Fraction(1, 10)), ("EPSILON", " '1e-2' ", Fraction(1, 100)), ("delta", ".5", Fraction(1, 2)),
        ("max_rows", "7", 7), ("max_groups", "9999999", 9999999), ("max_values", "2", 2), ("mechanism", "Gaussian", "gaussian"),
        ("mechanism", "AUTO", "auto"), ("error", "50", 50), ("error", " 5 % ", Fraction(1, 20)), ("error", "2.5e3", 2500),
        ("confidence", ".999", Fraction(999, 1000)), ("weights", "2:1", (2, 1)), ("weights", " 0.5 : 1 ", (Fraction(1, 2), 1)),
    ],
)  # fmt: skip
def test_values(name: str, text: str, value: object) -> None:
    assert getattr(set_option(Options(), name, text), name.lower()) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [("epsilon", ""), ("epsilon", "."), ("epsilon", "-1"), ("epsilon", "1/2"), ("epsilon", "inf"), ("epsilon", "1e400"),
     ("delta", "1"), ("delta", "-1"), ("max_rows", "0"), ("max_rows", "٣"), ("max_rows", "12345678"), ("mechanism", ""), ("noise", "0"),
     ("error", "0"), ("error", "%"), ("error", "-5"), ("error", "5%%"), ("confidence", "0.4"), ("confidence", "1"),
     ("confidence", "95%"), ("weights", ""), ("weights", "1:"), ("weights", "1:0"), ("weights", "1:-1"), ("weights", "a:b"),
     ("weights", ":".join("1" * 1001))],
)  # fmt: skip
def test_values_that_do_not_fit(name: str, text: str) -> None:
    with pytest.raises(Error) as refused:
        set_option(Options(), name, text)
    assert refused.value.code == "DPSQL-104"


def test_long_names_have_their_own_place() -> None:
    assert set_option(Options(), "max_rows_contributed", "3", long_names=True).max_rows == 3
    with pytest.raises(Error):
        set_option(Options(), "max_rows_contributed", "3")


def test_comments_and_mappings() -> None:
    assert read_comment(" hello ", Options()) == Options()
    assert read_comment("dpsql: epsilon=1, max_rows=2", Options()) == set_option(
        set_option(Options(), "epsilon", "1"), "max_rows", "2"
    )
