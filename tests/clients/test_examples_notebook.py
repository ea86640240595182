"""The notebook of the examples runs as a program, without a display, and says what holds whatever the noise is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples/notebook.py"


@pytest.mark.slow
def test_the_notebook_runs_without_a_display(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MPLBACKEND")}
    done = subprocess.run(
        [sys.executable, SCRIPT],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=120,
        check=False,
    )
    # matplotlib may say that it prepares its fonts
    assert done.returncode == 0 and "Traceback" not in done.stderr and "Warning" not in done.stderr, done.stderr
    for text in ("price: epsilon 0.1", "price: epsilon 0.5; left: 3.5", "asked again: stored answer, free; 5 rows"):
        assert text in done.stdout
    rows = re.findall(r"^ +(0|25|50|95|100) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE)
    assert len(rows) == 5 and all(float(low) <= float(mean) <= float(high) for _, _, mean, low, high in rows)
    assert [file.name for file in tmp_path.iterdir()] == ["visits.png"]
    assert (tmp_path / "visits.png").read_bytes().startswith(b"\x89PNG")


def test_it_is_cells_and_listed() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    cells = re.findall(r"^# %%( \[markdown\])?$", text, re.MULTILINE)
    assert len(cells) == 14 and cells == ["", " [markdown]"][::-1] * 7
    assert "`notebook.py`" in (ROOT / "examples/README.md").read_text(encoding="utf-8")
