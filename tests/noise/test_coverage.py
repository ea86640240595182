"""The share of 95 % intervals that hold the exact value of the clamped data, for every statistic, size and price.

Each setting draws 2,000 releases of one dataset. It fails where fewer hit than all but 10^-6 of Binomial(draws, 0.94) would, or, where
an upper limit applies, more than all but 10^-6 of Binomial(draws, 0.965): with true rates of 95 % the chance of either is below 10^-6
each, so with 300 columns false alarms are below 6 * 10^-4 in all. Of a setting that must fail less than 10^-9 passes.

The upper limit applies where noise is wider than 5 quanta (narrower has no half-width near 95 %), n * epsilon >= 100, and every
answer is shown: an interval that is given on the condition of being shown has to be wider. For quantiles and extremes it does not
apply, theirs are conservative by construction. What lies above it elsewhere is written out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy.stats import binom

from dpsql.aggregates.base import ReleasedColumn
from dpsql.aggregates.histogram import Counts
from dpsql.mechanisms.source import SystemNoise
from dpsql.plan.compiled import CompiledRelease
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.toml import read_schema
from tests.support.planning import compile_statement

LEVEL = Fraction(95, 100)
LEAST, MOST = 0.94, 0.965
CHANCE = 1e-6
DRAWS = 2_000
NOISE = SystemNoise()

DECLARED = """
[dataset]
name = "visits"
source = "visits.duckdb"
[privacy]
unit = "row"
epsilon = 1000.0
delta = 0.1
query = { epsilon = 1.0, delta = 1e-6 }
[tables.visits]
[tables.visits.columns]
x = { type = "DOUBLE", bounds = [0, 100], step = 0.1, nullable = true }
y = { type = "DOUBLE", bounds = [0, 100], step = 0.1 }
k = { type = "INTEGER", bounds = [0, 30] }
"""
CLAMPED = """
CREATE VIEW clamped AS SELECT
CASE WHEN x IS NOT NULL THEN greatest(0, least(100, x)) END AS x, greatest(0, least(100, y)) AS y, greatest(0, least(30, k)) AS k
FROM visits
"""
SIZES = (100, 1_000, 20_000)
ADDITIVE = (
    ("COUNT(*)",),
    ("COUNT(x)",),
    ("SUM(x)",),
    ("SUM(k)",),
    ("AVG(x)",),
    ("AVG(k)",),
    ("COUNT(*)", "COUNT(x)", "SUM(x)", "AVG(x)"),
    ("COUNT(*)", "COUNT(x)", "SUM(x)", "SUM(y)", "SUM(k)"),
    ("COUNT(*)", "AVG(x)", "AVG(y)", "AVG(k)", "SUM(k)"),
    ("AVG(k)", "AVG(x)"),
    ("VAR_POP(x)",),
    ("VAR_POP(k)",),
    ("STDDEV(x)",),
    ("COUNT(*)", "COUNT(x)", "SUM(x)", "AVG(x)", "VAR_SAMP(x)", "STDDEV_POP(x)"),
    ("COVAR_POP(x, y)",),
    ("CORR(x, y)",),
    ("REGR_SLOPE(y, x)",),
    ("REGR_INTERCEPT(y, x)", "REGR_R2(y, x)", "COVAR_SAMP(y, x)"),
    ("SKEWNESS(x)",),
    ("KURTOSIS_POP(x)", "KURTOSIS(x)"),
    ("GEOMEAN(GREATEST(x, 0.5))",),
)
CHOSEN = (
    ("MEDIAN(x)",),
    ("MEDIAN(k)",),
    ("QUANTILE_CONT(x, 0.9)",),
    ("QUANTILE_CONT(x, 0.01)",),
    ("MIN(x) FILTER (WHERE k >= 0)",),
    ("MAX(x) FILTER (WHERE k >= 0)",),
    ("MAX(k) FILTER (WHERE k >= 0)",),
)
PRICES = (("0.1", "laplace"), ("1", "laplace"), ("1", "gaussian"))
SETTINGS = [
    (columns, size, epsilon, mechanism)
    for columns in ADDITIVE + CHOSEN
    for size in SIZES
    for epsilon, mechanism in (PRICES if columns in ADDITIVE else PRICES[:2])
]


@cache
def rows(size: int) -> duckdb.DuckDBPyConnection:
    """Skewed values, some beyond their bounds, some without a value."""
    chance = np.random.default_rng(20_240_601)
    x = np.round(np.exp(chance.normal(2.5, 0.8, size)), 1)
    y = np.round(0.6 * x + np.exp(chance.normal(2.0, 0.8, size)), 1)
    k = chance.poisson(3, size)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits (x DOUBLE, y DOUBLE, k INTEGER)")
    values: list[Sequence[object]] = [[None if i % 17 == 3 else v for i, v in enumerate(x.tolist())]]
    connection.execute("INSERT INTO visits SELECT unnest(?), unnest(?), unnest(?)", [*values, y.tolist(), k.tolist()])
    connection.execute(CLAMPED)
    return connection


def compiled(folder: Path, columns: Sequence[str], epsilon: str, mechanism: str) -> CompiledRelease:
    path = folder / "visits.toml"
    path.write_text(DECLARED)
    sql = f"/* dpsql: epsilon={epsilon}, mechanism={mechanism} */ SELECT {', '.join(columns)} FROM visits"
    (found,) = compile_statement(parse(sql), Options(), read_schema(path)).releases
    return found


def released(
    part: CompiledRelease, connection: duckdb.DuckDBPyConnection, draws: int, wider: Fraction
) -> list[ReleasedColumn]:
    """The columns of many releases of the same rows; `wider` is by how much noise is wider than claimed."""
    asked = part.release
    found: dict[str, ReleasedColumn] = {}
    sums = connection.execute(part.sql).fetchone() if asked.measures else None
    start = 0
    for index, measure in enumerate(asked.measures):
        assert sums is not None
        own = [int(s) for s in sums[start : start + measure.statistic.sums]]
        start += measure.statistic.sums
        exact = measure.statistic.to_cells([[s] * draws for s in own])
        noise = iter(measure.noise.sample(NOISE, len(exact) * draws))
        cells = [[value + round(next(noise) * wider) for value in cell] for cell in exact]
        for output in asked.outputs:
            if output.measure == index:
                found[output.name] = output.estimate.column(cells, measure.noise, LEVEL)
    for index, part_of in enumerate(asked.chosen):
        tally = next(t for t in part.histograms if t.histogram.identity == part_of.over_histogram.histogram.identity)
        # rows without a value are in no bucket
        counted = [row for row in connection.execute(tally.sql).fetchall() if row[0] is not None]
        counts = Counts([value for value, _ in counted], [n for _, n in counted], [])
        cells = part_of.over_histogram.release([counts] * draws, part_of.terms, NOISE)
        for read in asked.read:
            if read.chosen == index:
                found[read.name] = read.reading.column(cells, part_of.terms, LEVEL)
    return [found[aggregate.name] for aggregate in asked.limited.block.aggregates]


@dataclass(frozen=True)
class Hits:
    """Of how many answers that are shown the interval holds the exact value."""

    shown: int
    hits: int
    draws: int

    @property
    def too_few(self) -> bool:
        return self.hits < binom.ppf(CHANCE, self.shown, LEAST)

    @property
    def too_many(self) -> bool:
        return self.hits > binom.ppf(1 - CHANCE, self.shown, MOST)

    def __str__(self) -> str:
        return f"{self.hits} of {self.shown} shown, of {self.draws}"


def hits(column: ReleasedColumn, exact: float) -> Hits:
    shown = [i for i, value in enumerate(column.values) if value is not None]
    ends = [column.intervals[i] for i in shown]
    # a sum of numbers in steps of 0.1 is not exactly one of them
    slack = 1e-9 * abs(exact)
    inside = sum(end is not None and end[0] - slack <= exact <= end[1] + slack for end in ends)
    return Hits(len(shown), inside, len(column.values))


def exact_values(columns: Sequence[str], size: int) -> list[float]:
    found = rows(size).execute(f"SELECT {', '.join(columns)} FROM clamped").fetchone()
    assert found is not None
    return [float(value) for value in found]


def narrow_noise(part: CompiledRelease) -> bool:
    """Tell whether some noise is so narrow that no half-width is near 95 %."""
    return any(measure.noise.half_width(LEVEL) <= 15 for measure in part.release.measures)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "size", "epsilon", "mechanism"),
    SETTINGS,
    ids=lambda part: part if isinstance(part, str) else str(part) if isinstance(part, int) else "+".join(part),
)
def test_intervals_hold_the_exact_value(
    columns: tuple[str, ...], size: int, epsilon: str, mechanism: str, tmp_path: Path
) -> None:
    part = compiled(tmp_path, columns, epsilon, mechanism)
    limited = columns in ADDITIVE and not narrow_noise(part) and size * Fraction(epsilon) >= 100
    found = released(part, rows(size), DRAWS, Fraction(1))
    for words, column, exact in zip(columns, found, exact_values(columns, size), strict=True):
        seen = hits(column, exact)
        setting = f"{words}, n = {size}, epsilon = {epsilon}, {mechanism}: {seen}"
        assert not seen.too_few, setting
        if limited and seen.shown == seen.draws:
            assert not seen.too_many, setting
        elif seen.too_many:
            sys.stdout.write(f"more than {MOST:.1%}: {setting}\n")


@pytest.mark.slow
@pytest.mark.parametrize("columns", [("COUNT(*)",), ("SUM(x)",), ("AVG(x)",), ("VAR_POP(x)",), ("CORR(x, y)",)])
def test_noise_that_is_wider_than_claimed_is_noticed(columns: tuple[str, ...], tmp_path: Path) -> None:
    """By 1.3: intervals that hold 95 % of the claimed noise hold about 90 % of it, 15 deviations below what must be."""
    part = compiled(tmp_path, columns, "0.1", "laplace")
    (column,) = released(part, rows(20_000), 10_000, Fraction(13, 10))
    (exact,) = exact_values(columns, 20_000)
    assert hits(column, exact).too_few


@pytest.mark.slow
def test_an_interval_that_is_too_wide_is_noticed(tmp_path: Path) -> None:
    part = compiled(tmp_path, ("AVG(x)",), "1", "laplace")
    (column,) = released(part, rows(1_000), 10_000, Fraction(10, 13))
    assert hits(column, exact_values(("AVG(x)",), 1_000)[0]).too_many


@pytest.mark.slow
@pytest.mark.parametrize("function", ["CORR(x, y)", "REGR_SLOPE(y, x)", "REGR_R2(y, x)"])
def test_what_barely_stands_out_of_the_noise_has_the_widest_interval(function: str, tmp_path: Path) -> None:
    """A quotient that noise alone made visible is wrong, so the few that are shown say that they know nothing.

    Measured over 20,000 draws: at most 12.8 % are shown and 0.7 % with a narrower interval; the bounds lie more than
    ten standard deviations of 10,000 draws above that.
    """
    draws = 10_000
    part = compiled(tmp_path, (function,), "1", "laplace")
    (column,) = released(part, rows(100), draws, Fraction(1))
    shown = [i for i, value in enumerate(column.values) if value is not None]
    assert len(shown) < 0.2 * draws
    widest = {"CORR(x, y)": (-1, 1), "REGR_SLOPE(y, x)": (-math.inf, math.inf), "REGR_R2(y, x)": (0, 1)}[function]
    assert sum(column.intervals[i] != widest for i in shown) < 0.02 * draws
