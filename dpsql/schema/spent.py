"""The tables that show what was spent, what the guard remembers, which versions of the data are asked, and what is kept under names:
dpsql.budget, dpsql.ledger, dpsql.analysts, dpsql.guard, dpsql.versions, dpsql.cubes, dpsql.models, dpsql.randomized_tables and
dpsql.synthetic_tables; and the rows of synthetic tables, each under its own name in `synthetic`. Any statement may read them, free."""

from __future__ import annotations

from dpsql.core.sqltypes import BIGINT, BOOLEAN, DOUBLE, TIMESTAMP, VARCHAR, SqlType

SCHEMA = "dpsql"
"""The SQL schema that they are in; declared tables are in main."""

CUBES = "cubes"
MODELS = "models"
RANDOMIZED = "randomized_tables"
SYNTHETIC = "synthetic_tables"

ROWS = "synthetic"
"""The SQL schema that the rows of synthetic tables are in."""
IS_SYNTHETIC = "synthetic: these rows are nobody's, and how three and more columns go together is not kept"
"""Note of what is made of such rows."""

_Columns = tuple[tuple[str, SqlType], ...]


def _of(sqltype: SqlType, *names: str) -> _Columns:
    """_Columns of one type."""
    return tuple((name, sqltype) for name in names)


_PRICE = _of(DOUBLE, "epsilon", "delta", "rho")
_SPENT = _of(DOUBLE, "epsilon", "delta", "spent_epsilon", "spent_delta", "spent_rho")
_MADE = (("made", TIMESTAMP), ("current", BOOLEAN))
TABLES: dict[str, _Columns] = {
    "budget": (
        *_of(VARCHAR, "holder", "accounting", "window"),
        *_SPENT,
        *_of(DOUBLE, "remaining_epsilon", "remaining_delta"),
        *_of(BIGINT, "statements_left", "refreshes_left"),
    ),
    "ledger": (
        ("id", BIGINT),
        ("time", TIMESTAMP),
        *_of(VARCHAR, "analyst", "role"),
        *_PRICE,
        ("releases", BIGINT),
        *_of(VARCHAR, "statement", "version"),
    ),
    "analysts": (*_of(VARCHAR, "analyst", "role"), *_SPENT, ("charges", BIGINT), ("remaining_epsilon", DOUBLE)),
    "guard": (*_of(BIGINT, "id", "people"), *_of(VARCHAR, "about", "statement")),
    "versions": (*_of(VARCHAR, "table_name", "version"), ("approved", TIMESTAMP), ("period", VARCHAR)),
    CUBES: (
        *_of(VARCHAR, "name", "keys", "numbers"),
        *_of(BIGINT, "ways", "cells"),
        *_PRICE,
        ("error", DOUBLE),
        *_MADE,
    ),
    MODELS: (*_of(VARCHAR, "name", "type", "label", "features"), *_PRICE, *_MADE),
    RANDOMIZED: (
        *_of(VARCHAR, "name", "column_name"),
        *_of(BIGINT, "list_size", "reports"),
        ("epsilon", DOUBLE),
        *_MADE,
    ),
    SYNTHETIC: (
        *_of(VARCHAR, "name", "cube", "columns"),
        ("rows", BIGINT),
        *_of(DOUBLE, "noise", "fit"),
        *_MADE,
    ),
}
"""Their columns. All may be NULL."""

SHOWN = {
    "BUDGET": "SELECT * FROM dpsql.budget",
    "PRIVACY BUDGET": "SELECT * FROM dpsql.budget",
    "LEDGER": "SELECT * FROM dpsql.ledger ORDER BY id",
    "ANALYSTS": "SELECT * FROM dpsql.analysts",
    "GUARD": "SELECT * FROM dpsql.guard ORDER BY id",
    "VERSIONS": "SELECT * FROM dpsql.versions",
    "CUBES": "SELECT * FROM dpsql.cubes ORDER BY name",
    "MODELS": "SELECT * FROM dpsql.models ORDER BY name",
    "RANDOMIZED TABLES": "SELECT * FROM dpsql.randomized_tables ORDER BY name",
    "SYNTHETIC TABLES": "SELECT * FROM dpsql.synthetic_tables ORDER BY name",
}
"""The statement that each SHOW stands for."""
NAMES = ("TABLES", "FUNCTIONS", *(name for name in SHOWN if name != "PRIVACY BUDGET"))
"""Words behind SHOW, each thing by one of its names."""


def is_one(schema: str, table: str) -> bool:
    """True if this names one of them; SQL names do not depend on case."""
    return schema.lower() == SCHEMA and table.lower() in TABLES


def is_synthetic(schema: str) -> bool:
    """True if this is the SQL schema of synthetic tables."""
    return schema.lower() == ROWS


def full_names() -> list[str]:
    return [f"{SCHEMA}.{table}" for table in TABLES]
