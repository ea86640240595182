"""Spread, two values, quantiles, extremes, the most common: which spellings are one question, what shares a price, what is refused."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest

from dpsql.aggregates.moments import Moments
from dpsql.aggregates.registry import BY_SPELLING, RECORDS
from dpsql.core.errors import Error
from dpsql.plan.releases import Release
from dpsql.planner.calls import OTHERS
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.planner.spellings import SPELLINGS, YEARS_OF_AGE
from dpsql.schema.model import Schema
from tests.support import clinic
from tests.support.planning import compile_statement
from tests.support.trees import name_of


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    return clinic.schema(tmp_path_factory.mktemp("statistics"))


def release(schema: Schema, sql: str) -> Release:
    (found,) = compile_statement(parse(sql), Options(), schema).plan.releases
    return found


def moments(schema: Schema, sql: str) -> Moments:
    (measure,) = release(schema, sql).measures
    assert isinstance(measure.statistic, Moments)
    return measure.statistic


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("MEDIAN(age)", "QUANTILE_CONT(age, 0.5)"),
        ("MEDIAN(age)", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age)"),
        ("MEDIAN(age)", "PERCENTILE_CONT(0.50) WITHIN GROUP (ORDER BY age DESC)"),
        ("QUANTILE_CONT(age, 0.9)", "PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY age DESC)"),
        ("QUANTILE_DISC(age, 0.9)", "QUANTILE(age, 0.9)"),
        ("QUANTILE_DISC(age, 0.9)", "PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY age)"),
        ("QUANTILE_CONT(age, [0.25, 0.75])", "PERCENTILE_CONT([0.25, 0.75]) WITHIN GROUP (ORDER BY age)"),
        ("VARIANCE(age)", "VAR_SAMP(age)"),
        ("STDDEV(age)", "STDDEV_SAMP(age)"),
        ("MODE(city)", "MODE() WITHIN GROUP (ORDER BY city)"),
        ("MODE(city)", "mode(patient.city)"),
        ("VAR(age)", "VAR_SAMP(age)"),
        ("STD(age)", "STDDEV_POP(age)"),
        ("STDEV(age)", "STDDEV(age)"),
        ("STDEVP(age)", "STDDEV_POP(age)"),
        ("FAVG(age)", "AVG(age)"),
        ("KAHAN_SUM(age)", "SUM(age)"),
        ("APPROX_COUNT_DISTINCT(city)", "COUNT(DISTINCT city)"),
        ("AVG(NVL(age, 0))", "AVG(COALESCE(age, 0))"),
        ("COUNT_IF(IFF(age > 5, TRUE, FALSE))", "COUNT_IF(IF(age > 5, TRUE, FALSE))"),
        ("AVG(ISNULL(age, NVL(site, 0)))", "AVG(COALESCE(age, COALESCE(site, 0)))"),
        ("COUNT_IF(ISNULL(age))", "COUNT_IF(age IS NULL)"),
        ("AVG(NVL2(age, 1, site))", "AVG(CASE WHEN age IS NOT NULL THEN 1 ELSE site END)"),
        ("COUNT_IF(SAFE_DIVIDE(age, site) > 5)", "COUNT_IF(age / NULLIF(site, 0) > 5)"),
        ("AVG(DATEDIFF(day, born, DATE '2024-05-01'))", "AVG(DATE_DIFF('day', born, DATE '2024-05-01'))"),
        ("AVG(DATE_DIFF(DATE '2024-05-01', born, MONTH))", "AVG(DATE_DIFF('month', born, DATE '2024-05-01'))"),
        ("AVG(DATE_SUB('year', born, DATE '2024-05-01'))", "AVG(DATESUB('year', born, DATE '2024-05-01'))"),
        (
            "COUNT_IF(DATE_TRUNC(born, YEAR) = DATE '1990-01-01')",
            "COUNT_IF(DATE_TRUNC('year', born) = DATE '1990-01-01')",
        ),
        (
            "COUNT_IF(born > DATEADD(month, -6, '2000-03-31'))",
            "COUNT_IF(born > TIMESTAMP '2000-03-31' + -6 * INTERVAL 1 MONTH)",
        ),
        ("COUNT_IF(TO_CHAR(born, 'YYYY-MM') = '1990-01')", "COUNT_IF(STRFTIME(born, '%Y-%m') = '1990-01')"),
        ("COUNT_IF(FORMAT_DATE('%Y', born) = '1990')", "COUNT_IF(STRFTIME(born, '%Y') = '1990')"),
        ("COUNT_IF(DATE_FORMAT(born, '%Y %M %i') = 'a')", "COUNT_IF(STRFTIME(born, '%Y %B %M') = 'a')"),
        ("COUNT_IF(DATENAME(month, born) = 'May')", "COUNT_IF(MONTHNAME(born) = 'May')"),
        ("COUNT_IF(EOMONTH(born) = DATE '1990-01-31')", "COUNT_IF(LAST_DAY(born) = DATE '1990-01-31')"),
        ("COUNT_IF(CHARINDEX('a', city) = 1)", "COUNT_IF(STRPOS(city, 'a') = 1)"),
        (
            "COUNT_IF(EXTRACT(YEAR FROM AGE(DATE '2024-05-01', born)) = 3)",
            "COUNT_IF(DATE_PART('year', AGE(DATE '2024-05-01', born)) = 3)",
        ),
    ],
)
def test_spellings_of_one_question(declared: Schema, one: str, other: str) -> None:
    prints = [release(declared, f"SELECT site, {a} FROM patient GROUP BY site").fingerprint for a in (one, other)]
    assert prints[0] == prints[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("MEDIAN(age)", "QUANTILE_DISC(age, 0.5)"),
        ("VAR_POP(age)", "VAR_POP(income)"),
        ("MODE(city)", "MODE(site)"),
        ("MODE(city)", "APPROX_TOP_K(city, 2)"),
        ("MIN(age) FILTER (WHERE female)", "MAX(age) FILTER (WHERE female)"),
        ("MEDIAN(age)", "MEDIAN(age) FILTER (WHERE female)"),
    ],
)
def test_other_questions(declared: Schema, one: str, other: str) -> None:
    found = [release(declared, f"SELECT {a} FROM patient") for a in (one, other)]
    # the type of a quantile alone is no other question
    assert (found[0].fingerprint == found[1].fingerprint) == ("QUANTILE_DISC" in other)


def test_spread_shares_one_bundle_with_count_sum_and_average(declared: Schema) -> None:
    found = release(declared, "SELECT VAR_POP(age), STDDEV(age), AVG(age), SUM(age), COUNT(age), COUNT(*) FROM patient")
    (measure,) = found.measures
    assert isinstance(measure.statistic, Moments) and measure.statistic.degrees == (2,)
    assert measure.statistic.with_rows
    assert measure.sensitivity.l1 == measure.statistic.weight == 80**2
    assert measure.loss.epsilon == 1


@pytest.mark.parametrize(
    ("aggregates", "degrees"),
    [
        ("COVAR_POP(age, score)", (1, 1)),
        ("COVAR_SAMP(score, age), COVAR_POP(age, score)", (1, 1)),
        ("REGR_SLOPE(age, score)", (1, 2)),
        ("REGR_SLOPE(score, age)", (2, 1)),
        ("REGR_SLOPE(score, age), REGR_INTERCEPT(age, score)", (2, 2)),
        ("CORR(age, score)", (2, 2)),
        ("REGR_R2(score, age), CORR(age, score), COVAR_POP(age, score)", (2, 2)),
    ],
)
def test_two_values_take_the_fewest_degrees(declared: Schema, aggregates: str, degrees: tuple[int, int]) -> None:
    found = moments(declared, f"SELECT {aggregates} FROM patient")
    assert [name_of(t.scalar) for t in found.terms] == ["age", "score"]
    assert found.degrees == degrees
    assert found.cells == (degrees[0] + 1) * (degrees[1] + 1)


def test_the_grid_keeps_the_cells_of_a_row_within_40_bits(declared: Schema) -> None:
    for sql in ("VAR_POP(income)", "CORR(income, weight)", "REGR_SLOPE(income, weight)", "COVAR_POP(income, weight)"):
        assert moments(declared, f"SELECT {sql} FROM patient").weight <= 2**40


def test_quantiles_of_one_value_share_the_tally_and_split_the_price(declared: Schema) -> None:
    sql = "SELECT MEDIAN(age), QUANTILE_CONT(age, [0.1, 0.9]), MEDIAN(income) FROM patient"
    compiled = compile_statement(parse(sql), Options(), declared)
    (part,) = compiled.releases
    assert len(part.histograms) == 2 and len(part.release.chosen) == 4 and not part.release.measures
    assert sum((c.loss.epsilon for c in part.release.chosen), Fraction(0)) == 1
    assert all(c.loss.delta == 0 for c in part.release.chosen)


def test_a_list_of_the_most_common_is_one_choice_after_another(declared: Schema) -> None:
    found = release(declared, "SELECT APPROX_TOP_K(city, 2), MODE(city) FROM patient")
    tallied = {part.over_histogram.identity for part in found.chosen}
    assert len(tallied) == 1 and found.chosen[0].over_histogram.cells == 2


def test_permute_and_flip_for_pure_privacy_and_the_exponential_mechanism_else(declared: Schema) -> None:
    kinds = {
        mechanism: release(declared, f"/* dpsql: mechanism={mechanism} */ SELECT MEDIAN(age) FROM patient")
        .chosen[0]
        .terms.kind
        for mechanism in ("laplace", "gaussian")
    }
    assert kinds == {"laplace": "permute_and_flip", "gaussian": "exponential"}


ONE, TWO = (
    sorted(
        name
        for r in RECORDS
        if r.takes == takes and not r.name.startswith("dp_")
        for name in r.spellings
        if name in BY_SPELLING
    )
    for takes in (1, 2)
)
CALLS = [
    *(f"{name}(age + 1)" for name in ONE if name not in ("quantile", "approx_top_k")),
    *(f"{name}(age, site)" for name in TWO),
]


@pytest.mark.few(8)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM patient WHERE {} > 1",
        "SELECT SUM({}) FROM patient",
        "SELECT COUNT(*) FROM patient GROUP BY {}",
    ],
)
def test_no_aggregate_slips_into_another_or_a_condition(declared: Schema, sql: str, call: str) -> None:
    """An aggregate is known whether the parser has a node for it or it is called by name."""
    with pytest.raises(Error) as refused:
        release(declared, sql.format(call))
    assert refused.value.code == "DPSQL-109", str(refused.value)


@pytest.mark.parametrize(
    "call",
    [
        # of other lengths, of formats that pad or that nobody here has, and of words that are none
        "NVL(city)",
        "SAFE_DIVIDE(age)",
        "TO_CHAR(born, 'Month')",
        "TO_CHAR(born, 'YYYY-Q')",
        "TO_CHAR(born, 'YYYY\"%d\"')",
        "TO_CHAR(age, '999')",
        "DATE_FORMAT(born, '%U')",
        "DATE_FORMAT(born, city)",
        "DATEADD(fortnight, 1, born)",
        "DATENAME(quarter, born)",
        "AGE(born)",
    ],
)
def test_what_has_no_counterpart_keeps_its_name(declared: Schema, call: str) -> None:
    with pytest.raises(Error, match=r"DPSQL-10[26]: .*" + call.partition("(")[0]):
        release(declared, f"SELECT COUNT_IF({call} = 'a') FROM patient")


def test_every_spelling_is_looked_for() -> None:
    assert set(SPELLINGS) == OTHERS | {"date_diff", "date_part", "datepart", "date_trunc", "epoch"}


def test_the_years_of_an_age_are_those_of_the_engine() -> None:
    """On each side of every day and time of two years around leap days, to the microsecond."""
    times = """
        SELECT TIMESTAMP '2019-02-20 11:59:59.999999' + to_microseconds(i % 3) + to_days((i * 37 % 1200)::INTEGER) AS t
        FROM range(400) AS r(i) UNION ALL SELECT DATE '2020-02-25' + i::INTEGER FROM range(10) AS r(i)"""
    sql = f"SELECT COUNT(*), SUM((date_part('year', age(a, b)) <> {YEARS_OF_AGE})::INTEGER) FROM x AS p(a), x AS q(b)"
    with duckdb.connect() as plain:
        assert plain.execute(f"WITH x AS ({times}) {sql}").fetchone() == (410 * 410, 0)


def test_one_value_where_two_are_needed_is_refused(declared: Schema) -> None:
    """Earlier parsers do not read the call at all."""
    with pytest.raises(Error, match=r"DPSQL-106: REGR_SLOPE needs a value; write REGR_SLOPE\(y, x\)|DPSQL-101"):
        release(declared, "SELECT REGR_SLOPE(age) FROM patient")
