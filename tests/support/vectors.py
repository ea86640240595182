"""The exact cells that the engine gives for a release, group by group: what noise would be added to."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from dpsql.engines import base
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.tables import KeyValue, PublicTable
from dpsql.release.noisy import _sums as exact_sums
from tests.support import staging, tallies
from tests.support.trees import SECRET
from tests.support.violation import Violation

Key = tuple[KeyValue, ...]
Cells = dict[Key, tuple[int, ...]]
Vectors = list[Cells]
Part = tuple[str, CompiledRelease]
Tables = dict[str, PublicTable]
Sums = tuple[list[Key], list[list[int]]]


def whole(cell: object) -> int:
    """An exact sum as it crosses: an integer, or its digits."""
    return base.integers([cell])[0]


@dataclass(frozen=True, slots=True)
class Exact:
    """Everything exact of one release: the cells of its measures, and its tallies."""

    cells: Vectors
    tallies: list[tallies.Found]


def exact(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, sql: str) -> Exact:
    return Exact(vectors(connection, part, sql), tallies.tallies(connection, part, sql))


def vectors(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, sql: str) -> Vectors:
    """The exact cells of every measure, by key. The engine must not raise, whatever the data."""
    if not part.release.measures:
        return []
    keys, sums = _matched(connection, part, sql) if part.matchings else _summed(connection, part, sql)
    declared = [key.values for key in part.release.keys]
    for key in keys:
        for value, values in zip(key, declared, strict=True):
            if values is not None and value not in values:
                raise Violation(f"the undeclared key {value!r} came out of {sql}")
    found: Vectors = []
    start = 0
    for measure in part.release.measures:
        cells = measure.statistic.to_cells(sums[start : start + measure.statistic.sums])
        start += measure.statistic.sums
        found.append(dict(zip(keys, zip(*cells, strict=True), strict=True)))
    return found


def _summed(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, sql: str) -> Sums:
    problem = ""
    try:
        rows = connection.execute(part.sql.replace(SECRET, "'secret'")).fetchall()
    except duckdb.Error as raised:
        problem = str(raised)
    if problem:
        raise Violation(f"the engine raised on {sql}: {problem}\n{part.sql}")
    keys = [tuple(row[: part.key_columns]) for row in rows]
    return keys, [[whole(row[part.key_columns + i]) for row in rows] for i in range(part.sum_columns)]


def _matched(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, sql: str) -> Sums:
    """The same where distinct values are counted, which the release stage matches with units."""
    problem = ""
    found: staging.Exact | None = None
    try:
        found = staging.exact(connection, part, ())
    except duckdb.Error as raised:
        problem = str(raised)
    if found is None:
        raise Violation(f"the engine raised on {sql}: {problem}\n{part.texts}")
    keys, sums = exact_sums(part, found.sums, found.matchings)
    return list(zip(*keys, strict=True)) if keys else [()], [list(column) for column in sums]
