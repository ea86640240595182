"""Releases of each aggregate, how far one unit moves them, with what noise: tests/fixtures/aggregates, a file each."""

from __future__ import annotations

import pytest

from tests.support.stages import Case, cases, shown


@pytest.mark.parametrize("case", cases("aggregates"))
def test_aggregate(case: Case) -> None:
    assert shown("aggregates", case) == case.expected
