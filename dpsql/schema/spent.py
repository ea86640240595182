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

TABLES: dict[str, tuple[tuple[str, SqlType], ...]] = {
    "budget": (
        ("holder", VARCHAR),
        ("accounting", VARCHAR),
        ("window", VARCHAR),
        ("epsilon", DOUBLE),
        ("delta", DOUBLE),
        ("spent_epsilon", DOUBLE),
        ("spent_delta", DOUBLE),
        ("spent_rho", DOUBLE),
        ("remaining_epsilon", DOUBLE),
        ("remaining_delta", DOUBLE),
        ("statements_left", BIGINT),
        ("refreshes_left", BIGINT),
    ),
    "ledger": (
        ("id", BIGINT),
        ("time", TIMESTAMP),
        ("analyst", VARCHAR),
        ("role", VARCHAR),
        ("epsilon", DOUBLE),
        ("delta", DOUBLE),
        ("rho", DOUBLE),
        ("releases", BIGINT),
        ("statement", VARCHAR),
        ("version", VARCHAR),
    ),
    "analysts": (
        ("analyst", VARCHAR),
        ("role", VARCHAR),
        ("epsilon", DOUBLE),
        ("delta", DOUBLE),
        ("spent_epsilon", DOUBLE),
        ("spent_delta", DOUBLE),
        ("spent_rho", DOUBLE),
        ("charges", BIGINT),
        ("remaining_epsilon", DOUBLE),
    ),
    "guard": (("id", BIGINT), ("people", BIGINT), ("about", VARCHAR), ("statement", VARCHAR)),
    "versions": (("table_name", VARCHAR), ("version", VARCHAR), ("approved", TIMESTAMP), ("period", VARCHAR)),
    CUBES: (
        ("name", VARCHAR),
        ("keys", VARCHAR),
        ("numbers", VARCHAR),
        ("ways", BIGINT),
        ("cells", BIGINT),
        ("epsilon", DOUBLE),
        ("delta", DOUBLE),
        ("rho", DOUBLE),
        ("error", DOUBLE),
        ("made", TIMESTAMP),
        ("current", BOOLEAN),
    ),
    MODELS: (
        ("name", VARCHAR),
        ("type", VARCHAR),
        ("label", VARCHAR),
        ("features", VARCHAR),
        ("epsilon", DOUBLE),
        ("delta", DOUBLE),
        ("rho", DOUBLE),
        ("made", TIMESTAMP),
        ("current", BOOLEAN),
    ),
    RANDOMIZED: (
        ("name", VARCHAR),
        ("column_name", VARCHAR),
        ("list_size", BIGINT),
        ("reports", BIGINT),
        ("epsilon", DOUBLE),
        ("made", TIMESTAMP),
        ("current", BOOLEAN),
    ),
    SYNTHETIC: (
        ("name", VARCHAR),
        ("cube", VARCHAR),
        ("columns", VARCHAR),
        ("rows", BIGINT),
        ("noise", DOUBLE),
        ("fit", DOUBLE),
        ("made", TIMESTAMP),
        ("current", BOOLEAN),
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
