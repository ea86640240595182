"""Releases as they are bought, and as they are where values share no vector; with the errors of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

from dpsql.aggregates.joint import Joint
from dpsql.plan.releases import Release
from dpsql.planner import measure
from dpsql.planner.buying import Calibrated, buy_one
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.planner.request import Parts, Request
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from tests.support.planning import compile_statement

NHEFS = read_schema(Path(__file__).parents[2] / "examples/nhefs/schema.toml")
SIX = ("age", "school_years", "weight_1971_kg", "cigarettes_per_day", "smoking_years", "cholesterol")
LEVEL = Fraction(95, 100)


def nhefs(accounting: str, units: int | None) -> Schema:
    return replace(NHEFS, privacy=replace(NHEFS.privacy, accounting=accounting, units=units))


def bought(sql: str, schema: Schema) -> Release:
    (found,) = compile_statement(parse(sql), Options(), schema).releases
    return found.release


def apart(sql: str, schema: Schema) -> Release:
    """The same where values share no vector."""

    def first(ways: Sequence[Parts], request: Request) -> tuple[int, Calibrated]:
        return buy_one(
            [way for way in ways if not any(_shares(way, place) for place in range(len(way.statistics)))], request
        )

    with patch.object(measure, "buy_one", first):
        return bought(sql, schema)


def _shares(way: Parts, place: int) -> bool:
    """True if a statistic is a vector of several values, or one of two values off which something of one of them is read."""
    statistic = way.statistics[place]
    alone = any(len(a.values) < len(statistic.terms) for a, read, _ in way.reads if read == place and a.values)
    return isinstance(statistic, Joint) or alone


def errors(asked: Release) -> dict[str, tuple[float, ...]]:
    """Half-widths; of averages at the lower bound, in the middle and at the upper bound, for one row."""
    found = {}
    for output in asked.outputs:
        noise = asked.measures[output.measure].noise
        width = output.estimate.half_width(noise, LEVEL)
        found[output.name] = (width,) if width is not None else output.estimate.errors(noise, LEVEL)
    return found
