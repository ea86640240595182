"""PostgreSQL and Spark beside DuckDB: every statement is equal to the last bit, or refused by name."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.engines.spark.words import SparkWords
from dpsql.session.session import Session
from tests.engines import conformance, extremes
from tests.support import clinic, tpch
from tests.support.nested import nested

MORE = (
    "SELECT site, MEDIAN(days), MEDIAN(cost) FROM visit JOIN patient USING (patient_id) GROUP BY site",
    "SELECT MODE(drug), QUANTILE_CONT(amount, 0.25) FROM item JOIN visit USING (visit_id)",
    "SELECT SUM(TRY_CAST(score AS DECIMAL(3,1))), COUNT(TRY_CAST(age * 7 AS DECIMAL(3,1))) FROM patient",
)
"""Beside the statements of every construct, forms that these have not."""


@pytest.mark.parametrize("wild", [True, False], ids=["wild", "tame"])
@pytest.mark.few(1)
def test_statements_of_every_construct(postgres: str, wild: bool) -> None:
    data = clinic.database(random.Random(5), wild=wild)
    found = list(conformance.of_the_clinic(postgres, [*extremes.semantics()[not wild :: 2], *MORE], data, "semantics"))
    counts, different = conformance.told(found)
    assert not different and counts["equal"] > 45
    assert {sql: outcome for sql, outcome in found if sql in MORE} == dict.fromkeys(MORE, "equal")


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


UNSAID = {"later", "shifted"}
"""Words that no accepted statement needs: what reads them is refused, by way of the end of the calendar, and of LOG2."""


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
    found = list(conformance.of_the_clinic(spark, [*extremes.semantics()[::2], *MORE], data, "every word"))
    found += extremes.extremes(spark, random.Random(1), 100)
    counts, different = conformance.told(found)
    assert len(found) >= 150 and not different and counts["equal"] >= 75
    assert {sql: outcome for sql, outcome in found if sql in MORE} == dict.fromkeys(MORE, "equal")
    assert set(every) - said <= UNSAID


@pytest.mark.slow
def test_the_cut_keeps_the_same_units_in_spark(spark: str, tmp_path: Path) -> None:
    """Generated statements, with joins, subqueries and groups of a unit, whose limits cut: equal beside a database where a unit is
    gone too, so that Spark's sums move by what DuckDB's do, of which tests/neighbours says by how much."""
    chance = random.Random(26)
    statements = [*dict.fromkeys(nested(chance)[0] for _ in range(24))]
    whole = clinic.database(random.Random(5), wild=True)
    for data, name in ((whole, "whole"), (clinic.without(whole, whole["patient"][0][0]), "less")):
        (tmp_path / name).mkdir()
        clinic.write(tmp_path / name, data)
        with conformance.both(clinic.schema(tmp_path / name), spark, f"neighbours {name}") as opened:
            found = [(sql, opened.ask(sql)) for sql in statements if _answered(opened.one, sql)]
        counts, different = conformance.told(found)
        assert not different and counts["equal"] >= 8


def _answered(session: Session, sql: str) -> bool:
    try:
        session.execute(sql)
    except Error:
        return False
    return True


@pytest.mark.slow
def test_accepted_statements_in_spark(spark: str) -> None:
    counts, different = conformance.told(conformance.accepted(spark))
    assert not different and counts["equal"] >= 60


@pytest.mark.slow
def test_the_yardstick_in_spark(spark: str, tmp_path: Path) -> None:
    counts, different = conformance.told(conformance.yardstick(spark, tmp_path))
    assert not different and counts == {"equal": len(tpch.ANSWERED)}
