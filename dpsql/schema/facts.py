"""The names of what an owner's check can verify about one version of the data.

A verified fact only ever lets the engine skip a rewrite that is the identity on those bytes; plan, noise, price and EXPLAIN are those
of the rewrite (rule 35).
"""

from __future__ import annotations


def rows_fact(table: str) -> str:
    """No unit has more rows in the table than its declared max_rows_per_unit."""
    return f"rows {table!r}"


def unit_fact(table: str) -> str:
    """Every row of the table reaches a unit: no NULL on the path and no reference to a missing row."""
    return f"unit {table!r}"


def bounds_fact(table: str, column: str) -> str:
    """Every value of the column lies inside its declaration: finite, in its bounds or domain, NULL only where it is nullable."""
    return f"bounds {table!r} {column!r}"
