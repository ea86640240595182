"""The cases of a parametrized test that the README's command runs; `.ci/run` runs all of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def some(cases: Iterable[object], most: int = 1) -> list[ParameterSet]:
    """The first of these cases, and the others marked slow: for a test whose cases are many of one kind."""
    return [_case(case, () if i < most else (pytest.mark.slow,)) for i, case in enumerate(cases)]


def _case(case: object, marks: tuple[pytest.MarkDecorator, ...]) -> ParameterSet:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=marks)
