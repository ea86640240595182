"""The scripts of examples/textbook run, and print what holds whatever the noise is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/textbook"

SAID = {
    "randomized_response": (
        "two fair coins, epsilon ln 3: the truth with 75%",
        "dp_randomized_response(female, 0.4)",
        "randomised response, epsilon",
        "price: epsilon 0.5, delta 0; releases 1",
    ),
    "laplace_count_and_sum": (
        "discrete Laplace, scale 10; epsilon 0.1",
        "discrete Laplace, scale 5; epsilon 0.2",
        "one person changes l0 1, linf 30,000, l1 30,000",
        "at epsilon 0.1\n",
        "at epsilon 0\n",
        "in 606 groups",
    ),
    "average": ("by composition +-", "shared pair    +-", "price: epsilon 0.05, delta 0", "releases 0"),
    "most_common_value": (
        "the 3 most common of 18 declared values of plan",
        "its count is within 59 of the largest with 95 %",
        "one choice                          59",
        "any place of a sorted histogram    118",
    ),
    "median": ("each cost by at most 1", "ranks of the one asked", "middle ", "q25 ", "site 6"),
    "auction": (
        "one row changes two scores apart by at most 20",
        "its score is within 1,060 of the largest with 95 %",
        "price: epsilon 0.1, delta 0; releases 1",
        "10,597\n",
    ),
    "gaussian_many_columns": (
        "one person changes l0 5, linf 1, l1 5, l2^2 5",
        "mechanism: discrete Laplace",
        "mechanism: discrete Gaussian",
        "laplace (L1)",
        "gaussian (L2)",
        "price: epsilon 0.5, delta 1e-08",
    ),
    "composition": (
        "remaining: epsilon 3.7",
        "606 groups, epsilon 0.1",
        "100 statements; the ledger charged epsilon 1\n",
        "theorem 3.20 at d = 1e-06 would say epsilon 0.536",
    ),
    "synthetic": (
        "releases 1; remaining",
        "price: epsilon 0, delta 0; releases 0",
        "by 3 of 5 columns: ",
        "38,016 cells, for 5,912 people",
    ),
    "post_processing": ("price: epsilon 0.1, delta 0; releases 1", "price: epsilon 0, delta 0; releases 0"),
    "group_privacy": (
        "a household of 4 together: epsilon 0.4",
        "4        0.4    1.492   1.492",
        "0.4 for a household: +-30",
    ),
    "accountants": (
        "30  laplace            10           3           4           3           7          10",
        "300  gaussian            0           0       1,074       1,229       1,074       1,155",
    ),
    "union_bound": (
        "-- 606 counts at epsilon 0.1, scale 10",
        "the bar of each, +-30",
        "all together, +-94",
        "100,000: +-145",
    ),
    "leaderboard": (
        "1,000 random submissions about 300 people",
        "exact                        0",
        "epsilon 1                  169",
    ),
    "learning": (
        "814 people to learn from, 13 weights",
        "without noise   0.8",
        "  output  ",
        "  objective  ",
        "  descent  ",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py"],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [text for text in SAID[name] if text not in done.stdout] == []
    assert list(tmp_path.iterdir()) == []


def test_every_script_is_listed() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"show"}
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert scripts == set(SAID)
    assert [name for name in sorted(scripts) if f"| `{name}.py` |" not in page] == []


@pytest.mark.parametrize("name", SAID)
def test_a_docstring_states_the_guarantee(name: str) -> None:
    lines = (FOLDER / f"{name}.py").read_text(encoding="utf-8").split('"""')[1].split("\n")
    for word in ("Mechanism", "Sensitivity", "Guarantee", "Source"):
        assert any(line.startswith(f"{word} ") for line in lines), word
