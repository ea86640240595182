"""PostgreSQL and Spark beside DuckDB: every statement is equal to the last bit, or refused by name."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dpsql.engines.spark.words import SparkWords
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


LISTS = "SELECT site, MEDIAN(days) FROM visit JOIN patient USING (patient_id) GROUP BY site"
"""Beside the statements of every construct, forms that these have not."""


UNSAID = {"ordered", "tried", "later", "shifted"}
"""Words that no statement here needs: of these no answer of a server was compared."""


def test_a_statement_of_every_word_in_spark(spark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every word of the dialect but UNSAID is in a statement that is asked."""
    said: set[str] = set()
    every = [name for name in vars(SparkWords) if not name.startswith("_") and callable(getattr(SparkWords, name))]
    for name in every:
        real = getattr(SparkWords, name)
        monkeypatch.setattr(
            SparkWords, name, lambda words, *asked, name=name, real=real: said.add(name) or real(words, *asked)
        )
    data = clinic.database(random.Random(5), wild=True)
    found = list(conformance.of_the_clinic(spark, [*extremes.semantics()[::2], LISTS], data, "every word"))
    found += extremes.extremes(spark, random.Random(1), 100)
    counts, different = conformance.told(found)
    assert len(found) >= 150 and not different and counts["equal"] >= 75
    assert set(every) - said <= UNSAID


@pytest.mark.slow
def test_accepted_statements_in_spark(spark: str) -> None:
    counts, different = conformance.told(conformance.accepted(spark))
    assert not different and counts["equal"] >= 60


@pytest.mark.slow
def test_the_yardstick_in_spark(spark: str, tmp_path: Path) -> None:
    counts, different = conformance.told(conformance.yardstick(spark, tmp_path))
    assert not different and counts == {"equal": len(tpch.ANSWERED)}
