"""Public tables beside the clinic's own, for nested statements."""

from __future__ import annotations

from tests.support.clinic import DDL, listed

PUBLIC = """
[tables.place]
public = true
key = ["site"]
multiplicity = { region = 2 }

[tables.badge]
public = true
key = ["badge"]
"""
"""Public tables beside the clinic's own: columns that are no key, and texts that a cast or another collation would make equal."""

PUBLIC_ROWS: dict[str, tuple[tuple[tuple[str, str], ...], list[tuple[object, ...]]]] = {
    "drug": ((("drug", "INTEGER"), ("label", "VARCHAR")), [(1, "x"), (2, "y"), (5, None)]),
    "place": (
        (("site", "INTEGER"), ("region", "INTEGER"), ("town", "VARCHAR")),
        [(1, 1, "a"), (2, 1, "a"), (3, 2, "b"), (7, 2, None)],
    ),
    "badge": (
        (("badge", "VARCHAR"), ("grade", "INTEGER")),
        [("1", 1), ("01", 2), ("2", 2), ("02", 3), ("a", 1), ("A", 2), ("b", 3), ("B", 3)],
    ),
}
"""(columns, rows) of each public table; place.region repeats as declared, place.town and badge.grade without saying so."""

MORE_TABLES = "; ".join(
    f"CREATE TABLE {name} ({', '.join(f'{n} {t}' for n, t in columns)}); INSERT INTO {name} VALUES {listed(rows)}"
    for name, (columns, rows) in PUBLIC_ROWS.items()
    if name not in DDL
)
"""SQL that makes those which the clinic does not have."""
