"""Releases of values themselves and of moments: statistic and rate, against exact probabilities and the promised loss.

The samplers are tested in test_choice.py and test_distribution.py. Here it is asked whether the costs, weights, rates and scales that
statistics hand to them are those of the definition, for units of one row and of three. 38 p-values, each refused below 10^-9, and 31
bounds, each wrong with a probability of at most 6 * 10^-9: false alarms below 3 * 10^-7 in all. A planted fault, a rate or a scale
that is off by 1.3, is missed with a probability below 10^-6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from math import ceil, exp, log
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
from dpsql.aggregates.quantile import LEAST_SHARE, Quantile
from dpsql.aggregates.term import Term
from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import BIGINT
from dpsql.expressions.scalar import column
from dpsql.mechanisms import exact_choice
from dpsql.mechanisms.exact_choice import Integers, Kind
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.lower_bound import eps_lower
from dpsql.mechanisms.source import SystemNoise
from dpsql.plan.compiled import CompiledRelease
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.toml import read_schema
from tests.noise.goodness import Above, laplace_above, p_value
from tests.support.noise import ZeroNoise
from tests.support.planning import compile_statement
from tests.support.trees import X

pytestmark = pytest.mark.slow
ALARM = 1e-9
RUNS = 100_000
CHOICES = 400_000
FIT = 100_000
FAULT = Fraction(13, 10)
KINDS: tuple[Kind, ...] = get_args(Kind)
NOISE = SystemNoise()
Rows = dict[int, int]
"""The number of rows of a group that have each value."""


def grid(buckets: int) -> Grid:
    return Grid(Term(column(X, BIGINT, UNBOUNDED), 0, buckets - 1, Fraction(1)), None)


def listed(values: int) -> ListedHistogram:
    return ListedHistogram(column(X, BIGINT, UNBOUNDED), VALUE, tuple(range(values)), None)


def terms(epsilon: Fraction, rows: int, kind: Kind) -> Terms:
    return Terms(Limits(rows, rows), epsilon, kind)


def counts(rows: Rows) -> Counts:
    return Counts(list(rows), list(rows.values()), [])


@dataclass(frozen=True)
class Choice:
    """The parts of one choice."""

    costs: Integers
    weights: Integers
    rate: Fraction
    kind: Kind

    def draws(self, runs: int) -> Integers:
        """Positions: what exact_choice.choose does, many times at once."""
        exact_choice._check(self.costs, self.weights, self.rate)
        heads = exact_choice._first_bits(runs * len(self.costs)).reshape(runs, -1)
        losses = self.costs - self.costs.min()
        low, high = exact_choice._intervals(heads, losses, self.weights, self.rate, self.kind)
        left = high > low.max(axis=1, keepdims=True)
        found = left.argmax(axis=1)
        for run in np.flatnonzero(left.sum(axis=1) > 1).tolist():
            contenders = [
                exact_choice._Contender(
                    i, int(self.weights[i]), self.rate * int(losses[i]), int(heads[run, i]), 63, self.kind
                )
                for i in np.flatnonzero(left[run]).tolist()
            ]
            found[run] = exact_choice._settled(contenders)
        return found


class Scripted(ZeroNoise):
    """The choices of a release that are made of `script`, and then of the first candidate, one after the other."""

    def __init__(self, *script: int) -> None:
        self.script = list(script)
        self.choices: list[Choice] = []

    def choose(self, costs: Integers, weights: Integers, rate: Fraction, kind: Kind) -> int:
        self.choices.append(Choice(costs.copy(), weights.copy(), rate, kind))
        return self.script.pop(0) if self.script else 0


def choice(tallied: OverHistogram, rows: Rows, on: Terms, *before: int) -> Choice:
    """The options of a release of one group once it has chosen the positions `before`."""
    scripted = Scripted(*before)
    tallied.release([counts(rows)], on, scripted)
    return scripted.choices[len(before)]


def pairs(mode: Mode, rows: Rows, on: Terms, runs: int) -> Integers:
    """The first two values, as one number, of many releases."""
    size = len(mode.histogram.values)
    first = choice(mode, rows, on).draws(runs)
    found = np.zeros_like(first)
    for a in range(size):
        own = np.flatnonzero(first == a)
        places = choice(mode, rows, on, a).draws(max(1, len(own)))[: len(own)]
        left = np.delete(np.arange(size), a)
        found[own] = size * a + left[places]
    return found


def runs_of(rows: Rows, buckets: int) -> list[range]:
    """The candidates in order: values that occur, and runs of those that do not."""
    found: list[range] = []
    for value in range(buckets):
        if value not in rows and found and found[-1].stop - 1 not in rows:
            found[-1] = range(found[-1].start, value + 1)
        else:
            found.append(range(value, value + 1))
    return found


def around(rows: Rows, value: int) -> tuple[int, int, int]:
    """The rows below a value, at it and above it."""
    below = sum(n for v, n in rows.items() if v < value)
    above = sum(n for v, n in rows.items() if v > value)
    return below, rows.get(value, 0), above


def quantile_cost(rows: Rows, value: int, q: Fraction) -> int:
    """b times how many ranks q n lies outside of the value's own ranks, for q = a / b."""
    below, here, above = around(rows, value)
    rank = q * (below + here + above)
    return int(max(Fraction(0), rank - below - here, below - rank) * q.denominator)


def extreme_cost(rows: Rows, value: int, largest: bool, t: int, buckets: int) -> int:
    """The number of ranks by which t lies outside of the value's own, t more rows being at the far end."""
    end = 0 if largest else buckets - 1
    below, here, above = around({**rows, end: rows.get(end, 0) + t}, value)
    beyond = above if largest else below
    return max(0, beyond - t, t - beyond - here)


def exponential(costs: Sequence[int], rate: float) -> list[float]:
    odds = [exp(-rate * (cost - min(costs))) for cost in costs]
    return [each / sum(odds) for each in odds]


def permute_and_flip(costs: Sequence[int], rate: float) -> list[float]:
    """From the definition: all orders, and the chance that the coins stop there."""
    accepted = [exp(-rate * (cost - min(costs))) for cost in costs]
    orders = list(permutations(range(len(costs))))
    found = [0.0] * len(costs)
    for order in orders:
        rest = 1.0
        for i in order:
            found[i] += rest * accepted[i] / len(orders)
            rest *= 1 - accepted[i]
    return found


EXACT: dict[Kind, Callable[[Sequence[int], float], list[float]]] = {
    "exponential": exponential,
    "permute_and_flip": permute_and_flip,
}


def above(probabilities: Sequence[float]) -> Above:
    return lambda m: float(sum(probabilities[max(m, 0) :]))


# --- the distribution of what is chosen ---------------------------------------------------------------------------

SMALL: Rows = {0: 2, 3: 4, 4: 1}
BUCKETS = 6
QUANTILES = [Fraction(1, 2), Fraction(9, 10), Fraction(1, 4)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("q", QUANTILES, ids=str)
def test_a_quantile_has_the_probabilities_of_the_definition(q: Fraction, units: int, kind: Kind) -> None:
    """Every bucket by itself: the runs of empty ones, and which of a run is taken, make no difference."""
    epsilon = Fraction(q.denominator, 2)
    on = terms(epsilon * units, units, kind)
    costs = [quantile_cost(SMALL, value, q) for value in range(BUCKETS)]
    rate = float(epsilon * (1 - LEAST_SHARE) / (2 * max(q.numerator, q.denominator - q.numerator)))
    found = buckets_of(Quantile(grid(BUCKETS), q), on, SMALL)
    assert p_value(found, above(EXACT[kind](costs, rate)), 1.0) > ALARM
    assert p_value(found, above(EXACT[kind](costs, rate / 1.3)), 1.0) < ALARM


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("largest", [True, False])
def test_an_extreme_has_the_probabilities_of_the_definition(largest: bool, units: int, kind: Kind) -> None:
    on = terms(Fraction(2), units, kind)
    rate = 2 / units / 2
    t = ceil(log(BUCKETS / 0.05) / rate)
    # the candidates are a few ranks apart, around the one with t rows beyond it
    rows = {1: 3 * units, 3: 2 * units, 4: t - units} if largest else {1: t - units, 2: 2 * units, 4: 3 * units}
    costs = [extreme_cost(rows, value, largest, t, BUCKETS) for value in range(BUCKETS)]
    found = buckets_of(Extreme(grid(BUCKETS), largest), on, rows)
    assert p_value(found, above(EXACT[kind](costs, rate)), 1.0) > ALARM
    assert p_value(found, above(EXACT[kind](costs, rate / 1.3)), 1.0) < ALARM


def buckets_of(tallied: Quantile | Extreme, on: Terms, rows: Rows) -> list[int]:
    """Buckets, each drawn as a release draws it: a candidate, and one of its run."""
    candidates = runs_of(rows if isinstance(tallied, Quantile) else _with_end(tallied, rows), BUCKETS)
    places = choice(tallied, rows, on).draws(FIT).tolist()
    return [candidates[i].start + NOISE.below(len(candidates[i])) for i in places]


def _with_end(extreme: Extreme, rows: Rows) -> Rows:
    end = 0 if extreme.largest else BUCKETS - 1
    return {**rows, end: rows.get(end, 0) + 1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [1, 3])
def test_a_mode_has_the_probabilities_of_the_definition(units: int, kind: Kind) -> None:
    on = terms(Fraction(1), units, kind)
    rows = {0: 2, 1: 5, 4: 3}
    costs = [5 - rows.get(value, 0) for value in range(5)]
    found = choice(Mode(listed(5)), rows, on).draws(FIT)
    assert p_value(found, above(EXACT[kind](costs, 1 / units)), 1.0) > ALARM
    assert p_value(found, above(EXACT[kind](costs, 1 / units / 1.3)), 1.0) < ALARM


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [1, 3])
def test_the_most_common_values_have_the_probabilities_of_the_definition(units: int, kind: Kind) -> None:
    """Two of four: the second among those that are left, each choice at half the price."""
    on = terms(Fraction(2), units, kind)
    rows = {0: 1, 1: 4, 3: 2}
    found = pairs(Mode(listed(4), 2), rows, on, FIT)
    assert p_value(found, above(in_turn(rows, 1 / units, kind)), 1.0) > ALARM
    assert p_value(found, above(in_turn(rows, 1 / units / 1.3, kind)), 1.0) < ALARM


def in_turn(rows: Rows, rate: float, kind: Kind) -> list[float]:
    """P(first = a, second = b) at 4 a + b."""
    found = [0.0] * 16
    for a, chance in enumerate(EXACT[kind]([4 - rows.get(v, 0) for v in range(4)], rate)):
        left = [v for v in range(4) if v != a]
        rest = EXACT[kind]([4 - rows.get(v, 0) for v in left], rate)
        for b, again in zip(left, rest, strict=True):
            found[4 * a + b] = chance * again
    return found


# --- the promise --------------------------------------------------------------------------------------------------


def loss_of_choice(tallied: OverHistogram, first: Rows, second: Rows, on: Terms) -> float:
    """A lower bound of what the first choice loses, by the runs of candidates that both databases have."""
    drawn = [choice(tallied, rows, on).draws(CHOICES) for rows in (first, second)]
    return eps_lower([drawn[0]], [drawn[1]], 0.0, ALARM)


STEEP = Fraction(3)
NEAR = {
    1: ({40: 2, 241: 1}, {40: 2}, 242),
    3: ({40: 4, 441: 3}, {40: 4}, 442),
}
"""Two runs of empty candidates, one far below the median, the other between it and the rows of one unit, that unit gone, the buckets.

The first is unlikely and its costs fall by as much as those of the second rise, which is nearly everything: the loss is nearly all that
is promised.
"""


def merged(rows: Rows, value: int) -> Rows:
    """The same rows, where a value without rows stays a candidate of its own: positions mean the same on both databases."""
    return {**rows, value: rows.get(value, 0)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [1, 3])
def test_a_quantile_keeps_its_epsilon(units: int, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one unit with as many rows as the limit; the interval has its own share of the price."""
    first, second, buckets = NEAR[units]
    median = Quantile(grid(buckets), Fraction(1, 2))
    on = terms(STEEP, units, kind)
    promised = float(STEEP * (1 - LEAST_SHARE))
    second = merged(second, buckets - 1)
    assert promised / 2 < loss_of_choice(median, first, second, on) <= promised
    original = Quantile.rate
    monkeypatch.setattr(Quantile, "rate", lambda self, on: original(self, on) * FAULT)
    assert loss_of_choice(median, first, second, on) > promised


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("units", [1, 3])
def test_an_extreme_keeps_its_epsilon(units: int, largest: bool, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, around the candidate with t rows beyond it."""
    on = terms(STEEP, units, kind)
    buckets = {1: 243, 3: 843}[units]
    t = Extreme(grid(buckets), largest).offset(on)
    beyond, below = t - units, 2 + 2 * units
    first, second = {42: below, buckets - 1: beyond}, {42: below, buckets - 1: beyond - units}
    if not largest:
        first, second = ({buckets - 1 - value: n for value, n in rows.items()} for rows in (first, second))
    extreme = Extreme(grid(buckets), largest)
    assert float(STEEP) / 2 < loss_of_choice(extreme, first, second, on) <= STEEP
    original = Extreme.rate
    monkeypatch.setattr(Extreme, "rate", lambda self, on: original(self, on) * FAULT)
    monkeypatch.setattr(Extreme, "offset", lambda self, on: t)
    assert loss_of_choice(extreme, first, second, on) > STEEP


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [1, 3])
def test_a_mode_keeps_its_epsilon(units: int, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit whose rows all have the most common value: what is chosen instead of it gains."""
    on = terms(STEEP, units, kind)
    first, second = {0: 2 * units, 1: 0}, {0: units, 1: 0}
    mode = Mode(listed(7))
    assert float(STEEP) / 2 < loss_of_choice(mode, first, second, on) <= STEEP
    original = Mode.rate
    monkeypatch.setattr(Mode, "rate", lambda self, on: original(self, on) * FAULT)
    assert loss_of_choice(mode, first, second, on) > STEEP


@pytest.mark.parametrize("kind", KINDS)
def test_the_most_common_values_together_keep_their_epsilon(kind: Kind) -> None:
    """Each choice at half the price: that neither is the one that most rows have gains from both."""
    on = terms(Fraction(1), 1, kind)
    drawn = [pairs(Mode(listed(7), 2), {0: most}, on, CHOICES) for most in (6, 5)]
    assert 0.3 < eps_lower([drawn[0]], [drawn[1]], 0.0, ALARM) <= 1


def test_a_quantile_with_its_interval_keeps_its_epsilon() -> None:
    """Everything that is released of a group at once: the value and both ends."""
    on = terms(STEEP, 1, "permute_and_flip")
    first, second = {2: 2, 9: 1}, {2: 2}
    median = Quantile(grid(10), Fraction(1, 2), STEEP)  # the most that an interval takes
    drawn = []
    for rows in (first, second):
        value, low, high = median.release([counts(rows)] * 8_000, on, Buffered())
        drawn.append(np.array([100 * v + 10 * a + b for v, a, b in zip(value, low, high, strict=True)]))
    assert 0.1 * float(STEEP) < eps_lower([drawn[0]], [drawn[1]], 0.0, ALARM) <= STEEP


class Buffered(SystemNoise):
    """The same draws, many at a time: short vectors take long."""

    def __init__(self) -> None:
        self.left: list[int] = []
        self.scale = Fraction(0)

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        if scale != self.scale or len(self.left) < size:
            self.scale, self.left = scale, super().laplace(scale, RUNS)
        found, self.left = self.left[:size], self.left[size:]
        return found


@pytest.mark.parametrize("units", [1, 3])
def test_the_bins_of_an_interval_keep_their_share_of_the_price(units: int) -> None:
    """A unit with all its rows in one bin."""
    on = terms(1 / LEAST_SHARE, units, "exponential")
    noise = Quantile(grid(10), Fraction(1, 2)).noise(on)

    def bound(drawn: DiscreteLaplace) -> float:
        one, other = (np.array(drawn.sample(NOISE, RUNS)) + rows for rows in (0, units))
        return eps_lower([one], [other], 0.0, ALARM)

    assert 0.5 < bound(noise) <= 1 < bound(DiscreteLaplace(noise.scale / FAULT))


# --- moments ------------------------------------------------------------------------------------------------------

DECLARED = """
[dataset]
name = "visits"
source = "visits.duckdb"
[privacy]
unit = "person.person_id"
epsilon = 1000.0
delta = 0.1
query = { epsilon = 1.0, delta = 1e-2 }
[tables.person]
key = ["person_id"]
[tables.person.columns]
person_id = { type = "BIGINT", role = "identifier" }
v = { type = "INTEGER", bounds = [-1, 3], nullable = true }
w = { type = "INTEGER", bounds = [0, 2] }
[tables.visit]
references = { person_id = "person.person_id" }
max_rows_per_unit = 3
[tables.visit.columns]
person_id = { type = "BIGINT" }
v = { type = "INTEGER", bounds = [-1, 3], nullable = true }
w = { type = "INTEGER", bounds = [0, 2] }
"""
MOMENTS = {
    "VAR_POP(v)": 4**2,
    "COUNT(*), COUNT(v), SUM(v), AVG(v), STDDEV(v)": 4**2,
    "COVAR_POP(v, w)": 4 * 2,
    "REGR_SLOPE(w, v)": 4**2 * 2,
    "CORR(v, w)": 4**2 * 2**2,
}
"""The amount by which one row moves all cells of each together, by the widths and degrees."""


def compiled(folder: Path, columns: str, table: str) -> CompiledRelease:
    path = folder / "visits.toml"
    path.write_text(DECLARED)
    sql = f"/* dpsql: epsilon=1 */ SELECT {columns} FROM {table}"
    (part,) = compile_statement(parse(sql), Options(), read_schema(path)).releases
    assert len(part.release.measures) == 1
    return part


def exact_cells(part: CompiledRelease, values: Sequence[tuple[int, int | None, int]]) -> list[int]:
    """The cells of some rows (person, v, w), by the engine SQL."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE person (person_id BIGINT, v INTEGER, w INTEGER)")
    connection.execute("CREATE TABLE visit (person_id BIGINT, v INTEGER, w INTEGER)")
    for row in values:
        connection.execute("INSERT INTO person VALUES (?, ?, ?)", list(row))
        connection.execute("INSERT INTO visit VALUES (?, ?, ?)", list(row))
    found = connection.execute(part.sql.replace("$cut", "'secret'")).fetchone()
    assert found is not None
    (measure,) = part.release.measures
    return [cell[0] for cell in measure.statistic.to_cells([[int(s)] for s in found])]


@pytest.mark.parametrize(("table", "units"), [("person", 1), ("visit", 3)])
@pytest.mark.parametrize("columns", MOMENTS)
def test_cells_of_moments_have_the_noise_of_their_weight(columns: str, table: str, units: int, tmp_path: Path) -> None:
    """At epsilon 1 its scale is the weight of a row, times the rows of a unit; 1.3 times less is noticed."""
    (measure,) = compiled(tmp_path, columns, table).release.measures
    assert isinstance(measure.statistic, Moments)
    drawn = measure.noise.sample(NOISE, RUNS)
    scale = float(MOMENTS[columns] * units)
    assert p_value(drawn, laplace_above(scale), scale) > ALARM
    assert p_value(drawn, laplace_above(scale * 1.3), scale) < ALARM


@pytest.mark.parametrize(("table", "units"), [("person", 1), ("visit", 3)])
@pytest.mark.parametrize("columns", MOMENTS)
def test_moments_keep_their_epsilon(columns: str, table: str, units: int, tmp_path: Path) -> None:
    """One person gone whose rows are all at the bounds, all in one cell: the loss is all that is promised."""
    part = compiled(tmp_path, columns, table)
    others: list[tuple[int, int | None, int]] = [(1, 0, 1), (2, 3, 2), (3, None, 0)]
    first, second = exact_cells(part, [*others, *[(4, -1, 0)] * units]), exact_cells(part, others)
    moved = np.sign(np.array(first) - np.array(second))
    (measure,) = part.release.measures

    def released(cells: list[int], wider: Fraction) -> Integers:
        noise = np.rint(np.array(measure.noise.sample(NOISE, RUNS * len(cells)), dtype=float) * float(wider))
        return (np.array(cells)[:, None] + noise.astype(np.int64).reshape(len(cells), RUNS)).T @ moved

    def bound(wider: Fraction) -> float:
        return eps_lower([released(first, wider)], [released(second, wider)], 0.0, ALARM)

    assert np.abs(moved).sum() == 1
    assert 0.5 < bound(Fraction(1)) <= 1 < bound(1 / FAULT)
