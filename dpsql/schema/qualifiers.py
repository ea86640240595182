"""The words before a table's name that name nothing else: `main.person`, `public.person`, `clinic.person`, `clinic.main.person`."""

from __future__ import annotations

from dpsql.schema.model import Schema, Table

MAIN = "main"
"""The SQL schema of the declared tables, and the one that is meant where none is named."""
SAME = (MAIN, "public")
"""SQL schemas that hold the declared tables; other systems call it public."""


def holds_tables(schema: Schema, *words: str) -> bool:
    """True if these words before a name mean the declared tables; "" stands for none. SQL names do not depend on case."""
    match [word.lower() for word in words if word]:
        case []:
            return True
        case [one]:
            return one in SAME or one == schema.name.lower()
        case [catalog, one]:
            return catalog == schema.name.lower() and one in SAME
    return False


def table(schema: Schema, *parts: str) -> Table | None:
    """The declared table that a name of one to three parts means; a part may be ""."""
    *words, name = parts
    return schema.table(name) if holds_tables(schema, *words) else None
