"""Every function of the values of one row, a record each, by family."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.expressions.functions import (
    calendar,
    choices,
    documents,
    formats,
    lists,
    numbers,
    parts,
    patterns,
    text,
    zones,
)
from dpsql.expressions.functions.record import Function, Rule

FUNCTIONS: tuple[Function, ...] = (
    *choices.FUNCTIONS,
    *numbers.FUNCTIONS,
    *text.FUNCTIONS,
    *parts.FUNCTIONS,
    *patterns.FUNCTIONS,
    *documents.FUNCTIONS,
    *lists.FUNCTIONS,
    *calendar.FUNCTIONS,
    *formats.FUNCTIONS,
    *zones.FUNCTIONS,
)
BY_NAME: Mapping[str, Function] = {name: function for function in FUNCTIONS for name in function.names}
"""By each name that SQL has for it, in lower case."""
ENGINE: Mapping[str, Rule] = {name: rule for function in FUNCTIONS for name, rule in function.engine.items()}
"""Rules of the engine's functions that are printed."""
REFUSED: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("md5", "sha1", "sha256", "hash"),
        ("a hash stands for the very value that it is of", "group by the value, or by a part of it"),
    ),
    **dict.fromkeys(
        ("json_extract", "json_value", "json_query", "json_extract_path"),
        ("a part of a document is no value to compute with", "write JSON_EXTRACT_STRING(x, '$.key'), which is text"),
    ),
    **dict.fromkeys(
        ("string_split", "split", "str_split"),
        ("a list is no value to compute with", "keep what it lists as rows of a table, or write SPLIT_PART(x, '-', 1)"),
    ),
    "initcap": ("the engine has no such function", "write UPPER(LEFT(x, 1)) || LOWER(SUBSTRING(x, 2))"),
    "age": (
        "an interval of months and days is no number",
        "write EXTRACT(year FROM AGE(d, e)), or DATESUB('month', e, d)",
    ),
}
"""Functions that people look for, why they cannot be used, and what to write instead."""
