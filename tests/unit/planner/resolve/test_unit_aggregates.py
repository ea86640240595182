"""Aggregates that are exact within one unit, by GROUP BY and in windows: which declared bounds hold there, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.planner.options import Options
from dpsql.planner.parse import Query, parse
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from tests.support import clinic
from tests.support.planning import compile_statement

DECLARED = "bounds = [-3, 30], nullable = true"
TOTALS = "bounds = [-3, 30], unit_bounds = [4, 12], nullable = true"


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    """A unit's days are between 4 and 12 together."""
    path = tmp_path / "schema.toml"
    text = clinic.schema_text()
    assert DECLARED in text
    path.write_text(text.replace(DECLARED, TOTALS))
    return read_schema(path)


def bounds(schema: Schema, inner: str) -> tuple[Fraction, Fraction]:
    """Those that the sum of an aggregate within units is clamped to."""
    query = parse(f"SELECT SUM(s) FROM (SELECT patient_id, {inner})", ())
    assert isinstance(query, Query)
    (release,) = compile_statement(query, Options(), schema).releases
    (term,) = release.release.measures[0].statistic.terms
    return term.lower * term.quantum, term.upper * term.quantum


def test_a_group_has_the_total_that_is_declared(schema: Schema) -> None:
    assert bounds(schema, "SUM(days) AS s FROM visit GROUP BY patient_id") == (4, 12)


@pytest.mark.parametrize(
    "frame", ["", "ORDER BY visit_id", "ORDER BY visit_id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"]
)
def test_a_frame_is_a_part_of_a_group(schema: Schema, frame: str) -> None:
    """The rows of a frame are some of a unit's, and their sum may lie outside of what all of them add up to."""
    low, high = bounds(schema, f"SUM(days) OVER (PARTITION BY patient_id {frame}) AS s FROM visit")
    assert low < -3 and high > 30


def test_what_is_called_in_two_ways_is_one_aggregate(schema: Schema) -> None:
    for over in ("FROM visit GROUP BY patient_id", "OVER (PARTITION BY patient_id) AS s FROM visit"):
        name = "" if "OVER" in over else " AS s"
        assert bounds(schema, f"MEAN(days){name} {over}") == bounds(schema, f"AVG(days){name} {over}") == (-3, 30)
