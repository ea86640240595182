"""The table of functions in the notes is what the records say."""

from __future__ import annotations

from dpsql.expressions.functions import FUNCTIONS
from tests.notes.pages import NOTES


def test_the_table_of_functions_is_that_of_the_records() -> None:
    page = (NOTES / "expressions" / "functions.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    shown = sorted(FUNCTIONS, key=lambda function: function.name)
    escaped = [(f.example.replace("|", "\\|"), f.gives, ", ".join(n.upper() for n in f.names[1:])) for f in shown]
    assert rows == [f"| `{example}` | {gives} | {also} |".replace("|  |", "| |") for example, gives, also in escaped]
