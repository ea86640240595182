"""The price of a plan: never more than asked, the sum of its measures, and the same for other spellings of the same statement."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.errors import Error
from dpsql.core.loss import NO_LOSS, PrivacyLoss, only_delta, total
from dpsql.mechanisms.conversions import choice, gaussian, pure, rho_at_most
from dpsql.plan.compiled import Compiled
from dpsql.planner.measure import Identities
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema
from tests.support import clinic, losses
from tests.support.generate import statement
from tests.support.planning import compile_statement

MODEST = settings(max_examples=150, deadline=None, derandomize=True, database=None)
EPSILONS = st.fractions(0, 5, max_denominator=50)
DELTAS = st.fractions(0, Fraction(1, 10), max_denominator=1000)
LOSSES = st.one_of(
    st.builds(pure, EPSILONS, DELTAS),
    st.builds(choice, EPSILONS),
    st.builds(gaussian, EPSILONS, DELTAS),
    st.builds(only_delta, DELTAS),
)
ACCOUNTINGS = st.sampled_from(["sequential", "zcdp"])


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Schema]:
    folder: Path = tmp_path_factory.mktemp("clinic")
    return {"patient": clinic.schema(folder), "row": clinic.schema(folder, unit="row")}


def accounted(schema: Schema, accounting: str) -> Schema:
    """The same with a declared number of people, and losses added up in this way."""
    return replace(schema, privacy=replace(schema.privacy, units=1000, accounting=accounting))


def compiled(sql: str, schema: Schema, parameters: tuple[object, ...] | dict[str, object] = ()) -> Compiled:
    return compile_statement(parse(sql, parameters), Options(), schema)


def fingerprints(sql: str, schema: Schema, parameters: tuple[object, ...] | dict[str, object] = ()) -> list[str]:
    return [part.release.fingerprint for part in compiled(sql, schema, parameters).releases]


@pytest.mark.slow
@MODEST
@given(seed=st.integers(0, 2**40), unit=st.sampled_from(["patient", "row"]), accounting=ACCOUNTINGS)
def test_a_plan_spends_what_its_measures_spend_and_no_more_than_asked(
    seed: int, unit: str, accounting: str, schemas: dict[str, Schema]
) -> None:
    sql = statement(random.Random(seed), row_level=unit == "row")
    try:
        plan = compiled(sql, accounted(schemas[unit], accounting)).plan
    except Error:
        return
    losses.check_plan(plan, sql)
    assert plan.loss == total(release.loss for release in plan.releases)
    for release in plan.releases:
        measures = total(part.loss for part in release.parts)
        delta = release.selection.delta if release.selection is not None else Fraction(0)
        assert release.loss == measures + only_delta(delta)
        losses.check_release(release, sql)
        for measure in release.measures:
            assert measure.loss.rho > 0
            assert measure.noise.covers(measure.sensitivity.l1, measure.sensitivity.l2_squared, measure.loss)


@pytest.mark.slow
@MODEST
@given(seed=st.integers(0, 2**40), mechanism=st.sampled_from(["laplace", "gaussian", "auto"]), accounting=ACCOUNTINGS)
def test_shares_add_up_to_the_whole_price(
    seed: int, mechanism: str, accounting: str, schemas: dict[str, Schema]
) -> None:
    """With a declared number of people shares differ, and not a thousandth of epsilon, or of rho, is lost or spent twice."""
    schema = accounted(schemas["patient"], accounting)
    try:
        plan = compile_statement(parse(statement(random.Random(seed))), Options(mechanism=mechanism), schema).plan
    except Error:
        return
    paid = [release for release in plan.releases if release.parts]
    for release in paid:
        assert min(part.loss.rho for part in release.parts) > 0
        if release.loss.epsilon is not None:
            assert release.loss.epsilon == plan.price.epsilon / len(paid)
        else:
            rho = rho_at_most(plan.price.epsilon) / len(paid)
            # how a tally spends its share is rounded down; noise spends it exactly
            least = rho * Fraction(99, 100) if release.chosen else rho
            assert accounting == "zcdp" and least <= release.loss.rho <= rho


@pytest.mark.slow
@MODEST
@given(seed=st.integers(0, 2**40), error=st.sampled_from(["0.5", "7", "300", "1e5"]), accounting=ACCOUNTINGS)
def test_an_accuracy_is_kept_at_its_price(seed: int, error: str, accounting: str, schemas: dict[str, Schema]) -> None:
    """Every column is as exact as was asked, and the price is that of the parts."""
    sql = re.sub(r"epsilon=[\d.]+", f"error={error}, confidence=0.9", statement(random.Random(seed)))
    schema = accounted(schemas["patient"], accounting)
    try:
        plan = compiled(sql, schema).plan
    except Error:
        return
    (release,) = plan.releases
    assert plan.loss == release.loss and losses.fits(plan.loss, schema.privacy.caps)
    for output in release.outputs:
        width = output.estimate.half_width(release.measures[output.measure].noise, Fraction(9, 10))
        assert width is None or width <= float(error)


@pytest.mark.slow
@MODEST
@given(seed=st.integers(0, 2**40))
def test_planning_is_a_function_of_the_text(seed: int, schemas: dict[str, Schema]) -> None:
    sql = statement(random.Random(seed))
    try:
        first = compiled(sql, schemas["patient"])
    except Error:
        return
    spaced = "\n\t" + sql.replace(",", " ,\n") + " ; -- a remark"
    again = compiled(spaced if "dpsql:" not in spaced.split("*/")[0] else sql + " ; -- a remark", schemas["patient"])
    assert [r.release.fingerprint for r in first.releases] == [r.release.fingerprint for r in again.releases]
    assert [r.sql for r in first.releases] == [r.sql for r in again.releases]
    assert first.plan.loss == again.plan.loss


@pytest.mark.slow
@MODEST
@given(parts=st.lists(LOSSES, max_size=6))
def test_composition_adds_up_in_any_order(parts: list[PrivacyLoss]) -> None:
    whole = total(parts)
    assert whole == total(reversed(parts)) == whole + NO_LOSS
    assert all(part.within(whole) for part in parts)
    assert (whole.epsilon is None) == any(part.epsilon is None for part in parts)
    if parts:
        one, count = parts[0], len(parts)
        epsilon, squares = (None if x is None else x * count for x in (one.epsilon, one.squares))
        times = PrivacyLoss(epsilon, one.delta * count, squares, one.rho * count, one.mu_squared * count)
        assert total([one] * count) == times


SAME = [
    ["SELECT COUNT(*) FROM patient", "select count( * ) from Patient;", "FROM patient SELECT COUNT(*)",
     'SELECT COUNT(*) AS n FROM "patient"', "SELECT COUNT(*) FROM main.patient", "/* hello */ SELECT COUNT(*) FROM patient -- bye",
     "(SELECT COUNT(*) FROM patient)", "SELECT COUNT(1) + 1 FROM patient",
        "SELECT COUNT(*) FROM patient AS p"],
    ["SELECT COUNT(*) FROM patient WHERE age BETWEEN 20 AND 60", "SELECT COUNT(*) FROM patient WHERE 20 <= age AND age <= 60",
     "SELECT COUNT(*) FROM patient WHERE 60 >= age AND (age >= 20)", 'SELECT COUNT(*) FROM patient WHERE "AGE" <= 60 AND age >= 20'],
    ["SELECT COUNT(*) FROM patient WHERE age > 5", "SELECT COUNT(*) FROM patient WHERE 5 < age",
     "SELECT COUNT(*) FROM Patient q WHERE Q.age > 5", "SELECT COUNT(*) FROM patient WHERE (age > 5) AND age > 5"],
    ["SELECT COUNT(*) FROM patient WHERE site IN (1, 3)", "SELECT COUNT(*) FROM patient WHERE site IN (3, 1, 3)"],
    ["SELECT COUNT(*) FROM patient WHERE female AND city = 'a' AND age > 3",
     "SELECT COUNT(*) FROM patient WHERE city = 'a' AND (age > 3 AND female)"],
    ["SELECT site, AVG(income) FROM patient GROUP BY site", "SELECT site AS s, AVG(income) FROM patient GROUP BY 1",
     "SELECT site, AVG(income) m FROM patient GROUP BY ALL ORDER BY m",
     "SELECT AVG(income), site FROM patient GROUP BY site HAVING AVG(income) > 3"],
    ["SELECT SUM(CASE WHEN female THEN 1 ELSE 0 END) FROM patient", "SELECT SUM(IF(female, 1, 0)) FROM patient"],
    ["SELECT COUNT(*) FROM patient WHERE income > 1e1", "SELECT COUNT(*) FROM patient WHERE income > 10e0"],
]  # fmt: skip


@pytest.mark.parametrize("spellings", SAME, ids=lambda s: s[0][:60])
def test_other_spellings_are_the_same_release_at_the_same_price(
    spellings: list[str], schemas: dict[str, Schema]
) -> None:
    found = [compiled(sql, schemas["patient"]) for sql in spellings]
    assert len({tuple(r.release.fingerprint for r in c.releases) for c in found}) == 1
    assert len({c.plan.loss for c in found}) == 1


def test_parameters_are_the_constants_they_stand_for(schemas: dict[str, Schema]) -> None:
    schema = schemas["patient"]
    plain = fingerprints("SELECT COUNT(*) FROM patient WHERE age BETWEEN 20 AND 60 AND city = 'a'", schema)
    text = "SELECT COUNT(*) FROM patient WHERE age BETWEEN {} AND {} AND city = {}"
    assert fingerprints(text.format("?", "?", "?"), schema, (20, 60, "a")) == plain
    assert fingerprints(text.format("$2", "$3", "$1"), schema, ("a", 20, 60)) == plain
    assert fingerprints(text.format(":low", ":high", "$city"), schema, {"low": 20, "high": 60, "city": "a"}) == plain


DIFFERENT = [
    "SELECT COUNT(*) FROM patient",
    "SELECT COUNT(*) FROM visit",
    "SELECT COUNT(income) FROM patient",
    "SELECT COUNT(*) FROM patient WHERE age > 5",
    "SELECT COUNT(*) FROM patient WHERE age >= 5",
    "SELECT COUNT(*) FROM patient WHERE NOT age > 5",
    "SELECT COUNT(*) FROM patient WHERE age > 5 OR female",
    "SELECT COUNT(*) FROM patient WHERE age > 5 AND female",
    "SELECT COUNT(*) FROM patient WHERE city = 'a'",
    "SELECT COUNT(*) FROM patient WHERE city = 'A'",
    "SELECT COUNT(*) FROM patient WHERE site IN (1, 2)",
    "SELECT COUNT(*) FILTER (WHERE female) FROM patient",
    "SELECT site, COUNT(*) FROM patient GROUP BY site",
    "SELECT city, COUNT(*) FROM patient GROUP BY city",
    "SELECT SUM(income) FROM patient",
    "SELECT AVG(income) FROM patient",
    "SELECT AVG(income), COUNT(*) FROM patient",
    "SELECT SUM(age) FROM patient",
    "SELECT SUM(LEAST(GREATEST(age, 20), 30)) FROM patient",
    "SELECT dp_sum(age, lower := 20, upper := 30) FROM patient",
    "SELECT dp_sum(age, lower := 20, upper := 31) FROM patient",
    "/* dpsql: epsilon=0.5 */ SELECT COUNT(*) FROM patient",
    "/* dpsql: mechanism=gaussian */ SELECT COUNT(*) FROM patient",
    "/* dpsql: mechanism=auto */ SELECT COUNT(*) FROM patient",
    "/* dpsql: error=3 */ SELECT COUNT(*) FROM patient",
    "/* dpsql: error=3, confidence=0.9 */ SELECT COUNT(*) FROM patient",
    "/* dpsql: error=3, mechanism=gaussian */ SELECT COUNT(*) FROM patient",
    "/* dpsql: weights=1:2 */ SELECT COUNT(*), SUM(age) FROM patient",
    "/* dpsql: weights=1:2 */ SELECT SUM(age), COUNT(*) FROM patient",
    "/* dpsql: max_groups=1 */ SELECT year, COUNT(*) FROM visit GROUP BY year",
    "/* dpsql: max_groups=2 */ SELECT year, COUNT(*) FROM visit GROUP BY year",
    "SELECT COUNT(DISTINCT patient_id) FROM visit",
]


def test_different_questions_have_different_fingerprints(schemas: dict[str, Schema]) -> None:
    found = {sql: tuple(fingerprints(sql, schemas["patient"])) for sql in DIFFERENT}
    assert len(set(found.values())) == len(DIFFERENT)


def test_the_schema_is_part_of_the_fingerprint(schemas: dict[str, Schema]) -> None:
    parsed, schema = parse("SELECT COUNT(*) FROM patient"), schemas["patient"]
    other = replace(schema, tables=tuple(replace(t, max_rows_per_unit=7) for t in schema.tables))
    first, second = (
        compile_statement(parsed, Options(), schema, identities=Identities(declared)) for declared in (schema, other)
    )
    assert first.releases[0].release.fingerprint != second.releases[0].release.fingerprint
