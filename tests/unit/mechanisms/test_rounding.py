from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.mechanisms.rounding import MOST_SCALE, drawn_scale, drawn_sigma

POSITIVE = st.fractions(min_value=Fraction(1, 10**12), max_value=MOST_SCALE).filter(lambda x: x > 0)


def is_drawable(scale: Fraction) -> bool:
    """A double, and short enough for 63 bits."""
    return Fraction(float(scale)) == scale and scale.numerator <= 2**52 and scale.denominator <= 2**61


@given(POSITIVE)
def test_a_scale_is_rounded_up_a_little(scale: Fraction) -> None:
    drawn = drawn_scale(scale)
    assert is_drawable(drawn)
    assert scale <= drawn < scale + max(scale / 2**50, Fraction(1, 2**61))


@given(POSITIVE)
def test_a_sigma_is_rounded_up_a_little(sigma: Fraction) -> None:
    drawn = drawn_sigma(sigma**2)
    assert is_drawable(drawn)
    assert sigma <= drawn < sigma + max(sigma / 2**50, Fraction(1, 2**61))


@given(POSITIVE)
def test_what_was_rounded_stays(scale: Fraction) -> None:
    drawn = drawn_scale(scale)
    assert drawn_scale(drawn) == drawn
    assert drawn_sigma(drawn**2) == drawn


@pytest.mark.parametrize("scale", [1, 10, 300, 2**51, 2**52, 2**52 - 1])
def test_whole_scales_stay(scale: int) -> None:
    assert drawn_scale(Fraction(scale)) == scale == drawn_sigma(Fraction(scale**2))


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1, 3)])
def test_a_scale_is_positive(bad: Fraction) -> None:
    for function in (drawn_scale, drawn_sigma):
        with pytest.raises(ValueError, match="positive"):
            function(bad)
