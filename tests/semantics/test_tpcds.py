"""TPC-DS, without noise and with limits that bind nobody: no true row is lost, and no other is shown but groups that may be empty."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import duckdb
import pytest

from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import tpcds
from tests.support.noise import ZeroNoise

pytestmark = pytest.mark.slow
QUERIES = tpcds.queries()
SOME = 40
"""Of that many queries plain DuckDB's answer has rows, at least: of the others only that nothing is invented can be seen."""
MOST = 100
"""Of an answer's rows, in every query that has a LIMIT."""
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """The same data, asked both ways."""

    session: Session
    plain: duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    folder = tmp_path_factory.mktemp("tpcds")
    plain = tpcds.generate(folder, list(QUERIES.values()))
    schema = tpcds.schema(folder)
    # what is about few people, as all of this is, would not be shown
    unguarded = replace(schema, guard=replace(schema.guard, mode="off"))
    opened = Beside(open_session(unguarded, None, ":memory:", noise=ZeroNoise()), plain)
    yield opened
    opened.session.close()
    opened.plain.close()


@pytest.mark.parametrize("number", QUERIES)
def test_every_true_row_and_no_other(number: int, both: Beside) -> None:
    answer = both.session.execute(QUERIES[number])
    cursor = both.plain.execute(QUERIES[number])
    assert answer.columns == tuple((str(column[0]), str(column[1])) for column in cursor.description or ())
    expected = Counter(shown(row) for row in cursor.fetchall())
    found = Counter(shown(row) for row in answer.rows)
    if expected.total() == MOST:
        # which of equal rows are the last ones is the engine's
        every = both.plain.execute(QUERIES[number].removesuffix(f"LIMIT {MOST}")).fetchall()
        assert found.total() == MOST
        assert found - Counter(shown(row) for row in every) == Counter()
        return
    assert expected - found == Counter()
    noisy = [i for i, is_noisy in enumerate(answer.accuracy.noisy) if is_noisy]
    assert [row for row in found - expected if not noisy or any(row[i] is not None for i in noisy)] == []


def test_most_plain_answers_have_rows(both: Beside) -> None:
    assert len(QUERIES) >= 60
    asked = [both.plain.execute(text).fetchall() for text in QUERIES.values()]
    assert sum(any(any(cell is not None for cell in shown(row)) for row in rows) for rows in asked) >= SOME


def shown(row: Sequence[object]) -> Row:
    """A row for comparison: sums of nobody are 0 here and NULL there, ratios of them NULL here and infinite or NaN there (rule 55)."""
    return tuple(_cell(value) for value in row)


def _cell(value: object) -> object:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return value
    number = float(value)
    # what is read off a vector is worked out in floating point
    return None if abs(number) < 1e-9 or not math.isfinite(number) else float(f"{number:.9g}")
