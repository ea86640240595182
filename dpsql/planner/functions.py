"""The query that SHOW FUNCTIONS runs."""

from __future__ import annotations

from dpsql.aggregates.registry import RECORDS
from dpsql.expressions.functions import FUNCTIONS


def listing() -> str:
    """Query that SHOW FUNCTIONS runs: every function, a call of it, what it gives, and its other names."""
    scalars = sorted(FUNCTIONS, key=lambda function: function.name)
    rows = [(f.name, f.example, f.gives, ", ".join(f.names[1:])) for f in scalars] + aggregates_listed()
    texts = (", ".join("'" + text.replace("'", "''") + "'" for text in row) for row in rows)
    return f"SELECT * FROM (VALUES {', '.join(f'({text})' for text in texts)}) AS functions(name, example, gives, also)"


def aggregates_listed() -> list[tuple[str, str, str, str]]:
    """Of every aggregate over people its name, a call, what that gives, and the other names of the same."""
    rows: list[tuple[str, str, str, str]] = []
    for record in RECORDS:
        for call, gives in record.calls.items():
            name = call.partition("(")[0].lower()
            if gives:
                rows.append((name, call, f"{gives}; over people, with noise", ""))
            else:
                *kept, also = rows[-1]
                rows[-1] = (kept[0], kept[1], kept[2], ", ".join(filter(None, (also, name))))
    return sorted(rows)
