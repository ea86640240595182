"""Does one person change a statement's tallies by no more than its plan claims? Beside neighbours.py, which asks it of sums.

A tally says how many rows of each group have each value. One person may change `limits.rows` of these numbers in all, in at most
`limits.groups` groups, and what is chosen of a tally loses at most its price for that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import duckdb

from dpsql.aggregates.argmax import Scores
from dpsql.aggregates.base import Statistic
from dpsql.aggregates.grid import Grid
from dpsql.aggregates.histogram import Histogram
from dpsql.aggregates.mode import ListedHistogram
from dpsql.plan.compiled import CompiledHistogram, CompiledRelease
from dpsql.plan.tables import KeyValue
from tests.support.trees import SECRET, name_of, text
from tests.support.violation import Violation

Key = tuple[KeyValue, ...]
Found = dict[Key, Counter[object]]
"""The rows of each group with each value."""


def tallies(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, sql: str) -> list[Found]:
    """The exact tallies of a release, by key. The engine must not raise, and every value must be a candidate."""
    return [_tally(connection, part, tally, sql) for tally in part.histograms]


def _tally(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, tally: CompiledHistogram, sql: str) -> Found:
    problem = ""
    try:
        rows = connection.execute(tally.sql.replace(SECRET, "'secret'")).fetchall()
    except duckdb.Error as raised:
        problem = str(raised)
    if problem:
        raise Violation(f"the engine raised on {sql}: {problem}\n{tally.sql}")
    found: Found = {}
    if not tally.valued:
        start = part.key_columns
        return {tuple(row[:start]): Counter(dict(enumerate(map(int, row[start:])))) for row in rows}
    for row in rows:
        key, value, n = tuple(row[: part.key_columns]), row[part.key_columns], int(row[part.key_columns + 1])
        for own, declared in zip(key, part.release.keys, strict=True):
            if declared.values is not None and own not in declared.values:
                raise Violation(f"the undeclared key {own!r} came out of {sql}")
        # rows without a value are in no bucket
        if value is not None:
            _check_value(tally.histogram, value, sql)
            found.setdefault(key, Counter())[value] += n
    return found


def _check_value(tally: Histogram | Statistic, value: object, sql: str) -> None:
    if isinstance(tally, Grid) and not (isinstance(value, int) and 0 <= value < tally.buckets):
        raise Violation(f"{value!r} is no bucket of {tally.identity} in {sql}")
    if isinstance(tally, ListedHistogram) and type(value) is not type(tally.values[0]):
        raise Violation(f"{value!r} does not travel as the values of {tally.identity} in {sql}")


def compare(part: CompiledRelease, one: list[Found], other: list[Found], sql: str) -> None:
    """Raises Violation where one person moved a tally by more than the limits."""
    limits = part.release.limited.limits
    for tally, before, after in zip(part.histograms, one, other, strict=True):
        if isinstance(tally.histogram, Scores):
            _compare_scores(part, tally.histogram, before, after, sql)
            continue
        moves = []
        for key in {*before, *after}:
            first, second = before.get(key, Counter()), after.get(key, Counter())
            moves.append(sum(abs(first[value] - second[value]) for value in {*first, *second}))
        groups = sum(move > 0 for move in moves)
        if sum(moves) > limits.rows or groups > limits.groups:
            raise Violation(
                f"one person moved {tally.histogram.identity} by {sum(moves)} in {groups} groups, claimed {limits}, in {sql}"
            )


def _compare_scores(part: CompiledRelease, scores: Scores, before: Found, after: Found, sql: str) -> None:
    """Raises Violation where one person moved scores farther apart than what the choice is priced by, over all groups."""
    limits = part.release.limited.limits
    moved, apart = 0, 0
    for key in {*before, *after}:
        first, second = before.get(key, Counter()), after.get(key, Counter())
        changes = [first[i] - second[i] for i in range(scores.cells)]
        moved += any(changes)
        apart += max(changes) - min(changes)
    if apart > limits.rows * scores.spread or moved > limits.groups:
        raise Violation(
            f"one person moved scores by {apart} in {moved} groups, claimed {limits} of {scores.spread}, in {sql}"
        )


def check_choices(part: CompiledRelease, sql: str) -> None:
    """Check that a choice is made on the limits that are enforced; its loss: losses.py."""
    for chosen in part.release.chosen:
        if chosen.terms.limits != part.release.limited.limits:
            raise Violation(f"{chosen.name} is chosen on other limits than are enforced in {sql}")


def check_additive(part: CompiledRelease, alone: list[list[Found]], together: list[Found], sql: str) -> None:
    """The tally of a database is the sum of the tallies of its people alone."""
    for number, tally in enumerate(part.histograms):
        added: Found = {}
        for one in alone:
            for key, values in one[number].items():
                added.setdefault(key, Counter()).update(values)
        if added != together[number]:
            raise Violation(f"people's contributions to {tally.histogram.identity} depend on one another in {sql}")


def check_empty(part: CompiledRelease, found: list[Found], void: tuple[str, ...], sql: str) -> None:
    """Columns without a value are in no tally of themselves."""
    for tally, values in zip(part.histograms, found, strict=True):
        if isinstance(tally.histogram, Grid) and values:
            scalar = tally.histogram.term.scalar
            if name_of(scalar) in void:
                raise Violation(f"{text(scalar)} without a value is counted in {sql}")


def check_verified(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, sql: str) -> None:
    """On data that is as declared the shorter SQL gives the same tallies."""
    for tally in part.histograms:
        expected = _tally(connection, part, tally, sql)
        for short in tally.verified:
            if _tally(connection, part, replace(tally, sql=short.sql), sql) != expected:
                raise Violation(f"verified SQL is not the identity in {sql}: {short.sql}")
