# mypy: disable-error-code="import-not-found"
"""Completions of the editor beside the catalog and Harlequin's own list of SQL words."""

from __future__ import annotations

from harlequin.autocomplete.completion import HarlequinCompletion

from dpsql.aggregates.registry import BY_SPELLING
from dpsql.expressions.functions import FUNCTIONS
from dpsql.planner.options import NAMES

KEYWORDS = """
    SELECT FROM WHERE GROUP BY HAVING QUALIFY ORDER LIMIT OFFSET DISTINCT WITH AS JOIN LEFT RIGHT FULL SEMI ANTI USING ON UNION
    INTERSECT EXCEPT ROLLUP CUBE GROUPING SETS PIVOT FILTER OVER PARTITION WINDOW EXPLAIN DESCRIBE SHOW TABLES FUNCTIONS BUDGET LEDGER
    ANALYSTS GUARD SET RESET BETWEEN IN LIKE IS NULL EXISTS CASE CAST"""
AGGREGATES = " ".join(BY_SPELLING)
INTERVALS = "dp_low dp_high"
WINDOWS = "ROW_NUMBER RANK DENSE_RANK PERCENT_RANK CUME_DIST NTILE LAG LEAD FIRST_VALUE LAST_VALUE NTH_VALUE"
SCALARS = " ".join(name for function in FUNCTIONS for name in function.names) + " CAST TRY_CAST EXTRACT WIDTH_BUCKET"
OF_KEYWORDS, OF_FUNCTIONS = 100, 1000  # Harlequin's own priorities; the lowest comes first


def completions() -> list[HarlequinCompletion]:
    """Words, functions and options that dpsql answers."""
    kinds = [
        (KEYWORDS, "kw", OF_KEYWORDS),
        (AGGREGATES, "agg", OF_FUNCTIONS - 2),
        (INTERVALS, "95 %", OF_FUNCTIONS - 2),
        (" ".join(f"dp_{name}" for name in NAMES), "SET", OF_FUNCTIONS - 1),
        (WINDOWS, "win", OF_FUNCTIONS),
        (SCALARS, "fn", OF_FUNCTIONS),
    ]
    return [
        HarlequinCompletion(label=word, type_label=kind, value=word, priority=priority)
        for words, kind, priority in kinds
        for word in words.lower().split()
    ]
