"""dp_randomized_response(condition, epsilon): the reports, the estimate, and what it costs."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import pytest

from dpsql.aggregates.base import Limits
from dpsql.aggregates.histogram import Counts, Terms
from dpsql.aggregates.randomized_response import Responses, ResponsesOf, answers
from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import BOOLEAN
from dpsql.expressions.scalar import column
from dpsql.mechanisms.randomized_response import LEAST, MOST, RandomizedResponse
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import own
from tests.support.noise import RecordedNoise, ZeroNoise
from tests.support.trees import X


def responses(epsilon: Fraction = Fraction(1)) -> Responses:
    return Responses(answers(column(X, BOOLEAN, UNBOUNDED), None), RandomizedResponse(epsilon))


def terms(epsilon: Fraction, rows: int = 1) -> Terms:
    return Terms(Limits(rows, rows), epsilon, "permute_and_flip")


def counted(yes: int, no: int) -> Counts:
    return Counts([True, False], [yes, no], [])


class Keeping(ZeroNoise):
    """No coin turns its answer round."""

    def below(self, n: int) -> int:
        return n - 1


class Turning(ZeroNoise):
    """Every coin turns its answer round."""

    def below(self, n: int) -> int:
        return 0


@pytest.mark.parametrize("epsilon", [LEAST, Fraction(1, 3), Fraction(1), Fraction(10), MOST])
def test_an_answer_is_turned_round_at_least_as_often_as_its_epsilon_asks(epsilon: Fraction) -> None:
    flips = RandomizedResponse(epsilon).flips
    assert flips / 2**64 == pytest.approx(1 / (1 + exp(float(epsilon))), rel=1e-12 if epsilon < 20 else 0.02)
    odds = Fraction(exp(float(epsilon))) * (1 + Fraction(1, 10**12))
    assert 0 < flips < 2**63 and Fraction(2**64 - flips, flips) <= odds


def test_flips_are_rounded_up() -> None:
    """One less would be a report that is worth more than its epsilon: e^(1/2) is 1.64872127070012814684865..."""
    flips = RandomizedResponse(Fraction(1, 2)).flips
    odds = Fraction(164872127070012814684865, 10**23)
    assert Fraction(2**64 - flips, flips) <= odds < Fraction(2**64 - flips + 1, flips - 1)


@pytest.mark.parametrize("epsilon", [Fraction(0), LEAST / 2, MOST + 1])
def test_an_epsilon_out_of_range_is_refused(epsilon: Fraction) -> None:
    with pytest.raises(ValueError):
        RandomizedResponse(epsilon)


def test_reports_move_between_the_two_numbers_and_keep_their_sum() -> None:
    kept = responses().release([counted(7, 3), counted(0, 0)], terms(Fraction(2)), Keeping())
    assert kept == [[7, 0], [3, 0]]
    turned = responses().release([counted(7, 3)], terms(Fraction(2)), Turning())
    assert turned == [[3], [7]]


def test_without_noise_as_many_are_turned_round_as_on_average() -> None:
    """The number shown without noise is the exact one up to whole reports."""
    asked, on = responses(), terms(Fraction(2))
    cells = asked.release([counted(300, 700)], on, ZeroNoise())
    assert ResponsesOf(asked).column(cells, on, Fraction(95, 100)).values == [pytest.approx(300, abs=3)]


def test_every_row_gets_a_coin_of_its_own_and_every_number_its_noise() -> None:
    noise = RecordedNoise()
    responses().release([counted(2**17 + 5, 1)], terms(Fraction(3), rows=2), noise)
    assert noise.drawn == [
        ("laplace", 2, 2), ("below", 2**64, 1), ("below", 2 ** (64 * 2**17), 1), ("below", 2**320, 1)
    ]  # fmt: skip


def test_the_price_covers_every_report_and_the_noise_on_their_number() -> None:
    """K epsilon for the reports, K / scale for the noise."""
    asked, on = responses(Fraction(1, 2)), terms(Fraction(4), rows=5)
    assert 5 * asked.reports.epsilon + 5 / asked.noise(on).scale == 4
    assert asked.left(terms(Fraction(5, 2), rows=5)) == 0


def test_the_estimate_undoes_what_reports_do_on_average() -> None:
    """From the expected numbers of reports the exact number of rows; it may be below 0."""
    asked, on = responses(), terms(Fraction(2))
    p, q = asked.reports.kept, asked.reports.flipped
    yes, no = 10**9, 3 * 10**9
    cells = [[round(p * yes + q * no), 0], [round(q * yes + p * no), 50]]
    column = ResponsesOf(asked).column(cells, on, Fraction(95, 100))
    assert column.values[0] == pytest.approx(yes, rel=1e-8) and column.values[1] == pytest.approx(-q * 50 / (p - q))
    (low, high), (least, most) = column.intervals[0], column.intervals[1]  # type: ignore[misc]
    assert high - low == pytest.approx(2 * 1.96 * (p * q * (yes + no)) ** 0.5 / (p - q), rel=1e-3)
    assert most - least < 60


def test_null_does_not_report() -> None:
    value = responses().histogram.value_of([own("x0"), own("x1")])
    assert printed(value) == "CASE WHEN x1 THEN x0 END" and responses().histogram.bucket_of(own("v")) == own("v")
