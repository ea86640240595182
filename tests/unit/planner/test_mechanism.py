"""The choice of noise: by name, or the better one; and by what private keys are selected."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import tanh
from pathlib import Path

import pytest

from dpsql.aggregates.histogram import Terms
from dpsql.core.errors import Error, InternalError
from dpsql.core.loss import EpsilonDelta, PrivacyLoss, only_delta, total
from dpsql.mechanisms.calibration import NO_MU
from dpsql.mechanisms.conversions import pure, rho_at_most
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.threshold import threshold
from dpsql.mechanisms.truncated import TruncatedLaplace
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Plan, Release
from dpsql.planner.explain import _loss_of_several, explain, mechanism
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.planner.pricing import accounted
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from tests.support import clinic, staging
from tests.support.planning import compile_statement

RANDHIE = Path(__file__).parents[3] / "examples" / "randhie" / "schema.toml"
P95 = Fraction(95, 100)


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    """Epsilons and deltas are added up, and Gaussian noise is converted to them."""
    return clinic.schema(tmp_path, accounting="sequential")


@pytest.fixture
def by_rho(tmp_path: Path) -> Schema:
    """The same with rho added up, and a declared number of patients."""
    found = clinic.schema(tmp_path, accounting="zcdp")
    budget = EpsilonDelta(Fraction(20), Fraction(1, 2))
    return replace(found, privacy=replace(found.privacy, budget=budget, units=10_000))


def compiled(sql: str, schema: Schema) -> Compiled:
    return compile_statement(parse(sql), Options(), schema, staging.Types())


def release(sql: str, schema: Schema) -> Release:
    return compiled(sql, schema).releases[0].release


def priced(found: Release | Plan) -> EpsilonDelta:
    """The epsilon and the delta of a loss that has both."""
    assert found.loss.epsilon is not None
    return EpsilonDelta(found.loss.epsilon, found.loss.delta)


# --- "auto" -------------------------------------------------------------------------------------------------------

COUNT = "SELECT COUNT(*) FROM patient"


def test_auto_takes_laplace_for_one_count(schema: Schema) -> None:
    found = release(f"/* dpsql: mechanism=auto */ {COUNT}", schema)
    (measure,) = found.measures
    assert measure.noise == release(COUNT, schema).measures[0].noise
    gaussian = release(f"/* dpsql: mechanism=gaussian */ {COUNT}", schema).measures[0].noise
    assert found.compared is not None and found.compared.mechanism == "laplace"
    assert found.compared.share == Fraction(measure.noise.half_width(P95), gaussian.half_width(P95)) < 1


GROUPS = """
[dataset]
name = "wide"
source = "wide.duckdb"
[privacy]
unit = "person.id"
epsilon = 100.0
delta = 0.1
least = 1e-17
units = 5000
query = { epsilon = 1.0, delta = 1e-6 }
caps = { epsilon = 10.0, delta = 1e-3 }
mechanism = "auto"
accounting = "sequential"
household = 4
[tables.person]
key = ["id"]
[tables.person.columns]
id = { type = "BIGINT" }
[tables.month]
references = { id = "person.id" }
max_rows_per_unit = 120
max_groups_per_unit = 100
[tables.month.columns]
id = { type = "BIGINT" }
place = { type = "INTEGER", bounds = [1, 500] }
word = { type = "VARCHAR", role = "measure" }
paid = { type = "INTEGER", bounds = [0, 9] }
"""


@pytest.fixture
def wide(tmp_path: Path) -> Schema:
    """Up to a hundred groups of one person, and "auto" by the owner's wish."""
    path = tmp_path / "wide.toml"
    path.write_text(GROUPS)
    return read_schema(path)


def test_auto_takes_gaussian_noise_where_one_person_is_in_many_groups(wide: Schema) -> None:
    found = release("SELECT place, COUNT(DISTINCT id) FROM month GROUP BY place", wide)
    (measure,) = found.measures
    assert isinstance(measure.noise, DiscreteGaussian) and priced(found) == wide.privacy.query
    laplace = DiscreteLaplace.for_loss(100, Fraction(1))
    assert found.compared is not None and found.compared.mechanism == "gaussian"
    assert found.compared.share == Fraction(measure.noise.half_width(P95), laplace.half_width(P95)) < Fraction(1, 2)


def test_auto_compares_thresholds_where_keys_are_selected(wide: Schema) -> None:
    """mechanisms.md: at (1, 10^-6) and 100 groups the Gaussian threshold is 316, that of cut-off noise 1314."""
    sql = "SELECT word, COUNT(DISTINCT id) FROM month GROUP BY word"
    found = release(sql, wide)
    assert found.selection is not None and found.selection.tau == 316
    assert isinstance(found.measures[0].noise, DiscreteGaussian)
    named = release(f"/* dpsql: mechanism=laplace */ {sql}", wide)
    assert named.selection is not None and named.selection.tau == 1314
    one = release(f"/* dpsql: max_groups=1 */ {sql}", wide)
    assert isinstance(one.measures[0].noise, DiscreteLaplace | TruncatedLaplace)


def test_auto_adds_up_relative_errors(wide: Schema) -> None:
    """A total of bounded values is no easier under Gaussian noise, the people are: together the people decide here."""
    found = release("SELECT place, COUNT(DISTINCT id), SUM(paid) FROM month GROUP BY place", wide)
    assert found.compared is not None and found.compared.share is not None and found.compared.share < 1


def test_auto_is_a_word_of_the_statement_not_what_it_took(schema: Schema) -> None:
    """Rule 40."""
    prints = {m: release(f"/* dpsql: mechanism={m} */ {COUNT}", schema).fingerprint for m in ("auto", "laplace")}
    assert prints["auto"] != prints["laplace"] == release(COUNT, schema).fingerprint


def test_auto_takes_what_is_possible(wide: Schema) -> None:
    """Laplace noise for a hundred groups would be wider than what can be added exactly, Gaussian noise is not."""
    text = "/* dpsql: epsilon=2e-14, mechanism={} */ SELECT place, COUNT(DISTINCT id) FROM month GROUP BY place"
    with pytest.raises(Error, match="too large"):
        release(text.format("laplace"), wide)
    found = release(text.format("auto"), wide)
    assert found.compared is not None and found.compared.mechanism == "gaussian" and found.compared.share is None
    assert mechanism(found) == ["mechanism: discrete Gaussian, as Laplace noise would be too large at this price"]
    with pytest.raises(Error, match="too large"):
        release(text.format("auto").replace("2e-14", "1e-16"), wide)


def test_auto_chooses_by_permute_and_flip_alone(schema: Schema) -> None:
    found = release("/* dpsql: mechanism=auto */ SELECT MEDIAN(age), MODE(city) FROM patient", schema)
    assert {part.terms.kind for part in found.chosen} == {"permute_and_flip"}
    assert found.compared is None and found.loss.delta == 0


def test_the_schema_the_session_and_the_statement_name_it(wide: Schema) -> None:
    sql = "SELECT place, COUNT(DISTINCT id) FROM month GROUP BY place"
    session = Options(mechanism="laplace")
    by_session = compile_statement(parse(sql), session, wide).releases[0].release
    assert isinstance(by_session.measures[0].noise, DiscreteLaplace)
    by_statement = compile_statement(parse(f"/* dpsql: mechanism=AUTO */ {sql}"), session, wide).releases[0].release
    assert isinstance(by_statement.measures[0].noise, DiscreteGaussian)


def test_explain_says_which_and_why(wide: Schema) -> None:
    def told(sql: str) -> list[str]:
        return [line.strip() for line in explain(compiled(sql, wide), wide).splitlines() if "mechanism:" in line]

    assert told("SELECT COUNT(*) FROM person") == [
        "mechanism: discrete Laplace, its 95 % error is 0.3 of the Gaussian's"
    ]
    assert told("SELECT place, COUNT(DISTINCT id) FROM month GROUP BY place") == [
        "mechanism: discrete Gaussian, its 95 % error is 0.35 of the Laplace's"
    ]
    assert told("SELECT word, COUNT(DISTINCT id) FROM month GROUP BY word") == [
        "mechanism: discrete Gaussian, its threshold with its 95 % errors is 0.24 of the Laplace's"
    ]
    assert told("/* dpsql: error=20 */ SELECT COUNT(*) FROM person") == [
        "mechanism: discrete Laplace, its epsilon for this accuracy is 0.29 of the Gaussian's"
    ]
    assert told("/* dpsql: mechanism=laplace */ SELECT COUNT(*) FROM person") == []


# --- where rho is added up ----------------------------------------------------------------------------------------

GAUSSIAN = "/* dpsql: mechanism=gaussian */"


def test_what_is_added_up_decides_how_gaussian_noise_is_priced(schema: Schema) -> None:
    for accounting in ("sequential", "advanced", "zcdp", "gdp"):
        privacy = replace(schema.privacy, accounting=accounting)
        found = release(f"{GAUSSIAN} {COUNT}", replace(schema, privacy=privacy)).loss
        assert (found.epsilon is None) == (accounting in ("zcdp", "gdp")), accounting


@pytest.mark.parametrize(("total", "price", "many"), [("4", "0.1", True), ("8", "0.01", True), ("1", "0.5", False)])
def test_auto_prices_in_rho_where_more_statements_fit_so(total: str, price: str, many: bool, schema: Schema) -> None:
    budget, query = EpsilonDelta(Fraction(total), Fraction(1, 10**6)), EpsilonDelta(Fraction(price), Fraction(1, 10**9))
    privacy = replace(schema.privacy, accounting="auto", budget=budget, query=query)
    declared = replace(schema, privacy=privacy)
    assert accounted(privacy).by_rho == many
    assert (release(f"{GAUSSIAN} {COUNT}", declared).loss.epsilon is None) == many
    auto = release(f"/* dpsql: mechanism=auto */ {COUNT}", declared)
    assert isinstance(auto.measures[0].noise, DiscreteGaussian if many else DiscreteLaplace)
    assert (auto.compared is not None) == many


def test_gaussian_noise_has_the_rho_that_a_pure_mechanism_may_have(by_rho: Schema) -> None:
    """Rule 27: epsilon tanh(epsilon / 2), no epsilon, and next to no delta."""
    found = release(f"{GAUSSIAN} {COUNT}", by_rho)
    (measure,) = found.measures
    rho = rho_at_most(Fraction(1))
    assert 0.46211715 < rho < 0.46211716
    assert measure.noise == DiscreteGaussian.for_rho(1, rho)
    assert found.loss.rho == rho and found.loss.mu_squared == 2 * rho
    assert found.loss.epsilon is None and found.loss.squares is None
    assert 0 < found.loss.delta <= by_rho.privacy.query.delta / 1024
    auto = release(f"/* dpsql: mechanism=auto */ {COUNT}", by_rho)
    laplace = release(COUNT, by_rho).measures[0].noise
    assert auto.measures == found.measures and auto.compared is not None and auto.compared.mechanism == "gaussian"
    assert auto.compared.share == Fraction(measure.noise.half_width(P95), laplace.half_width(P95)) < 1


def test_noise_of_both_kinds_costs_the_same_where_rho_is_added_up(by_rho: Schema) -> None:
    laplace, gaussian = (release(f"/* dpsql: mechanism={m} */ {COUNT}", by_rho) for m in ("laplace", "gaussian"))
    assert laplace.loss.epsilon == 1
    assert 0 <= laplace.loss.rho - gaussian.loss.rho < Fraction(1, 10**12)


@pytest.mark.few(11)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*), SUM(age), AVG(income) FROM patient",
        "SELECT note, COUNT(*), SUM(age) FROM patient GROUP BY note",
        "SELECT year, COUNT(DISTINCT patient_id), SUM(days) FROM visit GROUP BY year",
        "SELECT COUNT(*), MEDIAN(age), MODE(city), MAX(income) FROM patient",
        "SELECT site, dp_sum(age, bounds := 'auto'), COUNT(*) FROM patient GROUP BY site",
    ],
)
@pytest.mark.parametrize("price", ["0.001", "0.1", "1", "7"])
def test_the_parts_of_a_release_add_up_to_at_most_its_rho(price: str, sql: str, by_rho: Schema) -> None:
    found = release(f"/* dpsql: mechanism=gaussian, epsilon={price} */ {sql}", by_rho)
    rho = rho_at_most(Fraction(price))
    parts = total([part.loss for part in found.parts])
    assert rho * Fraction(99, 100) < parts.rho <= rho
    delta = found.selection.delta if found.selection is not None else Fraction(0)
    assert found.loss == parts + only_delta(delta)
    assert found.loss.delta <= by_rho.privacy.query.delta
    assert all(isinstance(m.noise, DiscreteGaussian) for m in found.measures)


def test_choices_beside_gaussian_noise_are_exponential_and_cost_an_eighth(by_rho: Schema) -> None:
    """rho = epsilon^2 / 8, so the same part of the price has a larger epsilon than it would have in epsilon."""
    found = release(f"{GAUSSIAN} SELECT COUNT(*), MODE(city), MAX(age) FROM patient", by_rho)
    share = rho_at_most(Fraction(1)) / 3
    for part in found.chosen:
        assert part.terms.kind == "exponential" and "exponential mechanism" in part.describe()
        assert 0 <= part.loss.rho - part.terms.epsilon**2 / 8 < Fraction(1, 10**15)
        assert share * (1 - Fraction(1, 10**6)) < part.loss.rho <= share
        assert Fraction(1, 3) < part.terms.epsilon == part.loss.epsilon


@pytest.mark.few(12)
@pytest.mark.parametrize("price", ["1e-12", "1e-9", "0.00001", "5", "20", "50", "1000", "100000"])
@pytest.mark.parametrize("chosen", ["MEDIAN(age)", "QUANTILE_CONT(age, 0.9)", "MODE(city)", "MAX(age)"])
def test_the_epsilon_of_a_choice_is_found_in_a_few_steps(
    chosen: str, price: str, by_rho: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every price within the cap there is a plan, or a refusal that says what to do."""
    calls, original = [0], Terms.choosing

    def counted(self: Terms, share: Fraction = Fraction(1)) -> PrivacyLoss:
        calls[0] += 1
        assert calls[0] < 1000
        return original(self, share)

    monkeypatch.setattr(Terms, "choosing", counted)
    try:
        found = release(
            f"/* dpsql: mechanism=gaussian, epsilon={price} */ SELECT COUNT(*), {chosen} FROM patient", by_rho
        )
    except Error as refused:
        assert refused.code == "DPSQL-202" and refused.hint
        return
    half = rho_at_most(Fraction(price)) / 2
    least = Fraction(99, 100) if float(price) > 1e-6 else 0
    assert half * least < found.chosen[0].loss.rho <= half


def test_the_interval_of_a_quantile_is_noise_and_no_choice(by_rho: Schema) -> None:
    """A twentieth of its epsilon is discrete Laplace noise, with a larger rho."""
    found = release(f"{GAUSSIAN} SELECT COUNT(*), MEDIAN(age) FROM patient", by_rho)
    (part,) = found.chosen
    epsilon = float(part.terms.epsilon)
    assert float(part.loss.rho) == pytest.approx((0.95 * epsilon) ** 2 / 8 + 0.05 * epsilon * tanh(0.025 * epsilon))


def test_choices_alone_keep_their_epsilon(by_rho: Schema) -> None:
    """Nothing is added, so the pure accountant can go on."""
    for named in ("gaussian", "auto"):
        found = release(f"/* dpsql: mechanism={named} */ SELECT MODE(city), MAX(age) FROM patient", by_rho)
        assert found.loss.epsilon == 1 and {part.terms.epsilon for part in found.chosen} == {Fraction(1, 2)}
        assert found.loss.rho < Fraction(1, 16) + Fraction(1, 10**12) and found.loss.delta == 0
        assert {part.terms.kind for part in found.chosen} == {"exponential"}


def test_several_releases_divide_the_rho_of_a_statement(by_rho: Schema) -> None:
    sql = "SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient)"
    plan = compiled(f"{GAUSSIAN} {sql}", by_rho).plan
    half = rho_at_most(Fraction(1)) / 2
    assert [r.loss.rho for r in plan.releases] == [half, half] and plan.loss.rho == 2 * half


def test_keys_are_selected_with_nearly_all_of_delta(by_rho: Schema) -> None:
    """Noise priced in rho leaves it to the threshold."""
    found = release(f"{GAUSSIAN} SELECT note, COUNT(*), SUM(age) FROM patient GROUP BY note", by_rho)
    delta = by_rho.privacy.query.delta
    assert found.selection is not None and found.selection.delta == delta * Fraction(1023, 1024)
    assert found.selection.delta < found.loss.delta <= delta
    units = found.measures[0]
    assert found.selection.tau == threshold(units.noise, units.sensitivity.l0, found.selection.delta)


def test_a_grid_that_is_too_coarse_for_a_total_claims_no_mu(by_rho: Schema) -> None:
    """(1 + e^epsilon) times the distance to continuous noise: under a total of a million nothing is left of delta."""
    budget = EpsilonDelta(Fraction(10**6), Fraction(1, 2))
    found = release(f"{GAUSSIAN} {COUNT}", replace(by_rho, privacy=replace(by_rho.privacy, budget=budget))).loss
    assert found.rho == rho_at_most(Fraction(1)) and found.delta == 0 and found.mu_squared == NO_MU


def test_a_plan_that_charges_less_rho_than_its_noise_has_is_none(by_rho: Schema) -> None:
    plan = compiled(f"{GAUSSIAN} {COUNT}", by_rho).plan
    (found,), (measure,) = plan.releases, plan.releases[0].measures
    for name in ("rho", "mu_squared"):
        loss = replace(measure.loss, **{name: getattr(measure.loss, name) / 2})
        with pytest.raises(InternalError, match="cover"):
            Plan(
                (replace(found, measures=(replace(measure, loss=loss),), loss=loss),), plan.post_query, loss, plan.price
            )
    with pytest.raises(InternalError, match="what was asked"):
        Plan((found,), plan.post_query, plan.loss, EpsilonDelta(Fraction(999, 1000), plan.price.delta))
    with pytest.raises(Error, match="one name"):
        Plan((found, found), plan.post_query, plan.loss + plan.loss, plan.price)


def test_explain_prints_rho(by_rho: Schema) -> None:
    declared = replace(by_rho, privacy=replace(by_rho.privacy, household=4))
    text = explain(compiled(f"{GAUSSIAN} SELECT COUNT(*), MODE(city) FROM patient", declared), declared)
    assert "    discrete Gaussian, sigma 1.47104; rho 0.231059\n" in text
    price = next(line for line in text.splitlines() if line.startswith("price: "))
    assert price.startswith("price: epsilon 1, delta ")
    assert "(Gaussian noise: rho 0.462117, no epsilon without a delta) for the statement" in price
    household = next(line for line in text.splitlines() if "household" in line)
    assert "rho 7.39387" in household and "epsilon" not in household
    assert "rho" not in explain(compiled(COUNT, declared), declared)


# --- private keys -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-9"])
def test_the_noise_that_needs_fewer_people_selects_keys(groups: int, delta: str, wide: Schema) -> None:
    sql = (
        f"/* dpsql: mechanism=laplace, max_groups={groups}, delta={delta} */ "
        "SELECT word, COUNT(DISTINCT id) FROM month GROUP BY word"
    )
    found = release(sql, wide)
    (measure,), selection = found.measures, found.selection
    assert selection is not None
    loss = EpsilonDelta(Fraction(1), Fraction(delta))
    plain = threshold(DiscreteLaplace.for_loss(groups, loss.epsilon), groups, loss.delta)
    cut = TruncatedLaplace.for_loss(groups, loss).most + 1
    assert selection.tau == min(plain, cut)
    assert isinstance(measure.noise, TruncatedLaplace) == (cut < plain)
    assert priced(found) == loss
    assert (measure.loss.delta, selection.delta) == ((loss.delta, 0) if cut < plain else (0, loss.delta))


SELECTED = "SELECT word, COUNT(DISTINCT id) FROM month GROUP BY word"


def planned(found: Release, wide: Schema) -> Plan:
    shell = compiled(SELECTED, wide).plan.post_query
    return Plan((found,), shell, found.loss, wide.privacy.query)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_plan_with_a_lower_threshold_is_none(noise: str, wide: Schema) -> None:
    found = release(f"/* dpsql: mechanism={noise} */ {SELECTED}", wide)
    assert found.selection is not None and planned(found, wide)
    with pytest.raises(InternalError, match="threshold"):
        planned(replace(found, selection=replace(found.selection, tau=found.selection.tau - 1)), wide)


def test_cut_off_noise_is_for_a_number_that_selects_alone(wide: Schema) -> None:
    found = release(f"/* dpsql: mechanism=laplace */ {SELECTED}", wide)
    assert isinstance(found.measures[0].noise, TruncatedLaplace) and found.selection is not None
    with pytest.raises(InternalError, match="threshold"):
        planned(replace(found, selection=None), wide)
    with pytest.raises(InternalError):
        paid_twice = replace(found.selection, delta=Fraction(1, 10**6))
        planned(replace(found, selection=paid_twice), wide)


def test_explain_says_what_delta_is_of(wide: Schema) -> None:
    text = explain(compiled(f"/* dpsql: mechanism=laplace */ {SELECTED}", wide), wide)
    assert "number of people is at least 1,314\n    delta 1e-06: how likely it is" in text
    assert "that a group of one person is shown, by noise that ends there\n" in text
    assert "truncated Laplace, scale 100, at most 1313; epsilon 1, delta 1e-06" in text
    assert "price: epsilon 1, delta 1e-06 for the statement" in text


# --- households ---------------------------------------------------------------------------------------------------


def test_explain_says_what_a_household_loses(wide: Schema) -> None:
    def told(sql: str) -> list[str]:
        return [line for line in explain(compiled(sql, wide), wide).splitlines() if "household" in line]

    assert told("/* dpsql: epsilon=0.1 */ SELECT COUNT(*) FROM person") == [
        "  a household of 4 together: epsilon 0.4, delta 0"
    ]
    # 1 + e^0.1 + e^0.2 + e^0.3 = 4.67643...
    gaussian = "/* dpsql: epsilon=0.1, mechanism=gaussian */ SELECT COUNT(*) FROM person"
    assert told(gaussian) == ["  a household of 4 together: epsilon 0.4, delta 4.67643e-06"]
    assert told("SELECT DISTINCT place FROM month") == []


def test_a_large_household_or_price_has_no_promise_left() -> None:
    assert _loss_of_several(pure(Fraction(10), Fraction(1, 10**9)), 4) == "epsilon 40, delta 1"
    assert _loss_of_several(pure(Fraction(1000), Fraction(1, 10**9)), 100) == "epsilon 100,000, delta 1"


def test_no_household_is_declared(schema: Schema) -> None:
    assert "household" not in explain(compiled(COUNT, schema), schema)


def test_a_session_sets_auto() -> None:
    session = open_session(RANDHIE, None, ":memory:")
    session.execute("SET dp_mechanism = auto")
    assert "mechanism: discrete Gaussian" in session.explain("SELECT COUNT(*) FROM person")
    session.execute("RESET dp_mechanism")
    assert "mechanism:" not in session.explain("SELECT COUNT(*) FROM person")
    session.close()
