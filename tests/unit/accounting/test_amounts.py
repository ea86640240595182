"""Exact text and short decimals of amounts."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.accounting.amounts import at_least, at_most, from_text, to_text
from dpsql.core.loss import bounded

AMOUNTS = st.fractions(min_value=0, max_value=10**6)


@given(AMOUNTS)
def test_text_round_trips(amount: Fraction) -> None:
    assert from_text(to_text(amount)) == amount


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "1e9", "1/0", " 1", "1_0", "1.5", "٣", "1/-2", None, 1, b"1"])
def test_other_text_is_no_amount(text: object) -> None:
    assert from_text(text) is None


@given(AMOUNTS)
def test_short_decimals_never_flatter(amount: Fraction) -> None:
    assert Fraction(at_most(amount)) <= amount <= Fraction(at_least(amount))


@pytest.mark.parametrize(
    ("amount", "most", "least"),
    [
        (Fraction(3, 10), "0.3", "0.3"),
        (Fraction(0), "0", "0"),
        (Fraction(100), "100", "100"),
        (Fraction(1, 3), "0.333333", "0.333334"),
        (Fraction(1, 10**9), "1e-9", "1e-9"),
        (Fraction(2, 3 * 10**9), "6.66666e-10", "6.66667e-10"),
        (Fraction(10**300), "1e+300", "1e+300"),
        (Fraction(1, 10**5000), "1e-5000", "1e-5000"),
    ],
)
def test_short_decimals(amount: Fraction, most: str, least: str) -> None:
    assert (at_most(amount), at_least(amount)) == (most, least)


def test_ordinary_amounts_are_not_rounded() -> None:
    assert bounded(Fraction(1, 3)) == Fraction(1, 3)
    assert bounded(Fraction(0.1)) == Fraction(0.1)


@given(st.integers(min_value=2**512, max_value=2**2000), st.integers(min_value=1, max_value=2**1000))
def test_endless_denominators_are_rounded_up(denominator: int, numerator: int) -> None:
    amount = Fraction(numerator, denominator)
    assert amount <= bounded(amount) <= amount + Fraction(1, 2**512)
    assert bounded(amount).denominator <= 2**512
