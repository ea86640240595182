"""Every part of the bench runs, at a tiny scale: nothing is said here of time."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.bench import __main__ as bench
from tests.bench import (
    accounting,
    aims,
    cubes,
    dashboard,
    growing,
    guard,
    ledgers,
    memory,
    models,
    server,
    statistics,
    stopwatch,
    synthetic,
)
from tests.engines import cluster
from tests.support import tpch

TINY = {
    # a part by itself
    (accounting, "dashboard"): SimpleNamespace(measure=lambda: None),
    (accounting, "PRICES"): accounting.PRICES[:1],
    (accounting, "DELTAS"): accounting.DELTAS[:1],
    (statistics, "ROWS"): 1_000,
    (ledgers, "SIZES"): (10, 20),
    (ledgers, "ROUNDS"): 2,
    (ledgers, "OPENINGS"): 2,
    (dashboard, "REFRESHES"): 4,
    (dashboard, "OPENINGS"): 1,
    (guard, "PLANNED"): 2,
    (guard, "PEOPLE"): {"few": 6_000},
    (guard, "SIZES"): (("block", 20, guard.SIZES[0][2]), ("audit", 20, guard.SIZES[1][2])),
    (guard, "DECISIONS"): 2,
    (guard, "LONG"): 10,
    (cubes, "PEOPLE"): 150_000,
    (cubes, "RELEASES"): 2,
    (cubes, "STATEMENTS"): 4,
    (growing, "DAYS"): 2,
    (growing, "SHOWN"): (1, 2),
    (growing, "ROWS"): dict.fromkeys(growing.ROWS, 5_000),
    (memory, "QUESTIONS"): memory.QUESTIONS[:1],
    (models, "ROWS"): 1_000,
    (models, "SPLITS"): 1,
    (models, "EPSILONS"): models.EPSILONS[:1],
    (server, "CLIENTS"): 2,
    (server, "STATEMENTS"): 2,
    (server, "CROWD"): 3,
    (stopwatch, "CUSTOMERS"): 200,
    (synthetic, "PEOPLE"): (2_500,),
    (synthetic, "ROUNDS"): 1,
    (stopwatch, "ORDERS"): 2_000,
    (tpch, "ANSWERED"): (1, 6),
    (tpch, "QUERIES"): (1, 2, 6),
}
QUICK = ("dashboard", "startup", "small", "statistics", "joint")
SLOWER = tuple(part for part in bench.PARTS if part not in (*QUICK, "spark"))


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for (module, name), value in TINY.items():
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("part", QUICK)
@pytest.mark.few(2)
def test_part_runs(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(part, tmp_path, monkeypatch)
    assert "DuckDB" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("part", SLOWER)
def test_slower_part_runs(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run(part, tmp_path, monkeypatch)


def test_without_a_spark_server_its_part_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one it takes minutes: it is run by hand."""
    monkeypatch.setattr(cluster, "home", lambda: None)
    _run("spark", tmp_path, monkeypatch)
    assert "no Spark server is installed" in capsys.readouterr().out


def test_another_commit_is_measured_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Path] = []

    def of(path: Path, cache: Path, scale: str, rounds: int) -> aims.Numbers:
        asked.append(path)
        assert (path / "dpsql" / "__init__.py").exists()
        return dict.fromkeys(aims.AIMS, (1.0, 1.0))

    monkeypatch.setattr(aims, "_of", of)
    _run("aims", tmp_path, monkeypatch, "--against", "HEAD")
    assert [path == aims.ROOT for path in asked] == [False, True] * 2
    shown = capsys.readouterr().out
    assert all(line in shown for line in aims.AIMS)


def _run(part: str, cache: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    told = ["bench", part, "--scale", "0.01", "--rounds", "1", "--cache", str(cache), *more]
    monkeypatch.setattr(sys, "argv", told)
    bench.main()
