"""The numbered rules on spread, selections, groups of people and accuracies (grammar_notes/rules.md), one test each by its number."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.base import Limits
from dpsql.aggregates.histogram import Terms
from dpsql.aggregates.mode import Mode
from dpsql.aggregates.quantile import Quantile
from dpsql.core.errors import Error
from dpsql.plan.releases import Release
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.session.opening import open_session
from tests.support import clinic
from tests.support.noise import ZeroNoise
from tests.support.planning import compile_statement


def release(folder: Path, sql: str, *, unit: str = "patient") -> Release:
    schema = clinic.schema(folder, unit=unit)
    (found,) = compile_statement(parse(sql), Options(), schema).plan.releases
    return found


def test_rule_19_the_share_of_clamped_rows_is_paid_for(tmp_path: Path) -> None:
    """It is a bundle of cells of its own, beside the sum that it is about."""
    alone = release(tmp_path, "SELECT SUM(income) FROM patient")
    both = release(tmp_path, "SELECT SUM(income), dp_clamped(income) FROM patient")
    assert len(both.measures) == len(alone.measures) + 1
    assert sum((m.loss.epsilon for m in both.measures), Fraction(0)) == alone.loss.epsilon
    share = both.measures[1].statistic
    assert isinstance(share, Pair) and (share.term.lower, share.term.upper) == (0, 1)


def test_rule_22_selections_compose_over_the_groups_of_a_unit(tmp_path: Path) -> None:
    """A group's choice loses what is linear in a unit's rows there, and all of its rows are at most the limit.

    Costs move by at most their bound for each row, so r rows lose r * rate * 2 * bound, and r adds up to at most K.
    """
    found = release(tmp_path, "SELECT year, MEDIAN(days), QUANTILE_CONT(cost, 0.9) FROM visit GROUP BY year")
    assert found.limited.limits == Limits(3, 3)
    lost = Fraction(0)
    for part in found.chosen:
        tallied = part.over_histogram
        assert isinstance(tallied, Quantile) and part.terms.limits == found.limited.limits
        a, b = tallied.fraction.numerator, tallied.fraction.denominator
        each = 2 * max(a, b - a) * tallied.rate(part.terms) + 1 / tallied.noise(part.terms).scale
        lost += each * found.limited.limits.rows
    assert lost == found.loss.epsilon


def test_rule_22_several_places_are_several_choices() -> None:
    terms = Terms(Limits(3, 2), Fraction(1), "permute_and_flip")
    tally = None
    rates = [Mode(tally, most).rate(terms) * most for most in (1, 2, 5)]  # type: ignore[arg-type]
    assert rates == [Fraction(1, 3)] * 3


def test_rule_30_a_household_of_k(tmp_path: Path) -> None:
    """EXPLAIN says k epsilon, and delta (e^(k epsilon) - 1) / (e^epsilon - 1)."""
    text = (clinic.UNIT + clinic.PATIENT + clinic.VISIT + clinic.PUBLIC).replace(
        "[privacy]\n", "[privacy]\nhousehold = 3\n"
    )
    (tmp_path / "household.toml").write_text(text)
    clinic.write(tmp_path, clinic.database(random.Random(1), wild=False))
    session = open_session(tmp_path / "household.toml", None, ":memory:")
    sql = "/* dpsql: epsilon=0.5, delta=1e-6 */ SELECT note, COUNT(*) FROM patient GROUP BY note"
    (line,) = [line for line in session.explain(sql).splitlines() if "household of 3" in line]
    session.close()
    delta = 1e-6 * (math.exp(1.5) - 1) / (math.exp(0.5) - 1)
    assert "epsilon 1.5" in line
    shown = float(line.rpartition("delta ")[2].split()[0].rstrip(",;"))
    assert shown == pytest.approx(delta, rel=1e-3)


def test_rule_43_an_accuracy_is_priced_by_the_column_that_shows_it(tmp_path: Path) -> None:
    """A COUNT read off a pair of cells is wider than one by itself, so the same accuracy costs more."""
    alone = release(tmp_path, "/* dpsql: error=50 */ SELECT COUNT(age) FROM patient")
    paired = release(tmp_path, "/* dpsql: error=4500 */ SELECT COUNT(age), SUM(age) FROM patient")
    width = alone.outputs[0].estimate.half_width(alone.measures[0].noise, Fraction(95, 100))
    assert width is not None and 45 < width <= 50
    exact = math.log(1 / 0.05) / 50
    assert float(alone.loss.epsilon) == pytest.approx(exact, rel=0.05)
    same = release(
        tmp_path, f"/* dpsql: epsilon={float(alone.loss.epsilon)} */ SELECT COUNT(age), SUM(age) FROM patient"
    )
    wider = same.outputs[0].estimate.half_width(same.measures[0].noise, Fraction(95, 100))
    assert wider is not None and wider == pytest.approx(width * 4.113 / 2.996, rel=0.05)
    for output in paired.outputs:
        shown = output.estimate.half_width(paired.measures[output.measure].noise, Fraction(95, 100))
        assert shown is not None and shown <= 4500
    with pytest.raises(Error):
        release(tmp_path, "/* dpsql: error=5 */ SELECT CORR(age, weight) FROM patient")


def test_rule_44_too_little_signal_is_null_after_the_charge(tmp_path: Path) -> None:
    clinic.schema(tmp_path)
    clinic.write(tmp_path, clinic.database(random.Random(1), wild=False))
    session = open_session(tmp_path / "patient.toml", None, ":memory:")
    session._world.release._noise = ZeroNoise()
    sql = (
        "/* dpsql: epsilon=0.01 */ SELECT CORR(age, weight), REGR_SLOPE(age, weight), REGR_R2(weight, age) FROM patient"
    )
    answer = session.execute(sql)
    said = session.explain(sql)
    session.close()
    assert answer.rows == [(None, None, None)]
    assert answer.receipt.loss.epsilon == Fraction(1, 100)
    assert "NULL" in said
