from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.mechanisms.additive import smallest


@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
def test_smallest_finds_the_step_from_any_guess(step: int, guess: int) -> None:
    assert smallest(lambda n: n >= step, guess) == step


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
def test_smallest_is_quick_near_the_guess(offset: int) -> None:
    asked = []
    assert smallest(lambda n: asked.append(n) or n >= 100, 100 + offset) == 100  # type: ignore[func-returns-value]
    assert len(asked) <= 6
