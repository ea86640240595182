"""The tables of functions and aggregates in the notes are what the records say."""

from __future__ import annotations

from dpsql.expressions.functions import FUNCTIONS
from dpsql.planner.functions import aggregates_listed
from tests.notes.pages import NOTES


def test_the_table_of_functions_is_that_of_the_records() -> None:
    page = (NOTES / "expressions" / "functions.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    shown = sorted(FUNCTIONS, key=lambda function: function.name)
    escaped = [(f.example.replace("|", "\\|"), f.gives, ", ".join(n.upper() for n in f.names[1:])) for f in shown]
    assert rows == [f"| `{example}` | {gives} | {also} |".replace("|  |", "| |") for example, gives, also in escaped]


def test_the_table_of_aggregates_is_that_of_the_records() -> None:
    page = (NOTES / "aggregates" / "list.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    shown = [(call, gives.partition(";")[0], also.upper()) for _, call, gives, also in aggregates_listed()]
    assert rows == [f"| `{call}` | {gives} | {also} |".replace("|  |", "| |") for call, gives, also in shown]
