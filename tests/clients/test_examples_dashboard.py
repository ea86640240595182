"""The dashboard of the examples runs as a program, without a display: one price, ten charts, and no more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples/dashboard.py"


@pytest.mark.slow
def test_ten_charts_cost_what_the_cube_costs(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MPLBACKEND")}
    done = subprocess.run(
        [sys.executable, SCRIPT],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=180,
        check=False,
    )
    # matplotlib may say that it prepares its fonts
    assert done.returncode == 0 and "Traceback" not in done.stderr and "Warning" not in done.stderr, done.stderr
    said = done.stdout.splitlines()
    assert re.fullmatch(r"the cube: rho 0\.0202, once; \d+ statements at the default price are left", said[0])
    assert said[1:] == ["10 charts: rho 0", "written: dashboard.png"]
    assert [file.name for file in tmp_path.iterdir()] == ["dashboard.png"]
    assert (tmp_path / "dashboard.png").read_bytes().startswith(b"\x89PNG")


def test_it_is_listed() -> None:
    assert "`dashboard.py`" in (ROOT / "examples/README.md").read_text()
