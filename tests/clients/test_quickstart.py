"""examples/quickstart.py runs as its first lines say, and prints what holds whatever the noise is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_quickstart(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, ROOT / "examples/quickstart.py"],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
    said = done.stdout
    assert re.findall(r"^  (?:price|the stored).*$", said, re.MULTILINE) == [
        "  price: epsilon 0.1; remaining: epsilon 3.9",
        "  price: epsilon 0.1; remaining: epsilon 3.8",
        "  price: epsilon 0.5; remaining: epsilon 3.3",
        "  the stored answer, free; remaining: epsilon 3.3",
    ]
    sites = re.findall(r"^  site (\d)   people ([\d,]+) \+-30$", said, re.MULTILINE)
    assert [site for site, _ in sites] == ["1", "2", "3", "4", "5", "6"] * 2
    assert sites[:6] == sites[6:]
    assert re.findall(r"^  coinsurance_pct (\d+) .* percent [\d.]+ \+-[\d.]+$", said, re.MULTILINE) == [
        "0", "25", "50", "95", "100",
    ]  # fmt: skip
    assert "DPSQL-201: SUM(family_size) has no bounds" in said and "\n           ^^^^^^^^^^^^^^^^\n" in said
    assert re.search(r"^Left of the budget: epsilon 3\.3, enough for \d+ more statements", said, re.MULTILINE)
