"""Each function in the engine, its type and its values: tests/fixtures/functions, a file a family."""

from __future__ import annotations

import pytest

from tests.support.stages import Case, cases, shown


@pytest.mark.parametrize("case", cases("functions"))
def test_function(case: Case) -> None:
    assert shown("functions", case) == case.expected
