"""Sensitivities on small data, by trying everything: no unit changes a cost, a probability or a cell by more than is claimed.

Choices are asked twice: how far their costs move, and, from exact probabilities of everything that can be chosen, what they lose. Cells
and tallies come from the engine SQL, for every small way in which a unit can have rows: each unit has groups of its own, so one query
shows what each of them adds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from math import comb, log, prod
from pathlib import Path
from typing import get_args

import duckdb
import numpy as np
import pytest

from dpsql.aggregates.base import Limits
from dpsql.aggregates.extreme import Extreme
from dpsql.aggregates.grid import Grid
from dpsql.aggregates.histogram import Counts, OverHistogram, Terms
from dpsql.aggregates.mode import VALUE, ListedHistogram, Mode
from dpsql.aggregates.moments import Moments
from dpsql.aggregates.quantile import LEAST_SHARE, Quantile, cuts_around
from dpsql.aggregates.term import Term
from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import BIGINT
from dpsql.expressions.scalar import column
from dpsql.mechanisms.exact_choice import Integers, Kind
from dpsql.plan.compiled import CompiledRelease
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.toml import read_schema
from tests.support.noise import ZeroNoise
from tests.support.planning import compile_statement
from tests.support.trees import SECRET, X, name_of, told

BUCKETS = 4
MOST_ROWS = 4
UNIT = 3
KINDS: tuple[Kind, ...] = get_args(Kind)
EPSILON = Fraction(2)
ROUNDING = 1 + 1e-9
Values = tuple[int, ...]


def neighbours() -> Iterator[tuple[Values, Values]]:
    """Every small multiset of values, with up to three of them gone."""
    for size in range(MOST_ROWS + 1):
        for values in combinations_with_replacement(range(BUCKETS), size):
            for gone in range(1, min(UNIT, size) + 1):
                left = {tuple(values[i] for i in kept) for kept in _kept(size, size - gone)}
                yield from ((values, rest) for rest in sorted(left))


@cache
def _kept(size: int, left: int) -> tuple[tuple[int, ...], ...]:
    return tuple(c for c in combinations_with_replacement(range(size), left) if len(set(c)) == left)


PAIRS = list(neighbours())
GRID = Grid(Term(column(X, BIGINT, UNBOUNDED), 0, BUCKETS - 1, Fraction(1)), None)
LISTED = ListedHistogram(column(X, BIGINT, UNBOUNDED), VALUE, tuple(range(BUCKETS)), None)
QUANTILES = [Quantile(GRID, Fraction(q)) for q in ("1/2", "1/4", "9/10", "1/3", "0", "1")]


ALONE = Quantile(GRID, Fraction(1, 4), None)
"""Without an interval: all of its price is its choice's."""


def on(kind: Kind = "exponential", rows: int = UNIT) -> Terms:
    return Terms(Limits(rows, rows), EPSILON, kind)


class Asked(ZeroNoise):
    """The parts of each choice of a release."""

    def __init__(self) -> None:
        self.choices: list[tuple[list[int], list[int], Fraction]] = []

    def choose(self, costs: Integers, weights: Integers, rate: Fraction, kind: Kind) -> int:
        self.choices.append((costs.tolist(), weights.tolist(), rate))
        return super().choose(costs, weights, rate, kind)


def counts(values: Values) -> Counts:
    found = Counter(values)
    return Counts(list(found), list(found.values()), [])


@cache
def costs_of(tallied: OverHistogram, values: Values, terms: Terms) -> tuple[tuple[int, ...], Fraction]:
    """The cost of every candidate by itself in the first choice, and the rate."""
    asked = Asked()
    tallied.release([counts(values)], terms, asked)
    costs, weights, rate = asked.choices[0]
    assert sum(weights) == BUCKETS
    return tuple(cost for cost, weight in zip(costs, weights, strict=True) for _ in range(weight)), rate


@cache
def probabilities(costs: tuple[int, ...], rate: Fraction, kind: Kind) -> tuple[float, ...]:
    """Of each candidate: in closed form, or with a time at which each is looked at, uniform on (0, 1)."""
    least = min(costs)
    passes = [np.exp(-float(rate) * (cost - least)) for cost in costs]
    if kind == "exponential":
        return tuple(p / sum(passes) for p in passes)
    found = []
    for i, p in enumerate(passes):
        others = np.polynomial.Polynomial([1.0])
        for j, q in enumerate(passes):
            # at time t another one was looked at with probability t, and did not pass
            others *= np.polynomial.Polynomial([1.0, -q]) if j != i else 1.0
        found.append(p * float(others.integ()(1.0)))
    assert abs(sum(found) - 1) < 1e-12
    return tuple(found)


def test_costs_of_a_quantile_move_by_what_is_claimed_for_each_row() -> None:
    """max(a, b - a) a row, for the quantile a / b."""
    for tallied in QUANTILES:
        a, b = tallied.fraction.numerator, tallied.fraction.denominator
        moved = largest_moves(tallied)
        assert all(moved[r] <= r * max(a, b - a) for r in moved)
        assert moved[1] == max(a, b - a)


@pytest.mark.parametrize("largest", [True, False])
def test_costs_of_an_extreme_move_by_one_for_each_row(largest: bool) -> None:
    moved = largest_moves(Extreme(GRID, largest))
    assert all(moved[r] <= r for r in moved)
    assert moved[1] == 1


def largest_moves(tallied: OverHistogram) -> dict[int, int]:
    """By how many rows are gone: how far any cost moves at most."""
    found = dict.fromkeys(range(1, UNIT + 1), 0)
    # so steep that the offset of an extreme is within the data
    terms = Terms(Limits(1, 1), Fraction(6), "exponential")
    for values, rest in PAIRS:
        (one, _), (other, _) = costs_of(tallied, values, terms), costs_of(tallied, rest, terms)
        gone = len(values) - len(rest)
        found[gone] = max(found[gone], *(abs(x - y) for x, y in zip(one, other, strict=True)))
    return found


def test_scores_of_a_mode_fall_together() -> None:
    """A row more raises one score: relative to each other costs move by at most one for each row."""
    for values, rest in PAIRS:
        (one, _), (other, _) = costs_of(Mode(LISTED), values, on()), costs_of(Mode(LISTED), rest, on())
        moves = [x - y for x, y in zip(one, other, strict=True)]
        assert max(moves) - min(moves) <= len(values) - len(rest)
        assert [max(values.count(v) for v in range(BUCKETS)) - values.count(v) for v in range(BUCKETS)] == list(one)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("tallied", "share"),
    [
        *((q, 1 - LEAST_SHARE) for q in QUANTILES),
        (ALONE, 1),
        (Extreme(GRID, True), 1),
        (Extreme(GRID, False), 1),
        (Mode(LISTED), 1),
    ],
    ids=lambda part: told(part.identity)[:30] if not isinstance(part, Fraction | int) else str(part),
)
def test_a_choice_loses_its_share_for_each_row(tallied: OverHistogram, share: Fraction, kind: Kind) -> None:
    """Exactly: the largest ratio of two probabilities, over everything that can be chosen on every pair of neighbours."""
    terms = on(kind)
    for values, rest in PAIRS:
        promised = float(terms.per_row * share * (len(values) - len(rest))) * ROUNDING
        first, second = (probabilities(*costs_of(tallied, v, terms), kind) for v in (values, rest))
        assert max(abs(log(p / q)) for p, q in zip(first, second, strict=True)) <= promised


def test_a_rate_that_is_a_third_too_large_loses_more() -> None:
    """Of one row by a third more than promised: the check above has teeth where the loss is tight."""
    terms = on("permute_and_flip", 1)
    worst = 0.0
    for values, rest in PAIRS:
        if len(values) - len(rest) == 1:
            (one, rate), (other, _) = costs_of(Mode(LISTED), values, terms), costs_of(Mode(LISTED), rest, terms)
            pair = (probabilities(costs, rate * Fraction(13, 10), "permute_and_flip") for costs in (one, other))
            worst = max(worst, *(abs(log(p / q)) for p, q in zip(*pair, strict=True)))
    assert worst > float(EPSILON)


@pytest.mark.parametrize("kind", KINDS)
def test_the_most_common_values_lose_their_price_together(kind: Kind) -> None:
    """All ordered pairs of two values: the second choice is among those that are left."""
    terms = on(kind)
    rate = Mode(LISTED, 2).rate(terms)
    assert costs_of(Mode(LISTED, 2), (0,), terms)[1] == rate == terms.per_row / 2
    for values, rest in PAIRS:
        promised = float(terms.per_row * (len(values) - len(rest))) * ROUNDING
        first, second = (_pairs(v, rate, kind) for v in (values, rest))
        assert max(abs(log(first[pair] / second[pair])) for pair in first) <= promised


def _pairs(values: Values, rate: Fraction, kind: Kind) -> dict[tuple[int, int], float]:
    rows = [values.count(v) for v in range(BUCKETS)]
    found = {}
    for a, chance in enumerate(probabilities(tuple(max(rows) - n for n in rows), rate, kind)):
        left = [v for v in range(BUCKETS) if v != a]
        again = probabilities(tuple(max(rows) - rows[v] for v in left), rate, kind)
        found |= {(a, b): chance * p for b, p in zip(left, again, strict=True)}
    return found


def test_a_row_is_in_one_bin_of_an_interval() -> None:
    """Around every bucket the grid is cut into bins without overlap, and none is left out."""
    for buckets in (1, 2, 3, 7, 100, 65_537):
        for bucket in {0, 1, buckets // 2, buckets - 1} & set(range(buckets)):
            cuts = cuts_around(bucket, buckets).tolist()
            assert cuts == sorted(set(cuts)) and all(0 < cut < buckets for cut in cuts)
            assert bucket in (0, *cuts) and bucket + 1 in (*cuts, buckets)


# --- what one unit adds, by the engine ----------------------------------------------------------------------------

DECLARED = """
[dataset]
name = "visits"
source = "visits.duckdb"
[privacy]
unit = "person.person_id"
epsilon = 1000.0
delta = 0.1
query = {{ epsilon = 1.0, delta = 1e-2 }}
[tables.person]
key = ["person_id"]
[tables.person.columns]
person_id = {{ type = "BIGINT", role = "identifier" }}
[tables.visit]
references = {{ person_id = "person.person_id" }}
max_rows_per_unit = {rows}
max_groups_per_unit = {groups}
[tables.visit.columns]
person_id = {{ type = "BIGINT" }}
g = {{ type = "INTEGER", bounds = [0, {last}] }}
v = {{ type = "INTEGER", bounds = [-1, 3], nullable = true }}
w = {{ type = "DOUBLE", bounds = [0, 2], step = 0.5, nullable = true }}
c = {{ type = "VARCHAR", domain = ["a", "b"] }}
"""
ROW_VALUES: list[tuple[object, object, object]] = [
    (None, 1.0, "a"),
    (-1, 0.0, "a"),
    (3, 2.0, "b"),
    (1, None, "zz"),
    (99, float("nan"), "b"),
    (-99, 0.5, None),
]
"""(v, w, c): without a value, at the bounds, inside, beyond them, outside of the domain."""
Row = tuple[int, object, object, object]
MOST = 3
UNITS: list[tuple[Row, ...]] = [
    tuple((g, *values) for g, values in rows)
    for size in range(1, MOST + 1)
    for rows in combinations_with_replacement(list(product((0, 1), ROW_VALUES)), size)
]
"""Every way in which a unit can have up to three rows in two groups."""
LIMITS = [(1, 1), (2, 1), (2, 2), (3, 2), (5, 2)]


@dataclass(frozen=True)
class Engine:
    """All units at once, each in two groups of its own."""

    connection: duckdb.DuckDBPyConnection

    def found(self, sql: str) -> list[tuple[object, ...]]:
        return self.connection.execute(sql.replace(SECRET, "'secret'")).fetchall()


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE person (person_id BIGINT)")
    connection.execute("CREATE TABLE visit (person_id BIGINT, g INTEGER, v INTEGER, w DOUBLE, c VARCHAR)")
    rows = [(unit, 2 * unit + g, *rest) for unit, own in enumerate(UNITS) for g, *rest in own]
    connection.executemany("INSERT INTO person VALUES (?)", [[unit] for unit in range(len(UNITS))])
    connection.executemany("INSERT INTO visit VALUES (?, ?, ?, ?, ?)", [list(row) for row in rows])
    yield Engine(connection)
    connection.close()


def compiled(folder: Path, columns: str, rows: int, groups: int) -> CompiledRelease:
    path = folder / "visits.toml"
    path.write_text(DECLARED.format(rows=rows, groups=groups, last=2 * len(UNITS) - 1))
    sql = f"SELECT g, {columns} FROM visit GROUP BY g"
    (part,) = compile_statement(parse(sql), Options(), read_schema(path)).releases
    assert part.release.limited.limits == Limits(rows, groups)
    return part


def whole(cell: object) -> int:
    return cell if isinstance(cell, int) else int(str(cell))


MOMENTS = [
    "VAR_POP(v)",
    "COUNT(*), COUNT(v), SUM(v), AVG(v), STDDEV(v)",
    "VAR_SAMP(w) FILTER (WHERE c = 'a'), COUNT(*) FILTER (WHERE c = 'a')",
    "COVAR_POP(v, w)",
    "REGR_SLOPE(w, v)",
    "CORR(v, w)",
    "REGR_R2(v, w) FILTER (WHERE v > 0)",
    "CORR(v, w), STDDEV(v), AVG(w)",
    "COUNT(*), COVAR_POP(v, w), SUM(w), COUNT(v)",
    "REGR_SLOPE(w, v) FILTER (WHERE c = 'a'), VAR_POP(w) FILTER (WHERE c = 'a'), COUNT(*) FILTER (WHERE c = 'a')",
    "SKEWNESS(v)",
    "COUNT(*), KURTOSIS(w)",
    "KURTOSIS_POP(v) FILTER (WHERE c = 'a'), SKEWNESS(v) FILTER (WHERE c = 'a')",
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("rows", "groups"), LIMITS)
@pytest.mark.parametrize("columns", MOMENTS)
def test_a_unit_moves_moments_by_at_most_its_rows(
    columns: str, rows: int, groups: int, engine: Engine, tmp_path: Path
) -> None:
    """Over all groups together; no cell is negative, and a unit within the limits adds exactly the cells of its rows."""
    part = compiled(tmp_path, columns, rows, groups)
    (measure,) = part.release.measures
    moments = measure.statistic
    assert isinstance(moments, Moments)
    # a clamped value has the quanta of its bounds, and the power is that of the degrees
    widths = {"v": 4, "w": 4}
    names = [name_of(t.scalar) for t in moments.terms]
    weight = 1
    for name, degree in zip(names, moments.degrees, strict=True):
        weight *= widths[name] ** degree
    assert measure.sensitivity.l1 == rows * weight
    cells: dict[int, tuple[int, ...]] = {
        whole(key): tuple(whole(s) for s in sums) for key, *sums in engine.found(part.sql)
    }
    zero = (0,) * moments.cells
    for unit, own in enumerate(UNITS):
        mine = [cells.get(2 * unit + g, zero) for g in (0, 1)]
        assert min(min(mine[0]), min(mine[1])) >= 0
        assert sum(mine[0]) + sum(mine[1]) <= rows * weight
        assert sum(any(group) for group in mine) <= groups
        if len(own) <= rows and len({row[0] for row in own}) <= groups:
            assert mine == [by_definition(moments, columns, [r for r in own if r[0] == g]) for g in (0, 1)]


def by_definition(moments: Moments, columns: str, rows: Sequence[Row]) -> tuple[int, ...]:
    """The products of Bernstein polynomials, and the weight of each row without a value."""
    found = [0] * moments.cells
    for _, v, w, c in rows:
        if ("c = 'a'" in columns and c != "a") or ("v > 0" in columns and not (isinstance(v, int) and v > 0)):
            continue
        quanta = [_quanta(t, v, w) for t in moments.terms]
        if all(q is None for q in quanta) or (None in quanta and not moments.lone):
            found[-1] += moments.weight * moments.with_rows
            continue
        shares: list[dict[int | None, int]] = []
        for part, degree, q in zip(moments.terms, moments.degrees, quanta, strict=True):
            if q is None:
                shares.append({None: part.width**degree})
                continue
            p, rest = q - part.lower, part.upper - q
            shares.append({i: comb(degree, i) * p**i * rest ** (degree - i) for i in range(degree + 1)})
        for place in product(*shares):
            found[moments.places.index(place)] += prod(share[i] for share, i in zip(shares, place, strict=True))
    return tuple(found)


def _quanta(part: Term, v: object, w: object) -> int | None:
    """The clamped value in quanta; None for NULL and NaN."""
    value = v if name_of(part.scalar) == "v" else w
    if not isinstance(value, int | float) or value != value:
        return None
    return max(part.lower, min(part.upper, round(Fraction(value) / part.quantum)))


@pytest.mark.few(7)
@pytest.mark.parametrize(("rows", "groups"), LIMITS)
@pytest.mark.parametrize(
    "columns", ["MEDIAN(v)", "QUANTILE_CONT(w, 0.9)", "MAX(v) FILTER (WHERE w >= 0)", "MIN(w)", "MODE(c)"]
)
def test_a_unit_adds_at_most_its_rows_to_a_tally(
    columns: str, rows: int, groups: int, engine: Engine, tmp_path: Path
) -> None:
    """Over all groups together; all are values of the grid or of the list, and a unit within the limits adds all of its own."""
    part = compiled(tmp_path, columns, rows, groups)
    (chosen,) = part.release.chosen
    tally = chosen.over_histogram.histogram
    candidates = set(range(tally.buckets)) if isinstance(tally, Grid) else set(tally.values)  # type: ignore[attr-defined]
    found: dict[int, Counter[object]] = {}
    for key, value, n in engine.found(part.histograms[0].sql):
        if value is not None:
            found.setdefault(whole(key), Counter())[value] += whole(n)
    for unit, own in enumerate(UNITS):
        mine = [found.get(2 * unit + g, Counter()) for g in (0, 1)]
        assert sum(mine[0].values()) + sum(mine[1].values()) <= rows
        assert sum(bool(group) for group in mine) <= groups
        assert not isinstance(tally, Grid) or {*mine[0], *mine[1]} <= candidates
        if len(own) <= rows and len({row[0] for row in own}) <= groups:
            assert mine == [tallied_values(tally, columns, [r for r in own if r[0] == g]) for g in (0, 1)]


def tallied_values(tally: object, columns: str, rows: Sequence[Row]) -> Counter[object]:
    """Each row's clamped value above the lower bound, or what is listed."""
    found: Counter[object] = Counter()
    for _, v, w, c in rows:
        # DuckDB takes NaN for the largest number
        if "w >= 0" in columns and not (isinstance(w, float) and (w >= 0 or w != w)):
            continue
        value = _quanta(tally.term, v, w) if isinstance(tally, Grid) else c
        if value is not None:
            found[value - tally.term.lower if isinstance(tally, Grid) else value] += 1
    return found
