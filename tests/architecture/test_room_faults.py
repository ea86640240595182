"""Faults planted in a room, each a line of a copy of the product: the unit tests of that room alone must fail on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Fault:
    """A text of a file of a room, and what stands there instead."""

    room: str
    file: str
    old: str
    new: str


FAULTS = [
    Fault("mechanisms", "threshold.py", "return 1 + smallest(", "return smallest("),
    Fault("aggregates", "base.py", "most = limits.rows * weight", "most = weight"),
    Fault("accountants", "filters.py", "amount > self.most", "amount > 2 * self.most"),
    Fault(
        "plan", "releases.py", "if not measure.noise.covers(", "if measure.noise is None and not measure.noise.covers("
    ),
    Fault("release", "noisy.py", " & (whole(sums[0]) > 0)", ""),
    Fault("relations", "joins.py", "[product_bound(left.unit.max_rows, right.unit.max_rows)]", "[left.unit.max_rows]"),
    Fault("expressions", "functions/numbers.py", "else interval(-1, 1)", "else interval(0, 1)"),
]


def copied(folder: Path) -> None:
    for part in ("dpsql", "tests", "examples"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def run_of(folder: Path, room: str) -> subprocess.CompletedProcess[str]:
    """The unit tests of a room, of the product in this folder."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"tests/unit/{room}"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.room)
def test_the_room_itself_catches_it(fault: Fault, tmp_path: Path) -> None:
    copied(tmp_path)
    file = tmp_path / "dpsql" / fault.room / fault.file
    text = file.read_text()
    assert text.count(fault.old) == 1
    file.write_text(text.replace(fault.old, fault.new))
    run = run_of(tmp_path, fault.room)
    assert run.returncode == 1 and "FAILED" in run.stdout, run.stdout[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("room", ["plan", "release", "relations"])
def test_without_a_fault_a_copy_passes(room: str, tmp_path: Path) -> None:
    copied(tmp_path)
    run = run_of(tmp_path, room)
    assert run.returncode == 0, run.stdout[-2000:]
