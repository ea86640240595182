"""The share of 95 % intervals of values read off stored answers that hold the exact value.

What is added up, divided or averaged has other noise than what is bought, so its intervals are counted here: of released cells that
are drawn around known ones, and of a whole session in which 1,000 groups are 1,000 draws. A setting fails where fewer hit than all
but 10^-6 of Binomial(draws, 0.94) would, or, where the intervals are not wide by construction, more than of Binomial(draws, 0.98).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy.stats import binom

from dpsql.aggregates.apart import AvgOfTwo
from dpsql.aggregates.avg import AvgOf, SumOfPair
from dpsql.aggregates.base import Estimate, Limits, ReleasedColumn
from dpsql.aggregates.count import CountOf
from dpsql.aggregates.forms import AvgOfForms, CountOfForm, SumOfForm
from dpsql.aggregates.formulas import BY_NAME
from dpsql.aggregates.joint import LAYOUTS, joint
from dpsql.aggregates.moments import Moments
from dpsql.aggregates.of_moments import CountOfMoments, OfMoments, SumOfMoments
from dpsql.aggregates.sum import SumOf
from dpsql.aggregates.term import Term
from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import BIGINT, DOUBLE
from dpsql.expressions.scalar import column as scalar_column
from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.side_by_side import SideBySide
from dpsql.mechanisms.summed import summed
from dpsql.session.result import Answer
from dpsql.session.session import Session
from dpsql.sql.nodes import Column
from tests.support.opened import data_of

LEVEL = Fraction(95, 100)
LEAST, MOST, CHANCE = 0.94, 0.98, 1e-6
DRAWS = 1500
Ints = Sequence[int]


def check(hits: int, draws: int, what: object, *, wide: bool = False) -> None:
    assert hits >= binom.ppf(CHANCE, draws, LEAST), f"{what}: {hits} of {draws}"
    assert wide or hits <= binom.isf(CHANCE, draws, MOST), f"{what}: {hits} of {draws}"


def hits(column: ReleasedColumn, exact: float) -> tuple[int, int]:
    """The number of known intervals that hold the exact value, and the number of them all."""
    known = [e for e in (column.intervals[i] for i in range(len(column.values))) if e is not None]
    return sum(low - 1e-9 <= exact <= high + 1e-9 for low, high in known), len(known)


def drawn(chance: np.random.Generator, noise: DiscreteLaplace | DiscreteGaussian, count: int = 1) -> np.ndarray:
    """Sums of `count` draws."""
    size = (DRAWS, count)
    if isinstance(noise, DiscreteGaussian):
        return np.rint(chance.normal(0.0, float(noise.sigma_squared) ** 0.5, size)).astype(np.int64).sum(axis=1)
    a = -np.expm1(-1 / float(noise.scale))
    return (chance.geometric(a, size) - chance.geometric(a, size)).sum(axis=1)


def term(lower: int, upper: int) -> Term:
    scalar = scalar_column(Column("t", "x"), BIGINT, UNBOUNDED)
    return Term(scalar, lower, upper, Fraction(1))


# --- added up -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Added:
    """An estimate, its exact cells and value, and the sensitivity that its noise is for."""

    estimate: Estimate
    cells: tuple[int, ...]
    exact: float
    weight: int


def added() -> dict[str, Added]:
    """Of 30,000 rows with values around 30 in [-20, 80], where it matters."""
    x = term(-20, 80)
    rows, total = 30_000, 900_000
    a, b = total + 20 * rows, 80 * rows - total
    y = term(0, 100)
    u = np.random.default_rng(2).integers(20, 60, rows)
    squares = (int(((100 - u) ** 2).sum()), int((2 * u * (100 - u)).sum()), int((u**2).sum()))
    return {
        "COUNT": Added(CountOf(1), (rows,), rows, 1),
        "SUM": Added(SumOf(Fraction(1), DOUBLE), (total,), total, 80),
        "COUNT of a pair": Added(CountOf(2, x.width), (a, b), rows, x.width),
        "SUM of a pair": Added(SumOfPair(x, DOUBLE), (a, b), total, x.width),
        **of_joint(x, y, rows, total),
        **of_two(x, y),
        **of_squares(y, u),
        "AVG": Added(AvgOf(x), (a, b), total / rows, x.width),
        "VAR_POP": Added(OfMoments(Moments((y,), (2,), None), BY_NAME["var_pop"]), squares, float(np.var(u)), 100**2),
    }


def of_joint(x: Term, y: Term, rows: int, total: int) -> dict[str, Added]:
    """Columns of vectors of both values, x in 28,000 of the rows; pairs for both, and centred cells beside one of rows."""
    found: dict[str, Added] = {}
    for name, layout in (("pairs", LAYOUTS[0]), ("centred", LAYOUTS[1])):
        one = joint([x, y], None, layout, 3)
        # y has no gaps; a scalar of which nothing is known says that there may be some
        one = replace(one, blocks=(replace(one.blocks[0], gaps=True), replace(one.blocks[1], gaps=False)))
        with_x, of_y = rows - 2000, 1_200_000
        cells = tuple(int(cell[0]) for cell in one.to_cells([[rows], [with_x], [total], [rows], [of_y]]))
        weight = one.sensitivity(Limits(1, 1)).linf
        wanted: dict[str, tuple[Estimate, float]] = {
            "COUNT": (CountOfForm(one.all_rows), rows),
            "COUNT of some": (CountOfForm(one.count_of(0)), with_x),
            "SUM": (SumOfForm(one.sum_of(0), Fraction(1), DOUBLE), total),
            "AVG": (AvgOfForms(one.sum_of(0), one.count_of(0), x), total / with_x),
            "AVG without gaps": (AvgOfForms(one.sum_of(1), one.count_of(1), y), of_y / rows),
        }
        found |= {
            f"{what} of {name}": Added(estimate, cells, exact, weight) for what, (estimate, exact) in wanted.items()
        }
    return found


def of_squares(y: Term, u: np.ndarray) -> dict[str, Added]:
    """Off a vector with squares of two values: a variance, and an average where it is in it; the other value has gaps."""
    found: dict[str, Added] = {}
    for i, layout in enumerate(layout for layout in LAYOUTS if layout.squares):
        one = joint([y, y], None, layout, 3, [y])
        one = replace(one, blocks=(replace(one.blocks[0], gaps=True), replace(one.blocks[1], gaps=False)))
        sums = [[len(u)], *([[len(part)], [int(part.sum())], [int((part**2).sum())]] for part in (u[:28_000], u))]
        cells = tuple(int(cell[0]) for cell in one.to_cells([sums[0], *sums[1], *sums[2]]))
        weight = one.sensitivity(Limits(1, 1)).linf
        held, forms = one.moments_of(y.scalar)
        estimate = OfMoments(held, BY_NAME["var_pop"], forms=forms)
        found[f"VAR_POP of squares {i}"] = Added(estimate, cells, float(np.var(u)), weight)
    return found


def of_two(x: Term, y: Term) -> dict[str, Added]:
    """Of one value, and of both, off the moments of two: x is there without y in 6,000 of 30,000 rows, y without x in 3,000."""
    moments, chance = Moments((x, y), (2, 2), None, with_rows=True, lone=True), np.random.default_rng(5)
    v = chance.integers(0, 101, 30_000)
    w = np.clip(v + chance.integers(-30, 31, 30_000), 0, 100)
    there = {(0, 1): slice(0, 20_000), (0,): slice(20_000, 26_000), (1,): slice(26_000, 29_000)}
    cells = []
    for powers in moments.places:
        known = tuple(i for i, power in enumerate(powers) if power is not None)
        rows, polynomial = there[known], np.full(30_000, 1, dtype=object)
        for power, p in zip(powers, (v, w), strict=True):
            p = p.astype(object)
            polynomial *= 100**2 if power is None else comb(2, power) * p**power * (100 - p) ** (2 - power)
        cells.append(int(polynomial[rows].sum()))
    of_x, of_y, both = np.r_[0:26_000], np.r_[0:20_000, 26_000:29_000], np.r_[0:20_000]
    wanted: dict[str, tuple[Estimate, float]] = {
        "COUNT": (CountOfMoments(moments, 0), 26_000),
        "COUNT(*)": (CountOfMoments(moments, None), 30_000),
        "SUM": (SumOfMoments(moments, 1, DOUBLE), float(w[of_y].sum())),
        "AVG": (OfMoments(moments, BY_NAME["avg"], (0,)), float(v[of_x].mean() - 20)),
        "VAR_POP": (OfMoments(moments, BY_NAME["var_pop"], (1,)), float(np.var(w[of_y]))),
        "COVAR_POP": (
            OfMoments(moments, BY_NAME["covar_pop"], (1, 0)),
            float(np.cov(v[both], w[both], bias=True)[0, 1]),
        ),
    }
    every = (*cells, 1000 * moments.weight)
    return {
        f"{what} of two": Added(estimate, every, exact, moments.weight) for what, (estimate, exact) in wanted.items()
    }


ADDED = added()


@pytest.mark.few(10)
@pytest.mark.parametrize("count", [2, 6, 50, 300])
@pytest.mark.parametrize("name", list(ADDED))
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_rule_41_intervals_of_what_is_added_up(kind: str, name: str, count: int) -> None:
    one, chance = ADDED[name], np.random.default_rng([count, len(name), kind == "gaussian"])
    wide = Fraction(20 * one.weight)
    single = DiscreteLaplace(wide) if kind == "laplace" else DiscreteGaussian(wide**2)
    noise = summed(single, count)
    assert noise is not None
    cells = [(cell + drawn(chance, single, count)).tolist() for cell in one.cells]
    found, known = hits(one.estimate.column(cells, noise, LEVEL), one.exact)
    assert known == DRAWS
    # a bound of the tail stands for more than 200 draws of Laplace noise; a weighted sum has half a quantum for each draw
    bounded = kind == "laplace" and count * len(one.cells) > 200
    check(found, known, (kind, name, count), wide=bounded or "VAR_POP" in name)


# --- a sum and a count apart --------------------------------------------------------------------------------------

NOISES: dict[str, tuple[Callable[[Fraction], AdditiveNoise], Callable[[Fraction], AdditiveNoise]]] = {
    "laplace": (DiscreteLaplace, DiscreteLaplace),
    "gaussian": (lambda b: DiscreteGaussian(b * b), lambda b: DiscreteGaussian(b * b)),
    "mixed": (lambda b: DiscreteGaussian(b * b), DiscreteLaplace),
    "mixed the other way": (DiscreteLaplace, lambda b: DiscreteGaussian(b * b)),
}
BOUNDS = [(0, 100, 50), (0, 100, 3), (0, 100, 97), (-50, 100, -20), (-50, 100, 0), (-100, -10, -40), (1000, 1100, 1050)]


def apart(
    kind: str, bounds: tuple[int, int, int], rows: int, sum_epsilon: Fraction, count_epsilon: Fraction
) -> tuple[int, int]:
    lower, upper, mean = bounds
    make_sum, make_count = NOISES[kind]
    first, second = make_sum(max(abs(lower), abs(upper)) / sum_epsilon), make_count(1 / count_epsilon)
    chance = np.random.default_rng([rows, mean + 100, len(kind)])
    cells = [(exact + drawn(chance, noise)).tolist() for exact, noise in ((mean * rows, first), (rows, second))]
    return hits(AvgOfTwo(term(lower, upper)).column(cells, SideBySide(first, second), LEVEL), mean)


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("kind", list(NOISES))
def test_rule_41_intervals_of_avg_from_a_sum_and_a_count(kind: str, bounds: tuple[int, int, int]) -> None:
    """With a count that is as exact as the sum, and with one that is ten times as exact."""
    for rows in (300, 5_000):
        for count_epsilon in (Fraction(1, 10), Fraction(1)):
            found, known = apart(kind, bounds, rows, Fraction(1, 10), count_epsilon)
            assert known == DRAWS
            check(found, known, (kind, bounds, rows, count_epsilon))


@pytest.mark.parametrize("bounds", BOUNDS[:3], ids=str)
@pytest.mark.parametrize("kind", ["laplace", "mixed"])
def test_rule_41_intervals_of_avg_from_a_sum_and_an_uncertain_count(kind: str, bounds: tuple[int, int, int]) -> None:
    """The sum was bought at a hundred times the price of the count, and there are few rows: Fieller's set reaches a bound."""
    found = [apart(kind, bounds, rows, Fraction(10), Fraction(1, 10)) for rows in (10, 30, 60)]
    check(sum(f for f, _ in found), sum(k for _, k in found), (kind, bounds), wide=True)


# --- a whole session ----------------------------------------------------------------------------------------------

GROUPS, CELLS = 1000, 6
DECLARED = f"""
[dataset]
name = "rows"
source = "rows.duckdb"
[guard]
mode = "off"
[privacy]
unit = "row"
epsilon = 1000000.0
delta = 0.1
accounting = "zcdp"
max_cells = 100000
query = {{ epsilon = 1.0, delta = 1e-6 }}
caps = {{ epsilon = 1000000.0, delta = 0.1 }}
[tables.t]
[tables.t.columns]
k = {{ type = "INTEGER", bounds = [0, {GROUPS - 1}] }}
j = {{ type = "INTEGER", bounds = [0, {CELLS - 1}] }}
x = {{ type = "DOUBLE", bounds = [-20, 80], step = 0.5 }}
"""
ROWS = (
    f"SELECT (i % {GROUPS})::INTEGER AS k, (i // {GROUPS} % {CELLS})::INTEGER AS j, (i * 7919 % 81) / 2.0 AS x "
    "FROM range(300000) AS r(i)"
)


@dataclass(slots=True)
class World:
    session: Session
    plain: duckdb.DuckDBPyConnection

    def ask(self, sql: str, epsilon: str, mechanism: str = "laplace") -> Answer:
        return self.session.execute(f"/* dpsql: epsilon={epsilon}, mechanism={mechanism} */ {sql}")

    def check(self, answer: Answer, sql: str, *, wide: bool = False) -> None:
        """The intervals of all columns but the first, which is the key."""
        exact = {row[0]: row for row in self.plain.execute(sql).fetchall()}
        assert len(exact) == len(answer.rows) == GROUPS
        for column in range(1, len(answer.columns)):
            cells = [(row[0], accuracy[column]) for row, accuracy in zip(answer.rows, answer.accuracy, strict=True)]
            inside = sum(a is not None and a.low - 1e-6 <= float(exact[k][column]) <= a.high + 1e-6 for k, a in cells)
            check(inside, GROUPS, (sql, column), wide=wide)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows")
    (path / "schema.toml").write_text(DECLARED)
    with duckdb.connect(str(path / "rows.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS {ROWS}")
    return path


@pytest.fixture
def world(folder: Path) -> Iterator[World]:
    plain = duckdb.connect()
    plain.execute(f"CREATE TABLE t AS {ROWS}")
    opened = data_of(folder / "schema.toml").session()
    yield World(opened, plain)
    opened.close()


BY_K = "SELECT k, COUNT(*), SUM(x), AVG(x) FROM t GROUP BY k ORDER BY k"


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_rule_41_intervals_of_a_roll_up(world: World, mechanism: str) -> None:
    world.ask("SELECT k, j, COUNT(*), SUM(x), AVG(x) FROM t GROUP BY k, j", "0.5", mechanism)
    answer = world.ask(BY_K, "0.5", mechanism)
    assert answer.cached and answer.releases == 0
    world.check(answer, BY_K)


def test_rule_41_intervals_of_what_is_computed_of_a_roll_up(world: World) -> None:
    columns = "2 * COUNT(*), SUM(x) / 10 + COUNT(*), SUM(x) / COUNT(*)"
    world.ask("SELECT k, j, COUNT(*), SUM(x) FROM t GROUP BY k, j", "0.5")
    sql = f"SELECT k, {columns} FROM t GROUP BY k ORDER BY k"
    answer = world.ask(sql, "0.5")
    assert answer.cached
    world.check(answer, sql)


def test_rule_41_intervals_of_avg_from_answers_apart(world: World) -> None:
    world.ask("SELECT k, SUM(x) FROM t GROUP BY k", "1", "gaussian")
    world.ask("SELECT k, COUNT(x) FROM t GROUP BY k", "0.7", "laplace")
    sql = "SELECT k, AVG(x), COUNT(x), SUM(x) FROM t GROUP BY k ORDER BY k"
    answer = world.ask(sql, "0.7", "laplace")
    assert answer.cached and answer.releases == 0
    world.check(answer, sql)


@pytest.mark.few(1)
@pytest.mark.parametrize("more", [("0.4", "0.5"), ("0.1", "0.9"), ("0.2", "0.3", "0.4", "0.8")])
def test_rule_42_intervals_of_what_was_topped_up(world: World, more: tuple[str, ...]) -> None:
    for epsilon in more:
        answer = world.ask(BY_K, epsilon, "gaussian")
        assert answer.releases == 1
        world.check(answer, BY_K)


def test_rule_42_a_topped_up_answer_is_as_exact_as_one_that_is_bought(world: World) -> None:
    """Their errors have one spread: with wrong weights the averages are further off."""
    sql = "SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY k"
    exact = dict(world.plain.execute(sql).fetchall())
    world.ask(sql, "0.1", "gaussian")
    sharpened = world.ask(sql, "0.3", "gaussian")
    spread = float(np.std([row[1] - exact[row[0]] for row in sharpened.rows]))  # type: ignore[operator]
    rho = 0.3 * np.tanh(0.15)
    assert spread == pytest.approx((1 / (2 * rho) + 1 / 12) ** 0.5, rel=0.12)
    total = world.session._world.ledger.spent().rho
    assert float(total) == pytest.approx(rho, rel=1e-9)


def test_the_types_of_what_is_read_off(world: World) -> None:
    world.ask("SELECT k, j, COUNT(*), SUM(x), AVG(x) FROM t GROUP BY k, j", "0.5")
    assert [sqltype for _, sqltype in world.ask(BY_K, "0.5").columns] == ["INTEGER", str(BIGINT), "DOUBLE", "DOUBLE"]
