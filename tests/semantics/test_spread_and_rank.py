"""Without noise, and inside every limit, moments are DuckDB's, and what is chosen of a tally lies where DuckDB's answer lies.

Moments of integers and decimals are exact. Of other values they are those of values on a grid with the quantum q, each off by at most
q / 2. So, with ranges r and standard deviations s,

    VAR    off by at most r q                   STDDEV     by q
    COVAR  by (r_x q_y + r_y q_x) / 2           CORR       by q_x / s_x + q_y / s_y, R2 by twice that
    slope  by (D cov + |slope| D var) / var     intercept  by q_y + |slope| q_x + |mean x| D slope

A quantile is any value that lies between the two values whose ranks enclose the one asked, or is one of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.aggregates.avg import AvgOf
from dpsql.aggregates.extreme import Extreme
from dpsql.aggregates.geomean import ExpOf
from dpsql.aggregates.grid import Grid
from dpsql.aggregates.moments import Moments
from dpsql.aggregates.registry import RECORDS
from dpsql.aggregates.term import Term
from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import DOUBLE, TIMESTAMP
from dpsql.expressions.scalar import column
from dpsql.expressions.temporal import DAY
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.plan.compiled import CompiledRelease
from dpsql.planner.parse import parse
from tests.semantics.plain import UNLIMITED, Beside, beside, described
from tests.semantics.test_statements import crowded
from tests.support import clinic
from tests.support.planning import compiled_by
from tests.support.trees import X, name_of

AT_ROW_LEVEL = (
    (clinic.ROW + clinic.PATIENT.replace('role = "identifier"', 'role = "measure"') + clinic.PUBLIC)
    .replace("epsilon = 1000000.0", "epsilon = 1e12")
    .replace("query = { epsilon = 1.0,", "query = { epsilon = 10000.0,")
)
MOMENTS_OF_TIME = ("born", "CAST(born AS TIMESTAMP)")
"""[days since 1970]"""
RANGES = {"income": 150.0, "weight": 160.0, "age": 80.0, "score": 80.0, "cost": 45.0, "days": 33.0}
RANGES |= dict.fromkeys(MOMENTS_OF_TIME, 3651.0)
LOWEST = {"income": -50.0, "weight": 40.0, "age": 10.0, "score": 10.0, "cost": 5.0, "days": -3.0}
LOWEST |= dict.fromkeys(MOMENTS_OF_TIME, 7305.0)
ON_A_GRID = ("income", "cost", "weight")
"""DOUBLE: rounded to a declared step, or to one that is fine enough."""


def with_gaps(data: clinic.Database, gap: float | None) -> clinic.Database:
    """Every seventh income, weight and cost is no number: NaN, or NULL."""
    patients = [
        (*row[:3], *((gap, gap) if i % 7 == 3 else row[3:5]), *row[5:]) for i, row in enumerate(data["patient"])
    ]
    visits = [(*row[:3], gap if i % 7 == 5 else row[3], *row[4:]) for i, row in enumerate(data["visit"])]
    return {**data, "patient": patients, "visit": visits}


@pytest.fixture(scope="module")
def by_person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    data = crowded(7)
    folder = tmp_path_factory.mktemp("by person")
    opened = beside(folder, with_gaps(data, clinic.NAN), text=UNLIMITED, plain=with_gaps(data, None))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def by_row(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    data = crowded(11)
    folder = tmp_path_factory.mktemp("by row")
    opened = beside(folder, with_gaps(data, clinic.NAN), text=AT_ROW_LEVEL, plain=with_gaps(data, None))
    yield opened
    opened.close()


def parts(both: Beside, sql: str) -> tuple[CompiledRelease, ...]:
    return compiled_by(both.session, parse(sql)).releases


# --- moments ------------------------------------------------------------------------------------------------------

OF_ONE = ("VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV_POP", "STDDEV_SAMP", "STDDEV")
OF_TWO = ("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2")
FILTERS = ("", " FILTER (WHERE female)", " FILTER (WHERE score > 50 OR site = 2)")


@dataclass(frozen=True)
class Pair:
    """Two columns, and how exact their moments are."""

    y: str
    x: str


def quanta(part: CompiledRelease) -> dict[str, float]:
    """The quantum of each column whose moments are released, 0 where values lie on it."""
    found: dict[str, float] = {}
    for measure in part.release.measures:
        assert isinstance(measure.statistic, Moments)
        for term in measure.statistic.terms:
            name = name_of(term.scalar)
            exact = term.is_integer or term.is_decimal
            found[name] = max(found.get(name, 0.0), 0.0 if exact else float(term.quantum))
    return found


@pytest.mark.few(5)
@pytest.mark.parametrize("where", ["", " WHERE site = 2", " WHERE age > 20 AND city IS NOT NULL"])
@pytest.mark.parametrize("condition", FILTERS)
@pytest.mark.parametrize("x", ["age", "weight", "score", "income"])
@pytest.mark.parametrize("level", ["by_person", "by_row"])
def test_moments_of_one_value(level: str, x: str, condition: str, where: str, request: pytest.FixtureRequest) -> None:
    both: Beside = request.getfixturevalue(level)
    sql = f"SELECT {', '.join(f'{function}({x}){condition}' for function in OF_ONE)} FROM patient{where}"
    answer, (expected,) = both.ask(sql), both.expect(sql)
    (part,) = parts(both, sql)
    q = quanta(part)[x]
    assert answer.columns == described(sql, ())
    assert (q > 0) == (x in ON_A_GRID)
    for function, found, value in zip(OF_ONE, answer.rows[0], expected, strict=True):
        allowed = q if function.startswith("STDDEV") else 2 * RANGES[x] * q
        assert near(found, value, allowed), (function, found, value)


SHAPES = ("SKEWNESS", "KURTOSIS", "KURTOSIS_POP")


@pytest.mark.few(5)
@pytest.mark.parametrize("where", ["", " WHERE site = 2", " WHERE age > 20 AND city IS NOT NULL"])
@pytest.mark.parametrize("condition", FILTERS)
@pytest.mark.parametrize("x", ["age", "score", "weight", "income"])
@pytest.mark.parametrize("level", ["by_person", "by_row"])
def test_shapes_of_one_value(level: str, x: str, condition: str, where: str, request: pytest.FixtureRequest) -> None:
    """Alone, and beside what needs fewer moments. A value that is off by q moves the third and the fourth standardised moment, which
    are sums of powers of (x - mean) / s, by at most 4 (r / s)^3 q / s and a little more by the deviation that they are divided by."""
    both: Beside = request.getfixturevalue(level)
    for words in (*((function,) for function in SHAPES), SHAPES, (*SHAPES, "AVG", "SUM", "COUNT", "STDDEV")):
        sql = f"SELECT {', '.join(f'{function}({x}){condition}' for function in words)} FROM patient{where}"
        answer, (expected,) = both.ask(sql), both.expect(sql)
        ((deviation,),) = both.plain.execute(f"SELECT stddev_pop({x}){condition} FROM patient{where}").fetchall()
        (part,) = parts(both, sql)
        q = quanta(part)[x]
        assert answer.columns == described(sql, ())
        for function, found, value in zip(words, answer.rows[0], expected, strict=True):
            if function in SHAPES:
                allowed = 12 * (RANGES[x] / deviation) ** 4 * q / deviation
                assert near(found, value, allowed), (sql, function, found, value)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sum_beside_a_shape_keeps_its_own_grid(shape: str, by_row: Beside) -> None:
    """Else a value of 1 between 0 and 2000 would be rounded to 0, beyond every error bar."""
    (part,) = parts(
        by_row, f"SELECT AVG(income), SUM(income), COUNT(income), GEOMEAN(income + 51), {shape}(income) FROM patient"
    )
    alone = [measure.statistic.identity for measure in part.release.measures]
    (other,) = parts(by_row, "SELECT AVG(income), SUM(income), COUNT(income), GEOMEAN(income + 51) FROM patient")
    assert alone[:-1] == [measure.statistic.identity for measure in other.release.measures]


@pytest.mark.few(3)
@pytest.mark.parametrize("condition", FILTERS)
@pytest.mark.parametrize("x", ["age", "score", "weight"])
@pytest.mark.parametrize("level", ["by_person", "by_row"])
def test_the_geometric_mean(level: str, x: str, condition: str, request: pytest.FixtureRequest) -> None:
    """e to the average of logarithms on a grid of 2^-26 or finer. The engine's own macro takes no FILTER."""
    both: Beside = request.getfixturevalue(level)
    beside_it = (f"GEOMEAN({x}){condition}", f"AVG(LN({x})){condition}", f"COUNT({x}){condition}")
    for words in (beside_it[:1], beside_it):
        sql = f"SELECT {', '.join(words)} FROM patient"
        expected = both.expect(sql.replace(beside_it[0], f"EXP(AVG(LN({x})){condition})"))[0][0]
        assert near(both.ask(sql).rows[0][0], expected, 1e-5 * expected), sql


@pytest.mark.few(2)
@pytest.mark.parametrize("condition", FILTERS)
@pytest.mark.parametrize(
    "pair",
    [Pair("age", "site"), Pair("weight", "age"), Pair("age", "weight"), Pair("income", "age"), Pair("age", "age")],
)
@pytest.mark.parametrize("level", ["by_person", "by_row"])
def test_moments_of_two_values(level: str, pair: Pair, condition: str, request: pytest.FixtureRequest) -> None:
    both: Beside = request.getfixturevalue(level)
    for function in OF_TWO:
        sql = f"SELECT {function}({pair.y}, {pair.x}){condition} FROM patient"
        (part,) = parts(both, sql)
        answer, ((value,),) = both.ask(sql), both.expect(sql)
        assert answer.columns == described(sql, ())
        assert near(answer.rows[0][0], value, margin(both, function, pair, condition, part)), sql


def margin(both: Beside, function: str, pair: Pair, condition: str, part: CompiledRelease) -> float:
    """The change that the grids of both values may make."""
    q = quanta(part)
    words = (f"stddev_pop({pair.y})", f"stddev_pop({pair.x})", f"regr_slope({pair.y}, {pair.x})", f"avg({pair.x})")
    present = f"{condition[:-1]} AND " if condition else " FILTER (WHERE "
    present += f"{pair.y} IS NOT NULL AND {pair.x} IS NOT NULL)"
    ((sy, sx, slope, mean),) = both.plain.execute(
        f"SELECT {', '.join(w + present for w in words)} FROM patient"
    ).fetchall()
    ry, rx = RANGES[pair.y], RANGES.get(pair.x, 2.0)
    covariance = rx * q[pair.y] + ry * q[pair.x]
    tilt = (covariance + abs(slope) * rx * q[pair.x]) / (sx * sx)
    return {
        "COVAR_POP": covariance,
        "COVAR_SAMP": 2 * covariance,
        "CORR": q[pair.y] / sy + q[pair.x] / sx,
        "REGR_R2": 2 * (q[pair.y] / sy + q[pair.x] / sx),
        "REGR_SLOPE": tilt,
        "REGR_INTERCEPT": q[pair.y] + abs(slope) * q[pair.x] + abs(mean) * tilt,
    }[function]


def near(found: object, expected: object, allowed: float) -> bool:
    assert isinstance(found, float) and isinstance(expected, float | int)
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=allowed + 1e-9)


def test_moments_by_group(by_person: Beside) -> None:
    """One bundle of cells for each group, over the visits of people who have several."""
    sql = (
        "SELECT year, COUNT(*), COUNT(days), SUM(days), AVG(days), VAR_SAMP(days), STDDEV_POP(days), "
        "COVAR_POP(days, year) FILTER (WHERE tag LIKE 't%') FROM visit GROUP BY year"
    )
    found, expected = by_person.ask(sql).rows, by_person.expect(sql)
    assert len(found) == len(expected) == 4
    for one, other in zip(sorted(found), sorted(expected), strict=True):
        assert one[:4] == other[:4]
        assert all(near(x, y, 0.0) for x, y in zip(one[4:], other[4:], strict=True))


def test_moments_of_few_rows(by_person: Beside) -> None:
    """Nothing to compute is NULL, and values that are all the same have no variance, as in DuckDB."""
    for where in ("site = 9", "site = 2 AND age > 1000"):
        sql = f"SELECT VAR_POP(age), STDDEV(age), CORR(age, weight), REGR_SLOPE(age, site) FROM patient WHERE {where}"
        assert by_person.ask(sql).rows == [(None,) * 4] == by_person.expect(sql)
    assert by_person.ask("SELECT VAR_SAMP(site), VAR_POP(site) FROM patient WHERE site = 1").rows == [(0.0, 0.0)]


# --- quantiles and extremes -----------------------------------------------------------------------------------------

RANKED = ("age", "weight", "score", "income", *MOMENTS_OF_TIME)


def order(both: Beside, x: str, rest: str) -> list[float]:
    number = f"epoch({x}) / 86400" if x in MOMENTS_OF_TIME else x
    values = both.plain.execute(f"SELECT CAST({number} AS DOUBLE) FROM {rest}").fetchall()
    return sorted(v for (v,) in values if v is not None)


def around(values: list[float], q: Fraction, x: str) -> tuple[float, float]:
    """The two values whose ranks enclose q n, or the declared bound beyond the first and the last."""
    rank = q * len(values)
    below, above = math.ceil(rank) - 1, math.floor(rank)
    low = values[below] if below >= 0 else LOWEST[x]
    return low, values[above] if above < len(values) else LOWEST[x] + RANGES[x]


def rounding(both: Beside, sql: str) -> float:
    """By how much any value of a tally may be rounded."""
    grids = [t.histogram for part in parts(both, sql) for t in part.histograms]
    found = 0.0
    for grid in grids:
        assert isinstance(grid, Grid)
        exact = grid.term.is_integer or grid.term.is_decimal
        unit = DAY if grid.unit == TIMESTAMP else 1
        found = max(found, 0.0 if exact else float(grid.term.quantum) / 2 / unit)
    return found


def inside(found: object, values: list[float], q: Fraction, x: str, slack: float) -> bool:
    low, high = around(values, q, x)
    if isinstance(found, date):
        found = (datetime.combine(found, datetime.min.time()) if type(found) is date else found) - datetime(1970, 1, 1)
        found = found / timedelta(days=1)
    number = found if isinstance(found, int | float) else float(str(found))
    return low - slack - 1e-9 <= number <= high + slack + 1e-9


@pytest.mark.few(2)
@pytest.mark.parametrize("where", ["", " WHERE site = 2", " WHERE female"])
@pytest.mark.parametrize("x", RANKED)
@pytest.mark.parametrize("level", ["by_person", "by_row"])
def test_quantiles(level: str, x: str, where: str, request: pytest.FixtureRequest) -> None:
    both: Beside = request.getfixturevalue(level)
    values = order(both, x, f"patient{where}")
    spelled = {
        f"MEDIAN({x})": Fraction(1, 2),
        f"QUANTILE({x}, 0.3)": Fraction(3, 10),
        f"QUANTILE_CONT({x}, 0.9)": Fraction(9, 10),
        f"QUANTILE_DISC({x}, 0.25)": Fraction(1, 4),
        f"QUANTILE_CONT({x}, 0)": Fraction(0),
        f"QUANTILE_CONT({x}, 1)": Fraction(1),
        f"APPROX_QUANTILE({x}, 0.75)": Fraction(3, 4),
        f"PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY {x})": Fraction(1, 10),
        f"PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY {x} DESC)": Fraction(9, 10),
    }
    for words, q in spelled.items():
        sql = f"SELECT {words} FROM patient{where}"
        answer = both.ask(sql)
        # the lower end of the supported versions gives INTEGER for the approximate quantile of a DECIMAL
        assert answer.columns == described(sql, ()) or (x == "score" and words.startswith("APPROX"))
        assert inside(answer.rows[0][0], values, q, x, rounding(both, sql)), (sql, answer.rows, around(values, q, x))


@pytest.mark.few(2)
@pytest.mark.parametrize("x", RANKED)
def test_lists_of_quantiles(x: str, by_person: Beside) -> None:
    """In the order of the list, repeats too; from above with DESC."""
    values = order(by_person, x, "patient")
    for words, asked in {
        f"QUANTILE_CONT({x}, [0.25, 0.5, 0.75])": ["1/4", "1/2", "3/4"],
        f"QUANTILE_DISC({x}, [0.9, 0.1, 0.9])": ["9/10", "1/10", "9/10"],
        f"PERCENTILE_CONT([0.2, 0.7]) WITHIN GROUP (ORDER BY {x} DESC)": ["4/5", "3/10"],
    }.items():
        sql = f"SELECT {words} FROM patient"
        answer = by_person.ask(sql)
        assert answer.columns == described(sql, ())
        ((found,),) = answer.rows
        assert isinstance(found, list) and len(found) == len(asked)
        for value, q in zip(found, asked, strict=True):
            assert inside(value, values, Fraction(q), x, rounding(by_person, sql)), (sql, found)


def test_quantiles_by_group_and_filter(by_person: Beside) -> None:
    sql = "SELECT year, MEDIAN(cost), QUANTILE_CONT(days, 0.9) FILTER (WHERE tag LIKE 't%') FROM visit GROUP BY year"
    rows, slack = by_person.ask(sql).rows, rounding(by_person, sql)
    assert [row[0] for row in sorted(rows)] == [1, 2, 3, 4]
    for year, median, upper in rows:
        assert inside(median, order(by_person, "cost", f"visit WHERE year = {year}"), Fraction(1, 2), "cost", slack)
        assert inside(
            upper,
            order(by_person, "days", f"visit WHERE year = {year} AND tag LIKE 't%'"),
            Fraction(9, 10),
            "days",
            slack,
        )


@pytest.mark.few(6)
@pytest.mark.parametrize("function", ["MIN", "MAX"])
@pytest.mark.parametrize("x", ["age", "weight", "income", *MOMENTS_OF_TIME])
@pytest.mark.parametrize("level", ["by_person", "by_row"])
def test_extremes_in_groups(level: str, x: str, function: str, request: pytest.FixtureRequest) -> None:
    """A few ranks inside the data: as many rows lie beyond it as EXPLAIN says."""
    both: Beside = request.getfixturevalue(level)
    sql = f"SELECT site, {function}({x}) FROM patient GROUP BY site"
    (part,) = parts(both, sql)
    (chosen,) = part.release.chosen
    assert isinstance(chosen.over_histogram, Extreme)
    t = chosen.over_histogram.offset(chosen.terms)
    answer = both.ask(sql)
    assert answer.columns == described(sql, ())
    for site, found in answer.rows:
        values = order(both, x, f"patient WHERE site = {site}")
        assert t < len(values)
        q = Fraction(t, len(values))
        assert inside(found, values, q if function == "MIN" else 1 - q, x, rounding(both, sql))


# --- the most common values -----------------------------------------------------------------------------------------

LISTED = {"site": {1, 2, 3}, "female": {True, False}, "city": {"a", "b", "c"}, "site % 2": {0, 1}}


@pytest.mark.few(10)
@pytest.mark.parametrize("condition", ["", " FILTER (WHERE age > 40)"])
@pytest.mark.parametrize("x", LISTED)
@pytest.mark.parametrize("level", ["by_person", "by_row"])
def test_the_mode_is_a_most_common_value(level: str, x: str, condition: str, request: pytest.FixtureRequest) -> None:
    both: Beside = request.getfixturevalue(level)
    for words in (f"MODE({x})", f"MODE() WITHIN GROUP (ORDER BY {x})"):
        sql = f"SELECT {words}{condition} FROM patient"
        answer = both.ask(sql)
        assert answer.columns == described(sql, ())
        rows = counted(both, x, "patient" + condition.replace(" FILTER (", " ").rstrip(")"))
        assert rows[answer.rows[0][0]] == max(rows.values())


def counted(both: Beside, x: str, rest: str) -> Counter[object]:
    """The rows with each declared value."""
    found = both.plain.execute(f"SELECT {x}, count(*) FROM {rest} GROUP BY 1").fetchall()
    return Counter({value: n for value, n in found if value in LISTED[x]})


@pytest.mark.parametrize("x", ["site", "city"])
def test_the_most_common_values_come_in_order(x: str, by_person: Beside) -> None:
    sql = f"SELECT APPROX_TOP_K({x}, 2) FROM patient"
    answer = by_person.ask(sql)
    assert answer.columns == described(sql, ())
    ((found,),) = answer.rows
    rows = counted(by_person, x, "patient")
    assert [rows[value] for value in found] == sorted(rows.values(), reverse=True)[:2]


def test_the_mode_of_each_group(by_person: Beside) -> None:
    for site, city in by_person.ask("SELECT site, MODE(city) FROM patient GROUP BY site").rows:
        rows = counted(by_person, "city", f"patient WHERE site = {site}")
        assert rows[city] == max(rows.values())


def test_values_that_are_not_declared_are_none(tmp_path: Path) -> None:
    """Most rows have an undeclared city, or none, and numbers beyond their bounds count as the bounds."""
    data = crowded(3)
    patients = []
    for i, row in enumerate(data["patient"]):
        city = "zz" if i % 2 else "b" if i % 8 == 0 else None
        age = 90_000 if i % 3 else 50
        patients.append((*row[:5], age, *row[6:7], city, *row[8:]))
    both = beside(tmp_path, {**data, "patient": patients})
    answer = both.ask("SELECT MODE(city), MEDIAN(age), QUANTILE_DISC(age, 0.2), VAR_POP(age) FROM patient").rows[0]
    ages = [90 if i % 3 else 50 for i in range(len(patients))]
    mean = sum(ages) / len(ages)
    assert answer[:3] == ("b", 90.0, 50)
    assert near(answer[3], sum((age - mean) ** 2 for age in ages) / len(ages), 0.0)
    both.close()


# --- the guard's sample ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [record.name for record in RECORDS if record.sampled])
@pytest.mark.parametrize("kept", ["", " FILTER (WHERE c = 1)"])
def test_what_the_guard_asks_of_an_aggregate_runs(name: str, kept: str) -> None:
    record = next(record for record in RECORDS if record.name == name)
    text = record.sampled.format(v="v", n="0.5", kept=kept)
    assert len(duckdb.execute(f"SELECT {text} FROM (VALUES (1, 1, 2), (2, 0, 3)) AS t(v, c, u)").fetchall()) == 1


def test_a_geometric_mean_at_the_end_of_double_is_its_largest() -> None:
    """A grid of logarithms ends with a whole quantum, which may be beyond that of the largest DOUBLE."""
    part = Term(column(X, DOUBLE, UNBOUNDED), 0, 710 * 2**20, Fraction(1, 2**20))
    noise = DiscreteLaplace(Fraction(part.width))
    found = ExpOf(AvgOf(part)).column([[100 * part.width], [0]], noise, Fraction(95, 100))
    (value,), ends = found.values, found.intervals[0]
    assert isinstance(value, float) and math.isfinite(value) and value > 1e308
    assert ends is not None and all(map(math.isfinite, ends))


@pytest.mark.parametrize("name", ["SKEWNESS", "KURTOSIS", "KURTOSIS_POP"])
@pytest.mark.parametrize("huge", ["1e300", "1e80", "CAST('inf' AS DOUBLE)", "CAST('nan' AS DOUBLE)"])
@pytest.mark.parametrize("kept", ["", " FILTER (WHERE x IS NOT NULL)", " OVER ()"])
def test_a_released_value_beyond_a_shape_counts_as_null(by_person: Beside, name: str, huge: str, kept: str) -> None:
    """The engine's own raises on it, and the price is paid by then."""
    released = "SELECT COUNT(*) AS x FROM patient UNION ALL SELECT 1 UNION ALL SELECT 2.5 UNION ALL SELECT 7 UNION ALL SELECT 19"
    asked = f"SELECT {name}(x){kept} AS shape FROM ({released}{{}}) AS s LIMIT 1"
    (found,) = by_person.ask(asked.format(f" UNION ALL SELECT {huge}")).rows
    assert by_person.ask(asked.format(" UNION ALL SELECT NULL")).rows == [found]
    assert found[0] is not None
