"""PostgreSQL beside DuckDB: every statement is equal to the last bit, or refused by name."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.engines import conformance, extremes
from tests.support import clinic, tpch


@pytest.mark.parametrize("wild", [True, False], ids=["wild", "tame"])
@pytest.mark.few(1)
def test_statements_of_every_construct(postgres: str, wild: bool) -> None:
    data = clinic.database(random.Random(5), wild=wild)
    found = conformance.of_the_clinic(postgres, extremes.semantics()[not wild :: 2], data, "semantics")
    counts, different = conformance.told(found)
    assert not different and counts["equal"] > 45


@pytest.mark.slow
def test_accepted_statements(postgres: str) -> None:
    counts, different = conformance.told(conformance.accepted(postgres))
    assert not different and counts["equal"] >= 69


@pytest.mark.slow
def test_the_yardstick(postgres: str, tmp_path: Path) -> None:
    counts, different = conformance.told(conformance.yardstick(postgres, tmp_path))
    assert not different and counts == {"equal": len(tpch.ANSWERED)}


@pytest.mark.parametrize("seed, count", [(1, 60), pytest.param(2, 1500, marks=pytest.mark.slow)])
def test_functions_and_extremes(postgres: str, seed: int, count: int) -> None:
    counts, different = conformance.told(extremes.extremes(postgres, random.Random(seed), count))
    assert not different and counts["equal"] > count // 2
