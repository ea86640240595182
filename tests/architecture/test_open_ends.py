"""A function and aggregates that come as one record each work everywhere: tests/support/made_up.py adds them, in its own process.

What is compared: answers with DuckDB's own words, refusals with those of any other function or aggregate.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.support import clinic

ROOT = Path(__file__).parents[2]
Said = dict[str, object]


@pytest.fixture(scope="module")
def said() -> Said:
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.made_up"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found: Said = json.loads(run.stdout)
    return found


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    clinic.fill(connection, clinic.database(random.Random(17), wild=False))
    return connection


ANSWERS = {
    "alone": "SELECT pow(avg(sqrt(age)), 2) FROM patient",
    "beside others": "SELECT count(*), sum(age), pow(avg(sqrt(age)) FILTER (WHERE female), 2), avg(sqrt(age)) FROM patient",
    "of groups": "SELECT site, pow(avg(sqrt(even(age))), 2) FROM patient GROUP BY site ORDER BY site",
    "with a constant": "SELECT site, avg(age * 3), count(*) FROM patient GROUP BY site ORDER BY site",
    "then": "SELECT pow(avg(sqrt(age)), 2) FROM patient",
    "again": "SELECT pow(avg(sqrt(age)), 2) FROM patient",
    "the function": "SELECT count(*), avg(even(age)) FROM patient WHERE even(age) > 30",
    "the function over released rows": "SELECT even(count(*)) FROM patient",
}
REFUSALS = {
    "with an accuracy": ("DPSQL-104", "the error of ROOT_MEAN depends on what is released"),
    "nested": ("DPSQL-109", "ROOT_MEAN() stands inside AVG"),
    "in a condition": ("DPSQL-109", "WHERE cannot use an aggregate"),
    "over released rows": ("DPSQL-102", "write plain SQL, such as POW(AVG(SQRT(n)), 2)"),
    "without its constant": ("DPSQL-106", "write MEAN_TIMES(x, 2)"),
    "with a column for it": ("DPSQL-106", "write MEAN_TIMES(x, 2)"),
    "without bounds": ("DPSQL-201", "ROOT_MEAN(code) needs bounds"),
    "of two": ("DPSQL-106", "write ROOT_MEAN(x)"),
    "the function of two": ("DPSQL-106", "write EVEN(x)"),
}


@pytest.mark.parametrize("mode", ["off", "block"])
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_the_engines_own(name: str, mode: str, said: Said, plain: duckdb.DuckDBPyConnection) -> None:
    found, expected = said[f"{name}, {mode}"], plain.execute(ANSWERS[name]).fetchall()
    assert isinstance(found, list) and len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert [float(value) for value in row] == pytest.approx([float(value) for value in other], rel=1e-6)


@pytest.mark.parametrize("mode", ["off", "block"])
@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_those_of_any_other(name: str, mode: str, said: Said) -> None:
    found, (code, words) = said[f"{name}, {mode}"], REFUSALS[name]
    assert isinstance(found, str) and found.startswith(code) and words in found


def test_they_are_explained_completed_and_listed(said: Said) -> None:
    assert said["completed"] == ["even", "root_mean"]
    explained = json.dumps(said["explained, block"])
    assert "the root mean of" in explained and "even(age) > 30" in explained
    listed = said["listed, off"]
    assert listed == [
        ["even", "EVEN(x)", "the next even number", ""],
        ["root_mean", "ROOT_MEAN(x)", "DOUBLE, the square of the mean of square roots; over people, with noise", ""],
    ]
