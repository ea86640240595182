"""The pictures are what their scripts make, small, and shown where a reader begins."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "grammar_notes/pictures"
LARGEST = 150_000
"""[bytes] of a picture."""


@pytest.mark.slow
def test_the_script_draws_them(tmp_path: Path) -> None:
    for needed in ("matplotlib", "rich", "prompt_toolkit"):
        pytest.importorskip(needed)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    subprocess.run(
        [sys.executable, ROOT / "examples/pictures.py", tmp_path], env={**os.environ, "PYTHONPATH": path}, check=True
    )
    assert sorted(file.name for file in tmp_path.iterdir()) == ["session.svg", "visits.png"]
    assert (tmp_path / "visits.png").read_bytes().startswith(b"\x89PNG")
    text = "".join(ElementTree.parse(tmp_path / "session.svg").getroot().itertext()).replace("\xa0", " ")
    for said in ("price: epsilon 0.1; remaining: epsilon 3.9", "DPSQL-301", "Nothing was charged", "statements_left"):
        assert said in text


def test_they_are_small_and_shown() -> None:
    pictures = sorted(PICTURES.iterdir())
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in pictures] == ["dashboard.png", "session.svg", "visits.png"]
    assert all(file.stat().st_size < LARGEST and f"](grammar_notes/pictures/{file.name})" in page for file in pictures)


def test_they_load_nothing() -> None:
    assert "url(http" not in (PICTURES / "session.svg").read_text(encoding="utf-8")
