"""The division of a release's price among its parts: exact, from the text and the declared schema, never worse than equally."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.core.loss import total
from dpsql.mechanisms.conversions import rho_at_most
from dpsql.plan.releases import NoisyStatistic, Release
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.planner.shares import by_error, by_weights, people_in_a_group, proportional
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from tests.support import clinic, staging
from tests.support.planning import compile_statement

RANDHIE = Path(__file__).parents[3] / "examples" / "randhie" / "schema.toml"
EIGHTH = Fraction(1, 8)


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    """The clinic, with a declared number of patients. Epsilons and deltas are added up."""
    found = clinic.schema(tmp_path, accounting="sequential")
    return replace(found, privacy=replace(found.privacy, units=10_000))


@pytest.fixture
def by_rho(schema: Schema) -> Schema:
    """The same with rho added up."""
    return replace(schema, privacy=replace(schema.privacy, accounting="zcdp"))


def release(sql: str, schema: Schema) -> Release:
    return compile_statement(parse(sql), Options(), schema, staging.Types()).releases[0].release


def losses(sql: str, schema: Schema) -> list[str]:
    """The cost of each part, of an epsilon of 1."""
    return [str(part.loss.epsilon) for part in release(sql, schema).parts]


# --- the split that errs least ------------------------------------------------------------------------------------


def variance(relative: list[Fraction], epsilons: tuple[Fraction, ...]) -> Fraction:
    """The sum of the relative variances of Laplace noise: a is the sensitivity over the value."""
    return sum((2 * (a / e) ** 2 for a, e in zip(relative, epsilons, strict=True)), Fraction(0))


def test_three_sums_of_which_one_is_hard() -> None:
    """Sensitivity over value .001, .0083 and .0015 at epsilon 1: the root of the summed relative variances is 3.6 % where shares
    are equal, and 2.3 % where they are by error."""
    relative = [Fraction(1, 1000), Fraction(83, 10000), Fraction(15, 10000)]
    found = by_error([a * a for a in relative])
    assert [str(e) for e in found] == ["39/250", "16/25", "51/250"]
    thirds = (Fraction(1, 3),) * 3
    assert variance(relative, thirds) == Fraction(64926, 5 * 10**7)
    assert variance(relative, found) == Fraction(4741470841, 9002373120000) < variance(relative, thirds)
    assert round(100 * sqrt(variance(relative, thirds)), 1) == 3.6
    assert round(100 * sqrt(variance(relative, found)), 1) == 2.3


def test_no_other_shares_are_better() -> None:
    relative = [Fraction(1, 1000), Fraction(83, 10000), Fraction(15, 10000)]
    found = by_error([a * a for a in relative])
    step = Fraction(1, 100)
    for i in range(3):
        for j in range(3):
            if i != j:
                moved = tuple(e + step * (k == i) - step * (k == j) for k, e in enumerate(found))
                assert variance(relative, found) < variance(relative, moved)


def test_no_other_shares_of_rho_are_better() -> None:
    """Of rho each takes in proportion to its error, not to the power of two thirds: sigma^2 is one over rho."""
    relative = [Fraction(1, 1000), Fraction(83, 10000), Fraction(15, 10000)]
    found = by_error([a * a for a in relative], by_rho=True)
    assert sum(found) == 1
    assert all(abs(share - a / sum(relative)) < Fraction(1, 1000) for share, a in zip(found, relative, strict=True))

    def variance_of(shares: tuple[Fraction, ...]) -> Fraction:
        return sum((a * a / rho for a, rho in zip(relative, shares, strict=True)), Fraction(0))

    step = Fraction(1, 100)
    for i in range(3):
        for j in range(3):
            if i != j:
                moved = tuple(r + step * (k == i) - step * (k == j) for k, r in enumerate(found))
                assert variance_of(found) < variance_of(moved)


@pytest.mark.few(5)
@pytest.mark.parametrize("accounting", ["sequential", "zcdp"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*), SUM(age), SUM(weight) FROM patient",
        "SELECT COUNT(*), SUM(income), AVG(age), STDDEV(score) FROM patient",
        "SELECT COUNT(*), COUNT(DISTINCT patient_id), SUM(days), SUM(cost) FROM visit",
        "SELECT year, SUM(days), COUNT(DISTINCT patient_id) FROM visit GROUP BY year",
        "SELECT site, SUM(income), COUNT(*) FROM patient GROUP BY site",
    ],
)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_statement_errs_no_more_than_at_equal_shares(
    sql: str, mechanism: str, accounting: str, schema: Schema
) -> None:
    """The sum of squared half-widths, each relative to what is expected, beside that of equal weights."""
    schema = replace(schema, privacy=replace(schema.privacy, accounting=accounting))
    own = release(f"/* dpsql: mechanism={mechanism} */ {sql}", schema)
    aggregates = len(own.limited.block.aggregates)
    equal = release(f"/* dpsql: mechanism={mechanism}, weights={':'.join('1' * aggregates)} */ {sql}", schema)
    assert error(own.measures, own, schema) <= error(equal.measures, equal, schema)


def error(measures: tuple[NoisyStatistic, ...], asked: Release, schema: Schema) -> Fraction:
    people = people_in_a_group(asked.limited, schema.privacy.units)
    assert people is not None
    found = Fraction(0)
    for measure in measures:
        value = measure.statistic.expected(people * asked.limited.limits.groups, people * asked.limited.limits.rows)
        assert value is not None
        found += (measure.noise.half_width(Fraction(95, 100)) / value) ** 2
    return found


APART = (
    "COUNT(*), dp_sum(age, lower := 0, upper := 50) FILTER (WHERE female), "
    "dp_sum(income, lower := 0, upper := 80) FILTER (WHERE NOT female)"
)
"""A count and sums of other rows each, so that none shares a vector with another."""


# --- exact, and short ---------------------------------------------------------------------------------------------


def test_shares_add_up_and_are_short(schema: Schema) -> None:
    """COUNT(*) errs by 1 of n, the sums by up to 2 of n: 2^(2/3) as much for each."""
    sql = f"SELECT {APART} FROM patient"
    assert losses(sql, schema) == ["19/50", "19/50", "6/25"]


def test_equal_parts_stay_equal(schema: Schema) -> None:
    sql = "SELECT COUNT(*) FILTER (WHERE female), COUNT(*) FILTER (WHERE age > 50), COUNT(*) FROM patient"
    assert losses(sql, schema) == ["1/3"] * 3


def test_without_a_declared_number_shares_are_equal(tmp_path: Path) -> None:
    assert losses("SELECT COUNT(*) FILTER (WHERE female), SUM(age) FROM patient", clinic.schema(tmp_path)) == [
        "1/2",
        "1/2",
    ]


def test_private_keys_have_no_declared_size(schema: Schema) -> None:
    assert losses("SELECT note, COUNT(*), SUM(age) FROM patient GROUP BY 1", schema) == ["1/2", "1/2"]


def test_what_is_expected_is_at_least_its_half_width(schema: Schema) -> None:
    """Noise larger than everything that is there makes no part worth more than another."""
    sql = "/* dpsql: epsilon=0.00001 */ SELECT COUNT(*) FILTER (WHERE female), dp_sum(age, lower := 0, upper := 50) FROM patient"
    first, second = (part.loss.epsilon for part in release(sql, schema).parts)
    assert first + second == Fraction(1, 10**5)
    assert abs(first - second) < Fraction(1, 10**7)


def test_tallies_take_an_equal_share_and_the_statistics_divide_the_rest(schema: Schema) -> None:
    sql = "SELECT MEDIAN(age), COUNT(*) FILTER (WHERE female), dp_sum(income, lower := 0, upper := 80) FROM patient"
    found = release(sql, schema)
    assert [str(m.loss.epsilon) for m in found.chosen] == ["1/3"]
    assert total(m.loss for m in found.measures).epsilon == Fraction(2, 3)
    assert [str(m.loss.epsilon) for m in found.measures] == ["307/750", "193/750"]


def test_gaussian_noise_shares_delta_equally(schema: Schema) -> None:
    found = release(
        "/* dpsql: mechanism=gaussian */ SELECT COUNT(*) FILTER (WHERE female), SUM(income) FROM patient", schema
    )
    assert {m.loss.delta for m in found.measures} == {Fraction(1, 2000)}
    assert found.loss.epsilon == 1 and found.loss.delta == Fraction(1, 1000)
    assert len({m.loss.epsilon for m in found.measures}) == 2


def test_rho_is_shared_by_the_error_itself(by_rho: Schema) -> None:
    """COUNT(*) moves by 1 of n, and each sum by twice as large a part of what is expected of it."""
    sql = f"/* dpsql: mechanism=gaussian */ SELECT {APART} FROM patient"
    found = release(sql, by_rho)
    rho = rho_at_most(Fraction(1))
    assert sorted(m.loss.rho / rho for m in found.measures) == [Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)]
    assert found.loss.rho == rho


def test_weights_are_proportions_of_rho_where_that_is_added_up(by_rho: Schema) -> None:
    found = release("/* dpsql: weights=1:3, mechanism=gaussian */ SELECT COUNT(*), SUM(age) FROM patient", by_rho)
    own = [found.measures[o.measure].loss.rho / rho_at_most(Fraction(1)) for o in found.outputs]
    assert sorted(own) == [Fraction(1, 4), Fraction(3, 4)]


def test_a_tally_takes_an_equal_share_of_rho(by_rho: Schema) -> None:
    sql = "/* dpsql: mechanism=gaussian */ SELECT MODE(city), COUNT(*), SUM(income) FROM patient"
    found = release(sql, by_rho)
    third = rho_at_most(Fraction(1)) / 3
    assert total(m.loss for m in found.measures).rho == 2 * third
    assert third * (1 - Fraction(1, 10**6)) < found.chosen[0].loss.rho <= third


@pytest.mark.slow
@pytest.mark.parametrize("weights", [[1], [1, 1], [10**9, 1], [1, 2, 3, 4, 5, 6, 7], [1] * 999 + [10**6], [3] * 2000])
def test_proportions_are_whole_steps_above_zero(weights: list[int]) -> None:
    found = proportional([Fraction(w) for w in weights])
    assert sum(found) == 1 and min(found) > 0
    steps = max(1000, 10 * len(weights))
    for share, weight in zip(found, weights, strict=True):
        assert (share * steps).denominator == 1
        assert share >= Fraction(weight, sum(weights)) - Fraction(len(weights), steps)


def test_every_part_reads_text_and_schema_alone() -> None:
    """The same statement, spelled in two ways, has the same shares."""
    schema = read_schema(RANDHIE)
    one = losses("SELECT COUNT(*) FILTER (WHERE site = 1) AS n, SUM(income) AS s FROM person", schema)
    assert (
        one
        == losses("select sum(income), count(*) filter (where site = 1) from person", schema)
        == ["307/5000", "193/5000"]
    )


# --- weights that the caller gives --------------------------------------------------------------------------------


def test_weights_are_proportions_of_the_price(schema: Schema) -> None:
    sql = "/* dpsql: weights=2:1:1 */ SELECT COUNT(*), SUM(income), SUM(age) FROM patient"
    found = release(sql, schema)
    own = {o.name: found.measures[o.measure].loss.epsilon for o in found.outputs}
    assert [own[a.name] for a in found.limited.block.aggregates] == [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]
    assert found.loss.epsilon == 1


def test_a_bundle_takes_the_largest_weight_of_its_aggregates(schema: Schema) -> None:
    """AVG and SUM of one value are one pair."""
    sql = "/* dpsql: weights=1:3:1 */ SELECT AVG(income), SUM(income), SUM(age) FROM patient"
    assert losses(sql, schema) == ["3/4", "1/4"]


def test_a_number_of_people_that_selects_keys_takes_the_average(schema: Schema) -> None:
    sql = "/* dpsql: weights=3:1 */ SELECT tag, SUM(days), SUM(cost) FROM visit GROUP BY tag"
    assert losses(sql, schema) == ["1/3", "1/2", "1/6"]


def test_a_tally_takes_its_own_weight(schema: Schema) -> None:
    found = release("/* dpsql: weights=1:3 */ SELECT COUNT(*), MEDIAN(age) FROM patient", schema)
    assert [part.loss.epsilon for part in found.parts] == [Fraction(1, 4), Fraction(3, 4)]


def test_weights_in_the_options_clause(schema: Schema) -> None:
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(weights=0.5:1.5) COUNT(*), SUM(age) FROM patient"
    found = release(sql, schema)
    assert sorted(m.loss.epsilon for m in found.measures) == [Fraction(1, 4), Fraction(3, 4)]


def test_by_weights_fills_in_the_average() -> None:
    assert by_weights([None, Fraction(1), Fraction(3)]) == (Fraction(1, 3), Fraction(1, 6), Fraction(1, 2))


def test_weights_of_the_same_aggregates_in_another_order_are_another_release(schema: Schema) -> None:
    """The statistics alone are the same, the noise is not."""
    one = release("/* dpsql: weights=2:1 */ SELECT COUNT(*), SUM(age) FROM patient", schema)
    two = release("/* dpsql: weights=2:1 */ SELECT SUM(age), COUNT(*) FROM patient", schema)
    assert {m.statistic.identity for m in one.measures} == {m.statistic.identity for m in two.measures}
    assert one.fingerprint != two.fingerprint


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("/* dpsql: weights=2:1 */ SELECT COUNT(*), SUM(income), AVG(age) FROM patient",
         "weights has 2 numbers, and the statement has 3 different aggregates: COUNT(*), SUM, AVG; write weights=1:1:1"),
        ("/* dpsql: weights=1:2 */ SELECT COUNT(*), COUNT(*) + 1 FROM patient", "has 1 different aggregate: COUNT(*)"),
        ("/* dpsql: weights=1:0 */ SELECT COUNT(*), SUM(age) FROM patient", "a weight of 0"),
        ("/* dpsql: weights=1;2 */ SELECT COUNT(*), SUM(age) FROM patient", "write weights=2:1:1"),
        ("/* dpsql: weights=1:1 */ SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient)", "one release"),
        ("/* dpsql: weights=1, error=5 */ SELECT COUNT(*) FROM patient", "leave weights out"),
        ("SET dp_weights = 2:1", "weights belong to one statement"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit(sql: str, says: str, schema: Schema) -> None:
    with pytest.raises(Error) as refused:
        release(sql, schema)
    assert refused.value.code == "DPSQL-104" and says in str(refused.value)
