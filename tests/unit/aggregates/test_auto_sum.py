"""dp_sum(x, bounds := 'auto'): which buckets there are, what one unit moves, and which clamp is chosen."""

from __future__ import annotations

import random
from fractions import Fraction
from math import ceil, log

import duckdb
import numpy as np
import pytest

from dpsql.aggregates.auto_sum import (
    MOST,
    STRAY,
    AutoSum,
    AutoSumOf,
    Magnitudes,
    clamped_sum,
    exponent_of,
    magnitudes,
    rows_by_size,
)
from dpsql.aggregates.base import Limits
from dpsql.aggregates.histogram import Counts, Terms
from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import BIGINT, DOUBLE, HUGEINT, SqlType, decimal
from dpsql.expressions.scalar import column
from dpsql.mechanisms.source import SystemNoise
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import own
from tests.support.noise import RecordedNoise, ZeroNoise
from tests.support.trees import X


def tally(sqltype: SqlType = BIGINT, step: Fraction | None = None) -> Magnitudes:
    return magnitudes(column(X, sqltype, UNBOUNDED, step=step), None)


def terms(epsilon: Fraction = Fraction(1), rows: int = 1) -> Terms:
    return Terms(Limits(rows, rows), epsilon, "permute_and_flip")


def counted(values: list[int]) -> Counts:
    """The number that the engine makes of some values in quanta."""
    found: dict[int, list[int]] = {}
    for v in values:
        code = abs(v).bit_length() * (1 if v > 0 else -1)
        cell = found.setdefault(code, [0, 0])
        cell[0] += 1
        cell[1] += v
    return Counts(list(found), [n for n, _ in found.values()], [s for _, s in found.values()])


def of_engine(tally: Magnitudes, values: list[object], sqltype: str) -> Counts:
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t (x {sqltype})")
    # large integers as text: an older driver would make them DOUBLE
    given = [[str(v) if type(v) is int else v] for v in values]
    con.executemany(f"INSERT INTO t VALUES (CAST(? AS {sqltype}))", given)
    rows = con.execute(
        f"SELECT {printed(tally.bucket_of(own('v')))} AS b, count(*), CAST(sum(v) AS VARCHAR) "
        f"FROM (SELECT {printed(tally.value_of([X]))} AS v FROM t) AS valued WHERE v IS NOT NULL GROUP BY b"
    ).fetchall()
    return Counts([b for b, _, _ in rows], [n for _, n, _ in rows], [int(s) for _, _, s in rows])


def as_dict(counts: Counts) -> dict[object, tuple[int, int]]:
    return {v: (n, s) for v, n, s in zip(counts.values, counts.counts, counts.sums, strict=True)}


# --- the buckets --------------------------------------------------------------------------------------------------


def test_the_engine_finds_the_bucket_of_every_power_of_two_and_its_neighbours() -> None:
    edges = [sign * (2**j + d) for j in range(56) for d in (-1, 0, 1) for sign in (1, -1)] + [MOST, -MOST]
    assert as_dict(of_engine(tally(), list(edges), "BIGINT")) == as_dict(counted(edges))


def test_what_is_beyond_the_largest_counts_as_the_largest() -> None:
    extremes = [2**63 - 1, -(2**63), MOST + 1, 5]
    assert as_dict(of_engine(tally(), list(extremes), "BIGINT")) == as_dict(counted([MOST, -MOST, MOST, 5]))
    huge = [2**127 - 1, -(2**127), 0]
    assert as_dict(of_engine(tally(HUGEINT), list(huge), "HUGEINT")) == as_dict(counted([MOST, -MOST, 0]))


def test_doubles_have_a_grid_a_cap_and_no_nan_or_infinity() -> None:
    values = [1.5, -0.25, 1e300, -1e300, float("nan"), float("inf"), float("-inf"), None, 5e-324, -0.0]
    grid = [3 * 2**15, -(2**14), MOST, -MOST, 0, 0]
    assert as_dict(of_engine(tally(DOUBLE), list(values), "DOUBLE")) == as_dict(counted(grid))
    stepped = tally(DOUBLE, Fraction(1, 2))
    assert as_dict(of_engine(stepped, [1.5, -7.2], "DOUBLE")) == as_dict(counted([3, -14]))
    enormous = tally(DOUBLE, Fraction(10) ** 300)
    assert as_dict(of_engine(enormous, [1.7e308, -2e300], "DOUBLE")) == as_dict(counted([170_000_000, -2]))


@pytest.mark.parametrize(
    ("width", "scale", "values", "quanta"),
    [
        (6, 2, ["-9999.99", "0.01", None], [-999_999, 1]),
        (38, 0, ["99999999999999999999999999999999999999", "-3"], [MOST, -3]),
        (18, 6, ["123456789012.123400", "-0.0002"], [1234567890121234, -2]),
        (38, 30, ["12345678.0", "-0.000000000000000001"], [1234567800000000, 0]),
        (38, 38, ["0.01", "-0.99"], [10**14, -99 * 10**14]),
    ],
)
def test_decimals_keep_as_many_digits_as_fit(width: int, scale: int, values: list[object], quanta: list[int]) -> None:
    sqltype = decimal(width, scale)
    assert as_dict(of_engine(tally(sqltype), values, str(sqltype))) == as_dict(counted(quanta))


@pytest.mark.parametrize(
    ("sqltype", "buckets"),
    [("TINYINT", 8), ("UTINYINT", 8), ("INTEGER", 32), ("BIGINT", 57), ("HUGEINT", 57), ("DOUBLE", 57)],
)
def test_which_buckets_there_are_follows_from_the_type(sqltype: str, buckets: int) -> None:
    assert tally(SqlType(sqltype)).buckets == buckets


# --- what one unit can change -------------------------------------------------------------------------------------


def test_a_unit_moves_the_counts_by_its_rows_and_every_clamped_sum_by_its_rows_times_the_clamp() -> None:
    chance = random.Random(5)
    for _ in range(400):
        size = chance.choice([3, 8, 50])
        others = [round(chance.gauss(0, size)) for _ in range(chance.randint(0, 6))]
        own = [round(chance.gauss(0, size)) for _ in range(chance.randint(1, 4))]
        without, with_unit = counted(others), counted(others + own)
        moved = [abs(a - b) for a, b in zip(rows_by_size(without, 9), rows_by_size(with_unit, 9), strict=True)]
        assert sum(moved) <= len(own)
        for exponent in range(9):
            t = 2**exponent
            assert clamped_sum(with_unit, exponent) == sum(max(-t, min(t, v)) for v in others + own)
            assert abs(clamped_sum(with_unit, exponent) - clamped_sum(without, exponent)) <= len(own) * t


def test_both_parts_together_cost_the_price() -> None:
    """K rows in all: the counts lose K / scale, the sum K clamp / scale."""
    auto, on = AutoSum(tally()), terms(Fraction(3, 10), rows=7)
    for exponent in (0, 10, 56):
        noise, grid = auto.summing(exponent, on)
        assert 7 / auto.counting(on).scale + Fraction(7 * 2**exponent, grid) / noise.scale == Fraction(3, 10)


def test_wide_noise_is_drawn_on_a_coarser_grid() -> None:
    auto, on = AutoSum(tally()), terms(Fraction(1, 1000))
    noise, grid = auto.summing(56, on)
    assert noise.scale <= 2**52 and grid == 2**15 and 2**56 % grid == 0
    counts = counted([MOST] * 10**6 + [3])
    sums, clamps = auto.release([counts], on, ZeroNoise())
    assert clamps == [MOST] and sums == [10**6 * MOST]


def test_every_bucket_gets_noise_and_the_sum_once() -> None:
    recorded = RecordedNoise()
    auto = AutoSum(tally())
    auto.release([counted([5] * 100), counted([]), counted([100] * 100)], terms(), recorded)
    assert recorded.drawn == [
        ("laplace", 5, 3 * 57),
        ("laplace", 8 * Fraction(5, 4), 1),
        ("laplace", 128 * Fraction(5, 4), 1),
    ]


# --- the choice ---------------------------------------------------------------------------------------------------


def test_a_group_in_which_nothing_stands_out_has_no_sum() -> None:
    auto, few = AutoSum(tally()), ceil(5 * log(57 / (2 * STRAY)))
    cells = auto.release([counted([]), counted([9] * (few - 1)), counted([9] * few)], terms(), ZeroNoise())
    column = AutoSumOf(auto, HUGEINT).column(cells, terms(), Fraction(95, 100))
    assert column.values == [None, None, str(9 * few)] and column.intervals[:2] == [None, None]


def test_the_clamp_covers_what_stands_out_and_no_stray_bucket() -> None:
    noisy = [0] * 57
    noisy[3], noisy[5], noisy[50] = 1000, 900, 30
    assert exponent_of(noisy, 5.0, 0.8) == 6
    noisy[6] = 11
    assert exponent_of(noisy, 5.0, 0.8) == 7
    assert exponent_of([0] * 57, 5.0, 0.8) is None


def test_a_few_large_values_are_clamped_where_their_noise_would_cost_more() -> None:
    noisy = [0] * 57
    noisy[10], noisy[30] = 10**6, 45
    assert exponent_of(noisy, 5.0, 0.8) == 31
    assert exponent_of(noisy, 5.0, 0.001) in range(11, 25)


def test_the_interval_is_that_of_the_chosen_clamp() -> None:
    auto, on = AutoSum(tally(DOUBLE)), terms()
    column = AutoSumOf(auto, DOUBLE).column([[3 * 2**16, 2**17], [2**16, 2**20]], on, Fraction(95, 100))
    widths = [high - low for low, high in column.intervals if (low, high)]  # type: ignore[misc]
    assert column.values == [3.0, 2.0] and widths[1] == pytest.approx(16 * widths[0], rel=1e-3)
    assert widths[0] == pytest.approx(2 * 1.25 * log(20), rel=1e-3)


@pytest.mark.parametrize(
    ("spread", "rows", "epsilon", "most"),
    [(2.0, 10_000, 1, 0.12), (1.0, 10_000, Fraction(1, 10), 0.06), (2.0, 10**6, 1, 0.02)],
)
def test_the_median_relative_error_on_lognormal_values(
    spread: float, rows: int, epsilon: Fraction, most: float
) -> None:
    """6.8 %, 1.3 % and 0.19 % are what the choice by the estimated error was measured to give."""
    values = np.random.default_rng(20).lognormal(3, spread, rows)
    quanta = np.rint(values * 2**16).astype(np.int64)
    codes = np.floor(np.log2(2.0 * quanta + 1)).astype(int)
    codes = codes[quanta > 0]
    sums = np.bincount(codes, weights=quanta[quanta > 0].astype(float))
    counts = Counts(list(range(len(sums))), np.bincount(codes).tolist(), [int(s) for s in sums])
    exact = sum(counts.sums)
    totals, clamps = AutoSum(tally(DOUBLE)).release([counts] * 200, terms(Fraction(epsilon)), SystemNoise())
    assert all(clamps)
    assert np.median([abs(t - exact) / exact for t in totals]) < most
