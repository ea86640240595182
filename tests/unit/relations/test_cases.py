"""Relations made of one another, and how many rows one unit can have in each: tests/fixtures/relations."""

from __future__ import annotations

import pytest

from tests.support.stages import Case, cases, shown


@pytest.mark.parametrize("case", cases("relations"))
def test_relation(case: Case) -> None:
    assert shown("relations", case) == case.expected
