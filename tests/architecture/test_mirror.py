"""Tests stand where the house has what they test: a folder of tests/unit a room, a file an aggregate, family, mechanism, accountant."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from dpsql.aggregates.registry import RECORDS
from tests.support.stages import read
from tests.support.statements import FIXTURES

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests" / "unit"
ROOMS = {
    "clients/cli": "tests/clients/test_cli.py",
    "clients/dbapi": "tests/clients/test_pep249.py",
    "clients/harlequin": "tests/clients/test_harlequin.py",
    "clients/repl": "tests/clients/repl",
    "clients/server": "tests/clients/server",
    "clients/sqlalchemy": "tests/clients/alchemy",
    "clients/superset": "tests/superset",
    "engines/dialects": "tests/engines",
    "engines/duckdb": "tests/unit/engines",
    "engines/postgres": "tests/engines",
    "engines/spark": "tests/engines",
    "planner/total": "tests/attacks/test_rule_45_checker.py",
}
"""Folders of the product that are tested elsewhere: clients by those who speak to them, the checker by its rule."""
FILES = {
    "accountants/advanced": "tests/unit/accountants/test_filters.py",
    "accountants/gdp": "tests/unit/accountants/test_filters.py",
    "accountants/pure": "tests/unit/accountants/test_filters.py",
    "accountants/record": "tests/unit/accountants/test_filters.py",
    "accountants/registry": "tests/unit/accountants/test_filters.py",
    "accountants/zcdp": "tests/unit/accountants/test_filters.py",
    "mechanisms/bounds": "tests/unit/mechanisms/test_conversions.py",
    "mechanisms/calibration": "tests/unit/planner/test_mechanism.py",
    "mechanisms/events": "tests/unit/accounting/test_ran.py",
    "mechanisms/exact_choice": "tests/noise/test_choice.py",
    "mechanisms/gaussian_tail": "tests/unit/mechanisms/test_gaussian.py",
    "mechanisms/prices": "tests/laws/test_prices.py",
    "mechanisms/randomized_response": "tests/unit/aggregates/test_randomized_response.py",
    "mechanisms/reach": "tests/unit/mechanisms/test_conversions.py",
    "mechanisms/side_by_side": "tests/unit/mechanisms/test_summed.py",
    "mechanisms/truncated": "tests/noise/test_truncated.py",
    "mechanisms/weighted": "tests/noise/test_reused_error_bars.py",
}
"""Accountants and mechanisms without a file of their name: several in one table of cases, or by their distribution."""
FAMILIES = sorted(
    path.stem
    for path in (ROOT / "dpsql/expressions/functions").glob("[a-z]*.py")
    if path.stem not in ("record", "lists")
)
"""Of functions; of lists, which no small table has, tests/semantics/test_lists.py asks."""


def _folders() -> list[str]:
    folders = {path.parent.relative_to(ROOT / "dpsql").as_posix() for path in (ROOT / "dpsql").rglob("[a-z]*.py")}
    return sorted(folders - {"."})


def test_each_room_has_its_folder() -> None:
    bare = {room for room in _folders() if not list((UNIT / room).rglob("test_*.py"))}
    assert bare == set(ROOMS)
    assert all((ROOT / place).exists() for place in ROOMS.values())


def test_no_folder_is_of_no_room() -> None:
    folders = {path.parent.relative_to(UNIT).as_posix() for path in UNIT.rglob("*.py")}
    assert folders <= set(_folders())


@pytest.mark.parametrize("room", ["accountants", "mechanisms"])
def test_each_mechanism_and_accountant_has_its_file(room: str) -> None:
    modules = {path.stem for path in (ROOT / "dpsql" / room).glob("[a-z]*.py")}
    without = {f"{room}/{name}" for name in modules if not (UNIT / room / f"test_{name}.py").exists()}
    assert without == {name for name in FILES if name.startswith(room)}
    assert all((ROOT / FILES[name]).exists() for name in without)


def test_each_aggregate_has_its_cases() -> None:
    assert {path.stem for path in (FIXTURES / "aggregates").glob("*.sql")} == {record.name for record in RECORDS}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_function_has_a_case_by_each_of_its_names(family: str) -> None:
    called = " ".join(case.sql for case in read(FIXTURES / "functions" / f"{family}.sql"))
    functions = import_module(f"dpsql.expressions.functions.{family}").FUNCTIONS
    assert all(f"({name.upper()}(" in called for function in functions for name in function.names)
