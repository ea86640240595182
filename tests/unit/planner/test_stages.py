"""Results of parsing, resolving, bounding and calibrating: tests/fixtures/{parse,resolve,bound,calibrate}."""

from __future__ import annotations

import pytest

from tests.support.stages import Case, cases, shown


@pytest.mark.parametrize("case", cases("parse"))
def test_parse(case: Case) -> None:
    assert shown("parse", case) == case.expected


@pytest.mark.parametrize("case", cases("resolve"))
def test_resolve(case: Case) -> None:
    assert shown("resolve", case) == case.expected


@pytest.mark.parametrize("case", cases("bound"))
def test_bound(case: Case) -> None:
    assert shown("bound", case) == case.expected


@pytest.mark.parametrize("case", cases("calibrate"))
def test_calibrate(case: Case) -> None:
    assert shown("calibrate", case) == case.expected
