"""The table of functions and extreme values, and ordinary statements: each equal on every engine, or refused there by name."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from unittest.mock import patch

import duckdb

from dpsql.schema.model import Schema
from tests.engines import conformance
from tests.semantics.test_statements import STATEMENTS
from tests.support import extremes as every
from tests.support.functions import templates

OPERATORS = (
    *(f"{{0}} {operator} {{1}}" for operator in ("+", "-", "*", "/", "//", "%", "=", "<", "<=", "<>")),
    "-{0}",
    "{0} IS NULL",
    "{0} IS NOT DISTINCT FROM {1}",
    "{0} BETWEEN {1} AND {0}",
    "{0} IN ({1}, {0})",
    "COALESCE({0}, {1})",
    "NULLIF({0}, {1})",
    "LEAST({0}, {1})",
    "GREATEST({0}, {1})",
    "CASE WHEN {0} = {1} THEN {0} ELSE {1} END",
    *(
        f"CAST({{0}} AS {sqltype})"
        for sqltype in ("INTEGER", "BIGINT", "HUGEINT", "DOUBLE", "DECIMAL(10,3)", "VARCHAR", "BOOLEAN")
    ),
    *(f"CAST({{0}} AS {sqltype})" for sqltype in ("DATE", "TIMESTAMP", "UTINYINT", "UBIGINT", "FLOAT")),
    "{0} * 0.1",
    "{0} * 3",
    "{0} // 7",
    "{0} % 7",
    "{0} / 4",
    "CAST({0} AS DOUBLE) * 1e-200",
    "CAST({0} AS DOUBLE) / 1e200",
)

WIDE = (
    "SELECT COUNT(*) FROM extreme WHERE ABS(l_decimal_38_0) > 7",
    "SELECT COUNT(*) FROM extreme WHERE ABS(l_decimal_38_10) = l_decimal_38_10",
    "SELECT COUNT(*) FROM extreme WHERE ABS(l_hugeint) = l_hugeint",
    "SELECT COUNT(*) FROM extreme WHERE -(-l_decimal_38_0) = l_decimal_38_0",
    "SELECT COUNT(*) FROM extreme WHERE -l_hugeint < 7",
)
"""Signs of numbers of many digits: Spark rounds them to 34, and raises where these are too many."""


def semantics() -> list[str]:
    """Statements of every construct."""
    return [sql for sql in STATEMENTS if isinstance(sql, str)]


def schema(folder: Path, outside: tuple[str, ...]) -> Schema:
    """The table of extremes, of what an engine can store: no value with such parts."""
    kept = {
        sqltype: [value for value in values if not any(part in value for part in outside)]
        for sqltype, values in every.VALUES.items()
    }
    with patch.dict(every.VALUES, kept), closing(duckdb.connect(str(folder / "extremes.duckdb"))) as connection:
        every.fill(connection)
    return every.schema(folder)


def asked(absent: tuple[str, ...], chance: random.Random | None = None, count: int = 0) -> list[str]:
    """Statements over every function and operator with columns of every type but absent ones; `count` of them by chance where it is
    given."""
    found = []
    for template in (*OPERATORS, *templates()):
        for left in (sqltype for sqltype in every.TYPES if sqltype not in absent):
            for right in (left, "BIGINT", "DOUBLE", "DECIMAL(4,2)") if "{1}" in template else (left,):
                text = template.format(every.column("l", left), every.column("r", right))
                found.append(f"SELECT COUNT({text}), COUNT(*) FROM extreme WHERE ({text}) IS NOT NULL")
                found.append(
                    f"SELECT SUM(CAST({text} AS BIGINT)) FROM extreme WHERE CAST({text} AS BIGINT) BETWEEN -9 AND 9"
                )
    return [*WIDE, *(found if chance is None else chance.sample(found, count))]


def extremes(url: str, chance: random.Random | None = None, count: int = 0) -> Iterator[tuple[str, str]]:
    """The outcome of each."""
    kind = conformance.server_of(url)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dpsql-extremes-"))
        opened = stack.enter_context(conformance.both(schema(Path(folder), kind.OUTSIDE), url, "extremes"))
        for sql in asked(kind.ABSENT, chance, count):
            yield sql, opened.ask(sql)
