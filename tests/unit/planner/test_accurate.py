"""An accuracy in place of a price: the least price whose exact half-width is small enough, or a reason why there is none."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.core.errors import BudgetError, Error
from dpsql.core.loss import NO_LOSS, EpsilonDelta
from dpsql.mechanisms.conversions import rho_at_most
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.prices import nominal
from dpsql.plan.compiled import Compiled
from dpsql.planner.accurate import _number, _place
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema
from dpsql.session.opening import open_session
from tests.support import clinic, staging
from tests.support.planning import compile_statement
from tests.support.trees import told

RANDHIE = Path(__file__).parents[3] / "examples" / "randhie" / "schema.toml"
P95 = Fraction(95, 100)


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    """The clinic, with a declared number of patients, and a cap of epsilon 10. Epsilons and deltas are added up."""
    found = clinic.schema(tmp_path, accounting="sequential")
    caps = EpsilonDelta(Fraction(10), Fraction(1, 10))
    return replace(found, privacy=replace(found.privacy, units=10_000, caps=caps))


def compiled(sql: str, schema: Schema, session: Options | None = None) -> Compiled:
    return compile_statement(parse(sql), session or Options(), schema, staging.Types())


@pytest.fixture
def by_rho(schema: Schema) -> Schema:
    """The same with rho added up."""
    return replace(schema, privacy=replace(schema.privacy, accounting="zcdp"))


def epsilon(sql: str, schema: Schema) -> Fraction:
    return nominal(compiled(sql, schema).plan.loss)


def before(number: Fraction) -> Fraction:
    """The number of three digits below one."""
    return _number(_place(number) - 1)


def test_numbers_of_three_digits_are_in_order() -> None:
    numbers = [_number(i) for i in range(-3000, 3000)]
    assert numbers == sorted(set(numbers))
    assert [_place(n) for n in numbers] == list(range(-3000, 3000))
    assert _number(_place(Fraction(12341, 10**6))) == Fraction(124, 10**4)


# --- the least price that is enough -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["3", "50", "0.5", "12345"])
@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999"])
def test_a_count_costs_the_least_price_that_is_exact_enough(error: str, confidence: str, schema: Schema) -> None:
    found = epsilon(f"/* dpsql: error={error}, confidence={confidence} */ SELECT COUNT(*) FROM patient", schema)
    level = Fraction(confidence)
    assert DiscreteLaplace.for_loss(1, found).half_width(level) <= float(error)
    assert DiscreteLaplace.for_loss(1, before(found)).half_width(level) > float(error)


def test_gaussian_noise_is_priced_by_its_own_tail(schema: Schema) -> None:
    sql = "/* dpsql: error=20, mechanism=gaussian */ SELECT year, COUNT(DISTINCT patient_id) FROM visit GROUP BY year"
    loss = compiled(sql, schema).plan.loss
    assert loss.epsilon is not None and loss.delta == schema.privacy.query.delta
    assert DiscreteGaussian.for_loss(3, EpsilonDelta(loss.epsilon, loss.delta)).half_width(P95) <= 20
    assert DiscreteGaussian.for_loss(3, EpsilonDelta(before(loss.epsilon), loss.delta)).half_width(P95) > 20


def test_gaussian_noise_is_priced_through_rho_where_that_is_added_up(by_rho: Schema) -> None:
    sql = "/* dpsql: error=20, mechanism=gaussian */ SELECT year, COUNT(DISTINCT patient_id) FROM visit GROUP BY year"
    loss, price = compiled(sql, by_rho).plan.loss, epsilon(sql, by_rho)
    assert loss.epsilon is None and loss.rho == rho_at_most(price)
    assert DiscreteGaussian.for_rho(3, rho_at_most(price)).half_width(P95) <= 20
    assert DiscreteGaussian.for_rho(3, rho_at_most(before(price))).half_width(P95) > 20


def test_auto_takes_the_mechanism_that_costs_less(schema: Schema, by_rho: Schema) -> None:
    text = "/* dpsql: error=20, mechanism={} */ SELECT COUNT(*) FROM patient"
    laplace, gaussian, auto = (epsilon(text.format(m), schema) for m in ("laplace", "gaussian", "auto"))
    assert auto == laplace < gaussian
    laplace, gaussian, auto = (epsilon(text.format(m), by_rho) for m in ("laplace", "gaussian", "auto"))
    assert auto == gaussian < laplace


def test_the_rho_of_each_statistic_adds_up(by_rho: Schema) -> None:
    """Each costs what it needs; together they cost less than the sum of their epsilons."""
    text = "/* dpsql: error=100, mechanism=gaussian */ SELECT {} FROM patient"
    both, count, age = (
        compiled(text.format(s), by_rho).plan.loss for s in ("COUNT(*), SUM(age)", "COUNT(*)", "SUM(age)")
    )
    assert both.rho == count.rho + age.rho
    assert nominal(both) < nominal(count) + nominal(age)


def test_a_count_read_off_a_pair_costs_more_than_one_by_itself(schema: Schema) -> None:
    """Rule 43: 4.113 scales instead of 2.996."""
    alone = epsilon("/* dpsql: error=200 */ SELECT COUNT(age) FROM patient", schema)
    paired = epsilon("/* dpsql: error=200 */ SELECT COUNT(age), AVG(age) FROM patient", schema)
    assert 1.36 < float(paired / alone) < 1.39


def test_every_column_of_a_bundle_is_exact_enough(schema: Schema) -> None:
    release = compiled("/* dpsql: error=500 */ SELECT COUNT(age), SUM(age) FROM patient", schema).releases[0].release
    (measure,) = release.measures
    widths = [o.estimate.half_width(measure.noise, P95) for o in release.outputs]
    assert all(width is not None and width <= 500 for width in widths)
    assert max(width or 0 for width in widths) > 480


def test_each_statistic_costs_what_it_needs_and_they_add_up(schema: Schema) -> None:
    plan = compiled("/* dpsql: error=100 */ SELECT COUNT(*), SUM(age) FROM patient", schema).plan
    measures = {told(m.statistic.identity).split("(")[0]: m.loss.epsilon for m in plan.releases[0].measures}
    assert measures["rows"] == epsilon("/* dpsql: error=100 */ SELECT COUNT(*) FROM patient", schema)
    assert measures["total"] == epsilon("/* dpsql: error=100 */ SELECT SUM(age) FROM patient", schema)
    assert plan.loss.epsilon == sum(measures.values())


def test_an_average_is_priced_by_the_declared_number_of_people(schema: Schema) -> None:
    """h / n with n patients in a group, h of one cell."""
    plan = compiled("/* dpsql: error=0.5 */ SELECT site, AVG(age) FROM patient GROUP BY site", schema).plan
    release = plan.releases[0]
    (measure,) = release.measures
    assert measure.noise.half_width(P95) * 3 / Fraction(10_000) <= Fraction(1, 2)
    less = DiscreteLaplace.for_loss(measure.sensitivity.l1, before(release.loss.epsilon))
    assert less.half_width(P95) * 3 / Fraction(10_000) > Fraction(1, 2)


def test_a_share_of_the_declared_people(schema: Schema) -> None:
    """5 % of 10,000 / 3."""
    own = epsilon("/* dpsql: error=5% */ SELECT site, COUNT(*) FROM patient GROUP BY site", schema)
    assert own == epsilon("/* dpsql: error=166.66 */ SELECT site, COUNT(*) FROM patient GROUP BY site", schema)
    people = "SELECT COUNT(DISTINCT patient_id) FROM visit"
    assert epsilon(f"/* dpsql: error=1% */ {people}", schema) == epsilon(f"/* dpsql: error=100 */ {people}", schema)


def test_private_keys_pay_for_their_selection_too(schema: Schema) -> None:
    one_row = compiled("/* dpsql: error=10 */ SELECT note, COUNT(*) FROM patient GROUP BY note", schema).plan
    assert one_row.loss.delta == schema.privacy.query.delta
    assert one_row.releases[0].measures[0].noise.half_width(P95) <= 10
    several = compiled("/* dpsql: error=50 */ SELECT tag, COUNT(*), SUM(days) FROM visit GROUP BY tag", schema).plan
    units, *rest = several.releases[0].measures
    assert units.loss.epsilon >= sum(m.loss.epsilon for m in rest) / len(rest)


def test_any_error_above_zero_has_a_price_or_says_that_it_has_none(schema: Schema) -> None:
    for error in ("1e-9", "1e20"):
        sql = f"/* dpsql: error={error} */ SELECT SUM(age) FROM patient"
        try:
            assert 0 < epsilon(sql, schema) <= 10
        except Error as refused:
            assert refused.code == "DPSQL-502"


def test_the_accuracy_is_what_is_asked_and_not_its_price(schema: Schema) -> None:
    """Rule 40. The same statistics, but the columns that must be exact enough are others."""
    texts = [
        "/* dpsql: error=200 */ SELECT COUNT(age), AVG(age) FROM patient",
        "/* dpsql: error=200 */ SELECT SUM(age), AVG(age) FROM patient",
        "/* dpsql: error=200, confidence=0.9 */ SELECT SUM(age), AVG(age) FROM patient",
        "/* dpsql: error=201 */ SELECT SUM(age), AVG(age) FROM patient",
        "/* dpsql: epsilon=0.2 */ SELECT SUM(age), AVG(age) FROM patient",
    ]
    assert len({compiled(sql, schema).releases[0].release.fingerprint for sql in texts}) == len(texts)
    wide = replace(schema, privacy=replace(schema.privacy, caps=EpsilonDelta(Fraction(20), Fraction(1, 10))))
    assert len({compiled(texts[0], s).releases[0].release.fingerprint for s in (schema, wide)}) == 1


# --- places -------------------------------------------------------------------------------------------------------


def test_the_most_local_place_says_whether_a_price_or_an_accuracy_is_asked() -> None:
    price, accuracy = Options(epsilon=Fraction(1)), Options(error=Fraction(5), confidence=Fraction(9, 10))
    assert accuracy.over(price).accuracy_target is not None and accuracy.over(price).epsilon is None
    assert price.over(accuracy).accuracy_target is None and price.over(accuracy).epsilon == 1
    assert Options(max_rows=2).over(accuracy).accuracy_target == accuracy.accuracy_target


def test_the_options_clause_is_more_local_than_a_comment(schema: Schema) -> None:
    sql = "/* dpsql: error=50 */ SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.25) COUNT(*) FROM patient"
    assert epsilon(sql, schema) == Fraction(1, 4)
    sql = "/* dpsql: epsilon=0.25 */ SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(error=5%, confidence=0.9) COUNT(*) FROM patient"
    assert compiled(sql, schema).plan.accuracy_target is not None


def test_a_session_has_the_later_of_a_price_and_an_accuracy() -> None:
    session = open_session(RANDHIE, None, ":memory:")

    def price() -> Fraction:
        text = session.explain("SELECT COUNT(*) FROM person")
        return Fraction(next(line for line in text.splitlines() if line.startswith("price")).split()[2].rstrip(","))

    prices = []
    for setting in ("SET dp_epsilon = 0.2", "SET dp_error = 50", "SET dp_error = 1%", "SET dp_confidence = 0.5",
                    "SET dp_epsilon = 0.3", "RESET dp_epsilon", "RESET dp_error", "RESET dp_confidence"):  # fmt: skip
        session.execute(setting)
        prices.append(price())
    session.close()
    sixty = DiscreteLaplace.for_loss(1, prices[2])
    assert prices[0] == Fraction(1, 5) and prices[1] == Fraction(594, 10**4) and sixty.half_width(P95) <= 60
    assert prices[3] < prices[2] and prices[4] == Fraction(3, 10)
    assert prices[5] == prices[3] and prices[6] == prices[7] == Fraction(1, 10)


# --- above the cap ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("accounting", ["sequential", "zcdp"])
@pytest.mark.parametrize(
    ("options", "select"),
    [
        ("error=0.3", "SELECT COUNT(*) FROM patient"),
        ("error=0.3, mechanism=auto", "SELECT COUNT(*) FROM patient"),
        ("error=1, mechanism=gaussian", "SELECT COUNT(*), SUM(age) FROM patient"),
        ("error=0.01%", "SELECT site, COUNT(*) FROM patient GROUP BY site"),
        ("error=0.00001", "SELECT note, SUM(income), COUNT(*) FROM patient GROUP BY note"),
    ],
)
def test_what_the_cap_would_give_is_accepted_and_nothing_less_is(
    options: str, select: str, accounting: str, tmp_path: Path
) -> None:
    schema = clinic.schema(tmp_path, accounting=accounting)
    caps = EpsilonDelta(Fraction(1, 2), Fraction(1, 10))
    schema = replace(schema, privacy=replace(schema.privacy, units=1000, caps=caps))
    with pytest.raises(BudgetError, match=r"error = .* costs .*above the owner's cap of 0.5") as refused:
        compiled(f"/* dpsql: {options} */ {select}", schema)
    assert refused.value.code == "DPSQL-502"
    best = (refused.value.hint or "").split("error=")[1].split()[0]
    rest = options.partition(",")[2]
    written = ", ".join(filter(None, [f"error={best}", rest]))
    assert epsilon(f"/* dpsql: {written} */ {select}", schema) <= Fraction(1, 2)
    less = f"{float(before(Fraction(best.rstrip('%')))):.12f}" + "%" * best.endswith("%")
    with pytest.raises(BudgetError):
        compiled(f"/* dpsql: {written.replace(best, less)} */ {select}", schema)


def test_the_message_says_what_the_cap_would_give() -> None:
    session = open_session(RANDHIE, None, ":memory:")
    with pytest.raises(BudgetError) as refused:
        session.execute("/* dpsql: error=2 */ SELECT COUNT(*) FROM person")
    assert str(refused.value) == (
        "DPSQL-502: error = 2 with 95 % costs epsilon 1.14, above the owner's cap of 0.5 for one statement; "
        "at 0.5 the error is 6: write error=6 or more"
    )
    assert session.execute("SELECT 1").receipt.remaining.epsilon == 4
    session.close()


# --- what has no price --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("/* dpsql: error=5, epsilon=1 */ SELECT COUNT(*) FROM patient", "write one of them"),
        ("/* dpsql: confidence=0.9 */ SELECT COUNT(*) FROM patient", "write error=50"),
        ("/* dpsql: error=5, confidence=0.4 */ SELECT COUNT(*) FROM patient", "from 0.5 to 0.999"),
        ("/* dpsql: error=5, confidence=1 */ SELECT COUNT(*) FROM patient", "from 0.5 to 0.999"),
        ("/* dpsql: error=0 */ SELECT COUNT(*) FROM patient", "positive"),
        ("/* dpsql: error=5%% */ SELECT COUNT(*) FROM patient", "positive"),
        ("/* dpsql: error=5 */ SELECT MEDIAN(age) FROM patient", "QUANTILE is chosen"),
        ("/* dpsql: error=5 */ SELECT MODE(city) FROM patient", "MODE is chosen"),
        ("/* dpsql: error=5 */ SELECT COUNT(*), STDDEV(age) FROM patient", "the error of STDDEV_SAMP depends"),
        ("/* dpsql: error=5 */ SELECT CORR(age, income) FROM patient", "the error of CORR depends"),
        ("/* dpsql: error=5 */ SELECT note, AVG(age) FROM patient GROUP BY note", "a domain for each group key"),
        ("/* dpsql: error=5 */ SELECT SUM(age) / COUNT(*) FROM patient", "SUM is not shown as it is released"),
        ("/* dpsql: error=5 */ SELECT SUM(age) FROM patient HAVING COUNT(*) > 5", "COUNT(*) is not shown"),
        ("/* dpsql: error=5 */ SELECT site, COUNT(*) FROM patient GROUP BY ROLLUP (site)", "not shown as it is released"),
        ("/* dpsql: error=5 */ SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient)", "this statement has 2"),
        ("/* dpsql: error=5% */ SELECT SUM(age) FROM patient", "such as error=50"),
        ("/* dpsql: error=5% */ SELECT COUNT(*) FROM visit", "such as error=50"),
        ("/* dpsql: error=5% */ SELECT note, COUNT(*) FROM patient GROUP BY note", "such as error=50"),
    ],
)  # fmt: skip
def test_what_cannot_be_priced_by_its_accuracy(sql: str, says: str, schema: Schema) -> None:
    with pytest.raises(Error) as refused:
        compiled(sql, schema)
    assert refused.value.code == "DPSQL-104"
    assert says in str(refused.value) and refused.value.hint


def test_an_average_without_a_declared_number_of_people(tmp_path: Path) -> None:
    with pytest.raises(Error, match="needs a number of rows") as refused:
        compiled("/* dpsql: error=5 */ SELECT AVG(age) FROM patient", clinic.schema(tmp_path))
    assert refused.value.code == "DPSQL-104"


def test_what_is_free_stays_free(schema: Schema) -> None:
    assert compiled("/* dpsql: error=5 */ SELECT DISTINCT site FROM patient", schema).plan.loss == NO_LOSS
