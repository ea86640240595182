"""Values of the same rows share one vector where no column errs more by that; EXPLAIN's half-widths say so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsql.aggregates.joint import Joint
from dpsql.planner.buying import NO_MORE
from dpsql.planner.explain import explain
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from tests.support import clinic
from tests.support.joint import LEVEL, NHEFS, SIX, apart, bought, errors, nhefs
from tests.support.planning import compile_statement


@pytest.mark.parametrize("units", [None, 1600])
@pytest.mark.parametrize("accounting", ["sequential", "zcdp"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_six_sums_beside_count_err_at_most_three_quarters(mechanism: str, accounting: str, units: int | None) -> None:
    """Under Gaussian noise three quarters of the error of sums without gaps, at equal shares. Where the declared number of people gives
    sums more of the price than COUNT(*), up to 0.78, and 0.43 of that of COUNT(*): (1 + sqrt 6) / 2 is what these layouts give
    six sums of values from 0 on."""
    schema = nhefs(accounting, units)
    sums = ", ".join(f"SUM({name})" for name in SIX)
    sql = f"/* dpsql: epsilon=0.5, mechanism={mechanism} */ SELECT COUNT(*), {sums} FROM patients"
    one, other = errors(bought(sql, schema)), errors(apart(sql, schema))
    assert len(one) == 7
    most = 0.75 if mechanism == "laplace" else 0.78 if units else 0.76
    assert all(one[name][0] <= most * other[name][0] for name in one)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "asked",
    [
        "COUNT(*), SUM(age), SUM(weight)",
        "SUM(age), SUM(weight)",
        "AVG(age), AVG(weight)",
        "COUNT(*), AVG(age), AVG(income), AVG(weight)",
        "COUNT(*), SUM(income), dp_clamped(age), STDDEV(score)",
        "COUNT(*), SUM(age - 50), SUM(weight - 240)",
        "COUNT(income), SUM(income), SUM(age), MEDIAN(age)",
        "COUNT(*), SUM(age) FILTER (WHERE female), SUM(weight) FILTER (WHERE female)",
        "COUNT(*), CORR(age, weight), STDDEV(weight), AVG(age), SUM(income), SUM(score)",
        "COVAR_POP(age, score), SUM(age), SUM(score - 50), COUNT(*), VAR_POP(weight)",
        "STDDEV(age), VAR_POP(income), STDDEV(weight), AVG(score), COUNT(*)",
    ],
)
@pytest.mark.parametrize("table", ["patient", "visit"])
def test_no_column_errs_more(tmp_path: Path, asked: str, mechanism: str, table: str) -> None:
    if table == "visit":
        for old, new in (
            ("age", "days"),
            ("weight", "cost"),
            ("income", "cost"),
            ("score", "days"),
            ("female", "year = 2"),
        ):
            asked = asked.replace(old, new)
    sql = f"/* dpsql: mechanism={mechanism} */ SELECT {asked} FROM {table}"
    schema = clinic.schema(tmp_path)
    one, other = errors(bought(sql, schema)), errors(apart(sql, schema))
    assert one.keys() == other.keys() and one
    for name in one:
        assert all(a <= b * NO_MORE for a, b in zip(one[name], other[name], strict=True)), name


@pytest.mark.parametrize(("accounting", "most"), [("zcdp", (0.86, 0.57, 0.4)), ("sequential", (0.35, 0.23, 0.16))])
def test_six_spreads_are_one_vector(accounting: str, most: tuple[float, float, float]) -> None:
    """Under Gaussian noise, as parts of the errors apart: a variance halfway to a bound, one in the middle, and COUNT(*)."""
    asked = ", ".join(f"STDDEV({name})" for name in SIX)
    sql = f"/* dpsql: epsilon=0.5, mechanism=gaussian */ SELECT {asked}, COUNT(*) FROM patients"
    together, separate = bought(sql, nhefs(accounting, None)), apart(sql, nhefs(accounting, None))
    assert (len(together.measures), len(separate.measures)) == (1, 6)
    one, other = errors(together), errors(separate)
    ratios = [[a / b for a, b in zip(one[name], other[name], strict=True)] for name in one]
    spreads, (rows,) = [ratio for ratio in ratios if len(ratio) == 3], next(r for r in ratios if len(r) == 1)
    assert len(spreads) == 6 and rows <= most[2]
    assert all(max(ratio) <= most[0] and min(ratio) <= most[1] for ratio in spreads)


OF_TWO = "CORR(age, school_years), STDDEV(age), STDDEV(school_years), AVG(age), SUM(school_years), COUNT(*)"


@pytest.mark.parametrize("units", [None, 1600])
def test_what_is_asked_of_one_value_beside_two_is_one_statistic(units: int | None) -> None:
    """A third of the price each, before; twelve or fewer cells of one in place of three cost the root of three or four."""
    for asked, most in (
        (OF_TWO, 0.6),
        ("CORR(height_cm, weight_1971_kg), STDDEV(height_cm), STDDEV(weight_1971_kg)", 0.68),
    ):
        sql = f"/* dpsql: epsilon=0.5, mechanism=laplace */ SELECT {asked} FROM patients"
        together, separate = bought(sql, nhefs("sequential", units)), apart(sql, nhefs("sequential", units))
        assert (len(together.measures), len(separate.measures)) == (1, 3)
        one, other = errors(together), errors(separate)
        ratios = {name: max(a / b for a, b in zip(one[name], other[name], strict=True)) for name in one}
        assert all(ratio <= most for ratio in ratios.values()) and min(ratios.values()) < 0.34


@pytest.mark.parametrize(
    "asked",
    [
        "CORR(age, school_years), STDDEV(age) FILTER (WHERE sex = 'male')",
        "CORR(age, school_years), KURTOSIS(age)",
        "CORR(age, school_years), STDDEV(cigarettes_per_day)",
    ],
)
def test_other_rows_powers_and_values_have_moments_of_their_own(asked: str) -> None:
    assert len(bought(f"SELECT {asked} FROM patients", nhefs("sequential", None)).measures) == 2


def test_symmetric_bounds_stay_apart(tmp_path: Path) -> None:
    """A sum of values around zero errs by its bound alone, apart; a centred cell has the same bound, and a share with more."""
    schema = clinic.schema(tmp_path)
    asked = bought("SELECT SUM(age - 50), SUM(weight - 240) FROM patient", schema)
    assert not any(isinstance(m.statistic, Joint) for m in asked.measures)


def test_explain_says_which_was_taken(tmp_path: Path) -> None:
    schema = clinic.schema(tmp_path)
    text = explain(
        compile_statement(parse("SELECT COUNT(*), SUM(age), SUM(weight) FROM patient"), Options(), schema), schema
    )
    assert re.search(r"measure m0: one vector: number of rows, sums and counts of .*age.* and .*weight", text)
    assert "measure m1" not in text


def test_weights_are_of_statistics_bought_apart(tmp_path: Path) -> None:
    asked = bought(
        "/* dpsql: weights=1:1:1 */ SELECT COUNT(*), SUM(age), SUM(weight) FROM patient", clinic.schema(tmp_path)
    )
    assert not any(isinstance(m.statistic, Joint) for m in asked.measures)


def test_an_accuracy_of_averages_of_one_vector_is_priced() -> None:
    asked = bought("/* dpsql: error=20 */ SELECT AVG(age), AVG(school_years), AVG(smoking_years) FROM patients", NHEFS)
    for output in asked.outputs:
        measured = asked.measures[output.measure].noise
        assert output.estimate.over_rows is not None
        assert measured.half_width(LEVEL) * output.estimate.over_rows / 1600 <= 20
